// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Operations by way of mappings: fresh ones, and ones that are kept. What happens to
 * the file by other means must show in those at once, and the other way round.
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

/* Loads are allowed up to here: the end of the page that holds the last byte. */
uint64_t mapped_end(const struct worker *w)
{
	return round_up(w->model->size, PAGE);
}

static unsigned char *map_fresh(struct worker *w, uint64_t off, uint64_t len, int prot, int flags,
				uint64_t *skip)
{
	unsigned char *addr;

	/* From the page, from the block's start, or somewhere between. */
	*skip = off % PAGE;
	if (random_chance(w, 40))
		*skip = off % BLOCK;
	else if (random_chance(w, 20))
		*skip += PAGE * random_below(w, off / PAGE % 512 + 1);
	addr = mmap(NULL, len + *skip, prot, flags, w->fd, (off_t)(off - *skip));
	if (addr == MAP_FAILED)
		fail(w, "mmap: %s", strerror(errno));
	return addr;
}

void op_map_read(struct worker *w)
{
	uint64_t off, len, skip;
	unsigned char *addr;

	pick_range(w, false, &off, &len);
	if (off >= w->model->size)
		return;
	/* To the end of the last page: zeros. */
	if (len > mapped_end(w) - off)
		len = mapped_end(w) - off;
	note(w, "map-read", off, len, 0);
	addr = map_fresh(w, off, len, PROT_READ, MAP_SHARED, &skip);
	check(w, "load from a fresh mapping", off, addr + skip, len);
	munmap(addr, len + skip);
}

void op_map_write(struct worker *w)
{
	uint64_t off, len, skip;
	unsigned char *addr;

	if (!pick_range(w, true, &off, &len))
		return;
	note(w, "map-write", off, len, 0);
	if (off + len > w->model->size) {
		if (ftruncate(w->fd, (off_t)(off + len)))
			fail(w, "ftruncate: %s", strerror(errno));
		resized(w, off + len);
	}
	fill(w, w->buf, len);
	addr = map_fresh(w, off, len, PROT_READ | PROT_WRITE, MAP_SHARED, &skip);
	memcpy(addr + skip, w->buf, len);
	wrote(w, off, w->buf, len);
	if (random_chance(w, 10)) {
		if (msync(addr, len + skip, MS_SYNC))
			fail(w, "msync: %s", strerror(errno));
		check_below(w, "after msync of a fresh mapping, below", off, len);
	}
	munmap(addr, len + skip);
}

/* Private: what the file holds, and stores stay here. */
void op_private(struct worker *w)
{
	uint64_t off, len, skip, at;
	unsigned char *addr;
	bool store = random_chance(w, 30);

	pick_range(w, false, &off, &len);
	if (off >= w->model->size)
		return;
	if (len > mapped_end(w) - off)
		len = mapped_end(w) - off;
	note(w, "map-private", off, len, store);
	addr = map_fresh(w, off, len, PROT_READ | PROT_WRITE, MAP_PRIVATE, &skip);
	check(w, "load from a private mapping", off, addr + skip, len);
	if (store) {
		at = random_below(w, len);
		addr[skip + at] ^= 0xff;
		check(w, "load before a private store", off, addr + skip, at);
		check(w, "load behind a private store", off + at + 1, addr + skip + at + 1,
		      len - at - 1);
		len = available(w, off, len);
		got(w, "read beside a private store", off, len,
		    pread(w->fd, w->buf, len, (off_t)off));
	}
	munmap(addr, len + skip);
}

static void unmap(struct worker *w, struct kept *kept)
{
	if (kept->addr && munmap(kept->addr, kept->len))
		fail(w, "munmap: %s", strerror(errno));
	kept->addr = NULL;
}

void unmap_all(struct worker *w)
{
	unsigned int i;

	for (i = 0; i < KEPT; i++)
		unmap(w, &w->kept[i]);
}

