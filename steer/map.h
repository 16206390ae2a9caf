/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The mappings that are steered: the watcher's own table. Nobody else touches it, but a
 * child of fork(), which has a copy and no watcher yet.
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

struct piece {
	u64 start, end; /* pages; in order, without gaps */
	enum hm_mode mode;
};

struct hint {
	u64 start, end; /* pages */
};

/**
 * struct map_file - what belongs to a mapping's file, not to its place: it moves along
 * @fd: in the watcher's table of descriptors; -1 = not held
 * @shared: MAP_SHARED
 * @writable: PROT_WRITE, now or at the beginning
 * @huge_works: huge pages were seen
 * @wrote: writes of some pages were begun
 * @rewritten: such pages are stored to again: to write them early was for nothing
 * @synced: what was said of it last, see hm_facts
 * @touched: bytes
 * @judged_at: with so many touched it is asked again who writes them
 * @changed_at: the file, when that was asked last; ns
 */
struct map_file {
	int fd;
	bool shared, writable;
	bool huge_works, wrote, rewritten, synced;
	u64 touched, judged_at;
	s64 changed_at;
};

/**
 * struct map - a mapping
 * @start: its first address; 0 = the entry is free
 * @bytes: its length
 * @base: the 2 MB boundary at or below @start: the address of page 0
 * @offset: of @start in the file
 * @file: what moves with it
 * @number: of the descriptor in the program's table; -1 = not any more
 * @until: up to then whoever made the mapping waits; nanoseconds, see now_ns()
 * @seen: a bit for each page
 * @pieces, @npieces: what was advised where
 * @hints, @nhints: where the program has advised; nothing is advised there
 * @told: what others may read of it; NULL if there was no room
 */
struct map {
	u64 start, bytes, base, offset;
	struct map_file file;
	int number;
	u64 until;
	bool hold; /* its file is wanted, to begin its writes */
	u64 written, written_end; /* pages whose writes were begun lately */
	u64 tried; /* bytes that were touched where there could be huge pages */
	u64 full_at, full_ns; /* when all of it is looked at next, and what that costs */
	unsigned long *seen;
	size_t room;
	struct hm_advisor advisor;
	struct piece piece[MAP_PIECES];
	u32 npieces;
	struct hint hint[MAP_HINTS];
	u32 nhints;
	struct steer_map *told;
};

/* STEER_PAGE_MAPS of them; NULL until there was a watcher. */
extern struct map *steer_maps;

/* Files that are held now: any thread may read it. */
extern u32 steer_held;

/* Writing behind shorter mappings is no gain, and only stores by mapping need it. */
static inline bool steer_would_hold(int prot, int flags, u64 bytes)
{
	return prot & PROT_WRITE && flags & MAP_SHARED && bytes >= 64ull << 20;
}

void map_hold(struct map *map, int pidfd);
void map_let_go(struct map *map);

/* The table follows an event. Returns the mapping that is new; NULL if there is none. */
struct map *maps_follow(const struct event *event);
/* Memory that a mapping needs, for the event that tells of it; bytes. */
size_t map_room(u64 start, u64 bytes);
u32 maps_count(void);
/* All are forgotten; @take_back: and so is what was advised. */
void maps_clear(bool take_back);
/*
 * In a child of fork(), which has the parent's advice and nobody who would take it back
 * when it is wrong: it goes.
 */
void maps_child(void);

/*
 * Where the kernel was advised, for who has no table: a child, and mremap(). By the place
 * in the table.
 */
struct advised {
	u64 start, bytes; /* 0 = nothing */
	bool random, huge;
	bool hinted; /* the program's own advice may lie among it */
};

extern struct advised steer_advised[STEER_PAGE_MAPS];
void map_advised(const struct map *map);

static inline u64 map_address(const struct map *map, u64 page)
{
	return map->base + page * PAGE_BYTES;
}

/* Is all of it under one? */
static inline bool map_is_hinted(const struct map *map)
{
	return map->nhints && map->hint[0].start <= map->advisor.first &&
	       map->hint[0].end >= map->advisor.end;
}

/* Is any page of the range under a hint of the program's? */
bool map_hinted(const struct map *map, u64 start, u64 end);

#endif /* HM_STEER_MAP_H */
