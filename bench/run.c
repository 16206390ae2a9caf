// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * A run, from the side of the parent: it starts a child in a memory group, and ends a hung child.
 */
#include "run.h"
#include "bench.h"
#include "guard.h"
#include "limit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define POLL_US 10000 /* us */

_Noreturn static void run_start_child(struct run *run)
{
	signal(SIGINT, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	signal(SIGHUP, SIG_DFL);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	guard_release();
	if (!limits_join(run->limits))
		die(run, "the memory group could not be entered: %s", strerror(errno));
	run->child(run);
	_exit(0);
}

static bool run_wait(struct run *run, pid_t pid, int *status)
{
	double start = cli_now();

	while (waitpid(pid, status, WNOHANG) == 0) {
		const char *why = NULL;

		if (bench_interrupted())
			why = "interrupted";
		else if (cli_now() - start > run->timeout_s)
			why = "it hung: killed after";
		if (!why) {
			usleep(POLL_US);
			continue;
		}
		kill(pid, SIGKILL);
		waitpid(pid, status, 0);
		if (bench_interrupted())
			snprintf(run->result->error, sizeof(run->result->error), "%s", why);
		else
			snprintf(run->result->error, sizeof(run->result->error), "%s %.0f s", why,
				 run->timeout_s);
		return false;
	}
	return true;
}

/* Report how the child ended, unless it has reported its result itself. */
static void run_explain(struct result *result, int status)
{
	if (result->ok || result->error[0])
		return;
	if (WIFSIGNALED(status))
		snprintf(result->error, sizeof(result->error), "it died: %s%s",
			 strsignal(WTERMSIG(status)),
			 WTERMSIG(status) == SIGKILL ? " (out of memory within its limit?)" : "");
	else
		snprintf(result->error, sizeof(result->error), "it ended with status %d",
			 WEXITSTATUS(status));
}

/*
 * The host of a virtual machine takes memory that has been free for some seconds, and returns it
 * slowly, at some milliseconds per 2 MB. Configs with huge pages would pay for that, and others
 * would not. So write to memory before each run: then all configs get memory that the guest owns.
 */
static void run_warm_memory(uint64_t bytes)
{
	char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	uint64_t offset;

	if (at == MAP_FAILED)
		return;
	madvise(at, bytes, MADV_HUGEPAGE);
	for (offset = 0; offset < bytes; offset += CONTENT_PAGE)
		*(volatile char *)(at + offset) = 1;
	munmap(at, bytes);
}

static void run_in_child(struct run *run)
{
	struct result *result = run->result;
	int status = 0;
	pid_t pid;

	run_warm_memory(run->limit_bytes > run->pool_bytes ? run->limit_bytes : run->pool_bytes);
	fflush(NULL);
	pid = fork();
	if (pid < 0) {
		snprintf(result->error, sizeof(result->error), "fork: %s", strerror(errno));
		return;
	}
	if (!pid)
		run_start_child(run);
	if (!run_wait(run, pid, &status) || status)
		result->ok = false;
	run_explain(result, status);
	result->group_peak_bytes = limits_peak(run->limits);
}

bool run_carry_out(struct run *run)
{
	struct result *result = run->result;
	double warm = result->warm;

	*result = (struct result){ .warm = warm };
	if (run->read_ahead_kb && !limits_set_read_ahead(run->limits, run->read_ahead_kb))
		snprintf(result->error, sizeof(result->error), "read_ahead_kb could not be set");
	else if (run->limit_bytes && !limits_begin(run->limits, run->limit_bytes, run->swap))
		snprintf(result->error, sizeof(result->error), "no memory group could be made: %s",
			 strerror(errno));
	else
		run_in_child(run);
	limits_end(run->limits);
	if (run->read_ahead_kb)
		limits_restore_read_ahead(run->limits);
	return result->ok;
}
