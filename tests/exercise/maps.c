// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Mapping, unmapping and syncing, and the operations by mmap(2), mremap(2), madvise(2),
 * mprotect(2) and fork(2).
 */
#include "ops.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

static struct map map_somewhere(struct worker *w, uint64_t off, uint64_t len, int prot, int flags)
{
	struct map fresh;
	uint64_t skip;

	/* Start at the page, at the block, or at a page between. */
	skip = off % PAGE;
	if (random_chance(w, 40))
		skip = off % BLOCK;
	else if (random_chance(w, 20))
		skip += PAGE * random_below(w, off / PAGE % 512 + 1);
	fresh.off = off - skip;
	fresh.len = len + skip;
	fresh.addr = mmap(NULL, fresh.len, prot, flags, w->fd, (off_t)fresh.off);
	if (fresh.addr == MAP_FAILED)
		fail(w, "mmap: %s", strerror(errno));
	return fresh;
}

struct map map_fresh(struct worker *w, uint64_t off, uint64_t len, bool change)
{
	return map_somewhere(w, off, len, change ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED);
}

void unmap_range(struct worker *w, unsigned char *addr, uint64_t len)
{
	if (munmap(addr, len))
		fail(w, "munmap: %s", strerror(errno));
}

void sync_mapped(struct worker *w, unsigned char *addr, uint64_t len, int flags)
{
	/* A sync of the whole file includes the range. */
	bool whole = flags == MS_SYNC && random_chance(w, 30);

	if (whole ? fdatasync(w->fd) : msync(addr, len, flags))
		fail(w, "%s: %s", whole ? "fdatasync" : "msync", strerror(errno));
}

