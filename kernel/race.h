/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Race points: places between two steps where another task may see or change the state. They
 * last for a microsecond, so tests rarely hit them. A module built with HUGEMAP_RACE_POINTS=1
 * and loaded with race=SEED delays tasks at some of them for milliseconds. Any other module
 * contains no code for them. In the simulator a race point is a step of the scheduler.
 */
#ifndef HUGEMAP_RACE_H
#define HUGEMAP_RACE_H

#ifdef HUGEMAP_RACE_POINTS

#include <linux/atomic.h>
#include <linux/llist.h>

struct hugemap_race_point {
	const char *name; /* which step is done, and which is not */
	atomic_t passed, delayed;
	atomic_t listed;
	struct llist_node all;
};

void hugemap_race_point_pass(struct hugemap_race_point *point, bool may_sleep);

#define hugemap_race_point_(text, may_sleep)                                \
	do {                                                                \
		static struct hugemap_race_point point_ = { .name = text }; \
		hugemap_race_point_pass(&point_, may_sleep);                \
	} while (0)

#else
#define hugemap_race_point_(text, may_sleep) \
	do {                                 \
	} while (0)
#endif

/* For places in which the task may sleep and no other task spins for it. */
#define hugemap_race_point(text) hugemap_race_point_(text, true)
/* For places under spinlocks or RCU, in interrupts, or for which another task spins. */
#define hugemap_race_point_atomic(text) hugemap_race_point_(text, false)

#endif /* HUGEMAP_RACE_H */
