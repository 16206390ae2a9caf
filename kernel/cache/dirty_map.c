// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The dirty map of a huge unit. If a program stores to only a few pages of the unit, write-back
 * writes only these.
 *
 * HM_W_PARTIAL_DIRTY in the word of a dirty unit, or of one under write-back, means that only the
 * pages in struct hm_dirty_map are dirty. Without the flag all pages are dirty. A store without a
 * page range clears the flag.
 *
 *   clean -> dirty    the first store with a page range: the map starts with these pages
 *   dirty             later stores add pages; if there are too many, the whole unit is dirty
 *   writing           hm_writeback_pages() copies the map to @writing and clears @changed: from
 *                     there on @changed collects the stores during the write-back
 *   written           the pages in @changed are dirty; after an error those in @writing, too
 *
 * A bit is set before the store can happen. The engine's lock of the unit protects the map and its
 * transitions, with two exceptions: a report for a device may change the word without that lock,
 * and hm_writeback_done() adds the bits of a failed write.
 */
#include "bits.h"
#include "dirty_map.h"
#include "index.h"
#include "promotion.h"
#include "stream.h"
#include "writeback.h"

/* Each page costs a fault, and most cost an I/O: above this number, write the whole unit. */
#define PARTIAL_PAGES_MAX (HM_BLOCK_PAGES / 4)
/* Stores to this many consecutive pages are the beginning of a stream. */
#define STREAM_RUN 16u

static struct hm_dirty_map *hm_dirty_map_of(const struct hm_cache *cache, u32 frame)
{
	return &cache->dirty_map[frame];
}

static void hm_dirty_map_set_all(unsigned long *map)
{
	memset(map, 0xff, sizeof(*map) * HM_BITMAP_LONGS(HM_BLOCK_PAGES));
}

/* Count the consecutive set bits below (@step -1) or above (@step 1) a page; at most STREAM_RUN. */
static u32 hm_dirty_map_run_length(const unsigned long *map, u32 page, s64 step)
{
	s64 at = page + step;
	u32 n = 0;

	for (; n < STREAM_RUN && at >= 0 && at < HM_BLOCK_PAGES; at += step, n++)
		if (!hm_bit_test(map, (u32)at))
			break;
	return n;
}

/* Is the store at the start of the unit part of a stream? A stream will soon store to all of it. */
static bool hm_dirty_map_is_stream(const struct hm_pos *pos, u64 pgoff)
{
	return pgoff == pos->pgoff && hm_stream_reaches(pos->file, pgoff, true);
}

u64 hm_dirty_map_store(const struct hm_pos *pos, u64 word, u64 pgoff, struct hm_access access)
{
	u32 npages = access.npages, page = (u32)(pgoff - pos->pgoff), below, i;
	struct hm_dirty_map *map;
	bool added = false;

	hm_assert(npages && !pos->base);
	map = hm_dirty_map_of(pos->file->cache, hm_word_frame(word));
	if (hm_word_state(word) == HM_CLEAN) {
		if (map->pinned || npages > PARTIAL_PAGES_MAX || hm_dirty_map_is_stream(pos, pgoff))
			return 0;
		memset(map->changed, 0, sizeof(map->changed));
	} else if (!(word & HM_W_PARTIAL_DIRTY)) {
		return 0;
	}
	for (i = page; i < page + npages && i < HM_BLOCK_PAGES; i++)
		added |= !hm_bit_set(map->changed, i);
	if (!added)
		return HM_W_PARTIAL_DIRTY;
	below = hm_dirty_map_run_length(map->changed, page, -1);
	/* A write(2) (npages > 1) passes its range without a fault per page: skip the run test. */
	if (hm_bits_count(map->changed) <= PARTIAL_PAGES_MAX &&
	    (npages > 1 || below + 1 + hm_dirty_map_run_length(map->changed, page, 1) < STREAM_RUN))
		return HM_W_PARTIAL_DIRTY;
	/*
	 * Pages that are mapped one by one fault only at the first store to each. A run of such
	 * faults up to this page shows a stream.
	 */
	if (npages == 1 && below + 1 >= STREAM_RUN)
		hm_stream_add_writer(pos->file, pos->pgoff);
	return 0;
}

void hm_dirty_map_claimed(const struct hm_pos *pos, u32 frame)
{
	hm_dirty_map_set_all(hm_dirty_map_of(pos->file->cache, frame)->writing);
}

u32 hm_writeback_pages(const struct hm_unit *unit, bool pinned, unsigned long *pages)
{
	hm_index_guard();
	struct hm_dirty_map *map = hm_dirty_map_of(unit->file->cache, unit->frame);
	struct hm_pos pos;
	u64 word, next;

	if (!hm_index_find(unit->file, unit->pgoff, &pos))
		hm_assert(!"a unit that is being written has an index leaf");
	word = hm_index_word(&pos, unit->pgoff);
	hm_assert(hm_word_state(word) == HM_WRITING && !pos.base);
	map->pinned = pinned;
	if (word & HM_W_PARTIAL_DIRTY)
		memcpy(pages, map->changed, sizeof(map->changed));
	else
		hm_dirty_map_set_all(pages);
	memcpy(map->writing, pages, sizeof(map->writing));
	do {
		/* HM_W_REDIRTY: a store came after the claim. Keep its pages for another write. */
		next = pinned ? word & ~HM_W_PARTIAL_DIRTY : word;
		if (!pinned && !(word & HM_W_REDIRTY)) {
			memset(map->changed, 0, sizeof(map->changed));
			next |= HM_W_PARTIAL_DIRTY;
		}
	} while (next != word && !hm_atomic_cas(pos.word, &word, next));
	return hm_bits_count(pages);
}

u32 hm_dirty_map_written(const struct hm_pos *pos, u32 frame)
{
	return hm_bits_count(hm_dirty_map_of(pos->file->cache, frame)->writing);
}

bool hm_dirty_map_failed(const struct hm_pos *pos, u32 frame)
{
	struct hm_dirty_map *map;
	u32 i;

	if (pos->base || hm_dirty_map_written(pos, frame) == HM_BLOCK_PAGES)
		return false;
	map = hm_dirty_map_of(pos->file->cache, frame);
	for (i = 0; i < HM_BLOCK_PAGES; i++)
		if (hm_bit_test(map->writing, i))
			hm_bit_set(map->changed, i);
	return true;
}

bool hm_dirty_map_promoted(const struct hm_promotion *p)
{
	struct hm_dirty_map *map = hm_dirty_map_of(p->unit.file->cache, p->unit.frame);

	memcpy(map->changed, p->changed, sizeof(map->changed));
	return hm_bits_count(map->changed) <= PARTIAL_PAGES_MAX;
}

void hm_dirty_map_reset(struct hm_cache *cache, u32 frame)
{
	hm_dirty_map_of(cache, frame)->pinned = false;
}
