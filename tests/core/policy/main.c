// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The policy simulator: what the choice of page size, and of what stays, makes of a trace,
 * beside what a textbook or an oracle would. A hit is an access that waits for no read, so a
 * stream that is read ahead of has all of them; what a textbook writes, it writes at eviction.
 *
 *	policy [--pool FRAMES] [--accesses N] [--check] [TRACE | FILE]...
 *
 * A TRACE is one of those in trace.c, all by default; a FILE has a page and r or w in each
 * line. With --check, what is promised of page=auto is asserted.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy.h"

enum policy {
	AUTO,
	HUGE,
	BASE,
	LRU,
	ORACLE,
	POLICIES,
};

static const char *const policy_names[] = { "auto", "2M", "4K", "LRU 4K", "oracle" };

static u32 broken;

static void promise(const struct trace *t, const char *what, double is, double most)
{
	bool kept = is <= most;

	printf("  %s %s: %.3f, at most %.2f\n", kept ? "ok:  " : "NOT: ", what, is, most);
	if (!kept) {
		fprintf(stderr, "policy: %s: %s is %.3f\n", t->name, what, is);
		broken++;
	}
}

static void check(const struct trace *t, const struct result *r)
{
	u64 better = r[HUGE].read < r[BASE].read ? r[HUGE].read : r[BASE].read;

	/* What is large and new stays from its third time on: "shift" reads it once more. */
	promise(t, "bytes read, of the better page size's", (double)r[AUTO].read / (double)better,
		strcmp(t->name, "shift") ? 1.07 : 1.5);
	if (!strcmp(t->name, "random"))
		promise(t, "bytes read, of those asked for", (double)r[AUTO].read / (double)t->n,
			1.2);
	/* A store makes all of a huge unit dirty, and no core can see which page it was. */
	better = r[HUGE].written < r[BASE].written ? r[HUGE].written : r[BASE].written;
	if (better)
		printf("  told: bytes written, of the better page size's: %.3f\n",
		       (double)r[AUTO].written / (double)better);
	if (r[AUTO].promoted)
		promise(t, "of a block that is promoted, what nobody asked for",
			(double)r[AUTO].beyond / HM_BLOCK_PAGES, 0.10);
	if (t->second)
		promise(t, "read by the second scan, of the file",
			(double)r[AUTO].read_second / t->pages, 0.6);
}

static void run(const struct trace *t, const struct limits *limits, bool checks)
{
	struct result r[POLICIES];
	u32 i;

	r[AUTO] = run_core(t, limits, HM_ACCESS_AUTO);
	r[HUGE] = run_core(t, limits, 0);
	r[BASE] = run_core(t, limits, HM_ACCESS_BASE);
	r[LRU] = run_lru(t, limits);
	r[ORACLE] = run_oracle(t, limits);
	printf("%s: %llu accesses to %u MB, pool %u MB\n", t->name, (unsigned long long)t->n,
	       t->pages >> 8, limits->frames * 2);
	printf("  %-7s %7s %9s %9s %9s %6s %9s\n", "", "hits", "faults", "MB read", "written",
	       "huge", "promoted");
	for (i = 0; i < POLICIES; i++)
		printf("  %-7s %6.2f%% %9llu %9.1f %9.1f %5.1f%% %9llu\n", policy_names[i],
		       100.0 * (double)r[i].hits / (double)t->n, (unsigned long long)r[i].faults,
		       (double)r[i].read / 256, (double)r[i].written / 256, 100 * r[i].huge,
		       (unsigned long long)r[i].promoted);
	if (t->second)
		printf("  second: auto %.3f, 2M %.3f, 4K %.3f, LRU %.3f, oracle %.3f of it\n",
		       (double)r[AUTO].read_second / t->pages,
		       (double)r[HUGE].read_second / t->pages,
		       (double)r[BASE].read_second / t->pages,
		       (double)r[LRU].read_second / t->pages,
		       (double)r[ORACLE].read_second / t->pages);
	if (checks)
		check(t, r);
	fflush(stdout);
}

static void run_named(const char *name, const struct limits *limits, bool checks)
{
	struct trace t;
	u32 i;

	for (i = 0; trace_names[i] && strcmp(trace_names[i], name); i++)
		;
	t = trace_names[i] ? trace_make(name, limits) : trace_read(name);
	run(&t, limits, checks);
	trace_free(&t);
}

int main(int argc, char **argv)
{
	struct limits limits = { .frames = 256, .accesses = 250000 };
	bool checks = false;
	int i = 1;
	u32 k;

	for (; i < argc && !strncmp(argv[i], "--", 2); i++) {
		if (!strcmp(argv[i], "--check"))
			checks = true;
		else if (!strcmp(argv[i], "--pool") && i + 1 < argc)
			limits.frames = (u32)strtoul(argv[++i], NULL, 0);
		else if (!strcmp(argv[i], "--accesses") && i + 1 < argc)
			limits.accesses = strtoull(argv[++i], NULL, 0);
		else
			i = argc;
	}
	if (i > argc || limits.frames < 64 || !limits.accesses) {
		fprintf(stderr, "usage: %s [--pool FRAMES] [--accesses N] [--check] [TRACE]...\n",
			argv[0]);
		return 2;
	}
	for (k = 0; i == argc && trace_names[k]; k++)
		run_named(trace_names[k], &limits, checks);
	for (; i < argc; i++)
		run_named(argv[i], &limits, checks);
	return broken > 0;
}
