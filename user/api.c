// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The calls of hugemap.h: arguments are checked here, before anything changes,
 * and each range is handed to the engine that serves it.
 */
#include "engine.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#define PAGE_MASK ((uintptr_t)HM_PAGE_SIZE - 1)

/* The public name of a pool. */
struct hugemap_pool;

static struct pool *pool_of(struct hugemap_pool *pool)
{
	return (struct pool *)pool;
}

static void *error_pointer(int err)
{
	return (void *)(intptr_t)err;
}

int hugemap_pool_create(const struct hugemap_pool_options *options, struct hugemap_pool **pool)
{
	reason_clear();
	return pool_create(options, (struct pool **)pool);
}

int hugemap_pool_destroy(struct hugemap_pool *pool)
{
	reason_clear();
	return pool_destroy(pool_of(pool));
}

static int check_fd(int fd, int prot, int flags)
{
	int mode = fcntl(fd, F_GETFL);

	if (mode < 0)
		return fail(-EBADF, "the file descriptor is not open");
	if (mode & O_PATH)
		return fail(-EBADF, "the file descriptor was opened with O_PATH");
	mode &= O_ACCMODE;
	if (mode == O_WRONLY)
		return fail(-EACCES, "the file is open for writing only; mapping needs reading");
	if (prot & PROT_WRITE && !(flags & HUGEMAP_PRIVATE) && mode != O_RDWR)
		return fail(-EACCES, "the file is open for reading only; open it O_RDWR");
	return 0;
}

static int check_map(int fd, off_t offset, size_t *length, int prot, int flags,
		     const struct hugemap_options *options)
{
	int err = check_fd(fd, prot, flags);
	u64 size;

	if (err)
		return err;
	if (options->size != sizeof(*options))
		return fail(-EINVAL, "options: .size is not that of this version");
	if (options->page > HUGEMAP_PAGE_4K || options->engine > HUGEMAP_ENGINE_MMAP ||
	    options->priority > HUGEMAP_PRIORITY_LOW)
		return fail(-EINVAL, "options: page, engine or priority is out of range");
	if (offset < 0 || offset & (off_t)PAGE_MASK)
		return fail(-EINVAL, "the offset must be a multiple of 4096");
	if (prot != PROT_READ && prot != (PROT_READ | PROT_WRITE))
		return fail(-EINVAL, "prot must be PROT_READ or PROT_READ | PROT_WRITE");
	if (flags & ~(HUGEMAP_PRIVATE | HUGEMAP_NOFORK | HUGEMAP_HANDOVER))
		return fail(-EINVAL, "flags has bits that mean nothing");
	if (!*length) {
		size = file_size(fd);
		if (size <= (u64)offset)
			return fail(-EINVAL, "the file ends before the offset: nothing to map");
		*length = size - (u64)offset;
	}
	if (*length > SIZE_MAX / 4 || (u64)offset + *length > (u64)INT64_MAX)
		return fail(-EOVERFLOW, "the range ends beyond the largest possible file");
	return 0;
}

/* Map with the user-space engine, or say why not. */
static void *map_user(int fd, off_t offset, size_t length, int prot, int flags,
		      const struct hugemap_options *options)
{
	struct pool *pool = pool_of(options->pool);
	int err;

	if (flags & HUGEMAP_PRIVATE && prot & PROT_WRITE)
		return error_pointer(fail(-EOPNOTSUPP, "private writable mappings are the kernel's "
						       "business"));
	if (!(prot & PROT_WRITE) && claim_foreign_writer(fd)) {
		err = claim_check(fd);
		if (!err)
			err = fail(-ETXTBSY, "another process has the file open for writing, and "
					     "its writes must be seen");
		return error_pointer(err);
	}
	if (!pool) {
		err = pool_default(&pool);
		if (err)
			return error_pointer(err);
	}
	return mapping_create(pool, fd, offset, length, prot, flags, options);
}

/*
 * The kernel has begun to serve a mapping of a file. What the engine holds of that
 * file must be seen in it: a private copy begins with what is stored by now; a
 * shared one goes on with the others, so they become the kernel's too.
 */
static int join_kernel(int fd, int prot, int flags)
{
	struct store *store = store_find(fd);
	int err = 0;

	if (!store)
		return 0;
	if (flags & HUGEMAP_PRIVATE)
		err = sync_range(store, 0, HM_STORE_MAX_BLOCKS << HM_BLOCK_ORDER);
	else if (prot & PROT_WRITE || store->writable)
		err = aside_store(store, "the kernel serves another mapping of the file");
	store_put(store);
	if (err)
		fail(err, "what was stored to the file before cannot be written (%s)",
		     strerror(-err));
	return err;
}

