// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Events of the program, and what they change in the table of mappings. */
#include "map.h"

#include "area.h"
#include "record.h"

#include <string.h>

static u32 map_removals; /* ranges that were ever put into @removed of struct map_memory */
static u32 map_ends; /* moves that map_recover() has ever ended */

/*
 * Stop steering a part of a mapping whose other part stays. The part becomes an orphan of its own.
 */
static void map_leave_part(const struct map *map, u64 start, u64 end)
{
	u64 first = (start - map->base) / PAGE_BYTES, last = (end - map->base) / PAGE_BYTES;
	bool hint = map->replaced || map_has_due_hint(map, first, last);
	struct map *part;

	if (start >= end || (!map_given(map, first, last) && !hint))
		return;
	part = map_take_entry(map);
	if (!part)
		return;
	part->room = 0;
	part->told = NULL;
	map_keep(part, start, end);
	map_leave(part);
}

/*
 * The program has unmapped a range of a mapping. Keep the larger remaining part, and stop steering
 * the smaller one.
 */
static void map_cut(struct map *map, u64 start, u64 end)
{
	u64 last = map_end(map);
	u64 head = start > map->start ? start - map->start : 0;
	u64 tail = end < last ? last - end : 0;

	if (map->orphan || map_later(head, tail) < REGION_BYTES) {
		if (tail)
			map_leave_part(map, end, last);
		if (!head) {
			map_drop(map);
			return;
		}
		map_keep(map, map->start, start);
		map_leave(map);
	} else if (head >= tail) {
		if (tail)
			map_leave_part(map, end, last);
		map_keep(map, map->start, start);
	} else {
		if (head)
			map_leave_part(map, map->start, start);
		map_keep(map, end, last);
	}
}

/*
 * A range of a mapping is gone. A mapping that mremap() moves stays whole until the move has ended:
 * the range may belong to other memory. The mapping is compared with the kernel's areas after that.
 *
 * CPU 1 (program): puts MOVING; mremap(); puts MOVED.
 * CPU 2 (program): mmap() gets the old place; munmap() of it. Its event comes before MOVED.
 */
static void map_remove(struct map *map, u64 start, u64 end)
{
	if (map->moving)
		map->compare = true;
	else
		map_cut(map, start, end);
}

static void map_unmapped(u64 start, u64 end, const struct map *but)
{
	struct map *map;

	for_each_map_in(map, start, end)
		if (map != but)
			map_remove(map, start, end);
}

/* The call may fail, so its range is remembered with its advice. */
static void map_unmapping(const struct event *event)
{
	u64 end = event->start + event->bytes;
	struct map *map;

	for_each_map_in(map, event->start, end)
		if (map->advised && !map->moving)
			map_memory()->removed[map_removals++ % MAP_REMOVED] = (struct removed){
				.id = event->id,
				.start = map_later(event->start, map->start),
				.end = map_earlier(end, map_end(map)),
				.map = *map,
			};
	map_unmapped(event->start, end, NULL);
}

static void map_not_unmapped(const struct event *event)
{
	struct removed *at;
	u32 i;

	for (i = 0; i < map_removals && i < MAP_REMOVED; i++) {
		at = &map_memory()->removed[i];
		if (at->id != event->id)
			continue;
		map_leave_part(&at->map, at->start, at->end);
		at->id = 0;
	}
}

static struct map *map_mapped(const struct event *event)
{
	u64 end = event->start + event->bytes;
	struct map *map;

	map_unmapped(event->start, end, NULL);
	map = map_add(event->start, event->bytes, event->offset, event);
	if (!map)
		return NULL;
	map->unsettled = true;
	map->shared = event->flags & MAP_SHARED;
	map->writable = event->prot & PROT_WRITE;
	/* Stores to a private mapping never reach the file. */
	map->advisor.facts.writable = map->writable && map->shared;
	map_begin_record(map);
	map_publish(map);
	return map;
}

/* Find the mapping with an address that mremap() moves. */
static struct map *map_moving_at(u64 address)
{
	struct map *map;

	for_each_map_in(map, address, address + 1)
		if (map->moving)
			return map;
	return NULL;
}

