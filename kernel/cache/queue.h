/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The queues of clean units, and the record of evicted ones. */
#ifndef HM_QUEUE_H
#define HM_QUEUE_H

#include "state.h"

void hm_queue_insert(const struct hm_pos *pos, u32 frame, bool proven);
void hm_queue_forget(const struct hm_pos *pos, u32 frame);
void hm_queue_push(struct hm_cache *cache, struct hm_shard *shard, u32 frame, enum hm_queue queue,
		   bool at_tail);
void hm_queue_unlink(struct hm_cache *cache, struct hm_shard *shard, u32 frame);
bool hm_ghost_take(const struct hm_pos *pos);
void hm_ghost_add(const struct hm_pos *pos);

static inline u64 hm_where(const struct hm_cache *cache, const struct hm_shard *shard,
			   enum hm_queue queue)
{
	return (u64)(shard - cache->shards) << 8 | queue;
}

static inline bool hm_queued(const struct hm_desc *desc)
{
	return hm_atomic_read(&desc->where) != HM_Q_NONE;
}

/* A frame is a unit's from now on, which is being filled, or made of base pages. */
static inline void hm_queue_own(const struct hm_pos *pos, u32 frame)
{
	struct hm_desc *desc = hm_desc_of(pos->file->cache, frame);

	hm_assert(!hm_ptr_read(&desc->word) && !hm_queued(desc));
	desc->file = pos->file;
	desc->pgoff = pos->pgoff;
	hm_ptr_set(&desc->word, pos->word);
}

#endif /* HM_QUEUE_H */
