/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* hugemap attach: a watched process and its mappings. */
#ifndef CLI_ATTACH_STATE_H
#define CLI_ATTACH_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "attach_maps.h"
#include "attach_picture.h"
#include "policy.h"

#define ATTACH_MAPS 256u /* mappings that are watched, and ended ones that are still reported */

/**
 * struct watched - a watched mapping
 * @area: the mapping; its path is owned by this
 * @ended: it is not mapped any more
 * @base: the 2 MB boundary at or below its start: the address of page 0
 * @seen: a bit for each page: mapped at the last scan
 * @regions: memory of @advisor
 * @advisor: the policy's state
 * @touched: number of pages newly mapped since the watching began
 * @huge: bytes that are mapped by huge pages
 * @in_huge: huge pages mapped most of its mapped bytes at the last scan of the whole mapping
 * @scans: for each pattern, the number of scans that found new pages while it was recognised
 * @ahead_calls: number of calls that read ahead (MADV_WILLNEED)
 * @ahead_bytes: bytes of these calls
 * @read_ahead_kb: the setting of the device below its file system; 0 = unknown
 * @full_at: time of the next scan of the whole mapping
 * @full_faults: page faults of the process before the last scan of the whole mapping
 * @full_ns: CPU time of the last scan of the whole mapping
 * @picture: see struct picture
 */
struct watched {
	struct area area;
	bool ended;
	uint64_t base;
	unsigned long *seen;
	struct hm_region *regions;
	struct hm_advisor advisor;
	uint64_t touched, huge;
	bool in_huge;
	uint64_t scans[HM_PATTERN_RANDOM + 1];
	uint64_t ahead_calls, ahead_bytes;
	unsigned long long read_ahead_kb;
	uint64_t full_at, full_ns, full_faults;
	struct picture picture;
};

/**
 * struct usage - counters of the process at a time
 * @at: the time, in seconds since the watching began
 * @minor, @major: page faults
 * @read_bytes: bytes read from devices
 * @touched: pages newly mapped, in all watched mappings
 */
struct usage {
	double at;
	uint64_t minor, major;
	uint64_t read_bytes;
	uint64_t touched;
};

/**
 * struct attach_settings - the options
 * @min_size: bytes; shorter mappings are left alone
 * @advise: give advice; false: only watch
 * @include, @exclude: see globs_select()
 */
struct attach_settings {
	uint64_t min_size;
	bool advise;
	const char *include, *exclude;
};

/**
 * struct attach - a watched process
 * @settings: see struct attach_settings
 * @pid: the process
 * @pidfd: becomes readable when the process ends
 * @name: as ps shows it
 * @maps: the mappings, and ended ones in which pages were newly mapped
 * @count: number of @maps
 * @missed: number of mappings for which there was no room
 * @steered: it runs under hugemap run
 * @advising: advice has begun
 * @begin: counters of the process when the watching began
 * @now: counters at the last reading
 * @recent: the previous @latest; rates are from there to @now
 * @latest: a copy of @now that is renewed about every second
 * @first: when a page was newly mapped for the first time; .at < 0 = not yet
 * @advised: when advice began
 * @watch_ns: CPU time of the watching
 * @memory: bytes that the process can have cached; 0 = not known
 * @private: state of attach_watch.c
 */
struct attach {
	struct attach_settings settings;
	pid_t pid;
	int pidfd;
	char name[32];
	struct watched *maps[ATTACH_MAPS];
	size_t count;
	unsigned int missed;
	bool steered, advising;
	struct usage begin, now, recent, latest, first, advised;
	uint64_t watch_ns;
	uint64_t memory;
	struct attach_private *private;
};

static inline uint64_t watched_bytes(const struct watched *map)
{
	return map->area.end - map->area.start;
}

/* The pattern of most scans. */
enum hm_pattern watched_pattern(const struct watched *map);
const char *watched_pattern_name(enum hm_pattern pattern);
/* Number of pages that are mapped; @column: the number of each column. */
uint64_t watched_resident(const struct watched *map, uint64_t column[PICTURE_COLUMNS]);

/*
 * Find out whether the program's own advice for a mapping makes it slower. If so, return its name,
 * and set @text to the cost in words; else return NULL.
 */
const char *watched_hint_cost(const struct attach *attach, const struct watched *map, char *text,
			      size_t size);

/* Did many page faults of the process wait for a device from @from to @to? */
bool usage_waits(const struct usage *from, const struct usage *to);
/*
 * Did the process read the pages that became mapped from a device? If it neither waited nor read,
 * they were in the page cache. Then Linux maps up to 16 of them at a fault, so that the pattern of
 * single pages is not visible. A stream that Linux reads ahead also reads without many waits.
 */
bool usage_reads(const struct usage *from, const struct usage *to);

#endif /* CLI_ATTACH_STATE_H */
