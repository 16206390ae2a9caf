// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * What a program may do with a mapping: move it, resize it, protect it, take parts
 * away, advise on it, lock it.
 *
 * vm: page=2M,4K,auto timeout=180
 */
#include "common.h"

#include <sys/resource.h>

BEHAVIOUR(mremap_move)
{
	int fd = make_file("f", 1, 4 * HUGE);
	unsigned char *map = map_shared(fd, 0, 4 * HUGE), *place, *moved;
	uint64_t skip;

	pattern(map, 10, 0, 4 * HUGE);
	/* To an address that fits 2 MB pages and to one that does not, and back. */
	for (skip = 0; skip <= 5 * SMALL; skip += 5 * SMALL) {
		place = map_file(-1, 0, 8 * HUGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS);
		place = (unsigned char *)(((uintptr_t)place + HUGE - 1) / HUGE * HUGE + skip);
		moved = mremap(map, 4 * HUGE, 4 * HUGE, MREMAP_MAYMOVE | MREMAP_FIXED, place);
		EXPECT(moved == place, "mremap: %s", strerror(errno));
		expect_pattern("load after a move", moved, 10, 0, 4 * HUGE);
		map = moved;
		pattern(map + HUGE + 3, 11 + skip, HUGE + 3, SMALL);
		read_pattern("read after a store into a moved mapping", fd, 11 + skip, HUGE + 3,
			     SMALL);
		pattern(map + HUGE + 3, 10, HUGE + 3, SMALL);
	}
	MUST(msync(map, 4 * HUGE, MS_SYNC));
	expect_lower("below", "f", 10, 0, 4 * HUGE);
}

BEHAVIOUR(mremap_resize)
{
	int fd = make_file("f", 2, 4 * HUGE);
	unsigned char *map = map_shared(fd, 0, HUGE + SMALL), *grown;

	catch_signals();
	pattern(map, 20, 0, HUGE + SMALL);
	grown = mremap(map, HUGE + SMALL, 4 * HUGE + SMALL, MREMAP_MAYMOVE);
	EXPECT(grown != MAP_FAILED, "growing: %s", strerror(errno));
	expect_pattern("load of the old part", grown, 20, 0, HUGE + SMALL);
	expect_pattern("load of the new part", grown + HUGE + SMALL, 2, HUGE + SMALL,
		       3 * HUGE - SMALL);
	expect_sigbus_of_load(grown + 4 * HUGE, "in the grown part, beyond the file");
	map = mremap(grown, 4 * HUGE + SMALL, 3 * SMALL, 0);
	EXPECT(map == grown, "shrinking: %s", strerror(errno));
	expect_pattern("load of what is left", map, 20, 0, 3 * SMALL);
	EXPECT(signal_of_load(map + 3 * SMALL) == SIGSEGV, "what was cut off is still mapped");
	read_pattern("read after shrinking", fd, 20, 0, HUGE + SMALL);
	/* From the middle of a block. */
	grown = mremap(map + SMALL, SMALL, 2 * HUGE, MREMAP_MAYMOVE);
	EXPECT(grown != MAP_FAILED, "growing a middle part: %s", strerror(errno));
	expect_pattern("load of a grown middle part", grown, 20, SMALL, HUGE);
}

/* An old length of 0 asks for a second mapping of the same pages. */
BEHAVIOUR(mremap_duplicate)
{
	int fd = make_file("f", 3, 2 * HUGE);
	unsigned char *map = map_shared(fd, 0, 2 * HUGE), *second;

	pattern(map, 30, 0, HUGE);
	second = mremap(map, 0, 2 * HUGE, MREMAP_MAYMOVE);
	EXPECT(second != MAP_FAILED, "mremap of length 0: %s", strerror(errno));
	expect_pattern("load by the second mapping", second, 30, 0, HUGE);
	pattern(second + HUGE, 31, HUGE, 100);
	expect_pattern("load by the first mapping", map + HUGE, 31, HUGE, 100);
}

