/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The functions of kernel/cache/port.h, which documents them, for the Linux kernel. */
#ifndef HM_PORT_IMPL_H
#define HM_PORT_IMPL_H

#include <linux/atomic.h>
#include <linux/bitops.h>
#include <linux/bug.h>
#include <linux/compiler.h>
#include <linux/preempt.h>
#include <linux/processor.h>
#include <linux/rcupdate.h>
#include <linux/smp.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/types.h>

#if BITS_PER_LONG != 64
#error "HugeMap needs a 64-bit kernel"
#endif

typedef atomic64_t hm_atomic_t;

static inline u64 hm_atomic_read(const hm_atomic_t *a)
{
	return (u64)atomic64_read_acquire(a);
}

static inline void hm_atomic_set(hm_atomic_t *a, u64 value)
{
	atomic64_set_release(a, (s64)value);
}

static inline bool hm_atomic_cas(hm_atomic_t *a, u64 *old, u64 new_value)
{
	s64 expected = (s64)*old;

	if (atomic64_try_cmpxchg(a, &expected, (s64)new_value))
		return true;
	/* A failed try_cmpxchg() orders nothing: make the read an acquire. */
	smp_acquire__after_ctrl_dep();
	*old = (u64)expected;
	return false;
}

static inline u64 hm_atomic_add(hm_atomic_t *a, s64 delta)
{
	return (u64)atomic64_add_return(delta, a);
}

static inline void hm_atomic_count(hm_atomic_t *a, s64 delta)
{
	atomic64_add(delta, a);
}

static inline bool hm_bit_set(unsigned long *map, u32 nr)
{
	return test_and_set_bit(nr, map);
}

static inline bool hm_bit_clear(unsigned long *map, u32 nr)
{
	return test_and_clear_bit(nr, map);
}

static inline unsigned long hm_bits_read(const unsigned long *map, u32 word)
{
	return smp_load_acquire(&map[word]);
}

#define hm_ptr_read(p) smp_load_acquire(p)
#define hm_ptr_set(p, new_ptr) smp_store_release(p, new_ptr)
#define hm_ptr_install(p, new_ptr) (!cmpxchg(p, NULL, new_ptr))

static inline void hm_relax(void)
{
	cpu_relax();
}

static inline void hm_stay_begin(void)
{
	preempt_disable();
}

static inline void hm_stay_end(void)
{
	preempt_enable();
}

/* sparse cannot count the sections that hm_index_guard() ends. */
static inline void hm_read_begin(void)
{
	rcu_read_lock();
	__release(RCU);
}

static inline void hm_read_end(void)
{
	__acquire(RCU);
	rcu_read_unlock();
}

/* Only a hint: the caller may move to another CPU at any time. */
static inline u32 hm_cpu(void)
{
	return (u32)raw_smp_processor_id();
}

typedef spinlock_t hm_spinlock_t;

#define hm_spin_init(lock) spin_lock_init(lock)

static inline void hm_spin_lock(hm_spinlock_t *lock) __acquires(lock)
{
	spin_lock(lock);
}

static inline void hm_spin_unlock(hm_spinlock_t *lock) __releases(lock)
{
	spin_unlock(lock);
}

/* Warn once per place, without a panic: other file systems continue to work. */
#define hm_assert(cond) WARN_ON_ONCE(!(cond))

static inline u32 hm_ctz(unsigned long value)
{
	return (u32)__ffs(value);
}

#endif /* HM_PORT_IMPL_H */
