// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Orphans: folios that left the cache while they were pinned by a pipe, a device or a read. Each of
 * them belongs to its pin holders and is outside of the pool. A pipe that holds 4 KB can keep 2 MB.
 * So orphans are counted, and the reclaimer checks them until they are released. While they exceed
 * a part of the pool, the pool is smaller: see shrink_wanted().
 *
 * The list has one reference to each folio. A folio without any other reference is free.
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

	/* The last pin holder frees the folio. */
	list_for_each_entry_safe(folio, next, &mount->orphans, lru) {
		orphan_release(mount, folio);
		folio_put(folio);
	}
}