/* By the line of /proc that has the address of one of them: is there an inode? */
enum server served_by(const struct worker *w)
{
	enum server server = BY_NOBODY;
	unsigned long start, end, inode, addr = 0;
	char line[600];
	unsigned int i;
	FILE *maps;

	for (i = 0; !addr && i < KEPT; i++)
		addr = (unsigned long)w->kept[i].addr;
	maps = addr ? fopen("/proc/self/maps", "re") : NULL;
	if (!maps)
		return server;
	while (server == BY_NOBODY && fgets(line, sizeof(line), maps))
		if (sscanf(line, "%lx-%lx %*s %*s %*s %lu", &start, &end, &inode) == 3 &&
		    addr >= start && addr < end)
			server = inode ? BY_KERNEL : BY_OTHERS;
	fclose(maps);
	return server;
}

/* A mapping that can be used now, or NULL. @len: how much of it the file has. */
struct kept *pick_kept(struct worker *w, bool writable, uint64_t *len)
{
	unsigned int start = (unsigned int)random_below(w, KEPT);
	uint64_t end = mapped_end(w);
	unsigned int i;

	for (i = 0; i < KEPT; i++) {
		struct kept *kept = &w->kept[(start + i) % KEPT];

		if (!kept->addr || kept->off >= end || (writable && !kept->writable))
			continue;
		*len = end - kept->off < kept->len ? end - kept->off : kept->len;
		return kept;
	}
	return NULL;
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

void keep_some(struct worker *w)
{
	unsigned int i;

	for (i = 0; i < KEPT / 2; i++)
		op_keep(w);
}

void op_kept_read(struct worker *w)
{
	uint64_t there, at, len;
	struct kept *kept = pick_kept(w, false, &there);

	if (!kept)
		return;
	at = random_below(w, there);
	len = pick_length(w);
	if (len > there - at)
		len = there - at;
	note(w, "kept-read", kept->off + at, len, 0);
	check(w, "load from a kept mapping", kept->off + at, kept->addr + at, len);
}

void op_kept_write(struct worker *w)
{
	uint64_t there, off, len;
	struct kept *kept = pick_kept(w, true, &there);

	if (!kept || !pick_range(w, true, &off, &len))
		return;
	if (w->opts->threads == 1)
		off = kept->off + random_below(w, there);
	else if (off < kept->off || off >= kept->off + there)
		return;
	if (off >= w->model->size)
		return;
	if (len > w->model->size - off)
		len = w->model->size - off;
	if (len > kept->off + there - off)
		len = kept->off + there - off;
	note(w, "kept-write", off, len, 0);
	fill(w, w->buf, len);
	memcpy(kept->addr + (off - kept->off), w->buf, len);
	wrote(w, off, w->buf, len);
}

void op_msync(struct worker *w)
{
	uint64_t there, at, len;
	struct kept *kept = pick_kept(w, false, &there);
	int flags = random_chance(w, 80) ? MS_SYNC : MS_ASYNC;

	if (!kept)
		return;
	at = round_down(random_below(w, there), PAGE);
	len = random_chance(w, 50) ? there - at : 1 + random_below(w, there - at);
	note(w, "msync", kept->off + at, len, (uint64_t)flags);
	if (msync(kept->addr + at, len, flags))
		fail(w, "msync: %s", strerror(errno));
	if (flags == MS_SYNC)
		check_below(w, "after msync, below", kept->off + at, len);
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
	uint64_t there, at, len;
	struct kept *kept = pick_kept(w, all[which].advice == MADV_POPULATE_WRITE, &there);

	if (!kept)
		return;
	if (!all[which].inside)
		there = kept->len;
	at = round_down(random_below(w, there), PAGE);
	len = round_up(1 + random_below(w, there - at), PAGE);
	note(w, "madvise", kept->off + at, len, (uint64_t)all[which].advice);
	/* Older kernels, or built without THP, do not know all of them. */
	if (madvise(kept->addr + at, len, all[which].advice) && errno != EINVAL)
		fail(w, "madvise(%d): %s", all[which].advice, strerror(errno));
}

/* Hole punching by way of a mapping. */
void op_remove(struct worker *w)
{
	uint64_t there, at, len;
	struct kept *kept = pick_kept(w, true, &there);

	if (!kept || w->opts->threads > 1)
		return;
	at = round_down(random_below(w, there), PAGE);
	len = round_up(pick_length(w), PAGE);
	if (len > there - at)
		len = there - at;
	note(w, "madv-remove", kept->off + at, len, 0);
	if (madvise(kept->addr + at, len, MADV_REMOVE)) {
		if (errno != EOPNOTSUPP && errno != EINVAL)
			fail(w, "madvise(MADV_REMOVE): %s", strerror(errno));
		return;
	}
	zeroed(w, kept->off + at, len);
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

/* One end of a mapping goes, often not a whole block. */
void op_munmap(struct worker *w)
{
	uint64_t there, cut;
	struct kept *kept = pick_kept(w, false, &there);

	if (!kept || kept->len == PAGE)
		return;
	cut = PAGE * (1 + random_below(w, kept->len / PAGE - 1));
	note(w, "munmap", kept->off, kept->len, cut);
	if (random_chance(w, 50)) {
		if (munmap(kept->addr + kept->len - cut, cut))
			fail(w, "munmap: %s", strerror(errno));
	} else {
		if (munmap(kept->addr, cut))
			fail(w, "munmap: %s", strerror(errno));
		kept->addr += cut;
		kept->off += cut;
	}
	kept->len -= cut;
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

/* read(2) into a mapping of the same file: the copy faults where it stores. */
void op_read_self(struct worker *w)
{
	uint64_t there, from, to, len;
	struct kept *kept = pick_kept(w, true, &there);
	ssize_t n;

	if (!kept || w->opts->threads > 1 || w->model->size < 2 * PAGE)
		return;
	len = pick_length(w) % (256 << 10) + 1;
	to = random_below(w, there);
	from = random_below(w, w->model->size);
	if (len > there - to)
		len = there - to;
	if (kept->off + to >= w->model->size)
		return;
	if (len > w->model->size - kept->off - to)
		len = w->model->size - kept->off - to;
	if (len > w->model->size - from)
		len = w->model->size - from;
	/* Where they overlap, the result is whatever the copy makes of it. */
	if (from < kept->off + to + len && kept->off + to < from + len)
		return;
	note(w, "read-self", kept->off + to, len, from);
	n = pread(w->fd, kept->addr + to, len, (off_t)from);
	if (n != (ssize_t)len)
		fail(w, "read into a mapping of the file gave %zd of %llu: %s", n,
		     (unsigned long long)len, n < 0 ? strerror(errno) : "short");
	wrote(w, kept->off + to, w->model->bytes + from, len);
	check(w, "load after a read into the mapping", kept->off + to, kept->addr + to, len);
}

/* write(2) from a mapping of the same file: the copy faults where it loads. */
void op_write_self(struct worker *w)
{
	uint64_t there, from, to, len;
	struct kept *kept = pick_kept(w, false, &there);
	ssize_t put;

	if (!kept || w->opts->threads > 1)
		return;
	len = pick_length(w) % (256 << 10) + 1;
	from = random_below(w, there);
	to = pick_offset(w, w->opts->size);
	if (len > there - from)
		len = there - from;
	if (len > w->opts->size - to)
		len = w->opts->size - to;
	if (!len || (to < kept->off + from + len && kept->off + from < to + len))
		return;
	/* The bytes past the end in the last page are zero, unless stored to. */
	if (w->model->polluted == w->model->size && kept->off + from + len > w->model->size)
		return;
	note(w, "write-self", to, len, kept->off + from);
	put = pwrite(w->fd, kept->addr + from, len, (off_t)to);
	if (put != (ssize_t)len)
		fail(w, "write from a mapping of the file gave %zd of %llu: %s", put,
		     (unsigned long long)len, put < 0 ? strerror(errno) : "short");
	wrote(w, to, w->model->bytes + kept->off + from, len);
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
