// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "state.h"

static int state_now = STOPPED; /* enum state */

bool state_is(enum state state)
{
	return __atomic_load_n(&state_now, __ATOMIC_SEQ_CST) == (int)state;
}

void state_set(enum state state)
{
	__atomic_store_n(&state_now, (int)state, __ATOMIC_SEQ_CST);
}

bool state_change(enum state from, enum state to)
{
	int expected = (int)from;

	return __atomic_compare_exchange_n(&state_now, &expected, (int)to, false, __ATOMIC_SEQ_CST,
					   __ATOMIC_SEQ_CST);
}
