// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "run_outside.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach_state.h"
#include "attach_watch.h"

#define OUTSIDE_FD 3 /* the helper's end of the pipe */

/* From the helper to the program. */
struct outside_answer {
	int err;
	char why[256];
};

/*
 * As long as the helper holds a pipe of the program, the other end does not see that the
 * program has closed it.
 */
static int outside_close_all(int answer)
{
	int null = open("/dev/null", O_RDWR), fd;

	for (fd = 0; fd < OUTSIDE_FD; fd++)
		if (null < 0 || dup2(null, fd) < 0)
			close(fd);
	if (answer != OUTSIDE_FD && dup2(answer, OUTSIDE_FD) < 0)
		return -errno;
	return syscall(SYS_close_range, OUTSIDE_FD + 1, ~0u, 0) ? -errno : 0;
}

/* pgrep -f and pkill -f must find only the program by its command line. */
static void outside_clear(char **arguments)
{
	char *begin = arguments[0], *end = begin;

	for (; *arguments; arguments++)
		if (*arguments == end)
			end += strlen(end) + 1;
	memset(begin, 0, (size_t)(end - begin));
}

/* Until the program ends, or calls exec() and then loads the library of `hugemap run`. */
static void outside_watch(struct attach *attach)
{
	struct pollfd program = { .fd = attach->pidfd, .events = POLLIN };
	struct timespec time;
	uint64_t wait;

	/* This command may itself run under `hugemap run`. */
	attach->steered = false;
	do {
		wait = attach_step(attach);
		time.tv_sec = (time_t)(wait / 1000000000u);
		time.tv_nsec = (long)(wait % 1000000000u);
	} while (!attach->steered && ppoll(&program, 1, &time, NULL) <= 0);
}

static void outside_help(pid_t program, const struct attach_settings *settings, int answer_fd)
{
	struct outside_answer answer = {};
	struct attach attach;

	setsid();
	answer.err = chdir("/") ? -errno : outside_close_all(answer_fd);
	if (answer.err)
		snprintf(answer.why, sizeof(answer.why), "%s", strerror(-answer.err));
	else
		answer.err = attach_open(program, settings, &attach, answer.why);
	if (answer.err == -EPERM)
		snprintf(answer.why, sizeof(answer.why), "that takes CAP_SYS_NICE");
	if (write(OUTSIDE_FD, &answer, sizeof(answer)) == sizeof(answer) && !answer.err) {
		close(OUTSIDE_FD);
		outside_watch(&attach);
	}
}

static void outside_read(int fd, void *to, size_t size)
{
	while (read(fd, to, size) < 0 && errno == EINTR)
		;
}

/* fork() without a signal when the child ends. */
static pid_t outside_fork(void)
{
	return (pid_t)syscall(SYS_clone, 0, NULL, NULL, NULL, NULL);
}

/* Returns whether a child whose parent ends becomes a child of this process. */
static bool outside_adopts(void)
{
	int subreaper = 0;

	prctl(PR_GET_CHILD_SUBREAPER, &subreaper, 0, 0, 0);
	return subreaper || getpid() == 1;
}

bool run_outside(const struct attach_settings *settings, char **arguments, char why[256])
{
	struct outside_answer answer = { .err = -EIO };
	bool adopts = outside_adopts();
	pid_t self = getpid(), pid;
	int ends[2];
	char end;

	if (pipe2(ends, O_CLOEXEC)) {
		snprintf(why, 256, "%s", strerror(errno));
		return false;
	}
	pid = outside_fork();
	if (!pid) {
		/* The parent of the helper ends, so that the helper has another parent. */
		if (!adopts && outside_fork())
			_exit(0);
		outside_clear(arguments);
		outside_help(self, settings, ends[1]);
		_exit(0);
	}
	snprintf(answer.why, sizeof(answer.why), "%s", strerror(pid < 0 ? errno : EIO));
	close(ends[1]);
	if (pid > 0 && !adopts)
		waitpid(pid, NULL, __WCLONE);
	if (pid > 0) {
		outside_read(ends[0], &answer, sizeof(answer));
		/* Wait until the helper has closed its end of the pipe. */
		outside_read(ends[0], &end, sizeof(end));
	}
	close(ends[0]);
	if (pid > 0 && adopts && answer.err)
		waitpid(pid, NULL, __WCLONE);
	memcpy(why, answer.why, sizeof(answer.why));
	return !answer.err;
}
