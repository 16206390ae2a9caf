/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * kernel/cache/port.h for the simulator: one real thread, many coroutines. The scheduler may
 * switch before each operation that another CPU could observe. All operations are sequentially
 * consistent, so this does not test memory ordering; ThreadSanitizer does.
 */
#ifndef HM_SIM_PORT_H
#define HM_SIM_PORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int64_t s64;

void sim_step(void); /* sched.c: maybe switch to another coroutine */
void sim_yield(void); /* switch to a random runnable coroutine, possibly the same */
u32 sim_cpu(void);
void sim_core_race_point(void); /* task.c */
_Noreturn void sim_fail(const char *file, int line, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

typedef struct {
	u64 value;
} hm_atomic_t;

static inline u64 hm_atomic_read(const hm_atomic_t *a)
{
	sim_step();
	return a->value;
}

static inline void hm_atomic_set(hm_atomic_t *a, u64 value)
{
	sim_step();
	a->value = value;
}

static inline bool hm_atomic_cas(hm_atomic_t *a, u64 *old, u64 new_value)
{
	sim_step();
	if (a->value != *old) {
		*old = a->value;
		return false;
	}
	a->value = new_value;
	return true;
}

static inline u64 hm_atomic_add(hm_atomic_t *a, s64 delta)
{
	sim_step();
	a->value += (u64)delta;
	return a->value;
}

static inline void hm_atomic_count(hm_atomic_t *a, s64 delta)
{
	a->value += (u64)delta;
}

static inline bool hm_bit_set(unsigned long *map, u32 nr)
{
	unsigned long mask = 1ul << (nr % 64), old;

	sim_step();
	old = map[nr / 64];
	map[nr / 64] = old | mask;
	return old & mask;
}

static inline bool hm_bit_clear(unsigned long *map, u32 nr)
{
	unsigned long mask = 1ul << (nr % 64), old;

	sim_step();
	old = map[nr / 64];
	map[nr / 64] = old & ~mask;
	return old & mask;
}

static inline unsigned long hm_bits_read(const unsigned long *map, u32 word)
{
	sim_step();
	return map[word];
}

#define hm_ptr_read(p)      \
	({                  \
		sim_step(); \
		*(p);       \
	})

#define hm_ptr_set(p, new_ptr)    \
	do {                      \
		sim_step();       \
		*(p) = (new_ptr); \
	} while (0)

#define hm_ptr_install(p, new_ptr)            \
	({                                    \
		bool hm_installed_ = false;   \
		sim_step();                   \
		if (!*(p)) {                  \
			*(p) = (new_ptr);     \
			hm_installed_ = true; \
		}                             \
		hm_installed_;                \
	})

#define hm_race_point sim_core_race_point

static inline u32 hm_cpu(void)
{
	return sim_cpu();
}

/* Preemption needs no control: the scheduler also runs the coroutine that is waited for. */
static inline void hm_stay_begin(void)
{
}

static inline void hm_stay_end(void)
{
}

/* task.c: a section of RCU */
void hm_read_begin(void);
void hm_read_end(void);

static inline void hm_relax(void)
{
	sim_yield();
}

typedef struct {
	bool locked;
} hm_spinlock_t;

static inline void hm_spin_init(hm_spinlock_t *lock)
{
	lock->locked = false;
}

static inline void hm_spin_lock(hm_spinlock_t *lock)
{
	sim_step();
	while (lock->locked)
		sim_yield();
	lock->locked = true;
}

static inline void hm_spin_unlock(hm_spinlock_t *lock)
{
	if (!lock->locked)
		sim_fail(__FILE__, __LINE__, "a lock that is not held is released");
	lock->locked = false;
	sim_step();
}

#define hm_assert(cond)                                                              \
	do {                                                                         \
		if (__builtin_expect(!(cond), 0))                                    \
			sim_fail(__FILE__, __LINE__, "assertion failed: %s", #cond); \
	} while (0)

static inline u32 hm_ctz(unsigned long value)
{
	return (u32)__builtin_ctzl(value);
}

#endif /* HM_SIM_PORT_H */
