// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The policy simulator runs the cache on a trace, and compares its page sizes and its eviction with
 * LRU and with an oracle. A hit is an access that does not wait for a read, so all accesses of a
 * stream with read-ahead are hits. LRU and the oracle write dirty pages at eviction.
 *
 *	policy [OPTION]... [TRACE | FILE]...
 *
 * A TRACE is the name of a trace in trace.c, or "made" for all of them (default). A FILE is a trace
 * in traces/, or your own trace by record.py; four copies of it run in turns.
 *
 *	--pool FRAMES	pool of a TRACE, which also determines the size of its file; default
 *			256. The pool of a FILE is a quarter of its size
 *	--pools		three pools for each trace: 64, 256 and 1024 frames, or an eighth, a
 *			quarter and half of a FILE; 50 times as many accesses if all touched
 *			pages fit
 *	--accesses N	least accesses of each trace, which repeats; default 250000
 *	--json OUTPUT	write all results
 *	--check		fail if page=auto breaks a promise
 *	--bloat		print another table: cached memory as a share of touched memory
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy.h"

#define COPIES 4u
#define POOLS 3u
#define MORE_HITS 50u

enum policy {
	AUTO,
	HUGE,
	BASE,
	LRU,
	ORACLE,
	POLICIES,
};

static const char *const policy_names[] = { "auto", "2M", "4K", "LRU 4K", "oracle" };

struct settings {
	struct limits limits;
	bool checks, pools, bloat;
	FILE *json;
	u64 accesses; /* of all traces so far */
	u32 runs, broken;
};

static double share(u64 part, u64 of)
{
	return of ? (double)part / (double)of : 0;
}

static double mb(u64 pages)
{
	return (double)pages / 256;
}

static void promise(struct settings *s, const struct trace *t, const char *what, double is,
		    double most)
{
	bool kept = is <= most;

	printf("  %s %s: %.3f, at most %.2f\n", kept ? "ok:  " : "NOT: ", what, is, most);
	if (!kept) {
		fprintf(stderr, "policy: %s: %s is %.3f\n", t->name, what, is);
		s->broken++;
	}
}

static void promise_beyond(struct settings *s, const struct trace *t, const struct result *r,
			   u32 util)
{
	if (r->promoted)
		promise(s, t, "pages that were never accessed, in a promoted block",
			share(r->beyond, HM_BLOCK_PAGES), (100 - util) / 100.0);
}

/* How much page=auto may read, as a multiple of the better page size. */
static double most_read(const struct trace *t)
{
	/*
	 * The large new working set stays in the cache from its third scan on, so page=auto reads
	 * it once more.
	 */
	if (!strcmp(t->name, "shift"))
		return 1.5;
	/* LMDB appends a few pages at a time, and the cache takes that for a stream. */
	if (!strcmp(t->name, "lmdb-mixed.trace"))
		return 1.6;
	/* The cache treats some accesses as a stream until they prove to be random. */
	return t->recorded ? 1.25 : 1.07;
}

static void check(struct settings *s, const struct trace *t, const struct result *r)
{
	u64 better = r[HUGE].read < r[BASE].read ? r[HUGE].read : r[BASE].read;

	promise(s, t, "bytes read, of the better page size's", share(r[AUTO].read, better),
		most_read(t));
	if (!strcmp(t->name, "random"))
		promise(s, t, "bytes read, of those accessed", share(r[AUTO].read, t->total), 1.2);
	/*
	 * One write of several dirty parts of a huge unit also writes the clean pages between them.
	 */
	better = r[HUGE].written < r[BASE].written ? r[HUGE].written : r[BASE].written;
	if (better)
		promise(s, t, "bytes written, of the better page size's",
			share(r[AUTO].written, better), 2);
	promise_beyond(s, t, &r[AUTO], s->limits.util);
	if (t->second)
		promise(s, t, "read by the second scan, of the file",
			share(r[AUTO].read_second, t->pages), 0.6);
}

