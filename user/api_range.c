// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* The calls of hugemap.h on ranges of addresses: syncs, advice, prefetch, numbers. */
#include "api.h"
#include "handler.h"
#include "linux.h"
#include "mapping.h"
#include "stats.h"
#include "steered.h"
#include "store.h"

/* 0, or -EINVAL: a range begins where nothing of this library is mapped. */
static int next_part(char *start, char *end, struct part *part)
{
	first_part(start, end, part);
	return part->store || steered_covers(start) ? 0 : not_mapped();
}

static int tell_errors(struct pool *pool, u64 map_id)
{
	struct mapping *map;
	int err = 0;

	pthread_rwlock_rdlock(&pool->maps_lock);
	map = map_by_id(pool, map_id);
	if (map) {
		pthread_mutex_lock(&map->error_lock);
		err = hm_store_error_check(map->store->core, &map->errors_seen);
		pthread_mutex_unlock(&map->error_lock);
	}
	pthread_rwlock_unlock(&pool->maps_lock);
	return err;
}

static int sync_part(const struct part *part, int flags)
{
	struct pool *pool = part->store->pool;
	int err, flushed, told;
	u64 since;

	if (flags & MS_ASYNC) {
		atomic_fetch_add(&part->store->wb_asked, 1);
		handler_kick(&pool->handlers[0]);
		return 0;
	}
	since = store_flushes(part->store);
	err = sync_range(part->store, part->pgoff, part->end_pgoff);
	flushed = part->store->writable ? store_flush(part->store, since) : 0;
	told = tell_errors(pool, part->map_id);
	if (!err)
		err = flushed ? flushed : told;
	if (err)
		fail(err,
		     "writing to the file failed (%s); what is not written stays cached and "
		     "is tried again",
		     strerror(-err));
	return err;
}

int hugemap_sync(void *addr, size_t length, int flags)
{
	char *start, *end;
	int err, first_err = 0;

	CALL_BEGINS();
	err = check_range(addr, length, true, &start, &end);
	if (err)
		return err;
	if (flags & ~(MS_SYNC | MS_ASYNC | MS_INVALIDATE) ||
	    !(flags & MS_SYNC) == !(flags & MS_ASYNC))
		return fail(-EINVAL, "flags must be MS_SYNC or MS_ASYNC");
	while (start < end) {
		struct part part;

		err = next_part(start, end, &part);
		if (err)
			return first_err ? first_err : err;
		err = part.store ? sync_part(&part, flags) : steered_sync(start, part.end, flags);
		err = put_part(&part, err);
		if (err && !first_err)
			first_err = err;
		start = part.end;
	}
	return first_err;
}

static void advise_mapping(struct mapping *map, enum hugemap_advice advice)
{
	u32 access = atomic_load(&map->access);

	switch (advice) {
	case HUGEMAP_ADVICE_NORMAL:
		access &= ~(u32)HM_ACCESS_SEQUENTIAL;
		atomic_store(&map->random, false);
		break;
	case HUGEMAP_ADVICE_SEQUENTIAL:
		access |= HM_ACCESS_SEQUENTIAL;
		atomic_store(&map->random, false);
		break;
	case HUGEMAP_ADVICE_RANDOM:
		access &= ~(u32)HM_ACCESS_SEQUENTIAL;
		atomic_store(&map->random, true);
		break;
	case HUGEMAP_ADVICE_PRIORITY_HIGH:
		access = (access & ~(u32)HM_ACCESS_LOW) | HM_ACCESS_HIGH;
		break;
	case HUGEMAP_ADVICE_PRIORITY_NORMAL:
		access &= ~(u32)(HM_ACCESS_LOW | HM_ACCESS_HIGH);
		break;
	case HUGEMAP_ADVICE_PRIORITY_LOW:
		access = (access & ~(u32)HM_ACCESS_HIGH) | HM_ACCESS_LOW;
		break;
	default:
		break;
	}
	atomic_store(&map->access, access);
}

static void will_need(const struct part *part)
{
	struct pool *pool = part->store->pool;
	struct job job = {
		.type = JOB_PREFETCH,
		.store = part->store,
		.map_id = part->map_id,
		.pos = part->pgoff,
		.end = part->end_pgoff,
	};
	u64 most = pool->slots_bytes / 4 * 3 >> HM_PAGE_SHIFT;

	if (job.end - job.pos > most)
		job.end = job.pos + most;
	handler_job(handler_any(pool), &job);
}

static void advise_part(const struct part *part, enum hugemap_advice advice)
{
	struct pool *pool = part->store->pool;
	struct mapping *map;

	switch (advice) {
	case HUGEMAP_ADVICE_WILLNEED:
		will_need(part);
		break;
	case HUGEMAP_ADVICE_DONTNEED:
		resize_drop_clean(part->store, part->pgoff, part->end_pgoff);
		break;
	default:
		pthread_rwlock_rdlock(&pool->maps_lock);
		map = map_by_id(pool, part->map_id);
		if (map)
			advise_mapping(map, advice);
		pthread_rwlock_unlock(&pool->maps_lock);
	}
}

