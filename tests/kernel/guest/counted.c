// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Linux never splits or frees a huge folio of the pool, whatever its reference count.
 *
 * Linux splits a huge folio for MADV_COLD on a part of it, and frees a clean one for
 * drop_caches, if the folio has exactly the references of its page cache (512 for 2 MB) and
 * of the caller. Any user can make a number of references near that one, by pages in pipes
 * and by mappings of 4 KB. The pool's own reference must keep the sum different.
 *
 * vm: page=auto lower=ext4 pool=64M timeout=180
 */
#include "common.h"

#include <sys/uio.h>

#ifndef MADV_COLD
#define MADV_COLD 20
#endif

#define PIPE_PAGES 256u /* of a pipe of 1 MB, the limit for ordinary users */
#define AROUND 12

static int pipes[3][2];

static void make_pipes(void)
{
	unsigned int i;

	for (i = 0; i < 3; i++) {
		EXPECT(!pipe(pipes[i]), "pipe: %s", strerror(errno));
		EXPECT(fcntl(pipes[i][1], F_SETPIPE_SZ, PIPE_PAGES * SMALL) >= 0,
		       "a pipe of 1 MB: %s", strerror(errno));
	}
}

/* Takes @n references to the folio, each by a page in a pipe. */
static void take_references(unsigned char *map, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++) {
		struct iovec page = { map + (size_t)(i % 512) * SMALL, SMALL };

		EXPECT(vmsplice(pipes[i / PIPE_PAGES][1], &page, 1, 0) == SMALL,
		       "vmsplice of page %u: %s", i, strerror(errno));
	}
}

static void drop_references(unsigned int n)
{
	static unsigned char page[SMALL];
	unsigned int i;

	for (i = 0; i < n; i++)
		EXPECT(read(pipes[i / PIPE_PAGES][0], page, SMALL) == SMALL, "read of a pipe: %s",
		       strerror(errno));
}

BEHAVIOUR(partial_madv_cold_does_not_split_a_huge_folio)
{
	int fd = make_file("f", 1, 2 * HUGE);
	unsigned char *map = map_shared(fd, 0, 2 * HUGE);
	unsigned int n;

	make_pipes();
	for (n = 512 - AROUND; n < 512 + AROUND; n++) {
		expect_pattern("load before MADV_COLD", map, 1, 0, HUGE);
		take_references(map, n);
		EXPECT(!madvise(map, SMALL, MADV_COLD) || errno == EINVAL, "madvise: %s",
		       strerror(errno));
		expect_pattern("load after MADV_COLD", map, 1, 0, HUGE);
		drop_references(n);
	}
	pattern(map, 2, 0, HUGE);
	EXPECT(!msync(map, HUGE, MS_SYNC), "msync: %s", strerror(errno));
	read_pattern("read after msync", fd, 2, 0, HUGE);
}

/* The folio is mapped by @n PTEs, at an address that does not allow a PMD entry. */
BEHAVIOUR(drop_caches_does_not_free_a_mapped_huge_folio)
{
	int fd = make_file("g", 3, 2 * HUGE);
	unsigned int n, i;

	for (n = 512 - AROUND; n < 512; n++) {
		unsigned char *map = reserve_aligned(HUGE + SMALL) + SMALL;

		map = mmap(map, n * SMALL, PROT_READ, MAP_SHARED | MAP_FIXED, fd,
			   (512 - n) * SMALL);
		EXPECT(map != MAP_FAILED, "mmap of the file: %s", strerror(errno));
		for (i = 0; i < n; i++)
			(void)*(volatile unsigned char *)(map + i * SMALL);
		drop_caches("1");
		expect_pattern("load after drop_caches", map, 3, (512 - n) * SMALL, n * SMALL);
		EXPECT(!munmap(map, n * SMALL), "munmap: %s", strerror(errno));
	}
}

RUN_BEHAVIOURS
