// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * hugemap attach: what helps, by process_madvise(2). It takes four kinds of advice on
 * another process: what a fault shall read is not among them, so advice on that is only
 * told of. As in steer/act.c nothing here can be told from the data or the file.
 */
#include "attach.h"
#include "call.h"
#include "uapi.h"

#include <string.h>
#include <sys/uio.h>

#define VECTORS 128u

static long advise(const struct attach *attach, const struct iovec *vec, size_t n, int advice)
{
	return call(SYS_process_madvise, attach->pidfd, (long)vec, (long)n, advice, 0, 0);
}

int attach_try(const struct attach *attach, char why[256])
{
	static char nothing;
	/* No bytes: rights are asked for, and nothing is done. */
	struct iovec vec = { .iov_base = &nothing };
	int err = (int)advise(attach, &vec, 1, MADV_WILLNEED);

	if (err >= 0)
		return 0;
	if (err == -EPERM || err == -EACCES)
		snprintf(why, 256,
			 "to advise another process takes CAP_SYS_NICE: `sudo hugemap attach %d`; "
			 "--dry-run does without",
			 attach->pid);
	else if (err == -ENOSYS)
		snprintf(why, 256,
			 "this system has no process_madvise(2), as Linux 5.10 has; --dry-run does "
			 "without");
	else if (err == -EINVAL)
		snprintf(why, 256,
			 "this kernel takes no MADV_WILLNEED for another process, as Linux 5.13 "
			 "does; --dry-run does without");
	else
		snprintf(why, 256, "process %d cannot be advised: %s", attach->pid, strerror(-err));
	return err;
}

/* --- carrying out --- */

static struct iovec piece(const struct watched *map, uint64_t start, uint64_t end)
{
	return (struct iovec){
		.iov_base = (void *)(uintptr_t)(map->base + start * PAGE_BYTES),
		.iov_len = (end - start) * PAGE_BYTES,
	};
}

static void give(const struct attach *attach, struct watched *map, const struct iovec *vec,
		 size_t n, int advice, enum help help)
{
	long bytes = advise(attach, vec, n, advice);

	if (bytes <= 0)
		return; /* it is not mapped any more, or ends before that */
	map->count[help]++;
	map->bytes[help] += (uint64_t)bytes;
}

static void read_range(const struct attach *attach, struct watched *map, uint64_t start,
		       uint64_t end)
{
	while (start < end) {
		uint64_t to = start + hm_advisor_piece(&map->advisor);
		struct iovec vec;

		to = to < end ? to : end;
		vec = piece(map, start, to);
		give(attach, map, &vec, 1, MADV_WILLNEED, HELP_AHEAD);
		start = to;
	}
}

static void read_pages(const struct attach *attach, struct watched *map,
		       const struct hm_advice *advice, uint64_t step)
{
	struct iovec vec[VECTORS];
	uint64_t page = advice->start;

	while (page < advice->end) {
		size_t n = 0;

		for (; page < advice->end && n < VECTORS; page += step)
			vec[n++] = piece(map, page, page + 1);
		give(attach, map, vec, n, MADV_WILLNEED, HELP_AHEAD);
	}
}

void attach_advise(const struct attach *attach, struct watched *map)
{
	uint32_t i;

	for (i = 0; i < map->advisor.count; i++) {
		const struct hm_advice *advice = &map->advisor.advice[i];
		uint64_t step = (uint64_t)(advice->step > 0 ? advice->step : -advice->step);

		if (advice->kind == HM_ADVICE_AHEAD && step > 1)
			read_pages(attach, map, advice, step);
		else if (advice->kind == HM_ADVICE_AHEAD)
			read_range(attach, map, advice->start, advice->end);
	}
}
