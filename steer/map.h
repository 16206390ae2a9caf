/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The table of steered mappings. Only the monitor thread changes it, or a child of fork(), which
 * has a copy of the table but no monitor yet.
 *
 * Events and the policy change only the table, which records the wanted advice for each range.
 * act_sync() then gives the kernel all advice that is wanted and that it does not have yet.
 */
#ifndef HM_STEER_MAP_H
#define HM_STEER_MAP_H

#include "policy.h"
#include "events.h"
#include "hint.h"
#include "page.h"

#include <sys/mman.h>

/* The most pieces of a mapping. Each has its own advice, so the kernel makes it an area (VMA). */
#define MAP_PIECES 64u
#define MAP_HINTS 16u
/* The pieces of all mappings add at most so many areas: a process may have 65,530. */
#define MAP_AREAS 1000u
/* The table grows by blocks up to so many entries. */
#define MAP_BLOCK 256u
#define MAP_MOST 4096u
#define MAP_REMOVED 16u
#define MAP_ENDED 16u
#define MAP_LATE_HINTS 16u
#define MAP_MOVES 64u

/* A mode is a set of two bits: see act_sync_piece(). */
_Static_assert(HM_MODE_CHUNK == (HM_MODE_RANDOM | HM_MODE_HUGE), "modes are sets of advice");

struct piece {
	u64 start, end; /* pages; pieces are in order and leave no gaps */
	enum hm_mode mode; /* the wanted mode */
	enum hm_mode given; /* the advice that the monitor has given to the kernel */
};

struct hint {
	u64 start, end; /* pages */
	int advice; /* the argument of the program's madvise() */
	/* Repeat it, because the kernel may have got the monitor's advice after the program's. */
	bool again;
	/* Kinds of hints that it stands for, if @advice is 0: these hints are not known. */
	unsigned char kinds;
};

/**
 * struct map - a mapping
 * @index: of its entry in the table
 * @start: its first address
 * @bytes: its length
 * @base: the 2 MB boundary at or below @start: the address of page 0
 * @offset: offset of @start in the file
 * @dev: device of its file
 * @ino: of its file; 0 = act_settle() has not looked it up yet
 * @orphan: it is not steered any more, and stays until its advice is taken back; it has no @seen
 * @unsettled: act_settle() has not looked up its file yet
 * @moving: mremap() is about to move it, so it gets no advice now
 * @compare: a part of it may be gone; map_recover() finds out when its move has ended
 * @changed: act_sync() has not given all wanted advice yet
 * @advised: advice was given at least once
 * @suspended: it gets no advice until accesses confirm its mode
 * @confirmed_at: time at which accesses confirmed its mode last; nanoseconds
 * @confirmed_faults: page faults of the process up to @confirmed_at
 * @at: address at which the current pass continues; a pass is a scan of the whole mapping
 * @slice: start of the slices that the last look scanned
 * @slice_end: their end
 * @slice_at: time of that look; 0 = the slices are not scanned again
 * @round: the round of scans in which the last pass was completed
 * @pass_ns: processor time of the last pass
 * @scan_ns: processor time of the current pass
 * @huge: bytes that the current pass has found mapped by huge pages
 * @tried: bytes that were touched while huge pages were allowed
 * @touched: bytes that were touched since @judged_written was set
 * @judged_written: bytes that the process had made dirty when scan_judge() judged it last
 * @passed_at: time at which the last pass ended
 * @looked: a scan may have set bits of @seen
 * @hint_kinds: kinds of the hints that the program has ever given for it: see hint_kind()
 * @hint_use: accesses while a hint covers the mapping
 * @replaced: the hint for the whole mapping that act_replace_hint() has replaced; 0 = none
 * @seen: a bit for each page: mapped at the last look
 * @before: a bit for each page: mapped when the last round of hot.c passed it
 * @hot: a bit for each page: the program used it again soon after it had been unmapped
 * @hot_used: @before and @hot may have bits
 * @hot_passed: pages that the program had read when a round passed the mapping last
 * @room: bytes of the memory at @seen
 * @told: its entry in the page that `hugemap stat` reads; NULL if no entry was free
 */
struct map {
	u32 index;
	u64 start, bytes, base, offset;
	u64 dev, ino;
	bool shared, writable;
	bool orphan, unsettled, moving, compare, changed, advised, suspended, huge_works, hot_used;
	u64 confirmed_at, confirmed_faults;
	u64 at, slice, slice_end, slice_at;
	u32 round;
	u64 pass_ns, scan_ns;
	u64 huge, tried, touched, judged_written;
	u64 hot_passed;
	u64 passed_at;
	bool looked;
	unsigned int hint_kinds;
	struct hint_use hint_use;
	int replaced;
	unsigned long *seen, *before, *hot;
	size_t room;
	struct hm_advisor advisor;
	struct piece piece[MAP_PIECES];
	u32 npieces;
	struct hint hint[MAP_HINTS];
	u32 nhints;
	struct steer_map *told;
};