static void print(const struct trace *t, const struct limits *limits, const struct result *r)
{
	u32 i;

	printf("%s: %llu accesses to %u MB, pool %u MB; %u MB touched, %u stored to\n", t->name,
	       (unsigned long long)t->total, t->pages >> 8, limits->frames * 2, t->touched >> 8,
	       t->stored >> 8);
	printf("  %-7s %7s %9s %9s %9s %6s %9s\n", "", "hits", "faults", "MB read", "written",
	       "huge", "promoted");
	for (i = 0; i < POLICIES; i++)
		printf("  %-7s %6.2f%% %9llu %9.1f %9.1f %5.1f%% %9llu\n", policy_names[i],
		       100 * share(r[i].hits, t->total), (unsigned long long)r[i].faults,
		       mb(r[i].read), mb(r[i].written), 100 * share(r[i].huge, t->total),
		       (unsigned long long)r[i].promoted);
	if (t->second)
		printf("  second: auto %.3f, 2M %.3f, 4K %.3f, LRU %.3f, oracle %.3f of it\n",
		       share(r[AUTO].read_second, t->pages), share(r[HUGE].read_second, t->pages),
		       share(r[BASE].read_second, t->pages), share(r[LRU].read_second, t->pages),
		       share(r[ORACLE].read_second, t->pages));
}

static void write_json(FILE *json, const struct trace *t, const struct limits *limits,
		       const struct result *r, bool first)
{
	u32 i;

	fprintf(json,
		"%s\n  {\"trace\": \"%s\", \"recorded\": %s, \"accesses\": %llu, \"file_mb\": %u, "
		"\"pool_mb\": %u, \"touched_mb\": %.1f, \"stored_mb\": %.1f, \"policies\": {",
		first ? "" : ",", t->name, t->recorded ? "true" : "false",
		(unsigned long long)t->total, t->pages >> 8, limits->frames * 2, mb(t->touched),
		mb(t->stored));
	for (i = 0; i < POLICIES; i++)
		fprintf(json,
			"%s\n    \"%s\": {\"hits\": %.6f, \"huge\": %.6f, \"faults\": %llu, "
			"\"read_mb\": %.1f, \"written_mb\": %.1f, \"promoted\": %llu, "
			"\"beyond_max\": %.4f, \"beyond_mean\": %.4f}",
			i ? "," : "", policy_names[i], share(r[i].hits, t->total),
			share(r[i].huge, t->total), (unsigned long long)r[i].faults, mb(r[i].read),
			mb(r[i].written), (unsigned long long)r[i].promoted,
			share(r[i].beyond, HM_BLOCK_PAGES),
			share(r[i].beyond_all, r[i].promoted * HM_BLOCK_PAGES));
	fprintf(json, "\n  }}");
	fflush(json);
}

static void run(struct settings *s, const struct trace *t, const struct limits *limits)
{
	struct result r[POLICIES];

	r[AUTO] = run_core(t, limits, HM_SIZE_AUTO);
	r[HUGE] = run_core(t, limits, HM_SIZE_HUGE);
	r[BASE] = run_core(t, limits, HM_SIZE_BASE);
	r[LRU] = run_lru(t, limits);
	r[ORACLE] = run_oracle(t, limits);
	print(t, limits, r);
	if (s->checks)
		check(s, t, r);
	fflush(stdout);
	if (s->json)
		write_json(s->json, t, limits, r, !s->runs);
	s->runs++;
	s->accesses += t->total;
}

/*
 * With a pool that holds the whole file, compare cached with touched memory, like Ingens (OSDI
 * 2016).
 */
