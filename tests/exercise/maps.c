// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * How files are mapped, unmapped and synced, and the operations of mmap(2) and its kin.
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

static struct kept map_somewhere(struct worker *w, uint64_t off, uint64_t len, int prot, int flags)
{
	struct kept fresh;
	uint64_t skip;

	/* From the page, from the block's start, or somewhere between. */
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

struct kept map_fresh(struct worker *w, uint64_t off, uint64_t len, bool change)
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
	/* What a sync of a part does, one of the whole file does as well. */
	bool whole = flags == MS_SYNC && random_chance(w, 30);

	if (whole ? fdatasync(w->fd) : msync(addr, len, flags))
		fail(w, "%s: %s", whole ? "fdatasync" : "msync", strerror(errno));
}

/* Private: what the file holds, and stores stay here. */
void op_private(struct worker *w)
{
	bool store = random_chance(w, 30);
	uint64_t off, len, at;
	struct kept private;
	unsigned char *addr;

	pick_range(w, false, &off, &len);
	if (off >= w->model->size)
		return;
	if (len > mapped_end(w) - off)
		len = mapped_end(w) - off;
	note(w, "map-private", off, len, store);
	private = map_somewhere(w, off, len, PROT_READ | PROT_WRITE, MAP_PRIVATE);
	addr = mapped(&private, off);
	check(w, "load from a private mapping", off, addr, len);
	if (store) {
		at = random_below(w, len);
		addr[at] ^= 0xff;
		check(w, "load before a private store", off, addr, at);
		check(w, "load behind a private store", off + at + 1, addr + at + 1, len - at - 1);
		len = available(w, off, len);
		got(w, "read beside a private store", off, len,
		    pread(w->fd, w->buf, len, (off_t)off));
	}
	unmap(w, &private);
}

