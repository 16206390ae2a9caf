/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * kernel/cache/port.h for the unit tests and the models: GCC atomics and a small spinlock.
 *
 * A thread names the CPU that it runs on (hm_test_cpu), so that a test knows which shard it
 * works with. A test may make threads yield often between the steps of the cache
 * (hm_test_yield), so that few CPUs show the races of many.
 */
#ifndef HM_TEST_PORT_H
#define HM_TEST_PORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sched.h>
#include <unistd.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int64_t s64;

extern _Thread_local u32 hm_test_cpu;
extern _Thread_local u32 hm_test_yield; /* mean number of steps between yields; 0: never yield */
extern _Thread_local u32 hm_test_steps;

static inline void hm_test_step(void)
{
	if (hm_test_yield && ++hm_test_steps % hm_test_yield == 0) {
		hm_test_steps += hm_test_steps >> 3 & 7; /* vary the places of the yields */
		sched_yield();
	}
}

typedef struct {
	u64 value;
} hm_atomic_t;

static inline u64 hm_atomic_read(const hm_atomic_t *a)
{
	return __atomic_load_n(&a->value, __ATOMIC_ACQUIRE);
}

static inline void hm_atomic_set(hm_atomic_t *a, u64 value)
{
	__atomic_store_n(&a->value, value, __ATOMIC_RELEASE);
}

static inline bool hm_atomic_cas(hm_atomic_t *a, u64 *old, u64 new_value)
{
	bool done;

	hm_test_step();
	done = __atomic_compare_exchange_n(&a->value, old, new_value, false, __ATOMIC_SEQ_CST,
					   __ATOMIC_ACQUIRE);
	hm_test_step();
	return done;
}

static inline u64 hm_atomic_add(hm_atomic_t *a, s64 delta)
{
	return __atomic_add_fetch(&a->value, (u64)delta, __ATOMIC_SEQ_CST);
}

static inline void hm_atomic_count(hm_atomic_t *a, s64 delta)
{
	__atomic_fetch_add(&a->value, (u64)delta, __ATOMIC_RELAXED);
}

static inline bool hm_bit_set(unsigned long *map, u32 nr)
{
	unsigned long mask = 1UL << (nr % 64);

	return __atomic_fetch_or(&map[nr / 64], mask, __ATOMIC_SEQ_CST) & mask;
}

static inline bool hm_bit_clear(unsigned long *map, u32 nr)
{
	unsigned long mask = 1UL << (nr % 64);

	bool old = __atomic_fetch_and(&map[nr / 64], ~mask, __ATOMIC_SEQ_CST) & mask;

	hm_test_step();
	return old;
}

static inline unsigned long hm_bits_read(const unsigned long *map, u32 word)
{
	return __atomic_load_n(&map[word], __ATOMIC_SEQ_CST);
}

#define hm_ptr_read(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)

#define hm_ptr_set(p, new_ptr) __atomic_store_n((p), (new_ptr), __ATOMIC_RELEASE)

#define hm_ptr_install(p, new_ptr)                                                                 \
	({                                                                                         \
		__typeof__(*(p)) hm_expected = NULL;                                               \
		__atomic_compare_exchange_n((p), &hm_expected, (new_ptr), false, __ATOMIC_SEQ_CST, \
					    __ATOMIC_ACQUIRE);                                     \
	})

/* No test frees a node while another thread may use it. */
static inline void hm_read_begin(void)
{
}

static inline void hm_read_end(void)
{
}

static inline void hm_stay_begin(void)
{
}

static inline void hm_stay_end(void)
{
}

#ifdef HM_RACE_POINTS
/* Delay some threads in the middle of a race. */
static inline void hm_window_open(void)
{
	static u32 passed;

	if (__atomic_add_fetch(&passed, 1, __ATOMIC_RELAXED) % 4 == 0)
		usleep(50);
}
#define hm_race_point hm_window_open
#endif

static inline void hm_relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

static inline u32 hm_cpu(void)
{
	return hm_test_cpu;
}

/* Threads may outnumber CPUs, so the holder may not be running: the waiter yields. */
typedef struct {
	bool locked;
} hm_spinlock_t;

static inline void hm_spin_init(hm_spinlock_t *lock)
{
	lock->locked = false;
}

static inline void hm_spin_lock(hm_spinlock_t *lock)
{
	u32 spins = 0;

	hm_test_step();
	while (__atomic_exchange_n(&lock->locked, true, __ATOMIC_ACQUIRE)) {
		while (__atomic_load_n(&lock->locked, __ATOMIC_RELAXED)) {
			hm_relax();
			if (++spins % 128 == 0)
				sched_yield();
		}
	}
}

static inline void hm_spin_unlock(hm_spinlock_t *lock)
{
	__atomic_store_n(&lock->locked, false, __ATOMIC_RELEASE);
}

#define hm_assert(cond)                                                                       \
	do {                                                                                  \
		if (__builtin_expect(!(cond), 0)) {                                           \
			fprintf(stderr, "hugemap: assertion failed: %s (%s:%d, %s)\n", #cond, \
				__FILE__, __LINE__, __func__);                                \
			abort();                                                              \
		}                                                                             \
	} while (0)

static inline u32 hm_ctz(unsigned long value)
{
	return (u32)__builtin_ctzl(value);
}

#endif /* HM_TEST_PORT_H */
