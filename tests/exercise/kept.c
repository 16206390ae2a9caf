// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Loads and stores in mappings. A fresh mapping lives for one operation; a kept mapping lives
 * for many, and must show every change that is made to the file by other calls.
 */
#include "ops.h"

#include <string.h>
#include <sys/mman.h>

/* The end of the last page, up to which loads are allowed. */
uint64_t mapped_end(const struct worker *w)
{
	return round_up(w->model->size, PAGE);
}

void unmap(struct worker *w, struct map *map)
{
	if (map->addr)
		unmap_range(w, map->addr, map->len);
	map->addr = NULL;
}

void unmap_all(struct worker *w)
{
	unsigned int i;

	for (i = 0; i < MAPPINGS; i++)
		unmap(w, &w->maps[i]);
}

void map_some(struct worker *w)
{
	unsigned int i;

	for (i = 0; i < MAPPINGS / 2; i++)
		op_keep(w);
}

/* Pick a mapping that overlaps the file, or NULL. @len: its length up to mapped_end(). */
struct map *pick_map(struct worker *w, bool writable, uint64_t *len)
{
	unsigned int start = (unsigned int)random_below(w, MAPPINGS);
	uint64_t end = mapped_end(w);
	unsigned int i;

	for (i = 0; i < MAPPINGS; i++) {
		struct map *map = &w->maps[(start + i) % MAPPINGS];

		if (!map->addr || map->off >= end || (writable && !map->writable))
			continue;
		*len = end - map->off < map->len ? end - map->off : map->len;
		return map;
	}
	return NULL;
}

/* Pick a range of a mapping that starts on a page, for calls like madvise(2). */
struct map *pick_pages(struct worker *w, bool writable, uint64_t *off, uint64_t *len)
{
	uint64_t there, at;
	struct map *map = pick_map(w, writable, &there);

	if (!map)
		return NULL;
	at = round_down(random_below(w, there), PAGE);
	*off = map->off + at;
	*len = random_chance(w, 30) ? there - at : 1 + random_below(w, there - at);
	return map;
}

void op_map_read(struct worker *w)
{
	struct map fresh;
	uint64_t off, len;

	pick_range(w, false, &off, &len);
	if (off >= w->model->size)
		return;
	/* The rest of the last page is zeros. */
	if (len > mapped_end(w) - off)
		len = mapped_end(w) - off;
	log_operation(w, "map-read", off, len, 0);
	fresh = map_fresh(w, off, len, false);
	model_check(w, "load from a fresh mapping", off, map_address(&fresh, off), len);
	unmap(w, &fresh);
}

void op_map_write(struct worker *w)
{
	struct map fresh;
	uint64_t off, len;

	if (!pick_range(w, true, &off, &len))
		return;
	log_operation(w, "map-write", off, len, 0);
	if (off + len > w->model->size)
		resize_file(w, off + len);
	fill_random(w, w->buf, len);
	fresh = map_fresh(w, off, len, true);
	memcpy(map_address(&fresh, off), w->buf, len);
	model_write(w, off, w->buf, len);
	if (random_chance(w, 10)) {
		sync_mapped(w, fresh.addr, fresh.len, MS_SYNC);
		check_lower(w, "after a sync of a fresh mapping, lower file", off, len);
	}
	unmap(w, &fresh);
}

void op_kept_read(struct worker *w)
{
	uint64_t there, off, len = pick_length(w);
	struct map *map = pick_map(w, false, &there);

	if (!map)
		return;
	off = map->off + random_below(w, there);
	if (len > map->off + there - off)
		len = map->off + there - off;
	log_operation(w, "kept-read", off, len, 0);
	model_check(w, "load from a kept mapping", off, map_address(map, off), len);
}

void op_kept_write(struct worker *w)
{
	uint64_t there, off, len;
	struct map *map = pick_map(w, true, &there);

	if (!map || !pick_range(w, true, &off, &len))
		return;
	if (w->opts->threads == 1)
		off = map->off + random_below(w, there);
	else if (off < map->off || off >= map->off + there)
		return;
	len = model_available(w, off, len);
	if (!len)
		return;
	if (len > map->off + there - off)
		len = map->off + there - off;
	log_operation(w, "kept-write", off, len, 0);
	fill_random(w, w->buf, len);
	memcpy(map_address(map, off), w->buf, len);
	model_write(w, off, w->buf, len);
}

void op_sync(struct worker *w)
{
	uint64_t off, len;
	struct map *map = pick_pages(w, false, &off, &len);
	int flags = random_chance(w, 80) ? MS_SYNC : MS_ASYNC;

	if (!map)
		return;
	log_operation(w, "sync", off, len, (uint64_t)flags);
	sync_mapped(w, map_address(map, off), len, flags);
	if (flags == MS_SYNC)
		check_lower(w, "after a sync, lower file", off, len);
}

/* Unmap some pages at one end of a mapping, often not a whole block. */
void op_unmap(struct worker *w)
{
	uint64_t there, cut;
	struct map *map = pick_map(w, false, &there);

	if (!map || map->len <= PAGE)
		return;
	cut = PAGE * (1 + random_below(w, map->len / PAGE - 1));
	log_operation(w, "unmap", map->off, map->len, cut);
	if (random_chance(w, 50)) {
		unmap_range(w, map->addr + map->len - cut, cut);
	} else {
		unmap_range(w, map->addr, cut);
		map->addr += cut;
		map->off += cut;
	}
	map->len -= cut;
}
