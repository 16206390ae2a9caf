/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The state word of a unit holds everything that a transition must change at once, so that each
 * transition is one compare-and-swap.
 *
 *   bits  0..3   enum hm_state
 *   bits  4..15  HM_W_* flags
 *   bits 16..47  frame number (states with a frame), or the positive errno (HM_FAILED)
 *   bits 48..63  sequence number: incremented each time the unit leaves the cache, so that a
 *                compare-and-swap with an old word fails
 *
 *             .--- read failed -------------------------------.
 *             v                                               |
 *   ABSENT --fault--> FILLING --fill_done--> CLEAN <--------. |
 *     ^  ^               |                   | |  \         | |
 *     |  |          (store follows)      claim |  store     | |
 *     |  FAILED          v                   v |   v        | |
 *     |              .-> DIRTY <----------- / EVICTING      | |
 *     |    redirtied |    | |  late store       |           | |
 *     |     or error |    v `--- discard -------'           | |
 *     |              `- WRITING ------ written -------------' |
 *     `------------------ evict_done -------------------------'
 *
 * A promotion claims base pages as an eviction does (HM_EVICTING), but it also claims dirty ones.
 * These have HM_W_REDIRTY while they are claimed, as a dirty page has that moves to another frame.
 *
 * The word of a block may also be HM_SPLIT: then its base pages have words of their own. These
 * are HM_FROZEN during and after a join of the block.
 */
#ifndef HM_WORD_H
#define HM_WORD_H

#include "types.h"

#define HM_W_STATE 0xfull
#define HM_W_REF (1ull << 4) /* accessed by a fault since it was filled or aged */
#define HM_W_MARK (1ull << 5) /* the read-ahead marker */
#define HM_W_WAIT (1ull << 6) /* a fault got HM_BUSY and waits */
#define HM_W_REDIRTY (1ull << 7) /* stored to during write-back */
#define HM_W_AHEAD (1ull << 8) /* brought in by read-ahead and not accessed yet */
#define HM_W_WRITE_FAILED (1ull << 9) /* its last write failed; not stored to since */
#define HM_W_STORED (1ull << 10) /* stored to since a promotion last cleared the flag */
#define HM_W_COPIED (1ull << 11) /* copied by a promotion and not stored to since */
#define HM_W_PARTIAL_DIRTY (1ull << 12) /* only the pages in its dirty map are dirty */
#define HM_W_FRAME_SHIFT 16
#define HM_W_FRAME (0xffffffffull << HM_W_FRAME_SHIFT)
#define HM_W_SEQ_SHIFT 48
#define HM_W_SEQ (0xffffull << HM_W_SEQ_SHIFT)

static inline enum hm_state hm_word_state(u64 word)
{
	return (enum hm_state)(word & HM_W_STATE);
}

static inline u32 hm_word_frame(u64 word)
{
	return (u32)((word & HM_W_FRAME) >> HM_W_FRAME_SHIFT);
}

/* The same frame and sequence number in another state, without flags. */
static inline u64 hm_word_to(u64 word, enum hm_state state)
{
	return (word & (HM_W_FRAME | HM_W_SEQ)) | (u64)state;
}

static inline u64 hm_word_with_frame(u64 word, enum hm_state state, u32 frame)
{
	return (word & HM_W_SEQ) | ((u64)frame << HM_W_FRAME_SHIFT) | (u64)state;
}

/* The word after the unit left the cache: absent, with the next sequence number. */
static inline u64 hm_word_gone(u64 word)
{
	return (word & HM_W_SEQ) + (1ull << HM_W_SEQ_SHIFT);
}

/* Does the frame in a word with this state hold the data of the unit? */
static inline bool hm_state_resident(enum hm_state state)
{
	return state == HM_CLEAN || state == HM_DIRTY || state == HM_WRITING ||
	       state == HM_EVICTING;
}

#endif /* HM_WORD_H */
