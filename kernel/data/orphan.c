// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Folios that left the cache while somebody held them: a pipe, a device, a read. They
 * are their holder's, and outside of the pool; a page of 4 KB in a pipe keeps 2 MB. So
 * they are counted and looked at until they are let go, and what is more than a part of
 * the pool makes the pool smaller for as long: see hugemap_pool_wanted().
 *
 * The list has a reference of its own. One that has the only one is free.
 */
#include <linux/list.h>
#include <linux/mm.h>

#include "orphan.h"
#include "owner.h"
#include "wait.h"

void hugemap_orphan_add(struct hugemap_mount *mount, struct folio *folio)
{
	spin_lock(&mount->orphan_lock);
	list_add_tail(&folio->lru, &mount->orphans);
	mount->orphan_pages += folio_nr_pages(folio);
	spin_unlock(&mount->orphan_lock);
	hugemap_wake_reclaimer(mount);
}

static void orphan_release(struct hugemap_mount *mount, struct folio *folio)
{
	mount->orphan_pages -= folio_nr_pages(folio);
	list_del_init(&folio->lru);
	hugemap_folio_own(folio, HUGEMAP_OWNER_EXTERNAL, HUGEMAP_OWNER_NONE);
}

bool hugemap_orphan_reap(struct hugemap_mount *mount)
{
	struct folio *folio, *next;
	LIST_HEAD(free);

	spin_lock(&mount->orphan_lock);
	list_for_each_entry_safe(folio, next, &mount->orphans, lru) {
		if (!folio_ref_freeze(folio, 1))
			continue;
		folio_ref_unfreeze(folio, 1);
		orphan_release(mount, folio);
		list_add_tail(&folio->lru, &free);
	}
	spin_unlock(&mount->orphan_lock);
	list_for_each_entry_safe(folio, next, &free, lru) {
		list_del_init(&folio->lru);
		hugemap_mm_put_folio(folio);
	}
	return READ_ONCE(mount->orphan_pages);
}

void hugemap_orphan_end(struct hugemap_mount *mount)
{
	struct folio *folio, *next;

	/* Whoever still has one frees it. */
	list_for_each_entry_safe(folio, next, &mount->orphans, lru) {
		orphan_release(mount, folio);
		folio_put(folio);
	}
}
