/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The cache core's only door to the outside.
 *
 * The core is compiled into a kernel module, a user-space library and a
 * simulator. Each of them puts its own hm_port_impl.h on the include path
 * (kernel/, user/, tests/sim/), and nothing else of the platform is seen
 * by the core. An implementation provides:
 *
 *   types       u8 u16 u32 u64 s64 bool size_t, NULL, memset(), memcpy()
 *   hm_atomic_t a 64-bit atomic, with
 *               u64  hm_atomic_read(a)             acquire
 *               void hm_atomic_set(a, v)           release
 *               bool hm_atomic_cas(a, &old, new)   full barrier; *old is
 *                                                  updated when it fails
 *               u64  hm_atomic_add(a, s64)         full barrier, new value
 *               void hm_atomic_count(a, s64)       no ordering: statistics
 *   bitmaps     bool hm_bit_set(map, nr), hm_bit_clear(map, nr): full
 *               barrier, return the old bit; unsigned long
 *               hm_bits_read(map, word)
 *   hm_spinlock_t with hm_spin_init/lock/unlock: short critical sections
 *               with no calls out of the core inside
 *   pointers    hm_ptr_read(&p) acquire, hm_ptr_set(&p, new) release, bool
 *               hm_ptr_install(&p, new): if p is NULL, publish new with full
 *               ordering and return true
 *   hm_cpu()    the number of the CPU, or anything that spreads callers
 *   hm_relax()  a polite pause in a loop that another CPU will end
 *   hm_stay_begin(), hm_stay_end()  around what such loops wait for: the thread
 *               keeps its CPU, where whoever waits may keep it from ever coming
 *               back (a kernel's spinning under a spinlock)
 *   hm_assert(cond) stops the program (or warns loudly, in a kernel)
 *   hm_ctz(ul)  index of the lowest bit that is set; ul is not 0
 *   hm_race_point() if at all: between a look and a step that rests on it, where what
 *               other threads do in between matters; a test waits there
 *
 * Nothing here may sleep, allocate or do I/O.
 */
#ifndef HM_PORT_H
#define HM_PORT_H

#include "hm_port_impl.h"

#ifndef hm_race_point
#define hm_race_point() \
	do {            \
	} while (0)
#endif

#define HM_BITS_PER_LONG 64u
#define HM_BITMAP_LONGS(bits) (((bits) + HM_BITS_PER_LONG - 1) / HM_BITS_PER_LONG)

#endif /* HM_PORT_H */
