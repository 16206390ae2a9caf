// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Count the system calls and the minor page faults that the library adds to the start of a program.
 * They may hardly be more than those that ld.so makes for an empty library:
 *
 *	costs LIBRARY EMPTY
 *
 * The programs run at fixed addresses, so the numbers of all runs are the same, with one exception:
 * a page fault also maps the cached pages around it. So the smallest numbers of several runs count.
 * A fault maps the pages of an aligned window of 64 KB. A library therefore also changes the number
 * of faults in the libraries below it, because it moves them. So the programs run at each of 16
 * addresses within a window, and the sums count.
 */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define RUNS 4
#define ADDRESSES 16
#define CALL_STOP (SIGTRAP | 0x80)

struct cost {
	long calls, faults;
};

/*
 * The library may cost so much more than an empty one, at all addresses together: a system call and
 * a page fault in each run. It is larger than a window, so in some runs it lies in one more.
 */
static const struct cost most = { .calls = ADDRESSES, .faults = ADDRESSES + ADDRESSES / 4 };

static char *const programs[][4] = {
	{ "/bin/true" },
	{ "/bin/sh", "-c", "exit 0" },
};

#define PROGRAMS (sizeof(programs) / sizeof(programs[0]))

/* The kernel leaves room for the stack above the libraries. Without more, it leaves 128 MB. */
static void costs_set_address(unsigned int pages)
{
	struct rlimit limit;

	getrlimit(RLIMIT_STACK, &limit);
	limit.rlim_cur = (256ul << 20) + pages * 4096ul;
	setrlimit(RLIMIT_STACK, &limit);
}

static int costs_exec(char *const argv[], const char *library)
{
	clearenv();
	if (library)
		setenv("LD_PRELOAD", library, 1);
	personality(ADDR_NO_RANDOMIZE);
	if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
		return 127;
	raise(SIGSTOP);
	execv(argv[0], argv);
	return 127;
}

/* Run a program to its end. Returns false if it cannot be traced, or does not end with status 0. */
static bool costs_run(char *const argv[], const char *library, struct cost *cost)
{
	long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL, stops = 0;
	long before = -1; /* page faults before the program began */
	struct rusage usage;
	pid_t child = fork();
	int status;

	if (!child)
		_exit(costs_exec(argv, library));
	if (child < 0 || waitpid(child, &status, 0) != child || !WIFSTOPPED(status) ||
	    ptrace(PTRACE_SETOPTIONS, child, NULL, options))
		return false;
	do {
		if (ptrace(PTRACE_SYSCALL, child, NULL, NULL) ||
		    wait4(child, &status, 0, &usage) < 0)
			return false;
		if (status >> 8 == (SIGTRAP | PTRACE_EVENT_EXEC << 8))
			before = usage.ru_minflt;
		stops += before >= 0 && WIFSTOPPED(status) && WSTOPSIG(status) == CALL_STOP;
	} while (WIFSTOPPED(status));
	/* Each call stops twice, but for the last one. */
	cost->calls = stops / 2;
	cost->faults = usage.ru_minflt - before;
	return WIFEXITED(status) && !WEXITSTATUS(status);
}

/* The smallest cost of several runs at the address that is set. */
static bool costs_run_often(char *const argv[], const char *library, struct cost *least)
{
	struct cost cost;
	int i;

	for (i = 0; i < RUNS; i++) {
		if (!costs_run(argv, library, &cost))
			return false;
		if (!i || cost.calls < least->calls)
			least->calls = cost.calls;
		if (!i || cost.faults < least->faults)
			least->faults = cost.faults;
	}
	return true;
}

/* The sum of the costs at all addresses. */
static bool costs_measure(char *const argv[], const char *library, struct cost *sum)
{
	struct cost cost;
	unsigned int i;

	*sum = (struct cost){};
	for (i = 0; i < ADDRESSES; i++) {
		costs_set_address(i);
		if (!costs_run_often(argv, library, &cost))
			return false;
		sum->calls += cost.calls;
		sum->faults += cost.faults;
	}
	return true;
}

/* Compare a program with the library and with an empty one. */
static bool costs_compare(char *const argv[], const char *library, const char *empty)
{
	struct cost plain, least, steered;

	if (!costs_measure(argv, NULL, &plain) || !costs_measure(argv, empty, &least) ||
	    !costs_measure(argv, library, &steered)) {
		fprintf(stderr, "%s failed\n", argv[0]);
		return false;
	}
	printf("%s, %d runs: %ld system calls, %ld more with an empty library, %ld more with %s\n",
	       argv[0], ADDRESSES, plain.calls, least.calls - plain.calls,
	       steered.calls - plain.calls, library);
	printf("%s, %d runs: %ld page faults, %ld more with an empty library, %ld more with %s\n",
	       argv[0], ADDRESSES, plain.faults, least.faults - plain.faults,
	       steered.faults - plain.faults, library);
	return steered.calls <= least.calls + most.calls &&
	       steered.faults <= least.faults + most.faults;
}

int main(int argc, char **argv)
{
	struct cost cost;
	bool good = true;
	size_t i;

	if (argc != 3) {
		fprintf(stderr, "usage: costs LIBRARY EMPTY\n");
		return 2;
	}
	if (!costs_run(programs[0], NULL, &cost)) {
		fprintf(stderr, "skipped: no program can be traced here\n");
		return 77;
	}
	for (i = 0; i < PROGRAMS; i++)
		good &= costs_compare(programs[i], argv[1], argv[2]);
	return !good;
}
