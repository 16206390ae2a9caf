// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* For test_persist.py: cli/mount_persist.c without the kernel, which checks the options. */
#include <string.h>
#include <sys/stat.h>

#include "mount_persist.h"

int main(int argc, char **argv)
{
	static const struct cli_command command = { .name = "mount" };
	char name[PATH_MAX];
	struct stat st;

	if (argc > 3)
		return mount_persist(&command, argv[1], argv[2], argv[3], argc > 4);
	if (argc < 3 || stat(argv[2], &st) < 0 || !mount_find_link(argv[1], st.st_rdev, name))
		return CLI_FAILED;
	puts(name);
	return CLI_OK;
}
