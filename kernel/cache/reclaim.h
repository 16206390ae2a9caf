/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Units leave the cache: by reclaim, which takes clean units in batches, or by invalidation
 * of a range (truncation, hole punching, closing a file).
 *
 * A claimed unit is HM_EVICTING: faults on it get HM_BUSY. The claimer unmaps it everywhere,
 * checks for pins and late stores, and reports the result with hm_evict_done().
 */
#ifndef HM_RECLAIM_H
#define HM_RECLAIM_H

#include "types.h"

/**
 * struct hm_victim - one unit that reclaim has chosen
 * @unit: the unit
 * @evict: true: it is claimed: unmap it everywhere, then call hm_evict_done().
 *	false: it became inactive: unmap it if it is still clean and not hm_referenced(). Its
 *	frame and data stay, so that the next access is a fault without I/O. Report nothing.
 * @isolated: (with @evict) its container is to become empty, so its queue did not choose it
 * @to: HM_NO_FRAME_ID, or (with @evict) the base frame to which the unit moves: unmap it
 *	everywhere, copy it there, then call hm_move_done() instead of hm_evict_done().
 */
struct hm_victim {
	struct hm_unit unit;
	bool evict, isolated;
	u32 to;
};

/* How many frames of a kind reclaim should free now. */
u32 hm_reclaim_want(struct hm_cache *cache, enum hm_kind kind);

/**
 * hm_reclaim() - choose clean units that leave the cache, and dirty ones that move
 * @cache: the cache
 * @kind: which kind of frame is short
 * @want: how many frames to free
 * @victims: filled in, sorted by file and offset, so that the engine can unmap neighbours
 *	with one TLB flush
 * @max: room in @victims
 *
 * Return: how many victims; 0 = no unit can leave or move now.
 */
u32 hm_reclaim(struct hm_cache *cache, enum hm_kind kind, u32 want, struct hm_victim *victims,
	       u32 max);

/**
 * enum hm_evict_result - what became of a claimed unit
 * @HM_EVICTED: it is unmapped everywhere: the frame is free
 * @HM_EVICT_BUSY: its folio is pinned, locked, mapped or mlocked: it stays, clean
 * @HM_EVICT_DIRTY: a store came before it was unmapped: it stays, dirty
 * @HM_EVICT_STAYS: as HM_EVICT_BUSY, for a victim of hm_reclaim() that is not isolated: reclaim
 *	tries other units first
 * @HM_EVICT_DISCARD: as HM_EVICTED, but without a ghost: a later fault does not show that the unit
 *	was evicted too early
 */
enum hm_evict_result {
	HM_EVICTED,
	HM_EVICT_BUSY,
	HM_EVICT_DIRTY,
	HM_EVICT_DISCARD,
	HM_EVICT_STAYS,
};

/**
 * hm_evict_done() - report a unit that hm_reclaim() or hm_invalidate() had claimed
 * @unit: the unit
 * @result: see enum hm_evict_result
 *
 * Return: true if a task got HM_BUSY for the unit: wake it.
 */
bool hm_evict_done(const struct hm_unit *unit, enum hm_evict_result result);

/**
 * enum hm_invalidated - the answer of hm_invalidate()
 * @HM_INV_DONE: no unit is left in the range
 * @HM_INV_UNIT: *unit is claimed: unmap it, then call hm_evict_done()
 * @HM_INV_BUSY: the unit at *pos is being filled, written or evicted: wait, and call again. Or it
 *	was dropped, and the list of empty nodes is full: call hm_file_keep_empty(), and call again.
 * @HM_INV_AGAIN: a part of the range is left: call again
 */
enum hm_invalidated {
	HM_INV_DONE,
	HM_INV_UNIT,
	HM_INV_BUSY,
	HM_INV_AGAIN,
};

/**
 * hm_invalidate() - claim the cached units of a range, one a call
 * @file: the file
 * @pos: where to look from; moved past the unit
 * @end: where to stop
 * @discard: true: claim dirty units, too: their data is not wanted (truncation, hole
 *	punching). false: pass over dirty units.
 * @unit: filled in for HM_INV_UNIT
 *
 * One call makes at most HM_NODE_SLOTS steps, so that the caller can reschedule.
 *
 * Return: see enum hm_invalidated.
 */
enum hm_invalidated hm_invalidate(struct hm_file *file, u64 *pos, u64 end, bool discard,
				  struct hm_unit *unit);

#endif /* HM_RECLAIM_H */
