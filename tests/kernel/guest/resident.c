// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Mlocked pages are neither evicted nor unmapped, and a frame with a memory failure is not
 * used again.
 *
 * vm: page=2M,4K,auto lower=ext4 pool=16M timeout=360
 */
#include "common.h"

#ifndef MADV_HWPOISON
#define MADV_HWPOISON 100
#endif
#define STREAM (32 * HUGE)

/* Reads four times the size of the pool twice, so that other pages are evicted. */
static void read_stream(void)
{
	unsigned char *buf = buffer(HUGE);
	int fd = open_file("stream", O_RDONLY);
	uint64_t off;
	int i;

	for (i = 0; i < 2; i++)
		for (off = 0; off < STREAM; off += HUGE)
			EXPECT(pread(fd, buf, HUGE, (off_t)off) == (ssize_t)HUGE, "read: %s",
			       strerror(errno));
	close(fd);
	free(buf);
}

/*
 * Files that have twice the size of the pool together. Each is too small for the use-once
 * queue, so reading them evicts units of other files, too.
 */
#define FILES 8u
#define FILE_SIZE (2 * HUGE)

static void make_files(void)
{
	char name[16];
	unsigned int i;

	for (i = 0; i < FILES; i++) {
		snprintf(name, sizeof(name), "small%u", i);
		close(make_cold_file(name, 10 + i, FILE_SIZE));
	}
}

static void read_files(void)
{
	char name[16];
	unsigned int i;
	int fd;

	for (i = 0; i < 2 * FILES; i++) {
		snprintf(name, sizeof(name), "small%u", i % FILES);
		fd = open_file(name, O_RDONLY);
		read_pattern("read", fd, 10 + i % FILES, 0, FILE_SIZE);
		close(fd);
	}
}

static void expect_resident(unsigned char *map, size_t len)
{
	unsigned char resident[4 * HUGE / SMALL];
	size_t i, absent = 0, first = 0;

	EXPECT(len / SMALL <= COUNT(resident), "%zu bytes", len);
	MUST(mincore(map, len, resident));
	for (i = 0; i < len / SMALL; i++)
		if (!(resident[i] & 1) && !absent++)
			first = i;
	EXPECT(!absent, "%zu pages from page %zu on were mlocked, but are evicted", absent, first);
}

static void await_promotion(uint64_t promoted)
{
	unsigned int i;

	for (i = 0; mount_stat("promoted") == promoted; i++) {
		EXPECT(i < 600, "no block was promoted");
		usleep(100000);
	}
}

/*
 * A promoted block keeps its page table, and mm marks no huge page as mlocked that PTEs map. The
 * write-back of such a block must not unmap it either.
 */
BEHAVIOUR(promoted_block_is_not_evicted_while_it_is_mlocked)
{
	unsigned char *map;
	uint64_t promoted;
	unsigned int i;
	int fd;

	if (!hybrid_pages())
		skip("only page=auto promotes");
	make_files();
	fd = make_cold_file("f", 1, 2 * HUGE);
	map = map_shared(fd, 0, 2 * HUGE);
	promoted = mount_stat("promoted");
	/* In an order without sequential runs: they are read as pages of 4 KB. */
	for (i = 0; i < HUGE / SMALL; i++)
		(void)*(volatile unsigned char *)(map + HUGE + i * 37 % (HUGE / SMALL) * SMALL);
	await_promotion(promoted);
	expect_pattern("load", map + HUGE, 1, HUGE, HUGE);
	MUST(mlock(map + HUGE, HUGE));
	read_files();
	expect_resident(map + HUGE, HUGE);
	pattern(map + HUGE, 3, HUGE, HUGE);
	MUST(msync(map, 2 * HUGE, MS_SYNC));
	read_files();
	expect_resident(map + HUGE, HUGE);
	expect_pattern("load of mlocked pages", map + HUGE, 3, HUGE, HUGE);
}

/* mm counts no locks of these pages: the end of the first lock clears its mark. */
BEHAVIOUR(page_is_not_evicted_while_one_of_two_mappings_is_mlocked)
{
	unsigned char *map, *other;
	int fd;

	make_files();
	fd = make_cold_file("f", 1, 2 * HUGE);
	map = map_shared(fd, 0, 2 * HUGE);
	other = map_shared(fd, 0, 2 * HUGE);
	MUST(mlock(map, 2 * HUGE));
	MUST(mlock(other, 2 * HUGE));
	MUST(munlock(other, 2 * HUGE));
	read_files();
	expect_resident(map, 2 * HUGE);
	expect_pattern("load of mlocked pages", map, 1, 0, 2 * HUGE);
}

