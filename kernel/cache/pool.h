/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The free frames. */
#ifndef HM_POOL_H
#define HM_POOL_H

#include "state.h"

/*
 * The caller of these functions holds no pool_lock: take, give, offline, online, isolate, unisolate
 * and is_split take it. The counts are read without a lock.
 */

/* Put all frames on the free lists. Called once, before any other CPU uses the cache. */
void hm_pool_init(struct hm_cache *cache);

/*
 * Take a free frame. If @ahead, leave a reserve of huge frames, so that a demand fault does not
 * wait for an eviction because of read-ahead. Return: the frame, or HM_NO_FRAME_ID.
 */
u32 hm_pool_take(struct hm_cache *cache, enum hm_kind kind, bool ahead);

/* Take a base frame of a frame that is split already; HM_NO_FRAME_ID: there is none. */
u32 hm_pool_take_split(struct hm_cache *cache);

/* Free a frame. A split huge frame is merged when its last base frame is free. */
void hm_pool_give(struct hm_cache *cache, u32 frame);

/* Count the free frames of a kind; split frames count as base frames only. */
u64 hm_pool_free(struct hm_cache *cache, enum hm_kind kind);

/* Count the huge frames that have memory; the others are offline. */
u64 hm_pool_frames(const struct hm_cache *cache);

/* Return how many huge frames reclaim keeps free: at most a quarter of those with memory. */
u64 hm_pool_free_target(const struct hm_cache *cache);

/* Is it time for reclaim? Cheap enough for the fault path. */
bool hm_pool_low(struct hm_cache *cache, enum hm_kind kind);

/* Return the number of the base frame at @slot in a huge frame. */
u32 hm_pool_base_frame(const struct hm_cache *cache, u32 huge, u32 slot);

/* Return the huge frame that contains @frame; for a huge frame, @frame. */
u32 hm_pool_container(const struct hm_cache *cache, u32 frame);

/*
 * The pool takes base frames again from the huge frame that contains @frame. Return false if it was
 * not isolated.
 */
bool hm_pool_unisolate(struct hm_cache *cache, u32 frame);

/* Return the number of dirty pages above which write-back starts by itself. */
u64 hm_pool_dirty_limit(const struct hm_cache *cache);

/* Is a huge frame split and, if @isolated, also isolated? */
bool hm_pool_is_split(struct hm_cache *cache, u32 huge, bool isolated);

/* The pool takes no more base frames from a split huge frame, so that reclaim can empty it. */
void hm_pool_isolate(struct hm_cache *cache, u32 huge);

#endif /* HM_POOL_H */
