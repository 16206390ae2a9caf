/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The owner of a folio of the pool, in folio->private. It is checked at each change. Other
 * references belong to tasks that look at the folio, copy it or do I/O.
 *
 *   NONE --slot_new_*()--> POOL --hugemap_folio_insert()--> CACHE
 *   CACHE --hugemap_folio_remove()--> POOL --slot_put_*()--> NONE, freed
 *   CACHE --hugemap_folio_orphan()--> EXTERNAL: the pin holders own it, until they have
 *   released their references --hugemap_orphan_reap()--> NONE, freed
 */
#ifndef HUGEMAP_DATA_OWNER_H
#define HUGEMAP_DATA_OWNER_H

#include <linux/mm.h>

enum hugemap_owner {
	HUGEMAP_OWNER_NONE,
	HUGEMAP_OWNER_POOL,
	HUGEMAP_OWNER_CACHE,
	HUGEMAP_OWNER_EXTERNAL,
};

static inline void hugemap_folio_own(struct folio *folio, enum hugemap_owner from,
				     enum hugemap_owner to)
{
	WARN_ON_ONCE((unsigned long)folio->private != from);
	folio->private = (void *)(unsigned long)to;
}

#endif /* HUGEMAP_DATA_OWNER_H */
