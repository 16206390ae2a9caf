// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The dirty set: which units are dirty, in offset order.
 *
 * The papers keep dirty pages in red-black trees beside the index, so that marking a page dirty
 * does not serialise with lookups. Here each index node has a bitmap: a bit for each child with a
 * dirty unit. Marking a unit costs one atomic OR per level whose bit is still clear. The walk in
 * offset order needs no other structure.
 *
 * Three rules guarantee that a sync finds every store:
 *   - A write fault returns only after the bits are set, even if another task set the state. A
 *     fault that finds the unit dirty already calls hm_dirty_ensure().
 *   - Bits are cleared, and the walk is done, only under file->dirty_lock. A walker that clears a
 *     summary bit checks the level below it again. A marker sets the lower level first and then
 *     tests the summary, so at least one of the two sees the other.
 *   - The bit of the unit itself stays set during its write-back, so that a sync finds the unit
 *     and waits.
 */
#include "bits.h"
#include "cache.h"
#include "dirty.h"
#include "file.h"
#include "index.h"
#include "pool.h"
#include "state.h"

static void hm_dirty_bit_ensure(unsigned long *map, u32 nr)
{
	if (!hm_bit_test(map, nr))
		hm_bit_set(map, nr);
}

void hm_dirty_ensure(const struct hm_pos *pos)
{
	if (pos->base)
		hm_dirty_bit_ensure(pos->base->dirty, pos->base_slot);
	hm_dirty_bit_ensure(pos->leaf->dirty, pos->leaf_slot);
	/* The walk always reads the head. */
	if (!pos->dir)
		return;
	hm_dirty_bit_ensure(pos->dir->dirty, pos->dir_slot);
	hm_dirty_bit_ensure(pos->file->dirty, pos->root_slot);
}

bool hm_confirm_dirty(struct hm_file *file, u64 pgoff)
{
	hm_index_guard();
	struct hm_pos pos;

	if (!hm_index_find(file, pgoff, &pos) ||
	    hm_word_state(hm_index_word(&pos, pgoff)) != HM_DIRTY)
		return false;
	hm_dirty_ensure(&pos);
	return true;
}

/* This clears only the bit of the unit. A later walk clears the summary bits. */
void hm_dirty_clear(const struct hm_pos *pos)
{
	if (pos->base)
		hm_bit_clear(pos->base->dirty, pos->base_slot);
	else
		hm_bit_clear(pos->leaf->dirty, pos->leaf_slot);
}

/*
 * Is the pool above its dirty limit? @dirtied: the pages that this CPU has made dirty, including
 * the last @pages. The check reads the counters of all CPUs, so it is done only once in dirty_step
 * pages.
 */
static bool hm_dirty_above_limit(struct hm_cache *cache, u64 dirtied, u64 pages)
{
	return dirtied % cache->dirty_step < pages && hm_cache_dirty_above_limit(cache);
}

static struct hm_dirty_counter *hm_dirty_counter_of(const struct hm_pos *pos)
{
	return &pos->file->dirty_counter[hm_block_of(pos->pgoff) % HM_DIRTY_COUNTERS];
}

static inline void hm_dirty_start_age(struct hm_file *file)
{
	u64 none = 0;

	if (!hm_atomic_read(&file->dirty_since))
		hm_atomic_cas(&file->dirty_since, &none, hm_atomic_read(&file->cache->clock));
}

bool hm_dirty_add(const struct hm_pos *pos)
{
	struct hm_cache *cache = pos->file->cache;
	u64 pages = hm_pos_pages(pos);
	u64 dirtied = hm_atomic_add(&hm_local_shard(cache)->dirtied, (s64)pages);

	hm_atomic_add(&hm_dirty_counter_of(pos)->pages, (s64)pages);
	hm_dirty_start_age(pos->file);
	return hm_dirty_above_limit(cache, dirtied, pages);
}

