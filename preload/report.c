// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "report.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "call.h"
#include "settings.h"
#include "steer.h"
#include "tally.h"
#include "tell.h"

/*
 * A duplicate of standard error, made when the program starts. Many programs close standard
 * error before they end, and number 2 may then be one of their own files. A program may close
 * the duplicate as well, so report_is_error() compares the inode before anything is written.
 */
static int report_fd = -1;
static struct stat report_file;

static bool report_stat(int fd, struct stat *st)
{
	return !call(SYS_newfstatat, fd, (long)"", (long)st, AT_EMPTY_PATH, 0, 0);
}

static bool report_is_error(int fd)
{
	struct stat st;

	return fd >= 0 && report_stat(fd, &st) && st.st_dev == report_file.st_dev &&
	       st.st_ino == report_file.st_ino;
}

void report_open(void)
{
	if (report_stat(STDERR_FILENO, &report_file))
		report_fd = (int)call(SYS_fcntl, STDERR_FILENO, F_DUPFD_CLOEXEC, 100, 0, 0, 0);
}

static void report_line(const char *line, void *arg)
{
	call(SYS_write, report_fd, (long)line, (long)strlen(line), 0, 0, 0);
	call(SYS_write, report_fd, (long)"\n", 1, 0, 0, 0);
}

__attribute__((destructor)) void report_print(void)
{
	const struct steer_page *page = report_fd >= 0 ? steer_own_page() : NULL;
	long pid = call(SYS_getpid, 0, 0, 0, 0, 0, 0);
	char line[128];

	if (!page || page->pid != (uint32_t)pid)
		return;
	if (report_is_error(report_fd)) {
		snprintf(line, sizeof(line), "hugemap run: %ld: %s%s%s", pid,
			 program_invocation_short_name, *settings.rank ? ", rank " : "",
			 settings.rank);
		report_line(line, NULL);
		tell_page(page, true, report_line, NULL);
		if (page->refused)
			tally_add(settings.tally, TALLY_LIMITED);
	} else {
		tally_add(settings.tally, TALLY_CLOSED);
	}
	report_fd = -1;
}
