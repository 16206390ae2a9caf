/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * kernel/cache/port.h for the unit tests: as in user space, but a thread says itself
 * which CPU it is on, so that a test knows which shard it works with; and it
 * may ask to lose the CPU often between the steps of the core, so that few
 * cores show the races of many.
 */
#ifndef HM_TEST_PORT_H
#define HM_TEST_PORT_H

#define hm_cpu hm_sched_cpu
#define hm_atomic_cas hm_plain_atomic_cas
#define hm_bit_clear hm_plain_bit_clear
#define hm_spin_lock hm_plain_spin_lock
#include "../../user/hm_port_impl.h"
#undef hm_cpu
#undef hm_atomic_cas
#undef hm_bit_clear
#undef hm_spin_lock

extern _Thread_local u32 hm_test_cpu;
extern _Thread_local u32 hm_test_yield; /* once in so many steps; 0 = never */
extern _Thread_local u32 hm_test_steps;

static inline u32 hm_cpu(void)
{
	return hm_test_cpu;
}

static inline void hm_test_step(void)
{
	if (hm_test_yield && ++hm_test_steps % hm_test_yield == 0) {
		hm_test_steps += hm_test_steps >> 3 & 7; /* not always at the same places */
		sched_yield();
	}
}

static inline bool hm_atomic_cas(hm_atomic_t *a, u64 *old, u64 new_value)
{
	bool done;

	hm_test_step();
	done = hm_plain_atomic_cas(a, old, new_value);
	hm_test_step();
	return done;
}

static inline bool hm_bit_clear(unsigned long *map, u32 nr)
{
	bool old = hm_plain_bit_clear(map, nr);

	hm_test_step();
	return old;
}

static inline void hm_spin_lock(hm_spinlock_t *lock)
{
	hm_test_step();
	hm_plain_spin_lock(lock);
}

#endif /* HM_TEST_PORT_H */
