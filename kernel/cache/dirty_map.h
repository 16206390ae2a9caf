/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Which pages of a huge unit are dirty. */
#ifndef HM_DIRTY_MAP_H
#define HM_DIRTY_MAP_H

#include "access.h"
#include "state.h"

struct hm_promotion;

u64 hm_dirty_map_store(const struct hm_pos *pos, u64 word, u64 pgoff, struct hm_access access);
void hm_dirty_map_claimed(const struct hm_pos *pos, u32 frame);
u32 hm_dirty_map_written(const struct hm_pos *pos, u32 frame);
bool hm_dirty_map_failed(const struct hm_pos *pos, u32 frame);
bool hm_dirty_map_promoted(const struct hm_promotion *p);
void hm_dirty_map_reset(struct hm_cache *cache, u32 frame);

#endif /* HM_DIRTY_MAP_H */
