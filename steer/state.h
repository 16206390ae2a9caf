/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The state of the monitor thread. */
#ifndef HM_STEER_STATE_H
#define HM_STEER_STATE_H

#include <stdbool.h>

enum state {
	STOPPED,
	STARTING, /* a thread of the program is starting the monitor, with all signals blocked */
	RUNNING,
	STOPPING,
};

bool state_is(enum state state);
void state_set(enum state state);
/* Change the state atomically. Return false if it is not @from. */
bool state_change(enum state from, enum state to);

#endif /* HM_STEER_STATE_H */
