// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * PAGEMAP_SCAN reports which pages were written since the last scan, for programs that
 * checkpoint others. It write-protects the pages by userfaultfd in asynchronous mode.
 *
 * vm: page=2M,4K,auto lower=ext4 since=6.12
 */
#include "common.h"

#include <linux/userfaultfd.h>
#include <sys/ioctl.h>

#include "../../../steer/uapi.h"

#ifndef UFFD_FEATURE_WP_ASYNC
#define UFFD_FEATURE_WP_ASYNC (1 << 15)
#endif

#define REGIONS 64u

/* Counts the written pages. The flag PM_SCAN_WP_MATCHING protects them again. */
static uint64_t count_written(unsigned char *map, size_t len, uint64_t flags)
{
	struct page_region regions[REGIONS];
	struct pm_scan_arg scan = {
		.size = sizeof(scan),
		.flags = flags,
		.start = (uintptr_t)map,
		.end = (uintptr_t)map + len,
		.vec = (uintptr_t)regions,
		.vec_len = REGIONS,
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
		bytes += regions[i].end - regions[i].start;
	close(fd);
	return bytes / SMALL;
}

static void track_writes(unsigned char *map, size_t len)
{
	struct uffdio_api api = { .api = UFFD_API, .features = UFFD_FEATURE_WP_ASYNC };
	struct uffdio_register reg = {
		.range = { .start = (uintptr_t)map, .len = len },
		.mode = UFFDIO_REGISTER_MODE_WP,
	};
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);

	if (fd < 0 || ioctl(fd, UFFDIO_API, &api))
		skip("this kernel has no asynchronous write protection: %s", strerror(errno));
	if (ioctl(fd, UFFDIO_REGISTER, &reg))
		skip("this kernel does not write-protect file mappings: %s", strerror(errno));
}

BEHAVIOUR(pagemap_scan_reports_stores)
{
	int fd = make_file("f", 1, 2 * HUGE);
	unsigned char *map = map_shared(fd, 0, 2 * HUGE);
	unsigned int round;
	uint64_t n;

	MUST(fsync(fd));
	track_writes(map, 2 * HUGE);
	for (round = 0; round < 3; round++) {
		expect_pattern("load", map, 1, 0, 2 * HUGE);
		count_written(map, 2 * HUGE, PM_SCAN_WP_MATCHING | PM_SCAN_CHECK_WPASYNC);
		n = count_written(map, 2 * HUGE, 0);
		EXPECT(!n, "%llu pages are reported written before the store",
		       (unsigned long long)n);
		pattern(map + 5 * SMALL, 1, 5 * SMALL, 100);
		n = count_written(map, HUGE, 0);
		EXPECT(n > 0, "the store of round %u is not reported", round);
		n = count_written(map + HUGE, HUGE, 0);
		EXPECT(!n, "%llu pages of the other block are reported written",
		       (unsigned long long)n);
		/* Clean but still mapped: the next store takes the write-protect fault only. */
		MUST(msync(map, 2 * HUGE, MS_SYNC));
	}
}

RUN_BEHAVIOURS
