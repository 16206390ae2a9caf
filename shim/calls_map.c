// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* The calls that make, change and end mappings. */
#include "shim.h"
#include "gather.h"
#include "own.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif
#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif

static char *round_up(const char *addr)
{
	return (char *)(((uintptr_t)addr + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1));
}

/* --- mmap --- */

/* Something is mapped over what the engine serves, or where it did. */
static void *map_over(void *addr, size_t length, int prot, int flags, int fd, off_t offset)
{
	struct shim_section section;
	void *at;

	shim_enter(&section);
	pthread_rwlock_wrlock(&shim_lock);
	aside_range(addr, (char *)addr + length, "a part of it was mapped over");
	at = real->mmap(addr, length, prot, flags, fd, offset);
	section.saved_errno = errno;
	if (at != MAP_FAILED)
		map_cut(addr, round_up((char *)addr + length));
	pthread_rwlock_unlock(&shim_lock);
	shim_leave(&section);
	return at;
}

SHIM_EXPORT void *mmap(void *addr, size_t length, int prot, int flags, int fd, off_t offset)
{
	if (!(flags & MAP_ANONYMOUS) && !shim_config.off &&
	    (length >= shim_config.min_size || unlikely(shim_live_fd(fd))))
		return decide_map(addr, length, prot, flags, fd, offset);
	if (flags & MAP_FIXED && shim_concerns(addr, length))
		return map_over(addr, length, prot, flags, fd, offset);
	if (unlikely(shim_config.heap && flags & MAP_ANONYMOUS && length >= shim_config.min_size &&
		     !shim_config.off)) {
		void *at = heap_map(length, prot, flags);

		if (at != MAP_FAILED)
			return at;
	}
	return real->mmap(addr, length, prot, flags, fd, offset);
}

SHIM_EXPORT void *mmap64(void *addr, size_t length, int prot, int flags, int fd, off_t offset)
	__attribute__((alias("mmap")));

/* --- munmap --- */

static int unmap_part(char *start, char *end, int *saved)
{
	if (start >= end)
		return 0;
	if (real->munmap(start, (size_t)(end - start)) < 0) {
		*saved = errno;
		return -1;
	}
	return 0;
}

static int unmap(char *start, char *end, int *saved)
{
	struct map *map;
	int result = 0;

	while (!result && (map = map_first(start, end, true))) {
		char *from = map->start > start ? map->start : start;
		char *to = map->end < end ? map->end : end;
		struct file *file = map->file;
		int err;

		result = unmap_part(start, from, saved);
		report_count(map);
		if (file->heap)
			/* Nobody will read it again: it need not be written. */
			hugemap_punch(map->fd, map->offset + (from - map->start), to - from);
		err = hugemap_unmap(from, (size_t)(to - from));
		if (file->heap)
			heap_free(map->offset + (from - map->start), to - from);
		if (err)
			report_say("munmap: what was stored could not all be written: %s",
				   hugemap_strerror(err));
		map_cut(from, to);
		start = to;
	}
	if (!result)
		result = unmap_part(start, end, saved);
	if (!result)
		map_cut(start, end);
	return result;
}

SHIM_EXPORT int munmap(void *addr, size_t length)
{
	struct shim_section section;
	int result;

	if (!shim_concerns(addr, length) || (uintptr_t)addr % PAGE_BYTES || !length)
		return real->munmap(addr, length);
	shim_enter(&section);
	pthread_rwlock_wrlock(&shim_lock);
	result = unmap(addr, round_up((char *)addr + length), &section.saved_errno);
	/* What was the kernel's on either side is gone too. */
	if (!result)
		map_cut(addr, round_up((char *)addr + length));
	pthread_rwlock_unlock(&shim_lock);
	shim_leave(&section);
	return result;
}

/* --- mremap --- */

/* The kernel has moved a mapping that we remember, or changed its length. */
static void moved(char *from, size_t old_length, char *to, size_t length)
{
	struct map *map = map_first(from, from + old_length, false), *copy;
	uint32_t id;

	if (!map || map->start != from || map->file)
		return;
	id = map->id;
	map->id = 0;
	copy = map_add(to, length, map->prot, map->flags, map->offset);
	map_cut(from, round_up(from + old_length));
	if (!copy) {
		map_bounds();
		return;
	}
	copy->id = id;
	report_place(copy);
}

