/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The monitor thread. */
#ifndef HM_STEER_WATCH_H
#define HM_STEER_WATCH_H

#include <stdbool.h>

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
/*
 * Wait until the monitor gives no advice that the program waits for (act.c). The caller has put an
 * event about the mapping, so the monitor begins no such advice for it afterwards. The wait lasts
 * for one madvise(), which seldom does I/O.
 */
void watch_wait_advice(void);
/* Reset the state in a child of fork(), which has no monitor thread. */
void watch_forget(void);

#endif /* HM_STEER_WATCH_H */
