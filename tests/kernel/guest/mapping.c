// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * mremap, mprotect, munmap of a part, madvise, mlock and remap_file_pages work on a mapping
 * of the mount as on Linux, also in the middle of a huge page.
 *
 * vm: page=2M,4K,auto timeout=180
 */
#include "common.h"

BEHAVIOUR(mremap_moves_a_mapping)
{
	int fd = make_file("f", 1, 4 * HUGE);
	unsigned char *map = map_shared(fd, 0, 4 * HUGE), *place, *moved;
	uint64_t shift;

	pattern(map, 10, 0, 4 * HUGE);
	/* To an address that is aligned to 2 MB, and then to one that is not. */
	for (shift = 0; shift <= 5 * SMALL; shift += 5 * SMALL) {
		place = reserve_aligned(8 * HUGE) + shift;
		moved = mremap(map, 4 * HUGE, 4 * HUGE, MREMAP_MAYMOVE | MREMAP_FIXED, place);
		EXPECT(moved == place, "mremap: %s", strerror(errno));
		expect_pattern("load after a move", moved, 10, 0, 4 * HUGE);
		map = moved;
		pattern(map + HUGE + 3, 11 + shift, HUGE + 3, SMALL);
		read_pattern("read after a store into a moved mapping", fd, 11 + shift, HUGE + 3,
			     SMALL);
		pattern(map + HUGE + 3, 10, HUGE + 3, SMALL);
	}
	MUST(msync(map, 4 * HUGE, MS_SYNC));
	expect_lower("lower file", "f", 10, 0, 4 * HUGE);
}

BEHAVIOUR(mremap_grows_and_shrinks_a_mapping)
{
	int fd = make_file("f", 2, 4 * HUGE);
	unsigned char *map = map_shared(fd, 0, HUGE + SMALL), *grown;

	catch_signals();
	pattern(map, 20, 0, HUGE + SMALL);
	grown = mremap(map, HUGE + SMALL, 4 * HUGE + SMALL, MREMAP_MAYMOVE);
	EXPECT(grown != MAP_FAILED, "mremap to a larger size: %s", strerror(errno));
	expect_pattern("load of the old part", grown, 20, 0, HUGE + SMALL);
	expect_pattern("load of the new part", grown + HUGE + SMALL, 2, HUGE + SMALL,
		       3 * HUGE - SMALL);
	expect_sigbus_of_load(grown + 4 * HUGE, "in the grown part, beyond the file");
	map = mremap(grown, 4 * HUGE + SMALL, 3 * SMALL, 0);
	EXPECT(map == grown, "mremap to a smaller size: %s", strerror(errno));
	expect_pattern("load of the remaining part", map, 20, 0, 3 * SMALL);
	EXPECT(signal_of_load(map + 3 * SMALL) == SIGSEGV, "the removed part is still mapped");
	read_pattern("read after shrinking", fd, 20, 0, HUGE + SMALL);
	/* From the middle of a block. */
	grown = mremap(map + SMALL, SMALL, 2 * HUGE, MREMAP_MAYMOVE);
	EXPECT(grown != MAP_FAILED, "mremap of the middle: %s", strerror(errno));
	expect_pattern("load of the grown middle", grown, 20, SMALL, HUGE);
}

BEHAVIOUR(mremap_with_old_length_0_duplicates_a_mapping)
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

BEHAVIOUR(mprotect_restricts_a_part_and_stores_are_tracked_afterwards)
{
	int fd = make_file("f", 4, 3 * HUGE);
	unsigned char *map = map_shared(fd, 0, 3 * HUGE);

	catch_signals();
	pattern(map, 40, 0, 3 * HUGE);
	/* A part of a huge page. */
	MUST(mprotect(map + HUGE + SMALL, 3 * SMALL, PROT_READ));
	EXPECT(signal_of_store(map + HUGE + SMALL) == SIGSEGV, "a store to a read-only page");
	EXPECT(!signal_of_store(map + HUGE), "a store beside a protected part raised a signal");
	map[HUGE] = pattern_byte(40, HUGE);
	expect_pattern("load of a protected part", map, 40, 0, 3 * HUGE);
	MUST(mprotect(map + HUGE, HUGE, PROT_NONE));
	EXPECT(signal_of_load(map + HUGE + 5) == SIGSEGV, "a load from a PROT_NONE page");
	read_pattern("read of a protected part", fd, 40, 0, 3 * HUGE);
	MUST(mprotect(map, 3 * HUGE, PROT_READ | PROT_WRITE));
	expect_pattern("load after the protection", map, 40, 0, 3 * HUGE);
	pattern(map, 41, 0, 3 * HUGE);
	MUST(msync(map, 3 * HUGE, MS_SYNC));
	expect_lower("lower file", "f", 41, 0, 3 * HUGE);
	/* The pages are clean. mprotect must not make them writable without a fault. */
	MUST(mprotect(map, 3 * HUGE, PROT_READ));
	MUST(mprotect(map, 3 * HUGE, PROT_READ | PROT_WRITE));
	pattern(map, 42, 0, 3 * HUGE);
	MUST(msync(map, 3 * HUGE, MS_SYNC));
	expect_lower("lower file after a change of protection", "f", 42, 0, 3 * HUGE);
}

