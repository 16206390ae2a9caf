/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* How a unit leaves the cache. */
#ifndef HM_EVICT_H
#define HM_EVICT_H

#include "state.h"

/*
 * A unit leaves the cache, and its frame becomes free. The unit is HM_EVICTING or HM_FILLING, and
 * the caller has claimed it: no other task changes its state. Takes queue_lock and pool_lock.
 *
 * Return: true if a task waits for the unit.
 */
bool hm_unit_gone(const struct hm_pos *pos, u32 frame);

#endif /* HM_EVICT_H */
