// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The end of a unit: a claimed unit leaves the cache or stays, and invalidation claims the units of
 * a range (truncation, hole punching, closing a file). Reclaim claims units in reclaim.c.
 */
#include "cache.h"
#include "dirty.h"
#include "empty.h"
#include "evict.h"
#include "index.h"
#include "pool.h"
#include "queue.h"
#include "reclaim.h"

bool hm_unit_gone(const struct hm_pos *pos, u32 frame)
{
	u64 word = hm_atomic_read(pos->word);

	hm_queue_forget(pos, frame);
	while (!hm_atomic_cas(pos->word, &word, hm_word_gone(word)))
		;
	hm_index_uncount(pos);
	hm_pool_give(pos->file->cache, frame);
	return word & HM_W_WAIT;
}

bool hm_evict_done(const struct hm_unit *unit, enum hm_evict_result result)
{
	hm_index_guard();
	struct hm_cache *cache = unit->file->cache;
	struct hm_pos pos;
	u64 word, next;

	if (!hm_index_find(unit->file, unit->pgoff, &pos))
		hm_assert(!"a unit that is being evicted has an index leaf");
	word = hm_index_word(&pos, unit->pgoff);
	hm_assert(hm_word_state(word) == HM_EVICTING && hm_word_frame(word) == unit->frame);
	if ((result == HM_EVICTED || result == HM_EVICT_DISCARD) && (word & HM_W_AHEAD))
		hm_count(cache, HM_C_AHEAD_WASTED, 1);
	switch (result) {
	case HM_EVICTED:
		hm_count(cache, HM_C_EVICTIONS, 1);
		hm_ghost_add(&pos);
		hm_queue_note_left(&pos);
		return hm_unit_gone(&pos, unit->frame);
	case HM_EVICT_DISCARD:
		hm_queue_note_left(&pos);
		return hm_unit_gone(&pos, unit->frame);
	case HM_EVICT_STAYS:
	case HM_EVICT_BUSY:
		if (result == HM_EVICT_STAYS)
			hm_queue_note_stay(&pos);
		/*
		 * The pin may last for ever. Outside the use-once queue, the unit is tried again
		 * only after others.
		 */
		hm_queue_clear_use_once(&pos, unit->frame);
		break;
	case HM_EVICT_DIRTY:
		break;
	}
	/*
	 * The unit stays, so its container cannot be emptied: keep the other pages of the
	 * container. If the unit is pinned, reclaim tries another container next.
	 */
	if (pos.base && hm_pool_unisolate(cache, unit->frame) && result != HM_EVICT_DIRTY)
		hm_atomic_add(&cache->isolate_skip, 1);
	if (result == HM_EVICT_DIRTY)
		hm_dirty_add(&pos);
	do {
		/* Keep HM_W_REF: the failed eviction must not lose the accesses of programs. */
		next = hm_word_to(word, result == HM_EVICT_DIRTY ? HM_DIRTY : HM_CLEAN) |
		       (word & (HM_W_AHEAD | HM_W_MARK | HM_W_REF | HM_W_STORED));
		if (result == HM_EVICT_DIRTY)
			next |= HM_W_STORED;
	} while (!hm_atomic_cas(pos.word, &word, next));
	if (result == HM_EVICT_DIRTY)
		hm_dirty_mark(&pos);
	else if (result == HM_EVICT_STAYS)
		hm_queue_insert_last(&pos, unit->frame);
	else
		hm_queue_insert(&pos, unit->frame, false);
	return word & HM_W_WAIT;
}

/* Claim a unit for invalidation. HM_INV_DONE: it is absent, or dirty and not to be discarded. */
static enum hm_invalidated hm_evict_invalidate_one(struct hm_pos *pos, u64 word, bool discard,
						   struct hm_unit *unit)
{
	bool dirty = hm_word_state(word) == HM_DIRTY;

	switch (hm_word_state(word)) {
	case HM_FILLING:
	case HM_WRITING:
	case HM_EVICTING:
		return HM_INV_BUSY;
	case HM_FAILED:
		if (!hm_atomic_cas(pos->word, &word, hm_word_gone(word)))
			return HM_INV_BUSY;
		hm_index_uncount(pos);
		/* Without room in the list, the engine frees the nodes and repeats the call. */
		return hm_empty_note(pos) ? HM_INV_DONE : HM_INV_BUSY;
	case HM_DIRTY:
		if (!discard)
			return HM_INV_DONE;
		break;
	case HM_CLEAN:
		break;
	default:
		return HM_INV_DONE;
	}
	if (!hm_atomic_cas(pos->word, &word, (word & ~HM_W_STATE) | HM_EVICTING))
		return HM_INV_BUSY; /* the word changed: the caller repeats the call */
	if (dirty) {
		hm_spin_lock(&pos->file->dirty_lock);
		hm_dirty_clear(pos);
		hm_spin_unlock(&pos->file->dirty_lock);
		hm_dirty_sub(pos);
	}
	hm_unit_set(unit, pos, hm_word_frame(word));
	unit->hints = 0;
	unit->err = 0;
	return HM_INV_UNIT;
}

enum hm_invalidated hm_invalidate(struct hm_file *file, u64 *at, u64 end, bool discard,
				  struct hm_unit *unit)
{
	hm_index_guard();
	u32 n;

	for (n = 0; *at < end; n++) {
		enum hm_invalidated result;
		struct hm_pos pos;
		u64 word;

		if (hm_block_of(*at) >= HM_FILE_BLOCKS_MAX)
			return HM_INV_DONE;
		if (n == HM_NODE_SLOTS)
			return HM_INV_AGAIN;
		if (!hm_index_find(file, *at, &pos)) {
			*at = hm_index_next(&pos, *at);
			continue;
		}
		word = hm_index_word(&pos, *at);
		/* Skip a block without cached pages: a file of terabytes has billions of pages. */
		if (pos.base && !hm_atomic_read(&pos.base->resident)) {
			*at = hm_block_start(*at) + HM_BLOCK_PAGES;
			continue;
		}
		result = hm_evict_invalidate_one(&pos, word, discard, unit);
		if (result == HM_INV_BUSY)
			return result;
		*at = pos.pgoff + hm_pos_pages(&pos);
		if (result == HM_INV_UNIT)
			return result;
	}
	return HM_INV_DONE;
}