BEHAVIOUR(mlocked_pages_are_not_evicted_until_munlock)
{
	unsigned char resident[2 * HUGE / SMALL];
	int fd = make_file("f", 1, 4 * HUGE), other = make_file("stream", 2, STREAM);
	unsigned char *map;
	long before;
	size_t i;

	MUST(fsync(fd));
	MUST(fsync(other));
	map = map_shared(fd, 0, 4 * HUGE);
	expect_pattern("load", map, 1, 0, 4 * HUGE);
	MUST(mlock(map + HUGE, 2 * HUGE));
	/* Write-back must not unmap them: they would not be locked until the next access. */
	pattern(map + HUGE, 3, HUGE, 2 * HUGE);
	MUST(msync(map, 4 * HUGE, MS_SYNC));
	read_stream();
	MUST(mincore(map + HUGE, 2 * HUGE, resident));
	for (i = 0; i < COUNT(resident); i++)
		EXPECT(resident[i] & 1, "page %zu was mlocked, but is evicted", i);
	before = major_faults();
	expect_pattern("load of mlocked pages", map + HUGE, 3, HUGE, 2 * HUGE);
	EXPECT(major_faults() == before, "%ld pages were read again", major_faults() - before);
	/* Without the lock they are evicted as all others. */
	MUST(munlock(map + HUGE, 2 * HUGE));
	MUST(munmap(map, 4 * HUGE));
	read_stream();
	map = map_shared(fd, 0, 4 * HUGE);
	MUST(mincore(map + HUGE, 2 * HUGE, resident));
	for (i = 0; i < COUNT(resident) && resident[i] & 1; i++)
		;
	EXPECT(i < COUNT(resident), "no page was evicted after munlock");
	expect_pattern("load at the end", map, 1, 0, HUGE);
	expect_pattern("load at the end", map + HUGE, 3, HUGE, 2 * HUGE);
}

static uint64_t read_entry(const char *path, uint64_t index)
{
	int fd = open_file(path, O_RDONLY);
	uint64_t entry;

	EXPECT(pread(fd, &entry, 8, (off_t)(index * 8)) == 8, "%s: %s", path, strerror(errno));
	close(fd);
	return entry;
}

static uint64_t frame_of(const unsigned char *page)
{
	return read_entry("/proc/self/pagemap", (uintptr_t)page / SMALL) & ((1ull << 55) - 1);
}

/* Is the flag KPF_HWPOISON set? */
static bool is_poisoned(const unsigned char *page)
{
	return read_entry("/proc/kpageflags", frame_of(page)) >> 19 & 1;
}

static void ignore(int sig)
{
	(void)sig;
}

/* MADV_HWPOISON acts as if the hardware had reported a memory failure. */
BEHAVIOUR(frame_with_a_memory_failure_is_not_used_again)
{
	struct sigaction act = { .sa_handler = ignore };
	int fd = make_file("f", 1, 2 * HUGE), other = make_file("stream", 2, STREAM), i;
	unsigned char *map = map_shared(fd, 0, 2 * HUGE);
	uint64_t off;

	MUST(fsync(fd));
	MUST(fsync(other));
	expect_pattern("load", map, 1, 0, 2 * HUGE);
	/* Linux sends SIGBUS to processes that map the page. */
	MUST(sigaction(SIGBUS, &act, NULL));
	if (madvise(map + HUGE + SMALL, SMALL, MADV_HWPOISON) && errno == EINVAL)
		skip("this kernel has no MADV_HWPOISON");
	MUST(munmap(map, 2 * HUGE));
	for (i = 0; i < 4; i++)
		read_stream();
	/* The pool is full now; no cached page is in the failed frame. */
	map = map_shared(other, 0, STREAM);
	for (off = 0; off < STREAM; off += SMALL) {
		EXPECT(*(volatile unsigned char *)(map + off) == pattern_byte(2, off),
		       "byte at %#llx", (unsigned long long)off);
		EXPECT(!is_poisoned(map + off), "page %llu is in a poisoned frame",
		       (unsigned long long)(off / SMALL));
	}
	read_pattern("read at the end", fd, 1, 0, 2 * HUGE);
}

RUN_BEHAVIOURS
