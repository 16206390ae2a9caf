// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * hugemap attach: scan the page tables of another process, as the monitor thread of `hugemap run`
 * scans its own.
 *
 * Scans may take 1 % of a processor (pace.h). The page tables are scanned only after page faults.
 * Pages that are mapped when the watching begins do not count as newly mapped.
 */
#include "attach_watch.h"
#include "attach_act.h"
#include "attach_state.h"
#include "call.h"
#include "cli.h"
#include "device.h"
#include "globs.h"
#include "look.h"
#include "memory.h"
#include "pace.h"
#include "system.h"
#include "uapi.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define RESCAN_NS (1000 * MS)
/* Advice for a whole mapping changes smaps, but not maps, so smaps is read now and then. */
#define HINTS_NS (5000 * MS)
#define USAGE_NS (250 * MS)
#define MEMORY_NS (5000 * MS)
/* Rates are over the last one or two of these. */
#define RECENT_SECONDS 1.0
/* Advice begins after this time, so that the time before it can be compared. */
#define LEARN_SECONDS 1.0
#define QUIET_SECONDS 5.0

struct attach_private {
	struct looker looker;
	struct hm_touch runs[LOOK_RUNS];
	struct hm_advice advices[HM_ADVICES]; /* shared by all mappings */
	uint64_t buffer[LOOK_BYTES / 8];
	struct pace pace;
	int stat;
	bool lost; /* the process has called exec(): this pagemap is stale */
	uint64_t begin, last, faulted;
	uint64_t faults;
	uint64_t rescan_at, hints_at, usage_at, memory_at;
	struct hm_shared shared;
	uint64_t cpu; /* CPU time of this thread at the last step, without .act_ns */
	uint64_t act_ns; /* CPU time of advice, which does not count as time of scans */
};