static void bloat(struct settings *s, const struct trace *t)
{
	static const u32 utils[] = { 50, 70, 90 };
	struct limits limits = { .frames = t->pages / HM_BLOCK_PAGES * 5 / 4 + 64, .util = 90 };
	struct result r;
	u32 i;

	if (!s->runs++)
		printf("cached memory / touched memory (accesses through 2 MB pages)\n"
		       "%-14s %8s %15s %15s %15s %15s %15s\n",
		       "", "touched", "2M", "auto 50 %", "auto 70 %", "auto 90 %", "4K");
	r = run_core(t, &limits, HM_SIZE_HUGE);
	printf("%-14.14s %5u MB %7.2f (%3.0f%%)", t->name, t->touched >> 8,
	       share(r.cached, t->touched), 100 * share(r.huge, t->total));
	for (i = 0; i < sizeof(utils) / sizeof(utils[0]); i++) {
		limits.util = utils[i];
		r = run_core(t, &limits, HM_SIZE_AUTO);
		printf("  %7.2f (%3.0f%%)", share(r.cached, t->touched),
		       100 * share(r.huge, t->total));
		if (r.beyond * 100 > (u64)(100 - utils[i]) * HM_BLOCK_PAGES) {
			fprintf(stderr, "policy: %s: %llu pages were read for a block at %u %%\n",
				t->name, (unsigned long long)r.beyond, utils[i]);
			s->broken++;
		}
	}
	r = run_core(t, &limits, HM_SIZE_BASE);
	printf("  %7.2f (%3.0f%%)\n", share(r.cached, t->touched), 100 * share(r.huge, t->total));
}

static void run_named(struct settings *s, const char *name)
{
	static const u32 frames[POOLS] = { 64, 256, 1024 };
	struct limits limits = s->limits;
	bool made = trace_is_made(name);
	struct trace t = { 0 };
	u32 i;

	if (!made)
		t = trace_read(name, s->bloat ? 1 : COPIES);
	for (i = 0; i < (s->pools ? POOLS : 1); i++) {
		if (made && s->pools)
			limits.frames = frames[i];
		if (made)
			t = trace_make(name, &limits);
		else
			limits.frames = t.pages / HM_BLOCK_PAGES / (s->pools ? 8 >> i : 4);
		trace_count(&t, s->bloat ? 0 : limits.accesses);
		/* Hits are fast to simulate. */
		if (s->pools && t.touched <= limits.frames * HM_BLOCK_PAGES)
			t.total *= MORE_HITS;
		if (s->bloat)
			bloat(s, &t);
		else
			run(s, &t, &limits);
		if (made)
			trace_free(&t);
	}
	if (!made)
		trace_free(&t);
}

static void run_made(struct settings *s)
{
	u32 i;

	for (i = 0; trace_names[i]; i++)
		run_named(s, trace_names[i]);
}

static void usage(const char *program)
{
	fprintf(stderr,
		"usage: %s [--pool FRAMES | --pools] [--accesses N] [--json OUTPUT] "
		"[--check | --bloat] [TRACE | FILE | made]...\n",
		program);
	exit(2);
}

static int options(struct settings *s, int argc, char **argv)
{
	int i;

	for (i = 1; i < argc && !strncmp(argv[i], "--", 2); i++) {
		if (!strcmp(argv[i], "--check"))
			s->checks = true;
		else if (!strcmp(argv[i], "--pools"))
			s->pools = true;
		else if (!strcmp(argv[i], "--bloat"))
			s->bloat = true;
		else if (!strcmp(argv[i], "--pool") && i + 1 < argc)
			s->limits.frames = (u32)strtoul(argv[++i], NULL, 0);
		else if (!strcmp(argv[i], "--accesses") && i + 1 < argc)
			s->limits.accesses = strtoull(argv[++i], NULL, 0);
		else if (!strcmp(argv[i], "--json") && i + 1 < argc)
			s->json = fopen(argv[++i], "w");
		else
			usage(argv[0]);
	}
	if (s->limits.frames < 64 || !s->limits.accesses)
		usage(argv[0]);
	return i;
}

int main(int argc, char **argv)
{
	struct settings s = { .limits = { .frames = 256, .util = 90, .accesses = 250000 } };
	int i = options(&s, argc, argv);

	if (s.json)
		fprintf(s.json, "{\"schema\": \"hugemap-policy-1\", \"runs\": [");
	if (i == argc)
		run_made(&s);
	for (; i < argc; i++) {
		if (!strcmp(argv[i], "made"))
			run_made(&s);
		else
			run_named(&s, argv[i]);
	}
	if (s.json) {
		fprintf(s.json, "\n]}\n");
		fclose(s.json);
	}
	if (!s.bloat)
		printf("%llu accesses in %u runs\n", (unsigned long long)s.accesses, s.runs);
	return s.broken > 0;
}
