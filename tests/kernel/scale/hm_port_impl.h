/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * kernel/cache/port.h for the scaling model: each operation is charged to the virtual
 * processor that does it; see machine.h. Plain loads and stores of the cache are charged too:
 * the compiler inserts the calls of ThreadSanitizer, which machine.c implements.
 */
#ifndef HM_SCALE_PORT_H
#define HM_SCALE_PORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int64_t s64;

/* The type is as large as the kernel's. */
typedef struct {
	u64 value;
} hm_atomic_t;

typedef struct {
	u8 held;
	u8 first, last; /* ends of the queue of waiters: processor + 1 */
} hm_spinlock_t __attribute__((aligned(4)));

u64 hm_atomic_read(const hm_atomic_t *a);
void hm_atomic_set(hm_atomic_t *a, u64 value);
bool hm_atomic_cas(hm_atomic_t *a, u64 *old, u64 new_value);
u64 hm_atomic_add(hm_atomic_t *a, s64 delta);
void hm_atomic_count(hm_atomic_t *a, s64 delta);
bool hm_bit_set(unsigned long *map, u32 nr);
bool hm_bit_clear(unsigned long *map, u32 nr);
unsigned long hm_bits_read(const unsigned long *map, u32 word);
void hm_spin_init(hm_spinlock_t *lock);
void hm_spin_lock(hm_spinlock_t *lock);
void hm_spin_unlock(hm_spinlock_t *lock);
u32 hm_cpu(void);
void hm_relax(void);

void *machine_ptr_read(const void *p);
void machine_ptr_set(void *p, void *value);
bool machine_ptr_install(void *p, void *value);

#define hm_ptr_read(p) ((__typeof__(*(p)))machine_ptr_read(p))
#define hm_ptr_set(p, value) machine_ptr_set(p, value)
#define hm_ptr_install(p, value) machine_ptr_install(p, value)

/* No node is freed during a run. */
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

static inline u32 hm_ctz(unsigned long value)
{
	return (u32)__builtin_ctzl(value);
}

/* Called by tests/kernel/sim/sched.c, whose random choice is not used. */
void sim_step(void);
void sim_yield(void);
u32 sim_cpu(void);
_Noreturn void sim_fail(const char *file, int line, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#define hm_assert(cond)                                                              \
	do {                                                                         \
		if (__builtin_expect(!(cond), 0))                                    \
			sim_fail(__FILE__, __LINE__, "assertion failed: %s", #cond); \
	} while (0)

#endif /* HM_SCALE_PORT_H */
