/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The simulator's scheduler: coroutines on one thread. A seeded generator decides at each step
 * of the cache whether to switch. The same seed gives the same interleaving.
 */
#ifndef SIM_SCHED_H
#define SIM_SCHED_H

#include "cache/port.h"

#ifndef SIM_COROUTINES
#define SIM_COROUTINES 24u
#endif

/* The only source of randomness. */
u64 sim_random(void);
static inline u32 sim_lower(u32 n)
{
	return (u32)(sim_random() % n);
}

static inline bool sim_chance(u32 percent)
{
	return sim_lower(100) < percent;
}

void sched_seed(u64 seed); /* also sets the step counter to 0 */

/**
 * sched_start() - forget all coroutines
 * @switch_every: mean number of steps between switches; 1: switch at each step
 * @stall_every: mean number of switches between long stalls of a coroutine; 0: no stalls
 * @cpus: number of CPUs over which the coroutines are spread
 */
void sched_start(u32 switch_every, u32 stall_every, u32 cpus);
void sched_spawn(const char *name, void (*work)(void *arg), void *arg);

/* Run coroutines until all have ended, one calls sched_stop(), or @steps have passed. */
void sched_run(u64 steps);
void sched_stop(void); /* call it from a coroutine; it does not return */

/* Switch to coroutine @number now; SIM_COROUTINES: to the caller of sched_run(). */
void sched_switch(u32 number);

u64 sched_steps(void); /* steps since sched_seed() */
u32 sched_self(void); /* number of the running coroutine; SIM_COROUTINES: none */
u32 sched_spawned(void); /* number of the next coroutine to be spawned */
const char *sched_name(u32 number);

/*
 * Grant locks in the order of the calls, as Linux does on the whole: otherwise any task that waits
 * for a lock may starve. Call this before sched_run().
 */
void sched_grant_in_order(void);

/*
 * Starve the caller: each sleep of it lasts until another task has called sched_finished(), or for
 * long. After @sleeps of them, stop.
 */
void sched_starve(u32 sleeps);
u32 sched_sleeps(void); /* sleeps since the last sched_starve() */
void sched_finished(void); /* the caller has finished an operation */
void sim_slept(void); /* the caller has slept, or could have */

/*
 * sim_sleep() returns after a sim_wake() with the key that the caller passed to sim_prepare().
 * A wake-up between sim_prepare() and sim_sleep() is not lost.
 */
void sim_prepare(const void *key);
void sim_sleep(void);
void sim_wake(const void *key);

/* Report progress. The scheduler fails the run after PATIENCE steps without any. */
void sim_progress(void);
u64 sched_quiet(void); /* steps since the last progress */

/* A sleeping lock, and a reader-writer lock. */
struct sim_lock {
	bool held;
	u32 head, tail; /* tickets, while locks are granted in order */
};
void sim_lock(struct sim_lock *lock);
void sim_unlock(struct sim_lock *lock);

struct sim_rwlock {
	u32 readers, waiting;
	bool writer;
	u32 head, tail;
};
void sim_read_lock(struct sim_rwlock *lock);
void sim_read_unlock(struct sim_rwlock *lock);
void sim_write_lock(struct sim_rwlock *lock);
void sim_write_unlock(struct sim_rwlock *lock);

/* Record an event. A failed check prints the last ones. */
void sim_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
void sim_print_notes(void);

#define sim_check(cond, ...)                                       \
	do {                                                       \
		if (__builtin_expect(!(cond), 0))                  \
			sim_fail(__FILE__, __LINE__, __VA_ARGS__); \
	} while (0)

extern u64 sim_seed; /* for messages */
extern bool sim_verbose;
extern const char *sim_replay; /* command line of this program without the seed */

#endif /* SIM_SCHED_H */
