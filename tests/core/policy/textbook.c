// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* What others would make of it: the least recently used page, or the one used last of all. */
#include <stdlib.h>
#include <string.h>

#include "policy.h"

/*
 * A heap of the pages that are cached, by a key that each has: the smallest leaves. LRU: the
 * time of its last access; the oracle: that of its next one, the later, the smaller.
 */
struct heap {
	u32 *page, n; /* the heap */
	u32 *at; /* of each page, its place + 1; 0: it is not cached */
	u64 *key;
	bool *dirty;
};

static void put(struct heap *h, u32 i, u32 page)
{
	h->page[i] = page;
	h->at[page] = i + 1;
}

/* From its place to where it belongs. */
static void settle(struct heap *h, u32 i)
{
	u32 page = h->page[i];
	u64 key = h->key[page];

	while (i && h->key[h->page[(i - 1) / 2]] > key) {
		put(h, i, h->page[(i - 1) / 2]);
		i = (i - 1) / 2;
	}
	for (;;) {
		u32 child = 2 * i + 1;

		if (child + 1 < h->n && h->key[h->page[child + 1]] < h->key[h->page[child]])
			child++;
		if (child >= h->n || h->key[h->page[child]] >= key)
			break;
		put(h, i, h->page[child]);
		i = child;
	}
	put(h, i, page);
}

static struct result run(const struct trace *t, const struct limits *limits, const u64 *next)
{
	u64 pool = (u64)limits->frames * HM_BLOCK_PAGES, i;
	struct heap h = {
		.page = calloc(pool, sizeof(u32)),
		.at = calloc(t->pages, sizeof(u32)),
		.key = calloc(t->pages, sizeof(u64)),
		.dirty = calloc(t->pages, sizeof(bool)),
	};
	struct result r = { 0 };

	for (i = 0; i < t->n; i++) {
		u32 page = t->access[i].page;

		h.key[page] = next ? ~next[i] : i;
		if (h.at[page]) {
			r.hits++;
			settle(&h, h.at[page] - 1);
		} else {
			r.read++;
			r.read_second += t->second && i >= t->second;
			if (h.n < pool) {
				h.n++;
				put(&h, h.n - 1, page);
				settle(&h, h.n - 1);
			} else {
				u32 victim = h.page[0];

				r.written += h.dirty[victim];
				h.dirty[victim] = false;
				h.at[victim] = 0;
				put(&h, 0, page);
				settle(&h, 0);
			}
		}
		h.dirty[page] |= t->access[i].store;
	}
	for (i = 0; i < t->pages; i++)
		r.written += h.dirty[i];
	r.faults = r.read;
	free(h.page);
	free(h.at);
	free(h.key);
	free(h.dirty);
	return r;
}

struct result run_lru(const struct trace *trace, const struct limits *limits)
{
	return run(trace, limits, NULL);
}

struct result run_oracle(const struct trace *trace, const struct limits *limits)
{
	u64 *next = calloc(trace->n, sizeof(u64)), *seen = malloc(trace->pages * sizeof(u64));
	struct result r;
	u64 i;

	memset(seen, 0xff, trace->pages * sizeof(u64));
	for (i = trace->n; i-- > 0;) {
		next[i] = seen[trace->access[i].page];
		seen[trace->access[i].page] = i;
	}
	r = run(trace, limits, next);
	free(next);
	free(seen);
	return r;
}
