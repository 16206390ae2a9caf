/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The thread that looks, asks and acts. */
#ifndef HM_STEER_WATCH_H
#define HM_STEER_WATCH_H

#include "steer.h"

extern struct steer_settings watch_settings;

/* It cannot be had: nothing needs to be told. */
bool watch_is_impossible(void);
/* Start it, if it may be and is not there. Its memory is taken here, in the caller. */
void watch_start(void);
/* Events are read. */
bool watch_is_running(void);
/* End it, and wait until it is gone: 100 ms at most. */
void watch_stop(void);
/* In a child of fork(), which has no such thread. */
void watch_forget(void);

#endif /* HM_STEER_WATCH_H */