struct map_block {
	struct map map[MAP_BLOCK];
};

/* Returns whether the table needs another block for so many mappings. Any thread may call it. */
bool map_is_full(u32 n);
/*
 * Returns whether so many entries are free beside those that waiting events may take. Any thread may
 * call it.
 */
bool map_has_entries(u32 n);
/* The number of mappings that overlap a range. Any thread may call it. */
u32 map_count_in(u64 start, u64 end);
/* Give the table another block. Returns false if it has all. Any thread may call it. */
bool map_add_block(struct map_block *block);

/* All entries from there on are free. */
u32 map_limit(void);
/* Returns NULL for a free entry. @i is below the limit. */
struct map *map_entry(u32 i);
/* The next entry from there on that is used; NULL = none. */
struct map *map_next(u32 from);
#define for_each_map(map) for ((map) = map_next(0); (map); (map) = map_next((map)->index + 1))
/*
 * The same for entries that overlap a range of addresses. It is quick. Any thread may call it, but
 * only the monitor may follow the pointer.
 */
struct map *map_next_in(u32 from, u64 start, u64 end);
#define for_each_map_in(map, start, end)                    \
	for ((map) = map_next_in(0, (start), (end)); (map); \
	     (map) = map_next_in((map)->index + 1, (start), (end)))

/* Change the table by an event. Return the mapping that it adds, unsettled; NULL = none. */
struct map *map_follow(const struct event *event);
/* Events were lost, so compare the table with /proc/self/maps. @lost: see events_lost() */
void map_recover(unsigned int lost);
/*
 * Return the bytes of memory that the data of a mapping needs. The event of the mapping brings it.
 */
size_t map_room(u64 start, u64 bytes);
/*
 * Return the bytes of memory that all mappings of a range need after mremap() has moved them to @to;
 * 0 if there are not several. Any thread may call it.
 */
size_t map_rooms(u64 start, u64 end, u64 to, u64 to_bytes);
u32 map_count(void);
/* Forget a mapping. The kernel keeps the advice that it has. */
void map_drop(struct map *map);
/* Forget the rest of a mapping from an address on. */
void map_shorten(struct map *map, u64 end);
/*
 * Stop steering a mapping. Its entry stays in the table until act_sync() has taken its advice back.
 */
void map_leave(struct map *map);
/* Set the wanted mode of a range, except in the parts for which the program has given a hint. */
void map_set_mode(struct map *map, u64 start, u64 end, enum hm_mode mode);
/* Take the parent's advice back in a child of fork(), which has that advice and no monitor. */
void map_child(void);

/* Tell other threads which advice was given. */
void map_publish(const struct map *map);
/* Return whether a range of addresses overlaps a steered mapping. Any thread may call it. */
bool map_overlaps(u64 start, u64 bytes);
/**
 * struct map_part - a part of a range of addresses, in a mapping without advice from the program
 * @start: its first address
 * @end: its end
 * @advised: it may have advice from the monitor
 */
struct map_part {
	u64 start, end;
	bool advised;
};

/* The last of so many parts stands for all others. */
#define MAP_PARTS 16u

struct map_parts {
	u32 n;
	struct map_part part[MAP_PARTS];
};

/*
 * Add the parts of a range that lie in steered mappings without advice from the program. An event
 * that waits may bring advice to a range that is not in the table. Any thread may call it.
 */
void map_find_parts(struct map_parts *parts, u64 start, u64 end);
/*
 * Returns whether a range overlaps a steered mapping. @advised, @bytes: its part in the first such
 * mapping that has advice from the monitor and none from the program; unchanged if there is none.
 * Any thread may call it.
 */
bool map_find_advised(u64 start, u64 end, u64 *advised, u64 *bytes);
/*
 * Returns the number of changes that may have brought advice to a mapping. If it is the same before
 * and after an event was put, the monitor has given no first advice in between. Any thread may call
 * it.
 */
u32 map_changes(void);

/* Return whether any part may have advice from the monitor. */
static inline bool map_parts_advised(const struct map_parts *parts)
{
	u32 i;

	for (i = 0; i < parts->n; i++)
		if (parts->part[i].advised)
			return true;
	return false;
}

static inline u64 map_end(const struct map *map)
{
	return map->start + map->bytes;
}

static inline u64 map_address(const struct map *map, u64 page)
{
	return map->base + page * PAGE_BYTES;
}

/* Return the first hint of the program that covers the whole mapping; NULL = none. */
static inline const struct hint *map_whole_hint(const struct map *map)
{
	u32 i;

	for (i = 0; i < map->nhints; i++)
		if (map->hint[i].start <= map->advisor.first &&
		    map->hint[i].end >= map->advisor.end)
			return &map->hint[i];
	return NULL;
}

static inline bool map_is_hinted(const struct map *map)
{
	return map_whole_hint(map);
}

/* Return whether act_sync() has to give the kernel such a hint again. */
static inline bool map_hint_is_due(const struct map *map)
{
	const struct hint *hint = map_whole_hint(map);

	return hint && hint->again;
}

