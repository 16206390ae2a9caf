// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* The table of mappings, as events change it. */
#include "map.h"

#include "act.h"
#include "call.h"
#include "uapi.h"

#include <fcntl.h>
#include <string.h>

struct map *steer_maps;
struct advised steer_advised[STEER_PAGE_MAPS];
static u32 advised_top; /* no more were ever used */

/* Only one mapping is looked at, at any time. */
static struct hm_advice advices[HM_ADVICES];

/* From there on: the next entry that is used. */
static struct map *next_map(struct map *map)
{
	while (steer_maps && map < steer_maps + STEER_PAGE_MAPS && !map->start)
		map++;
	return steer_maps && map < steer_maps + STEER_PAGE_MAPS ? map : NULL;
}

#define for_each_map(map) for ((map) = next_map(steer_maps); (map); (map) = next_map((map) + 1))

u32 maps_count(void)
{
	struct map *map;
	u32 n = 0;

	for_each_map(map)
		n++;
	return n;
}

u32 steer_held;

/*
 * First it is said that a file is held, then looked whether that is in time, then taken.
 * Whoever made the mapping looks the other way round: at the count, when its time is over.
 */
void map_hold(struct map *map, int pidfd)
{
	__atomic_add_fetch(&steer_held, 1, __ATOMIC_SEQ_CST);
	if (now_ns() < map->until)
		map->file.fd = (int)call(SYS_pidfd_getfd, pidfd, map->number, 0, 0, 0, 0);
	map->number = -1;
	if (map->file.fd < 0) {
		map->file.fd = -1;
		__atomic_sub_fetch(&steer_held, 1, __ATOMIC_SEQ_CST);
	}
}

void map_let_go(struct map *map)
{
	if (map->file.fd < 0)
		return;
	call(SYS_close, map->file.fd, 0, 0, 0, 0, 0);
	map->file.fd = -1;
	__atomic_sub_fetch(&steer_held, 1, __ATOMIC_SEQ_CST);
}

static u64 base_of(u64 start)
{
	return start - start % REGION_BYTES;
}

static size_t bitmap_bytes(u64 pages)
{
	return (pages + 63) / 64 * 8;
}

