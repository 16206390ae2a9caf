/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Windows: places where something is half done, and where somebody else may see or
 * change what is about to be relied on. They are open for a microsecond, so tests
 * rarely meet them. A module that was built with HUGEMAP_WINDOWS=1 and inserted with
 * windows=SEED stays in one of them for milliseconds now and then; any other module
 * has nothing of this. In the simulator a window is a step.
 */
#ifndef HUGEMAP_WINDOW_H
#define HUGEMAP_WINDOW_H

#ifdef HUGEMAP_WINDOWS

#include <linux/atomic.h>
#include <linux/llist.h>

struct hugemap_window {
	const char *name; /* what is done, and what is not yet */
	atomic_t passed, opened;
	atomic_t known;
	struct llist_node all;
};

void hugemap_window_pass(struct hugemap_window *window, bool may_sleep);

#define hugemap_window_(text, may_sleep)                                 \
	do {                                                             \
		static struct hugemap_window window_ = { .name = text }; \
		hugemap_window_pass(&window_, may_sleep);                \
	} while (0)

#else
#define hugemap_window_(text, may_sleep) \
	do {                             \
	} while (0)
#endif

/* Where sleeping is allowed, and makes nobody spin. */
#define hugemap_window(text) hugemap_window_(text, true)
/* Under spinlocks or RCU, in interrupts, and where others spin meanwhile. */
#define hugemap_window_atomic(text) hugemap_window_(text, false)

#endif /* HUGEMAP_WINDOW_H */