/*
 * Forget a range of the ended moves. Return whether there was one. MOVING comes first: the record of
 * an earlier move must not count for this one.
 */
static bool map_take_ended(const struct event *event)
{
	u64 end = event->start + event->bytes;
	struct move *at;
	bool found = false;
	u32 i;

	for (i = 0; i < map_ends && i < MAP_ENDED; i++) {
		at = &map_memory()->ended[i];
		if (at->start >= end || event->start >= at->end)
			continue;
		found = true;
		/* Threads may move several parts of a mapping. */
		if (end < at->end)
			at->start = end;
		else
			at->end = map_later(at->start, event->start);
	}
	return found;
}

/* If there is no room for the move, it ends with the next move of a part of the same mapping. */
static void map_add_move(u64 start, u64 end)
{
	struct map_memory *memory = map_memory();

	if (memory && memory->nmoves < MAP_MOVES)
		memory->moves[memory->nmoves++] = (struct move){ start, end };
}

static void map_remove_move(u64 start, u64 end)
{
	struct map_memory *memory = map_memory();
	u32 n = memory ? memory->nmoves : 0, i;

	for (i = 0; i < n; i++)
		if (memory->moves[i].start == start && memory->moves[i].end == end) {
			memory->moves[i] = memory->moves[n - 1];
			memory->nmoves = n - 1;
			return;
		}
}

/* Another thread may move another part of the mapping. */
static bool map_is_moving(const struct map *map)
{
	u32 i;

	for (i = 0; i < map_memory()->nmoves; i++)
		if (map_memory()->moves[i].start < map_end(map) &&
		    map->start < map_memory()->moves[i].end)
			return true;
	return false;
}

static void map_begin_move(const struct event *event)
{
	u64 end = event->start + event->bytes;
	struct map *map;

	map_add_move(event->start, end);
	for_each_map_in(map, event->start, end) {
		map->moving = map->changed = true;
		map_publish(map);
	}
}

/* A move has ended. The mappings of a range move no more, unless they are part of another move. */
static void map_end_move(u64 start, u64 end)
{
	bool compare = false;
	struct map *map;

	for_each_map_in(map, start, end) {
		map->moving = map->moving && map_is_moving(map);
		map->changed = true;
		if (!map->moving) {
			compare |= map->compare;
			map->compare = false;
		}
		map_publish(map);
	}
	if (compare)
		events_lose(EVENTS_LOST);
}

static void map_stayed(const struct event *event)
{
	u64 end = event->start + event->bytes;

	map_remove_move(event->start, end);
	map_end_move(event->start, end);
}

/*
 * mremap() moves the advice along with the memory. So the new mapping starts with the given advice
 * of the old one, and its wanted mode is NORMAL until the policy decides again.
 */
static void map_take_pieces(struct map *new, const struct map *old, u64 from)
{
	u64 at = (from - old->base) / PAGE_BYTES, first = new->advisor.first;
	u32 i;

	new->advised = new->changed = true;
	new->dev = old->dev;
	new->ino = old->ino;
	memcpy(new->piece, old->piece, sizeof(new->piece));
	memcpy(new->hint, old->hint, sizeof(new->hint));
	map_set_pieces(new, old->npieces);
	new->nhints = old->nhints;
	new->replaced = old->replaced;
	new->hint_kinds = old->hint_kinds;
	for (i = 0; i < new->npieces; i++) {
		new->piece[i].start = map_later(new->piece[i].start, at) - at + first;
		new->piece[i].end = map_later(new->piece[i].end, at) - at + first;
		new->piece[i].mode = HM_MODE_NORMAL;
	}
	for (i = 0; i < new->nhints; i++) {
		new->hint[i].start = map_later(new->hint[i].start, at) - at + first;
		new->hint[i].end = map_later(new->hint[i].end, at) - at + first;
	}
	new->piece[new->npieces - 1].end =
		map_later(new->piece[new->npieces - 1].end, new->advisor.end);
	map_trim(new);
}

