// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "count.h"
#include "content.h"
#include "engine.h"

#include <linux/perf_event.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FAULTED (4 * MB)

bool cost_faults(void)
{
	char *at = mmap(NULL, FAULTED, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t sum;
	size_t i;

	if (at == MAP_FAILED)
		return false;
	for (i = 0; i < FAULTED; i += CONTENT_PAGE)
		at[i] = 1;
	sum = sum_words(at, FAULTED);
	__asm__ volatile("" : : "r"(sum) : "memory");
	return munmap(at, FAULTED) == 0;
}

int counter_open(void)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = PERF_TYPE_HARDWARE,
		.config = PERF_COUNT_HW_INSTRUCTIONS,
		.inherit = 1,
		.exclude_hv = 1,
	};
	int fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);

	if (fd >= 0)
		return fd;
	/* Without the right to count in the kernel, count in user space only. */
	attr.exclude_kernel = 1;
	return (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

uint64_t counter_read(int fd)
{
	uint64_t count = 0;

	if (fd < 0 || read(fd, &count, sizeof(count)) != sizeof(count))
		return 0;
	return count;
}
