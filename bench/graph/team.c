// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "graph.h"

#include <err.h>
#include <pthread.h>
#include <time.h>

uint64_t team_deadline;

static pthread_barrier_t team_barrier;

static bool team_late;

bool team_was_late(void)
{
	return __atomic_load_n(&team_late, __ATOMIC_RELAXED);
}

bool team_is_late(void)
{
	struct timespec now;

	/* The callers check the time at each vertex, and this clock is the fastest. */
	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	if (!team_deadline ||
	    (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec < team_deadline)
		return false;
	__atomic_store_n(&team_late, true, __ATOMIC_RELAXED);
	return true;
}

void team_run(unsigned int threads, void *(*member)(void *arg), void *arg)
{
	pthread_t ids[TEAM_MAX];
	unsigned int i;

	pthread_barrier_init(&team_barrier, NULL, threads);
	for (i = 1; i < threads; i++)
		if (pthread_create(&ids[i], NULL, member, arg))
			errx(1, "a thread could not be started");
	member(arg);
	for (i = 1; i < threads; i++)
		pthread_join(ids[i], NULL);
	pthread_barrier_destroy(&team_barrier);
}

bool team_wait(void)
{
	return pthread_barrier_wait(&team_barrier) == PTHREAD_BARRIER_SERIAL_THREAD;
}

bool team_take(uint64_t *next, uint64_t end, uint64_t step, uint64_t *from, uint64_t *to)
{
	*from = __atomic_fetch_add(next, step, __ATOMIC_RELAXED);
	*to = *from + step < end ? *from + step : end;
	return *from < end;
}
