// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Mapping what is cached behind a fault, so that a stream faults once for
 * several units: up to the read-ahead marker, which must be seen by a fault.
 */
#include "engine.h"

/* Huge units mapped beside one fault; verifying stores takes time for each. */
#define MOST_HUGE 8u
#define MOST_HUGE_WRITABLE 2u

/* A stretch of units that one move can map: adjacent, also in their slots. */
static u32 gather(struct mapping *map, u64 pgoff, u64 end, struct hm_unit *first, bool *protect,
		  u64 *next)
{
	struct store *store = map->store;
	u32 count = 0;

	*next = pgoff;
	while (*next < end) {
		struct hm_unit unit;
		bool this_protect;

		if (!hm_fault_around(store->core, *next, &unit) || page_mapping(store->pool, &unit))
			break;
		this_protect = page_must_protect(map, &unit);
		if (!count) {
			*first = unit;
			*protect = this_protect;
		} else if (unit.frame != first->frame + count || unit.npages != first->npages ||
			   this_protect != *protect) {
			break;
		}
		count++;
		*next = unit.pgoff + unit.npages;
	}
	return count;
}

/* Map what is cached from a page on. No block lock is held. */
void around_map(struct handler *h, struct mapping *map, u64 pgoff)
{
	u32 most = map->prot & PROT_WRITE ? MOST_HUGE_WRITABLE : MOST_HUGE;
	u64 end = (pgoff & ~(u64)(HM_BLOCK_PAGES - 1)) + (u64)most * HM_BLOCK_PAGES;
	u64 size = (hm_store_size(map->store->core) + HM_PAGE_SIZE - 1) >> HM_PAGE_SHIFT;

	if (end > map_end_pgoff(map))
		end = map_end_pgoff(map);
	if (end > size)
		end = size;
	while (pgoff < end) {
		u64 block_end = (pgoff | (HM_BLOCK_PAGES - 1)) + 1;
		pthread_mutex_t *lock = block_lock(map->store, pgoff);
		struct hm_unit first;
		bool protect = true;
		u32 count;
		u64 next;

		pthread_mutex_lock(lock);
		count = gather(map, pgoff, block_end < end ? block_end : end, &first, &protect,
			       &next);
		/* A block whose addresses are not all ours cannot be mapped whole. */
		if (count && first.npages > 1 && (map_access(map, pgoff) & HM_ACCESS_BASE))
			count = 0;
		if (count && page_install(map, &first, count, protect))
			count = 0;
		pthread_mutex_unlock(lock);
		if (!count)
			return;
		pgoff = next;
	}
}
