/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The monitor thread. */
#ifndef HM_STEER_WATCH_H
#define HM_STEER_WATCH_H

#include <stdbool.h>

extern bool watch_verbose;

/* The thread was tried and cannot be had in this process. */
bool watch_is_impossible(void);
/*
 * Start the thread unless it runs or may not. Returns whether it will take events. Its memory is
 * taken here, in the caller.
 */
bool watch_start(void);
/*
 * End the thread and wait until the kernel does not count it any more, however long that takes.
 * It is not started again until watch_allow() was called as often.
 */
void watch_stop(void);
void watch_allow(void);
/*
 * Wait until the monitor gives no advice that changes a mapping. The caller has put an event about
 * the mapping, so no such advice for it begins after that. The wait lasts for one madvise() of a
 * kind that does no I/O.
 */
void watch_wait_advice(void);
/* In a child of fork(), which has no such thread. */
void watch_forget(void);

#endif /* HM_STEER_WATCH_H */
