/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The monitor thread. */
#ifndef HM_STEER_WATCH_H
#define HM_STEER_WATCH_H

#include <stdbool.h>
#include <stdint.h>

extern bool watch_verbose;

/* Return whether an attempt to start the thread failed: then this process never has one. */
bool watch_is_impossible(void);
/*
 * Start the thread if none runs and if it is allowed. Return whether a thread will take events. Its
 * memory is mapped here, in the caller's context.
 */
bool watch_start(void);
/* Returns whether the thread has that number. */
bool watch_is_thread(int number);
/*
 * End the thread, and wait until the kernel does not count it any more, however long that takes. No
 * caller can start it again until watch_allow() was called once for each watch_stop().
 */
void watch_stop(void);
void watch_allow(void);
/* Returns the number of monitors that have taken all their advice back, because they end. */
uint32_t watch_ends(void);
/*
 * Return whether such an end has come since watch_ends() returned @ends, or may come before the
 * monitor takes an event that the caller has put.
 */
bool watch_may_end_since(uint32_t ends);
/*
 * Wait until the monitor gives no advice in a range, except MADV_WILLNEED. The caller has put an
 * event about the range, so the monitor begins none afterwards. The wait lasts for one madvise(),
 * which seldom does I/O (act.c).
 */
void watch_wait_advice(uint64_t start, uint64_t bytes);
/* Reset the state in a child of fork(), which has no monitor thread. */
void watch_forget(void);

#endif /* HM_STEER_WATCH_H */