static void *map_kernel(int fd, off_t offset, size_t length, int prot, int flags,
			const struct hugemap_options *options, const char *why)
{
	struct store *store = store_find(fd);
	int err = store ? 0 : claim_check(fd);
	bool found;
	char *addr;

	if (store)
		store_put(store);
	if (err)
		return error_pointer(err);
	addr = kernel_map(fd, offset, length, prot, flags, options->page, why);
	if (hugemap_error(addr))
		return addr;
	err = join_kernel(fd, prot, flags);
	if (!err)
		return addr;
	kernel_unmap(addr, addr + ((length + PAGE_MASK) & ~PAGE_MASK), &found);
	return error_pointer(err);
}

/* Errors after which the kernel's mmap would be no better, or wrong. */
static bool is_final(int err)
{
	return err == -EBUSY || err == -ENODEV;
}

void *hugemap_map(int fd, off_t offset, size_t length, int prot, int flags,
		  const struct hugemap_options *given)
{
	const struct hugemap_options defaults = { .size = sizeof(defaults) };
	const struct hugemap_options *options = given ? given : &defaults;
	char why[160];
	void *addr;
	int err;

	reason_clear();
	err = check_map(fd, offset, &length, prot, flags, options);
	if (err)
		return error_pointer(err);
	if (options->engine == HUGEMAP_ENGINE_MMAP)
		return map_kernel(fd, offset, length, prot, flags, options, "asked for");
	addr = map_user(fd, offset, length, prot, flags, options);
	err = hugemap_error(addr);
	if (!err || options->engine == HUGEMAP_ENGINE_USER || is_final(err))
		return addr;
	snprintf(why, sizeof(why), "%s", *hugemap_reason() ? hugemap_reason() : strerror(-err));
	return map_kernel(fd, offset, length, prot, flags, options, why);
}

/* --- ranges of mappings --------------------------------------------------------- */

/* The pool with the first mapping in a range, which starts at *at; or NULL. */
static struct pool *find_first(char *start, const char *end, char **at)
{
	struct pool *first = NULL, *pool;

	*at = NULL;
	pthread_mutex_lock(&pools_lock);
	for (pool = pools; pool; pool = pool->next) {
		struct mapping *map;

		pthread_rwlock_rdlock(&pool->maps_lock);
		map = map_find_next(pool, start);
		if (map && map->asked_end <= start) /* the rest of its last block */
			map = map_find_next(pool, map->end);
		if (map && map->asked < end && (!first || map->asked < *at)) {
			first = pool;
			*at = map->asked > start ? map->asked : start;
		}
		pthread_rwlock_unlock(&pool->maps_lock);
	}
	pthread_mutex_unlock(&pools_lock);
	return first;
}

/* The pool that has an address mapped, or NULL. */
static struct pool *find_pool(const char *addr)
{
	char *at;

	return find_first((char *)addr, addr + 1, &at);
}

/* A range as the calls take it. */
static int check_range(void *addr, size_t length, char **start, char **end)
{
	*start = addr;
	*end = *start + ((length + PAGE_MASK) & ~PAGE_MASK);
	if ((uintptr_t)addr & PAGE_MASK)
		return fail(-EINVAL, "the address must be a multiple of 4096");
	if (!length || length > SIZE_MAX / 2 || *end < *start)
		return fail(-EINVAL, "the length is 0 or too large");
	return 0;
}

static int not_mapped(void)
{
	return fail(-EINVAL, "the range is not mapped by this library");
}

int hugemap_unmap(void *addr, size_t length)
{
	int err, first_err = 0;
	char *start, *end;
	bool found = false;

	reason_clear();
	err = check_range(addr, length, &start, &end);
	if (err)
		return err;
	/* Once over the range: what is unmapped may be mapped anew meanwhile. */
	while (start < end) {
		char *at;
		/* A pool with mappings cannot go away meanwhile. */
		struct pool *pool = find_first(start, end, &at);

		if (!pool)
			at = end;
		err = start < at ? kernel_unmap(start, at, &found) : 0;
		start = at;
		if (!err && pool) {
			err = mapping_unmap(pool, at, end, &start);
			found = true;
		}
		if (err && !first_err)
			first_err = err;
	}
	return found ? first_err : not_mapped();
}

void *hugemap_remap(void *addr, size_t old_length, size_t new_length)
{
	char *start, *end, *at, *last;
	struct pool *pool;
	void *moved;
	int err;

	reason_clear();
	err = check_range(addr, old_length, &start, &end);
	if (!err)
		err = check_range(addr, new_length, &at, &last);
	if (err)
		return error_pointer(err);
	pool = find_pool(start);
	if (!pool)
		return error_pointer(not_mapped());
	if (last <= end) {
		err = last < end ? hugemap_unmap(last, (size_t)(end - last)) : 0;
		return err ? error_pointer(err) : addr;
	}
	moved = mapping_again(pool, start, end, new_length);
	if (hugemap_error(moved))
		return moved;
	err = mapping_unmap(pool, start, end, &at);
	if (!err)
		return moved;
	/* A write has failed, which its caller learns, or it is gone already. */
	if (err == -EINVAL) {
		hugemap_unmap(moved, new_length);
		return error_pointer(err);
	}
	return moved;
}

