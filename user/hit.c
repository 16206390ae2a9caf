// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* A fault on a block that is cached: it is mapped there, or stores to it are allowed. */
#include "evict.h"
#include "fault.h"
#include "frames.h"
#include "uffd.h"

#include <errno.h>

/* Page missing where its block is mapped: zapped by the program, or an old message. */
static enum served serve_missing(struct mapping *map, const struct hm_unit *unit)
{
	struct store *store = map->store;

	if (!page_present(map, unit)) {
		page_forget(store->pool, unit);
		evict_lost(store, unit);
	}
	uffd_wake(store->pool->uffd, map_addr(map, unit->pgoff), HM_BLOCK_SIZE);
	return SERVED;
}

/*
 * Map a block that is cached, or allow stores to it, and wake who waits. The block lock
 * is held, and hm_fault() has said HM_HIT under it (or the block was filled under it).
 * @missing: the fault was for a page that is not there.
 */
enum served hit_serve(struct mapping *map, const struct hm_unit *unit, bool write, bool missing)
{
	struct store *store = map->store;
	struct mapping *at = page_mapping(store->pool, unit);
	struct hm_unit now;
	int err;

	if (at == map && write && !missing) {
		page_unprotect(map, unit);
		return SERVED;
	}
	/* The write takes its data from where the block is now. */
	if (hm_peek(store->core, unit->pgoff, &now) == HM_WRITING)
		return SERVE_LATER;
	if (at == map)
		return serve_missing(map, unit);
	err = page_remove(store->pool, unit);
	if (err == -ENOENT)
		evict_lost(store, unit); /* and fault again */
	if (err)
		return SERVE_LATER;
	err = page_install(map, unit);
	if (err == -EINVAL)
		return SERVE_REFUSED;
	if (err == -ENOENT)
		return SERVE_GONE;
	return err ? SERVE_LATER : SERVED;
}
