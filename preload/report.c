// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* The summary on standard error when the program ends. */
#include "preload.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "steer.h"
#include "tell.h"

/*
 * A duplicate of standard error, made when the program starts. Many programs close standard
 * error before they end, and number 2 may then be one of their own files. A program may close
 * the duplicate as well, so is_error() compares the inode before anything is written to it.
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

	if (preload.summary && !fstat(STDERR_FILENO, &error_file))
		error_fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 100);
	errno = saved;
}

static void put(const char *line, void *arg)
{
	dprintf(error_fd, "%s\n", line);
}

/* A process without a steered mapping prints nothing, such as most children of a shell. */
__attribute__((destructor)) static void summary(void)
{
	const struct steer_page *page = preload.summary ? steer_page() : NULL;

	if (!page || page->pid != (uint32_t)getpid() || !is_error(error_fd))
		return;
	dprintf(error_fd, "hugemap run: %d: %s\n", (int)getpid(), program_invocation_short_name);
	tell_page(page, true, put, NULL);
}