/* A part of a range that lies in one mapping. */
struct part {
	struct store *store; /* with a reference */
	u64 map_id;
	u64 pgoff, end_pgoff;
	char *end;
	bool writable;
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
		part->writable = map->prot & PROT_WRITE;
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
	int err, told;

	if (flags & MS_ASYNC) {
		atomic_store(&part->store->wb_pass, true);
		handler_kick(&pool->handlers[0]);
		return 0;
	}
	err = sync_range(part->store, part->pgoff, part->end_pgoff);
	told = tell_errors(pool, part->map_id);
	if (!err)
		err = told;
	if (part->store->writable && fdatasync(part->store->fd_buffered) < 0 && !err)
		err = -errno;
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
	int err, first_err = 0;

	reason_clear();
	err = check_range(addr, length, &start, &end);
	if (err)
		return err;
	if (flags & ~(MS_SYNC | MS_ASYNC | MS_INVALIDATE) || (flags & MS_SYNC && flags & MS_ASYNC))
		return fail(-EINVAL, "flags must be MS_SYNC or MS_ASYNC");
	if (kernel_covers(start))
		return msync(start, (size_t)(end - start), flags) < 0 ? -errno : 0;
	pool = find_pool(start);
	if (!pool)
		return not_mapped();
	while (start < end) {
		struct part part;

		if (!get_part(pool, start, end, &part))
			return first_err ? first_err : not_mapped();
		err = sync_part(pool, &part, flags);
		store_put(part.store);
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
		pthread_rwlock_wrlock(&pool->maps_lock);
		resize_drop_clean(part->store, part->pgoff, part->end_pgoff);
		pthread_rwlock_unlock(&pool->maps_lock);
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

	reason_clear();
	err = check_range((void *)((uintptr_t)addr & ~PAGE_MASK),
			  length + ((uintptr_t)addr & PAGE_MASK), &start, &end);
	if (err)
		return err;
	if ((unsigned int)advice > HUGEMAP_ADVICE_PRIORITY_LOW)
		return fail(-EINVAL, "the advice is not one of enum hugemap_advice");
	if (kernel_covers(start))
		return kernel_advise(start, end, advice);
	pool = find_pool(start);
	if (!pool)
		return not_mapped();
	while (start < end) {
		struct part part;

		if (!get_part(pool, start, end, &part))
			return not_mapped();
		advise_part(pool, &part, advice);
		store_put(part.store);
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
	if (!madvise(start, (size_t)(end - start), MADV_POPULATE_READ))
		return 0;
	return fail(errno == ENOMEM ? -EINVAL : -EIO, "a part of the range cannot be read");
}

int hugemap_prefetch(void *addr, size_t length)
{
	char *start, *end;
	struct pool *pool;
	int err;

	reason_clear();
	err = check_range((void *)((uintptr_t)addr & ~PAGE_MASK),
			  length + ((uintptr_t)addr & PAGE_MASK), &start, &end);
	if (err)
		return err;
	if (kernel_covers(start))
		return populate(start, end);
	pool = find_pool(start);
	if (!pool)
		return not_mapped();
	if ((size_t)(end - start) > pool->slots_bytes / 4 * 3)
		end = start + pool->slots_bytes / 4 * 3;
	while (start < end) {
		struct part part;
		u64 size;

		if (!get_part(pool, start, end, &part))
			return not_mapped();
		size = (hm_store_size(part.store->core) + PAGE_MASK) >> HM_PAGE_SHIFT;
		if (part.end_pgoff > size)
			part.end_pgoff = size;
		if (part.pgoff < part.end_pgoff && pool->user_mode_only) {
			err = touch_range(part.store, part.map_id, part.pgoff, part.end_pgoff);
		} else if (part.pgoff < part.end_pgoff) {
			will_need(pool, &part);
			err = populate(start,
				       start + ((part.end_pgoff - part.pgoff) << HM_PAGE_SHIFT));
		}
		store_put(part.store);
		if (err)
			return err;
		start = part.end;
	}
	return 0;
}

/* --- files that are mapped --------------------------------------------------------- */

/* A descriptor that is open in this mode only may not. */
static bool may(int fd, int only)
{
	int mode = fcntl(fd, F_GETFL);

	return mode >= 0 && (mode & O_ACCMODE) != only;
}

ssize_t hugemap_pread(int fd, void *buffer, size_t count, off_t offset)
{
	struct store *store;
	ssize_t n;

	reason_clear();
	if (offset < 0)
		return fail(-EINVAL, "the offset is negative");
	store = store_find(fd);
	if (!store) {
		n = pread(fd, buffer, count, offset);
		return n < 0 ? -errno : n;
	}
	n = may(fd, O_WRONLY) ? access_read(store, buffer, count, (u64)offset) : -EBADF;
	store_put(store);
	return n;
}

ssize_t hugemap_pwrite(int fd, const void *buffer, size_t count, off_t offset)
{
	struct store *store;
	ssize_t n;

	reason_clear();
	if (offset < 0)
		return fail(-EINVAL, "the offset is negative");
	store = store_find(fd);
	if (!store) {
		n = pwrite(fd, buffer, count, offset);
		return n < 0 ? -errno : n;
	}
	n = may(fd, O_RDONLY) ? access_write(store, fd, buffer, count, (u64)offset) : -EBADF;
	store_put(store);
	return n;
}

int hugemap_truncate(int fd, off_t length)
{
	struct store *store;
	int err;

	reason_clear();
	if (length < 0)
		return fail(-EINVAL, "the length is negative");
	store = store_find(fd);
	if (!store)
		return ftruncate(fd, length) < 0 ? -errno : 0;
	err = resize_truncate(store, fd, (u64)length);
	store_put(store);
	return err;
}

int hugemap_punch(int fd, off_t offset, off_t length)
{
	struct store *store;
	int err;

	reason_clear();
	if (offset < 0 || length <= 0 || offset > INT64_MAX - length)
		return fail(-EINVAL, "the range is empty or negative");
	store = store_find(fd);
	if (!store)
		return fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, length) <
				       0 ?
			       -errno :
			       0;
	err = resize_punch(store, fd, (u64)offset, (u64)length);
	store_put(store);
	return err;
}

int hugemap_flush(int fd, off_t offset, off_t length)
{
	u64 end = HM_STORE_MAX_BLOCKS << HM_BLOCK_ORDER;
	struct store *store;
	int err;

	reason_clear();
	if (offset < 0 || length < 0 || offset > INT64_MAX - length)
		return fail(-EINVAL, "the range is negative");
	store = store_find(fd);
	if (!store)
		return 0;
	if (length)
		end = ((u64)offset + (u64)length + PAGE_MASK) >> HM_PAGE_SHIFT;
	err = store->writable ? sync_range(store, (u64)offset >> HM_PAGE_SHIFT, end) : 0;
	store_put(store);
	return err;
}

int hugemap_step_aside(int fd, const char *why)
{
	struct store *store;
	int err;

	reason_clear();
	store = store_find(fd);
	if (!store)
		return 0;
	err = aside_store(store, why);
	store_put(store);
	if (err)
		return fail(err, "writing to the file failed (%s): its mappings stay as they are",
			    strerror(-err));
	return 0;
}

int hugemap_map_stat(const void *addr, struct hugemap_map_stat *stat)
{
	struct mapping *map = NULL;
	struct pool *pool;

	reason_clear();
	if (stat->size != sizeof(*stat))
		return fail(-EINVAL, "stat: .size is not that of this version");
	pool = find_pool(addr);
	if (!pool)
		return not_mapped();
	pthread_rwlock_rdlock(&pool->maps_lock);
	map = map_find(pool, addr);
	if (map)
		*stat = (struct hugemap_map_stat){
			.size = sizeof(*stat),
			.bytes = (u64)(map->asked_end - map->asked),
			.faults = atomic_load(&map->faults),
			.hits = atomic_load(&map->hits),
			.wait_ns = atomic_load(&map->wait_ns),
		};
	pthread_rwlock_unlock(&pool->maps_lock);
	return map ? 0 : not_mapped();
}

int hugemap_stat(const void *addr, struct hugemap_stat *stat)
{
	struct pool *pool = default_pool;
	u64 mapped = 0;

	reason_clear();
	if (stat->size != sizeof(*stat))
		return fail(-EINVAL, "stat: .size is not that of this version");
	if (addr && kernel_covers(addr))
		return kernel_stat(addr, stat);
	if (addr)
		pool = find_pool(addr);
	if (!pool)
		return addr ? not_mapped() : fail(-ENOENT, "nothing has been mapped yet");
	pthread_rwlock_rdlock(&pool->maps_lock);
	stats_publish(pool);
	if (addr) {
		struct mapping *map = map_find(pool, addr);

		mapped = map ? (u64)(map->asked_end - map->asked) : 0;
	}
	pthread_rwlock_unlock(&pool->maps_lock);
	stats_fill(pool->stats, stat);
	if (addr)
		stat->mapped_bytes = mapped;
	return 0;
}
