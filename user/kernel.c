// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Mappings that the kernel serves: where the user-space engine cannot work, or
 * was not wanted. Aligned so that the kernel can use huge pages, and with the
 * advice that makes it do so.
 */
#include "engine.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct kernel_mapping *mappings;

static struct kernel_mapping *find(const void *addr)
{
	struct kernel_mapping *map = mappings;

	while (map && ((const char *)addr < map->start || (const char *)addr >= map->end))
		map = map->next;
	return map;
}

bool kernel_covers(const void *addr)
{
	bool covers;

	pthread_mutex_lock(&lock);
	covers = find(addr);
	pthread_mutex_unlock(&lock);
	return covers;
}

void kernel_lock(void)
{
	pthread_mutex_lock(&lock);
}

void kernel_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

/**
 * kernel_shares() - must the kernel serve another mapping of a file, too?
 * @writable: the other one will be written
 *
 * Mappings that only read may be served by whom they like.
 */
bool kernel_shares(dev_t dev, ino_t ino, bool writable)
{
	struct kernel_mapping *map;
	bool shares = false;

	pthread_mutex_lock(&lock);
	for (map = mappings; map && !shares; map = map->next)
		shares = map->shared && map->dev == dev && map->ino == ino &&
			 (map->writable || writable);
	pthread_mutex_unlock(&lock);
	return shares;
}

/* Remember a mapping that the kernel serves, and why. */
int kernel_add(const struct kernel_mapping *added, const char *why)
{
	struct kernel_mapping *map = calloc(1, sizeof(*map));

	if (!map)
		return -ENOMEM;
	*map = *added;
	snprintf(map->why, sizeof(map->why), "%s", why);
	pthread_mutex_lock(&lock);
	map->next = mappings;
	mappings = map;
	pthread_mutex_unlock(&lock);
	return 0;
}

/* Addresses that lie to the file as the offset does, modulo 2 MB; or NULL. */
static char *aligned_place(off_t offset, size_t bytes)
{
	uintptr_t mask = HM_BLOCK_SIZE - 1;
	char *at = mmap(NULL, bytes + HM_BLOCK_SIZE, PROT_NONE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	size_t skip;

	if (at == MAP_FAILED)
		return NULL;
	skip = ((uintptr_t)offset - (uintptr_t)at) & mask;
	if (skip)
		munmap(at, skip);
	munmap(at + skip + bytes, HM_BLOCK_SIZE - skip);
	return at + skip;
}

/**
 * kernel_map() - map with the kernel's mmap
 * @why: the reason, for hugemap_stat() and hugemap_reason()
 *
 * Return: the address, or a negative errno as a pointer.
 */
void *kernel_map(int fd, off_t offset, size_t length, int prot, int flags, enum hugemap_page page,
		 const char *why)
{
	size_t bytes = (length + HM_PAGE_SIZE - 1) & ~(size_t)(HM_PAGE_SIZE - 1);
	struct kernel_mapping map = {
		.shared = !(flags & HUGEMAP_PRIVATE),
		.writable = prot & PROT_WRITE,
		.claim_fd = -1,
	};
	char *place;
	char *at;
	int err;

	err = file_identify(fd, &map.dev, &map.ino);
	if (err)
		return (void *)(intptr_t)fail(err, "the file descriptor is not open");
	place = aligned_place(offset, bytes);
	if (!place)
		return (void *)(intptr_t)-ENOMEM;
	at = mmap(place, bytes, prot,
		  MAP_FIXED | (flags & HUGEMAP_PRIVATE ? MAP_PRIVATE : MAP_SHARED), fd, offset);
	map.start = at;
	map.end = at + bytes;
	err = at == MAP_FAILED ? -errno : kernel_add(&map, why);
	if (err) {
		munmap(place, bytes);
		return (void *)(intptr_t)fail(err, "mmap: %s", strerror(-err));
	}
	if (page == HUGEMAP_PAGE_2M)
		madvise(at, bytes, MADV_HUGEPAGE);
	if (flags & HUGEMAP_NOFORK)
		madvise(at, bytes, MADV_DONTFORK);
	reason_set("mapped with the kernel's mmap: %s", why);
	return at;
}

/* Forget [start, end) of a mapping, which may leave a part on either side. */
static int cut(struct kernel_mapping *map, char *start, char *end)
{
	struct kernel_mapping *rest;

	if (start > map->start && end < map->end) {
		rest = calloc(1, sizeof(*rest));
		if (!rest)
			return -ENOMEM;
		*rest = *map;
		if (map->claim_fd >= 0)
			rest->claim_fd = fcntl(map->claim_fd, F_DUPFD_CLOEXEC, 0);
		rest->start = end;
		map->next = rest;
		map->end = start;
	} else if (start > map->start) {
		map->end = start;
	} else {
		map->start = end;
	}
	return 0;
}

/**
 * kernel_unmap() - unmap what the kernel has mapped for us in a range
 * @found: set if there was anything
 */
int kernel_unmap(char *start, char *end, bool *found)
{
	struct kernel_mapping **at, *map;
	int err = 0;

	pthread_mutex_lock(&lock);
	for (at = &mappings; (map = *at) && !err;) {
		char *from = start > map->start ? start : map->start;
		char *to = end < map->end ? end : map->end;

		if (from >= to) {
			at = &map->next;
			continue;
		}
		*found = true;
		if (from == map->start && to == map->end) {
			*at = map->next;
			if (map->claim_fd >= 0)
				close(map->claim_fd);
			free(map);
		} else {
			err = cut(map, from, to);
		}
		if (!err && munmap(from, (size_t)(to - from)) < 0)
			err = -errno;
	}
	pthread_mutex_unlock(&lock);
	return err;
}

int kernel_advise(char *start, char *end, enum hugemap_advice advice)
{
	static const int advices[] = {
		[HUGEMAP_ADVICE_NORMAL] = MADV_NORMAL,
		[HUGEMAP_ADVICE_SEQUENTIAL] = MADV_SEQUENTIAL,
		[HUGEMAP_ADVICE_RANDOM] = MADV_RANDOM,
		[HUGEMAP_ADVICE_WILLNEED] = MADV_WILLNEED,
		[HUGEMAP_ADVICE_DONTNEED] = MADV_DONTNEED,
	};

	if (advice >= HUGEMAP_ADVICE_PRIORITY_HIGH)
		return 0; /* the kernel knows no priorities */
	return madvise(start, (size_t)(end - start), advices[advice]) < 0 ? -errno : 0;
}

int kernel_stat(const void *addr, struct hugemap_stat *stat)
{
	struct kernel_mapping *map;

	*stat = (struct hugemap_stat){ .size = sizeof(*stat), .engine = HUGEMAP_ENGINE_MMAP };
	pthread_mutex_lock(&lock);
	map = find(addr);
	if (map) {
		stat->mapped_bytes = (u64)(map->end - map->start);
		snprintf(stat->reason, sizeof(stat->reason), "%s", map->why);
	}
	pthread_mutex_unlock(&lock);
	return map ? 0 : -EINVAL;
}