static void *remap(char *from, size_t old_length, size_t length, int flags, void *to, int *saved)
{
	struct map *map = map_first(from, round_up(from + old_length), true);
	char *at;

	if (flags & MREMAP_FIXED)
		aside_range(to, (char *)to + length, "a part of it was mapped over");
	map = map_first(from, round_up(from + old_length), true);
	if (map && map->file->heap && length > old_length && flags == MREMAP_MAYMOVE &&
	    map->start == from) {
		at = heap_map_locked(length);
		if (at != MAP_FAILED) {
			memcpy(at, from, old_length);
			unmap(from, round_up(from + old_length), saved);
			return at;
		}
		map = NULL;
	}
	if (map && (!map->file->heap || length <= old_length) && !(flags & MREMAP_FIXED) &&
	    map->start == from && map->end == round_up(from + old_length) && old_length && length &&
	    (flags == MREMAP_MAYMOVE || (!flags && length <= old_length))) {
		report_count(map);
		at = hugemap_remap(from, old_length, length);
		if (!hugemap_error(at)) {
			map->start = at;
			map->end = round_up(at + length);
			map_bounds();
			report_place(map);
			return at;
		}
	}
	aside_range(from, round_up(from + old_length), "the program has called mremap()");
	at = real->mremap(from, old_length, length, flags, to);
	*saved = errno;
	if (at == MAP_FAILED)
		return at;
	if (flags & MREMAP_FIXED)
		map_cut(at, round_up(at + length));
	if (!old_length)
		return at; /* a second mapping of the same pages, which is the kernel's */
	moved(from, old_length, at, length);
	return at;
}

SHIM_EXPORT void *mremap(void *from, size_t old_length, size_t length, int flags, ...)
{
	struct shim_section section;
	void *to = NULL, *at;
	va_list args;

	if (flags & MREMAP_FIXED) {
		va_start(args, flags);
		to = va_arg(args, void *);
		va_end(args);
	}
	if (!shim_concerns(from, old_length ? old_length : 1) &&
	    !(flags & MREMAP_FIXED && shim_concerns(to, length)))
		return real->mremap(from, old_length, length, flags, to);
	shim_enter(&section);
	pthread_rwlock_wrlock(&shim_lock);
	at = remap(from, old_length ? old_length : PAGE_BYTES, length, flags, to,
		   &section.saved_errno);
	pthread_rwlock_unlock(&shim_lock);
	shim_leave(&section);
	return at;
}

/* --- protection, locking, and what the engine does not do --- */

/* Is a range served by the engine? Then it steps down, unless @keep. */
static void step_down(const void *addr, size_t length, const char *why)
{
	char *start = (char *)((uintptr_t)addr & ~(PAGE_BYTES - 1));
	struct shim_section section;

	shim_enter(&section);
	pthread_rwlock_wrlock(&shim_lock);
	aside_range(start, round_up((const char *)addr + length), why);
	pthread_rwlock_unlock(&shim_lock);
	shim_leave(&section);
}

/* Would mprotect() change nothing of what the engine serves? */
static bool same_protection(char *start, char *end, int prot)
{
	struct shim_section section;
	struct map *map;
	bool same;

	shim_enter(&section);
	pthread_rwlock_rdlock(&shim_lock);
	map = map_first(start, end, true);
	same = map && map->start <= start && map->end >= end && map->prot == prot;
	pthread_rwlock_unlock(&shim_lock);
	shim_leave(&section);
	return same;
}

SHIM_EXPORT int mprotect(void *addr, size_t length, int prot)
{
	if (shim_concerns(addr, length)) {
		if (!((uintptr_t)addr % PAGE_BYTES) && length &&
		    same_protection(addr, round_up((char *)addr + length), prot))
			return 0;
		step_down(addr, length, "the program has called mprotect()");
	}
	return real->mprotect(addr, length, prot);
}

SHIM_EXPORT int pkey_mprotect(void *addr, size_t length, int prot, int key)
{
	if (shim_concerns(addr, length))
		step_down(addr, length, "the program has called pkey_mprotect()");
	return real->pkey_mprotect(addr, length, prot, key);
}

