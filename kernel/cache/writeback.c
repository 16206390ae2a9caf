// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Write-back: from dirty to clean, in offset order, in runs of adjacent units.
 *
 * A unit keeps its dirty bit during its write-back, and a store during it sets HM_W_REDIRTY. So a
 * sync can neither miss the unit nor take it for clean.
 */
#include "bits.h"
#include "cache.h"
#include "dirty.h"
#include "dirty_map.h"
#include "file.h"
#include "holes.h"
#include "index.h"
#include "pool.h"
#include "queue.h"
#include "writeback.h"

/* The result of an attempt to claim a unit for write-back. */
enum claim {
	CLAIMED,
	CLAIM_WRITING, /* another task writes, promotes or moves it */
	CLAIM_NOTHING, /* not dirty: the bit was stale and is clear now */
	CLAIM_OTHER, /* it does not fit into the run */
};

static bool hm_writeback_fits(const struct hm_run *run, const struct hm_pos *pos, u32 max_pages)
{
	return !run->npages ||
	       (hm_pos_kind(pos) == run->kind && run->npages + hm_pos_pages(pos) <= max_pages);
}

/* Claim the unit whose dirty bit was found at @pgoff. The caller holds dirty_lock. */
static enum claim hm_writeback_claim(struct hm_pos *pos, u64 pgoff, const struct hm_run *run,
				     u32 max_pages)
{
	u64 word = hm_index_word(pos, pgoff);
	struct hm_base *base;
	bool cleared = false;

	for (;;) {
		if (!hm_writeback_fits(run, pos, max_pages))
			return CLAIM_OTHER;
		if (hm_word_state(word) == HM_EVICTING && word & HM_W_REDIRTY) {
			/* A promotion or a move has claimed the unit, which is dirty. */
			if (cleared)
				hm_dirty_ensure(pos);
			return CLAIM_WRITING;
		}
		switch (hm_word_state(word)) {
		case HM_DIRTY:
			if (cleared)
				hm_dirty_ensure(pos);
			if (!hm_atomic_cas(pos->word, &word, (word & ~HM_W_STATE) | HM_WRITING))
				continue;
			if (!pos->base)
				hm_dirty_map_claimed(pos, hm_word_frame(word));
			return CLAIMED;
		case HM_WRITING:
			hm_assert(!cleared);
			return CLAIM_WRITING;
		default:
			/*
			 * The dirty bit is set, but the unit is not dirty. A task that makes a unit
			 * dirty changes the word and the bit one after the other. It may have set
			 * the bit after the unit was written or dropped, or it may not have changed
			 * the word yet. Clear the bit, and read the word again: if a store has made
			 * the unit dirty since, the next round sets the bit again.
			 */
			if (cleared)
				return CLAIM_NOTHING;
			hm_race_point();
			hm_dirty_clear(pos);
			hm_race_point();
			cleared = true;
			base = pos->base;
			word = hm_index_word(pos, pgoff);
			/*
			 * The block was split or joined in between, so the bit that was cleared
			 * may be that of another unit now. Set the bits: a stale one is harmless.
			 */
			if (pos->base != base)
				hm_dirty_ensure(pos);
		}
	}
}

enum hm_wb hm_writeback(struct hm_file *file, u64 *at, u64 end, u32 max_pages, bool wait,
			struct hm_run *run)
{
	hm_index_guard();
	enum hm_wb result = HM_WB_DONE;
	u64 pgoff;

	run->npages = 0;
	hm_spin_lock(&file->dirty_lock);
	while (hm_dirty_next(file, *at, end, &pgoff)) {
		struct hm_pos pos;
		enum claim got;

		if (run->npages && pgoff != *at)
			break; /* a gap ends the run */
		if (!hm_index_find(file, pgoff, &pos))
			hm_assert(!"a dirty bit has an index leaf");
		got = hm_writeback_claim(&pos, pgoff, run, max_pages);
		if (got == CLAIM_OTHER)
			break;
		if (got == CLAIM_WRITING && (wait || run->npages)) {
			if (!run->npages) {
				/* The caller continues here: no unit before it is dirty. */
				*at = pgoff;
				result = HM_WB_BUSY;
			}
			break;
		}
		*at = pos.pgoff + hm_pos_pages(&pos);
		if (got != CLAIMED) {
			if (run->npages)
				break;
			continue;
		}
		if (!run->npages) {
			run->pgoff = pos.pgoff;
			run->kind = hm_pos_kind(&pos);
			result = HM_WB_RUN;
		}
		run->npages += hm_pos_pages(&pos);
		if (run->npages >= max_pages)
			break;
	}
	hm_spin_unlock(&file->dirty_lock);
	return result;
}