void hm_dirty_sub(const struct hm_pos *pos)
{
	struct hm_file *file = pos->file;
	u64 pages = hm_pos_pages(pos), since;

	hm_atomic_add(&hm_local_shard(file->cache)->cleaned, (s64)pages);
	if (hm_atomic_add(&hm_dirty_counter_of(pos)->pages, -(s64)pages) != 0 ||
	    hm_file_dirty_pages(file))
		return;
	since = hm_atomic_read(&file->dirty_since);
	while (since && !hm_atomic_cas(&file->dirty_since, &since, 0))
		;
	/*
	 * Another CPU may make a unit dirty before dirty_since becomes 0:
	 * CPU 0 (here): sets dirty_since to 0; reads the counters of the file.
	 * CPU 1 (store): adds to a counter; reads dirty_since, and starts the age if it is 0.
	 * Both writes are full barriers. So CPU 1 reads 0, or CPU 0 reads the new count and starts
	 * the age.
	 */
	if (hm_file_dirty_pages(file))
		hm_dirty_start_age(file);
}

/* The lowest bit at or above @from, or @bits if there is none. */
static u32 hm_dirty_next_bit(const unsigned long *map, u32 from, u32 bits)
{
	u32 i = from / HM_BITS_PER_LONG;
	unsigned long word;

	if (from >= bits)
		return bits;
	word = hm_bits_read(map, i) & (~0ul << (from % HM_BITS_PER_LONG));
	while (!word) {
		if (++i >= HM_BITMAP_LONGS(bits))
			return bits;
		word = hm_bits_read(map, i);
	}
	from = i * HM_BITS_PER_LONG + hm_ctz(word);
	return from < bits ? from : bits;
}

/*
 * Clear a summary bit after a walk that found no bit set below it. The caller holds dirty_lock, but
 * a marker takes no lock:
 * CPU 0 (walk): finds no bit below; clears the summary bit; reads the level below again.
 * CPU 1 (marker): sets a bit below; reads the summary bit, and sets it if it is clear.
 * Both writes are full barriers. So CPU 1 reads the clear summary bit, or CPU 0 reads the bit below
 * and sets the summary bit again.
 */
static void hm_dirty_summary_update(unsigned long *summary, u32 slot, const unsigned long *below,
				    u32 bits)
{
	hm_race_point();
	hm_bit_clear(summary, slot);
	hm_race_point();
	if (hm_dirty_next_bit(below, 0, bits) < bits)
		hm_bit_set(summary, slot);
}

/*
 * Find the first dirty page at or after @from in a block. @page is 0 for a huge unit. If a split
 * block has no dirty page, clear its bit in the leaf. Set the bit again if a marker has set a bit
 * below it, or if the block has been joined: the bit may then belong to the huge unit, because a
 * marker changes the state first and sets the bit second.
 */
static bool hm_dirty_next_in_block(struct hm_leaf *leaf, u32 slot, u32 from, u32 *page)
{
	struct hm_base *base;

	if (hm_word_state(hm_atomic_read(&leaf->block[slot].word)) != HM_SPLIT) {
		*page = 0;
		return true;
	}
	base = hm_ptr_read(&leaf->block[slot].base);
	*page = hm_dirty_next_bit(base->dirty, from, HM_BLOCK_PAGES);
	if (*page < HM_BLOCK_PAGES)
		return true;
	if (from == 0) {
		hm_dirty_summary_update(leaf->dirty, slot, base->dirty, HM_BLOCK_PAGES);
		if (hm_word_state(hm_atomic_read(&leaf->block[slot].word)) != HM_SPLIT)
			hm_bit_set(leaf->dirty, slot);
	}
	return false;
}

static bool hm_dirty_next_in_leaf(struct hm_leaf *leaf, u64 first, u64 from, u64 *pgoff)
{
	u32 start = (u32)((from - first) >> HM_BLOCK_ORDER);
	u32 slot = start;
	u32 page;

	for (; (slot = hm_dirty_next_bit(leaf->dirty, slot, HM_NODE_SLOTS)) < HM_NODE_SLOTS;
	     slot++) {
		page = slot == start ? (u32)(from & (HM_BLOCK_PAGES - 1)) : 0;
		if (hm_dirty_next_in_block(leaf, slot, page, &page)) {
			*pgoff = first + ((u64)slot << HM_BLOCK_ORDER) + page;
			return true;
		}
	}
	return false;
}