SHIM_EXPORT int remap_file_pages(void *addr, size_t length, int prot, size_t offset, int flags)
{
	if (shim_concerns(addr, length))
		step_down(addr, length, "the program has called remap_file_pages()");
	return real->remap_file_pages(addr, length, prot, offset, flags);
}

/* Pages that are locked cannot be moved. */
SHIM_EXPORT int mlock(const void *addr, size_t length)
{
	if (shim_concerns(addr, length))
		step_down(addr, length, "the program has called mlock()");
	return real->mlock(addr, length);
}

SHIM_EXPORT int mlock2(const void *addr, size_t length, unsigned int flags)
{
	if (shim_concerns(addr, length))
		step_down(addr, length, "the program has called mlock2()");
	return real->mlock2(addr, length, flags);
}

SHIM_EXPORT int munlock(const void *addr, size_t length)
{
	return real->munlock(addr, length);
}

SHIM_EXPORT int mlockall(int flags)
{
	struct shim_section section;

	shim_enter(&section);
	pthread_rwlock_wrlock(&shim_lock);
	shim_locked_all = true;
	aside_range(NULL, (char *)UINTPTR_MAX, "the program has called mlockall()");
	pthread_rwlock_unlock(&shim_lock);
	shim_leave(&section);
	return real->mlockall(flags);
}

/* Pages that are mapped are told; those that wait in the pool are not. */
SHIM_EXPORT int mincore(void *addr, size_t length, unsigned char *present)
{
	return real->mincore(addr, length, present);
}

/* --- msync, madvise --- */

/*
 * Carry out a call on each part of a range: what is the engine's by @engine, the
 * rest by the kernel. The first error counts, but all parts are done.
 */
struct ranged {
	int (*engine)(struct map *map, char *start, char *end, int what);
	int (*kernel)(void *addr, size_t length, int what);
	int what;
};

static int in_parts(char *start, char *end, const struct ranged *call)
{
	struct shim_section section;
	struct map *map;
	int err = 0, one;

	shim_enter(&section);
	pthread_rwlock_rdlock(&shim_lock);
	while (start < end) {
		char *from, *to;

		map = map_first(start, end, true);
		from = map ? map->start > start ? map->start : start : end;
		to = map ? map->end < end ? map->end : end : end;
		if (from > start && call->kernel(start, (size_t)(from - start), call->what) < 0 &&
		    !err)
			err = errno;
		one = map ? call->engine(map, from, to, call->what) : 0;
		if (one && !err)
			err = -one;
		start = to;
	}
	pthread_rwlock_unlock(&shim_lock);
	shim_leave(&section);
	if (err)
		errno = err;
	return err ? -1 : 0;
}

static int sync_part(struct map *map, char *start, char *end, int flags)
{
	/* MS_INVALIDATE has nothing to do: there are no other copies. */
	flags &= MS_SYNC;
	return hugemap_sync(start, (size_t)(end - start), flags ? MS_SYNC : MS_ASYNC);
}

SHIM_EXPORT int msync(void *addr, size_t length, int flags)
{
	struct ranged call = { sync_part, real->msync, flags };

	if (!shim_concerns(addr, length) || (uintptr_t)addr % PAGE_BYTES ||
	    flags & ~(MS_SYNC | MS_ASYNC | MS_INVALIDATE) || (flags & MS_SYNC && flags & MS_ASYNC))
		return real->msync(addr, length, flags);
	return in_parts(addr, round_up((char *)addr + length), &call);
}

/* The kernel cannot do it (--user-mode), but the engine can. */
static int populate(const struct map *map, char *start, size_t length)
{
	off_t end = map->offset + (start - map->start) + (off_t)length;
	struct stat st;

	if (hugemap_prefetch(start, length) || fstat(map->fd, &st) < 0)
		return -EFAULT;
	return end - st.st_size >= (off_t)PAGE_BYTES ? -EFAULT : 0;
}