BEHAVIOUR(protection)
{
	int fd = make_file("f", 4, 3 * HUGE);
	unsigned char *map = map_shared(fd, 0, 3 * HUGE);

	catch_signals();
	pattern(map, 40, 0, 3 * HUGE);
	/* A part of a block that is mapped whole. */
	MUST(mprotect(map + HUGE + SMALL, 3 * SMALL, PROT_READ));
	EXPECT(signal_of_store(map + HUGE + SMALL) == SIGSEGV, "a store where only loads may be");
	EXPECT(!signal_of_store(map + HUGE), "no store beside a protected part");
	map[HUGE] = pattern_byte(40, HUGE);
	expect_pattern("load of a protected part", map, 40, 0, 3 * HUGE);
	MUST(mprotect(map + HUGE, HUGE, PROT_NONE));
	EXPECT(signal_of_load(map + HUGE + 5) == SIGSEGV, "a load where nothing may be");
	read_pattern("read of a protected part", fd, 40, 0, 3 * HUGE);
	MUST(mprotect(map, 3 * HUGE, PROT_READ | PROT_WRITE));
	expect_pattern("load after the protection", map, 40, 0, 3 * HUGE);
	pattern(map, 41, 0, 3 * HUGE);
	MUST(msync(map, 3 * HUGE, MS_SYNC));
	expect_lower("below", "f", 41, 0, 3 * HUGE);
	/* Clean now: made read-only and writable again, a store still counts. */
	MUST(mprotect(map, 3 * HUGE, PROT_READ));
	MUST(mprotect(map, 3 * HUGE, PROT_READ | PROT_WRITE));
	pattern(map, 42, 0, 3 * HUGE);
	MUST(msync(map, 3 * HUGE, MS_SYNC));
	expect_lower("below, after a change of protection", "f", 42, 0, 3 * HUGE);
}

/* Opened for reading only: no way to make it writable. */
BEHAVIOUR(read_only_descriptor)
{
	int fd = make_file("f", 5, HUGE), ro = open_file("f", O_RDONLY);
	unsigned char *map;

	catch_signals();
	EXPECT_ERRNO((long)mmap(NULL, HUGE, PROT_READ | PROT_WRITE, MAP_SHARED, ro, 0), EACCES);
	map = map_file(ro, 0, HUGE, PROT_READ, MAP_SHARED);
	expect_pattern("load", map, 5, 0, HUGE);
	EXPECT_ERRNO(mprotect(map, HUGE, PROT_READ | PROT_WRITE), EACCES);
	EXPECT(signal_of_store(map) == SIGSEGV, "a store into a read-only mapping");
	EXPECT_ERRNO(madvise(map, HUGE, MADV_REMOVE), EACCES);
	close(ro);
	ro = open_file("f", O_WRONLY);
	EXPECT_ERRNO((long)mmap(NULL, HUGE, PROT_WRITE, MAP_SHARED, ro, 0), EACCES);
	write_pattern(ro, 51, 0, 100);
	read_pattern("read of what a write-only descriptor wrote", fd, 51, 0, 100);
	read_pattern("read beside it", fd, 5, 100, HUGE - 100);
}

