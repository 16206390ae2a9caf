// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* The calls of hugemap.h on ranges of addresses: syncs, advice, prefetch, numbers. */
#include "api.h"
#include "handler.h"
#include "linux.h"
#include "mapping.h"
#include "stats.h"
#include "steered.h"
#include "store.h"

/* A part of a range that lies in one mapping. */
struct part {
	struct store *store; /* with a reference */
	u64 map_id;
	u64 pgoff, end_pgoff;
	char *end;
};

static bool get_part(struct pool *pool, char *start, char *end, struct part *part)
{
	struct mapping *map;

	pthread_rwlock_rdlock(&pool->maps_lock);
	map = map_find(pool, start);
	if (map) {
		part->store = map->store;
		atomic_fetch_add(&map->store->refs, 1);
		part->map_id = map->id;
		part->end = end < map->end ? end : map->end;
		part->pgoff = map_pgoff(map, (uintptr_t)start);
		part->end_pgoff = map_pgoff(map, (uintptr_t)part->end);
	}
	pthread_rwlock_unlock(&pool->maps_lock);
	return map;
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

static int sync_part(struct pool *pool, const struct part *part, int flags)
{
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
	struct pool *pool;
	int err, put_err, first_err = 0;

	CALL_BEGINS();
	err = check_range(addr, length, true, &start, &end);
	if (err)
		return err;
	if (flags & ~(MS_SYNC | MS_ASYNC | MS_INVALIDATE) ||
	    !(flags & MS_SYNC) == !(flags & MS_ASYNC))
		return fail(-EINVAL, "flags must be MS_SYNC or MS_ASYNC");
	if (steered_covers(start))
		return steered_sync(start, end, flags);
	pool = find_pool(start);
	if (!pool)
		return not_mapped();
	while (start < end) {
		struct part part;

		if (!get_part(pool, start, end, &part))
			return first_err ? first_err : not_mapped();
		err = sync_part(pool, &part, flags);
		put_err = store_put(part.store);
		if (!err)
			err = put_err;
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

static void will_need(struct pool *pool, const struct part *part)
{
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

static int advise_part(struct pool *pool, const struct part *part, enum hugemap_advice advice)
{
	struct mapping *map;

	switch (advice) {
	case HUGEMAP_ADVICE_WILLNEED:
		will_need(pool, part);
		return 0;
	case HUGEMAP_ADVICE_DONTNEED:
		resize_drop_clean(part->store, part->pgoff, part->end_pgoff);
		return 0;
	default:
		pthread_rwlock_rdlock(&pool->maps_lock);
		map = map_by_id(pool, part->map_id);
		if (map)
			advise_mapping(map, advice);
		pthread_rwlock_unlock(&pool->maps_lock);
		return 0;
	}
}

int hugemap_advise(void *addr, size_t length, enum hugemap_advice advice)
{
	char *start, *end;
	struct pool *pool;
	int err;

	CALL_BEGINS();
	err = check_range(addr, length, false, &start, &end);
	if (err)
		return err;
	if ((unsigned int)advice > HUGEMAP_ADVICE_PRIORITY_LOW)
		return fail(-EINVAL, "the advice is not one of enum hugemap_advice");
	if (steered_covers(start))
		return steered_advise(start, end, advice);
	pool = find_pool(start);
	if (!pool)
		return not_mapped();
	while (start < end) {
		struct part part;

		if (!get_part(pool, start, end, &part))
			return not_mapped();
		advise_part(pool, &part, advice);
		err = store_put(part.store);
		if (err)
			return err;
		start = part.end;
	}
	return 0;
}

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

/* Touch a range from the kernel's side, which takes errors as results. */
static int populate(char *start, char *end)
{
	int err = sys_madvise(start, (size_t)(end - start), MADV_POPULATE_READ);

	return err ? fail(err == -ENOMEM ? -EINVAL : -EIO, "a part of the range cannot be read") :
		     0;
}

int hugemap_prefetch(void *addr, size_t length)
{
	char *start, *end;
	struct pool *pool;
	int err, put_err;

	CALL_BEGINS();
	err = check_range(addr, length, false, &start, &end);
	if (err)
		return err;
	if (steered_covers(start))
		return populate(start, end);
	pool = find_pool(start);
	if (!pool)
		return not_mapped();
	if ((size_t)(end - start) > pool->slots_bytes / 4 * 3)
		end = start + pool->slots_bytes / 4 * 3;
	while (start < end) {
		struct part part;
		u64 size = 0;

		if (!get_part(pool, start, end, &part))
			return not_mapped();
		err = store_file_size(part.store, &size);
		size = (size + PAGE_MASK) >> HM_PAGE_SHIFT;
		if (part.end_pgoff > size)
			part.end_pgoff = size;
		if (!err && part.pgoff < part.end_pgoff) {
			will_need(pool, &part);
			err = populate(start,
				       start + ((part.end_pgoff - part.pgoff) << HM_PAGE_SHIFT));
		}
		put_err = store_put(part.store);
		if (err || put_err)
			return err ? err : put_err;
		start = part.end;
	}
	return 0;
}

/* --- numbers ---------------------------------------------------------------------- */

int hugemap_map_stat(const void *addr, struct hugemap_map_stat *stat)
{
	struct hugemap_map_stat numbers = { .size = sizeof(numbers) };
	struct mapping *map = NULL;
	struct pool *pool;

	CALL_BEGINS();
	pool = find_pool(addr);
	if (!pool)
		return not_mapped();
	pthread_rwlock_rdlock(&pool->maps_lock);
	map = map_find(pool, addr);
	if (map) {
		numbers.bytes = (u64)(map->end - map->start);
		numbers.faults = atomic_load(&map->faults);
		numbers.hits = atomic_load(&map->hits);
		numbers.wait_ns = atomic_load(&map->wait_ns);
	}
	pthread_rwlock_unlock(&pool->maps_lock);
	return map ? give_struct(stat, &numbers, sizeof(numbers)) : not_mapped();
}

static int pool_numbers(const void *addr, struct hugemap_stat *numbers)
{
	struct pool *pool = find_pool(addr);
	struct mapping *map;
	u64 bytes;

	if (!pool)
		return not_mapped();
	pthread_rwlock_rdlock(&pool->maps_lock);
	stats_publish(pool);
	map = map_find(pool, addr);
	bytes = map ? (u64)(map->end - map->start) : 0;
	pthread_rwlock_unlock(&pool->maps_lock);
	/* That takes a while: nobody waits for it. */
	stats_fill(pool->stats, numbers);
	numbers->mapped_bytes = bytes;
	return 0;
}

int hugemap_stat(const void *addr, struct hugemap_stat *stat)
{
	struct hugemap_stat numbers = { .size = sizeof(numbers) };
	int err;

	CALL_BEGINS();
	err = steered_covers(addr) ? steered_stat(addr, &numbers) : pool_numbers(addr, &numbers);
	return err ? err : give_struct(stat, &numbers, sizeof(numbers));
}
