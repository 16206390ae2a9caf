// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Which pages were stored to since a while, as PAGEMAP_SCAN tells programs that
 * checkpoint others: pages that are write-protected for it are seen when they change.
 *
 * vm: page=2M,4K,auto lower=ext4
 */
#include "common.h"

#include <linux/userfaultfd.h>
#include <sys/ioctl.h>

#include "../../../steer/uapi.h"

#ifndef UFFD_FEATURE_WP_ASYNC
#define UFFD_FEATURE_WP_ASYNC (1 << 15)
#endif

#define PARTS 64u

/* Pages of a range that were stored to; with PM_SCAN_WP_MATCHING they are protected again. */
static uint64_t written(unsigned char *map, size_t len, uint64_t flags)
{
	struct page_region parts[PARTS];
	struct pm_scan_arg scan = {
		.size = sizeof(scan),
		.flags = flags,
		.start = (uintptr_t)map,
		.end = (uintptr_t)map + len,
		.vec = (uintptr_t)parts,
		.vec_len = PARTS,
		.category_mask = PAGE_IS_WRITTEN,
		.return_mask = PAGE_IS_WRITTEN,
	};
	int fd = open_file("/proc/self/pagemap", O_RDONLY), n, i;
	uint64_t bytes = 0;

	n = ioctl(fd, PAGEMAP_SCAN, &scan);
	if (n < 0 && (errno == ENOTTY || errno == EINVAL))
		skip("this kernel has no PAGEMAP_SCAN");
	EXPECT(n >= 0, "PAGEMAP_SCAN: %s", strerror(errno));
	for (i = 0; i < n; i++)
		bytes += parts[i].end - parts[i].start;
	close(fd);
	return bytes / SMALL;
}

static void watch(unsigned char *map, size_t len)
{
	struct uffdio_api api = { .api = UFFD_API, .features = UFFD_FEATURE_WP_ASYNC };
	struct uffdio_register reg = {
		.range = { .start = (uintptr_t)map, .len = len },
		.mode = UFFDIO_REGISTER_MODE_WP,
	};
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);

	if (fd < 0 || ioctl(fd, UFFDIO_API, &api))
		skip("this kernel does not protect without asking: %s", strerror(errno));
	if (ioctl(fd, UFFDIO_REGISTER, &reg))
		skip("it does not watch files: %s", strerror(errno));
}

BEHAVIOUR(stores_are_seen)
{
	int fd = make_file("f", 1, 2 * HUGE);
	unsigned char *map = map_shared(fd, 0, 2 * HUGE);
	unsigned int round;
	uint64_t n;

	MUST(fsync(fd));
	watch(map, 2 * HUGE);
	for (round = 0; round < 3; round++) {
		expect_pattern("load", map, 1, 0, 2 * HUGE);
		written(map, 2 * HUGE, PM_SCAN_WP_MATCHING | PM_SCAN_CHECK_WPASYNC);
		n = written(map, 2 * HUGE, 0);
		EXPECT(!n, "%llu pages were stored to, before any was", (unsigned long long)n);
		pattern(map + 5 * SMALL, 1, 5 * SMALL, 100);
		n = written(map, HUGE, 0);
		EXPECT(n > 0, "a store was not seen, in round %u", round);
		n = written(map + HUGE, HUGE, 0);
		EXPECT(!n, "%llu pages of another block were stored to", (unsigned long long)n);
		/* Clean, but mapped: the next store is allowed in place, if at all. */
		MUST(msync(map, 2 * HUGE, MS_SYNC));
	}
}

RUN_BEHAVIOURS