int hugemap_advise(void *addr, size_t length, enum hugemap_advice advice)
{
	char *start, *end;
	int err;

	CALL_BEGINS();
	err = check_range(addr, length, false, &start, &end);
	if (err)
		return err;
	if ((unsigned int)advice > HUGEMAP_ADVICE_PRIORITY_LOW)
		return fail(-EINVAL, "the advice is not one of enum hugemap_advice");
	while (!err && start < end) {
		struct part part;

		err = next_part(start, end, &part);
		if (err)
			return err;
		if (part.store)
			advise_part(&part, advice);
		else
			err = steered_advise(start, part.end, advice);
		err = put_part(&part, err);
		start = part.end;
	}
	return err;
}

/* Touch a range from the kernel's side, which takes errors as results. */
static int populate(char *start, char *end)
{
	int err = sys_madvise(start, (size_t)(end - start), MADV_POPULATE_READ);

	return err ? fail(err == -ENOMEM ? -EINVAL : -EIO, "a part of the range cannot be read") :
		     0;
}

/* @room: of the pool, bytes: what is beyond that is left out. */
static int prefetch_part(char *start, struct part *part, size_t *room)
{
	u64 most = *room >> HM_PAGE_SHIFT, size = 0;
	int err = store_file_size(part->store, &size);

	size = (size + PAGE_MASK) >> HM_PAGE_SHIFT;
	if (part->end_pgoff > size)
		part->end_pgoff = size;
	if (part->end_pgoff > part->pgoff + most)
		part->end_pgoff = part->pgoff + most;
	if (err || part->pgoff >= part->end_pgoff)
		return err;
	*room -= (part->end_pgoff - part->pgoff) << HM_PAGE_SHIFT;
	will_need(part);
	return populate(start, start + ((part->end_pgoff - part->pgoff) << HM_PAGE_SHIFT));
}

int hugemap_prefetch(void *addr, size_t length)
{
	const struct pool *pool = NULL;
	char *start, *end;
	size_t room = 0;
	int err;

	CALL_BEGINS();
	err = check_range(addr, length, false, &start, &end);
	while (!err && start < end) {
		struct part part;
		char *next;

		err = next_part(start, end, &part);
		if (err)
			return err;
		next = part.end;
		if (part.store && part.store->pool != pool) {
			pool = part.store->pool;
			room = pool->slots_bytes / 4 * 3;
		}
		err = part.store ? prefetch_part(start, &part, &room) :
				   steered_prefetch(start, next);
		err = put_part(&part, err);
		start = next;
	}
	return err;
}

/* --- numbers ---------------------------------------------------------------------- */

int hugemap_map_stat(const void *addr, struct hugemap_map_stat *stat)
{
	struct hugemap_map_stat numbers = { .size = sizeof(numbers) };
	struct mapping *map = NULL;
	struct pool *pool;

	CALL_BEGINS();
	pthread_mutex_lock(&pools_lock);
	pool = find_pool(addr);
	if (pool) {
		pthread_rwlock_rdlock(&pool->maps_lock);
		map = map_find(pool, addr);
		if (map) {
			numbers.bytes = (u64)(map->end - map->start);
			numbers.faults = atomic_load(&map->faults);
			numbers.hits = atomic_load(&map->hits);
			numbers.wait_ns = atomic_load(&map->wait_ns);
		}
		pthread_rwlock_unlock(&pool->maps_lock);
	}
	pthread_mutex_unlock(&pools_lock);
	return map ? give_struct(stat, &numbers, sizeof(numbers)) : not_mapped();
}

/* pools_lock is held: the pool stays. */
static void pool_numbers_of(struct pool *pool, const void *addr, struct hugemap_stat *numbers)
{
	struct mapping *map;
	u64 bytes;

	pthread_rwlock_rdlock(&pool->maps_lock);
	stats_publish(pool);
	map = map_find(pool, addr);
	bytes = map ? (u64)(map->end - map->start) : 0;
	pthread_rwlock_unlock(&pool->maps_lock);
	/* That takes a while: no fault waits for it. */
	stats_fill(pool->stats, numbers);
	numbers->mapped_bytes = bytes;
}

static int pool_numbers(const void *addr, struct hugemap_stat *numbers)
{
	struct pool *pool;

	pthread_mutex_lock(&pools_lock);
	pool = find_pool(addr);
	if (pool)
		pool_numbers_of(pool, addr, numbers);
	pthread_mutex_unlock(&pools_lock);
	return pool ? 0 : not_mapped();
}

int hugemap_stat(const void *addr, struct hugemap_stat *stat)
{
	struct hugemap_stat numbers = { .size = sizeof(numbers) };
	int err;

	CALL_BEGINS();
	err = steered_covers(addr) ? steered_stat(addr, &numbers) : pool_numbers(addr, &numbers);
	return err ? err : give_struct(stat, &numbers, sizeof(numbers));
}