static bool hm_dirty_next_in_dir(struct hm_dir *dir, u64 first, u64 from, u64 *pgoff)
{
	u32 shift = HM_NODE_ORDER + HM_BLOCK_ORDER;
	u32 slot = (u32)((from - first) >> shift);

	for (; (slot = hm_dirty_next_bit(dir->dirty, slot, HM_NODE_SLOTS)) < HM_NODE_SLOTS;
	     slot++) {
		struct hm_leaf *leaf = hm_ptr_read(&dir->leaf[slot]);
		u64 start = first + ((u64)slot << shift);

		if (!leaf) {
			/* A marker was late, and the leaf was removed. It may be there again. */
			hm_bit_clear(dir->dirty, slot);
			if (hm_ptr_read(&dir->leaf[slot]))
				hm_bit_set(dir->dirty, slot);
			continue;
		}
		if (hm_dirty_next_in_leaf(leaf, start, from > start ? from : start, pgoff))
			return true;
		if (from <= start)
			hm_dirty_summary_update(dir->dirty, slot, leaf->dirty, HM_NODE_SLOTS);
	}
	return false;
}

bool hm_dirty_next(struct hm_file *file, u64 from, u64 end, u64 *pgoff)
{
	u32 shift = 2 * HM_NODE_ORDER + HM_BLOCK_ORDER;
	struct hm_leaf *head = hm_ptr_read(&file->head);
	u32 slot = (u32)(from >> shift);

	if (from >= end)
		return false;
	if (head && hm_block_of(from) < HM_HEAD_BLOCKS &&
	    hm_dirty_next_in_leaf(head, 0, from, pgoff))
		return *pgoff < end;
	for (; (slot = hm_dirty_next_bit(file->dirty, slot, HM_NODE_SLOTS)) < HM_NODE_SLOTS;
	     slot++) {
		/* There is a root: the bit was set after it, and hm_dirty_next_bit() acquires. */
		struct hm_dir *dir = hm_ptr_read(hm_file_dir(file, slot));
		u64 start = (u64)slot << shift;

		if (start >= end)
			return false;
		if (hm_dirty_next_in_dir(dir, start, from > start ? from : start, pgoff))
			return *pgoff < end;
		if (from <= start)
			hm_dirty_summary_update(file->dirty, slot, dir->dirty, HM_NODE_SLOTS);
	}
	return false;
}

/*
 * The result is never below the pages that were dirty during the whole call. A page is added to
 * @dirtied before another CPU can see it dirty, clean it and add it to @cleaned; both additions are
 * full barriers. The loops read all @cleaned first, so each page that they subtract is included in
 * the @dirtied that they read afterwards.
 */
u64 hm_cache_dirty_pages(const struct hm_cache *cache)
{
	u64 sum = 0;
	u32 i;

	for (i = 0; i < cache->nshards; i++)
		sum -= hm_atomic_read(&cache->shards[i].cleaned);
	hm_race_point();
	for (i = 0; i < cache->nshards; i++)
		sum += hm_atomic_read(&cache->shards[i].dirtied);
	return sum;
}

bool hm_cache_dirty_above_limit(const struct hm_cache *cache)
{
	return hm_cache_dirty_pages(cache) > hm_pool_dirty_limit(cache);
}

/*
 * 0 means that no page was dirty during the whole call: such a page would be in the counter of its
 * block whenever that is read. Counters per CPU would not guarantee this. They could add up to 0
 * beside a page that stays dirty: CPU 0 makes a second page dirty after its counter was read, and
 * CPU 1 cleans that page before its counter is read.
 */
u64 hm_file_dirty_pages(const struct hm_file *file)
{
	u64 sum = 0;
	u32 i;

	for (i = 0; i < HM_DIRTY_COUNTERS; i++)
		sum += hm_atomic_read(&file->dirty_counter[i].pages);
	return sum;
}
