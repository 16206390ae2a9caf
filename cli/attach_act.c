// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * hugemap attach: read ahead for another process through process_madvise(2). This call refuses
 * advice about page faults (MADV_RANDOM, MADV_HUGEPAGE), so the command only reports such advice.
 * The call accepts MADV_COLLAPSE, but the command does not use it: on a file system without large
 * folios, the next open() for writing drops the page cache of a file that has collapsed pages.
 */
#include "attach_act.h"
#include "attach_state.h"
#include "call.h"
#include "uapi.h"

#include <stdio.h>
#include <string.h>
#include <sys/uio.h>

#define VECTORS 128u

static long act_will_need(const struct attach *attach, const struct iovec *vec, size_t n)
{
	return call(SYS_process_madvise, attach->pidfd, (long)vec, (long)n, MADV_WILLNEED, 0, 0);
}

int attach_try(const struct attach *attach, char why[256])
{
	static char nothing;
	/* A request for 0 bytes only checks the permission. */
	struct iovec vec = { .iov_base = &nothing };
	int err = (int)act_will_need(attach, &vec, 1);

	if (err >= 0)
		return 0;
	if (err == -EPERM || err == -EACCES)
		snprintf(why, 256,
			 "to advise another process takes CAP_SYS_NICE: `sudo hugemap attach %d`; "
			 "--dry-run only watches",
			 attach->pid);
	else if (err == -ENOSYS || err == -EINVAL)
		snprintf(why, 256,
			 "to read ahead for another process takes Linux 5.15 or newer, without a "
			 "filter of process_madvise(2); --dry-run only watches");
	else
		snprintf(why, 256, "process %d cannot be advised: %s", attach->pid, strerror(-err));
	return err;
}

/* --- carrying out --- */

static struct iovec act_range(const struct watched *map, uint64_t start, uint64_t end)
{
	return (struct iovec){
		.iov_base = (void *)(uintptr_t)(map->base + start * PAGE_BYTES),
		.iov_len = (end - start) * PAGE_BYTES,
	};
}

static void act_read_ahead(const struct attach *attach, struct watched *map,
			   const struct iovec *vec, size_t n)
{
	long bytes = act_will_need(attach, vec, n);

	if (bytes <= 0)
		return; /* not mapped any more, or beyond the end of the file */
	map->ahead_calls++;
	map->ahead_bytes += (uint64_t)bytes;
}

static void act_read_range(const struct attach *attach, struct watched *map, uint64_t start,
			   uint64_t end)
{
	while (start < end) {
		uint64_t to = start + hm_advisor_piece(&map->advisor);
		struct iovec vec;

		to = to < end ? to : end;
		vec = act_range(map, start, to);
		act_read_ahead(attach, map, &vec, 1);
		start = to;
	}
}

static void act_read_pages(const struct attach *attach, struct watched *map,
			   const struct hm_advice *advice, uint64_t step)
{
	struct iovec vec[VECTORS];
	uint64_t page = advice->start;

	while (page < advice->end) {
		size_t n = 0;

		for (; page < advice->end && n < VECTORS; page += step)
			vec[n++] = act_range(map, page, page + 1);
		act_read_ahead(attach, map, vec, n);
	}
}

/*
 * MADV_WILLNEED reads pages of 4 KB. If Linux reads the mapping in huge pages, this advice would
 * replace each huge page by 512 small ones, with a fault for each 16 of them.
 */
void attach_advise(const struct attach *attach, struct watched *map)
{
	uint32_t i;

	for (i = 0; i < map->advisor.count; i++) {
		const struct hm_advice *advice = &map->advisor.advice[i];
		uint64_t step = (uint64_t)(advice->step > 0 ? advice->step : -advice->step);

		if (advice->kind == HM_ADVICE_AHEAD && step > 1)
			act_read_pages(attach, map, advice, step);
		else if (advice->kind == HM_ADVICE_AHEAD && !map->in_huge)
			act_read_range(attach, map, advice->start, advice->end);
	}
}