/* A private mapping shows the file, and its stores do not reach the file. */
void op_private(struct worker *w)
{
	bool store = random_chance(w, 30);
	uint64_t off, len, at;
	struct map private;
	unsigned char *addr;

	pick_range(w, false, &off, &len);
	if (off >= w->model->size)
		return;
	if (len > mapped_end(w) - off)
		len = mapped_end(w) - off;
	log_operation(w, "map-private", off, len, store);
	private = map_somewhere(w, off, len, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	addr = map_address(&private, off);
	model_check(w, "load from a private mapping", off, addr, len);
	if (store) {
		at = random_below(w, len);
		addr[at] ^= 0xff;
		model_check(w, "load before a private store", off, addr, at);
		model_check(w, "load behind a private store", off + at + 1, addr + at + 1,
			    len - at - 1);
		len = model_available(w, off, len);
		check_read(w, "read beside a private store", off, len,
			   pread(w->fd, w->buf, len, (off_t)off));
	}
	unmap(w, &private);
}

static void map_shared(struct worker *w, bool misaligned)
{
	struct map *map = &w->maps[random_below(w, MAPPINGS)];
	uint64_t unit = random_chance(w, 50) ? BLOCK : PAGE;
	bool populate = random_chance(w, 10);
	unsigned char *hole = NULL;
	int flags = MAP_SHARED;

	unmap(w, map);
	map->off = round_down(pick_offset(w, w->opts->size), unit);
	map->len =
		round_up(1 + random_below(w, random_chance(w, 50) ? 4 * BLOCK : 64 * PAGE), PAGE);
	map->writable = true;
	log_operation(w, misaligned ? "keep-odd" : "keep", map->off, map->len, populate);
	if (populate)
		flags |= MAP_POPULATE;
	if (misaligned) {
		hole = mmap(NULL, map->len + 2 * BLOCK, PROT_NONE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (hole == MAP_FAILED)
			fail(w, "mmap of a hole: %s", strerror(errno));
		munmap(hole, map->len + 2 * BLOCK);
		hole = (unsigned char *)round_up((uintptr_t)hole, BLOCK) + map->off % BLOCK + PAGE;
	}
	/* Another thread may have mapped something into the hole since munmap(). */
	map->addr = mmap(hole, map->len, PROT_READ | PROT_WRITE,
			 flags | (hole ? MAP_FIXED_NOREPLACE : 0), w->fd, (off_t)map->off);
	if (map->addr == MAP_FAILED && hole && errno == EEXIST)
		map->addr =
			mmap(NULL, map->len, PROT_READ | PROT_WRITE, flags, w->fd, (off_t)map->off);
	if (map->addr == MAP_FAILED) {
		map->addr = NULL;
		fail(w, "mmap: %s", strerror(errno));
	}
}

/* Keep a mapping at an address of the kernel's choice, so that 2 MB pages are possible. */
void op_keep(struct worker *w)
{
	map_shared(w, false);
}

/* Keep a mapping at an address that no 2 MB page fits. */
void op_keep_odd(struct worker *w)
{
	map_shared(w, true);
}

/* No advice may change a byte. */
void op_madvise(struct worker *w)
{
	static const struct {
		int advice;
		bool inside; /* only for a range within the file */
	} all[] = {
		{ MADV_DONTNEED, false },     { MADV_WILLNEED, false },
		{ MADV_PAGEOUT, false },      { MADV_COLD, false },
		{ MADV_POPULATE_READ, true }, { MADV_POPULATE_WRITE, true },
		{ MADV_SEQUENTIAL, false },   { MADV_RANDOM, false },
		{ MADV_NORMAL, false },	      { MADV_HUGEPAGE, false },
		{ MADV_NOHUGEPAGE, false },
	};
	unsigned int which = (unsigned int)random_below(w, sizeof(all) / sizeof(all[0]));
	uint64_t off, len;
	struct map *map = pick_pages(w, all[which].advice == MADV_POPULATE_WRITE, &off, &len);

	if (!map)
		return;
	if (!all[which].inside) {
		off = map->off + round_down(random_below(w, map->len), PAGE);
		len = 1 + random_below(w, map->off + map->len - off);
	}
	log_operation(w, "madvise", off, len, (uint64_t)all[which].advice);
	/* Kernels that are older or built without THP lack some advice. */
	if (madvise(map_address(map, off), len, all[which].advice) && errno != EINVAL)
		fail(w, "madvise(%d): %s", all[which].advice, strerror(errno));
}

/* Punch a hole through a mapping. */
void op_remove(struct worker *w)
{
	uint64_t off, len;
	struct map *map = pick_pages(w, true, &off, &len);

	if (!map || w->opts->threads > 1)
		return;
	len = round_up(len, PAGE);
	log_operation(w, "madv-remove", off, len, 0);
	if (madvise(map_address(map, off), len, MADV_REMOVE)) {
		if (errno != EOPNOTSUPP && errno != EINVAL)
			fail(w, "madvise(MADV_REMOVE): %s", strerror(errno));
		return;
	}
	model_zero(w, off, len);
}

static void remap(struct worker *w, bool fixed)
{
	uint64_t there, len;
	struct map *map = pick_map(w, false, &there);
	unsigned char *addr, *place = NULL;
	uint64_t skip = 0;

	if (!map)
		return;
	len = random_chance(w, 50) ? map->len : round_up(1 + random_below(w, 4 * BLOCK), PAGE);
	log_operation(w, fixed ? "mremap-fixed" : "mremap", map->off, map->len, len);
	if (fixed) {
		place = mmap(NULL, len + BLOCK, PROT_NONE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (place == MAP_FAILED)
			fail(w, "mmap of a place: %s", strerror(errno));
		skip = random_chance(w, 50) ? random_below(w, BLOCK / PAGE) * PAGE : 0;
		addr = mremap(map->addr, map->len, len, MREMAP_MAYMOVE | MREMAP_FIXED,
			      place + skip);
	} else {
		addr = mremap(map->addr, map->len, len, MREMAP_MAYMOVE);
	}
	if (addr == MAP_FAILED) {
		/* EFAULT: advice for a part has split the VMA, which can neither grow nor move. */
		if (errno != EFAULT)
			fail(w, "mremap from %#llx to %#llx bytes: %s",
			     (unsigned long long)map->len, (unsigned long long)len,
			     strerror(errno));
		/* Another thread may have mapped something where the place was unmapped. */
		if (place && w->opts->threads == 1)
			munmap(place, len + BLOCK);
		/* The failed call may have unmapped the tail. */
		unmap(w, map);
		return;
	}
	if (place) {
		if (skip)
			munmap(place, skip);
		munmap(place + skip + len, BLOCK - skip);
	}
	map->addr = addr;
	map->len = len;
}

void op_mremap(struct worker *w)
{
	remap(w, false);
}

/* Move the mapping to a given address within a reservation. */
void op_mremap_fixed(struct worker *w)
{
	remap(w, true);
}

void op_mprotect(struct worker *w)
{
	uint64_t there;
	struct map *map = pick_map(w, false, &there);

	if (!map)
		return;
	log_operation(w, "mprotect", map->off, map->len, !map->writable);
	if (mprotect(map->addr, map->len, map->writable ? PROT_READ : PROT_READ | PROT_WRITE))
		fail(w, "mprotect: %s", strerror(errno));
	map->writable = !map->writable;
}

/* A child must see the parent's stores, and the parent the child's. */
void op_fork(struct worker *w)
{
	uint64_t there, off = 0, len = 0;
	struct map *map = pick_map(w, true, &there);
	bool store;
	int status;
	pid_t pid;

	if (!map)
		return;
	store = pick_range(w, true, &off, &len) && off >= map->off && off < map->off + there &&
		off < w->model->size;
	if (store) {
		if (len > map->off + there - off)
			len = map->off + there - off;
		if (len > w->model->size - off)
			len = w->model->size - off;
		fill_random(w, w->buf, len);
	}
	log_operation(w, "fork", off, store ? len : 0, map->off);
	fflush(NULL);
	pid = fork();
	if (pid < 0)
		fail(w, "fork: %s", strerror(errno));
	if (!pid) {
		uint64_t n = there < BLOCK ? there : BLOCK;

		model_check(w, "load by a forked child", map->off, map->addr, n);
		if (store)
			memcpy(map->addr + (off - map->off), w->buf, len);
		_exit(0);
	}
	if (waitpid(pid, &status, 0) != pid)
		fail(w, "waitpid: %s", strerror(errno));
	if (status)
		fail(w, "the forked child ended with status %#x", status);
	if (store) {
		model_write(w, off, w->buf, len);
		model_check(w, "load after a forked child's store", off,
			    map->addr + (off - map->off), len);
	}
}

/* Store past the end in the last page: these bytes must be zero once the file has grown. */
void op_pollute(struct worker *w)
{
	uint64_t page = round_down(w->model->size, PAGE), there;
	struct map *map = pick_map(w, true, &there);

	if (!w->opts->pollute || !map || w->opts->threads > 1 || page == w->model->size)
		return;
	if (page < map->off || page >= map->off + map->len)
		return;
	log_operation(w, "pollute", w->model->size, page + PAGE - w->model->size, 0);
	w->model->polluted = w->model->size;
	memset(map->addr + (w->model->size - map->off), POLLUTION, page + PAGE - w->model->size);
}