/* Return whether a hint of the program covers any page of a range. */
bool map_hinted(const struct map *map, u64 start, u64 end);

/* --- for map.c and map_*.c --- */

static inline u64 map_later(u64 a, u64 b)
{
	return a > b ? a : b;
}

static inline u64 map_earlier(u64 a, u64 b)
{
	return a < b ? a : b;
}

/* --- map.c --- */

/**
 * struct advised - the advice for a mapping, for threads that must not read the table
 * @start: of the mapping
 * @bytes: of the mapping; 0 = the entry of the table is free
 * @ever: there was advice at any time: the kernel may have several areas
 * @hinted: the program's own advice may lie among it
 * @moving: mremap() may have moved it, and other memory may be there
 * @replaced: see struct map
 */
struct advised {
	u64 start, bytes;
	bool random, huge;
	bool ever;
	bool hinted;
	bool moving;
	int replaced;
};

/**
 * struct removed - a range that was unmapped, with the mapping as it was before
 * @id: of the call; 0 = nothing
 */
struct removed {
	u64 id;
	u64 start, end;
	struct map map;
};

/* Old addresses: of memory that mremap() moves, or of a move that map_recover() has ended. */
struct move {
	u64 start, end;
};

/**
 * struct late_hint - a hint of the program for a mapping that mremap() moves
 * @start: first address of its range
 * @end: end of its range
 * @advice: the argument of the program's madvise()
 */
struct late_hint {
	u64 start, end;
	int advice;
};

/**
 * struct map_memory - what comes with the first block of the table
 * @advised: for a child of fork(), and the program's threads in their own calls. The index is that
 *	of the mapping in the table
 * @removed: the last ranges
 * @ended: the last moves that map_recover() has ended
 * @moves: the moves that have not ended
 * @nmoves: their number
 * @late: hints that count when a move has ended, in the order in which they came
 * @nlate: their number
 * @advices: the answers of the policy to one look. All mappings share them, because the monitor
 *	scans one at a time
 */
struct map_memory {
	struct advised advised[MAP_MOST];
	struct removed removed[MAP_REMOVED];
	struct move ended[MAP_ENDED];
	struct move moves[MAP_MOVES];
	u32 nmoves;
	struct late_hint late[MAP_LATE_HINTS];
	u32 nlate;
	struct hm_advice advices[HM_ADVICES];
};

extern void *map_memory_at;

static inline struct map_memory *map_memory(void)
{
	return map_memory_at;
}

/* All advice that the kernel has for a range of pages. */
enum hm_mode map_given(const struct map *map, u64 start, u64 end);
/* Change the number of pieces of a mapping, and count the areas that they make. */
void map_set_pieces(struct map *map, u32 n);
/* Return whether all mappings may have so many more areas. */
bool map_may_split(u32 more);
/* Returns an entry with this content; NULL if the table is full. */
struct map *map_take_entry(const struct map *content);
/* Returns NULL, and gives the room of the event back, if the table is full. */
struct map *map_add(u64 start, u64 bytes, u64 offset, const struct event *event);
void map_give_room_back(const struct event *event);
void map_begin_record(struct map *map);
/* A mapping has become shorter. Forget the pieces and hints outside of its new range. */
void map_trim(struct map *map);
/* Reduce a mapping to a range of its addresses, because the rest is gone. */
void map_keep(struct map *map, u64 start, u64 end);

/*
 * Make the hint count again that map_replace_hint() has replaced. act_sync() takes the advice of
 * the policy back, and gives the hint again.
 */
void map_restore_hint(struct map *map);

/* --- map_hints.c --- */

void map_hint(const struct event *event);
/*
 * Take the hints that came during a move, if no mapping in their range moves any more. @all: also
 * those of mappings that still move
 */
void map_take_late_hints(bool all);
/* Forget these hints in a range that mremap() has moved to another place. */
void map_drop_late_hints(u64 start, u64 end);

/* --- map_pieces.c --- */

/*
 * Set the wanted mode of a range. Returns false, and changes nothing, if there would be too many
 * pieces.
 */
bool map_split(struct map *map, u64 start, u64 end, enum hm_mode mode);
/*
 * Treat the whole mapping as hinted, so that the monitor gives no advice in it. One entry stands
 * for its hints, and for unknown ones of @kinds. Hints that act_sync() has to give again stay, one
 * fewer than a mapping can have.
 */
void map_hint_all(struct map *map, unsigned int kinds);
void map_add_hint(struct map *map, struct hint hint);
/* Return whether act_sync() has to give the kernel any hint in a range again. */
bool map_has_due_hint(const struct map *map, u64 start, u64 end);
/*
 * The hint for the whole mapping does not count any more: the policy decides. The caller gives the
 * kernel the advice that ends the hint, or calls map_restore_hint().
 */
void map_replace_hint(struct map *map);
/* Remove a range from the hints of one kind. */
void map_remove_hints(struct map *map, u64 start, u64 end, unsigned int kind);

#endif /* HM_STEER_MAP_H */
