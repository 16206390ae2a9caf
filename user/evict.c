// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Eviction: carry out what hm_reclaim() chose. */
#include "evict.h"
#include "frames.h"
#include "handler.h"
#include "linux.h"

#include <errno.h>

#define MAX_VICTIMS 64u
#define ROUNDS 3u

/* Whoever has cached blocks is mapped: maps_lock is held. */
static struct store *store_of(struct pool *pool, const struct hm_store *core)
{
	struct store *store = pool->stores;

	while (store && store->core != core)
		store = store->next;
	return store;
}

/*
 * The program has zapped the pages of a block itself, with munmap or madvise. A clean
 * block can be read again; the stores to a dirty one are lost, which the next sync
 * reports. (If it is being written, or evicted, who does that finds out.) The block lock is
 * held.
 */
void evict_lost(struct store *store, const struct hm_unit *unit)
{
	u64 pos = unit->pgoff;
	struct hm_unit gone;

	if (hm_invalidate(store->core, &pos, pos + 1, false, &gone) == HM_INV_UNIT) {
		hm_evict_done(&gone, HM_EVICT_DISCARD);
		return;
	}
	pos = unit->pgoff;
	if (hm_invalidate(store->core, &pos, pos + 1, true, &gone) == HM_INV_UNIT) {
		hm_evict_done(&gone, HM_EVICT_DISCARD);
		hm_store_error(store->core, -EIO);
	}
}

/* A frame has become free, or can be. */
void evict_progress(struct pool *pool)
{
	atomic_store_explicit(&pool->freed_ns, sys_clock_ns(), memory_order_relaxed);
}

/* A block that is claimed leaves the cache. True: its frame is free. */
static bool evict(struct store *store, const struct hm_unit *unit)
{
	struct pool *pool = store->pool;
	enum hm_evict_result result = HM_EVICTED;
	int err = page_remove(pool, unit);
	bool stored = page_take_stored(pool, unit);

	if (err == -ENOENT && stored)
		hm_store_error(store->core, -EIO); /* the program has zapped what it stored */
	else if (stored)
		result = HM_EVICT_DIRTY;
	else if (err == -EBUSY)
		result = HM_EVICT_BUSY;
	if (hm_evict_done(unit, result))
		page_wake(store, unit->pgoff);
	if (result == HM_EVICTED)
		evict_progress(pool);
	return result == HM_EVICTED;
}

/* One that became inactive is unmapped, if that is still so. */
static void unmap(struct store *store, const struct hm_unit *unit)
{
	struct hm_unit now;

	if (hm_peek(unit->store, unit->pgoff, &now) != HM_CLEAN || now.frame != unit->frame ||
	    hm_referenced(unit->store, unit->pgoff))
		return;
	if (page_remove(store->pool, unit) == -ENOENT)
		evict_lost(store, unit);
}

static u32 evict_round(struct handler *h, u32 want, u32 *chosen)
{
	struct hm_victim victims[MAX_VICTIMS];
	u32 n = hm_reclaim(h->pool->cache, HM_HUGE, want, victims, MAX_VICTIMS);
	u32 freed = 0, i;

	for (i = 0; i < n; i++) {
		const struct hm_unit *unit = &victims[i].unit;
		struct store *store = store_of(h->pool, unit->store);
		pthread_mutex_t *lock;

		hm_assert(store);
		lock = block_lock(store, unit->pgoff);
		pthread_mutex_lock(lock);
		if (!victims[i].evict)
			unmap(store, unit);
		else if (evict(store, unit))
			freed++;
		pthread_mutex_unlock(lock);
	}
	*chosen = n;
	return freed;
}

/*
 * Free some frames for a fault that waits. Blocks become inactive in one round and leave
 * in the next, so a few rounds may be needed.
 */
bool evict_some(struct handler *h)
{
	u32 want = hm_cache_options(h->pool->cache)->evict_batch;
	u32 round, chosen;

	for (round = 0; round < ROUNDS; round++) {
		if (evict_round(h, want, &chosen))
			return true;
		if (!chosen)
			return false;
	}
	return false;
}

/* Restore the stock of free frames before anybody has to wait for it. */
void evict_background(struct handler *h)
{
	u32 want, chosen = 0;

	if (!h->reclaim)
		return;
	want = hm_reclaim_want(h->pool->cache, HM_HUGE);
	if (want)
		evict_round(h, want, &chosen);
	if (chosen)
		h->again = true;
	else
		h->reclaim = false;
}
