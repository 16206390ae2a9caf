// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Index nodes without a cached unit. They stay for the next use of their pages, in a short list of
 * the cache, until the index is too large or memory is short. A node in no list would stay until
 * its file is closed.
 */
#include "cache.h"
#include "empty.h"
#include "file.h"
#include "index.h"
#include "state.h"

/* hm_file_keep_empty() leaves this number of places to hm_empty_note(). */
#define EMPTY_RESERVE (HM_EMPTY_MAX / 4)

/* Places at the end of the list that are compared with a new one. Faults are repeated. */
#define EMPTY_RECENT 16u

/* Is the place one of the last in the list? The caller holds empty_lock. */
static bool hm_empty_is_recent(const struct hm_cache *cache, const struct hm_empty *place)
{
	u32 i;

	for (i = cache->nempty; i > 0 && i + EMPTY_RECENT > cache->nempty; i--)
		if (cache->empty[i - 1].file == place->file &&
		    cache->empty[i - 1].pgoff == place->pgoff)
			return true;
	return false;
}

/* Add a place to the list, unless the list has @max places. Return false if it has. */
static bool hm_empty_add(const struct hm_pos *pos, u64 pgoff, u32 max)
{
	const struct hm_empty place = { pos->file, hm_index_empty_place(pos, pgoff) };
	struct hm_cache *cache = pos->file->cache;
	bool listed, room;

	if (!hm_index_empty_bytes(pos))
		return true;
	hm_spin_lock(&cache->empty_lock);
	listed = hm_empty_is_recent(cache, &place);
	room = listed || cache->nempty < max;
	if (room && !listed)
		cache->empty[cache->nempty++] = place;
	hm_spin_unlock(&cache->empty_lock);
	return room;
}

bool hm_empty_note(const struct hm_pos *pos)
{
	return hm_empty_add(pos, pos->pgoff, HM_EMPTY_MAX);
}

bool hm_file_keep_empty(struct hm_file *file, u64 pgoff)
{
	hm_index_guard();
	struct hm_pos pos;

	return !hm_index_find(file, pgoff, &pos) ||
	       hm_empty_add(&pos, pgoff, HM_EMPTY_MAX - EMPTY_RESERVE);
}

u32 hm_cache_empty_count(struct hm_cache *cache)
{
	u32 n;

	hm_spin_lock(&cache->empty_lock);
	n = cache->nempty;
	hm_spin_unlock(&cache->empty_lock);
	return n;
}

/*
 * A file removes its places from the list under empty_lock before it ends, so the files of the list
 * exist during the walk. A place stays, because a node may count a unit only for a moment.
 */
u64 hm_cache_empty_bytes(struct hm_cache *cache)
{
	hm_index_guard();
	u64 bytes = 0;
	u32 i;

	hm_spin_lock(&cache->empty_lock);
	for (i = 0; i < cache->nempty; i++) {
		const struct hm_empty *place = &cache->empty[i];
		struct hm_pos pos;

		if (hm_index_find(place->file, place->pgoff, &pos))
			bytes += hm_index_empty_bytes(&pos);
	}
	hm_spin_unlock(&cache->empty_lock);
	return bytes;
}

bool hm_cache_take_empty(struct hm_cache *cache, void *nodes[HM_EMPTY_NODES], u32 *n)
{
	struct hm_empty taken;
	bool found;

	hm_spin_lock(&cache->empty_lock);
	found = cache->nempty;
	if (found)
		taken = cache->empty[--cache->nempty];
	hm_spin_unlock(&cache->empty_lock);
	*n = found ? hm_file_take_empty(taken.file, taken.pgoff, nodes) : 0;
	return found;
}

void hm_empty_forget(struct hm_file *file)
{
	struct hm_cache *cache = file->cache;
	u32 i = 0;

	hm_spin_lock(&cache->empty_lock);
	while (i < cache->nempty) {
		if (cache->empty[i].file == file)
			cache->empty[i] = cache->empty[--cache->nempty];
		else
			i++;
	}
	hm_spin_unlock(&cache->empty_lock);
}
