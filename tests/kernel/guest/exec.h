/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * For tests that run a program from the mount: the test copies its own executable there, and
 * main() of the copy exits with ANSWER.
 */
#ifndef TESTS_KERNEL_EXEC_H
#define TESTS_KERNEL_EXEC_H

#include "common.h"

#define ANSWER 42

static inline bool is_copy(int argc, char **argv)
{
	return argc == 2 && !strcmp(argv[1], "--answer");
}

static inline void copy_self(const char *to)
{
	int in = open_file("/proc/self/exe", O_RDONLY);
	int out = open_file(to, O_WRONLY | O_CREAT | O_TRUNC);
	unsigned char *buf = buffer(HUGE);
	ssize_t n;

	while ((n = read(in, buf, HUGE)) > 0)
		EXPECT(write(out, buf, (size_t)n) == n, "write: %s", strerror(errno));
	MUST(fchmod(out, 0755));
	close(out);
	close(in);
	free(buf);
}

static inline void exec_copy(void *arg)
{
	char *const argv[] = { arg, "--answer", NULL };

	execv(arg, argv);
	FAIL("execve of %s: %s", (char *)arg, strerror(errno));
}

static inline void expect_copy_runs(const char *path)
{
	pid_t pid = start_child(exec_copy, (void *)path);
	int status;

	MUST(waitpid(pid, &status, 0));
	EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == ANSWER,
	       "%s ended with status %#x, expected exit(%d)", path, status, ANSWER);
}

#endif /* TESTS_KERNEL_EXEC_H */
