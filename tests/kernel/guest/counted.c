// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Linux splits a huge folio that it is told is cold in part, and drops one that is clean,
 * when nobody has it but its page cache and who asks: it counts references. Here they are
 * made as many as it could take for that, by pages in pipes and by mappings of 4 KB.
 *
 * vm: page=auto lower=ext4 pool=64M timeout=180
 */
#include "common.h"

#include <sys/uio.h>

#ifndef MADV_COLD
#define MADV_COLD 20
#endif

#define PIPE_PAGES 256u /* what anybody may have in a pipe of 1 MB */
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

/* @n references, a page each. */
static void hold(unsigned char *map, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++) {
		struct iovec page = { map + (size_t)(i % 512) * SMALL, SMALL };

		EXPECT(vmsplice(pipes[i / PIPE_PAGES][1], &page, 1, 0) == SMALL,
		       "vmsplice of page %u: %s", i, strerror(errno));
	}
}

static void let_go(unsigned int n)
{
	static unsigned char page[SMALL];
	unsigned int i;

	for (i = 0; i < n; i++)
		EXPECT(read(pipes[i / PIPE_PAGES][0], page, SMALL) == SMALL, "read of a pipe: %s",
		       strerror(errno));
}

BEHAVIOUR(cold_in_part)
{
	int fd = make_file("f", 1, 2 * HUGE);
	unsigned char *map = map_shared(fd, 0, 2 * HUGE);
	unsigned int n;

	make_pipes();
	for (n = 512 - AROUND; n < 512 + AROUND; n++) {
		expect_pattern("what is mapped", map, 1, 0, HUGE);
		hold(map, n);
		EXPECT(!madvise(map, SMALL, MADV_COLD) || errno == EINVAL, "madvise: %s",
		       strerror(errno));
		expect_pattern("what was held", map, 1, 0, HUGE);
		let_go(n);
	}
	pattern(map, 2, 0, HUGE);
	EXPECT(!msync(map, HUGE, MS_SYNC), "msync: %s", strerror(errno));
	read_pattern("what was stored", fd, 2, 0, HUGE);
}

/* Mapped by @n PTEs, at addresses where no PMD fits. */
BEHAVIOUR(dropped)
{
	int fd = make_file("g", 3, 2 * HUGE), drop = open("/proc/sys/vm/drop_caches", O_WRONLY);
	unsigned int n, i;

	EXPECT(drop >= 0, "drop_caches: %s", strerror(errno));
	for (n = 512 - AROUND; n < 512; n++) {
		unsigned char *at =
			mmap(NULL, 2 * HUGE + SMALL, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		unsigned char *map =
			(unsigned char *)(((uintptr_t)at + HUGE - 1) & ~(HUGE - 1ul)) + SMALL;

		EXPECT(at != MAP_FAILED, "mmap: %s", strerror(errno));
		map = mmap(map, n * SMALL, PROT_READ, MAP_SHARED | MAP_FIXED, fd,
			   (512 - n) * SMALL);
		EXPECT(map != MAP_FAILED, "mmap of the file: %s", strerror(errno));
		for (i = 0; i < n; i++)
			(void)*(volatile unsigned char *)(map + i * SMALL);
		EXPECT(write(drop, "1", 1) == 1, "drop_caches: %s", strerror(errno));
		expect_pattern("what is mapped", map, 3, (512 - n) * SMALL, n * SMALL);
		EXPECT(!munmap(at, 2 * HUGE + SMALL), "munmap: %s", strerror(errno));
	}
	close(drop);
}

RUN_BEHAVIOURS
