// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The dirty set: which units are dirty, in offset order.
 *
 * The papers keep dirty pages in red-black trees, apart from the index, so that
 * marking one dirty does not serialise with lookups. Here each index node has a
 * bitmap of what is dirty below it. Marking is one atomic OR per level that
 * does not say so yet; the walk in offset order comes for free.
 *
 * The rules that make "sync sees every store" true:
 *   - A fault for writing returns only after the bits are set, whoever set the
 *     state (hm_dirty_ensure() for those who find the unit dirty already).
 *   - Bits are cleared, and walks done, only under store->dirty_lock. A walker
 *     that clears a summary bit looks again at the level below it, which a
 *     marker has set before it looked at the summary.
 *   - A unit's own bit stays set while it is being written, so that a sync
 *     finds it and waits.
 */
#include "bits.h"
#include "cache.h"
#include "dirty.h"
#include "file.h"
#include "pool.h"
#include "state.h"

static void hm_dirty_bit_ensure(unsigned long *map, u32 nr)
{
	if (!hm_bit_test(map, nr))
		hm_bit_set(map, nr);
}

/* Set the bits of a dirty unit, from the bottom up. */
void hm_dirty_ensure(const struct hm_pos *pos)
{
	if (pos->base)
		hm_dirty_bit_ensure(pos->base->dirty, pos->base_slot);
	hm_dirty_bit_ensure(pos->leaf->dirty, pos->leaf_slot);
	hm_dirty_bit_ensure(pos->dir->dirty, pos->dir_slot);
	hm_dirty_bit_ensure(pos->file->dirty, pos->root_slot);
}

/* Clear a unit's own bit; dirty_lock is held. The summaries follow lazily. */
void hm_dirty_clear(const struct hm_pos *pos)
{
	if (pos->base)
		hm_bit_clear(pos->base->dirty, pos->base_slot);
	else
		hm_bit_clear(pos->leaf->dirty, pos->leaf_slot);
}

/*
 * Is more dirty than the limit allows, now that a CPU has made so many pages dirty? It looks at
 * the counts of all of them once in so many pages that a store reads less than one.
 */
static bool hm_dirty_above_limit(struct hm_cache *cache, u64 mine, u64 pages)
{
	return mine % cache->dirty_step < pages && hm_cache_dirty_above_limit(cache);
}

static struct hm_dirty_counter *hm_dirty_unit_map(const struct hm_pos *pos)
{
	return &pos->file->dirty_counter[hm_block_of(pos->pgoff) % HM_DIRTY_COUNTERS];
}

static inline void hm_dirty_begin_age(struct hm_file *file)
{
	u64 none = 0;

	if (!hm_atomic_read(&file->dirty_since))
		hm_atomic_cas(&file->dirty_since, &none, hm_atomic_read(&file->cache->clock));
}

/* A unit will be dirty. Is there more than the limit allows? */
bool hm_dirty_add(const struct hm_pos *pos)
{
	struct hm_cache *cache = pos->file->cache;
	u64 pages = hm_pos_pages(pos);
	u64 mine = hm_atomic_add(&hm_local_shard(cache)->dirtied, (s64)pages);

	hm_atomic_add(&hm_dirty_unit_map(pos)->pages, (s64)pages);
	hm_dirty_begin_age(pos->file);
	return hm_dirty_above_limit(cache, mine, pages);
}

/* A unit stopped being dirty or written. */
void hm_dirty_sub(const struct hm_pos *pos)
{
	struct hm_file *file = pos->file;
	u64 pages = hm_pos_pages(pos), since;

	hm_atomic_add(&hm_local_shard(file->cache)->cleaned, (s64)pages);
	if (hm_atomic_add(&hm_dirty_unit_map(pos)->pages, -(s64)pages) != 0 ||
	    hm_file_dirty_pages(file))
		return;
	since = hm_atomic_read(&file->dirty_since);
	while (since && !hm_atomic_cas(&file->dirty_since, &since, 0))
		;
	/*
	 * Somebody who made a unit dirty meanwhile may have seen an age. He counts, then
	 * looks at the age, and here it is the other way round, all with full barriers:
	 * one of the two sees the other.
	 */
	if (hm_file_dirty_pages(file))
		hm_dirty_begin_age(file);
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

/* A summary bit led to nothing: clear it, unless a marker came meanwhile. */
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
 * Dirty pages of a split block, from a slot on. If there is none, the block's bit
 * goes, unless somebody has set one meanwhile, or the block has been joined: the
 * bit may be that of the whole block now, which was set after its state was.
 */
static bool hm_dirty_next_in_block(struct hm_leaf *leaf, u32 slot, u32 from, u32 *page)
{
	struct hm_base *base = hm_ptr_read(&leaf->base[slot]);

	if (hm_word_state(hm_atomic_read(&leaf->word[slot])) != HM_SPLIT) {
		*page = 0;
		return true;
	}
	*page = hm_dirty_next_bit(base->dirty, from, HM_BLOCK_PAGES);
	if (*page < HM_BLOCK_PAGES)
		return true;
	if (from == 0) {
		hm_dirty_summary_update(leaf->dirty, slot, base->dirty, HM_BLOCK_PAGES);
		if (hm_word_state(hm_atomic_read(&leaf->word[slot])) != HM_SPLIT)
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

		if (hm_dirty_next_in_leaf(leaf, start, from > start ? from : start, pgoff))
			return true;
		if (from <= start)
			hm_dirty_summary_update(dir->dirty, slot, leaf->dirty, HM_NODE_SLOTS);
	}
	return false;
}

/*
 * The first unit at or after @from whose bit is set, below @end; for a unit
 * that is a whole block, the start of the block, which may lie before @from.
 * dirty_lock is held. The bit is a hint: look at the unit's state.
 */
bool hm_dirty_next(struct hm_file *file, u64 from, u64 end, u64 *pgoff)
{
	u32 shift = 2 * HM_NODE_ORDER + HM_BLOCK_ORDER;
	u32 slot = (u32)(from >> shift);

	if (from >= end)
		return false;
	for (; (slot = hm_dirty_next_bit(file->dirty, slot, HM_NODE_SLOTS)) < HM_NODE_SLOTS;
	     slot++) {
		struct hm_dir *dir = hm_ptr_read(&file->dir[slot]);
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
 * Never too low, whatever is counted meanwhile: a page was counted as dirty before it was
 * seen to be by whoever cleaned it. Both are full barriers. So what is subtracted, as it was
 * read first, is in what is read after that, and so is what has been dirty all the time.
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
 * 0 says that nothing was dirty all the time that this took: such a page would have been in its
 * part whenever that was read. (Parts by CPU could add up to 0 beside a page that one CPU
 * makes dirty after its part was read, and another one cleans before its part is.)
 */
u64 hm_file_dirty_pages(const struct hm_file *file)
{
	u64 sum = 0;
	u32 i;

	for (i = 0; i < HM_DIRTY_COUNTERS; i++)
		sum += hm_atomic_read(&file->dirty_counter[i].pages);
	return sum;
}