BEHAVIOUR(mapping_of_a_read_only_descriptor_cannot_become_writable)
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
	read_pattern("read after a write by a write-only descriptor", fd, 51, 0, 100);
	read_pattern("read beside it", fd, 5, 100, HUGE - 100);
}

BEHAVIOUR(munmap_of_a_part_keeps_the_rest)
{
	int fd = make_file("f", 6, 4 * HUGE);
	unsigned char *map = map_shared(fd, 0, 4 * HUGE);

	catch_signals();
	pattern(map, 60, 0, 4 * HUGE);
	MUST(munmap(map + HUGE / 2, HUGE));
	EXPECT(signal_of_load(map + HUGE / 2) == SIGSEGV, "the unmapped part is still mapped");
	expect_pattern("load before the gap", map, 60, 0, HUGE / 2);
	expect_pattern("load behind the gap", map + HUGE * 3 / 2, 60, HUGE * 3 / 2, HUGE * 5 / 2);
	read_pattern("read of the unmapped part", fd, 60, HUGE / 2, HUGE);
	/* Map the same part again. */
	EXPECT(mmap(map + HUGE / 2, HUGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
		    HUGE / 2) == map + HUGE / 2,
	       "mmap into the gap: %s", strerror(errno));
	expect_pattern("load after mapping it again", map, 60, 0, 4 * HUGE);
	/* Anonymous memory replaces a page. */
	EXPECT(mmap(map + HUGE, SMALL, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == map + HUGE,
	       "mmap over a part: %s", strerror(errno));
	expect_zero("load of anonymous memory", map + HUGE, 0, SMALL);
	map[HUGE] = 1;
	read_pattern("read of the replaced page", fd, 60, HUGE, SMALL);
}

static void try_madvise(unsigned char *addr, size_t len, int advice)
{
	if (madvise(addr, len, advice))
		EXPECT(errno == EINVAL || errno == EBUSY || errno == EAGAIN || errno == ENOMEM,
		       "madvise(%d) of %zu bytes: %s", advice, len, strerror(errno));
}

BEHAVIOUR(madvise_never_changes_what_is_loaded)
{
	static const int all[] = { MADV_NORMAL,	    MADV_RANDOM,	MADV_SEQUENTIAL,
				   MADV_WILLNEED,   MADV_DONTNEED,	MADV_HUGEPAGE,
				   MADV_NOHUGEPAGE, MADV_COLD,		MADV_PAGEOUT,
				   MADV_DONTDUMP,   MADV_POPULATE_READ, MADV_POPULATE_WRITE,
				   MADV_DONTFORK,   MADV_DOFORK,	MADV_COLLAPSE };
	int fd = make_file("f", 7, 4 * HUGE);
	unsigned char *map = map_shared(fd, 0, 4 * HUGE);
	unsigned int i;

	for (i = 0; i < COUNT(all); i++) {
		pattern(map + HUGE / 2, 70 + i, HUGE / 2, HUGE + 17);
		try_madvise(map, 4 * HUGE, all[i]);
		expect_pattern("load after advice", map + HUGE / 2, 70 + i, HUGE / 2, HUGE + 17);
		expect_pattern("load of clean pages after advice", map, 7, 0, HUGE / 2);
		try_madvise(map + HUGE + SMALL, 7 * SMALL, all[i]);
		read_pattern("read after advice", fd, 70 + i, HUGE / 2, HUGE + 17);
	}
	MUST(msync(map, 4 * HUGE, MS_SYNC));
	expect_lower("lower file", "f", 70 + i - 1, HUGE / 2, HUGE + 17);
}

/*
 * With CONFIG_READ_ONLY_THP_FOR_FS, MADV_COLLAPSE of an executable mapping of a read-only
 * descriptor reads missing pages by itself, without the module. The file has a hole.
 */
BEHAVIOUR(madv_collapse_of_program_text_keeps_its_content)
{
	int fd = make_file("f", 10, 2 * HUGE);
	unsigned char *map;

	MUST(ftruncate(fd, 6 * HUGE));
	MUST(fsync(fd));
	close(fd);
	fd = open_file("f", O_RDONLY);
	MUST(posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL));
	map = map_file(fd, 0, 6 * HUGE, PROT_READ | PROT_EXEC, MAP_SHARED);
	try_madvise(map, 6 * HUGE, MADV_COLLAPSE);
	expect_pattern("load of the data", map, 10, 0, 2 * HUGE);
	expect_zero("load of the hole", map + 2 * HUGE, 2 * HUGE, 4 * HUGE);
}

