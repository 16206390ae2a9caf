// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* The wanted modes of a mapping, and the hints of the program in it. */
#include "map.h"

#include <string.h>

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

bool map_split(struct map *map, u64 start, u64 end, enum hm_mode mode)
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
	if (n > map->npieces && !map_may_split(n - map->npieces))
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

bool map_has_due_hint(const struct map *map, u64 start, u64 end)
{
	u32 i;

	for (i = 0; i < map->nhints; i++)
		if (map->hint[i].again && map->hint[i].start < end && start < map->hint[i].end)
			return true;
	return false;
}

static unsigned int map_kinds_of(const struct hint *hint)
{
	return hint->advice ? hint_kind(hint->advice) : hint->kinds;
}

void map_hint_all(struct map *map, unsigned int kinds)
{
	struct hint due[MAP_HINTS];
	u32 n = 0, i;

	map_restore_hint(map);
	for (i = 0; i < map->nhints; i++) {
		kinds |= map_kinds_of(&map->hint[i]);
		if (map->hint[i].again && n < MAP_HINTS - 1)
			due[n++] = map->hint[i];
	}
	map->hint[0] = (struct hint){ .start = map->advisor.first,
				      .end = map->advisor.end,
				      .kinds = (unsigned char)kinds };
	memcpy(map->hint + 1, due, n * sizeof(*due));
	map->nhints = 1 + n;
	map_split(map, map->advisor.first, map->advisor.end, HM_MODE_NORMAL);
}

void map_add_hint(struct map *map, struct hint hint)
{
	if (map->nhints == MAP_HINTS)
		map_hint_all(map, map_kinds_of(&hint));
	if (map->nhints < MAP_HINTS)
		map->hint[map->nhints++] = hint;
}

void map_replace_hint(struct map *map)
{
	map->replaced = map->hint[0].advice;
	map->nhints = 0;
	map->hint_use = (struct hint_use){};
	map->advised = true;
	/* The policy may have chosen a mode before the hint came. */
	map_set_mode(map, map->advisor.first, map->advisor.end, map->advisor.mode);
	map_publish(map);
}

/* Add the rest of a hint, without a range of one of its kinds. */
static void map_remove_kind(struct map *map, const struct hint *hint, u64 start, u64 end,
			    unsigned int kind)
{
	struct hint head = *hint, middle = *hint, tail = *hint;

	head.end = map_earlier(head.end, start);
	middle.start = map_later(middle.start, start);
	middle.end = map_earlier(middle.end, end);
	middle.kinds = (unsigned char)(map_kinds_of(hint) & ~kind);
	tail.start = map_later(tail.start, end);
	if (head.start < head.end)
		map_add_hint(map, head);
	if (middle.kinds && middle.start < middle.end)
		map_add_hint(map, middle);
	if (tail.start < tail.end)
		map_add_hint(map, tail);
}

void map_remove_hints(struct map *map, u64 start, u64 end, unsigned int kind)
{
	struct hint old[MAP_HINTS];
	u32 n = map->nhints, i;

	memcpy(old, map->hint, sizeof(old));
	map->nhints = 0;
	for (i = 0; i < n; i++)
		if (map_kinds_of(&old[i]) & kind)
			map_remove_kind(map, &old[i], start, end, kind);
		else
			map_add_hint(map, old[i]);
}
