// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Populating: the kernel allocates and zeroes a huge page for each slot, which
 * takes a few hundred microseconds each. A thread of its own does it for frames
 * that will be wanted soon: as many as are used already, within bounds, so that a
 * stream never waits for it, and a program that reads a few blocks does not pay
 * for a whole pool. A frame that is needed earlier is populated by its first use.
 *
 * A slot must not be populated while its pages are mapped elsewhere, so each
 * frame is claimed once, by the thread or by its first user.
 */
#include "frames.h"
#include "linux.h"

#include <signal.h>
#include <sys/mman.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define LEAST_AHEAD 8u /* frames */
#define MOST_AHEAD 16u

enum populated {
	POPULATED_NOT,
	POPULATED_UNDER_WAY,
	POPULATED_AHEAD, /* and not used yet */
	POPULATED_USED,
};

static u32 pool_frames(const struct pool *pool)
{
	return hm_cache_options(pool->cache)->pool_frames;
}

static bool change(struct pool *pool, u32 frame, enum populated from, enum populated to)
{
	u8 state = from;

	return atomic_compare_exchange_strong(&pool->populated[frame], &state, (u8)to);
}

/* 0, or why there is no memory for a frame: its first use will ask again. */
static int populate_range(struct pool *pool, u32 frame, u32 end)
{
	int err = 0, one;

	for (; frame < end && !atomic_load(&pool->stopping); frame++) {
		if (!change(pool, frame, POPULATED_NOT, POPULATED_UNDER_WAY))
			continue;
		one = sys_madvise(slot_of(pool, frame), HM_BLOCK_SIZE, MADV_POPULATE_WRITE);
		err = one ? one : err;
		atomic_store(&pool->populated[frame], POPULATED_AHEAD);
	}
	return err;
}

static u32 ahead(const struct pool *pool)
{
	u32 used = atomic_load_explicit(&pool->used_frames, memory_order_relaxed);

	if (used > MOST_AHEAD)
		return MOST_AHEAD;
	return used < LEAST_AHEAD ? LEAST_AHEAD : used;
}

static void *populate_main(void *arg)
{
	struct pool *pool = arg;

	while (!atomic_load(&pool->stopping)) {
		u32 frame = atomic_load(&pool->populate_from);
		u32 left = pool_frames(pool) - frame, n = ahead(pool);

		populate_range(pool, frame, frame + (n < left ? n : left));
		while (sem_wait(&pool->populate_work))
			; /* a signal of the program's */
	}
	return NULL;
}

/*
 * A frame is used for the first time. Frames are handed out in order, so those
 * that follow are next: ask for them when they get few.
 */
static void first_use(struct pool *pool, u32 frame)
{
	u32 distance = ahead(pool) / 2;

	atomic_fetch_add_explicit(&pool->used_frames, 1, memory_order_relaxed);
	if (!pool->populating || distance >= pool_frames(pool) - frame ||
	    atomic_load(&pool->populated[frame + distance]) != POPULATED_NOT)
		return;
	atomic_store(&pool->populate_from, frame + 1);
	sem_post(&pool->populate_work);
}

/* A frame is about to be filled. */
void populate_frame(struct pool *pool, u32 frame)
{
	while (atomic_load(&pool->populated[frame]) != POPULATED_USED) {
		if (change(pool, frame, POPULATED_NOT, POPULATED_USED) ||
		    change(pool, frame, POPULATED_AHEAD, POPULATED_USED))
			first_use(pool, frame);
		else
			sys_yield(); /* the thread is at it */
	}
}

/* In the background as they are used, or (prefault) all before this returns. */
int populate_start(struct pool *pool)
{
	sigset_t all, old;

	if (pool->opts.prefault)
		return populate_range(pool, 0, pool_frames(pool));
	sem_init(&pool->populate_work, 0, 0);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pool->populating = !pthread_create(&pool->populate_thread, NULL, populate_main, pool);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (!pool->populating)
		sem_destroy(&pool->populate_work);
	return 0;
}

void populate_stop(struct pool *pool)
{
	if (!pool->populating)
		return;
	sem_post(&pool->populate_work);
	pthread_join(pool->populate_thread, NULL);
	sem_destroy(&pool->populate_work);
	pool->populating = false;
}