BEHAVIOUR(partial_munmap)
{
	int fd = make_file("f", 6, 4 * HUGE);
	unsigned char *map = map_shared(fd, 0, 4 * HUGE);

	catch_signals();
	pattern(map, 60, 0, 4 * HUGE);
	MUST(munmap(map + HUGE / 2, HUGE));
	EXPECT(signal_of_load(map + HUGE / 2) == SIGSEGV, "what was unmapped is still there");
	expect_pattern("load before it", map, 60, 0, HUGE / 2);
	expect_pattern("load behind it", map + HUGE * 3 / 2, 60, HUGE * 3 / 2, HUGE * 5 / 2);
	read_pattern("read of it", fd, 60, HUGE / 2, HUGE);
	/* Back again, into the hole. */
	EXPECT(mmap(map + HUGE / 2, HUGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
		    HUGE / 2) == map + HUGE / 2,
	       "mmap into the hole: %s", strerror(errno));
	expect_pattern("load after mapping it again", map, 60, 0, 4 * HUGE);
	/* Something else in its place. */
	EXPECT(mmap(map + HUGE, SMALL, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == map + HUGE,
	       "mmap over a part: %s", strerror(errno));
	expect_zero("load of what was put in its place", map + HUGE, 0, SMALL);
	map[HUGE] = 1;
	read_pattern("read of the file behind it", fd, 60, HUGE, SMALL);
}

/* None of them changes what is loaded. */
BEHAVIOUR(advice)
{
	static const int all[] = { MADV_NORMAL,	    MADV_RANDOM,	MADV_SEQUENTIAL,
				   MADV_WILLNEED,   MADV_DONTNEED,	MADV_HUGEPAGE,
				   MADV_NOHUGEPAGE, MADV_COLD,		MADV_PAGEOUT,
				   MADV_DONTDUMP,   MADV_POPULATE_READ, MADV_POPULATE_WRITE,
				   MADV_DONTFORK,   MADV_DOFORK,	25 /* MADV_COLLAPSE */ };
	int fd = make_file("f", 7, 4 * HUGE);
	unsigned char *map = map_shared(fd, 0, 4 * HUGE);
	unsigned int i;

	for (i = 0; i < COUNT(all); i++) {
		pattern(map + HUGE / 2, 70 + i, HUGE / 2, HUGE + 17);
		if (madvise(map, 4 * HUGE, all[i]))
			EXPECT(errno == EINVAL || errno == EBUSY || errno == EAGAIN ||
				       errno == ENOMEM,
			       "madvise(%d): %s", all[i], strerror(errno));
		expect_pattern("load after advice", map + HUGE / 2, 70 + i, HUGE / 2, HUGE + 17);
		expect_pattern("load beside it", map, 7, 0, HUGE / 2);
		/* a part of a block */
		if (madvise(map + HUGE + SMALL, 7 * SMALL, all[i]))
			EXPECT(errno == EINVAL || errno == EBUSY || errno == EAGAIN ||
				       errno == ENOMEM,
			       "madvise(%d) of a part: %s", all[i], strerror(errno));
		read_pattern("read after advice", fd, 70 + i, HUGE / 2, HUGE + 17);
	}
	MUST(msync(map, 4 * HUGE, MS_SYNC));
	expect_lower("below", "f", 70 + i - 1, HUGE / 2, HUGE + 17);
}

/*
 * A program's text read in order, with a hole in it: where a kernel collapses pages of
 * read-only files (CONFIG_READ_ONLY_THP_FOR_FS), it reads what is missing by itself.
 */
BEHAVIOUR(collapse_of_text)
{
	int fd = make_file("f", 10, 2 * HUGE);
	unsigned char *map;

	MUST(ftruncate(fd, 6 * HUGE));
	MUST(fsync(fd));
	close(fd);
	fd = open_file("f", O_RDONLY);
	MUST(posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL));
	map = map_file(fd, 0, 6 * HUGE, PROT_READ | PROT_EXEC, MAP_SHARED);
	if (madvise(map, 6 * HUGE, 25 /* MADV_COLLAPSE */))
		EXPECT(errno == EINVAL || errno == EBUSY || errno == EAGAIN || errno == ENOMEM,
		       "MADV_COLLAPSE: %s", strerror(errno));
	expect_pattern("load of the data", map, 10, 0, 2 * HUGE);
	expect_zero("load of the hole", map + 2 * HUGE, 2 * HUGE, 4 * HUGE);
}

/* MADV_POPULATE does what it says: no fault afterwards. */
BEHAVIOUR(populate)
{
	int fd = make_file("f", 8, 4 * HUGE);
	unsigned char *map = map_shared(fd, 0, 4 * HUGE);
	struct rusage before, after;
	uint64_t off;
	unsigned int sum = 0;

	if (madvise(map, 4 * HUGE, MADV_POPULATE_READ)) {
		EXPECT(errno == EINVAL, "MADV_POPULATE_READ: %s", strerror(errno));
		skip("no MADV_POPULATE_READ in this kernel");
	}
	getrusage(RUSAGE_SELF, &before);
	for (off = 0; off < 4 * HUGE; off += SMALL)
		sum += map[off];
	getrusage(RUSAGE_SELF, &after);
	EXPECT(after.ru_minflt + after.ru_majflt - before.ru_minflt - before.ru_majflt < 8,
	       "%ld faults after MADV_POPULATE_READ, expected none (sum %u)",
	       after.ru_minflt + after.ru_majflt - before.ru_minflt - before.ru_majflt, sum);
	MUST(madvise(map, 4 * HUGE, MADV_POPULATE_WRITE));
	getrusage(RUSAGE_SELF, &before);
	for (off = 0; off < 4 * HUGE; off += SMALL)
		map[off] = 1;
	getrusage(RUSAGE_SELF, &after);
	/* Write-behind protects what it writes, on a slow machine nearly all of it by now. */
	EXPECT(after.ru_minflt + after.ru_majflt - before.ru_minflt - before.ru_majflt <
		       (long)(4 * HUGE / SMALL),
	       "%ld faults after MADV_POPULATE_WRITE, expected fewer than pages",
	       after.ru_minflt + after.ru_majflt - before.ru_minflt - before.ru_majflt);
}

