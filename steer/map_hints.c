// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Events of hints, and their effect on the table of mappings. */
#include "map.h"

#include <string.h>

/*
 * The program gives a hint for a range. A hint that the monitor has replaced counts again, except
 * in the range if both have the same kind.
 */
static void map_end_replacement(struct map *map, int advice, u64 from, u64 to)
{
	bool whole = from <= map->advisor.first && to >= map->advisor.end;
	const struct hint *old = map_whole_hint(map);

	map->hint_kinds |= hint_kind(advice);
	/* A program may repeat its hint often. */
	if (!whole || !old || old->advice != advice)
		map->hint_use = (struct hint_use){};
	if (!whole || hint_kind(map->replaced) != hint_kind(advice))
		map_restore_hint(map);
	map->replaced = 0;
}

/*
 * MADV_NORMAL ends the hints of a range, so the policy's mode counts there again. The kernel may not
 * have the advice that the monitor has given before. So all of it is taken back first, and given
 * again when accesses confirm the mode.
 */
static void map_end_hints(struct map *map, u64 from, u64 to)
{
	map_set_mode(map, from, to, map->advisor.mode);
	map->suspended = true;
}

static void map_take_hint(struct map *map, const struct late_hint *hint)
{
	u64 from = (map_later(hint->start, map->start) - map->base) / PAGE_BYTES;
	u64 end = map_earlier(hint->end, map_end(map)) - map->base;
	u64 to = (end + PAGE_BYTES - 1) / PAGE_BYTES;

	map_end_replacement(map, hint->advice, from, to);
	map_remove_hints(map, from, to, hint_kind(hint->advice));
	/* Without a piece for the hint, all of the mapping is left to the kernel. */
	if (!map_split(map, from, to, HM_MODE_NORMAL))
		map_split(map, map->advisor.first, map->advisor.end, HM_MODE_NORMAL);
	if (hint->advice == MADV_NORMAL)
		map_end_hints(map, from, to);
	else
		map_add_hint(map, (struct hint){ .start = from,
						 .end = to,
						 .advice = hint->advice,
						 .again = map->advised });
	map->changed = true;
	if (map->nhints && map->told)
		map->told->pattern = STEER_HINTED;
	map_publish(map);
}

/* --- hints for a mapping that moves --- */

/* A mapping may have moved since the hint came, or another one may have got its place. */
static void map_take_late_hint(const struct late_hint *hint)
{
	struct map *map;

	for_each_map_in(map, hint->start, hint->end)
		map_take_hint(map, hint);
}

static bool map_is_late(const struct late_hint *hint)
{
	struct map *map;

	for_each_map_in(map, hint->start, hint->end)
		if (map->moving)
			return true;
	return false;
}

void map_take_late_hints(bool all)
{
	struct map_memory *memory = map_memory();
	u32 i, n = 0;

	/* There is no memory before the first mapping. */
	if (!memory)
		return;
	for (i = 0; i < memory->nlate; i++)
		if (!all && map_is_late(&memory->late[i]))
			memory->late[n++] = memory->late[i];
		else
			map_take_late_hint(&memory->late[i]);
	memory->nlate = n;
}

/* If there is no room for it, the hint counts at once. */
static void map_add_late_hint(struct late_hint hint)
{
	struct map_memory *memory = map_memory();

	if (hint.start >= hint.end)
		return;
	if (memory->nlate == MAP_LATE_HINTS)
		map_take_late_hints(true);
	if (memory->nlate < MAP_LATE_HINTS)
		memory->late[memory->nlate++] = hint;
}

void map_drop_late_hints(u64 start, u64 end)
{
	struct late_hint old[MAP_LATE_HINTS], head, tail;
	u32 n = map_memory() ? map_memory()->nlate : 0, i;

	if (!n)
		return;
	memcpy(old, map_memory()->late, n * sizeof(*old));
	map_memory()->nlate = 0;
	for (i = 0; i < n; i++) {
		head = tail = old[i];
		head.end = map_earlier(head.end, start);
		tail.start = map_later(tail.start, end);
		map_add_late_hint(head);
		map_add_late_hint(tail);
	}
}

/*
 * A mapping that mremap() moves takes a hint when the move has ended. If the mapping has left its
 * place, the hint is dropped: it may be for the memory that replaced the mapping.
 *
 * CPU 1 (program): puts MOVING; mremap(); puts MOVED.
 * CPU 2 (program): mmap() gets the old place; madvise() there. Its event comes before MOVED.
 */
void map_hint(const struct event *event)
{
	struct late_hint hint = { event->start, event->start + event->bytes, event->advice };
	struct late_hint late;
	struct map *map;

	for_each_map_in(map, hint.start, hint.end) {
		if (!map->moving) {
			map_take_hint(map, &hint);
			continue;
		}
		late = hint;
		late.start = map_later(hint.start, map->start);
		late.end = map_earlier(hint.end, map_end(map));
		map_add_late_hint(late);
	}
}
