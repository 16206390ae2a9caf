// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Random access to more than the pool holds: each fault reads a block, which is
 * evicted before a second page of it is used, where the kernel reads a few pages.
 * Whoever can give such mappings over to the kernel (`hugemap run`) is told.
 *
 * A stray is a fault that read a block and belongs to no stream. Some come at the
 * start of each stream, and a stream makes up for many.
 */
#include "engine.h"
#include "for_run.h"

#define MOST_STRAYS 32u
#define STREAM_STEP 8u

stray_fn *_Atomic hugemap_stray_tell;

/* maps_lock is held for reading. */
void stray_count(struct mapping *map, bool stray)
{
	struct pool *pool = map->store->pool;
	stray_fn *tell = atomic_load_explicit(&hugemap_stray_tell, memory_order_acquire);
	u32 strays = atomic_load_explicit(&pool->strays, memory_order_relaxed);

	if (!tell || stats_get(pool->stats, STATS_MAPPED_BYTES) <= pool->slots_bytes)
		return;
	/* A count that another handler has overwritten does no harm. */
	if (!stray)
		strays = strays > STREAM_STEP ? strays - STREAM_STEP : 0;
	else if (strays < MOST_STRAYS)
		strays++;
	else
		tell(map->asked);
	atomic_store_explicit(&pool->strays, strays, memory_order_relaxed);
}