BEHAVIOUR(incore_and_locked)
{
	int fd = make_file("f", 9, 2 * HUGE);
	unsigned char *map = map_shared(fd, 0, 2 * HUGE);
	unsigned char present[2 * HUGE / SMALL];
	struct rlimit limit = { RLIM_INFINITY, RLIM_INFINITY };
	unsigned int i, n = 0;

	MUST(mincore(map, 2 * HUGE, present));
	expect_pattern("load", map, 9, 0, 2 * HUGE);
	MUST(mincore(map, 2 * HUGE, present));
	for (i = 0; i < COUNT(present); i++)
		n += present[i] & 1;
	EXPECT(n == COUNT(present), "mincore says that %u pages are there, expected %zu", n,
	       COUNT(present));
	setrlimit(RLIMIT_MEMLOCK, &limit);
	MUST(mlock(map + SMALL, HUGE));
	pattern(map + SMALL, 90, SMALL, HUGE);
	MUST(msync(map, 2 * HUGE, MS_SYNC));
	expect_lower("below, from locked pages", "f", 90, SMALL, HUGE);
	EXPECT_ERRNO(msync(map, 2 * HUGE, MS_SYNC | MS_INVALIDATE), EBUSY);
	MUST(munlock(map + SMALL, HUGE));
	MUST(munmap(map, 2 * HUGE));
	map = map_file(fd, 0, 2 * HUGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_LOCKED);
	expect_pattern("load of a locked mapping", map + SMALL, 90, SMALL, HUGE);
}

/* Two descriptors of one range with other flags, and a fork of a moved one. */
static void forked_after_move(void *arg)
{
	expect_pattern("child's load of a moved mapping", arg, 100, SMALL, HUGE);
}

BEHAVIOUR(fork_of_split)
{
	int fd = make_file("f", 10, 3 * HUGE);
	unsigned char *map = map_shared(fd, 0, 3 * HUGE), *moved;

	pattern(map, 100, 0, 3 * HUGE);
	moved = mremap(map + SMALL, HUGE, HUGE, MREMAP_MAYMOVE | MREMAP_FIXED,
		       map_file(-1, 0, HUGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS));
	EXPECT(moved != MAP_FAILED, "moving the middle: %s", strerror(errno));
	in_child(forked_after_move, moved);
	pattern(moved, 101, SMALL, HUGE);
	read_pattern("read after stores into a moved middle", fd, 101, SMALL, HUGE);
	expect_pattern("load of what stayed", map + HUGE + SMALL, 100, HUGE + SMALL,
		       2 * HUGE - SMALL);
}

/* remap_file_pages(2) is emulated by core mm: other pages at the same addresses. */
BEHAVIOUR(remap_pages)
{
	int fd = make_file("f", 11, 4 * SMALL);
	unsigned char *map = map_shared(fd, 0, 4 * SMALL);

	if (remap_file_pages(map, SMALL, 0, 2, 0))
		skip("no remap_file_pages: %s", strerror(errno));
	expect_pattern("load of a remapped page", map, 11, 2 * SMALL, SMALL);
	expect_pattern("load beside it", map + SMALL, 11, SMALL, 3 * SMALL);
}

BEHAVIOUR(many_mappings)
{
	int fd = make_file("f", 12, 2 * HUGE);
	unsigned char *maps[512];
	unsigned int i;

	for (i = 0; i < COUNT(maps); i++)
		maps[i] = map_shared(fd, (uint64_t)(i % 3) * SMALL, HUGE + i * SMALL % HUGE);
	for (i = 0; i < COUNT(maps); i++)
		expect_pattern("load by one of many", maps[i] + HUGE - 50, 12,
			       (i % 3) * SMALL + HUGE - 50, 50);
	pattern(maps[7] + 3 * SMALL, 120, (7 % 3 + 3) * SMALL, 10);
	for (i = 0; i < COUNT(maps); i++)
		expect_pattern("load by each of a store by one",
			       maps[i] + (7 % 3 + 3) * SMALL - (i % 3) * SMALL, 120,
			       (7 % 3 + 3) * SMALL, 10);
	/* One write-back protects them all. */
	MUST(fsync(fd));
	for (i = 0; i < COUNT(maps); i += 100) {
		maps[i][5 * SMALL] = (unsigned char)i;
		EXPECT(maps[0][(i % 3) * SMALL + 5 * SMALL] == (unsigned char)i,
		       "a store by mapping %u is not seen by the first", i);
		MUST(fsync(fd));
	}
}

RUN_BEHAVIOURS
