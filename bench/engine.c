// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "engine.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define HUGE (2 * MB)

const char *const hugemap_page_names[HUGEMAP_PAGES] = {
	[HUGEMAP_PAGE_AUTO] = "auto",
	[HUGEMAP_PAGE_2M] = "2M",
	[HUGEMAP_PAGE_4K] = "4K",
};

void die(struct run *run, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(run->result->error, sizeof(run->result->error), format, args);
	va_end(args);
	_exit(1);
}

void *aligned_space(struct run *run, uint64_t bytes)
{
	char *at = mmap(NULL, bytes + HUGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
			-1, 0);

	if (at == MAP_FAILED)
		die(run, "no address space: %s", strerror(errno));
	return (char *)(((uintptr_t)at + HUGE - 1) & ~(uintptr_t)(HUGE - 1));
}