/*
 * The table has no mapping that moves from there. The new place is not steered, and its advice is
 * taken back. The next map_recover() forgets the old place. One pass is enough for all events that
 * wait. There is none if nothing is steered at the old place.
 *
 * CPU 1 (program): puts MOVING; mremap(); puts MOVED.
 * CPU 0 (monitor): takes MOVING; map_recover() ends the move, because a third thread has lost the
 * MOVED of another move; takes MOVED.
 */
static void map_moved_unknown(const struct event *event)
{
	struct area area;
	struct map *new;

	if (map_next_in(0, event->start, event->start + event->bytes))
		events_lose(EVENTS_LOST);
	map_give_room_back(event);
	/* Other files that move may have advice of the program. */
	if (!map_take_ended(event) || !event->advised || !area_find(event->to, &area) ||
	    area.start > event->to || !area.ino)
		return;
	new = map_add(event->to, event->to_bytes, area.offset + (event->to - area.start),
		      &(struct event){});
	if (!new)
		return;
	new->advised = true;
	new->piece[0].given = HM_MODE_CHUNK;
	map_leave(new);
}

/*
 * Return the end of a mapping at its new place. The last mapping of a range has the new length of
 * the range: it has grown, or it is shorter.
 */
static u64 map_moved_end(const struct map *map, const struct event *event)
{
	u64 bytes = map_end(map) - event->start;

	if (bytes >= event->bytes || bytes > event->to_bytes)
		bytes = event->to_bytes;
	return event->to + bytes;
}

/* Take the part of an event's room that a mapping needs at its new place. */
static struct event map_take_room(struct event *rest, u64 start, u64 bytes)
{
	u64 need = rest->rooms ? map_room(start, bytes) : rest->room_bytes;
	struct event part = {};

	if (!rest->room || need > rest->room_bytes)
		return part;
	part.room = rest->room;
	part.room_bytes = need;
	rest->room_bytes -= need;
	rest->room = rest->room_bytes ? (char *)rest->room + need : NULL;
	return part;
}

/* The file of a mapping that has moved is not looked up again. */
static void map_begin_moved_record(struct map *new, const struct map *map)
{
	map_begin_record(new);
	if (!new->told || !map->told)
		return;
	new->told->dev = map->told->dev;
	new->told->ino = map->told->ino;
	new->told->pattern = map->told->pattern;
	memcpy(new->told->path, map->told->path, sizeof(new->told->path));
}

/*
 * Add a mapping at its new place. Stop steering it, and take its advice back, if the call has moved
 * only a part of it, or if there is no room.
 */
static void map_add_moved(const struct map *map, const struct event *event, struct event *rest)
{
	u64 start = map_later(map->start, event->start), end = map_moved_end(map, event);
	u64 to = event->to + (start - event->start);
	bool whole = event->start <= map->start && event->start + event->bytes >= map_end(map);
	struct event part;
	struct map *new;

	if (to >= end)
		return;
	part = map_take_room(rest, to, end - to);
	if (!part.room && !map->advised)
		return;
	new = map_add(to, end - to, map->offset + (start - map->start), &part);
	if (!new)
		return;
	new->shared = map->shared;
	new->writable = map->writable;
	new->unsettled = map->unsettled;
	new->huge_works = map->huge_works;
	new->advisor.facts = map->advisor.facts;
	if (!map->orphan && part.room)
		map_begin_moved_record(new, map);
	map_take_pieces(new, map, start);
	if (map->orphan || !whole || !part.room)
		map_leave(new);
}

/*
 * A mapping has moved, or has grown in place. Its entry is free before the next mapping needs one.
 * Without a room in the event, the thread of the program takes the advice of both places back.
 */
static void map_moved_one(struct map *map, const struct event *event, struct event *rest)
{
	u64 start = map_later(map->start, event->start), from = map->start, to = map_end(map);

	if (map->compare)
		events_lose(EVENTS_LOST);
	map->changed = true;
	if (event->room)
		map_add_moved(map, event, rest);
	if (!(event->flags & MREMAP_DONTUNMAP) || !event->room)
		map_cut(map, start, map_earlier(map_end(map), event->start + event->bytes));
	/* The call may have moved the middle: the head and the tail are two mappings then. */
	map_end_move(from, to);
}

