/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The simulator's scheduler: coroutines on one thread, switched at the steps of
 * the core by a seeded generator. The same seed gives the same interleaving.
 */
#ifndef SIM_SCHED_H
#define SIM_SCHED_H

#include "cache/port.h"

#ifndef SIM_COROUTINES
#define SIM_COROUTINES 24u
#endif

/* The generator of everything that happens by chance. */
u64 sim_random(void);
static inline u32 sim_lower(u32 n)
{
	return (u32)(sim_random() % n);
}

static inline bool sim_chance(u32 percent)
{
	return sim_lower(100) < percent;
}

void sched_seed(u64 seed); /* the steps are counted from here */

/**
 * sched_start() - forget all coroutines
 * @switch_every: a switch about once in so many steps; 1 = at each
 * @stall_every: once in so many switches a coroutine stops for long; 0 = never
 * @cpus: coroutines are spread over so many
 */
void sched_start(u32 switch_every, u32 stall_every, u32 cpus);
void sched_spawn(const char *name, void (*work)(void *arg), void *arg);

/* Run coroutines until all have ended, or sched_stop(), or a number of steps. */
void sched_run(u64 steps);
void sched_stop(void); /* from a coroutine: does not return */

/* For whoever has another order in mind: this one now; SIM_COROUTINES: who began. */
void sched_switch(u32 number);

u64 sched_steps(void); /* since sched_seed() */
u32 sched_self(void); /* the number of the running coroutine; SIM_COROUTINES: none */
u32 sched_spawned(void); /* the number that the next one will have */
const char *sched_name(u32 number);

/*
 * From sim_prepare() on, sim_wake() with the same key counts; sim_sleep() ends
 * when it has come.
 */
void sim_prepare(const void *key);
void sim_sleep(void);
void sim_wake(const void *key);

/* Something was achieved: the scheduler gives up after long without it. */
void sim_progress(void);
u64 sched_quiet(void); /* steps since */

/* A lock that sleeps, and one for many readers or one writer. */
struct sim_lock {
	bool held;
};
void sim_lock(struct sim_lock *lock);
void sim_unlock(struct sim_lock *lock);

struct sim_rwlock {
	u32 readers, waiting;
	bool writer;
};
void sim_read_lock(struct sim_rwlock *lock);
void sim_read_unlock(struct sim_rwlock *lock);
void sim_write_lock(struct sim_rwlock *lock);
void sim_write_unlock(struct sim_rwlock *lock);

/* The last events, printed when a check fails. */
void sim_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

#define sim_check(cond, ...)                                       \
	do {                                                       \
		if (__builtin_expect(!(cond), 0))                  \
			sim_fail(__FILE__, __LINE__, __VA_ARGS__); \
	} while (0)

extern u64 sim_seed; /* for messages */
extern bool sim_verbose;
extern const char *sim_replay; /* how this program was called, but for the seed */

#endif /* SIM_SCHED_H */
