// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Under memory pressure the pool gives clean frames back, down to its floor. When memory is
 * plentiful again it takes memory, up to the size that it was mounted with.
 *
 * The shrinker runs in any task that allocates memory, with any locks held, those of this module
 * included. So it only tries to take locks, leaves dirty units to write-back, and never waits
 * longer than memory reclaim itself does.
 */
#include <linux/fs.h>
#include <linux/jiffies.h>
#include <linux/mm.h>
#include <linux/shrinker.h>

#include "evict.h"
#include "index.h"
#include "pool.h"
#include "shrink.h"
#include "wait.h"

/* The pool grows when it has not given memory back for this long. */
#define QUIET (10 * HZ)
/* It grows by 1/GROW_PART of its size at a time, a second apart. */
#define GROW_PART 16u
/* 1/ROOM_PART of RAM must stay available when it grows. */
#define ROOM_PART 16u
/* Orphans of 1/ORPHAN_SHARE of the pool are allowed before they make the pool smaller. */
#define ORPHAN_SHARE 8u
/*
 * The most evictions of one call that free no slot, because other pages of the slot are still
 * cached.
 */
#define EVICTIONS 4u

u64 hugemap_pool_floor(const struct hugemap_options *opts)
{
	u64 bytes = opts->pool_min;

	if (opts->pool_min_percent)
		bytes = div_u64(opts->pool * opts->pool_min_percent, 100);
	bytes = max(round_up(bytes, HM_BLOCK_SIZE), HUGEMAP_POOL_MIN);
	return min(bytes, opts->pool);
}

/* Return how many slots the pool can give back. */
static u32 shrink_spare(const struct hugemap_mount *mount)
{
	u32 floor = hugemap_pool_floor(&mount->opts) >> HM_BLOCK_SHIFT;
	u32 now = hugemap_pool_slots(mount);

	return now > floor ? now - floor : 0;
}

static unsigned long shrink_count(struct shrinker *shrinker, struct shrink_control *sc)
{
	struct hugemap_mount *mount = hugemap_shrinker_data(shrinker);
	u64 all = (u64)hugemap_pool_slots(mount) * HM_BLOCK_PAGES;
	u64 dirty = hm_cache_dirty_pages(mount->cache);
	u64 pages = min((u64)shrink_spare(mount) * HM_BLOCK_PAGES, all > dirty ? all - dirty : 0);

	/* A part of the excess may be in the list of empty nodes, so do not add the two. */
	pages += max(hm_cache_index_excess(mount->cache), hm_cache_empty_bytes(mount->cache)) >>
		 PAGE_SHIFT;
	return pages ? pages : SHRINK_EMPTY;
}

/* Return the number of pages by which the index is smaller than @before. */
static unsigned long shrink_index_freed(const struct hugemap_mount *mount, u64 before)
{
	u64 now = hm_cache_index_bytes(mount->cache);

	return now < before ? (before - now) >> PAGE_SHIFT : 0;
}

/* Account the freed pages to the task that reclaims memory, and return the result of a scan. */
static unsigned long shrink_freed(unsigned long pages)
{
	hugemap_account_reclaimed(pages);
	return pages ?: SHRINK_STOP;
}

static unsigned long shrink_scan(struct shrinker *shrinker, struct shrink_control *sc)
{
	struct hugemap_mount *mount = hugemap_shrinker_data(shrinker);
	u32 want = DIV_ROUND_UP(sc->nr_to_scan, HM_BLOCK_PAGES), given = 0, tries;
	u64 before = hm_cache_index_bytes(mount->cache);
	unsigned long pages;

	/* Without __GFP_FS the task may be inside a file system. */
	if (!(sc->gfp_mask & __GFP_FS))
		return SHRINK_STOP;
	hugemap_trim_empty(mount);
	/* A resize may hold the lock for long. */
	if (!mutex_trylock(&mount->pool_lock))
		return shrink_freed(shrink_index_freed(mount, before));
	/* Evict base pages to free their nodes. */
	if (hm_cache_index_excess(mount->cache))
		hugemap_evict_quickly(mount, HM_BASE);
	pages = shrink_index_freed(mount, before);
	want = min(want, shrink_spare(mount));
	/* An eviction may free base pages whose slot is not completely free yet. */
	for (tries = want + EVICTIONS; given < want && tries; tries--) {
		if (hugemap_pool_shed(mount))
			given++;
		else if (!hugemap_evict_quickly(mount, HM_HUGE))
			break;
	}
	if (given)
		WRITE_ONCE(mount->shed_at, jiffies);
	mutex_unlock(&mount->pool_lock);
	pages += (unsigned long)given * HM_BLOCK_PAGES;
	/* The reclaimer evicts for tasks that are short of frames now, and grows the pool later. */
	hugemap_wake_reclaimer(mount);
	return shrink_freed(pages);
}

static u32 shrink_wanted(const struct hugemap_mount *mount)
{
	u32 slots = READ_ONCE(mount->opts.pool) >> HM_BLOCK_SHIFT;
	u32 orphans = READ_ONCE(mount->orphan_pages) >> HM_BLOCK_ORDER, free = slots / ORPHAN_SHARE;
	u32 least = HUGEMAP_POOL_MIN >> HM_BLOCK_SHIFT;

	if (orphans <= free)
		return slots;
	return slots > orphans - free + least ? slots - (orphans - free) : least;
}

bool hugemap_pool_is_off(const struct hugemap_mount *mount)
{
	return hugemap_pool_slots(mount) != shrink_wanted(mount);
}

/* Give up memory to compensate for orphans. */
static void shrink_shed(struct hugemap_mount *mount)
{
	u32 tries = hugemap_pool_slots(mount) + EVICTIONS;

	while (hugemap_pool_slots(mount) > shrink_wanted(mount) && tries--) {
		if (!hugemap_pool_shed(mount) && !hugemap_evict_some(mount, HM_HUGE))
			return;
		cond_resched();
	}
}

/* Take back memory that the shrinker has given away. */
static void shrink_grow(struct hugemap_mount *mount)
{
	u32 wanted = shrink_wanted(mount), now = hugemap_pool_slots(mount), more;

	if (now >= wanted || time_before(jiffies, READ_ONCE(mount->shed_at) + QUIET))
		return;
	more = min(wanted - now, wanted / GROW_PART + 1);
	if (!hugemap_pool_fits(more, ROOM_PART) || hugemap_pool_take_back(mount, more) < more)
		WRITE_ONCE(mount->shed_at, jiffies);
}

void hugemap_pool_adjust(struct hugemap_mount *mount)
{
	/* Do not wait for pool_lock: a resize holds it while it waits for the caller to evict. */
	if (!hugemap_pool_is_off(mount) || !mutex_trylock(&mount->pool_lock))
		return;
	shrink_shed(mount);
	shrink_grow(mount);
	mutex_unlock(&mount->pool_lock);
}

int hugemap_shrink_start(struct hugemap_mount *mount)
{
	mount->shed_at = jiffies;
	mount->shrinker = hugemap_shrinker_new(mount, HM_BLOCK_PAGES, shrink_count, shrink_scan,
					       mount->sb->s_id);
	return mount->shrinker ? 0 : -ENOMEM;
}

void hugemap_shrink_stop(struct hugemap_mount *mount)
{
	if (mount->shrinker)
		hugemap_shrinker_free(mount->shrinker);
	mount->shrinker = NULL;
}
