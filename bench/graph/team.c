// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "graph.h"
#include "usage.h"

#include <err.h>
#include <pthread.h>

uint64_t team_deadline;

static pthread_barrier_t team_barrier;

bool team_is_late(void)
{
	return team_deadline && usage_now() >= team_deadline;
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
