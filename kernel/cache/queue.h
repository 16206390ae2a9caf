/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The queues of clean units, and the record of evicted ones. */
#ifndef HM_QUEUE_H
#define HM_QUEUE_H

#include "state.h"

/**
 * hm_queue_insert() - a unit became clean: make sure that it is queued
 * @pos: the unit
 * @frame: its frame when it became clean
 * @proven: it proved to be used again: it skips probation
 *
 * Takes queue_lock. Call it after the word changed to HM_CLEAN. If reclaim finds the unit in
 * another state, it unlinks the unit under queue_lock, so one of the two sees the other.
 */
void hm_queue_insert(const struct hm_pos *pos, u32 frame, bool proven);

/*
 * As hm_queue_insert(), for a unit that stays after a claim of reclaim. Also with low priority it
 * is queued behind the others, because the pin may last for ever.
 */
void hm_queue_insert_last(const struct hm_pos *pos, u32 frame);

/*
 * A unit stays after a claim of reclaim, because it is pinned or mlocked. Or a unit has left. A
 * unit that stays returns to probation, and reclaim prefers probation, so it could choose pinned
 * units again and again. Each shard counts, for each kind, the units that stayed less those that
 * left. The number is a hint.
 */
void hm_queue_note_stay(const struct hm_pos *pos);
void hm_queue_note_left(const struct hm_pos *pos);

/* Return true if most units that reclaim claimed in this shard stayed. */
bool hm_queue_is_stuck(const struct hm_shard *shard, enum hm_kind kind);

/* Return true if no unit has left since reclaim claimed 2 * @units units of this shard. */
bool hm_queue_none_leaves(const struct hm_shard *shard, enum hm_kind kind, u32 units);

/*
 * Insert the unit on probation from now on, not into the use-once queue. The caller has claimed the
 * unit. Takes queue_lock, because a late hm_queue_insert() reads the same field.
 */
void hm_queue_clear_use_once(const struct hm_pos *pos, u32 frame);

/* A unit leaves the cache: unlink its frame, which has no owner from now on. Takes queue_lock. */
void hm_queue_forget(const struct hm_pos *pos, u32 frame);

/* Put a frame into a queue, at its head or tail. The caller holds queue_lock of the shard. */
void hm_queue_push(struct hm_cache *cache, struct hm_shard *shard, u32 frame, enum hm_queue queue,
		   bool at_tail);

/* Remove a frame from its queue. The caller holds queue_lock of the shard. */
void hm_queue_unlink(struct hm_cache *cache, struct hm_shard *shard, u32 frame);

/* The value of hm_shard.oldest for an empty queue. */
#define HM_NO_OLDEST ((u64)HM_NO_FRAME_ID << 32)

/*
 * The unit at the tail of a queue, or its stamp, changed: publish it for reclaim. The caller holds
 * queue_lock of the shard.
 */
void hm_queue_note_oldest(struct hm_cache *cache, struct hm_shard *shard, enum hm_kind kind,
			  enum hm_queue queue);

/* Was this unit evicted a short time ago? The call removes its ghost. Takes no lock. */
bool hm_ghost_take(const struct hm_pos *pos);

/* Leave a ghost of an evicted unit. Takes no lock. */
void hm_ghost_add(const struct hm_pos *pos);

/* The value of hm_desc.where for a queue of a shard. */
static inline u64 hm_where(const struct hm_cache *cache, const struct hm_shard *shard,
			   enum hm_queue queue)
{
	return (u64)(shard - cache->shards) << 8 | queue;
}

static inline bool hm_queued(const struct hm_desc *desc)
{
	return hm_atomic_read(&desc->where) != HM_Q_NONE;
}

/*
 * Make a unit the owner of a frame. The caller has taken the frame from the pool, and will fill the
 * unit or has promoted it.
 */
static inline void hm_queue_own(const struct hm_pos *pos, u32 frame)
{
	struct hm_desc *desc = hm_desc_of(pos->file->cache, frame);

	hm_assert(!hm_ptr_read(&desc->word) && !hm_queued(desc));
	desc->file = pos->file;
	desc->pgoff = pos->pgoff;
	hm_ptr_set(&desc->word, pos->word);
}

#endif /* HM_QUEUE_H */