static void keep(struct worker *w, bool misaligned)
{
	struct kept *kept = &w->kept[random_below(w, KEPT)];
	uint64_t unit = random_chance(w, 50) ? BLOCK : PAGE;
	bool populate = random_chance(w, 10);
	unsigned char *hole = NULL;
	int flags = MAP_SHARED;

	unmap(w, kept);
	kept->off = round_down(pick_offset(w, w->opts->size), unit);
	kept->len =
		round_up(1 + random_below(w, random_chance(w, 50) ? 4 * BLOCK : 64 * PAGE), PAGE);
	kept->writable = true;
	note(w, misaligned ? "keep-odd" : "keep", kept->off, kept->len, populate);
	if (populate)
		flags |= MAP_POPULATE;
	if (misaligned) {
		hole = mmap(NULL, kept->len + 2 * BLOCK, PROT_NONE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (hole == MAP_FAILED)
			fail(w, "mmap of a hole: %s", strerror(errno));
		munmap(hole, kept->len + 2 * BLOCK);
		hole = (unsigned char *)round_up((uintptr_t)hole, BLOCK) + kept->off % BLOCK + PAGE;
	}
	/* Threads map at the same time: never over what another one has put there. */
	kept->addr = mmap(hole, kept->len, PROT_READ | PROT_WRITE,
			  flags | (hole ? MAP_FIXED_NOREPLACE : 0), w->fd, (off_t)kept->off);
	if (kept->addr == MAP_FAILED && hole && errno == EEXIST)
		kept->addr = mmap(NULL, kept->len, PROT_READ | PROT_WRITE, flags, w->fd,
				  (off_t)kept->off);
	if (kept->addr == MAP_FAILED) {
		kept->addr = NULL;
		fail(w, "mmap: %s", strerror(errno));
	}
}

/* Where the kernel likes it, so that 2 MB pages are possible. */
void op_keep(struct worker *w)
{
	keep(w, false);
}

/* At an address that does not match the offset, so that they are not. */
void op_keep_odd(struct worker *w)
{
	keep(w, true);
}

/* None of these may change a byte. */
void op_madvise(struct worker *w)
{
	static const struct {
		int advice;
		bool inside; /* of the file only */
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
	struct kept *kept = pick_pages(w, all[which].advice == MADV_POPULATE_WRITE, &off, &len);

	if (!kept)
		return;
	if (!all[which].inside) {
		off = kept->off + round_down(random_below(w, kept->len), PAGE);
		len = 1 + random_below(w, kept->off + kept->len - off);
	}
	note(w, "madvise", off, len, (uint64_t)all[which].advice);
	/* Older kernels, or built without THP, do not know all of them. */
	if (madvise(mapped(kept, off), len, all[which].advice) && errno != EINVAL)
		fail(w, "madvise(%d): %s", all[which].advice, strerror(errno));
}

/* Hole punching by way of a mapping. */
void op_remove(struct worker *w)
{
	uint64_t off, len;
	struct kept *kept = pick_pages(w, true, &off, &len);

	if (!kept || w->opts->threads > 1)
		return;
	len = round_up(len, PAGE);
	note(w, "madv-remove", off, len, 0);
	if (madvise(mapped(kept, off), len, MADV_REMOVE)) {
		if (errno != EOPNOTSUPP && errno != EINVAL)
			fail(w, "madvise(MADV_REMOVE): %s", strerror(errno));
		return;
	}
	zeroed(w, off, len);
}

static void move(struct worker *w, bool fixed)
{
	uint64_t there, len;
	struct kept *kept = pick_kept(w, false, &there);
	unsigned char *addr, *place = NULL;
	uint64_t skip = 0;

	if (!kept)
		return;
	len = random_chance(w, 50) ? kept->len : round_up(1 + random_below(w, 4 * BLOCK), PAGE);
	note(w, fixed ? "mremap-fixed" : "mremap", kept->off, kept->len, len);
	if (fixed) {
		place = mmap(NULL, len + BLOCK, PROT_NONE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (place == MAP_FAILED)
			fail(w, "mmap of a place: %s", strerror(errno));
		skip = random_chance(w, 50) ? random_below(w, BLOCK / PAGE) * PAGE : 0;
		addr = mremap(kept->addr, kept->len, len, MREMAP_MAYMOVE | MREMAP_FIXED,
			      place + skip);
	} else {
		addr = mremap(kept->addr, kept->len, len, MREMAP_MAYMOVE);
	}
	if (addr == MAP_FAILED) {
		/* Advice for a part has split it: then it may neither grow nor move. */
		if (errno != EFAULT)
			fail(w, "mremap from %#llx to %#llx bytes: %s",
			     (unsigned long long)kept->len, (unsigned long long)len,
			     strerror(errno));
		/* With threads, somebody else may have mapped what it has unmapped. */
		if (place && w->opts->threads == 1)
			munmap(place, len + BLOCK);
		/* It may have lost its tail on the way. */
		unmap(w, kept);
		return;
	}
	if (place) {
		if (skip)
			munmap(place, skip);
		munmap(place + skip + len, BLOCK - skip);
	}
	kept->addr = addr;
	kept->len = len;
}

void op_mremap(struct worker *w)
{
	move(w, false);
}

/* To a place of its own choosing, over a reservation. */
void op_mremap_fixed(struct worker *w)
{
	move(w, true);
}

void op_mprotect(struct worker *w)
{
	uint64_t there;
	struct kept *kept = pick_kept(w, false, &there);

	if (!kept)
		return;
	note(w, "mprotect", kept->off, kept->len, !kept->writable);
	if (mprotect(kept->addr, kept->len, kept->writable ? PROT_READ : PROT_READ | PROT_WRITE))
		fail(w, "mprotect: %s", strerror(errno));
	kept->writable = !kept->writable;
}

/* The child sees what the parent stored, and the parent what the child does. */
void op_fork(struct worker *w)
{
	uint64_t there, off = 0, len = 0;
	struct kept *kept = pick_kept(w, true, &there);
	bool store;
	int status;
	pid_t pid;

	if (!kept)
		return;
	store = pick_range(w, true, &off, &len) && off >= kept->off && off < kept->off + there &&
		off < w->model->size;
	if (store) {
		if (len > kept->off + there - off)
			len = kept->off + there - off;
		if (len > w->model->size - off)
			len = w->model->size - off;
		fill(w, w->buf, len);
	}
	note(w, "fork", off, store ? len : 0, kept->off);
	fflush(NULL);
	pid = fork();
	if (pid < 0)
		fail(w, "fork: %s", strerror(errno));
	if (!pid) {
		uint64_t n = there < BLOCK ? there : BLOCK;

		check(w, "load by a forked child", kept->off, kept->addr, n);
		if (store)
			memcpy(kept->addr + (off - kept->off), w->buf, len);
		_exit(0);
	}
	if (waitpid(pid, &status, 0) != pid)
		fail(w, "waitpid: %s", strerror(errno));
	if (status)
		fail(w, "the forked child ended with status %#x", status);
	if (store) {
		wrote(w, off, w->buf, len);
		check(w, "load after a forked child's store", off, kept->addr + (off - kept->off),
		      len);
	}
}

/* A store past the end, in the last page: it must not come back when the file grows. */
void op_pollute(struct worker *w)
{
	uint64_t page = round_down(w->model->size, PAGE), there;
	struct kept *kept = pick_kept(w, true, &there);

	if (!w->opts->pollute || !kept || w->opts->threads > 1 || page == w->model->size)
		return;
	if (page < kept->off || page >= kept->off + kept->len)
		return;
	note(w, "pollute", w->model->size, page + PAGE - w->model->size, 0);
	w->model->polluted = w->model->size;
	memset(kept->addr + (w->model->size - kept->off), POLLUTION, page + PAGE - w->model->size);
}
