/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * core/port.h for the unit tests: as in user space, but a thread says itself
 * which CPU it is on, so that a test knows which shard it works with.
 */
#ifndef HM_TEST_PORT_H
#define HM_TEST_PORT_H

#define hm_cpu hm_sched_cpu
#include "../../user/hm_port_impl.h"
#undef hm_cpu

extern _Thread_local u32 hm_test_cpu;

static inline u32 hm_cpu(void)
{
	return hm_test_cpu;
}

#endif /* HM_TEST_PORT_H */
