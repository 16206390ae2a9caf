// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The calls of hugemap.h that make and end pools and mappings. Arguments are checked
 * here, before anything changes, and each range is handed to who serves it: a pool, or
 * the kernel (steered.c).
 */
#include "api.h"
#include "linux.h"
#include "mapping.h"
#include "pool.h"
#include "steered.h"
#include "store.h"

#include <fcntl.h>

/* More than any structure of a later version will be. */
#define LARGEST_STRUCT 4096u

/* --- what all calls need ------------------------------------------------------------ */

int take_struct(void *to, size_t ours, const void *from)
{
	size_t theirs, i;

	memset(to, 0, ours);
	memcpy(&theirs, from, sizeof(theirs));
	if (theirs < sizeof(theirs) || theirs > LARGEST_STRUCT)
		return fail(-EINVAL, "set .size of the structure to its sizeof first");
	for (i = ours; i < theirs; i++)
		if (((const char *)from)[i])
			return fail(-E2BIG, "the program asks for something that this version of "
					    "the library does not have");
	memcpy(to, from, theirs < ours ? theirs : ours);
	memcpy(to, &ours, sizeof(ours));
	return 0;
}

int give_struct(void *to, const void *from, size_t ours)
{
	size_t theirs;

	memcpy(&theirs, to, sizeof(theirs));
	if (theirs < sizeof(theirs) || theirs > LARGEST_STRUCT)
		return fail(-EINVAL, "set .size of the structure to its sizeof first");
	if (theirs > ours)
		memset((char *)to + ours, 0, theirs - ours);
	memcpy((char *)to + sizeof(theirs), (const char *)from + sizeof(theirs),
	       (theirs < ours ? theirs : ours) - sizeof(theirs));
	return 0;
}

struct pool *find_first(char *start, const char *end, char **at)
{
	struct pool *first = NULL, *pool;

	*at = NULL;
	for (pool = pools; pool; pool = pool->next) {
		struct mapping *map;

		pthread_rwlock_rdlock(&pool->maps_lock);
		map = map_find_next(pool, start);
		if (map && map->start < end && (!first || map->start < *at)) {
			first = pool;
			*at = map->start > start ? map->start : start;
		}
		pthread_rwlock_unlock(&pool->maps_lock);
	}
	return first;
}

struct pool *find_pool(const char *addr)
{
	char *at;

	return find_first((char *)addr, addr + 1, &at);
}

/* False: it is not mapped there any more. */
static bool take_part(struct pool *pool, char *start, char *end, struct part *part)
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

void first_part(char *start, char *end, struct part *part)
{
	struct pool *pool;
	char *at;

	*part = (struct part){ 0 };
	pthread_mutex_lock(&pools_lock);
	do {
		pool = find_first(start, end, &at);
	} while (pool && at == start && !take_part(pool, start, end, part));
	pthread_mutex_unlock(&pools_lock);
	if (!part->store)
		part->end = pool ? at : end;
}

int put_part(const struct part *part, int err)
{
	int put_err = part->store ? store_put(part->store) : 0;

	return err ? err : put_err;
}

int check_range(void *addr, size_t length, bool page, char **start, char **end)
{
	uintptr_t into = (uintptr_t)addr & PAGE_MASK;

	if (page && into)
		return fail(-EINVAL, "the address must be a multiple of 4096");
	if (!length || length > SIZE_MAX / 2)
		return fail(-EINVAL, "the length is 0 or too large");
	*start = (char *)addr - into;
	*end = *start + ((length + into + PAGE_MASK) & ~PAGE_MASK);
	if (*end < *start)
		return fail(-EINVAL, "the range ends beyond the last address");
	return 0;
}

int not_mapped(void)
{
	return fail(-EINVAL, "the range is not mapped by this library");
}

/* --- pools -------------------------------------------------------------------------- */

/* The public name of a pool. */
struct hugemap_pool;

static struct pool *pool_of(struct hugemap_pool *pool)
{
	return (struct pool *)pool;
}

int hugemap_pool_create(const struct hugemap_pool_options *given, struct hugemap_pool **pool)
{
	struct hugemap_pool_options options = { .size = sizeof(options) };
	int err = 0;

	CALL_BEGINS();
	if (given)
		err = take_struct(&options, sizeof(options), given);
	return err ? err : pool_create(&options, (struct pool **)pool);
}

int hugemap_pool_destroy(struct hugemap_pool *pool)
{
	CALL_BEGINS();
	return pool_destroy(pool_of(pool));
}

/* --- mappings ----------------------------------------------------------------------- */

