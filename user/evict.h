/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Blocks leave the cache (evict.c): because a frame is wanted, or because the program has
 * taken their pages away.
 *
 * Owns: nothing but what hm_reclaim() gives it to evict.
 * Locks: takes block_lock(). maps_lock is held for reading.
 */
#ifndef HM_EVICT_H
#define HM_EVICT_H

#include "objects.h"

bool evict_some(struct handler *h);
void evict_background(struct handler *h);
void evict_lost(struct store *store, const struct hm_unit *unit); /* the block lock is held */
void evict_progress(struct pool *pool);

#endif /* HM_EVICT_H */
