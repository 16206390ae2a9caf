// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Mappings of a pool: address space for a range of a store, watched by the userfaultfd as
 * far as the pool has the file, and the kernel's mmap from there on.
 *
 * The addresses lie to the file as physical memory lies to huge pages: address and offset
 * are the same modulo 2 MB. The pool's part is of whole blocks: what would not be is
 * refused.
 */
#include "evict.h"
#include "frames.h"
#include "handler.h"
#include "linux.h"
#include "mapping.h"
#include "races.h"
#include "reason.h"
#include "steered.h"
#include "store.h"
#include "uffd.h"

#include <errno.h>
#include <stdlib.h>

#define BLOCK_MASK ((uintptr_t)HM_BLOCK_SIZE - 1)
#define PAGE_MASK ((uintptr_t)HM_PAGE_SIZE - 1)

/* Address space, aligned; or NULL. */
static char *reserve(size_t bytes)
{
	size_t all = bytes + HM_BLOCK_SIZE, skip;
	char *at = memory_reserve(all);

	if (!at)
		return NULL;
	skip = -(uintptr_t)at & BLOCK_MASK;
	if (skip)
		sys_munmap(at, skip);
	sys_munmap(at + skip + bytes, HM_BLOCK_SIZE - skip);
	return at + skip;
}

/* From the limit on, the mapping is the kernel's; in place of what is there. */
static int map_rest(struct mapping *map, char *from)
{
	struct store *store = map->store;
	size_t bytes = (size_t)(map->end - from);
	u64 offset = map_pgoff(map, (uintptr_t)from) << HM_PAGE_SHIFT;
	int err;

	if (!bytes)
		return 0;
	program_memory_begin();
	err = sys_error(sys_mmap(from, bytes, map->prot, MAP_SHARED | MAP_FIXED, store->fd_buffered,
				 offset));
	program_memory_end();
	if (err)
		return err;
	sys_madvise(from, bytes, MADV_HUGEPAGE);
	return sys_madvise(from, bytes, MADV_DONTFORK);
}

/*
 * Before anybody can find the mapping; maps_lock is held for writing.
 * @rest: from there on it is the kernel's already
 */
static int watch(struct pool *pool, struct mapping *map, const char *rest)
{
	char *limit = map_limit(map);
	size_t bytes = (size_t)(limit - map->start);
	int err = 0;

	if (bytes) {
		sys_madvise(map->start, bytes, MADV_HUGEPAGE);
		sys_madvise(map->start, bytes, MADV_DONTDUMP);
		err = sys_madvise(map->start, bytes, MADV_DONTFORK);
		if (!err)
			err = uffd_register(pool->uffd, map->start, bytes);
	}
	/* The limit may have come down meanwhile. */
	return err || limit == rest ? err : map_rest(map, limit);
}

static void mapping_free(struct mapping *map)
{
	pthread_mutex_destroy(&map->error_lock);
	free(map);
}

static struct mapping *mapping_alloc(void)
{
	struct mapping *map = calloc(1, sizeof(*map));

