/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What the files of the table of mappings share. */
#ifndef HM_STEER_MAP_INSIDE_H
#define HM_STEER_MAP_INSIDE_H

#include "map.h"

#include "record.h"

static inline u64 map_later(u64 a, u64 b)
{
	return a > b ? a : b;
}

static inline u64 map_earlier(u64 a, u64 b)
{
	return a < b ? a : b;
}

/* --- map.c --- */

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

/* --- map_pieces.c --- */

/*
 * Set the wanted mode of a range. Returns false, and changes nothing, if there would be too many
 * pieces.
 */
bool map_split(struct map *map, u64 start, u64 end, enum hm_mode mode);
/* Treat the whole mapping as hinted, so that the monitor gives no advice in it. */
void map_hint_all(struct map *map);
void map_add_hint(struct map *map, struct hint hint);
/* Remove a range from all hints of a mapping. */
void map_remove_hints(struct map *map, u64 start, u64 end);

#endif /* HM_STEER_MAP_INSIDE_H */
