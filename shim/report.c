// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* The summary on standard error when the program ends. */
#include "shim.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "steer.h"
#include "tell.h"

/*
 * Standard error, as it was at the beginning. By its end a program has often closed it,
 * and what has its number then may be a file of the program's.
 */
static int error_fd = -1;
static struct stat error_file;

static bool is_error(int fd)
{
	struct stat st;

	return fd >= 0 && !fstat(fd, &st) && st.st_dev == error_file.st_dev &&
	       st.st_ino == error_file.st_ino;
}

void report_open(void)
{
	int saved = errno;

	if (shim.summary && !fstat(STDERR_FILENO, &error_file))
		error_fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 100);
	errno = saved;
}

static void put(const char *line, void *arg)
{
	dprintf(error_fd, "%s\n", line);
}

/* Of the many small programs that a program may start, most have nothing to tell. */
__attribute__((destructor)) static void summary(void)
{
	const struct steer_page *page = shim.summary ? steer_page() : NULL;

	if (!page || page->pid != (uint32_t)getpid() || !is_error(error_fd))
		return;
	dprintf(error_fd, "hugemap run: %d: %s\n", (int)getpid(), program_invocation_short_name);
	tell_page(page, true, put, NULL);
}
