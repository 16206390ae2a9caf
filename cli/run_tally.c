// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "run_tally.h"

#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "run_helper.h"
#include "tally.h"
#include "target.h"

/* The helper's descriptors. It holds the end for writing, as poll() otherwise returns at once. */
enum {
	TALLY_PROGRAM = RUN_HELPER_FDS,
	TALLY_ERROR,
	TALLY_READ,
	TALLY_WRITE
};

/**
 * struct tally - argument of the helper
 * @pid: PROGRAM
 * @least: text; smaller mappings are not steered
 */
struct tally {
	int pid;
	const char *least;
};

static const char tally_names[TALLY_REASONS][28] = {
	[TARGET_GO] = "Go",
	[TARGET_STATIC] = "linked statically",
	[TARGET_MACHINE] = "32 bits or another machine",
	[TARGET_LIBC] = "another C library",
	[TARGET_SANITIZER] = "sanitizer",
	[TARGET_SECURE] = "another user's rights",
	[TARGET_UNREADABLE] = "unreadable",
	[TALLY_LIMITED] = "limited system calls",
	[TALLY_OUTSIDE] = "helped from outside",
};

static void tally_read(unsigned int counts[TALLY_MOST])
{
	unsigned char bytes[4096];
	ssize_t n = read(TALLY_READ, bytes, sizeof(bytes)), i;

	for (i = 0; i < n; i++)
		if (bytes[i] < TALLY_MOST)
			counts[bytes[i]]++;
}

/* Returns whether it has printed a line. */
static bool tally_print_unsteered(int pid, const unsigned int counts[TALLY_REASONS])
{
	unsigned int i, all = 0, listed = 0;

	for (i = 0; i < TALLY_REASONS; i++)
		all += counts[i];
	if (!all)
		return false;
	dprintf(TALLY_ERROR, "hugemap run: %d: %u program%s not steered, or only in part: ", pid,
		all, all == 1 ? " was" : "s were");
	for (i = 0; i < TALLY_REASONS; i++)
		if (counts[i])
			dprintf(TALLY_ERROR, "%s%u %s", listed++ ? ", " : "", counts[i],
				tally_names[i]);
	dprintf(TALLY_ERROR, "\n");
	return true;
}

static void tally_print_nothing(const struct tally *tally, bool excluded)
{
	if (excluded)
		dprintf(TALLY_ERROR,
			"hugemap run: %d: nothing was steered: --include or --exclude leaves out the files\n",
			tally->pid);
	else
		dprintf(TALLY_ERROR,
			"hugemap run: %d: nothing was steered: there was no mapping of a file of %s or more\n",
			tally->pid, tally->least);
}

static void tally_print(const struct tally *tally, const unsigned int counts[TALLY_MOST])
{
	unsigned int closed = counts[TALLY_CLOSED];

	if (!tally_print_unsteered(tally->pid, counts) && !counts[TALLY_MAPPED])
		tally_print_nothing(tally, counts[TALLY_EXCLUDED]);
	if (closed)
		dprintf(TALLY_ERROR,
			"hugemap run: %d: no summary of %u program%s that closed all descriptors\n",
			tally->pid, closed, closed == 1 ? "" : "s");
}

static void tally_watch(const void *arg)
{
	const struct tally *tally = arg;
	struct pollfd fds[] = {
		{ .fd = TALLY_PROGRAM, .events = POLLIN },
		{ .fd = TALLY_READ, .events = POLLIN },
	};
	unsigned int counts[TALLY_MOST] = {};
	struct run_helper_answer answer = {};

	if (!run_helper_answer(&answer))
		return;
	do {
		poll(fds, 2, -1);
		tally_read(counts);
	} while (!fds[0].revents);
	tally_print(tally, counts);
}

void run_tally_pass(int pid, int fd, const struct stat *st)
{
	char value[TALLY_PIPE];

	snprintf(value, sizeof(value), "%d:%d:%lu", pid, fd, (unsigned long)st->st_ino);
	setenv(TALLY_VARIABLE, value, 1);
}

void run_tally(char **arguments, const char *least)
{
	const struct tally tally = { getpid(), least };
	int ends[2], fds[4], err;
	struct run_helper helper = {
		.body = tally_watch,
		.arg = &tally,
		.fds = fds,
		.nfds = 4,
		.arguments = arguments,
	};
	struct run_helper_answer answer;
	struct stat st;

	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK))
		return;
	fds[0] = (int)syscall(SYS_pidfd_open, tally.pid, 0);
	fds[1] = STDERR_FILENO;
	fds[2] = ends[0];
	fds[3] = ends[1];
	err = fds[0] < 0 || fstat(ends[0], &st) ? -1 : run_helper_start(&helper, &answer);
	close(fds[0]);
	close(ends[0]);
	close(ends[1]);
	if (err)
		return;
	run_tally_pass(answer.pid, TALLY_READ, &st);
}
