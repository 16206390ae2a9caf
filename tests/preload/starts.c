// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Start programs many times and check that each ends as it does without the library:
 *
 *	LD_PRELOAD=build/libhugemap-run.so HUGEMAP_RUN_MIN_SIZE=1M starts COUNT FILE
 *
 * FILE is created with 4 MB. Two of the programs map it, so that the monitor thread starts just
 * before the program ends or starts another program. A start that takes a minute has hung.
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define FILE_BYTES (4ul << 20)
#define TIMEOUT_MS 60000
#define SELF "/proc/self/exe"

static const struct {
	char *argv[4];
	int status;
	const char *output;
	bool by_fork; /* start it by fork() and execv() instead of posix_spawn() */
} starts[] = {
	{ { "/bin/true" }, 0, "", false },
	{ { "/bin/sh", "-c", "exit 7" }, 7, "", false },
	{ { "/bin/sh", "-c", "/bin/echo text; exec /bin/cat /dev/null" }, 0, "text\n", false },
	{ { SELF, "map" }, 3, "mapped\n", false },
	{ { SELF, "map" }, 3, "mapped\n", true },
	{ { SELF, "map-exec" }, 5, "mapped\n", false },
};

#define STARTS (sizeof(starts) / sizeof(starts[0]))

static int starts_map(bool exec)
{
	int fd = open(getenv("STARTS_FILE"), O_RDONLY);
	const char *at = mmap(NULL, FILE_BYTES, PROT_READ, MAP_SHARED, fd, 0);

	if (at == MAP_FAILED || at[FILE_BYTES / 2] || write(STDOUT_FILENO, "mapped\n", 7) != 7)
		return 1;
	if (exec)
		execl("/bin/sh", "sh", "-c", "exit 5", NULL);
	return 3;
}

static pid_t starts_begin(size_t i, int out)
{
	posix_spawn_file_actions_t actions;
	pid_t pid;
	int err;

	if (starts[i].by_fork) {
		pid = fork();
		if (!pid) {
			dup2(out, STDOUT_FILENO);
			execv(starts[i].argv[0], (char **)starts[i].argv);
			_exit(127);
		}
		return pid;
	}
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
	err = posix_spawn(&pid, starts[i].argv[0], &actions, NULL, (char **)starts[i].argv,
			  environ);
	posix_spawn_file_actions_destroy(&actions);
	return err ? -1 : pid;
}

/* Reads until the end of the output. Returns false if the program has hung. */
static bool starts_read(int fd, char *text, size_t size)
{
	struct pollfd ready = { .fd = fd, .events = POLLIN };
	size_t length = 0;
	ssize_t n = 1;

	while (n > 0 && length < size - 1) {
		if (poll(&ready, 1, TIMEOUT_MS) <= 0)
			return false;
		n = read(fd, text + length, size - 1 - length);
		length += n > 0 ? (size_t)n : 0;
	}
	text[length] = '\0';
	return true;
}

/* The output ends when the program ends, so waitpid() waits only a moment. */
static bool starts_check(size_t i, long number)
{
	char text[64] = "";
	int pipe_fds[2], status = 0;
	bool ended;
	pid_t pid;

	if (pipe2(pipe_fds, O_CLOEXEC))
		return false;
	pid = starts_begin(i, pipe_fds[1]);
	close(pipe_fds[1]);
	ended = pid > 0 && starts_read(pipe_fds[0], text, sizeof(text));
	close(pipe_fds[0]);
	if (pid > 0 && !ended)
		kill(pid, SIGABRT);
	if (pid > 0 && waitpid(pid, &status, 0) == pid && ended && WIFEXITED(status) &&
	    WEXITSTATUS(status) == starts[i].status && !strcmp(text, starts[i].output))
		return true;
	fprintf(stderr, "start %ld, %s %s: %s, wait status %#x, output \"%s\"\n", number,
		starts[i].argv[0], starts[i].argv[1] ? starts[i].argv[1] : "",
		ended ? "ended" : "hung or not started", (unsigned int)status, text);
	return false;
}

int main(int argc, char **argv)
{
	long count, i;
	int fd;

	if (argc == 2)
		return starts_map(!strcmp(argv[1], "map-exec"));
	if (argc != 3) {
		fprintf(stderr, "usage: starts COUNT FILE\n");
		return 2;
	}
	count = atol(argv[1]);
	fd = open(argv[2], O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, FILE_BYTES) || setenv("STARTS_FILE", argv[2], 1)) {
		perror(argv[2]);
		return 1;
	}
	for (i = 0; i < count; i++)
		if (!starts_check((size_t)i % STARTS, i))
			break;
	unlink(argv[2]);
	printf("%ld of %ld programs ended as they do without the library\n", i, count);
	return i < count;
}