static int check_fd(int fd, int prot, int flags)
{
	int mode = sys_fcntl(fd, F_GETFL, NULL);

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
	if (options->priority > HUGEMAP_PRIORITY_LOW)
		return fail(-EINVAL, "options: the priority is out of range");
	if (offset < 0 || offset & (off_t)PAGE_MASK)
		return fail(-EINVAL, "the offset must be a multiple of 4096");
	if (prot != PROT_READ && prot != (PROT_READ | PROT_WRITE))
		return fail(-EINVAL, "prot must be PROT_READ or PROT_READ | PROT_WRITE");
	if (flags & ~HUGEMAP_PRIVATE)
		return fail(-EINVAL, "flags has bits that mean nothing");
	if (!*length) {
		err = file_size(fd, &size);
		if (err)
			return fail(err, "the length of the file cannot be found out");
		if (size <= (u64)offset)
			return fail(-EINVAL, "the file ends before the offset: nothing to map");
		*length = size - (u64)offset;
	}
	if (*length > SIZE_MAX / 4 || (u64)offset + *length > (u64)INT64_MAX)
		return fail(-EOVERFLOW, "the range ends beyond the largest possible file");
	return 0;
}

void *hugemap_map(int fd, off_t offset, size_t length, int prot, int flags,
		  const struct hugemap_options *given)
{
	struct hugemap_options options = { .size = sizeof(options) };
	int err = 0;

	CALL_BEGINS();
	if (given)
		err = take_struct(&options, sizeof(options), given);
	if (!err)
		err = check_map(fd, offset, &length, prot, flags, &options);
	if (err)
		return error_pointer(err);
	err = fork_init();
	if (err)
		return error_pointer(err);
	if (!options.pool)
		return steered_map(fd, offset, length, prot, flags);
	if (flags & HUGEMAP_PRIVATE && prot & PROT_WRITE)
		return error_pointer(fail(-EOPNOTSUPP, "a pool has no private copies: map "
						       "without one"));
	err = pool_check(pool_of(options.pool));
	if (err)
		return error_pointer(err);
	return mapping_create(pool_of(options.pool), fd, offset, length, prot, &options);
}

int hugemap_unmap(void *addr, size_t length)
{
	int err, write_err, first_err = 0;
	char *start, *end;
	bool found = false;

	CALL_BEGINS();
	err = check_range(addr, length, true, &start, &end);
	if (err)
		return err;
	/* Once over the range: what is unmapped may be mapped anew meanwhile. */
	while (start < end) {
		struct part part;
		char *next;

		first_part(start, end, &part);
		next = part.end;
		if (part.store) {
			err = mapping_unmap(part.store->pool, start, part.end, &next, &write_err);
			err = put_part(&part, err ? err : write_err);
			found = true;
		} else {
			err = steered_unmap(start, part.end, &found);
		}
		start = next;
		if (err && !first_err)
			first_err = err;
	}
	return found ? first_err : not_mapped();
}

/* The same for a mapping of a pool: the new one takes over what is cached. */
static void *remap_pool(struct pool *pool, char *start, char *end, size_t new_length)
{
	char *last = start + ((new_length + PAGE_MASK) & ~PAGE_MASK), *at;
	int err, write_err = 0;
	void *moved;

	if (last <= end) {
		err = mapping_check(pool, start, end);
		if (!err && last < end)
			err = mapping_unmap(pool, last, end, &at, &write_err);
		/* Shorter, even if a write failed: that a sync of what is left will tell. */
		return err ? error_pointer(err) : start;
	}
	moved = mapping_again(pool, start, end, new_length);
	if (hugemap_error(moved))
		return moved;
	err = mapping_unmap(pool, start, end, &at, &write_err);
	/* Mapped still, or gone already. (That a write failed, a sync will tell.) */
	if (err) {
		mapping_unmap(pool, moved, (char *)moved + (last - start), &at, &write_err);
		return error_pointer(err);
	}
	return moved;
}

void *hugemap_remap(void *addr, size_t old_length, size_t new_length)
{
	char *start, *end, *at, *last;
	struct part part;
	int err;

	CALL_BEGINS();
	err = check_range(addr, old_length, true, &start, &end);
	if (!err)
		err = check_range(addr, new_length, true, &at, &last);
	if (err)
		return error_pointer(err);
	if (steered_covers(start))
		return steered_remap(start, end, new_length);
	first_part(start, end, &part);
	if (!part.store)
		return error_pointer(not_mapped());
	at = remap_pool(part.store->pool, start, end, new_length);
	err = put_part(&part, hugemap_error(at));
	return err ? error_pointer(err) : at;
}
