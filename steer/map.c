// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "map.h"

#include "call.h"
#include "room.h"
#include "uapi.h"
#include "record.h"
#include "state.h"

#include <string.h>

void *map_memory_at;

static struct map_block *map_blocks[MAP_MOST / MAP_BLOCK];
static u32 map_capacity; /* entries in these blocks */
static u32 map_end_used; /* all entries from here on are free */
static u32 map_used; /* entries that are not free */
static u32 map_published; /* calls of map_publish() */
static u32 map_areas; /* pieces of all mappings, but for the first piece of each */

u32 map_limit(void)
{
	return __atomic_load_n(&map_end_used, __ATOMIC_ACQUIRE);
}

struct map *map_entry(u32 i)
{
	return map_memory()->advised[i].bytes ? &map_blocks[i / MAP_BLOCK]->map[i % MAP_BLOCK] :
						NULL;
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

struct map *map_next_in(u32 from, u64 start, u64 end)
{
	u32 limit = map_limit();

	for (; from < limit; from++)
		if (map_memory()->advised[from].start < end &&
		    start < map_memory()->advised[from].start + map_memory()->advised[from].bytes)
			return &map_blocks[from / MAP_BLOCK]->map[from % MAP_BLOCK];
	return NULL;
}

u32 map_count(void)
{
	return map_used;
}

u32 map_count_in(u64 start, u64 end)
{
	u32 limit = map_limit(), n = 0, i;

	for (i = 0; i < limit; i++) {
		/* The monitor may clear the entry at any time. */
		struct advised at = map_memory()->advised[i];

		n += at.start < end && start < at.start + at.bytes;
	}
	return n;
}

bool map_has_entries(u32 n)
{
	return __atomic_load_n(&map_used, __ATOMIC_SEQ_CST) + events_backlog() + n <=
	       __atomic_load_n(&map_capacity, __ATOMIC_SEQ_CST);
}

bool map_is_full(u32 n)
{
	return !map_has_entries(n) && __atomic_load_n(&map_capacity, __ATOMIC_SEQ_CST) < MAP_MOST;
}

bool map_add_block(struct map_block *block)
{
	struct map_block *none;
	u32 i;

	if (!room_map_once(&map_memory_at, sizeof(struct map_memory)))
		return false;
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

/* The part of the memory that the monitor always uses: @seen and the regions. */
static size_t map_written_room(u64 pages)
{
	return map_bitmap_bytes(pages) + (pages / REGION_PAGES + 1) * sizeof(struct hm_region);
}

/* The memory ends with @before and @hot. The kernel allocates its pages on first use. */
size_t map_room(u64 start, u64 bytes)
{
	u64 pages = (start + bytes - map_base(start)) / PAGE_BYTES;
	size_t room = map_written_room(pages) + 2 * map_bitmap_bytes(pages);

	return (room + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

/* --- for other threads --- */

/*
 * Each further mapping adds at most two regions, 72 bytes of each bitmap and the rest of a page to
 * the room of one mapping of the same length.
 */
#define MAP_ROOM_MORE (2 * PAGE_BYTES)
_Static_assert(2 * sizeof(struct hm_region) + 3 * 72 <= PAGE_BYTES, "see MAP_ROOM_MORE");

size_t map_rooms(u64 start, u64 end, u64 to, u64 to_bytes)
{
	u32 n = map_count_in(start, end);

	return n > 1 ? map_room(to, to_bytes) + (n - 1) * MAP_ROOM_MORE : 0;
}

enum hm_mode map_given(const struct map *map, u64 start, u64 end)
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
	bool due = map->nhints == 1 && map_hint_is_due(map);

	map_memory()->advised[map->index] = (struct advised){
		.start = map->start,
		.bytes = map->bytes,
		.hinted = map->nhints && !due,
		.moving = map->moving,
		.replaced = due ? map->hint[0].advice : map->replaced,
		.ever = map->advised,
		.random = given & HM_MODE_RANDOM,
		.huge = given & HM_MODE_HUGE,
	};
	if (map->index >= map_end_used)
		__atomic_store_n(&map_end_used, map->index + 1, __ATOMIC_RELEASE);
	__atomic_add_fetch(&map_published, 1, __ATOMIC_SEQ_CST);
}

u32 map_changes(void)
{
	return __atomic_load_n(&map_published, __ATOMIC_SEQ_CST);
}

bool map_overlaps(u64 start, u64 bytes)
{
	return map_next_in(0, start, start + bytes);
}

/* Add a part, unless it is there already. */
static void map_add_part(struct map_parts *parts, struct map_part part)
{
	struct map_part *at = parts->part;

	while (at < parts->part + parts->n && (at->start != part.start || at->end != part.end))
		at++;
	if (at == parts->part + parts->n && parts->n < MAP_PARTS) {
		parts->part[parts->n++] = part;
		return;
	}
	if (at == parts->part + MAP_PARTS)
		at--;
	at->start = map_earlier(at->start, part.start);
	at->end = map_later(at->end, part.end);
	at->advised |= part.advised;
}

void map_find_parts(struct map_parts *parts, u64 start, u64 end)
{
	u32 limit = map_limit(), i;
	bool within = false;

	for (i = 0; i < limit; i++) {
		/* The monitor may clear the entry at any time. */
		struct advised at = map_memory()->advised[i];
		u64 last = at.start + at.bytes;

		if (at.start >= end || start >= last)
			continue;
		within |= at.start <= start && end <= last;
		if (!at.hinted)
			map_add_part(parts, (struct map_part){ map_later(start, at.start),
							       map_earlier(end, last), at.ever });
	}
	/* Events that no monitor took bring none: steer_remap() and others took the advice back. */
	if (!within && !state_is(STOPPED) && events_bring_advice())
		map_add_part(parts, (struct map_part){ start, end, true });
}

bool map_find_advised(u64 start, u64 end, u64 *advised, u64 *bytes)
{
	u32 limit = map_limit(), i;
	bool overlaps = false;

	for (i = 0; i < limit; i++) {
		/* The monitor may clear the entry at any time. */
		struct advised at = map_memory()->advised[i];

		if (at.start >= end || start >= at.start + at.bytes)
			continue;
		overlaps = true;
		if (!at.ever || at.hinted)
			continue;
		*advised = map_later(start, at.start);
		*bytes = map_earlier(end, at.start + at.bytes) - *advised;
		break;
	}
	return overlaps;
}

/*
 * The parent may have unmapped or moved a mapping just before fork(), and mapped other memory there,
 * while the event waits, or MOVED is not put yet. So this range keeps its advice: the advice of the
 * program in the new memory must not be lost.
 */
static void map_child_take_back(const struct advised *at)
{
	/* The last test is a pass over the ring. */
	if (at->hinted || at->moving || !(at->random || at->huge || at->replaced) ||
	    events_inherited(at->start, at->start + at->bytes))
		return;
	if (at->random)
		call(SYS_madvise, (long)at->start, (long)at->bytes, MADV_NORMAL, 0, 0, 0);
	if (at->huge)
		call(SYS_madvise, (long)at->start, (long)at->bytes, MADV_NOHUGEPAGE, 0, 0, 0);
	if (at->replaced)
		call(SYS_madvise, (long)at->start, (long)at->bytes, at->replaced, 0, 0, 0);
}

void map_child(void)
{
	u32 i;

	for (i = 0; i < map_end_used; i++)
		if (map_memory()->advised[i].bytes)
			map_child_take_back(&map_memory()->advised[i]);
	if (map_end_used)
		memset(map_memory()->advised, 0, map_end_used * sizeof(struct advised));
	/* The table may be empty while another thread of the parent moves memory. */
	if (map_memory() && (map_memory()->nlate || map_memory()->nmoves))
		map_memory()->nlate = map_memory()->nmoves = 0;
	memset(map_blocks, 0, sizeof(map_blocks));
	map_capacity = map_end_used = map_used = map_areas = 0;
}

/* --- entries --- */

void map_begin_record(struct map *map)
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
	/* The program has unmapped it before the monitor knew its file: it was not steered. */
	if (map->unsettled && map->told)
		map->told->id = 0;
	record_end(map->told);
	map->told = NULL;
}

/* Until the first scan has found pages, no bit is set. */
static void map_end_room(struct map *map)
{
	size_t written = map->hot_used ? map->room :
			 map->looked   ? (size_t)((char *)map->before - (char *)map->seen) :
					 0;

	if (map->room)
		room_give_back(map->seen, map->room, written);
	map->room = 0;
}

static u32 map_extra(u32 pieces)
{
	return pieces ? pieces - 1 : 0;
}

void map_set_pieces(struct map *map, u32 n)
{
	map_areas += map_extra(n) - map_extra(map->npieces);
	map->npieces = n;
}

bool map_may_split(u32 more)
{
	return map_areas + more <= MAP_AREAS;
}

void map_drop(struct map *map)
{
	map_end_record(map);
	map_end_room(map);
	map_set_pieces(map, 0);
	map_memory()->advised[map->index] = (struct advised){};
	map_used--;
	if (!map_used)
		map_memory()->nlate = map_memory()->nmoves = 0;
	while (map_end_used && !map_memory()->advised[map_end_used - 1].bytes)
		__atomic_store_n(&map_end_used, map_end_used - 1, __ATOMIC_RELEASE);
}

struct map *map_take_entry(const struct map *content)
{
	struct map *map;
	u32 i;

	for (i = 0; i < map_capacity && map_memory()->advised[i].bytes; i++)
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

void map_give_room_back(const struct event *event)
{
	if (event->room)
		room_give_back(event->room, event->room_bytes, 0);
}

struct map *map_add(u64 start, u64 bytes, u64 offset, const struct event *event)
{
	u64 pages = (start + bytes - map_base(start)) / PAGE_BYTES;
	unsigned long *before = (void *)((char *)event->room + map_written_room(pages));
	struct map *map = map_take_entry(&(struct map){
		.start = start,
		.bytes = bytes,
		.base = map_base(start),
		.offset = offset,
		.at = start,
		.seen = event->room,
		.before = before,
		.hot = before + map_bitmap_bytes(pages) / sizeof(*before),
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
			map_memory()->advices);
	map->piece[0] = (struct piece){ map->advisor.first, pages, HM_MODE_NORMAL, HM_MODE_NORMAL };
	return map;
}

void map_trim(struct map *map)
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

void map_keep(struct map *map, u64 start, u64 end)
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

static void map_reset_modes(struct map *map)
{
	u32 i;

	for (i = 0; i < map->npieces; i++)
		map->piece[i].mode = HM_MODE_NORMAL;
}

void map_restore_hint(struct map *map)
{
	if (!map->replaced)
		return;
	map->hint[0] = (struct hint){ .start = map->advisor.first,
				      .end = map->advisor.end,
				      .advice = map->replaced,
				      .again = true };
	map->nhints = 1;
	map->replaced = 0;
	map_reset_modes(map);
	map->changed = true;
}

/*
 * Stop steering a mapping. Its wanted mode is NORMAL from now on, so act_sync() takes its advice
 * back.
 */
void map_leave(struct map *map)
{
	map_end_record(map);
	map_end_room(map);
	map->orphan = map->changed = true;
	map_restore_hint(map);
	map_reset_modes(map);
	map_publish(map);
}
