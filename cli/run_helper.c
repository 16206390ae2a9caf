// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "run_helper.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define HELPER_ANSWER (RUN_HELPER_FDS - 1)
#define HELPER_MOST 5u /* the answer and @fds */

/*
 * As long as the helper holds a pipe of the program, the other end does not see that the
 * program has closed it.
 */
static int helper_close_others(const struct run_helper *helper, int answer)
{
	int null = open("/dev/null", O_RDWR), copy[HELPER_MOST], fd;
	size_t i, n = helper->nfds + 1;

	/* The copies are above all numbers that dup2() overwrites. */
	for (i = 0; i < n; i++) {
		copy[i] = fcntl(i ? helper->fds[i - 1] : answer, F_DUPFD, 64);
		if (copy[i] < 0)
			return -errno;
	}
	for (fd = 0; fd < HELPER_ANSWER; fd++)
		if (null < 0 || dup2(null, fd) < 0)
			close(fd);
	for (i = 0; i < n; i++)
		if (dup2(copy[i], HELPER_ANSWER + (int)i) < 0)
			return -errno;
	return syscall(SYS_close_range, HELPER_ANSWER + (unsigned int)n, ~0u, 0) ? -errno : 0;
}

/* pgrep -f and pkill -f must find only the program by its command line. */
static void helper_clear(char **arguments)
{
	char *begin = arguments[0], *end = begin;

	for (; *arguments; arguments++)
		if (*arguments == end)
			end += strlen(end) + 1;
	memset(begin, 0, (size_t)(end - begin));
}

/* fork() without a signal when the child ends. */
static pid_t helper_fork(void)
{
	return (pid_t)syscall(SYS_clone, 0, NULL, NULL, NULL, NULL);
}

/* Return whether orphans become children of this process: it is PID 1 or a subreaper. */
static bool helper_is_adopted(void)
{
	int subreaper = 0;

	prctl(PR_GET_CHILD_SUBREAPER, &subreaper, 0, 0, 0);
	return subreaper || getpid() == 1;
}

static void helper_run(const struct run_helper *helper, int answer)
{
	helper_clear(helper->arguments);
	setsid();
	if (!chdir("/") && !helper_close_others(helper, answer))
		helper->body(helper->arg);
}

static void helper_read(int fd, void *to, size_t size)
{
	while (read(fd, to, size) < 0 && errno == EINTR)
		;
}

bool run_helper_answer(struct run_helper_answer *answer)
{
	answer->pid = getpid();
	if (write(HELPER_ANSWER, answer, sizeof(*answer)) != sizeof(*answer) || answer->err)
		return false;
	close(HELPER_ANSWER);
	return true;
}

/* Set the answer to an error of this process. */
static int helper_fail(struct run_helper_answer *answer, int err)
{
	answer->err = err;
	snprintf(answer->why, sizeof(answer->why), "%s", strerror(-err));
	return err;
}

int run_helper_start(const struct run_helper *helper, struct run_helper_answer *answer)
{
	bool adopted = helper_is_adopted();
	int ends[2];
	pid_t pid;
	char end;

	if (pipe2(ends, O_CLOEXEC))
		return helper_fail(answer, -errno);
	pid = helper_fork();
	if (!pid) {
		/* The parent of the helper ends, so that the helper has another parent. */
		if (!adopted && helper_fork())
			_exit(0);
		helper_run(helper, ends[1]);
		_exit(0);
	}
	helper_fail(answer, pid < 0 ? -errno : -EIO);
	close(ends[1]);
	if (pid > 0 && !adopted)
		waitpid(pid, NULL, __WCLONE);
	if (pid > 0) {
		helper_read(ends[0], answer, sizeof(*answer));
		/* Wait until the helper has closed its end of the pipe. */
		helper_read(ends[0], &end, sizeof(end));
	}
	close(ends[0]);
	if (pid > 0 && adopted && answer->err)
		waitpid(pid, NULL, __WCLONE);
	return answer->err;
}
