// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The books, when no handler works and no I/O is under way: what is in each frame, where
 * it is mapped, and who may store to it without a fault. See user/objects.h and user/frames.h.
 */
#include "world.h"

#include "../../sim/sim.h"
#include "frames.h"
#include "stats.h"

static u32 index_of(const struct store *store)
{
	return (u32)store->ino - 1;
}

/* Where its pages are, there alone, and as its state says. */
static void audit_place(struct pool *pool, struct store *store, const struct hm_unit *unit,
			enum hm_state state)
{
	struct place *place = &pool->places[unit->frame];
	char *slot = slot_of(pool, unit->frame);
	struct mapping *map = place->map;
	char *at = map ? map_addr(map, unit->pgoff) : slot;
	struct os_file *file = &os_files[index_of(store)];
	u32 i;

	if (map) {
		sim_check(map_find(pool, at) == map, "a block is in a mapping that is gone");
		sim_check(map->store == store && place->pgoff == unit->pgoff,
			  "a block is mapped where another one belongs");
	}
	if (file->broken)
		return;
	for (i = 0; i < HM_BLOCK_PAGES; i++) {
		const struct page *page = memory_page(at + ((size_t)i << HM_PAGE_SHIFT));
		u64 pgoff = unit->pgoff + i, value;

		sim_check(page->state & (PAGE_PRESENT | PAGE_SWAPPED),
			  "page %llu of file %u is not where it should be",
			  (unsigned long long)pgoff, index_of(store));
		sim_check(!map || state == HM_DIRTY || page->state & PAGE_PROTECTED || page->pins,
			  "stores to clean page %llu of file %u would go unseen",
			  (unsigned long long)pgoff, index_of(store));
		sim_check(!map || !memory_page(slot + ((size_t)i << HM_PAGE_SHIFT))->pins,
			  "an empty slot is pinned");
		memcpy(&value, at + ((size_t)i << HM_PAGE_SHIFT), sizeof(value));
		sim_check(state == HM_DIRTY || value == file->page[pgoff].value ||
				  page->state & PAGE_EARLY,
			  "clean page %llu of file %u holds %llx, the file has %llx",
			  (unsigned long long)pgoff, index_of(store), (unsigned long long)value,
			  (unsigned long long)file->page[pgoff].value);
	}
}

/* A block that is not cached is mapped nowhere. */
static void audit_absent(struct pool *pool, struct store *store, u64 pgoff)
{
	u32 i, k;

	for (i = 0; i < pool->nmaps; i++) {
		struct mapping *map = pool->maps[i];

		if (map->store != store || pgoff < map->pgoff || pgoff >= map_end_pgoff(map))
			continue;
		for (k = 0; k < HM_BLOCK_PAGES; k++)
			sim_check(!(memory_page(map_addr(map, pgoff + k))->state &
				    (PAGE_PRESENT | PAGE_SWAPPED)) ||
					  os_files[index_of(store)].broken,
				  "page %llu of file %u is mapped, but not cached",
				  (unsigned long long)(pgoff + k), index_of(store));
	}
}

static void audit_store(struct pool *pool, struct store *store)
{
	u64 pgoff;

	for (pgoff = 0; pgoff < store_limit(store); pgoff += HM_BLOCK_PAGES) {
		struct hm_unit unit;
		enum hm_state state = hm_peek(store->core, pgoff, &unit);

		if (state == HM_ABSENT) {
			audit_absent(pool, store, pgoff);
			continue;
		}
		sim_check(state == HM_CLEAN || state == HM_DIRTY, "page %llu: state %d at rest",
			  (unsigned long long)pgoff, state);
		audit_place(pool, store, &unit, state);
	}
}

static void audit_pool(struct pool *pool)
{
	struct store *store;

	for (store = pool->stores; store; store = store->next)
		audit_store(pool, store);
	books_check(pool->cache, false);
	counts[C_AUDITS]++;
}

bool stores_slipped(void)
{
	const struct pool *pool;

	/* Without room a block that is pinned cannot be taken from who wants to store. */
	if (machine.busy_percent || others_pins_ever)
		return true;
	for (pool = pools; pool; pool = pool->next)
		if (pool->stats->count[STATS_SLIPPED].value)
			return true;
	return false;
}

static bool is_quiet(struct pool *pool)
{
	struct store *store;

	for (store = pool->stores; store; store = store->next)
		if (atomic_load(&store->ops))
			return false;
	return true;
}

/* What the program has where a mapping was is its own. */
static void audit_strangers(void)
{
	u32 i;

	for (i = 0; i < MAX_STRANGERS && w.stranger[i].addr; i++)
		sim_check(memory_page(w.stranger[i].addr)->state & (PAGE_PRESENT | PAGE_SWAPPED) &&
				  memory_value(w.stranger[i].addr) == w.stranger[i].value,
			  "memory of the program's was touched, where a mapping was");
}

/* Programs and callers stop; handlers finish what they are at, or it is left. */
void audit(void)
{
	struct long_wait wait = { 0 };
	struct pool *pool;
	u32 tries;

	if (w.pausing)
		return;
	w.pausing = true;
	w.acting--;
	while (w.acting)
		wait_more(&wait, "the others, for an audit");
	for (pool = pools; pool; pool = pool->next) {
		for (tries = 0; tries < 50; tries++) {
			bool quiet;

			pthread_rwlock_wrlock(&pool->maps_lock);
			quiet = is_quiet(pool);
			if (quiet)
				audit_pool(pool);
			pthread_rwlock_unlock(&pool->maps_lock);
			if (quiet)
				break;
			sim_yield();
		}
	}
	audit_strangers();
	w.acting++;
	w.pausing = false;
}
