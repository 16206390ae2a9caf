// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * What of a huge unit is dirty: where few of its pages are stored to, only these are
 * written back.
 *
 * HM_W_PART in the word of a unit that is dirty, or being written, says that only the pages
 * in struct hm_part are; without it, all are. Any store of which it is not said which pages it
 * is to takes the flag away, so what is not known means all.
 *
 *   clean -> dirty    the first store to pages that are known: only these, if that is worth it
 *   dirty             more pages; with too many of them, all of it
 *   writing           hm_writeback_take() has given the pages away: from there on it is
 *                     what is stored to meanwhile
 *   written           these are dirty, if any; the others as well if it has failed
 *
 * A bit is set before the store can happen. All of it is under a lock that the engine has for the
 * unit, but the word, which a device may have changed, and the bits of a write that has failed.
 */
#include "internal.h"

/* Each costs a fault, and most of them an I/O: beyond these, it is better to write it all. */
#define MOST_PAGES (HM_BLOCK_PAGES / 4)
/* So many one after the other are the beginning of a stream. */
#define IN_A_ROW 16u
/* See hm_part_gives_way(). */
#define FEW_PAGES (HM_BLOCK_PAGES / 16 + 1)
/* Where it came to that, it is not tried to do with less so many times. */
#define WHOLE_TIMES 3u

static struct hm_part *part_of(const struct hm_cache *cache, u32 frame)
{
	return &cache->part[frame];
}

static void set_all(unsigned long *map)
{
	memset(map, 0xff, sizeof(*map) * HM_BITMAP_LONGS(HM_BLOCK_PAGES));
}

/* How many are set beside a page, down from it (-1) or up? */
static u32 in_a_row(const unsigned long *map, u32 page, s64 step)
{
	s64 at = page + step;
	u32 n = 0;

	for (; n < IN_A_ROW && at >= 0 && at < HM_BLOCK_PAGES; at += step, n++)
		if (!hm_bit_test(map, (u32)at))
			break;
	return n;
}

/* Does a first store go on with what will soon be all of the unit? A stream comes to its start. */
static bool is_stream(const struct hm_pos *pos, u64 pgoff, struct hm_part *part)
{
	if (part->whole) {
		part->whole--;
		return true;
	}
	return pgoff == pos->pgoff && hm_stream_goes_on(pos->file, pgoff, true);
}

/*
 * A store to so many pages of a huge unit whose word was just seen. HM_W_PART if only the
 * pages that are known are dirty with it.
 */
u64 hm_part_store(const struct hm_pos *pos, u64 word, u64 pgoff, u32 access)
{
	u32 npages = access >> HM_ACCESS_PAGES_SHIFT, page = (u32)(pgoff - pos->pgoff), below, i;
	struct hm_part *part;
	bool more = false;

	hm_assert(npages && !pos->base);
	part = part_of(pos->file->cache, hm_word_frame(word));
	if (hm_word_state(word) == HM_CLEAN) {
		if (part->pinned || npages > MOST_PAGES || is_stream(pos, pgoff, part))
			return 0;
		memset(part->changed, 0, sizeof(part->changed));
	} else if (!(word & HM_W_PART)) {
		return 0;
	}
	for (i = page; i < page + npages && i < HM_BLOCK_PAGES; i++)
		more |= !hm_bit_set(part->changed, i);
	if (!more)
		return HM_W_PART;
	below = in_a_row(part->changed, page, -1);
	/* Of a write(2) it is known what it is to, and it costs no fault for each page. */
	if (hm_bits_count(part->changed) <= MOST_PAGES &&
	    (npages > 1 || below + 1 + in_a_row(part->changed, page, 1) < IN_A_ROW))
		return HM_W_PART;
	part->whole = WHOLE_TIMES;
	/* Of pages that are mapped one by one, only the first store is a fault that tells of it. */
	if (npages == 1 && below + 1 >= IN_A_ROW)
		hm_stream_stores(pos->file, pos->pgoff);
	return 0;
}

/* All of it is to be written, if nobody asks. */
void hm_part_claimed(const struct hm_pos *pos, u32 frame)
{
	set_all(part_of(pos->file->cache, frame)->writing);
}

u32 hm_writeback_take(const struct hm_unit *unit, bool pinned, unsigned long *pages)
{
	struct hm_part *part = part_of(unit->file->cache, unit->frame);
	struct hm_pos pos;
	u64 word, next;
	u32 npages;

	if (!hm_index_find(unit->file, unit->pgoff, &pos))
		hm_assert(!"a unit that is being written has an index leaf");
	word = hm_index_word(&pos, unit->pgoff);
	hm_assert(hm_word_state(word) == HM_WRITING && !pos.base);
	part->pinned = pinned;
	if (word & HM_W_PART)
		memcpy(pages, part->changed, sizeof(part->changed));
	else
		set_all(pages);
	memcpy(part->writing, pages, sizeof(part->writing));
	npages = hm_bits_count(pages);
	if (npages > FEW_PAGES)
		part->few = 0;
	else if (part->few < HM_FEW_TIMES)
		part->few++;
	do {
		/* Who has stored to it since it was claimed is written once more. */
		next = pinned ? word & ~HM_W_PART : word;
		if (!pinned && !(word & HM_W_REDIRTY)) {
			memset(part->changed, 0, sizeof(part->changed));
			next |= HM_W_PART;
		}
	} while (next != word && !hm_atomic_cas(pos.word, &word, next));
	return npages;
}

/* How many of its pages the write-back is about. */
u32 hm_part_written(const struct hm_pos *pos, u32 frame)
{
	return hm_bits_count(part_of(pos->file->cache, frame)->writing);
}

/* These are dirty after all. False: all are. */
bool hm_part_failed(const struct hm_pos *pos, u32 frame)
{
	struct hm_part *part;
	u32 i;

	if (pos->base || hm_part_written(pos, frame) == HM_BLOCK_PAGES)
		return false;
	part = part_of(pos->file->cache, frame);
	for (i = 0; i < HM_BLOCK_PAGES; i++)
		if (hm_bit_test(part->writing, i))
			hm_bit_set(part->changed, i);
	return true;
}

/* The unit is dirty as its base pages were. False: all of it is. */
bool hm_part_promoted(const struct hm_promotion *p)
{
	struct hm_part *part = part_of(p->unit.file->cache, p->unit.frame);

	memcpy(part->changed, p->changed, sizeof(part->changed));
	return hm_bits_count(part->changed) <= MOST_PAGES;
}

/* Another unit comes into a frame, and nobody who pinned the last one. */
void hm_part_new(struct hm_cache *cache, u32 frame)
{
	part_of(cache, frame)->pinned = false;
	part_of(cache, frame)->whole = 0;
	part_of(cache, frame)->few = 0;
}
