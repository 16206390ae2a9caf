// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The audit of an idle cache: its states, frames, queues and counters must agree exactly.
 * The model checks the contents of the pages.
 */
#include "books.h"

#include "cache/bits.h"
#include "cache/cache.h"
#include "cache/dirty.h"
#include "cache/file.h"
#include "cache/index.h"
#include "cache/pool.h"
#include "cache/queue.h"
#include "cache/state.h"
#include "sched.h"

#define MAX_PAGES 4096u
/* Pages that are checked beyond the end of each file. */
#define BEYOND (HM_NODE_SLOTS * HM_BLOCK_PAGES)

struct books {
	struct hm_cache *cache;
	bool beyond; /* pages beyond the end of a file may be cached */
	bool used[MAX_PAGES]; /* base pages of the pool that a unit uses */
	u64 resident, dirty;
};

static void check_frame(struct books *books, const struct hm_unit *unit, enum hm_state state)
{
	struct hm_desc *desc = hm_desc_of(books->cache, unit->frame);
	u64 first = hm_frame_offset(books->cache, unit->frame) >> HM_PAGE_SHIFT;
	u32 i;

	sim_check(hm_frame_is_base(books->cache, unit->frame) == (unit->npages == 1),
		  "a frame of the wrong size");
	for (i = 0; i < unit->npages; i++) {
		sim_check(!books->used[first + i], "a frame belongs to two units");
		books->used[first + i] = true;
	}
	sim_check(desc->word && desc->pgoff == unit->pgoff, "a frame does not know its unit");
	sim_check(state != HM_CLEAN || hm_queued(desc), "clean page %llu is in no queue",
		  (unsigned long long)unit->pgoff);
}

static void check_unit(struct books *books, struct hm_file *file, const struct hm_unit *unit,
		       enum hm_state state)
{
	u64 at;

	sim_check(state == HM_CLEAN || state == HM_DIRTY, "page %llu is in state %d at rest",
		  (unsigned long long)unit->pgoff, state);
	sim_check(unit->npages == 1 || books->beyond ||
			  unit->pgoff + unit->npages <= hm_file_size(file) >> HM_PAGE_SHIFT,
		  "the block at the end of a file is cached whole");
	check_frame(books, unit, state);
	books->resident += unit->npages;
	if (state != HM_DIRTY)
		return;
	books->dirty += unit->npages;
	sim_check(hm_dirty_next(file, unit->pgoff, unit->pgoff + unit->npages, &at),
		  "dirty page %llu has no dirty bit", (unsigned long long)unit->pgoff);
}

/* The list of empty nodes was freed, so a node without a unit was not in it. */
static void check_used(bool used, u64 first, u64 pages)
{
	sim_check(used, "the node of %llu pages at page %llu is empty, and was in no list",
		  (unsigned long long)pages, (unsigned long long)first);
}

static void check_leaf(const struct hm_leaf *leaf, u64 first, u32 blocks)
{
	u32 units = 0, nbase = 0, pages, i, j;

	for (i = 0; i < blocks; i++) {
		struct hm_base *base = leaf->block[i].base;
		u64 start = first + i * HM_BLOCK_PAGES;

		units += hm_word_state(hm_atomic_read(&leaf->block[i].word)) != HM_ABSENT;
		nbase += !!base;
		for (j = pages = 0; base && j < hm_base_words(base, start); j++) {
			enum hm_state state =
				hm_word_state(hm_atomic_read(hm_base_word(base, start + j)));

			pages += state != HM_ABSENT && state != HM_FROZEN;
		}
		check_used(!base || pages, start, HM_BLOCK_PAGES);
		sim_check(!base || hm_atomic_read(&base->resident) == pages,
			  "a node of base pages with %u units counts %llu", pages,
			  (unsigned long long)hm_atomic_read(&base->resident));
	}
	check_used(units || nbase, first, (u64)blocks * HM_BLOCK_PAGES);
	sim_check(hm_atomic_read(&leaf->resident) == units && leaf->nbase == nbase,
		  "a leaf with %u units and %u nodes counts %llu and %u", units, nbase,
		  (unsigned long long)hm_atomic_read(&leaf->resident), leaf->nbase);
}