BEHAVIOUR(madv_populate_prevents_later_faults)
{
	int fd = make_file("f", 8, 4 * HUGE);
	unsigned char *map = map_shared(fd, 0, 4 * HUGE);
	unsigned int sum = 0;
	uint64_t off;
	long faults;

	if (madvise(map, 4 * HUGE, MADV_POPULATE_READ)) {
		EXPECT(errno == EINVAL, "MADV_POPULATE_READ: %s", strerror(errno));
		skip("no MADV_POPULATE_READ in this kernel");
	}
	faults = page_faults();
	for (off = 0; off < 4 * HUGE; off += SMALL)
		sum += map[off];
	faults = page_faults() - faults;
	EXPECT(faults < 8, "%ld faults after MADV_POPULATE_READ, expected none (sum %u)", faults,
	       sum);
	MUST(madvise(map, 4 * HUGE, MADV_POPULATE_WRITE));
	faults = page_faults();
	for (off = 0; off < 4 * HUGE; off += SMALL)
		map[off] = 1;
	faults = page_faults() - faults;
	/* Write-behind may have protected most pages again: on a slow machine nearly all. */
	EXPECT(faults < (long)(4 * HUGE / SMALL),
	       "%ld faults after MADV_POPULATE_WRITE, expected fewer than pages", faults);
}

BEHAVIOUR(mincore_reports_cached_pages_and_mlocked_pages_are_written_back)
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
	EXPECT(n == COUNT(present), "mincore reports %u cached pages, expected %zu", n,
	       COUNT(present));
	setrlimit(RLIMIT_MEMLOCK, &limit);
	MUST(mlock(map + SMALL, HUGE));
	pattern(map + SMALL, 90, SMALL, HUGE);
	MUST(msync(map, 2 * HUGE, MS_SYNC));
	expect_lower("lower file, stores to mlocked pages", "f", 90, SMALL, HUGE);
	EXPECT_ERRNO(msync(map, 2 * HUGE, MS_SYNC | MS_INVALIDATE), EBUSY);
	MUST(munlock(map + SMALL, HUGE));
	MUST(munmap(map, 2 * HUGE));
	map = map_file(fd, 0, 2 * HUGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_LOCKED);
	expect_pattern("load of a MAP_LOCKED mapping", map + SMALL, 90, SMALL, HUGE);
}

static void forked_after_move(void *arg)
{
	expect_pattern("child's load of a moved mapping", arg, 100, SMALL, HUGE);
}

BEHAVIOUR(mapping_whose_middle_was_moved_survives_fork)
{
	int fd = make_file("f", 10, 3 * HUGE);
	unsigned char *map = map_shared(fd, 0, 3 * HUGE), *moved;

	pattern(map, 100, 0, 3 * HUGE);
	moved = mremap(map + SMALL, HUGE, HUGE, MREMAP_MAYMOVE | MREMAP_FIXED,
		       map_file(-1, 0, HUGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS));
	EXPECT(moved != MAP_FAILED, "mremap of the middle: %s", strerror(errno));
	in_child(forked_after_move, moved);
	pattern(moved, 101, SMALL, HUGE);
	read_pattern("read after stores into a moved middle", fd, 101, SMALL, HUGE);
	expect_pattern("load behind the moved middle", map + HUGE + SMALL, 100, HUGE + SMALL,
		       2 * HUGE - SMALL);
}

BEHAVIOUR(remap_file_pages_exchanges_pages)
{
	int fd = make_file("f", 11, 4 * SMALL);
	unsigned char *map = map_shared(fd, 0, 4 * SMALL);

	if (remap_file_pages(map, SMALL, 0, 2, 0))
		skip("remap_file_pages: %s", strerror(errno));
	expect_pattern("load of a remapped page", map, 11, 2 * SMALL, SMALL);
	expect_pattern("load beside a remapped page", map + SMALL, 11, SMALL, 3 * SMALL);
}

BEHAVIOUR(many_mappings_of_a_file_agree)
{
	int fd = make_file("f", 12, 2 * HUGE);
	unsigned char *maps[512];
	unsigned int i;

	for (i = 0; i < COUNT(maps); i++)
		maps[i] = map_shared(fd, (uint64_t)(i % 3) * SMALL, HUGE + i * SMALL % HUGE);
	for (i = 0; i < COUNT(maps); i++)
		expect_pattern("load by one of many mappings", maps[i] + HUGE - 50, 12,
			       (i % 3) * SMALL + HUGE - 50, 50);
	pattern(maps[7] + 3 * SMALL, 120, (7 % 3 + 3) * SMALL, 10);
	for (i = 0; i < COUNT(maps); i++)
		expect_pattern("load of a store by another mapping",
			       maps[i] + (7 % 3 + 3) * SMALL - (i % 3) * SMALL, 120,
			       (7 % 3 + 3) * SMALL, 10);
	/* Write-back protects the page in all mappings, so that each store is tracked. */
	MUST(fsync(fd));
	for (i = 0; i < COUNT(maps); i += 100) {
		maps[i][5 * SMALL] = (unsigned char)i;
		EXPECT(maps[0][(i % 3) * SMALL + 5 * SMALL] == (unsigned char)i,
		       "a store by mapping %u is not seen by the first", i);
		MUST(fsync(fd));
	}
}

RUN_BEHAVIOURS
