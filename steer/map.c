// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "map.h"

#include "area.h"
#include "call.h"
#include "record.h"
#include "room.h"
#include "uapi.h"

#include <string.h>

/*
 * The advice that was given, for threads that must not read the table: a child of fork(), and
 * the program's threads in their own calls. The index is that of the mapping in the table.
 */
static struct advised {
	u64 start, bytes; /* 0 = the entry of the table is free */
	bool random, huge;
	bool ever; /* there was advice at any time: the kernel may have several areas */
	bool hinted; /* the program's own advice may lie among it */
} map_advised[MAP_MOST];

static struct map_block *map_blocks[MAP_MOST / MAP_BLOCK];
static u32 map_capacity; /* entries in these blocks */
static u32 map_end_used; /* all entries from here on are free */
static u32 map_used; /* entries that are not free */
static u32 map_areas; /* pieces of all mappings, but for the first piece of each */

/* The ranges that were unmapped last, with the mapping as it was before. */
#define MAP_REMOVED 16u
static struct removed {
	u64 id; /* of the call; 0 = nothing */
	u64 start, end;
	struct map map;
} map_removed[MAP_REMOVED];
static u32 map_removals;

/*
 * The answers of the policy to one look. All mappings share it, because the monitor scans one at a
 * time.
 */
static struct hm_advice map_advices[HM_ADVICES];

u32 map_limit(void)
{
	return __atomic_load_n(&map_end_used, __ATOMIC_ACQUIRE);
}

struct map *map_entry(u32 i)
{
	return map_advised[i].bytes ? &map_blocks[i / MAP_BLOCK]->map[i % MAP_BLOCK] : NULL;
}

struct map *map_next(u32 from)
{
	struct map *map;

	for (; from < map_limit(); from++) {
		map = map_entry(from);
		if (map)
			return map;
	}
	return NULL;
}

u32 map_count(void)
{
	return map_used;
}

bool map_is_full(void)
{
	u32 used = __atomic_load_n(&map_used, __ATOMIC_SEQ_CST) + events_backlog();
	u32 capacity = __atomic_load_n(&map_capacity, __ATOMIC_SEQ_CST);

	return used >= capacity && capacity < MAP_MOST;
}