/*
 * Several mappings move together if the kernel has one area of them. Since Linux 6.17, mremap()
 * moves all mappings of a range if the program gives the new address. A range that stays in place
 * may be shorter, and some of its mappings are gone. @start: the end of the first mapping
 */
static void map_moved_others(u64 start, const struct event *event, struct event *rest)
{
	bool moved = event->to != event->start, grown = event->to_bytes > event->bytes;
	u64 end = event->start + event->bytes;
	struct map *map;

	for_each_map_in(map, start, end) {
		if (!map->moving || map->start < start)
			continue;
		if (moved || (grown && map_end(map) >= end))
			map_moved_one(map, event, rest);
		else
			map->compare = true;
	}
}

static void map_moved(const struct event *event)
{
	struct map *first = map_moving_at(event->start);
	u64 others = first ? map_end(first) : event->start;
	struct event rest = *event;

	map_remove_move(event->start, event->start + event->bytes);
	if (event->to != event->start && !(event->flags & MREMAP_DONTUNMAP))
		map_drop_late_hints(event->start, event->start + event->bytes);
	map_unmapped(event->to, event->to + event->to_bytes, first);
	if (first)
		map_moved_one(first, event, &rest);
	map_moved_others(others, event, &rest);
	map_end_move(event->start, event->start + event->bytes);
	if (first)
		map_give_room_back(&rest);
	else
		map_moved_unknown(&rest);
}

struct map *map_follow(const struct event *event)
{
	struct map *added = NULL;

	switch (event->kind) {
	case EVENT_MAPPED:
		added = map_mapped(event);
		break;
	case EVENT_UNMAPPING:
		map_unmapping(event);
		break;
	case EVENT_NOT_UNMAPPED:
		map_not_unmapped(event);
		break;
	case EVENT_MOVING:
		map_take_ended(event);
		map_begin_move(event);
		break;
	case EVENT_STAYED:
		map_stayed(event);
		break;
	case EVENT_MOVED:
		map_moved(event);
		break;
	case EVENT_HINT:
		map_hint(event);
		break;
	}
	map_take_late_hints(false);
	return added;
}

/*
 * Return whether an area of /proc/self/maps belongs to a mapping. If events were lost, the program
 * may have mapped another file there at the same offset, perhaps one that must not be steered.
 */
static bool map_contains(const struct map *map, const struct area *area)
{
	bool same = !map->ino || (map->dev == area->dev && map->ino == area->ino);

	return area->ino && same && area->offset - area->start == map->offset - map->start;
}

static void map_compare(const struct area *area)
{
	struct map *map;

	for_each_map_in(map, area->start, area->end)
		if (!map_contains(map, area))
			map_remove(map, area->start, area->end);
}

/*
 * The monitor will not get the event that ends one of the moves, and it does not know which one. So
 * it ends all of them.
 */
static void map_end_moves(void)
{
	struct map *map;

	for_each_map(map) {
		if (map->moving)
			map_memory()->ended[map_ends++ % MAP_ENDED] =
				(struct move){ map->start, map_end(map) };
		map->moving = map->compare = false;
	}
	if (map_memory())
		map_memory()->nmoves = 0;
}

void map_recover(unsigned int lost)
{
	unsigned int hints = lost / EVENTS_LOST_HINT;
	struct reader reader;
	struct area area;
	struct map *map;
	u64 end = 0; /* of the last area */

	if (lost & EVENTS_LOST_MOVE)
		map_end_moves();
	/* The waiting hints came before the lost hint, and must not end it. */
	if (hints)
		map_take_late_hints(true);
	for_each_map(map) {
		map->changed = true;
		if (hints && !map->orphan) {
			map->hint_kinds |= hints;
			map_hint_all(map, hints);
		}
	}
	if (!area_open(&reader))
		return;
	while (area_next(&reader, &area)) {
		if (end < area.start)
			map_unmapped(end, area.start, NULL);
		map_compare(&area);
		end = area.end;
	}
	reader_close(&reader);
	map_unmapped(end, UINT64_MAX, NULL);
	map_take_late_hints(false);
}
