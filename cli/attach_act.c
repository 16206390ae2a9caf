// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * hugemap attach: what helps, by process_madvise(2). It takes four kinds of advice on
 * another process: what a fault shall read is not among them, so advice on that is only
 * told of. As in steer/act.c nothing here can be told from the data or the file.
 */
#include "attach.h"
#include "call.h"
#include "uapi.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
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

/* --- who had what cached --- */

/* The file itself, not what lies at its path by now; or -1. */
static int open_file(const struct attach *attach, const struct area *area)
{
	char path[4200], link[40];
	struct stat st;
	int at, fd = -1;

	snprintf(path, sizeof(path), "/proc/%d/root%s", attach->pid, area->path);
	at = open(path, O_PATH | O_CLOEXEC | O_NOFOLLOW);
	if (at < 0)
		return -1;
	if (!fstat(at, &st) && S_ISREG(st.st_mode) && st.st_dev == area->dev &&
	    st.st_ino == area->ino) {
		snprintf(link, sizeof(link), "/proc/self/fd/%d", at);
		fd = open(link, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	}
	close(at);
	return fd;
}

/* Each 64th of the mapping of which pages are cached already is never dropped. */
void attach_settle(const struct attach *attach, struct watched *map)
{
	uint64_t slice = watched_bytes(map) / 64, before = 0;
	struct steer_cachestat_range range;
	struct steer_cachestat stat;
	int fd, i;

	map->before = ~0ull;
	fd = attach->settings.advise ? open_file(attach, &map->area) : -1;
	if (fd < 0)
		return;
	for (i = 0; i < 64; i++) {
		range.off = map->area.offset + (uint64_t)i * slice;
		range.len = i == 63 ? watched_bytes(map) - 63 * slice : slice;
		if (call(SYS_cachestat, fd, (long)&range, (long)&stat, 0, 0, 0) < 0)
			break; /* before Linux 6.5 nobody knows: all is left alone */
		if (stat.nr_cache)
			before |= 1ull << i;
	}
	if (i == 64)
		map->before = before;
	close(fd);
}

/* --- carrying out --- */

static struct iovec piece(const struct watched *map, uint64_t start, uint64_t end)
{
	return (struct iovec){
		.iov_base = (void *)(uintptr_t)(map->base + start * HM_PAGE_SIZE),
		.iov_len = (end - start) * HM_PAGE_SIZE,
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

/* The kernel leaves alone what others have mapped, and what is dirty. */
static void drop(const struct attach *attach, struct watched *map, const struct hm_advice *advice)
{
	uint64_t first = map->advisor.first, pages = map->advisor.end - first;
	uint64_t slice = pages / 64 + 1, page, end;

	for (page = advice->start; page < advice->end; page = end) {
		struct iovec vec;

		end = first + ((page - first) / slice + 1) * slice;
		end = end < advice->end ? end : advice->end;
		/* A slice's edge may lie in its neighbour, by rounding. */
		if ((map->before >> ((page - first) / slice) & 1) ||
		    (map->before >> ((end - 1 - first) * 64 / pages) & 1))
			continue;
		vec = piece(map, page, end);
		give(attach, map, &vec, 1, MADV_PAGEOUT, HELP_DROP);
	}
}

void attach_advise(const struct attach *attach, struct watched *map)
{
	uint32_t i;

	for (i = 0; i < map->advisor.count; i++) {
		const struct hm_advice *advice = &map->advisor.advice[i];
		uint64_t step = (uint64_t)(advice->step > 0 ? advice->step : -advice->step);

		if (advice->kind == HM_ADVICE_DROP)
			drop(attach, map, advice);
		else if (advice->kind == HM_ADVICE_AHEAD && step > 1)
			read_pages(attach, map, advice, step);
		else if (advice->kind == HM_ADVICE_AHEAD)
			read_range(attach, map, advice->start, advice->end);
	}
}

int attach_collapse(const struct attach *attach, struct watched *map, uint64_t page)
{
	struct iovec vec = piece(map, page, page + HM_BLOCK_PAGES);
	long bytes = advise(attach, &vec, 1, MADV_COLLAPSE);

	if (bytes < 0)
		return (int)bytes;
	map->count[HELP_COLLAPSE]++;
	map->bytes[HELP_COLLAPSE] += (uint64_t)bytes;
	return 0;
}