/* Bits for pages, then the regions; of memory that is zero until it is used. */
size_t map_room(u64 start, u64 bytes)
{
	u64 pages = (start + bytes - base_of(start)) / PAGE_BYTES;
	size_t room = bitmap_bytes(pages) + (pages / REGION_PAGES + 1) * sizeof(struct hm_region);

	return (room + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

void map_advised(const struct map *map)
{
	u32 at = (u32)(map - steer_maps), i;
	struct advised now = { .start = map->start, .bytes = map->bytes, .hinted = map->nhints };

	for (i = 0; i < map->npieces; i++) {
		enum hm_mode mode = map->piece[i].mode;

		now.huge |= mode == HM_MODE_HUGE || mode == HM_MODE_CHUNK;
		now.random |= mode == HM_MODE_RANDOM || mode == HM_MODE_CHUNK;
	}
	steer_advised[at] = now;
	if (at >= advised_top)
		__atomic_store_n(&advised_top, at + 1, __ATOMIC_RELEASE);
}

/* Others' advice, for other memory by now perhaps, is harmless. */
void maps_child(void)
{
	u32 i;

	for (i = 0; i < advised_top; i++) {
		const struct advised *at = &steer_advised[i];

		if (!at->bytes || at->hinted)
			continue;
		if (at->random)
			call(SYS_madvise, (long)at->start, (long)at->bytes, MADV_NORMAL, 0, 0, 0);
		if (at->huge)
			call(SYS_madvise, (long)at->start, (long)at->bytes, MADV_NOHUGEPAGE, 0, 0,
			     0);
	}
	memset(steer_advised, 0, advised_top * sizeof(*steer_advised));
	advised_top = 0;
	steer_maps = NULL;
	steer_held = 0;
}

static void drop(struct map *map)
{
	act_end(map);
	map_let_go(map);
	call(SYS_munmap, (long)map->seen, (long)map->room, 0, 0, 0, 0);
	map->start = 0;
	steer_advised[map - steer_maps] = (struct advised){};
}

void maps_clear(bool take_back)
{
	struct map *map;

	for_each_map(map) {
		if (take_back)
			act_take_back(map);
		drop(map);
	}
}

static struct map *add(u64 start, u64 bytes, u64 offset, const struct event *event)
{
	struct map *map;
	u64 pages;

	for (map = steer_maps; map < steer_maps + STEER_PAGE_MAPS && map->start; map++)
		;
	if (map == steer_maps + STEER_PAGE_MAPS) {
		call(SYS_munmap, (long)event->room, (long)event->room_bytes, 0, 0, 0, 0);
		act_missed();
		return NULL;
	}
	*map = (struct map){
		.start = start,
		.bytes = bytes,
		.base = base_of(start),
		.offset = offset,
		.file.fd = -1,
		.number = -1,
		.seen = event->room,
		.room = event->room_bytes,
	};
	pages = (start + bytes - map->base) / PAGE_BYTES;
	hm_advisor_init(&map->advisor, (start - map->base) / PAGE_BYTES, pages,
			(struct hm_region *)((char *)event->room + bitmap_bytes(pages)), advices);
	map->piece[0] = (struct piece){ map->advisor.first, pages, HM_MODE_NORMAL };
	map->npieces = 1;
	return map;
}

/* Pieces and hints that lie outside of what is left go. */
static void trim(struct map *map)
{
	u64 first = map->advisor.first, end = map->advisor.end;
	u32 i, n;

	for (i = n = 0; i < map->npieces; i++) {
		struct piece p = map->piece[i];

		p.start = p.start < first ? first : p.start;
		p.end = p.end > end ? end : p.end;
		if (p.start < p.end)
			map->piece[n++] = p;
	}
	map->npieces = n;
	for (i = n = 0; i < map->nhints; i++) {
		struct hint h = map->hint[i];

		h.start = h.start < first ? first : h.start;
		h.end = h.end > end ? end : h.end;
		if (h.start < h.end)
			map->hint[n++] = h;
	}
	map->nhints = n;
	if (map->told) {
		map->told->start = map->start;
		map->told->bytes = map->bytes;
		map->told->offset = map->offset;
	}
	map_advised(map);
}

/* Of a mapping that is cut the larger part stays; of the other one all is forgotten. */
static void cut(struct map *map, u64 start, u64 end)
{
	u64 last = map->start + map->bytes;
	u64 head = start > map->start ? start - map->start : 0;
	u64 tail = end < last ? last - end : 0;

	if (head < REGION_BYTES && tail < REGION_BYTES) {
		drop(map);
	} else if (head >= tail) {
		map->bytes = head;
		map->advisor.end = (start - map->base) / PAGE_BYTES;
		trim(map);
	} else {
		map->offset += end - map->start;
		map->start = end;
		map->bytes = tail;
		map->advisor.first = (end - map->base) / PAGE_BYTES;
		trim(map);
	}
}

static void unmapped(u64 start, u64 bytes, const struct map *but)
{
	u64 end = start + bytes;
	struct map *map;

	for_each_map(map)
		if (map != but && map->start < end && start < map->start + map->bytes)
			cut(map, start, end);
}

static struct map *mapped(const struct event *event)
{
	struct map *map;

	unmapped(event->start, event->bytes, NULL);
	map = add(event->start, event->bytes, event->offset, event);
	if (!map)
		return NULL;
	map->file.shared = event->flags & MAP_SHARED;
	map->file.writable = event->prot & PROT_WRITE;
	/* Stores to a private mapping never reach the file. */
	map->advisor.facts.writable = map->file.writable && map->file.shared;
	map->hold = steer_would_hold(event->prot, event->flags, event->bytes);
	map->number = event->fd;
	map->until = event->until;
	act_begin(map);
	return map;
}

/* What was advised moves along: it is taken back, and all begins anew. */
static void moved(const struct event *event)
{
	struct map *map, *new;

	for_each_map(map)
		if (event->start >= map->start && event->start < map->start + map->bytes)
			break;
	unmapped(event->to, event->to_bytes, map);
	if (!map || event->bytes < map->bytes) {
		unmapped(event->start, event->bytes, NULL);
		call(SYS_munmap, (long)event->room, (long)event->room_bytes, 0, 0, 0, 0);
		return;
	}
	new = add(event->to, event->to_bytes, map->offset + (event->start - map->start), event);
	if (new) {
		new->file = map->file;
		map->file.fd = -1;
		new->advisor.facts = map->advisor.facts;
		act_begin(new);
		act_moved(new, map);
	}
	drop(map);
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

static void add_hint(struct map *map, u64 start, u64 end)
{
	if (map->nhints == MAP_HINTS) {
		/* Too many to remember: all of it is the program's. */
		map->nhints = 1;
		map->hint[0] = (struct hint){ map->advisor.first, map->advisor.end };
		return;
	}
	map->hint[map->nhints++] = (struct hint){ start, end };
}

/* Those parts of hints that lie in a range go. */
static void remove_hints(struct map *map, u64 start, u64 end)
{
	struct hint old[MAP_HINTS];
	u32 n = map->nhints, i;

	memcpy(old, map->hint, sizeof(old));
	map->nhints = 0;
	for (i = 0; i < n; i++) {
		if (old[i].end <= start || end <= old[i].start) {
			add_hint(map, old[i].start, old[i].end);
			continue;
		}
		if (old[i].start < start)
			add_hint(map, old[i].start, start);
		if (end < old[i].end)
			add_hint(map, end, old[i].end);
	}
}

static void hint(const struct event *event)
{
	u64 end = event->start + event->bytes;
	struct map *map;

	for_each_map(map) {
		u64 from, to;

		if (map->start >= end || event->start >= map->start + map->bytes)
			continue;
		from = event->start > map->start ? event->start : map->start;
		to = end < map->start + map->bytes ? end : map->start + map->bytes;
		from = (from - map->base) / PAGE_BYTES;
		to = (to - map->base + PAGE_BYTES - 1) / PAGE_BYTES;
		remove_hints(map, from, to);
		if (event->advice != MADV_NORMAL)
			add_hint(map, from, to);
		/* Whatever we had advised there is the program's now. */
		act_hinted(map, from, to, event->advice);
	}
}

struct map *maps_follow(const struct event *event)
{
	switch (event->kind) {
	case EVENT_MAPPED:
		return mapped(event);
	case EVENT_UNMAPPING:
		unmapped(event->start, event->bytes, NULL);
		break;
	case EVENT_MOVED:
		moved(event);
		break;
	case EVENT_HINT:
		hint(event);
		break;
	}
	return NULL;
}
