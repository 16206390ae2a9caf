/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* How a unit leaves the cache. */
#ifndef HM_EVICT_H
#define HM_EVICT_H

#include "state.h"

bool hm_unit_gone(const struct hm_pos *pos, u32 frame);

#endif /* HM_EVICT_H */
