// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Populating: the kernel allocates and zeroes a huge page for each slot, which
 * takes a few hundred microseconds each. A thread of its own does it, so that a
 * pool is ready at once; a frame that is needed earlier is populated by its
 * first use. A slot must not be populated while its pages are mapped elsewhere,
 * so each frame is claimed once, by the thread or by its first user.
 */
#include "engine.h"

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

enum populated {
	POPULATED_NOT,
	POPULATED_UNDER_WAY,
	POPULATED,
};

static bool claim(struct pool *pool, u32 frame, enum populated state)
{
	u8 none = POPULATED_NOT;

	return atomic_compare_exchange_strong(&pool->populated[frame], &none, (u8)state);
}

static void *populate_all(void *arg)
{
	struct pool *pool = arg;
	u32 frames = hm_cache_options(pool->cache)->pool_frames, i;

	for (i = 0; i < frames && !atomic_load(&pool->stopping); i++) {
		if (!claim(pool, i, POPULATED_UNDER_WAY))
			continue;
		madvise(slot_of(pool, i), HM_BLOCK_SIZE, MADV_POPULATE_WRITE);
		atomic_store(&pool->populated[i], POPULATED);
	}
	return NULL;
}

/*
 * A frame is about to be filled. If it was carved into base frames before, its
 * memory is in small pages: let the kernel give it a huge one again.
 */
void populate_frame(struct pool *pool, u32 frame, bool reform)
{
	u32 huge = (u32)(hm_frame_offset(pool->cache, frame) >> HM_BLOCK_SHIFT);

	if (!claim(pool, huge, POPULATED))
		while (atomic_load(&pool->populated[huge]) != POPULATED)
			sched_yield();
	if (reform) {
		madvise(slot_of(pool, frame), HM_BLOCK_SIZE, MADV_DONTNEED);
		madvise(slot_of(pool, frame), HM_BLOCK_SIZE, MADV_POPULATE_WRITE);
	}
}

/* In the background, or (prefault) before this returns. */
void populate_start(struct pool *pool)
{
	sigset_t all, old;

	if (pool->opts.prefault) {
		populate_all(pool);
		return;
	}
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pool->populating = !pthread_create(&pool->populate_thread, NULL, populate_all, pool);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

void populate_stop(struct pool *pool)
{
	if (pool->populating)
		pthread_join(pool->populate_thread, NULL);
	pool->populating = false;
}
