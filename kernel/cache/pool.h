/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The free frames. */
#ifndef HM_POOL_H
#define HM_POOL_H

#include "state.h"

void hm_pool_init(struct hm_cache *cache);
u32 hm_pool_take(struct hm_cache *cache, enum hm_kind kind, bool ahead);
void hm_pool_give(struct hm_cache *cache, u32 frame);
u64 hm_pool_free(struct hm_cache *cache, enum hm_kind kind);
u64 hm_pool_frames(const struct hm_cache *cache);
u64 hm_pool_free_target(const struct hm_cache *cache);
bool hm_pool_low(struct hm_cache *cache, enum hm_kind kind);
u32 hm_pool_base_frame(const struct hm_cache *cache, u32 huge, u32 slot);
u32 hm_pool_container(const struct hm_cache *cache, u32 frame);
void hm_pool_unisolate(struct hm_cache *cache, u32 frame);
u64 hm_pool_dirty_limit(const struct hm_cache *cache);
bool hm_pool_is_split(struct hm_cache *cache, u32 huge, bool isolated);
void hm_pool_isolate(struct hm_cache *cache, u32 huge);

#endif /* HM_POOL_H */
