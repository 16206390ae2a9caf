// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* The table of mappings, as events change it. */
#include "map.h"

#include "act.h"
#include "call.h"
#include "uapi.h"

#include <fcntl.h>

#define REGION_BYTES ((u64)HM_BLOCK_SIZE)

struct map steer_maps[STEER_PAGE_MAPS];

/* Only one mapping is looked at, at any time. */
static struct hm_advice advices[HM_ADVICES];

/* From there on: the next entry that is used. */
static struct map *next_map(struct map *map)
{
	while (map < steer_maps + STEER_PAGE_MAPS && !map->start)
		map++;
	return map < steer_maps + STEER_PAGE_MAPS ? map : NULL;
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

void map_hold(struct map *map, int fd)
{
	map->fd = fd;
	__atomic_add_fetch(&steer_held, 1, __ATOMIC_SEQ_CST);
}

void map_let_go(struct map *map)
{
	if (map->fd < 0)
		return;
	call(SYS_close, map->fd, 0, 0, 0, 0, 0);
	map->fd = -1;
	__atomic_sub_fetch(&steer_held, 1, __ATOMIC_SEQ_CST);
}

/* Bits for pages, then the regions; of memory that is zero until it is used. */
static bool take_room(struct map *map)
{
	u64 pages = (map->start + map->bytes - map->base) / HM_PAGE_SIZE;
	size_t bits = (pages + 63) / 64 * 8;
	size_t regions = (pages / HM_BLOCK_PAGES + 1) * sizeof(struct hm_region);
	long room;

	map->room = (bits + regions + HM_PAGE_SIZE - 1) / HM_PAGE_SIZE * HM_PAGE_SIZE;
	room = call(SYS_mmap, 0, (long)map->room, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (room < 0 && room > -4096)
		return false;
	/* A child of fork() has no watcher that could use it. */
	call(SYS_madvise, room, (long)map->room, MADV_DONTFORK, 0, 0, 0);
	map->seen = (unsigned long *)room;
	map->advisor = (struct hm_advisor){ .writable = map->writable };
	hm_advisor_init(&map->advisor, (map->start - map->base) / HM_PAGE_SIZE, pages,
			(struct hm_region *)((char *)room + bits), advices);
	map->piece[0] = (struct piece){ map->advisor.first, pages, HM_MODE_NORMAL };
	map->npieces = 1;
	return true;
}

static void drop(struct map *map)
{
	act_end(map);
	map_let_go(map);
	if (map->seen)
		call(SYS_munmap, (long)map->seen, (long)map->room, 0, 0, 0, 0);
	map->start = 0;
	map->seen = NULL;
}

void maps_clear(void)
{
	struct map *map;

	for_each_map(map) {
		act_take_back(map);
		drop(map);
	}
}

void maps_rest(void)
{
	struct map *map;

	for_each_map(map) {
		act_take_back(map);
		map_let_go(map);
		map->number = -1;
	}
}

static struct map *add(u64 start, u64 bytes, u64 offset, const struct map *like)
{
	struct map *map;

	for (map = steer_maps; map < steer_maps + STEER_PAGE_MAPS && map->start; map++)
		;
	if (map == steer_maps + STEER_PAGE_MAPS)
		return NULL;
	*map = (struct map){
		.start = start,
		.bytes = bytes,
		.base = start - start % REGION_BYTES,
		.offset = offset,
		.fd = -1,
		.number = -1,
		.before = ~0ull,
	};
	if (like) {
		map->shared = like->shared;
		map->writable = like->writable;
		map->heap = like->heap;
		map->settled = true;
		map->before = like->before == 0 ? 0 : ~0ull;
		if (like->fd >= 0) {
			long fd = call(SYS_fcntl, like->fd, F_DUPFD_CLOEXEC, 0, 0, 0, 0);

			if (fd >= 0)
				map_hold(map, (int)fd);
		}
	}
	if (!take_room(map)) {
		map->start = 0;
		return NULL;
	}
	return map;
}

/*
 * A child of fork() has the parent's table, in whatever state it was, and the parent's
 * advice: that goes, as there is nobody who would take it back when it is wrong.
 */
void maps_child(void)
{
	struct map *map;

	for_each_map(map) {
		bool huge = false, random = false;
		u32 i;

		for (i = 0; i < map->npieces && i < MAP_PIECES; i++) {
			enum hm_mode mode = map->piece[i].mode;

			huge |= mode == HM_MODE_HUGE || mode == HM_MODE_CHUNK;
			random |= mode == HM_MODE_RANDOM || mode == HM_MODE_CHUNK;
		}
		if (map->nhints)
			continue; /* the program's own advice may lie among it */
		if (random)
			call(SYS_madvise, (long)map->start, (long)map->bytes, MADV_NORMAL, 0, 0, 0);
		if (huge)
			call(SYS_madvise, (long)map->start, (long)map->bytes, MADV_NOHUGEPAGE, 0, 0,
			     0);
	}
	memset(steer_maps, 0, sizeof(steer_maps));
	steer_held = 0;
}

/* What is left of a mapping begins anew: nothing is known of it but its advice. */
static void cut(struct map *map, u64 start, u64 end)
{
	struct map old = *map;
	u64 last = old.start + old.bytes;

	if (start > old.start && (start - old.start) >= REGION_BYTES)
		add(old.start, start - old.start, old.offset, &old);
	if (end < last && last - end >= REGION_BYTES)
		add(end, last - end, old.offset + (end - old.start), &old);
	drop(map);
}

static void unmapped(u64 start, u64 bytes)
{
	u64 end = start + bytes;
	struct map *map;

	for_each_map(map)
		if (map->start < end && start < map->start + map->bytes)
			cut(map, start, end);
}

static void mapped(const struct event *event)
{
	struct map *map;

	unmapped(event->start, event->bytes);
	map = add(event->start, event->bytes, event->offset, NULL);
	if (!map) {
		act_missed();
		return;
	}
	map->shared = event->flags & MAP_SHARED;
	map->writable = event->prot & PROT_WRITE;
	/* Stores to a private mapping never reach the file. */
	map->advisor.writable = map->writable && map->shared;
	map->hold = steer_would_hold(event->prot, event->flags, event->bytes);
	map->number = event->fd;
	map->until = event->until;
	act_begin(map);
}

static void moved(const struct event *event)
{
	struct map *map, old;

	for_each_map(map) {
		if (event->start < map->start || event->start >= map->start + map->bytes)
			continue;
		old = *map;
		if (old.fd >= 0)
			old.fd = (int)call(SYS_fcntl, old.fd, F_DUPFD_CLOEXEC, 0, 0, 0, 0);
		unmapped(event->start, event->bytes);
		unmapped(event->to, event->to_bytes);
		map = add(event->to, event->to_bytes, old.offset + (event->start - old.start),
			  &old);
		if (old.fd >= 0)
			call(SYS_close, old.fd, 0, 0, 0, 0, 0);
		if (map)
			act_begin(map);
		return;
	}
	unmapped(event->to, event->to_bytes);
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
		from = (from - map->base) / HM_PAGE_SIZE;
		to = (to - map->base + HM_PAGE_SIZE - 1) / HM_PAGE_SIZE;
		remove_hints(map, from, to);
		if (event->advice != MADV_NORMAL)
			add_hint(map, from, to);
		/* Whatever we had advised there is the program's now. */
		act_hinted(map, from, to, event->advice);
	}
}

void maps_follow(const struct event *event)
{
	switch (event->kind) {
	case EVENT_MAPPED:
		mapped(event);
		break;
	case EVENT_UNMAPPING:
		unmapped(event->start, event->bytes);
		break;
	case EVENT_MOVED:
		moved(event);
		break;
	case EVENT_HINT:
		hint(event);
		break;
	}
}
