// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* hugemap_stat(): count the pages that the kernel has mapped, and the advice of steering. */
#include "lib.h"

#include "areas.h"
#include "page.h"

#include <stdlib.h>
#include <string.h>

/*
 * Adjacent areas of one file. Advice for a part of a mapping splits the area that one mmap() made.
 */
struct run {
	struct area first, last;
	uint64_t rss, dirty, huge; /* bytes */
};

static bool stat_run_continues(const struct run *run, const struct area *area)
{
	const struct area *last = &run->last;

	return area->start == last->end && area->ino == last->ino && area->major == last->major &&
	       area->minor == last->minor &&
	       area->offset == last->offset + (last->end - last->start);
}

static void stat_run_add_line(struct run *run, const char *line)
{
	static const struct {
		const char *title;
		size_t field;
	} lines[] = {
		{ "Rss:", offsetof(struct run, rss) },
		{ "Shared_Dirty:", offsetof(struct run, dirty) },
		{ "Private_Dirty:", offsetof(struct run, dirty) },
		{ "AnonHugePages:", offsetof(struct run, huge) },
		{ "ShmemPmdMapped:", offsetof(struct run, huge) },
		{ "FilePmdMapped:", offsetof(struct run, huge) },
	};
	size_t i;

	for (i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		size_t n = strlen(lines[i].title);

		if (!strncmp(line, lines[i].title, n))
			*(uint64_t *)((char *)run + lines[i].field) += strtoull(line + n, NULL, 10)
								       << 10;
	}
}

static bool stat_run_contains(const struct run *run, uintptr_t addr)
{
	return run->first.start <= addr && addr < run->last.end && run->first.ino;
}

/* Find the run of areas around an address. Return: false if no file is mapped there. */
static bool stat_run_find(uintptr_t addr, struct run *run)
{
	struct areas areas;
	struct area area;
	const char *line;

	*run = (struct run){ 0 };
	if (!areas_open(&areas, "/proc/self/smaps"))
		return false;
	while (areas_next(&areas, &area)) {
		if (!stat_run_continues(run, &area)) {
			if (stat_run_contains(run, addr))
				break;
			*run = (struct run){ .first = area };
		}
		run->last = area;
		line = areas_next_line(&areas);
		for (; line; line = areas_next_line(&areas))
			stat_run_add_line(run, line);
	}
	areas_close(&areas);
	return stat_run_contains(run, addr);
}

/* Is a file system of this device number a hugemap mount? */
static bool stat_is_kernel_engine(const struct area *area)
{
	FILE *mounts = fopen("/proc/self/mountinfo", "re");
	char line[PATH_MAX * 2 + 512], type[16];
	unsigned int major, minor;
	bool found = false;
	const char *after;

	while (mounts && !found && fgets(line, sizeof(line), mounts)) {
		after = strstr(line, " - ");
		found = after && sscanf(line, "%*d %*d %u:%u", &major, &minor) == 2 &&
			major == area->major && minor == area->minor &&
			sscanf(after, " - %15s", type) == 1 && !strcmp(type, "hugemap");
	}
	if (mounts)
		fclose(mounts);
	return found;
}

/* The monitor thread writes the page while this reads it, so the numbers may not fit each other. */
static void stat_add_steering(uintptr_t addr, struct hugemap_stat *stat)
{
	const struct steer_page *page = lib_steer_page();
	const struct steer_map *map;
	uint32_t i, pattern;

	for (i = 0; page && i < STEER_PAGE_MAPS; i++) {
		map = &page->maps[i];
		if (!map->id || map->ended || addr < map->start || addr - map->start >= map->bytes)
			continue;
		pattern = map->pattern < STEER_PATTERNS ? map->pattern : STEER_UNKNOWN;
		snprintf(stat->pattern, sizeof(stat->pattern), "%s", steer_pattern_names[pattern]);
		snprintf(stat->reason, sizeof(stat->reason), "%.*s", (int)sizeof(map->why),
			 map->why);
		stat->accessed_bytes = map->touched;
		stat->random_bytes = map->amount[STEER_ACT_RANDOM];
		stat->hugepage_bytes = map->amount[STEER_ACT_HUGE];
		stat->normal_bytes = map->amount[STEER_ACT_NORMAL];
		stat->ahead_bytes = map->amount[STEER_ACT_AHEAD];
	}
}

/*
 * Like clone3(2): a program that was built for an older library has room for fewer fields,
 * and fields of a newer library than this one are 0.
 */
static int stat_give(struct hugemap_stat *to, const struct hugemap_stat *from)
{
	size_t theirs = to->size;

	if (theirs < sizeof(theirs) || theirs > 4096)
		return lib_fail(-EINVAL, "set stat->size to sizeof(struct hugemap_stat) first");
	memset((char *)to + sizeof(theirs), 0, theirs - sizeof(theirs));
	memcpy((char *)to + sizeof(theirs), (const char *)from + sizeof(theirs),
	       (theirs < sizeof(*from) ? theirs : sizeof(*from)) - sizeof(theirs));
	return 0;
}

int hugemap_stat(const void *addr, struct hugemap_stat *stat)
{
	struct hugemap_stat now = { .pattern = "unknown" };
	struct run run;

	LIB_CALL();
	if (!stat_run_find((uintptr_t)addr, &run))
		return lib_fail(-EINVAL, "no file is mapped at the address");
	now.mapped_bytes = run.last.end - run.first.start;
	now.resident_bytes = run.rss;
	now.dirty_bytes = run.dirty;
	now.huge_bytes = run.huge;
	if (stat_is_kernel_engine(&run.first))
		now.engine = HUGEMAP_ENGINE_KERNEL;
	else
		stat_add_steering((uintptr_t)addr, &now);
	return stat_give(stat, &now);
}