/*
 * Finish the write-back of one unit. The caller holds dirty_lock, so that no walk sees the bit that
 * is cleared before the state changes. Return the number of base pages that were to be written.
 */
static u32 hm_writeback_unit_done(struct hm_pos *pos, u64 word, int err)
{
	u64 write_failed = err < 0 ? HM_W_WRITE_FAILED : word & HM_W_WRITE_FAILED;
	u64 keep = HM_W_REF | HM_W_STORED | HM_W_PARTIAL_DIRTY;
	bool failed = err;
	u32 frame = hm_word_frame(word);
	u32 npages = pos->base ? 1 : hm_dirty_map_written(pos, frame);

	hm_assert(hm_word_state(word) == HM_WRITING);
	if (!err)
		hm_holes_set_data(pos, npages == hm_pos_pages(pos));
	/* The pages of the failed write stay dirty, beside those stored to after the claim. */
	if (failed && !hm_dirty_map_failed(pos, frame))
		keep &= ~HM_W_PARTIAL_DIRTY;
	for (;;) {
		if (failed || (word & HM_W_REDIRTY)) {
			/* A store came after the claim: no write of its data has failed yet. */
			if (word & HM_W_REDIRTY)
				write_failed = 0;
			if (hm_atomic_cas(pos->word, &word,
					  hm_word_to(word, HM_DIRTY) | (word & keep) |
						  write_failed))
				return npages;
			continue;
		}
		/* The compare-and-swap fails if a store sets HM_W_REDIRTY after this. */
		hm_race_point();
		hm_dirty_clear(pos);
		hm_race_point();
		if (hm_atomic_cas(pos->word, &word,
				  hm_word_to(word, HM_CLEAN) |
					  (word & (HM_W_REF | HM_W_MARK | HM_W_STORED))))
			break;
		hm_dirty_ensure(pos);
	}
	hm_dirty_sub(pos);
	hm_queue_insert(pos, frame, false);
	return npages;
}

void hm_writeback_done(struct hm_file *file, u64 pgoff, u32 npages, int err)
{
	hm_index_guard();
	u64 end = pgoff + npages, written = 0;

	if (err < 0)
		hm_count(file->cache, HM_C_WRITE_ERRORS, 1);
	hm_spin_lock(&file->dirty_lock);
	while (pgoff < end) {
		struct hm_pos pos;
		u64 word;

		if (!hm_index_find(file, pgoff, &pos))
			hm_assert(!"a unit that is being written has an index leaf");
		word = hm_index_word(&pos, pgoff);
		written += hm_writeback_unit_done(&pos, word, err);
		pgoff = pos.pgoff + hm_pos_pages(&pos);
	}
	hm_assert(pgoff == end);
	hm_spin_unlock(&file->dirty_lock);
	if (!err)
		hm_count(file->cache, HM_C_WRITTEN, (s64)written);
}

struct hm_file *hm_writeback_pick(struct hm_cache *cache, bool (*skip)(struct hm_file *file),
				  bool *expired)
{
	u64 now = hm_atomic_read(&cache->clock);
	bool above = hm_cache_dirty_above_limit(cache);
	struct hm_file *best = NULL, *oldest = NULL, *file;
	u64 max_dirty = 0, min_since = now;

	*expired = false;
	for (file = hm_ptr_read(&cache->files); file; file = hm_ptr_read(&file->next)) {
		u64 since = hm_atomic_read(&file->dirty_since);
		u64 dirty = since ? hm_file_dirty_pages(file) : 0;

		if (dirty && skip && skip(file))
			continue;
		if (dirty && cache->opts.dirty_expire_ms &&
		    now >= since + cache->opts.dirty_expire_ms && since < min_since) {
			min_since = since;
			oldest = file;
		}
		if (above && dirty > max_dirty) {
			max_dirty = dirty;
			best = file;
		}
	}
	if (!oldest)
		return best;
	/*
	 * Restart the age of the file: this pass writes all of it. Otherwise a file that is stored
	 * to all the time would be the oldest one for ever, and no other file would be picked.
	 */
	hm_atomic_set(&oldest->dirty_since, now);
	*expired = true;
	return oldest;
}
