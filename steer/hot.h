/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Hot pages of mappings in mode RANDOM: protect them from reclaim. */
#ifndef HM_STEER_HOT_H
#define HM_STEER_HOT_H

#include "map.h"

/* The monitor thread begins. */
void hot_begin(void);

/* A look has found that the pages of @runs were mapped since the last look. */
void hot_found(struct map *map, const struct hm_touch *runs, u32 n);

/**
 * hot_refresh() - mark hot pages as accessed, if it is time
 * @now: the time in nanoseconds
 * @read: pages that the program has read from devices one by one so far, without the monitor
 * @memory: pages that can be cached at the same time; 0 = not known
 * @look: look at a range of pages, so that the bits in map->seen are those of now. It may change
 *	the mode of the mapping
 */
void hot_refresh(u64 now, u64 read, u64 memory, void (*look)(struct map *map, u64 start, u64 end));

/*
 * Return how many times the usual processor time looks may take now. Only a look that comes between
 * the eviction of a page and its next use shows that the page is hot.
 */
u32 hot_looks(u64 now);

#endif /* HM_STEER_HOT_H */
