// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Mlocked pages are neither evicted nor unmapped, and a frame with a memory failure is not
 * used again.
 *
 * vm: page=2M,4K,auto lower=ext4 pool=16M timeout=240
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
