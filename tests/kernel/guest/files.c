// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * A mount has no limit for open files, except memory.
 *
 * vm: page=4K lower=tmpfs timeout=120
 */
#include "common.h"

#include <sys/resource.h>

#define FILES 70000u /* more than 16 bits can count */

BEHAVIOUR(seventy_thousand_files_are_open_at_once)
{
	const struct rlimit limit = { FILES + 64, FILES + 64 };
	char name[16];
	unsigned int i;
	int fd;

	MUST(setrlimit(RLIMIT_NOFILE, &limit));
	/* Calls of the lower file system take less time. */
	for (i = 0; i < FILES; i++) {
		snprintf(name, sizeof(name), "f%u", i);
		MUST(mknod(lower_path(name), S_IFREG | 0600, 0));
		EXPECT(open(name, O_RDONLY) >= 0, "open of file %u: %s", i, strerror(errno));
	}
	fd = make_file("one-more", 1, 3 * SMALL);
	read_pattern("read of one more file", fd, 1, 0, 3 * SMALL);
	MUST(fsync(fd));
	for (i = 0; i < FILES; i++) {
		snprintf(name, sizeof(name), "f%u", i);
		MUST(unlink(lower_path(name)));
	}
}

RUN_BEHAVIOURS