/* Each node of the file must be in the index. */
static void check_nodes(struct hm_file *file)
{
	const struct hm_node *node;
	u32 nodes = !!file->root, i, j;

	if (file->head) {
		check_leaf(file->head, 0, HM_HEAD_BLOCKS);
		nodes += 1 + file->head->nbase;
		nodes += file->head->block[0].base && file->head->block[0].base->rest;
	}
	for (i = 0; i < HM_NODE_SLOTS; i++) {
		struct hm_dir **dir = hm_file_dir(file, i);

		nodes += dir && *dir;
		for (j = 0; dir && *dir && j < HM_NODE_SLOTS; j++) {
			const struct hm_leaf *leaf = (*dir)->leaf[j];

			if (!leaf)
				continue;
			check_leaf(leaf,
				   ((u64)i * HM_NODE_SLOTS + j) * HM_NODE_SLOTS * HM_BLOCK_PAGES,
				   HM_NODE_SLOTS);
			nodes += 1 + leaf->nbase;
		}
	}
	for (node = file->nodes; node; node = node->next)
		nodes--;
	sim_check(!nodes, "%d nodes are missing in the list of a file", (int)nodes);
}

static void check_file(struct books *books, struct hm_file *file)
{
	u64 end = hm_file_npages(file) + BEYOND, page = 0, dirty = books->dirty;

	while (page < end) {
		struct hm_unit unit;
		enum hm_state state = hm_peek(file, page, &unit);

		if (state == HM_ABSENT || state == HM_FAILED) {
			page++;
			continue;
		}
		sim_check(page < hm_file_npages(file) || books->beyond,
			  "page %llu is cached, beyond the end", (unsigned long long)page);
		check_unit(books, file, &unit, state);
		page = unit.pgoff + unit.npages;
	}
	sim_check(books->dirty - dirty == hm_file_dirty_pages(file),
		  "the dirty page count of a file is wrong");
	check_nodes(file);
}

static void check_counters(struct hm_cache *cache)
{
	u64 faults = hm_cache_count(cache, HM_C_FAULTS);
	u64 parts = hm_cache_count(cache, HM_C_HITS) + hm_cache_count(cache, HM_C_FILLS) +
		    hm_cache_count(cache, HM_C_ZERO_FILLS);

	sim_check(parts == faults, "%llu hits, fills and zero fills, but %llu faults",
		  (unsigned long long)parts, (unsigned long long)faults);
	sim_check(hm_cache_count(cache, HM_C_AHEAD_USED) +
				  hm_cache_count(cache, HM_C_AHEAD_WASTED) <=
			  hm_cache_count(cache, HM_C_AHEAD),
		  "more read-ahead pages were used or wasted than were read ahead");
}

/* Free base frames of isolated huge frames, which are not allocated until the frame is empty. */
static u64 draining_pages(const struct hm_cache *cache)
{
	u64 pages = 0;
	u32 i;

	for (i = 0; i < cache->nframes; i++)
		if (cache->container[i].isolated)
			pages += cache->container[i].nfree;
	return pages;
}

void books_check(struct hm_cache *cache, bool beyond)
{
	u64 free = hm_cache_free_pages(cache) + draining_pages(cache);
	u64 offline = hm_atomic_read(&cache->offline) * HM_BLOCK_PAGES;
	u64 all = (u64)cache->nframes * HM_BLOCK_PAGES;
	struct books books = { .cache = cache, .beyond = beyond };
	struct hm_file *file;

	sim_check(all <= MAX_PAGES, "the pool is too large for the audit: raise MAX_PAGES");
	for (file = cache->files; file; file = file->next)
		check_file(&books, file);
	sim_check(books.resident + free + offline == all,
		  "%llu pages cached + %llu free + %llu offline, but the pool has %llu",
		  (unsigned long long)books.resident, (unsigned long long)free,
		  (unsigned long long)offline, (unsigned long long)all);
	sim_check(books.dirty == hm_cache_dirty_pages(cache), "the dirty page count is wrong");
	check_counters(cache);
}
