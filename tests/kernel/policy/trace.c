// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Synthetic traces, generated from a constant seed. */
#include <stdlib.h>
#include <string.h>
#include <math.h>

#include "policy.h"

const char *const trace_names[] = {
	"sequential", "random",	    "zipf",	"strided",   "records",	     "hot-tenth",
	"streams",    "scan-twice", "scan+hot", "hot-small", "random-store", "hot-store",
	"mixed",      "shift",	    "gradient", NULL,
};

static u64 seed;

static u32 rnd(u32 n)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return (u32)((seed >> 33) * (u64)n >> 31);
}

void trace_add(struct trace *t, u64 page, bool store)
{
	/* Double the array whenever n is a power of two. */
	if (!(t->n & (t->n - 1))) {
		t->access = realloc(t->access, (t->n ? 2 * t->n : 1) * sizeof(*t->access));
		if (!t->access)
			abort();
	}
	t->access[t->n++] = (u32)page << 1 | store;
}

static void scan(struct trace *t, u64 start, u64 end, bool store)
{
	while (start < end)
		trace_add(t, start++, store);
}

/* Return the page that has a rank by heat (0 = the hottest). Hot pages are spread over the file. */
static u32 scatter(const struct trace *t, u32 rank)
{
	return (u32)((rank * 2654435761ull + 12345) % t->pages);
}

/* Zipf's law with an exponent of nearly 1, by the inverse of its integral. */
static u32 zipf(const struct trace *t)
{
	double u = (rnd(1u << 30) + 0.5) / (1u << 30);

	return scatter(t, (u32)(pow((double)t->pages + 1, u) - 1) % t->pages);
}

bool trace_is_made(const char *name)
{
	u32 i;

	for (i = 0; trace_names[i] && strcmp(trace_names[i], name); i++)
		;
	return trace_names[i];
}

struct trace trace_make(const char *name, const struct limits *limits)
{
	u64 pool = (u64)limits->frames * HM_BLOCK_PAGES, n = limits->accesses, i;
	struct trace t = { .name = name, .pages = (u32)(4 * pool) };
	u32 tenth = t.pages / 10;

	seed = 4711;
	if (!strcmp(name, "sequential")) {
		scan(&t, 0, t.pages, false);
	} else if (!strcmp(name, "random")) {
		for (i = 0; i < n; i++)
			trace_add(&t, rnd(t.pages), false);
	} else if (!strcmp(name, "zipf")) {
		for (i = 0; i < n; i++)
			trace_add(&t, zipf(&t), false);
	} else if (!strcmp(name, "strided")) {
		for (i = 0; i < n; i++)
			trace_add(&t, i * 16 % t.pages + i * 16 / t.pages % 16, false);
	} else if (!strcmp(name, "records")) {
		/* Records of 16 KB at random offsets, each read from start to end. */
		for (i = 0; i < n; i++)
			trace_add(&t, i % 4 ? (t.access[t.n - 1] >> 1) + 1 : rnd(t.pages / 4) * 4,
				  false);
	} else if (!strcmp(name, "hot-tenth")) {
		for (i = 0; i < n; i++)
			trace_add(&t, rnd(10) ? rnd(tenth) : tenth + rnd(t.pages - tenth), false);
	} else if (!strcmp(name, "streams")) {
		for (i = 0; i < t.pages; i++)
			trace_add(&t, i % 4 * (t.pages / 4) + i / 4, false);
	} else if (!strcmp(name, "scan-twice")) {
		t.pages = (u32)(2 * pool);
		scan(&t, 0, t.pages, false);
		t.second = t.n;
		scan(&t, 0, t.pages, false);
	} else if (!strcmp(name, "scan+hot")) {
		/* Hot pages fill half of the pool; a scan reads the rest beside them. */
		for (i = 0; i < n; i++)
			trace_add(&t, i % 2 ? rnd((u32)pool / 2) : pool / 2 + i / 2 % (3 * pool),
				  false);
	} else if (!strcmp(name, "hot-small")) {
		/* Random accesses; the whole file fits. */
		t.pages = (u32)pool / 2;
		for (i = 0; i < n; i++)
			trace_add(&t, rnd(t.pages), false);
	} else if (!strcmp(name, "random-store")) {
		for (i = 0; i < n; i++)
			trace_add(&t, rnd(t.pages), rnd(2));
	} else if (!strcmp(name, "hot-store")) {
		/* Read until all blocks are huge; then store to a few random pages. */
		t.pages = (u32)pool / 8;
		for (i = 0; i < n; i++)
			trace_add(&t, rnd(t.pages), i > n / 2 && rnd(50) == 0);
	} else if (!strcmp(name, "mixed")) {
		/* A stream of stores, one of loads, and random stores and loads. */
		for (i = 0; i < n / 4; i++) {
			trace_add(&t, i % pool, true);
			trace_add(&t, pool + i % pool, false);
			trace_add(&t, 2 * pool + rnd((u32)(2 * pool)), false);
			trace_add(&t, 2 * pool + zipf(&t) % (2 * pool), rnd(4) == 0);
		}
	} else if (!strcmp(name, "gradient")) {
		/* One page of the first block is used, and all pages of the last one. */
		for (i = 0; i < n; i++) {
			u32 block = rnd(4 * limits->frames);
			u32 k = rnd(1 + block * HM_BLOCK_PAGES / (4 * limits->frames));

			trace_add(&t, block * HM_BLOCK_PAGES + k * 211 % HM_BLOCK_PAGES, false);
		}
	} else if (!strcmp(name, "shift")) {
		/* The working set moves to another part of the file, which fits. */
		scan(&t, 0, pool + pool / 4, false);
		for (i = 0; i < 4; i++) {
			t.second = i == 3 ? t.n : 0;
			scan(&t, 2 * pool, 2 * pool + pool * 3 / 4, false);
		}
	}
	return t;
}

/* Count the pages of a complete trace, and let it run for @accesses at least. */
void trace_count(struct trace *t, u64 accesses)
{
	u8 *seen = calloc(t->pages, 1);
	u64 i;

	if (!seen)
		abort();
	t->touched = 0;
	t->stored = 0;
	for (i = 0; i < t->n; i++) {
		u32 page = t->access[i] >> 1;

		t->touched += !seen[page];
		t->stored += t->access[i] & 1 && !(seen[page] & 2);
		seen[page] |= 1 | (t->access[i] & 1) << 1;
	}
	free(seen);
	t->total = t->n > accesses ? t->n : accesses;
}

void trace_free(struct trace *trace)
{
	free(trace->access);
}