bool map_add_block(struct map_block *block)
{
	struct map_block *none;
	u32 i;

	for (i = 0; i < MAP_MOST / MAP_BLOCK; i++) {
		none = NULL;
		if (__atomic_compare_exchange_n(&map_blocks[i], &none, block, false,
						__ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) {
			__atomic_add_fetch(&map_capacity, MAP_BLOCK, __ATOMIC_SEQ_CST);
			return true;
		}
	}
	return false;
}

static u64 map_base(u64 start)
{
	return start - start % REGION_BYTES;
}

static size_t map_bitmap_bytes(u64 pages)
{
	return (pages + 63) / 64 * 8;
}

/*
 * The memory holds a bit for each page, then the regions. The kernel allocates its pages on first
 * use.
 */
size_t map_room(u64 start, u64 bytes)
{
	u64 pages = (start + bytes - map_base(start)) / PAGE_BYTES;
	size_t room =
		map_bitmap_bytes(pages) + (pages / REGION_PAGES + 1) * sizeof(struct hm_region);

	return (room + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

/* --- for other threads --- */

static enum hm_mode map_given(const struct map *map, u64 start, u64 end)
{
	enum hm_mode given = HM_MODE_NORMAL;
	u32 i;

	for (i = 0; i < map->npieces; i++)
		if (map->piece[i].start < end && start < map->piece[i].end)
			given |= map->piece[i].given;
	return given;
}

void map_publish(const struct map *map)
{
	enum hm_mode given = map_given(map, 0, UINT64_MAX);

	map_advised[map->index] = (struct advised){
		.start = map->start,
		.bytes = map->bytes,
		.hinted = map->nhints,
		.ever = map->advised,
		.random = given & HM_MODE_RANDOM,
		.huge = given & HM_MODE_HUGE,
	};
	if (map->index >= map_end_used)
		__atomic_store_n(&map_end_used, map->index + 1, __ATOMIC_RELEASE);
}

bool map_overlaps(u64 start, u64 bytes)
{
	u32 limit = map_limit(), i;

	for (i = 0; i < limit; i++)
		if (map_advised[i].start < start + bytes &&
		    start < map_advised[i].start + map_advised[i].bytes)
			return true;
	return false;
}

bool map_has_advised(u64 start, u64 bytes)
{
	u32 limit = map_limit(), i;

	for (i = 0; i < limit; i++) {
		const struct advised *at = &map_advised[i];

		if (at->start <= start && start + bytes <= at->start + at->bytes)
			return at->ever && !at->hinted;
	}
	return events_pending();
}

void map_child(void)
{
	u32 i;

	for (i = 0; i < map_end_used; i++) {
		const struct advised *at = &map_advised[i];

		if (!at->bytes || at->hinted)
			continue;
		if (at->random)
			call(SYS_madvise, (long)at->start, (long)at->bytes, MADV_NORMAL, 0, 0, 0);
		if (at->huge)
			call(SYS_madvise, (long)at->start, (long)at->bytes, MADV_NOHUGEPAGE, 0, 0,
			     0);
	}
	memset(map_advised, 0, map_end_used * sizeof(*map_advised));
	memset(map_blocks, 0, sizeof(map_blocks));
	map_capacity = map_end_used = map_used = map_areas = 0;
}

/* --- entries --- */

static void map_begin_record(struct map *map)
{
	map->told = record_begin(&(struct steer_map){
		.start = map->start,
		.bytes = map->bytes,
		.offset = map->offset,
		.writable = map->writable,
		.private = !map->shared,
	});
}

static void map_end_record(struct map *map)
{
	record_end(map->told);
	map->told = NULL;
}

/* Until the advisor has looked, no bit is set. */
static void map_end_room(struct map *map)
{
	if (map->room)
		room_give_back(map->seen, map->room, map->advisor.look);
	map->room = 0;
}

static u32 map_extra(u32 pieces)
{
	return pieces ? pieces - 1 : 0;
}

static void map_set_pieces(struct map *map, u32 n)
{
	map_areas += map_extra(n) - map_extra(map->npieces);
	map->npieces = n;
}

void map_drop(struct map *map)
{
	map_end_record(map);
	map_end_room(map);
	map_set_pieces(map, 0);
	map_advised[map->index] = (struct advised){};
	map_used--;
	while (map_end_used && !map_advised[map_end_used - 1].bytes)
		__atomic_store_n(&map_end_used, map_end_used - 1, __ATOMIC_RELEASE);
}

/* Returns an entry with this content. */
static struct map *map_take_entry(const struct map *content)
{
	struct map *map;
	u32 i;

	for (i = 0; i < map_capacity && map_advised[i].bytes; i++)
		;
	if (i == map_capacity)
		return NULL;
	map = &map_blocks[i / MAP_BLOCK]->map[i % MAP_BLOCK];
	*map = *content;
	map->index = i;
	map_areas += map_extra(map->npieces);
	map_used++;
	map_publish(map);
	return map;
}

static void map_give_room_back(const struct event *event)
{
	if (event->room)
		room_give_back(event->room, event->room_bytes, false);
}

static struct map *map_add(u64 start, u64 bytes, u64 offset, const struct event *event)
{
	u64 pages = (start + bytes - map_base(start)) / PAGE_BYTES;
	struct map *map = map_take_entry(&(struct map){
		.start = start,
		.bytes = bytes,
		.base = map_base(start),
		.offset = offset,
		.at = start,
		.seen = event->room,
		.room = event->room_bytes,
		.npieces = 1,
	});

	if (!map) {
		map_give_room_back(event);
		record_missed();
		return NULL;
	}
	hm_advisor_init(&map->advisor, (start - map->base) / PAGE_BYTES, pages,
			(struct hm_region *)((char *)event->room + map_bitmap_bytes(pages)),
			map_advices);
	map->piece[0] = (struct piece){ map->advisor.first, pages, HM_MODE_NORMAL, HM_MODE_NORMAL };
	return map;
}

static u64 map_later(u64 a, u64 b)
{
	return a > b ? a : b;
}

static u64 map_earlier(u64 a, u64 b)
{
	return a < b ? a : b;
}

/* A mapping has become shorter. Forget the pieces and hints outside of its new range. */
static void map_trim(struct map *map)
{
	u64 first = map->advisor.first, end = map->advisor.end;
	u32 i, n;

	for (i = n = 0; i < map->npieces; i++) {
		struct piece p = map->piece[i];

		p.start = map_later(p.start, first);
		p.end = map_earlier(p.end, end);
		if (p.start < p.end)
			map->piece[n++] = p;
	}
	map_set_pieces(map, n);
	for (i = n = 0; i < map->nhints; i++) {
		struct hint h = map->hint[i];

		h.start = map_later(h.start, first);
		h.end = map_earlier(h.end, end);
		if (h.start < h.end)
			map->hint[n++] = h;
	}
	map->nhints = n;
	if (map->told) {
		map->told->start = map->start;
		map->told->bytes = map->bytes;
		map->told->offset = map->offset;
	}
	map_publish(map);
}

/* Reduce a mapping to a range of its addresses, because the rest is gone. */
static void map_keep(struct map *map, u64 start, u64 end)
{
	map->offset += start - map->start;
	map->bytes = end - start;
	map->start = start;
	map->advisor.first = (start - map->base) / PAGE_BYTES;
	map->advisor.end = (end - map->base + PAGE_BYTES - 1) / PAGE_BYTES;
	if (map->at < start || map->at >= end)
		map->at = start;
	map->slice_at = 0;
	map_trim(map);
}

void map_shorten(struct map *map, u64 end)
{
	if (end < map_end(map))
		map_keep(map, map->start, end);
}

/*
 * Stop steering a mapping. Its wanted mode is NORMAL from now on, so act_sync() takes its advice
 * back.
 */
void map_leave(struct map *map)
{
	u32 i;

	map_end_record(map);
	map_end_room(map);
	map->orphan = map->changed = true;
	for (i = 0; i < map->npieces; i++)
		map->piece[i].mode = HM_MODE_NORMAL;
	map_publish(map);
}

/*
 * Stop steering a part of a mapping whose other part stays. The part becomes an orphan of its own.
 */
static void map_leave_part(const struct map *map, u64 start, u64 end)
{
	u64 first = (start - map->base) / PAGE_BYTES, last = (end - map->base) / PAGE_BYTES;
	struct map *part;

	if (start >= end || !map_given(map, first, last))
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

static bool map_lies_in(const struct map *map, u64 start, u64 bytes)
{
	return map->start < start + bytes && start < map_end(map);
}

static void map_unmapped(u64 start, u64 bytes, const struct map *but)
{
	struct map *map;

	for_each_map(map)
		if (map != but && map_lies_in(map, start, bytes))
			map_cut(map, start, start + bytes);
}

/* The call may fail, so its range is remembered with its advice. */
static void map_unmapping(const struct event *event)
{
	struct map *map;

	for_each_map(map)
		if (map->advised && map_lies_in(map, event->start, event->bytes))
			map_removed[map_removals++ % MAP_REMOVED] = (struct removed){
				.id = event->id,
				.start = map_later(event->start, map->start),
				.end = map_earlier(event->start + event->bytes, map_end(map)),
				.map = *map,
			};
	map_unmapped(event->start, event->bytes, NULL);
}

static void map_not_unmapped(const struct event *event)
{
	struct removed *at;

	for (at = map_removed; at < map_removed + MAP_REMOVED; at++) {
		if (at->id != event->id)
			continue;
		map_leave_part(&at->map, at->start, at->end);
		at->id = 0;
	}
}

static struct map *map_mapped(const struct event *event)
{
	struct map *map;

	/* The old place of a mapping that mremap() moves may be in use again before MOVED comes. */
	for_each_map(map)
		if (!map->moving && map_lies_in(map, event->start, event->bytes))
			map_cut(map, event->start, event->start + event->bytes);
	map = map_add(event->start, event->bytes, event->offset, event);
	if (!map)
		return NULL;
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

	for_each_map(map)
		if (map->moving && map->start <= address && address < map_end(map))
			return map;
	return NULL;
}

static void map_moving(const struct event *event, bool moving)
{
	struct map *map;

	for_each_map(map) {
		if (!map_lies_in(map, event->start, event->bytes))
			continue;
		map->moving = moving;
		map->changed = true;
	}
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
	memcpy(new->piece, old->piece, sizeof(new->piece));
	memcpy(new->hint, old->hint, sizeof(new->hint));
	map_set_pieces(new, old->npieces);
	new->nhints = old->nhints;
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

static void map_moved(const struct event *event)
{
	struct map *map = map_moving_at(event->start), *new;

	map_moving(event, false);
	map_unmapped(event->to, event->to_bytes, map);
	if (!map || map->orphan) {
		if (map)
			map_cut(map, event->start, event->start + event->bytes);
		else
			/* The event before was lost. */
			map_recover(false);
		map_give_room_back(event);
		return;
	}
	new = map_add(event->to, event->to_bytes, map->offset + (event->start - map->start), event);
	if (new) {
		new->shared = map->shared;
		new->writable = map->writable;
		new->huge_works = map->huge_works;
		new->advisor.facts = map->advisor.facts;
		map_begin_record(new);
		map_take_pieces(new, map, event->start);
		if (event->bytes < map->bytes)
			map_leave(new);
	}
	if (event->flags & MREMAP_DONTUNMAP)
		return;
	if (map->start <= event->start && event->bytes >= map->bytes)
		map_drop(map);
	else
		map_cut(map, event->start, event->start + event->bytes);
}

/* --- modes --- */

/*
 * Append a piece, or extend the last one if its modes are equal. Return false if there is no room.
 */
static bool map_append(struct piece *pieces, u32 *n, struct piece piece)
{
	struct piece *last = &pieces[*n - 1];

	if (piece.start >= piece.end)
		return true;
	if (*n && last->mode == piece.mode && last->given == piece.given &&
	    last->end == piece.start) {
		last->end = piece.end;
		return true;
	}
	if (*n == MAP_PIECES)
		return false;
	pieces[(*n)++] = piece;
	return true;
}

/*
 * Set the wanted mode of a range. Returns false, and changes nothing, if there would be too many
 * pieces.
 */
static bool map_split(struct map *map, u64 start, u64 end, enum hm_mode mode)
{
	struct piece pieces[MAP_PIECES];
	u32 n = 0, i;

	for (i = 0; i < map->npieces; i++) {
		const struct piece *p = &map->piece[i];
		u64 from = map_later(p->start, map_earlier(start, p->end));
		u64 to = map_earlier(p->end, map_later(end, from));

		if (!map_append(pieces, &n, (struct piece){ p->start, from, p->mode, p->given }) ||
		    !map_append(pieces, &n, (struct piece){ from, to, mode, p->given }) ||
		    !map_append(pieces, &n, (struct piece){ to, p->end, p->mode, p->given }))
			return false;
	}
	if (n > map->npieces && map_areas + n - map->npieces > MAP_AREAS)
		return false;
	memcpy(map->piece, pieces, n * sizeof(*pieces));
	map_set_pieces(map, n);
	map->changed = true;
	return true;
}

void map_set_mode(struct map *map, u64 start, u64 end, enum hm_mode mode)
{
	u64 from = start;

	while (from < end) {
		u64 to = end;
		u32 i;

		for (i = 0; i < map->nhints; i++) {
			const struct hint *h = &map->hint[i];

			if (h->start <= from && from < h->end) {
				from = h->end;
				break;
			}
			if (from < h->start && h->start < to)
				to = h->start;
		}
		if (i < map->nhints)
			continue;
		map_split(map, from, to, mode);
		from = to;
	}
}

/* --- hints --- */

bool map_hinted(const struct map *map, u64 start, u64 end)
{
	u32 i;

	for (i = 0; i < map->nhints; i++)
		if (map->hint[i].start < end && start < map->hint[i].end)
			return true;
	return false;
}

/* Treat the whole mapping as hinted, so that the monitor gives no advice in it. */
static void map_hint_all(struct map *map)
{
	map->nhints = 1;
	map->hint[0] = (struct hint){ map->advisor.first, map->advisor.end, 0, false };
	map_split(map, map->advisor.first, map->advisor.end, HM_MODE_NORMAL);
}

static void map_add_hint(struct map *map, struct hint hint)
{
	if (map->nhints == MAP_HINTS)
		map_hint_all(map);
	else
		map->hint[map->nhints++] = hint;
}

/* Remove a range from all hints of a mapping. */
static void map_remove_hints(struct map *map, u64 start, u64 end)
{
	struct hint old[MAP_HINTS];
	u32 n = map->nhints, i;

	memcpy(old, map->hint, sizeof(old));
	map->nhints = 0;
	for (i = 0; i < n; i++) {
		struct hint head = old[i], tail = old[i];

		head.end = map_earlier(head.end, start);
		tail.start = map_later(tail.start, end);
		if (head.start < head.end)
			map_add_hint(map, head);
		if (tail.start < tail.end)
			map_add_hint(map, tail);
	}
}

static void map_hint(const struct event *event)
{
	u64 end = event->start + event->bytes, from, to;
	struct map *map;

	for_each_map(map) {
		if (map->start >= end || event->start >= map_end(map) || map->orphan)
			continue;
		from = (map_later(event->start, map->start) - map->base) / PAGE_BYTES;
		to = (map_earlier(end, map_end(map)) - map->base + PAGE_BYTES - 1) / PAGE_BYTES;
		map_remove_hints(map, from, to);
		/* Without a piece for the hint, all of the mapping is left to the kernel. */
		if (!map_split(map, from, to, HM_MODE_NORMAL))
			map_split(map, map->advisor.first, map->advisor.end, HM_MODE_NORMAL);
		if (event->advice != MADV_NORMAL)
			map_add_hint(map, (struct hint){ from, to, event->advice, map->advised });
		map->changed = true;
		if (map->nhints && map->told)
			map->told->pattern = STEER_HINTED;
		map_publish(map);
	}
}

struct map *map_follow(const struct event *event)
{
	switch (event->kind) {
	case EVENT_MAPPED:
		return map_mapped(event);
	case EVENT_UNMAPPING:
		map_unmapping(event);
		break;
	case EVENT_NOT_UNMAPPED:
		map_not_unmapped(event);
		break;
	case EVENT_MOVING:
	case EVENT_STAYED:
		map_moving(event, event->kind == EVENT_MOVING);
		break;
	case EVENT_MOVED:
		map_moved(event);
		break;
	case EVENT_HINT:
		map_hint(event);
		break;
	}
	return NULL;
}

/*
 * Compare a mapping with /proc/self/maps. There is no area between ->checked and @upto; @area, if
 * it is not NULL, is the next one.
 */
static void map_compare(struct map *map, const struct area *area, u64 upto)
{
	u64 from = map_later(map->checked, map->start), to = map_earlier(upto, map_end(map));

	if (from < to)
		map_cut(map, from, to);
	map->checked = upto;
	if (!area || !map->start || area->end <= map->start || map_end(map) <= area->start)
		return;
	if (!area->ino || area->offset - area->start != map->offset - map->start)
		map_cut(map, map_later(area->start, map->start),
			map_earlier(area->end, map_end(map)));
	map->checked = area->end;
}

void map_recover(bool hints)
{
	struct reader reader;
	struct area area;
	struct map *map;

	for_each_map(map) {
		map->moving = false;
		map->changed = true;
		map->checked = 0;
		if (hints && !map->orphan)
			map_hint_all(map);
	}
	if (!area_open(&reader))
		return;
	while (area_next(&reader, &area))
		for_each_map(map)
			map_compare(map, &area, area.start);
	reader_close(&reader);
	for_each_map(map)
		map_compare(map, NULL, UINT64_MAX);
}
