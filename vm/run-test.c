// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * In the guest: run one test program, and kill all processes that it leaves.
 *
 *	run-test SECONDS PROGRAM [ARG...]
 *
 * The output of the test goes to stdout, with "| " before each line. The last line is the
 * result: "= exit STATUS", "= signal NUMBER", "= timeout", "= left" (the test passed but left
 * processes) or "= stuck" (a process of the test cannot be killed).
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define GRACE_S 2.0 /* for children of the test to exit */
#define KILL_S 20.0 /* for killed processes: they may wait for I/O */

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* Copies whole lines of the available output. Returns false at its end. */
static bool copy_output(int fd)
{
	static char line[1024];
	static size_t used;
	ssize_t got = read(fd, line + used, sizeof(line) - used);

	if (got < 0)
		return errno == EAGAIN || errno == EINTR;
	if (got == 0) {
		if (used)
			printf("| %.*s\n", (int)used, line);
		used = 0;
		return false;
	}
	used += (size_t)got;
	for (;;) {
		char *end = memchr(line, '\n', used);
		size_t length = end ? (size_t)(end - line) : used;

		if (!end && used < sizeof(line))
			break;
		printf("| %.*s\n", (int)length, line);
		if (end)
			length++;
		used -= length;
		memmove(line, line + length, used);
	}
	fflush(stdout);
	return true;
}

/* As a subreaper, this process inherits the children of processes that exit. */
static bool reap(pid_t test, int *status)
{
	pid_t pid;
	int how;

	while ((pid = waitpid(-1, &how, WNOHANG | __WALL)) > 0)
		if (pid == test)
			*status = how;
	return pid == 0;
}

/* The children of killed processes become children of this one: call it until none is left. */
static void kill_children(void)
{
	char path[64];
	FILE *file;
	int pid;

	snprintf(path, sizeof(path), "/proc/self/task/%d/children", getpid());
	file = fopen(path, "r");
	if (!file)
		return;
	while (fscanf(file, "%d", &pid) == 1) {
		kill(-pid, SIGKILL);
		kill(pid, SIGKILL);
	}
	fclose(file);
}

/* Prints a file of /proc. */
static void show(const char *directory, const char *name)
{
	char path[320], line[512];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%s/%s", directory, name);
	file = fopen(path, "r");
	if (!file)
		return;
	while (fgets(line, sizeof(line), file))
		printf("|   %s%s", line, strchr(line, '\n') ? "" : "\n");
	fclose(file);
}

/* Prints the kernel stack of every thread of user space. */
static void show_stacks(void)
{
	char exe[16], path[320], tasks[320], task[640];
	DIR *all = opendir("/proc"), *threads;
	struct dirent *process, *thread;

	while (all && (process = readdir(all))) {
		int pid = atoi(process->d_name);

		snprintf(path, sizeof(path), "/proc/%s/exe", process->d_name);
		/* Kernel threads have no executable. */
		if (pid <= 1 || pid == getpid() || readlink(path, exe, sizeof(exe)) < 0)
			continue;
		snprintf(tasks, sizeof(tasks), "/proc/%s/task", process->d_name);
		threads = opendir(tasks);
		while (threads && (thread = readdir(threads))) {
			if (thread->d_name[0] == '.')
				continue;
			snprintf(task, sizeof(task), "%d/task/%d", pid, atoi(thread->d_name));
			printf("| thread %s:\n", task);
			show(task, "comm");
			show(task, "stack");
		}
		if (threads)
			closedir(threads);
	}
	if (all)
		closedir(all);
	fflush(stdout);
}

static void sysrq(const char *key)
{
	int fd = open("/proc/sysrq-trigger", O_WRONLY);

	if (fd < 0 || write(fd, key, 1) < 0)
		perror("sysrq");
	if (fd >= 0)
		close(fd);
}

int main(int argc, char **argv)
{
	struct pollfd pipe_in;
	double limit, deadline;
	int ends[2], status = -1;
	bool open_end = true, timeout = false, left = false;
	pid_t test;

	if (argc < 3) {
		fprintf(stderr, "usage: run-test SECONDS PROGRAM [ARG...]\n");
		return 2;
	}
	limit = now() + atof(argv[1]);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	if (pipe2(ends, O_CLOEXEC)) {
		perror("pipe");
		return 2;
	}
	test = fork();
	if (test == 0) {
		int null = open("/dev/null", O_RDONLY);

		setsid();
		dup2(null, 0);
		dup2(ends[1], 1);
		dup2(ends[1], 2);
		execvp(argv[2], argv + 2);
		fprintf(stderr, "%s: %s\n", argv[2], strerror(errno));
		_exit(127);
	}
	close(ends[1]);
	fcntl(ends[0], F_SETFL, O_NONBLOCK);
	pipe_in = (struct pollfd){ .fd = ends[0], .events = POLLIN };

	while (status < 0 && !timeout) {
		poll(&pipe_in, open_end, 50);
		if (open_end && (pipe_in.revents & (POLLIN | POLLHUP)))
			open_end = copy_output(ends[0]);
		reap(test, &status);
		timeout = status < 0 && now() > limit;
	}
	if (timeout) {
		/* Print blocked tasks, running tasks, and held locks if the kernel has lockdep. */
		show_stacks();
		sysrq("w");
		sysrq("l");
		if (access("/proc/lockdep", F_OK) == 0)
			sysrq("d");
	}
	deadline = now() + (timeout ? 0 : GRACE_S);
	while (reap(test, &status)) {
		if (now() > deadline) {
			if (left) {
				puts("= stuck");
				return 1;
			}
			left = true;
			deadline = now() + KILL_S;
		}
		if (left)
			kill_children();
		usleep(20000);
	}
	while (open_end && poll(&pipe_in, 1, 0) > 0 && copy_output(ends[0]))
		;

	if (timeout)
		puts("= timeout");
	else if (WIFSIGNALED(status))
		printf("= signal %d\n", WTERMSIG(status));
	else if (WEXITSTATUS(status) == 0 && left)
		puts("= left");
	else
		printf("= exit %d\n", WEXITSTATUS(status));
	return 0;
}
