// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * What stays in memory and what must not: pages that are locked there are not evicted,
 * and memory that is broken is not used again.
 *
 * vm: page=2M,4K,auto lower=ext4 pool=16M timeout=240
 */
#include "common.h"

#ifndef MADV_HWPOISON
#define MADV_HWPOISON 100
#endif
#define STREAM (32 * HUGE)

/* Four times through the pool. */
static void stream(void)
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

BEHAVIOUR(locked_stay)
{
	unsigned char resident[2 * HUGE / SMALL];
	int fd = make_file("f", 1, 4 * HUGE), other = make_file("stream", 2, STREAM);
	unsigned char *map;
	long before;
	size_t i;

	MUST(fsync(fd));
	MUST(fsync(other));
	map = map_shared(fd, 0, 4 * HUGE);
	/* In the middle of what is read with it. */
	expect_pattern("load", map, 1, 0, 4 * HUGE);
	MUST(mlock(map + HUGE, 2 * HUGE));
	/* Written back, it is locked still, without being touched again. */
	pattern(map + HUGE, 3, HUGE, 2 * HUGE);
	MUST(msync(map, 4 * HUGE, MS_SYNC));
	stream();
	MUST(mincore(map + HUGE, 2 * HUGE, resident));
	for (i = 0; i < COUNT(resident); i++)
		EXPECT(resident[i] & 1, "page %zu was locked, and is gone", i);
	before = major_faults();
	expect_pattern("load of what is locked", map + HUGE, 3, HUGE, 2 * HUGE);
	EXPECT(major_faults() == before, "%ld pages were read again", major_faults() - before);
	/* When it is not locked any more, it goes as all others do. */
	MUST(munlock(map + HUGE, 2 * HUGE));
	MUST(munmap(map, 4 * HUGE));
	stream();
	map = map_shared(fd, 0, 4 * HUGE);
	MUST(mincore(map + HUGE, 2 * HUGE, resident));
	for (i = 0; i < COUNT(resident) && resident[i] & 1; i++)
		;
	EXPECT(i < COUNT(resident), "all that was locked once is still there");
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

static bool is_broken(const unsigned char *page)
{
	return read_entry("/proc/kpageflags", frame_of(page)) >> 19 & 1;
}

static void go_on(int sig)
{
	(void)sig;
}

/* As if the hardware had told of a broken page. */
BEHAVIOUR(broken_goes)
{
	struct sigaction told = { .sa_handler = go_on };
	int fd = make_file("f", 1, 2 * HUGE), other = make_file("stream", 2, STREAM), i;
	unsigned char *map = map_shared(fd, 0, 2 * HUGE);
	uint64_t off;

	MUST(fsync(fd));
	MUST(fsync(other));
	expect_pattern("load", map, 1, 0, 2 * HUGE);
	/* Linux tells who has it mapped. */
	MUST(sigaction(SIGBUS, &told, NULL));
	if (madvise(map + HUGE + SMALL, SMALL, MADV_HWPOISON) && errno == EINVAL)
		skip("this kernel breaks no pages");
	MUST(munmap(map, 2 * HUGE));
	for (i = 0; i < 4; i++)
		stream();
	/* None of what is cached is on it. */
	map = map_shared(other, 0, STREAM);
	for (off = 0; off < STREAM; off += SMALL) {
		EXPECT(*(volatile unsigned char *)(map + off) == pattern_byte(2, off),
		       "byte at %#llx", (unsigned long long)off);
		EXPECT(!is_broken(map + off), "page %llu is on broken memory",
		       (unsigned long long)(off / SMALL));
	}
	read_pattern("read at the end", fd, 1, 0, 2 * HUGE);
}

RUN_BEHAVIOURS