static uint64_t watch_cpu_ns(void)
{
	return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

static double watch_seconds(const struct attach *attach)
{
	return (double)(attach->private->last - attach->private->begin) / 1e9;
}

/* --- counters of the process --- */

static bool watch_read_faults(struct attach *attach)
{
	unsigned long long minor, major;
	char text[512], *at;
	ssize_t n = pread(attach->private->stat, text, sizeof(text) - 1, 0);

	if (n <= 0)
		return false;
	text[n] = '\0';
	/* The name of the program is in parentheses and may contain any character. */
	at = strrchr(text, ')');
	if (!at ||
	    sscanf(at + 1, " %*c %*d %*d %*d %*d %*d %*u %llu %*u %llu", &minor, &major) != 2)
		return false;
	attach->now.minor = minor;
	attach->now.major = major;
	return true;
}

static void watch_read_usage(struct attach *attach)
{
	unsigned long long bytes;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/io", attach->pid);
	if (read_field(path, "read_bytes:", &bytes))
		attach->now.read_bytes = bytes;
	/* exec() changes the name. */
	snprintf(path, sizeof(path), "/proc/%d/comm", attach->pid);
	read_line(path, attach->name, sizeof(attach->name));
	attach->now.at = watch_seconds(attach);
	if (attach->now.at >= attach->latest.at + RECENT_SECONDS) {
		attach->recent = attach->latest;
		attach->latest = attach->now;
	}
}

/* --- mappings --- */

static void watch_free_map(struct watched *map)
{
	free(map->area.path);
	free(map->seen);
	free(map->regions);
	free(map);
}

/* Free the memory for scans, but keep the results for the summary. */
static void watch_end_map(struct watched *map)
{
	map->ended = true;
	free(map->seen);
	free(map->regions);
	map->seen = NULL;
	map->regions = NULL;
}

static void watch_remove_map(struct attach *attach, size_t i)
{
	watch_free_map(attach->maps[i]);
	attach->maps[i] = attach->maps[--attach->count];
}

/* A mapping was unmapped: keep it for the summary if it was used. */
static void watch_unmapped(struct attach *attach, size_t i)
{
	if (!attach->maps[i]->touched)
		watch_remove_map(attach, i);
	else if (!attach->maps[i]->ended)
		watch_end_map(attach->maps[i]);
}

/* Remove the ended mapping in which the fewest pages were newly mapped. */
static bool watch_make_room(struct attach *attach)
{
	size_t i, found = ATTACH_MAPS;

	for (i = 0; i < attach->count; i++)
		if (attach->maps[i]->ended &&
		    (found == ATTACH_MAPS ||
		     attach->maps[i]->touched < attach->maps[found]->touched))
			found = i;
	if (found == ATTACH_MAPS)
		return false;
	watch_remove_map(attach, found);
	return true;
}

static void watch_begin_policy(struct attach *attach, struct watched *map)
{
	uint64_t end = (map->area.end - map->base) / PAGE_BYTES;

	map->advisor = (struct hm_advisor){
		.facts.writable = map->area.writable && map->area.shared,
		.facts.outside = true,
		.facts.window = map->read_ahead_kb * 1024 / PAGE_BYTES,
	};
	memset(map->regions, 0, (end / REGION_PAGES + 1) * sizeof(*map->regions));
	hm_advisor_init(&map->advisor, (map->area.start - map->base) / PAGE_BYTES, end,
			map->regions, attach->private->advices);
}

static void watch_set_huge(struct watched *map, uint64_t huge)
{
	uint64_t column[PICTURE_COLUMNS];

	map->huge = huge;
	map->in_huge = huge && huge > watched_resident(map, column) * PAGE_BYTES / 2;
}

/* Mark the pages that are mapped already as seen. */
static void watch_first_scan(struct attach *attach, struct watched *map)
{
	struct attach_private *p = attach->private;
	uint64_t at = map->area.start, huge = 0;
	uint32_t n;

	do {
		n = 0;
		at = look(&p->looker, at, map->area.end, map->base, map->seen, p->runs, &n, &huge);
	} while (at && at < map->area.end);
	watch_set_huge(map, huge);
}

static void watch_begin_map(struct attach *attach, struct area *area)
{
	uint64_t pages;
	struct watched *map;

	if (attach->count == ATTACH_MAPS && !watch_make_room(attach)) {
		attach->missed++;
		return;
	}
	map = calloc(1, sizeof(*map));
	if (!map)
		return;
	map->area = *area;
	area->path = NULL; /* map->area owns it now */
	map->base = map->area.start - map->area.start % REGION_BYTES;
	pages = (map->area.end - map->base) / PAGE_BYTES;
	map->seen = calloc(pages / 64 + 1, sizeof(uint64_t));
	map->regions = calloc(pages / REGION_PAGES + 1, sizeof(*map->regions));
	if (!map->seen || !map->regions) {
		watch_free_map(map);
		return;
	}
	map->read_ahead_kb = device_read_ahead_kb(map->area.dev);
	watch_begin_policy(attach, map);
	picture_begin(&map->picture, map->advisor.end - map->advisor.first);
	map->full_faults = attach->now.minor + attach->now.major;
	watch_first_scan(attach, map);
	attach->maps[attach->count++] = map;
}

static bool watch_is_same(const struct area *a, const struct area *b)
{
	return a->start == b->start && a->end == b->end && a->offset == b->offset &&
	       a->dev == b->dev && a->ino == b->ino && a->shared == b->shared;
}

static struct area *watch_find(struct areas *areas, const struct area *area)
{
	size_t i;

	for (i = 0; i < areas->count; i++)
		if (areas->list[i].path && watch_is_same(&areas->list[i], area))
			return &areas->list[i];
	return NULL;
}

/* Remove mappings that have ended. Returns true if @areas has new ones. */
static bool watch_compare(struct attach *attach, struct areas *areas, bool hints)
{
	bool more = false;
	size_t i;

	for (i = attach->count; i-- > 0;) {
		struct watched *map = attach->maps[i];
		struct area *area = map->ended ? NULL : watch_find(areas, &map->area);

		if (map->ended)
			continue;
		if (!area) {
			watch_unmapped(attach, i);
			continue;
		}
		map->area.writable = area->writable;
		if (hints)
			map->area.hints = area->hints;
		free(area->path);
		area->path = NULL;
	}
	for (i = 0; i < areas->count; i++)
		more |= !!areas->list[i].path;
	return more;
}

/*
 * Read the maps of files that the settings select. The path of each other area becomes NULL,
 * as watch_compare() does for known mappings.
 */
static int watch_read_areas(const struct attach *attach, bool hints, struct areas *areas)
{
	const struct attach_settings *settings = &attach->settings;
	int err = areas_read(attach->pid, settings->min_size, hints, areas);
	size_t i;

	for (i = 0; i < areas->count; i++) {
		struct area *area = &areas->list[i];

		if (globs_select(settings->include, settings->exclude, area->path))
			continue;
		free(area->path);
		area->path = NULL;
	}
	return err;
}

static void watch_read_maps(struct attach *attach, uint64_t now)
{
	struct attach_private *p = attach->private;
	uint64_t begin = watch_cpu_ns(), cost;
	bool hints = now >= p->hints_at;
	struct areas areas;
	size_t i;

	if (watch_read_areas(attach, hints, &areas)) {
		areas_free(&areas);
		p->rescan_at = now + RESCAN_NS;
		return;
	}
	/* Before a new mapping is advised, the program's own advice must be known: read smaps. */
	if (watch_compare(attach, &areas, hints) && !hints) {
		areas_free(&areas);
		if (watch_read_areas(attach, true, &areas) == 0)
			watch_compare(attach, &areas, true);
		hints = true;
	}
	for (i = 0; i < areas.count; i++)
		if (areas.list[i].path)
			watch_begin_map(attach, &areas.list[i]);
	attach->steered |= areas.steered;
	areas_free(&areas);
	cost = watch_cpu_ns() - begin;
	p->rescan_at = now + (cost * PACE_SHARE > RESCAN_NS ? cost * PACE_SHARE : RESCAN_NS);
	if (hints)
		p->hints_at = now + (cost * PACE_SHARE > HINTS_NS ? cost * PACE_SHARE : HINTS_NS);
}

static int watch_open_pagemap(struct attach *attach)
{
	struct attach_private *p = attach->private;
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/pagemap", attach->pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	looker_open(&p->looker, fd, p->buffer);
	return 0;
}

/* After exec() the open pagemap belongs to the old address space, and reads return 0 bytes. */
static bool watch_has_called_exec(const struct attach_private *p)
{
	uint64_t entry;

	return p->looker.fd >= 0 && pread(p->looker.fd, &entry, sizeof(entry), 0) == 0;
}

/* The process has called exec(): end all mappings and open the new pagemap. */
static void watch_restart(struct attach *attach)
{
	struct attach_private *p = attach->private;
	size_t i;

	for (i = attach->count; i-- > 0;)
		watch_unmapped(attach, i);
	close(p->looker.fd);
	p->looker.fd = -1;
	p->lost = false;
	p->hints_at = 0;
	watch_open_pagemap(attach);
}

/* --- one scan --- */

/* The current row of the picture shows all pages that became mapped up to now. */
static void watch_sample(struct attach *attach, struct watched *map)
{
	uint64_t column[PICTURE_COLUMNS];

	picture_advance(&map->picture, watch_seconds(attach));
	if (map->picture.sampled[map->picture.rows - 1])
		return;
	watched_resident(map, column);
	picture_sample(&map->picture, column);
}

static void watch_new_pages(struct attach *attach, struct watched *map, uint32_t n)
{
	struct attach_private *p = attach->private;
	uint64_t begin;
	uint32_t i;

	p->pace.fruitless = 0;
	if (attach->first.at < 0) {
		attach->first = attach->now;
		attach->first.at = watch_seconds(attach);
	}
	picture_advance(&map->picture, watch_seconds(attach));
	for (i = 0; i < n; i++) {
		uint64_t pages = p->runs[i].end - p->runs[i].start;

		map->touched += pages;
		attach->now.touched += pages;
		picture_touch(&map->picture, p->runs[i].start - map->advisor.first,
			      p->runs[i].end - map->advisor.first);
	}
	map->advisor.facts.memory = attach->memory / PAGE_BYTES;
	map->advisor.facts.shared = p->shared;
	hm_advisor_look(&map->advisor, p->runs, n, p->last / MS);
	map->scans[map->advisor.pattern]++;
	if (attach->advising && !map->area.hints) {
		begin = watch_cpu_ns();
		attach_advise(attach, map);
		p->act_ns += watch_cpu_ns() - begin;
	}
}

static void watch_scan_map(struct attach *attach, struct watched *map)
{
	struct attach_private *p = attach->private;
	struct hm_touch window[HM_TRACKS];
	uint32_t n = 0, count = look_windows(&map->advisor, window), i;
	uint64_t at = map->area.start, huge = 0, begin;

	for (i = 0; i < count; i++)
		look(&p->looker, map->base + window[i].start * PAGE_BYTES,
		     map->base + window[i].end * PAGE_BYTES, map->base, map->seen, p->runs, &n,
		     &huge);
	if (n)
		watch_new_pages(attach, map, n);
	if (p->last < map->full_at)
		return;
	begin = watch_cpu_ns() - p->act_ns;
	huge = 0;
	do {
		n = 0;
		at = look(&p->looker, at, map->area.end, map->base, map->seen, p->runs, &n, &huge);
		if (n)
			watch_new_pages(attach, map, n);
	} while (at && at < map->area.end);
	p->lost |= !at;
	if (at) /* the process still has its page tables */
		watch_set_huge(map, huge);
	map->full_faults = p->faults;
	watch_sample(attach, map);
	map->full_ns = watch_cpu_ns() - p->act_ns - begin;
}

static void watch_scan_all(struct attach *attach)
{
	struct attach_private *p = attach->private;
	struct hm_shared shared = {};
	size_t i;

	for (i = 0; i < attach->count; i++) {
		struct watched *map = attach->maps[i];

		if (map->ended)
			continue;
		hm_advisor_share(&map->advisor, p->last / MS, &shared);
		watch_scan_map(attach, map);
		/* A scan that uses up the credit must not be repeated before it is paid back. */
		if (map->full_ns > PACE_LEAST_NS / PACE_SHARE &&
		    p->pace.credit_ns < (int64_t)map->full_ns)
			map->full_at = p->last + map->full_ns * PACE_SHARE;
	}
	p->shared = shared;
}

/* --- life of a watched process --- */

/* Restart the policy: it assumes that its advice so far was carried out, but it was not. */
static void watch_begin_advice(struct attach *attach)
{
	size_t i;

	watch_read_usage(attach);
	attach->advised = attach->now;
	attach->advising = true;
	for (i = 0; i < attach->count; i++)
		if (!attach->maps[i]->ended)
			watch_begin_policy(attach, attach->maps[i]);
}

/* Without a page fault since its last scan, nothing became mapped: the row is complete. */
static void watch_draw(struct attach *attach, struct watched *map)
{
	if (map->full_faults == attach->now.minor + attach->now.major)
		watch_sample(attach, map);
	else
		picture_advance(&map->picture, watch_seconds(attach));
}

static void watch_periodic_work(struct attach *attach, uint64_t now)
{
	struct attach_private *p = attach->private;
	char path[64];
	size_t i;

	if (now >= p->memory_at) {
		snprintf(path, sizeof(path), "/proc/%d/cgroup", attach->pid);
		attach->memory = memory_for_cache_of(path);
		p->memory_at = now + MEMORY_NS;
	}
	if (p->lost || (now >= p->rescan_at && watch_has_called_exec(p)))
		watch_restart(attach);
	if (now >= p->rescan_at || !p->hints_at)
		watch_read_maps(attach, now);
	if (now >= p->usage_at) {
		watch_read_usage(attach);
		for (i = 0; i < attach->count; i++)
			if (!attach->maps[i]->ended)
				watch_draw(attach, attach->maps[i]);
		p->usage_at = now + USAGE_NS;
	}
	if (attach->settings.advise && !attach->advising &&
	    watch_seconds(attach) >=
		    (attach->first.at < 0 ? QUIET_SECONDS : attach->first.at + LEARN_SECONDS))
		watch_begin_advice(attach);
}

static bool watch_scan_if_faults(struct attach *attach, uint64_t now)
{
	struct attach_private *p = attach->private;
	uint64_t faults;

	watch_periodic_work(attach, now);
	faults = attach->now.minor + attach->now.major;
	if (faults == p->faults)
		return false;
	p->faults = faults;
	p->faulted = now;
	p->pace.fruitless++;
	watch_scan_all(attach);
	return true;
}

uint64_t attach_step(struct attach *attach)
{
	struct attach_private *p = attach->private;
	uint64_t now = now_ns(), cpu = watch_cpu_ns() - p->act_ns, wait;
	bool busy;

	/* Charge everything since the last step, including wakeups and drawing. */
	pace_earn(&p->pace, now - p->last);
	pace_spend(&p->pace, cpu - p->cpu);
	attach->watch_ns += cpu - p->cpu;
	p->cpu = cpu;
	p->last = now;
	busy = watch_read_faults(attach) && watch_scan_if_faults(attach, now);
	wait = pace_wait_ns(&p->pace, 1);
	if (!busy && wait < pace_idle_ns(now - p->faulted))
		wait = pace_idle_ns(now - p->faulted);
	return wait;
}

void attach_finish(struct attach *attach)
{
	size_t i;

	attach->private->last = now_ns();
	/*
	 * Scan each mapping, so that the last row of its picture is sampled: even if the scan is
	 * not paid for, and even without a page fault since the last scan.
	 */
	attach->private->faults = UINT64_MAX;
	for (i = 0; i < attach->count; i++)
		attach->maps[i]->full_at = 0;
	if (watch_read_faults(attach))
		watch_scan_if_faults(attach, attach->private->last);
	watch_read_usage(attach);
}

static int watch_refuse(char why[256], int err, pid_t pid)
{
	if (err == -ESRCH)
		snprintf(why, 256, "there is no process %d", pid);
	else if (err == -EACCES || err == -EPERM)
		snprintf(why, 256,
			 "process %d is another user's, or has more rights than you: try "
			 "`sudo hugemap attach`",
			 pid);
	else
		snprintf(why, 256, "process %d cannot be watched: %s", pid, strerror(-err));
	return err;
}

static int watch_open_process(struct attach *attach, char why[256])
{
	struct attach_private *p = attach->private;
	char path[64];
	int err;

	attach->pidfd = (int)call(SYS_pidfd_open, attach->pid, 0, 0, 0, 0, 0);
	if (attach->pidfd == -EINVAL || attach->pidfd == -ENOENT) {
		snprintf(why, 256, "%d is a thread: give the number of its process", attach->pid);
		return -EINVAL;
	}
	if (attach->pidfd < 0)
		return watch_refuse(why, attach->pidfd, attach->pid);
	snprintf(path, sizeof(path), "/proc/%d/stat", attach->pid);
	p->stat = open(path, O_RDONLY | O_CLOEXEC);
	err = p->stat < 0 ? -errno : watch_open_pagemap(attach);
	return err ? watch_refuse(why, err == -ENOENT ? -ESRCH : err, attach->pid) : 0;
}

int attach_open(pid_t pid, const struct attach_settings *settings, struct attach *attach,
		char why[256])
{
	struct attach_private *p = calloc(1, sizeof(*p));
	struct areas areas;
	int err;

	*attach = (struct attach){ .settings = *settings, .pid = pid, .pidfd = -1, .private = p };
	if (!p)
		return watch_refuse(why, -ENOMEM, pid);
	p->stat = p->looker.fd = -1;
	p->cpu = watch_cpu_ns();
	p->begin = p->last = p->faulted = now_ns();
	attach->first.at = -1;
	err = watch_open_process(attach, why);
	if (err)
		return err;
	/* This reading only checks the permission. */
	err = areas_read(pid, settings->min_size, false, &areas);
	attach->steered = areas.steered;
	areas_free(&areas);
	if (err)
		return watch_refuse(why, err, pid);
	if (settings->advise) {
		err = attach_try(attach, why);
		if (err)
			return err;
	}
	watch_read_faults(attach);
	p->faults = attach->now.minor + attach->now.major;
	watch_periodic_work(attach, p->last);
	attach->begin = attach->recent = attach->latest = attach->now;
	return 0;
}

void attach_close(struct attach *attach)
{
	struct attach_private *p = attach->private;

	while (attach->count)
		watch_remove_map(attach, attach->count - 1);
	if (attach->pidfd >= 0)
		close(attach->pidfd);
	if (p && p->stat >= 0)
		close(p->stat);
	if (p && p->looker.fd >= 0)
		close(p->looker.fd);
	free(p);
}
