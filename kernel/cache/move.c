// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Moves of dirty base pages: see move.h. Like a promotion, a move claims a dirty unit as
 * HM_EVICTING with HM_W_REDIRTY. Faults and write-back wait for its end. Its share of the dirty
 * counts stays. Its dirty bit may come later, because a store sets the bit after the state.
 */
#include "cache.h"
#include "dirty.h"
#include "index.h"
#include "move.h"
#include "pool.h"
#include "queue.h"

/*
 * Read the word of the unit that owns a base frame. @at: set to the word; NULL: the frame is free.
 * A unit gives up its frame before its index node can be removed, so the guard of the caller keeps
 * the node of the word in memory.
 */
static u64 hm_move_word(const struct hm_desc *desc, hm_atomic_t **at)
{
	*at = hm_ptr_read(&desc->word);
	return *at ? hm_atomic_read(*at) : 0;
}

enum hm_move_page hm_move_check(struct hm_cache *cache, u32 frame)
{
	hm_index_guard();
	const struct hm_desc *desc = hm_desc_of(cache, frame);
	hm_atomic_t *at;
	u64 word;

	word = hm_move_word(desc, &at);
	if (!at)
		return HM_MOVE_FREE;
	if (hm_word_frame(word) != frame)
		return HM_MOVE_BUSY; /* it changes its unit now: see hm_reclaim_check_unit() */
	if (hm_word_state(word) == HM_CLEAN && hm_queued(desc))
		return HM_MOVE_CLEAN;
	/*
	 * Write-back tries a page whose write failed again after a delay, which a move must keep.
	 */
	if (hm_word_state(word) == HM_DIRTY && !(word & HM_W_WRITE_FAILED))
		return HM_MOVE_DIRTY;
	return HM_MOVE_BUSY;
}

u32 hm_move_claim(struct hm_cache *cache, u32 frame, struct hm_unit *unit)
{
	hm_index_guard();
	const struct hm_desc *desc = hm_desc_of(cache, frame);
	u32 to = hm_pool_take_split(cache);
	bool claimed = false;
	hm_atomic_t *at;
	u64 word;

	if (to == HM_NO_FRAME_ID)
		return to;
	word = hm_move_word(desc, &at);
	while (at && !claimed && hm_word_state(word) == HM_DIRTY && hm_word_frame(word) == frame)
		claimed =
			hm_atomic_cas(at, &word, (word & ~HM_W_STATE) | HM_EVICTING | HM_W_REDIRTY);
	if (!claimed) {
		hm_pool_give(cache, to);
		return HM_NO_FRAME_ID;
	}
	/* The claimed unit owns the frame, so the description of the frame is that of the unit. */
	*unit = (struct hm_unit){
		.file = desc->file,
		.pgoff = desc->pgoff,
		.npages = 1,
		.frame = frame,
	};
	return to;
}

/* Give the unit its new frame. The old frame has no owner from here on, but is not free yet. */
static void hm_move_change_frame(const struct hm_pos *pos, u32 from, u32 to)
{
	struct hm_cache *cache = pos->file->cache;

	hm_desc_of(cache, to)->priority = hm_desc_of(cache, from)->priority;
	hm_desc_of(cache, to)->use_once = hm_desc_of(cache, from)->use_once;
	hm_queue_forget(pos, from);
	hm_queue_own(pos, to);
}

bool hm_move_done(const struct hm_unit *unit, u32 to, bool moved)
{
	hm_index_guard();
	struct hm_cache *cache = unit->file->cache;
	struct hm_pos pos;
	u64 word, next;

	if (!hm_index_find(unit->file, unit->pgoff, &pos))
		hm_assert(!"a unit that moves has an index leaf");
	word = hm_index_word(&pos, unit->pgoff);
	hm_assert(pos.base && hm_word_frame(word) == unit->frame);
	hm_assert(hm_word_state(word) == HM_EVICTING && word & HM_W_REDIRTY);
	if (moved)
		hm_move_change_frame(&pos, unit->frame, to);
	hm_dirty_ensure(&pos); /* as hm_confirm_dirty(), before the claim ends */
	do {
		next = hm_word_with_frame(word, HM_DIRTY, moved ? to : unit->frame) |
		       (word & (HM_W_AHEAD | HM_W_MARK | HM_W_REF | HM_W_STORED));
	} while (!hm_atomic_cas(pos.word, &word, next));
	if (moved) {
		hm_count(cache, HM_C_MOVED, 1);
		hm_atomic_set(&cache->isolate_skip, 0);
		hm_pool_give(cache, unit->frame);
	} else {
		/* The pin may last for ever: reclaim tries another split frame next. */
		hm_pool_unisolate(cache, unit->frame);
		hm_atomic_add(&cache->isolate_skip, 1);
		hm_pool_give(cache, to);
	}
	return word & HM_W_WAIT;
}
