/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Carry advice out. */
#ifndef HM_STEER_ACT_H
#define HM_STEER_ACT_H

#include "map.h"

/* Find out which file a mapping has. Returns false if it is not to be steered. */
bool act_settle(struct map *map);

/*
 * Give the kernel the advice that is wanted and not given yet. Returns false if an event came
 * in between: the caller takes it and calls again.
 */
bool act_sync(struct map *map);
/* Call act_sync() for all mappings. Forget an orphan when its advice is taken back. */
bool act_sync_all(void);

/* Carry out the answers of the advisor's last look. */
void act_advices(struct map *map);

/* Returns whether advice that changes a mapping is being given; see act.c. */
bool act_is_advising(void);
/* In a child of fork(), which has no monitor. */
void act_forget(void);

/* Time that was spent carrying advice out, and processor time of that. */
extern u64 act_ns, act_cpu_ns;
/* The monitor is to end: act_sync() wants no advice at all, and nothing is read ahead. */
extern bool act_ending;

#endif /* HM_STEER_ACT_H */
