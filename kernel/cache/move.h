/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Moves: a dirty base page gets another frame, so that reclaim can empty the split frame around it
 * without a write. Reclaim claims the page and chooses the frame (hm_victim.to). The engine locks,
 * unmaps and freezes the folio, copies it, and reports the result.
 */
#ifndef HM_MOVE_H
#define HM_MOVE_H

#include "types.h"

/* What a base frame holds. */
enum hm_move_page {
	HM_MOVE_FREE,
	HM_MOVE_CLEAN, /* a queued unit: reclaim can evict it */
	HM_MOVE_DIRTY, /* it can move */
	HM_MOVE_BUSY, /* it can do neither: for example, it is being written */
};

/* Check a base frame. A hint: no lock is taken. */
enum hm_move_page hm_move_check(struct hm_cache *cache, u32 frame);

/*
 * Claim the dirty unit of a base frame, and take a free base frame for it. No huge frame is split
 * for that. Return the free frame; HM_NO_FRAME_ID if there is none, or if the unit changed.
 */
u32 hm_move_claim(struct hm_cache *cache, u32 frame, struct hm_unit *unit);

/**
 * hm_move_done() - report a unit that hm_reclaim() had claimed for a move
 * @unit: the unit, with its old frame
 * @to: hm_victim.to
 * @moved: true: lookups find its data in @to, and the old frame belongs to the pool again. false:
 *	the unit is pinned, or locked: it stays in the old frame
 *
 * The unit is dirty before and after the move.
 *
 * Return: true if a task got HM_BUSY for the unit: wake it.
 */
bool hm_move_done(const struct hm_unit *unit, u32 to, bool moved);

#endif /* HM_MOVE_H */
