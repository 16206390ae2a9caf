/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * An operation beside other processes that work against it in a loop. The operation must end before
 * the others have done a number of operations beside it; then they stop by themselves.
 */
#ifndef HM_GUEST_OTHERS_H
#define HM_GUEST_OTHERS_H

#include <stdatomic.h>

#include "common.h"

#define OTHERS_MAX 2u

/* Memory that all processes share. */
struct others {
	_Atomic bool stop, counts; /* @counts: the operation runs */
	_Atomic unsigned int ready, done; /* @done: operations of the others beside the operation */
	unsigned int n, limit, longest; /* @longest: the largest @done of an operation */
	int flags; /* open flags of "f" */
	void (*work)(int fd, unsigned int i);
	pid_t pids[OTHERS_MAX];
};

static inline void others_main(void *arg)
{
	struct others *others = arg;
	int fd = open_file("f", others->flags);
	unsigned int i;

	for (i = 0; !others->stop && others->done < others->limit; i++) {
		others->work(fd, i);
		others->ready += !i;
		others->done += others->counts;
	}
}

/* Start @n others, and wait until they are busy. @work works on "f", opened with @flags. */
static inline struct others *others_start(unsigned int n, int flags, unsigned int limit,
					  void (*work)(int fd, unsigned int i))
{
	struct others *others =
		(void *)map_file(-1, 0, SMALL, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS);
	unsigned int i;

	others->n = n;
	others->flags = flags;
	others->limit = limit;
	others->work = work;
	for (i = 0; i < n; i++)
		others->pids[i] = start_child(others_main, others);
	while (others->ready < n)
		usleep(1000);
	return others;
}

static inline void others_stop(struct others *others)
{
	unsigned int i;

	others->stop = true;
	for (i = 0; i < others->n; i++)
		wait_child(others->pids[i]);
}

/* The operation begins. */
static inline void others_count(struct others *others)
{
	others->done = 0;
	others->counts = true;
}

/* The operation has ended. */
static inline void others_check(struct others *others, const char *what)
{
	unsigned int waited = others->done;

	others->counts = false;
	EXPECT(waited < others->limit, "%s waited for the end of all others", what);
	others->longest = waited > others->longest ? waited : others->longest;
}

#endif /* HM_GUEST_OTHERS_H */
