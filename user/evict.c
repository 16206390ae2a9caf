// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Eviction: carry out what hm_reclaim() chose. Victims come sorted, so that
 * adjacent units go back to their slots in one move.
 */
#include "engine.h"

#include <errno.h>

#define MAX_VICTIMS 64u
#define ROUNDS 3u

/* May this victim be taken out of its mapping now? The block lock is held. */
static bool may_remove(const struct hm_victim *victim)
{
	const struct hm_unit *unit = &victim->unit;
	struct hm_unit now;

	if (victim->evict)
		return true;
	return hm_peek(unit->store, unit->pgoff, &now) == HM_CLEAN && now.frame == unit->frame &&
	       !hm_referenced(unit->store, unit->pgoff);
}

/* Does a victim continue the move that starts with another one? */
static bool continues(struct pool *pool, const struct hm_victim *first,
		      const struct hm_victim *next, u32 count)
{
	const struct hm_unit *a = &first->unit, *b = &next->unit;

	return a->npages == 1 && b->npages == 1 && a->store == b->store &&
	       first->evict == next->evict && b->pgoff == a->pgoff + count &&
	       b->frame == a->frame + count &&
	       a->pgoff >> HM_BLOCK_ORDER == b->pgoff >> HM_BLOCK_ORDER && may_remove(next) &&
	       !pool->places[b->frame].stored && page_mapping(pool, a) == page_mapping(pool, b);
}

/* Report one victim that was to be evicted. */
static void report(struct store *store, const struct hm_unit *unit, enum hm_evict_result result,
		   u32 *freed)
{
	if (hm_evict_done(unit, result))
		page_wake(store, unit->pgoff, unit->npages);
	if (result == HM_EVICTED)
		(*freed)++;
}

/* The same, for adjacent ones that are in one mapping. Returns how many. */
static u32 take_locked(struct pool *pool, struct store *store, struct hm_victim *victims, u32 n,
		       u32 *freed)
{
	u32 count = 1, removed, i;
	int err;

	if (victims[0].evict && page_take_stored(pool, &victims[0].unit)) {
		report(store, &victims[0].unit, HM_EVICT_DIRTY, freed);
		return 1;
	}
	if (!may_remove(&victims[0]))
		return 1;
	while (count < n && continues(pool, &victims[0], &victims[count], count))
		count++;
	err = page_remove(pool, &victims[0].unit, count, &removed);
	for (i = 0; i < count; i++) {
		const struct hm_unit *unit = &victims[i].unit;

		if (victims[i].evict)
			report(store, unit, i < removed ? HM_EVICTED : HM_EVICT_BUSY, freed);
		else if (err == -ENOENT && i + 1 == removed)
			fault_lost(store, unit);
	}
	return count;
}

/* Take away victims from the first on; returns how many were dealt with. */
static u32 take_away(struct pool *pool, struct store *store, struct hm_victim *victims, u32 n,
		     u32 *freed)
{
	pthread_mutex_t *lock = block_lock(store, victims[0].unit.pgoff);
	u32 count;

	pthread_mutex_lock(lock);
	count = take_locked(pool, store, victims, n, freed);
	pthread_mutex_unlock(lock);
	return count;
}

/* Whoever has cached units is mapped: maps_lock is held. */
static struct store *store_of(struct pool *pool, const struct hm_store *core)
{
	struct store *store = pool->stores;

	while (store && store->core != core)
		store = store->next;
	return store;
}

static u32 evict_round(struct handler *h, enum hm_kind kind, u32 want, u32 *chosen)
{
	struct hm_victim victims[MAX_VICTIMS];
	u32 n = hm_reclaim(h->pool->cache, kind, want, victims, MAX_VICTIMS);
	u32 freed = 0, i = 0;

	*chosen = n;
	while (i < n) {
		struct store *store = store_of(h->pool, victims[i].unit.store);

		hm_assert(store);
		i += take_away(h->pool, store, &victims[i], n - i, &freed);
	}
	return freed;
}

/*
 * Free some frames of a kind for a fault that waits. Units become inactive in
 * one round and leave in the next, so a few rounds may be needed.
 */
bool evict_some(struct handler *h, enum hm_kind kind)
{
	u32 want = hm_cache_options(h->pool->cache)->evict_batch;
	u32 round, chosen;

	for (round = 0; round < ROUNDS; round++) {
		if (evict_round(h, kind, want, &chosen))
			return true;
		if (!chosen)
			return false;
	}
	return false;
}

/* Restore the stock of free frames before anybody has to wait for it. */
void evict_background(struct handler *h)
{
	u32 kind, want, chosen;

	for (kind = 0; kind < HM_KINDS; kind++) {
		if (!h->reclaim[kind])
			continue;
		want = hm_reclaim_want(h->pool->cache, (enum hm_kind)kind);
		if (!want) {
			h->reclaim[kind] = false;
			continue;
		}
		evict_round(h, (enum hm_kind)kind, want, &chosen);
		if (chosen)
			h->again = true;
		else
			h->reclaim[kind] = false;
	}
}