	if (map)
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

/* The pool has whole blocks, or there is an end of what it has. */
static int check_blocks(const struct store *store, u64 offset, size_t bytes)
{
	u64 limit = hm_store_size(store->core);

	if (offset & BLOCK_MASK)
		return fail(-EINVAL, "with a pool, the offset must be a multiple of 2 MB");
	if (offset + bytes < limit && bytes & BLOCK_MASK)
		return fail(-EINVAL, "with a pool, the length must be a multiple of 2 MB, or reach "
				     "to the end of the file");
	return 0;
}

/*
 * The reference to the store is the mapping's, or given back on an error.
 * @errors_seen: of the mapping that it takes the place of; NULL: there is none
 */
static void *create(struct store *store, u64 offset, size_t length, int prot, u32 access,
		    const u64 *errors_seen)
{
	size_t bytes = (length + PAGE_MASK) & ~PAGE_MASK;
	struct pool *pool = store->pool;
	struct mapping *map = NULL;
	int err = check_blocks(store, offset, bytes), put_err;
	char *rest;

	if (err)
		goto put;
	err = -ENOMEM;
	map = mapping_alloc();
	if (!map)
		goto put;
	map->start = reserve(bytes);
	if (!map->start) {
		fail(err, "no address space is left for a mapping of %zu MB", bytes >> 20);
		goto put;
	}
	map->end = map->start + bytes;
	err = steered_forget(map->start, map->end);
	if (err)
		goto unmap;
	map->store = store;
	map->pgoff = offset >> HM_PAGE_SHIFT;
	map->prot = prot;
	atomic_init(&map->access, access);
	map->errors_seen = errors_seen ? *errors_seen : hm_store_error_sample(store->core);
	/* A server may be asked: faults are served meanwhile. A child must not have it. */
	pthread_rwlock_rdlock(&fork_lock);
	rest = map_limit(map);
	err = map_rest(map, rest);
	pthread_rwlock_unlock(&fork_lock);
	if (err) {
		fail(err, "the end of the file cannot be mapped (%s)", strerror(-err));
		goto unmap;
	}
	/* The limit must not change before the mapping can be found. */
	pthread_rwlock_wrlock(&pool->maps_lock);
	err = watch(pool, map, rest);
	if (err)
		fail(err, "the mapping could not be watched by userfaultfd (%s)", strerror(-err));
	else
		err = map_insert(pool, map);
	pthread_rwlock_unlock(&pool->maps_lock);
	if (!err)
		return map->start;
unmap:
	sys_munmap(map->start, bytes);
put:
	if (map)
		mapping_free(map);
	put_err = store_put(store);
	return (void *)(intptr_t)(put_err ? put_err : err);
}

/**
 * mapping_create() - map a file through a pool
 *
 * The arguments have been checked. Return: the address, or a negative errno as a pointer.
 */
void *mapping_create(struct pool *pool, int fd, off_t offset, size_t length, int prot,
		     const struct hugemap_options *options)
{
	struct store *store;
	int err = store_get(pool, fd, prot & PROT_WRITE, &store);

	if (err)
		return (void *)(intptr_t)err;
	/* Looked up after we can be seen: of two at a time, one sees the other. */
	if (steered_conflicts(store->dev, store->ino, store->writable)) {
		err = store_put(store);
		if (!err)
			err = fail(-EBUSY, "the file is mapped without a pool in this process, "
					   "which would not see what is stored through one");
		return (void *)(intptr_t)err;
	}
	return create(store, (u64)offset, length, prot, priority_access(options->priority), NULL);
}

/* 0, or -EINVAL: the range is not one mapping, from its beginning to its end. */
int mapping_check(struct pool *pool, const char *start, const char *end)
{
	struct mapping *map;
	bool is_one;

	pthread_rwlock_rdlock(&pool->maps_lock);
	map = map_find(pool, start);
	is_one = map && map->start == start && map->end == end;
	pthread_rwlock_unlock(&pool->maps_lock);
	return is_one ? 0 : fail(-EINVAL, "the range is not one mapping");
}

/**
 * mapping_again() - map what a mapping maps once more, with another length
 * @start: where the mapping starts
 * @end: where it ends
 * @length: of the new one
 *
 * Return: as mapping_create(); -EINVAL if the range is not one mapping.
 */
void *mapping_again(struct pool *pool, char *start, char *end, size_t length)
{
	struct store *store = NULL;
	struct mapping *map, *copy;
	u32 access = 0;
	bool random = false;
	u64 offset = 0, errors_seen = 0;
	int prot = 0;
	void *addr;

	pthread_rwlock_rdlock(&pool->maps_lock);
	map = map_find(pool, start);
	if (map && map->start == start && map->end == end) {
		store = map->store;
		atomic_fetch_add(&store->refs, 1);
		offset = map->pgoff << HM_PAGE_SHIFT;
		prot = map->prot;
		access = atomic_load(&map->access);
		random = atomic_load(&map->random);
		pthread_mutex_lock(&map->error_lock);
		errors_seen = map->errors_seen;
		pthread_mutex_unlock(&map->error_lock);
	}
	pthread_rwlock_unlock(&pool->maps_lock);
	if (!store)
		return (void *)(intptr_t)fail(-EINVAL, "the range is not one mapping");
	if (offset + length > (u64)INT64_MAX) {
		int err = store_put(store);

		return (void *)(intptr_t)(err ? err :
						fail(-EOVERFLOW, "the range ends beyond the "
								 "largest possible file"));
	}
	addr = create(store, offset, length, prot, access, &errors_seen);
	if (hugemap_error(addr))
		return addr;
	pthread_rwlock_rdlock(&pool->maps_lock);
	copy = map_find(pool, addr);
	if (copy)
		atomic_store(&copy->random, random);
	pthread_rwlock_unlock(&pool->maps_lock);
	return addr;
}

/* --- taking blocks out --------------------------------------------------------- */

enum taken {
	TAKEN_ALL,
	TAKEN_LATER, /* some are on their way */
	TAKEN_WRITING, /* some are written from where they are */
	TAKEN_PINNED, /* some are pinned */
};

/*
 * The blocks of a range that are in a mapping go back to their slots. maps_lock is held
 * for writing.
 */
static enum taken take_out(struct mapping *map, u64 pos, u64 end)
{
	struct store *store = map->store;
	struct pool *pool = store->pool;
	enum taken taken = TAKEN_ALL, later;

