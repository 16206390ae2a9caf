/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The table of steered mappings. Only the monitor thread changes it, and a child of fork(), which
 * has a copy and no monitor yet.
 *
 * Events and the policy change only the table, which records the wanted advice for each range.
 * act_sync() then gives the kernel the advice that is wanted and not given yet.
 */
#ifndef HM_STEER_MAP_H
#define HM_STEER_MAP_H

#include "policy.h"
#include "events.h"
#include "page.h"

#include <sys/mman.h>

/* Pieces of a mapping that may have advice of their own: each is an area (VMA). */
#define MAP_PIECES 64u
#define MAP_HINTS 16u

/* A mode is a set of two bits. */
_Static_assert(HM_MODE_CHUNK == (HM_MODE_RANDOM | HM_MODE_HUGE), "modes are sets of advice");

struct piece {
	u64 start, end; /* pages; in order, without gaps */
	enum hm_mode mode; /* wanted */
	enum hm_mode given; /* the advice that the monitor has given to the kernel */
};

struct hint {
	u64 start, end; /* pages */
	int advice; /* the program's */
	bool again; /* repeat the hint: the monitor's advice may have come after the program's */
};

/**
 * struct map - a mapping
 * @start: its first address; 0 = the entry is free
 * @bytes: its length
 * @base: the 2 MB boundary at or below @start: the address of page 0
 * @offset: of @start in the file
 * @orphan: only its advice is left, to be taken back; it has no @seen
 * @moving: mremap() is about to move it: no advice
 * @changed: advice is wanted that act_sync() has not given yet
 * @advised: advice was given at least once
 * @suspended: no advice for as long as no access confirms it
 * @confirmed_at: when an access did so last; nanoseconds
 * @confirmed_faults: page faults of the process up to then
 * @at: where the scan goes on
 * @slice: the start of the slice that was scanned last, at @slice_at
 * @round: the round of scans in which a scan of all of it was completed
 * @pass_ns: processor time of the last scan of all of it, @scan_ns of the current one
 * @huge: bytes in huge pages, as the current scan has found
 * @tried: bytes that were touched where there could be huge pages
 * @touched: bytes that were touched since @judged_written
 * @judged_written: bytes that the process had made dirty when stores were judged last
 * @checked: map_recover() has compared it up to this address
 * @seen: a bit for each page
 * @told: its report, which `hugemap stat` reads; NULL if there was no room
 */
struct map {
	u64 start, bytes, base, offset;
	bool shared, writable;
	bool orphan, moving, changed, advised, suspended, huge_works;
	u64 confirmed_at, confirmed_faults;
	u64 at, slice, slice_at;
	u32 round;
	u64 pass_ns, scan_ns;
	u64 huge, tried, touched, judged_written;
	u64 checked;
	unsigned long *seen;
	size_t room;
	struct hm_advisor advisor;
	struct piece piece[MAP_PIECES];
	u32 npieces;
	struct hint hint[MAP_HINTS];
	u32 nhints;
	struct steer_map *told;
};

/* STEER_PAGE_MAPS of them; NULL until there was a monitor. */
extern struct map *steer_maps;

/* The next entry from there on that is used; NULL = none. */
struct map *map_next(struct map *map);
#define for_each_map(map) for ((map) = map_next(steer_maps); (map); (map) = map_next((map) + 1))

/* The table follows an event. Returns the mapping that is new; NULL if there is none. */
struct map *map_follow(const struct event *event);
/* Events were lost: compare the table with /proc/self/maps. @hints: hints were lost, too. */
void map_recover(bool hints);
/* Memory for the data of a mapping, which comes with its event; bytes. */
size_t map_room(u64 start, u64 bytes);
u32 map_count(void);
/* Forget a mapping. The kernel keeps its advice. */
void map_drop(struct map *map);
/* Leave a mapping alone. The table keeps its entry until its advice is taken back. */
void map_leave(struct map *map);
/* Want a mode in a range, except where the program has advised. */
void map_set_mode(struct map *map, u64 start, u64 end, enum hm_mode mode);
/*
 * In a child of fork(), which has the parent's advice and no monitor that takes it back: it is
 * taken back here.
 */
void map_child(void);

/*
 * The advice that was given, for threads that must not read the table: a child of fork(), and
 * the program's threads in their own calls. The index is that of the mapping in the table.
 */
struct advised {
	u64 start, bytes; /* 0 = nothing */
	bool random, huge;
	bool ever; /* there was advice at any time: the kernel may have several areas */
	bool hinted; /* the program's own advice may lie among it */
};

extern struct advised steer_advised[STEER_PAGE_MAPS];
void map_publish(const struct map *map);
/* Returns whether a range of addresses overlaps a mapping. Any thread may call it. */
bool map_overlaps(u64 start, u64 bytes);

static inline u64 map_end(const struct map *map)
{
	return map->start + map->bytes;
}

static inline u64 map_address(const struct map *map, u64 page)
{
	return map->base + page * PAGE_BYTES;
}

/* Returns whether all of it is under a hint. */
static inline bool map_is_hinted(const struct map *map)
{
	return map->nhints && map->hint[0].start <= map->advisor.first &&
	       map->hint[0].end >= map->advisor.end;
}

/* Returns whether any page of the range is under a hint of the program. */
bool map_hinted(const struct map *map, u64 start, u64 end);

#endif /* HM_STEER_MAP_H */