/* What the engine makes of advice that it does not refuse. */
static int advise_part(struct map *map, char *start, char *end, int advice)
{
	size_t length = (size_t)(end - start);

	if (start == map->start && end == map->end &&
	    (advice == MADV_NORMAL || advice == MADV_SEQUENTIAL || advice == MADV_RANDOM))
		atomic_store(&map->advice, advice);
	switch (advice) {
	case MADV_NORMAL:
		return hugemap_advise(start, length, HUGEMAP_ADVICE_NORMAL);
	case MADV_SEQUENTIAL:
		return hugemap_advise(start, length, HUGEMAP_ADVICE_SEQUENTIAL);
	case MADV_RANDOM:
		return hugemap_advise(start, length, HUGEMAP_ADVICE_RANDOM);
	case MADV_WILLNEED:
		return hugemap_advise(start, length, HUGEMAP_ADVICE_WILLNEED);
	case MADV_DONTNEED:
	case MADV_DONTNEED_LOCKED:
		if (!map->file->heap)
			return hugemap_advise(start, length, HUGEMAP_ADVICE_DONTNEED);
		__attribute__((fallthrough)); /* anonymous memory becomes zero */
	case MADV_REMOVE:
		if (advice == MADV_REMOVE &&
		    (!(map->prot & PROT_WRITE) || (map->flags & MAP_TYPE) == MAP_PRIVATE))
			return -EACCES;
		return hugemap_punch(map->fd, map->offset + (start - map->start), end - start);
	case MADV_FREE:
		return map->file->heap ? 0 : -EINVAL;
	case MADV_COLD:
	case MADV_PAGEOUT:
		return hugemap_advise(start, length, HUGEMAP_ADVICE_DONTNEED);
	case MADV_POPULATE_WRITE:
		if (!(map->prot & PROT_WRITE))
			return -EINVAL;
		__attribute__((fallthrough));
	case MADV_POPULATE_READ:
		if (gather_on())
			return populate(map, start, length);
		return real->madvise(start, length, advice) < 0 ? -errno : 0;
	default: /* huge pages, merging, dumps: the engine does as it does */
		return 0;
	}
}

static bool exceeds_pool(const struct map *map)
{
	struct hugemap_stat stat = { .size = sizeof(stat) };
	struct stat st;

	return !hugemap_stat(map->start, &stat) && !fstat(map->fd, &st) &&
	       (uint64_t)st.st_size > stat.pool_bytes;
}

/* Random access to more than the pool holds is left to the kernel. */
static void leave_random(char *start, char *end)
{
	struct shim_section section;
	struct map *map;

	shim_enter(&section);
	pthread_rwlock_wrlock(&shim_lock);
	while (start < end && (map = map_first(start, end, true))) {
		start = map->end;
		if (exceeds_pool(map))
			aside_random(map->file);
	}
	pthread_rwlock_unlock(&shim_lock);
	shim_leave(&section);
}

SHIM_EXPORT int madvise(void *addr, size_t length, int advice)
{
	struct ranged call = { advise_part, real->madvise, advice };

	if (!shim_concerns(addr, length) || (uintptr_t)addr % PAGE_BYTES || !length)
		return real->madvise(addr, length, advice);
	if (advice == MADV_RANDOM && !shim_config.base_pages && !shim_config.random)
		leave_random(addr, round_up((char *)addr + length));
	switch (advice) {
	case MADV_NORMAL:
	case MADV_SEQUENTIAL:
	case MADV_RANDOM:
	case MADV_WILLNEED:
	case MADV_DONTNEED:
	case MADV_DONTNEED_LOCKED:
	case MADV_REMOVE:
	case MADV_FREE:
	case MADV_COLD:
	case MADV_PAGEOUT:
	case MADV_POPULATE_READ:
	case MADV_POPULATE_WRITE:
	case MADV_HUGEPAGE:
	case MADV_NOHUGEPAGE:
	case MADV_MERGEABLE:
	case MADV_UNMERGEABLE:
	case MADV_DONTDUMP:
	case MADV_DODUMP:
	case MADV_COLLAPSE:
		return in_parts(addr, round_up((char *)addr + length), &call);
	default:
		step_down(addr, length,
			  "the program has called madvise() in a way that only the "
			  "kernel knows");
		return real->madvise(addr, length, advice);
	}
}

SHIM_EXPORT int posix_madvise(void *addr, size_t length, int advice)
{
	int saved = errno, err;

	if (!shim_concerns(addr, length))
		return real->posix_madvise(addr, length, advice);
	/* As the C library has it: this one may not throw anything away. */
	if (advice == POSIX_MADV_DONTNEED)
		return 0;
	err = madvise(addr, length, advice) < 0 ? errno : 0;
	errno = saved;
	return err;
}