	if (end > store_limit(store))
		end = store_limit(store);
	for (; pos < end; pos += HM_BLOCK_PAGES) {
		struct hm_unit unit;
		enum hm_state state = hm_peek(store->core, pos, &unit);
		int err;

		if (!page_is_mapped(pool, state, &unit, map))
			continue;
		if (state != HM_CLEAN && state != HM_DIRTY) {
			later = state == HM_WRITING ? TAKEN_WRITING : TAKEN_LATER;
			if (taken < later)
				taken = later;
			continue;
		}
		err = page_remove(pool, &unit);
		if (err == -ENOENT)
			evict_lost(store, &unit);
		else if (err)
			taken = TAKEN_PINNED;
	}
	return taken;
}

/* Nothing is there, and nothing else may come to be there: it would be taken for ours. */
static void keep_out(char *from, size_t bytes)
{
	program_memory_begin();
	if (sys_error(sys_mmap(from, bytes, PROT_NONE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0)))
		sys_mprotect(from, bytes, PROT_NONE);
	program_memory_end();
}

/*
 * The limit has come down: from there on the mapping is the kernel's. If that cannot be
 * had, it cannot be touched. maps_lock is held for writing.
 */
void mapping_lower_limit(struct mapping *map)
{
	char *from = map_limit(map);
	size_t bytes = (size_t)(map->end - from);

	if (!bytes)
		return;
	if (map_rest(map, from))
		keep_out(from, bytes);
	uffd_wake(map->store->pool->uffd, from, bytes);
}

/* --- unmapping --------------------------------------------------------------- */

/* What is left of a mapping on one side of the range that goes away. */
static struct mapping *remainder_of(const struct mapping *map, char *start, char *end)
{
	struct mapping *part = mapping_alloc();

