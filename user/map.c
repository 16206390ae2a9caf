// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The pools of the process, and the mappings of a pool, sorted by address. maps_lock is
 * held throughout.
 */
#include "objects.h"
#include "stats.h"

#include <errno.h>
#include <stdlib.h>

/* See fork.c. */
pthread_rwlock_t fork_lock = PTHREAD_RWLOCK_INITIALIZER;

/* Every pool of the process; taken before any lock of a pool. */
pthread_mutex_t pools_lock = PTHREAD_MUTEX_INITIALIZER;
struct pool *pools;

/* The first mapping that ends above an address. */
static u32 lower_bound(const struct pool *pool, uintptr_t addr)
{
	u32 low = 0, high = pool->nmaps;

	while (low < high) {
		u32 mid = (low + high) / 2;

		if ((uintptr_t)pool->maps[mid]->end <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

struct mapping *map_find(struct pool *pool, const void *addr)
{
	u32 i = lower_bound(pool, (uintptr_t)addr);

	if (i == pool->nmaps || (uintptr_t)pool->maps[i]->start > (uintptr_t)addr)
		return NULL;
	return pool->maps[i];
}

/* The mapping of an address, or the next one above it. */
struct mapping *map_find_next(struct pool *pool, const void *addr)
{
	u32 i = lower_bound(pool, (uintptr_t)addr);

	return i == pool->nmaps ? NULL : pool->maps[i];
}

struct mapping *map_by_id(struct pool *pool, u64 id)
{
	u32 i;

	for (i = 0; i < pool->nmaps; i++)
		if (pool->maps[i]->id == id)
			return pool->maps[i];
	return NULL;
}

/* So that the next map_insert() cannot fail. */
int map_make_room(struct pool *pool)
{
	u32 room = pool->maps_room ? pool->maps_room * 2 : 16;
	struct mapping **maps;

	if (pool->nmaps < pool->maps_room)
		return 0;
	maps = realloc(pool->maps, room * sizeof(*maps));
	if (!maps)
		return -ENOMEM;
	pool->maps = maps;
	pool->maps_room = room;
	return 0;
}

int map_insert(struct pool *pool, struct mapping *map)
{
	u32 i = lower_bound(pool, (uintptr_t)map->start);
	int err = map_make_room(pool);

	if (err)
		return err;
	memmove(&pool->maps[i + 1], &pool->maps[i], (pool->nmaps - i) * sizeof(*pool->maps));
	pool->maps[i] = map;
	pool->nmaps++;
	map->id = ++pool->next_map_id;
	stats_add(pool->stats, STATS_MAPPINGS, 1);
	stats_add(pool->stats, STATS_MAPPED_BYTES, map->end - map->start);
	return 0;
}

void map_remove(struct pool *pool, struct mapping *map)
{
	u32 i = lower_bound(pool, (uintptr_t)map->start);

	hm_assert(i < pool->nmaps && pool->maps[i] == map);
	pool->nmaps--;
	memmove(&pool->maps[i], &pool->maps[i + 1], (pool->nmaps - i) * sizeof(*pool->maps));
	stats_add(pool->stats, STATS_MAPPINGS, -1);
	stats_add(pool->stats, STATS_MAPPED_BYTES, -(map->end - map->start));
}
