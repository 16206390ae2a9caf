// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Two textbook caches: LRU, and Belady's, which evicts the page that is used last. */
#include <stdlib.h>
#include <string.h>

#include "policy.h"

static void *zeroed(u64 n, size_t size)
{
	void *mem = calloc(n, size);

	if (!mem)
		abort();
	return mem;
}

/* A ring of the cached pages by their last access. An index is page + 1; 0 is the head. */
struct ring {
	u32 *next, *prev;
	u64 n;
};

static void ring_remove(struct ring *ring, u32 at)
{
	ring->next[ring->prev[at]] = ring->next[at];
	ring->prev[ring->next[at]] = ring->prev[at];
}

static void ring_push(struct ring *ring, u32 at)
{
	ring->next[at] = ring->next[0];
	ring->prev[at] = 0;
	ring->prev[ring->next[0]] = at;
	ring->next[0] = at;
}

struct result run_lru(const struct trace *t, const struct limits *limits)
{
	struct ring ring = {
		.next = zeroed((u64)t->pages + 1, sizeof(u32)),
		.prev = zeroed((u64)t->pages + 1, sizeof(u32)),
	};
	u64 pool = (u64)limits->frames * HM_BLOCK_PAGES, i, k = 0;
	u8 *state = zeroed((u64)t->pages + 1, 1); /* 1: cached, 2: dirty */
	struct result r = { 0 };

	for (i = 0; i < t->total; i++, k = trace_next(t, k)) {
		u32 at = (t->access[k] >> 1) + 1;

		if (state[at]) {
			r.hits++;
			ring_remove(&ring, at);
		} else {
			r.read++;
			r.read_second += t->second && i >= t->second && i < t->n;
			if (ring.n < pool) {
				ring.n++;
			} else {
				u32 victim = ring.prev[0];

				r.written += state[victim] >> 1;
				state[victim] = 0;
				ring_remove(&ring, victim);
			}
		}
		ring_push(&ring, at);
		state[at] |= 1 | (t->access[k] & 1) << 1;
	}
	for (i = 1; i <= t->pages; i++)
		r.written += state[i] >> 1;
	r.faults = r.read;
	r.cached = ring.n;
	free(ring.next);
	free(ring.prev);
	free(state);
	return r;
}

/* A heap of the cached pages; the page with the latest next access is first. */
struct heap {
	u32 *page, n;
	u32 *at; /* place of each page in the heap + 1; 0: not cached */
	u64 *key; /* next access of each page */
	bool *dirty;
};

static void heap_put(struct heap *h, u32 i, u32 page)
{
	h->page[i] = page;
	h->at[page] = i + 1;
}

/* Move the page at place @i up or down to restore the order of the heap. */
static void heap_sift(struct heap *h, u32 i)
{
	u32 page = h->page[i];
	u64 key = h->key[page];

	while (i && h->key[h->page[(i - 1) / 2]] < key) {
		heap_put(h, i, h->page[(i - 1) / 2]);
		i = (i - 1) / 2;
	}
	for (;;) {
		u32 child = 2 * i + 1;

		if (child + 1 < h->n && h->key[h->page[child + 1]] > h->key[h->page[child]])
			child++;
		if (child >= h->n || h->key[h->page[child]] <= key)
			break;
		heap_put(h, i, h->page[child]);
		i = child;
	}
	heap_put(h, i, page);
}

/* The distance from each access to the next one of the same page; the trace repeats. */
static u32 *distances(const struct trace *t)
{
	u64 *seen = zeroed(t->pages, sizeof(u64)), i;
	u32 *distance = zeroed(t->n, sizeof(u32));

	for (i = 2 * t->n; i-- > 0;) {
		u32 page = t->access[i % t->n] >> 1;

		if (i < t->n)
			distance[i] = (u32)(seen[page] - i);
		seen[page] = i;
	}
	free(seen);
	return distance;
}

/*
 * Belady's algorithm: no cache of this size that reads single pages on demand reads fewer. Its
 * writes are no lower bound; trace->stored is one.
 */
struct result run_oracle(const struct trace *t, const struct limits *limits)
{
	u64 pool = (u64)limits->frames * HM_BLOCK_PAGES, i, k = 0;
	struct heap h = {
		.page = zeroed(pool, sizeof(u32)),
		.at = zeroed(t->pages, sizeof(u32)),
		.key = zeroed(t->pages, sizeof(u64)),
		.dirty = zeroed(t->pages, sizeof(bool)),
	};
	u32 *distance = distances(t);
	struct result r = { 0 };

	for (i = 0; i < t->total; i++, k = trace_next(t, k)) {
		u32 page = t->access[k] >> 1;

		h.key[page] = i + distance[k];
		if (h.at[page]) {
			r.hits++;
			heap_sift(&h, h.at[page] - 1);
		} else {
			r.read++;
			r.read_second += t->second && i >= t->second && i < t->n;
			if (h.n < pool) {
				h.n++;
				heap_put(&h, h.n - 1, page);
				heap_sift(&h, h.n - 1);
			} else {
				u32 victim = h.page[0];

				r.written += h.dirty[victim];
				h.dirty[victim] = false;
				h.at[victim] = 0;
				heap_put(&h, 0, page);
				heap_sift(&h, 0);
			}
		}
		h.dirty[page] |= t->access[k] & 1;
	}
	for (i = 0; i < t->pages; i++)
		r.written += h.dirty[i];
	r.faults = r.read;
	r.cached = h.n;
	free(h.page);
	free(h.at);
	free(h.key);
	free(h.dirty);
	free(distance);
	return r;
}