	if (!part)
		return NULL;
	part->store = map->store;
	part->start = start;
	part->end = end;
	part->pgoff = map_pgoff(map, (uintptr_t)start);
	part->prot = map->prot;
	atomic_init(&part->access, atomic_load(&map->access));
	atomic_init(&part->random, atomic_load(&map->random));
	part->errors_seen = map->errors_seen;
	if (start == map->start) { /* one of the two goes on counting */
		atomic_init(&part->faults, atomic_load(&map->faults));
		atomic_init(&part->hits, atomic_load(&map->hits));
		atomic_init(&part->wait_ns, atomic_load(&map->wait_ns));
	}
	return part;
}

/* Blocks that stay mapped belong to what is left of the mapping. */
static void adopt(struct pool *pool, struct mapping *from, struct mapping *to)
{
	u64 pos = to->pgoff, end = map_pgoff(to, (uintptr_t)map_limit(to));

	for (; pos < end; pos += HM_BLOCK_PAGES) {
		struct hm_unit unit;
		enum hm_state state = hm_peek(to->store->core, pos, &unit);

		if (page_is_mapped(pool, state, &unit, from))
			pool->places[unit.frame].map = to;
	}
}

/* Take [start, end) out of a mapping, where no block is mapped any more. */
static int cut(struct pool *pool, struct mapping *map, char *start, char *end)
{
	struct mapping *left = NULL, *right = NULL;
	int err = map_make_room(pool); /* one goes, two may come */

	if (start > map->start)
		left = remainder_of(map, map->start, start);
	if (end < map->end)
		right = remainder_of(map, end, map->end);
	if ((start > map->start && !left) || (end < map->end && !right))
		err = -ENOMEM;
	/* The kernel may have no more areas to give: nothing has changed then. */
	if (!err)
		err = sys_munmap(start, (size_t)(end - start));
	if (err) {
		free(left);
		free(right);
		return err;
	}
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
	return 0;
}

/* The pool's part of a mapping ends and begins with whole blocks. */
static bool may_cut(const struct mapping *map, const char *at)
{
	return at >= map_limit(map) || !((uintptr_t)at & BLOCK_MASK);
}

/*
 * Write, take out what is mapped, unmap. What is stored in between is dirty in its slot,
 * and is written by the caller once more.
 */
static int unmap_locked(struct pool *pool, struct mapping *map, char *start, char *end)
{
	u64 first = map_pgoff(map, (uintptr_t)start), last = map_pgoff(map, (uintptr_t)end);
	struct patience patience = { 0 };
	enum taken taken;
	bool enough;

	while ((taken = take_out(map, first, last)) != TAKEN_ALL) {
		/* Others work in the meantime: writes end, pins go. */
		pthread_rwlock_unlock(&pool->maps_lock);
		handlers_kick(pool);
		enough = taken == TAKEN_WRITING ? !look_again_unsure(&patience) :
						  !look_again(&patience, taken == TAKEN_PINNED);
		pthread_rwlock_wrlock(&pool->maps_lock);
		if (enough)
			return fail(-EBUSY, "a page there is pinned by direct I/O: wait for that "
					    "to end");
	}
	return cut(pool, map, start, end);
}

/* *put: set to the store whose reference is the caller's now. */
static int unmap_one(struct pool *pool, char *start, char *end, char **next, int *write_err,
		     struct store **put)
{
	int err = 0;
	struct mapping *map;
	struct store *store;
	u64 first, last;

	pthread_rwlock_wrlock(&pool->maps_lock);
	map = map_find(pool, start);
	if (map) {
		end = end < map->end ? end : map->end;
		*next = end;
	}
	if (!map)
		err = -EINVAL;
	else if (!may_cut(map, start) || !may_cut(map, end))
		err = fail(-EINVAL,
			   "of a pool's mapping only whole blocks of 2 MB can be unmapped");
	if (err) {
		pthread_rwlock_unlock(&pool->maps_lock);
		return err;
	}
	store = map->store;
	first = map_pgoff(map, (uintptr_t)start);
	last = map_pgoff(map, (uintptr_t)end);
	pthread_rwlock_unlock(&pool->maps_lock);

	/* Nobody else unmaps, so it stays. */
	/* Through a read-only mapping, too: hugemap_pwrite() may have left something. */
	if (store->writable)
		*write_err = sync_range(store, first, last);
	pthread_rwlock_wrlock(&pool->maps_lock);
	err = unmap_locked(pool, map, start, end);
	if (!err && !*write_err)
		*write_err = hm_store_error_check(store->core, &map->errors_seen);
	pthread_rwlock_unlock(&pool->maps_lock);
	if (err) {
		handler_news(pool); /* some may be dirty after all */
		return err;
	}
	if (store->writable && !*write_err)
		*write_err = sync_range(store, first, last);
	mapping_free(map);
	*put = store; /* the mapping's */
	return 0;
}

/**
 * mapping_unmap() - unmap the part of a range that lies in its first mapping
 * @start: mapped by the pool, as far as one knows without a lock
 * @end: the end of the range
 * @next: set to the end of that part. What lies before it is not looked at again:
 *	another thread may have mapped something there since.
 * @write_err: set to 0, or the errno of a write that failed
 *
 * Return: 0, or why it is mapped still.
 */
int mapping_unmap(struct pool *pool, char *start, char *end, char **next, int *write_err)
{
	struct store *put = NULL;
	int err, put_err;

	*next = end;
	*write_err = 0;
	pthread_mutex_lock(&pool->unmap_lock);
	err = unmap_one(pool, start, end, next, write_err, &put);
	pthread_mutex_unlock(&pool->unmap_lock);
	/* The last thing: without its stores somebody may destroy the pool. */
	put_err = put ? store_put(put) : 0;
	if (!*write_err)
		*write_err = put_err;
	return err;
}
