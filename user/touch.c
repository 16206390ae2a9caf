// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Mapping pages that no thread has touched. Where only faults from user mode are
 * served, nothing but a touch of the program's own would map a page, and one that
 * cannot be read would kill it. So a handler is asked to do what a fault would
 * make it do, and we look until it is done: errors are results here.
 */
#include "engine.h"

#include <errno.h>
#include <time.h>
#include <unistd.h>

#define FIRST_PAUSE_NS 20000u
#define LAST_PAUSE_NS 1000000u
#define ASK_AGAIN_NS 20000000u /* what was asked for may have come and gone */
#define PATIENCE_NS 5000000000ull

/* Is a page mapped? *next: the page after its unit. */
static int look(struct store *store, u64 map_id, u64 pgoff, bool *mapped, u64 *next)
{
	pthread_mutex_t *lock = block_lock(store, pgoff);
	struct pool *pool = store->pool;
	struct mapping *map;
	struct hm_unit unit;

	pthread_rwlock_rdlock(&pool->maps_lock);
	map = map_by_id(pool, map_id);
	if (map) {
		pthread_mutex_lock(lock);
		*mapped = page_is_mapped(pool, hm_peek(store->core, pgoff, &unit), &unit, map);
		*next = unit.pgoff + unit.npages;
		pthread_mutex_unlock(lock);
	}
	pthread_rwlock_unlock(&pool->maps_lock);
	return map ? 0 : fail(-EINVAL, "the range has been unmapped");
}

/* Can a page be read from the file at all? */
static int try_file(struct store *store, u64 pgoff)
{
	char byte;

	if (pread(store->fd_buffered, &byte, 1, (off_t)(pgoff << HM_PAGE_SHIFT)) < 0)
		return fail(-errno, "a part of the range cannot be read");
	return 0;
}

static void ask(struct store *store, u64 map_id, u64 pgoff, u64 end)
{
	struct handler *h = handler_any(store->pool);
	struct job job = {
		.type = JOB_TOUCH,
		.store = store,
		.map_id = map_id,
		.pos = pgoff,
	};

	handler_job(h, &job); /* if there are too many, it is asked again */
	if ((pgoff | (HM_BLOCK_PAGES - 1)) + 1 >= end)
		return;
	job.type = JOB_PREFETCH;
	job.end = end;
	handler_job(h, &job);
}

static int touch_page(struct store *store, u64 map_id, u64 pgoff, u64 end, u64 *next)
{
	struct timespec pause = { .tv_nsec = FIRST_PAUSE_NS };
	u64 start = 0, asked = 0, now;
	bool mapped;
	int err;

	for (;;) {
		err = look(store, map_id, pgoff, &mapped, next);
		if (err || mapped)
			return err;
		now = clock_ns();
		if (!start)
			start = now;
		if (now - start > PATIENCE_NS)
			return fail(-EIO, "a part of the range was not read in time");
		if (!asked || now - asked > ASK_AGAIN_NS) {
			err = asked ? try_file(store, pgoff) : 0;
			if (err)
				return err;
			ask(store, map_id, pgoff, end);
			asked = now;
		}
		nanosleep(&pause, NULL);
		if (pause.tv_nsec < LAST_PAUSE_NS)
			pause.tv_nsec *= 2;
	}
}

/**
 * touch_range() - map the pages of a range, which lies in one mapping
 * @store: held by a reference; no lock is held
 * @pgoff: the first page
 * @end: the page after the last one, within the file
 *
 * Each of them is mapped at some moment; those that the pool cannot hold at once
 * are gone again when this returns. Return: 0, -EINVAL: there is no such mapping
 * any more, or the errno of a failed read.
 */
int touch_range(struct store *store, u64 map_id, u64 pgoff, u64 end)
{
	u64 next = end;
	int err = 0;

	while (!err && pgoff < end) {
		err = touch_page(store, map_id, pgoff, end, &next);
		pgoff = next;
	}
	return err;
}
