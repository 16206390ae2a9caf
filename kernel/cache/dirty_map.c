// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * What of a huge unit is dirty: where few of its pages are stored to, only these are
 * written back.
 *
 * HM_W_PARTIAL_DIRTY in the word of a dirty unit, or of one under write-back, means that only the
 * pages in struct hm_dirty_map are dirty. Without the flag all pages are dirty. A store without a
 * page range clears the flag.
 *
 *   clean -> dirty    the first store to pages that are known: only these, if that is worth it
 *   dirty             more pages; with too many of them, all of it
 *   writing           hm_writeback_pages() has given the pages away: from there on it is
 *                     what is stored to meanwhile
 *   written           these are dirty, if any; the others as well if it has failed
 *
 * A bit is set before the store can happen. All of it is under a lock that the engine has for the
 * unit, but the word, which a device may have changed, and the bits of a write that has failed.
 */
#include "bits.h"
#include "dirty_map.h"
#include "index.h"
#include "promotion.h"
#include "stream.h"
#include "writeback.h"

/* Each costs a fault, and most of them an I/O: beyond these, it is better to write it all. */
#define MAX_PAGES (HM_BLOCK_PAGES / 4)
/* So many one after the other are the beginning of a stream. */
#define IN_A_ROW 16u

static struct hm_dirty_map *hm_dirty_map_of(const struct hm_cache *cache, u32 frame)
{
	return &cache->dirty_map[frame];
}

static void hm_dirty_map_set_all(unsigned long *map)
{
	memset(map, 0xff, sizeof(*map) * HM_BITMAP_LONGS(HM_BLOCK_PAGES));
}

/* How many are set beside a page, down from it (-1) or up? */
static u32 hm_dirty_map_run_length(const unsigned long *map, u32 page, s64 step)
{
	s64 at = page + step;
	u32 n = 0;

	for (; n < IN_A_ROW && at >= 0 && at < HM_BLOCK_PAGES; at += step, n++)
		if (!hm_bit_test(map, (u32)at))
			break;
	return n;
}

/* A stream that reaches the start of the unit will soon store to all of it. */
static bool hm_dirty_map_is_stream(const struct hm_pos *pos, u64 pgoff)
{
	return pgoff == pos->pgoff && hm_stream_reaches(pos->file, pgoff, true);
}

/*
 * A store to so many pages of a huge unit whose word was just seen. HM_W_PARTIAL_DIRTY if only the
 * pages that are known are dirty with it.
 */
u64 hm_dirty_map_store(const struct hm_pos *pos, u64 word, u64 pgoff, struct hm_access access)
{
	u32 npages = access.npages, page = (u32)(pgoff - pos->pgoff), below, i;
	struct hm_dirty_map *map;
	bool more = false;

	hm_assert(npages && !pos->base);
	map = hm_dirty_map_of(pos->file->cache, hm_word_frame(word));
	if (hm_word_state(word) == HM_CLEAN) {
		if (map->pinned || npages > MAX_PAGES || hm_dirty_map_is_stream(pos, pgoff))
			return 0;
		memset(map->changed, 0, sizeof(map->changed));
	} else if (!(word & HM_W_PARTIAL_DIRTY)) {
		return 0;
	}
	for (i = page; i < page + npages && i < HM_BLOCK_PAGES; i++)
		more |= !hm_bit_set(map->changed, i);
	if (!more)
		return HM_W_PARTIAL_DIRTY;
	below = hm_dirty_map_run_length(map->changed, page, -1);
	/* Of a write(2) it is known what it is to, and it costs no fault for each page. */
	if (hm_bits_count(map->changed) <= MAX_PAGES &&
	    (npages > 1 || below + 1 + hm_dirty_map_run_length(map->changed, page, 1) < IN_A_ROW))
		return HM_W_PARTIAL_DIRTY;
	/* Of pages that are mapped one by one, only the first store is a fault that tells of it. */
	if (npages == 1 && below + 1 >= IN_A_ROW)
		hm_stream_stores(pos->file, pos->pgoff);
	return 0;
}

/* All of it is to be written, if nobody asks. */
void hm_dirty_map_claimed(const struct hm_pos *pos, u32 frame)
{
	hm_dirty_map_set_all(hm_dirty_map_of(pos->file->cache, frame)->writing);
}

u32 hm_writeback_pages(const struct hm_unit *unit, bool pinned, unsigned long *pages)
{
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
		/* Who has stored to it since it was claimed is written once more. */
		next = pinned ? word & ~HM_W_PARTIAL_DIRTY : word;
		if (!pinned && !(word & HM_W_REDIRTY)) {
			memset(map->changed, 0, sizeof(map->changed));
			next |= HM_W_PARTIAL_DIRTY;
		}
	} while (next != word && !hm_atomic_cas(pos.word, &word, next));
	return hm_bits_count(pages);
}

/* How many of its pages the write-back is about. */
u32 hm_dirty_map_written(const struct hm_pos *pos, u32 frame)
{
	return hm_bits_count(hm_dirty_map_of(pos->file->cache, frame)->writing);
}

/* These are dirty after all. False: all are. */
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

/* The unit is dirty as its base pages were. False: all of it is. */
bool hm_dirty_map_promoted(const struct hm_promotion *p)
{
	struct hm_dirty_map *map = hm_dirty_map_of(p->unit.file->cache, p->unit.frame);

	memcpy(map->changed, p->changed, sizeof(map->changed));
	return hm_bits_count(map->changed) <= MAX_PAGES;
}

/* Another unit comes into a frame, and nobody who pinned the last one. */
void hm_dirty_map_reset(struct hm_cache *cache, u32 frame)
{
	hm_dirty_map_of(cache, frame)->pinned = false;
}
