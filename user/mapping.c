// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Mappings: address space for a range of a store, watched by the userfaultfd.
 *
 * The addresses lie to the file as physical memory lies to huge pages: address
 * and offset are the same modulo 2 MB. What is reserved is rounded out to whole
 * blocks, so that the first and the last one can be mapped in one piece too.
 */
#include "engine.h"

#include <errno.h>
#include <stdlib.h>

#define BLOCK_MASK ((uintptr_t)HM_BLOCK_SIZE - 1)

static char *align_down(const char *addr)
{
	return (char *)((uintptr_t)addr & ~BLOCK_MASK);
}

static char *align_up(const char *addr)
{
	return (char *)(((uintptr_t)addr + BLOCK_MASK) & ~BLOCK_MASK);
}

/* Address space of whole blocks, aligned; or NULL. */
static char *reserve(size_t bytes)
{
	size_t all = bytes + HM_BLOCK_SIZE;
	char *at = mmap(NULL, all, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	char *start;

	if (at == MAP_FAILED)
		return NULL;
	start = align_up(at);
	if (start > at)
		munmap(at, (size_t)(start - at));
	if (start + bytes < at + all)
		munmap(start + bytes, (size_t)(at + all - (start + bytes)));
	return start;
}

static int watch(struct pool *pool, struct mapping *map)
{
	size_t bytes = (size_t)(map->end - map->start);

	madvise(map->start, bytes, map->page == HUGEMAP_PAGE_2M ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
	madvise(map->start, bytes, MADV_DONTDUMP);
	if (madvise(map->start, bytes, MADV_DONTFORK) < 0)
		return -errno;
	return uffd_register(pool->uffd, map->start, bytes);
}

void mapping_free(struct mapping *map)
{
	pthread_mutex_destroy(&map->error_lock);
	free(map->tables);
	free(map);
}

static struct mapping *mapping_alloc(size_t regions)
{
	struct mapping *map = calloc(1, sizeof(*map));

	if (!map)
		return NULL;
	map->tables = calloc((regions + 63) / 64 + 1, sizeof(*map->tables));
	if (!map->tables) {
		free(map);
		return NULL;
	}
	pthread_mutex_init(&map->error_lock, NULL);
	return map;
}

static u32 priority_access(enum hugemap_priority priority)
{
	switch (priority) {
	case HUGEMAP_PRIORITY_HIGH:
		return HM_ACCESS_HIGH;
	case HUGEMAP_PRIORITY_LOW:
		return HM_ACCESS_LOW;
	default:
		return 0;
	}
}

/* The reference to the store is the mapping's, or given back on an error. */
static void *create(struct store *store, off_t offset, size_t length, int prot,
		    const struct hugemap_options *options)
{
	size_t skip = (size_t)((uintptr_t)offset & BLOCK_MASK);
	size_t bytes = (skip + length + BLOCK_MASK) & ~BLOCK_MASK;
	struct pool *pool = store->pool;
	struct mapping *map;
	int err = -ENOMEM;

	map = mapping_alloc(bytes >> HM_BLOCK_SHIFT);
	if (!map)
		goto put;
	map->start = reserve(bytes);
	if (!map->start) {
		fail(err, "no address space is left for a mapping of %zu MB", bytes >> 20);
		goto free_map;
	}
	map->end = map->start + bytes;
	map->asked = map->start + skip;
	map->asked_end = map->asked + ((length + HM_PAGE_SIZE - 1) & ~(size_t)(HM_PAGE_SIZE - 1));
	map->store = store;
	map->pgoff = ((u64)offset - skip) >> HM_PAGE_SHIFT;
	map->prot = prot;
	map->page = options->page;
	atomic_init(&map->access, priority_access(options->priority));
	map->errors_seen = hm_store_error_sample(store->core);
	err = watch(pool, map);
	if (err) {
		fail(err, "the mapping could not be watched by userfaultfd");
		goto unreserve;
	}
	pthread_rwlock_wrlock(&pool->maps_lock);
	err = map_insert(pool, map);
	pthread_rwlock_unlock(&pool->maps_lock);
	if (!err)
		return map->asked;
unreserve:
	munmap(map->start, bytes);
free_map:
	mapping_free(map);
put:
	store_put(store);
	return (void *)(intptr_t)err;
}

/**
 * mapping_create() - map a file with the user-space engine
 *
 * The arguments have been checked. Return: the address, or a negative errno as
 * a pointer.
 */
void *mapping_create(struct pool *pool, int fd, off_t offset, size_t length, int prot,
		     const struct hugemap_options *options)
{
	struct store *store;
	int err = store_get(pool, fd, prot & PROT_WRITE, &store);

	if (err)
		return (void *)(intptr_t)err;
	return create(store, offset, length, prot, options);
}

/**
 * mapping_again() - map what a mapping maps once more, with another length
 * @start: where the mapping starts for the program
 * @end: where it ends
 * @length: of the new one
 *
 * Return: as mapping_create(); -EINVAL if the range is not one mapping.
 */
void *mapping_again(struct pool *pool, char *start, char *end, size_t length)
{
	struct hugemap_options options = { .size = sizeof(options) };
	struct store *store = NULL;
	struct mapping *map, *copy;
	u32 access = 0;
	bool random = false;
	off_t offset = 0;
	int prot = 0;
	void *addr;

	pthread_rwlock_rdlock(&pool->maps_lock);
	map = map_find(pool, start);
	if (map && map->asked == start && map->asked_end == end) {
		store = map->store;
		atomic_fetch_add(&store->refs, 1);
		offset = (off_t)(map_pgoff(map, (uintptr_t)start) << HM_PAGE_SHIFT);
		prot = map->prot;
		options.page = map->page;
		access = atomic_load(&map->access);
		random = atomic_load(&map->random);
	}
	pthread_rwlock_unlock(&pool->maps_lock);
	if (!store)
		return (void *)(intptr_t)fail(-EINVAL, "the range is not one mapping");
	if ((u64)offset + length > (u64)INT64_MAX) {
		store_put(store);
		return (void *)(intptr_t)fail(-EOVERFLOW, "the range ends beyond the largest "
							  "possible file");
	}
	addr = create(store, offset, length, prot, &options);
	if (hugemap_error(addr))
		return addr;
	pthread_rwlock_rdlock(&pool->maps_lock);
	copy = map_find(pool, addr);
	if (copy) {
		atomic_store(&copy->access, access);
		atomic_store(&copy->random, random);
	}
	pthread_rwlock_unlock(&pool->maps_lock);
	return addr;
}

/* --- unmapping --------------------------------------------------------------- */

/* Units of a mapping in a range of pages go back to their slots. False: pinned. */
bool mapping_take_out(struct pool *pool, struct mapping *map, u64 pos, u64 end)
{
	bool all = true;

	while (pos < end) {
		struct hm_unit unit;
		enum hm_state state = hm_peek(map->store->core, pos, &unit);
		u32 removed;

		if (page_is_mapped(pool, state, &unit, map)) {
			int err = page_remove(pool, &unit, 1, &removed);

			if (err == -EBUSY)
				all = false;
			else if (err == -ENOENT)
				fault_lost(map->store, &unit);
		}
		pos = unit.pgoff + unit.npages;
	}
	return all;
}

/* Blocks of which only a part goes away must not be mapped whole any more. */
static bool break_block(struct pool *pool, struct mapping *map, const char *edge)
{
	u64 pgoff = map_pgoff(map, (uintptr_t)edge);
	u64 block = pgoff & ~(u64)(HM_BLOCK_PAGES - 1), pos = block;
	struct hm_unit unit;
	enum hm_state state = hm_peek(map->store->core, pgoff, &unit);
	u32 removed;

	if (pgoff == block || unit.npages == 1 || state == HM_ABSENT)
		return true;
	if (state != HM_CLEAN || !mapping_take_out(pool, map, block, block + HM_BLOCK_PAGES))
		return false;
	if (hm_invalidate(map->store->core, &pos, block + 1, false, &unit) != HM_INV_UNIT)
		return false;
	if (page_remove(pool, &unit, 1, &removed) == -EBUSY) {
		hm_evict_done(&unit, HM_EVICT_BUSY);
		return false;
	}
	if (hm_evict_done(&unit, HM_EVICT_DISCARD))
		page_wake(map->store, block, HM_BLOCK_PAGES);
	return true;
}

/* What is left of a mapping on one side of the range that goes away. */
static struct mapping *remainder_of(const struct mapping *map, char *start, char *end)
{
	struct mapping *part = mapping_alloc((size_t)(end - start) / HM_BLOCK_SIZE + 2);
	u32 shift, i, regions;

	if (!part)
		return NULL;
	part->store = map->store;
	part->start = start;
	part->end = end;
	part->asked = start > map->asked ? start : map->asked;
	part->asked_end = end < map->asked_end ? end : map->asked_end;
	part->pgoff = map_pgoff(map, (uintptr_t)start);
	part->prot = map->prot;
	part->page = map->page;
	atomic_init(&part->access, atomic_load(&map->access));
	atomic_init(&part->random, atomic_load(&map->random));
	atomic_init(&part->poisoned, atomic_load(&map->poisoned));
	part->errors_seen = map->errors_seen;
	if (start == map->start) { /* one of the two goes on counting */
		atomic_init(&part->faults, atomic_load(&map->faults));
		atomic_init(&part->hits, atomic_load(&map->hits));
		atomic_init(&part->wait_ns, atomic_load(&map->wait_ns));
	}
	shift = (u32)((align_down(start) - align_down(map->start)) >> HM_BLOCK_SHIFT);
	regions = (u32)((align_up(end) - align_down(start)) >> HM_BLOCK_SHIFT);
	for (i = 0; i < regions; i++)
		if (map->tables[(i + shift) / 64] >> ((i + shift) % 64) & 1)
			hm_bit_set(part->tables, i);
	return part;
}

/* Units that stay mapped belong to what is left of the mapping. */
static void adopt(struct pool *pool, struct mapping *from, struct mapping *to)
{
	u64 pos = to->pgoff, end = map_end_pgoff(to);

	while (pos < end) {
		struct hm_unit unit;
		enum hm_state state = hm_peek(to->store->core, pos, &unit);

		if (page_is_mapped(pool, state, &unit, from))
			pool->places[unit.frame].map = to;
		pos = unit.pgoff + unit.npages;
	}
}

/*
 * Take [start, end) out of a mapping; maps_lock is held for writing. False: a
 * page is pinned or being written, try again.
 */
static bool cut(struct pool *pool, struct mapping *map, char *start, char *end, int *err)
{
	struct mapping *left = NULL, *right = NULL;
	u64 first = map_pgoff(map, (uintptr_t)start), last = map_pgoff(map, (uintptr_t)end);

	if (!break_block(pool, map, start) || !break_block(pool, map, end) ||
	    !mapping_take_out(pool, map, first, last))
		return false;
	if (start > map->start)
		left = remainder_of(map, map->start, start);
	if (end < map->end)
		right = remainder_of(map, end, map->end);
	if ((start > map->start && !left) || (end < map->end && !right)) {
		*err = -ENOMEM;
		return true;
	}
	munmap(start, (size_t)(end - start));
	uffd_wake(pool->uffd, start, (size_t)(end - start));
	map_remove(pool, map);
	if (left) {
		map_insert(pool, left);
		adopt(pool, map, left);
	}
	if (right) {
		map_insert(pool, right);
		adopt(pool, map, right);
	}
	/* One reference for each mapping: the old one's is the caller's now. */
	atomic_fetch_add(&map->store->refs, (left ? 1u : 0u) + (right ? 1u : 0u));
	map->id = 0;
	return true;
}

/* Part of a range that lies in one mapping; rounded out at the mapping's ends. */
static void clip(const struct mapping *map, char **start, char **end)
{
	if (*start <= map->asked)
		*start = map->start;
	if (*end >= map->asked_end)
		*end = map->end;
}

/* Write, then unmap; returns a write error. */
static int unmap_one(struct pool *pool, u64 id, char *start, char *end)
{
	struct mapping *map;
	struct store *store;
	int err = 0, write_err = 0;
	u64 first, last;
	bool done = false;
	u32 looks = 0;

	pthread_rwlock_wrlock(&pool->maps_lock);
	map = map_by_id(pool, id);
	if (!map) {
		pthread_rwlock_unlock(&pool->maps_lock);
		return -EINVAL;
	}
	clip(map, &start, &end);
	store = map->store;
	atomic_fetch_add(&store->refs, 1);
	first = map_pgoff(map, (uintptr_t)align_down(start));
	last = map_pgoff(map, (uintptr_t)align_up(end));
	pthread_rwlock_unlock(&pool->maps_lock);

	while (!done) {
		write_err = map->prot & PROT_WRITE ? sync_range(store, first, last) : 0;
		pthread_rwlock_wrlock(&pool->maps_lock);
		if (map_by_id(pool, id) != map)
			err = -EINVAL; /* another thread unmaps it too */
		done = err || cut(pool, map, start, end, &err);
		if (done && !err && !write_err)
			write_err = hm_store_error_check(store->core, &map->errors_seen);
		pthread_rwlock_unlock(&pool->maps_lock);
		if (!done)
			look_again(&looks);
	}
	if (!err) {
		/* Stores may have come between the write and the end. */
		if (map->prot & PROT_WRITE && !write_err)
			write_err = sync_range(store, first, last);
		mapping_free(map);
		store_put(store); /* the mapping's */
	}
	store_put(store); /* ours */
	return err ? err : write_err;
}

/**
 * mapping_unmap() - unmap the part of a range that lies in its first mapping
 * @start: mapped by the pool, as far as one knows without a lock
 * @end: the end of the range
 * @next: set to the end of that part. What lies before it is not looked at
 *	again: another thread may have mapped something there since.
 *
 * Return: 0 or an error, of a write too.
 */
int mapping_unmap(struct pool *pool, char *start, char *end, char **next)
{
	struct mapping *map;
	u64 id = 0;

	*next = end;
	pthread_rwlock_rdlock(&pool->maps_lock);
	map = map_find(pool, start);
	if (map) {
		id = map->id;
		*next = end < map->asked_end ? end : map->asked_end;
	}
	pthread_rwlock_unlock(&pool->maps_lock);
	return id ? unmap_one(pool, id, start, *next) : -EINVAL;
}
