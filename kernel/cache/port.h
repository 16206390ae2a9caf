/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The interface between the cache and its platform. The cache uses nothing else of the platform.
 *
 * The cache is compiled into the module, into unit tests, and into simulators. Each of them has
 * its own hm_port_impl.h on the include path, which provides:
 *
 *   types	u8 u16 u32 u64 s64 bool size_t, NULL, memset(), memcpy()
 *   hm_atomic_t	a 64-bit atomic, with
 *		u64 hm_atomic_read(a)		acquire
 *		void hm_atomic_set(a, v)	release
 *		bool hm_atomic_cas(a, &old, new)	full barrier; updates *old when it fails
 *		u64 hm_atomic_add(a, s64)	full barrier; returns the new value
 *		void hm_atomic_count(a, s64)	no ordering: for statistics
 *   bitmaps	bool hm_bit_set(map, nr), hm_bit_clear(map, nr): full barrier, return the old
 *		bit; unsigned long hm_bits_read(map, word)
 *   hm_spinlock_t	with hm_spin_init/lock/unlock; critical sections are short, and call
 *		nothing outside the cache
 *   pointers	hm_ptr_read(&p) acquire; hm_ptr_set(&p, new) release; bool
 *		hm_ptr_install(&p, new): if p is NULL, publish new with full ordering and return
 *		true
 *   hm_cpu()	the number of the CPU, or any number that spreads callers
 *   hm_relax()	a pause in a loop that another CPU will end
 *   hm_stay_begin(), hm_stay_end()	around code that such a loop waits for. The thread keeps
 *		its CPU: a spinning waiter could otherwise keep it from running.
 *   hm_read_begin(), hm_read_end()	around uses of index nodes, which the engine frees only
 *		after all such sections that have begun are over (RCU). They nest.
 *   hm_assert(cond)	stops the program; a kernel warns
 *   hm_ctz(ul)	index of the lowest set bit; ul is not 0
 *   hm_race_point()	(optional) lies between a check and the step that relies on it. A test
 *		can delay the thread there.
 *
 * None of them may sleep, allocate or do I/O.
 */
#ifndef HM_PORT_H
#define HM_PORT_H

#include "hm_port_impl.h"

#ifndef hm_race_point
#define hm_race_point() \
	do {            \
	} while (0)
#endif

#ifndef noinline
#define noinline __attribute__((__noinline__))
#endif

#define HM_BITS_PER_LONG 64u
#define HM_BITMAP_LONGS(bits) (((bits) + HM_BITS_PER_LONG - 1) / HM_BITS_PER_LONG)

#endif /* HM_PORT_H */
