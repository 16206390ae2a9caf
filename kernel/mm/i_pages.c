// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Folios of the pool need entries in i_pages, so that fault-around, mincore(2) and the reclaim of
 * inodes see that they are cached. mm adds a folio to i_pages only together with an LRU list and a
 * memory control group (filemap_add_folio()), and reclaims it from there by its own policy, so this
 * file stores the entries itself. If mm had a filemap_add_folio() for folios that mm does not own,
 * and called their owner before it removes one, this file would not be needed.
 *
 * These folios are not counted in nrpages. mm may add folios of its own for a short time. They are
 * called foreign here: mm holds the folio lock, and removes them when hugemap_aops refuses to read
 * them. Paths of mm that remove or split folios in i_pages (drop_caches, madvise) expect one
 * reference for each page and their own. They always fail here, because the pool holds one more:
 * see hugemap_mm_cached_refs().
 */
#include <linux/cacheflush.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/xarray.h>

#include "mm.h"
#include "race.h"

/* Return the foreign folio at an entry, with a reference, or NULL. The xa_lock is held. */
static struct folio *i_pages_find_foreign(const struct address_space *mapping, struct xa_state *xas)
{
	struct folio *foreign = mapping->nrpages ? xas_find_conflict(xas) : NULL;

	if (foreign)
		folio_get(foreign);
	return foreign;
}

/*
 * Store the entries of folios whose index is set. The caller has added the references of
 * hugemap_mm_cached_refs(). This cannot fail: this module and the reclaim of inodes see in i_pages
 * whether anything is cached, so no entry may be missing. It waits for the lock of a foreign folio,
 * because the task that removes that folio would remove ours as well.
 */
void hugemap_mm_add_folios(struct address_space *mapping, struct folio *const *folios, u32 n)
{
	XA_STATE(xas, &mapping->i_pages, folios[0]->index);
	struct folio *foreign;
	u32 i = 0;

	do {
		foreign = NULL;
		xas_lock_irq(&xas);
		for (; i < n; i++) {
			xas_set_order(&xas, folios[i]->index, folio_order(folios[i]));
			foreign = i_pages_find_foreign(mapping, &xas);
			if (foreign)
				break;
			xas_store(&xas, folios[i]);
			if (xas_error(&xas))
				break;
		}
		xas_unlock_irq(&xas);
		if (foreign) {
			folio_lock(foreign);
			folio_unlock(foreign);
			folio_put(foreign);
		}
	} while (foreign || xas_nomem(&xas, GFP_NOFS | __GFP_NOFAIL));
}

/*
 * Freeze folios, which are locked and unmapped, and remove their entries; NULLs are skipped. Return
 * false and change nothing if one of them has another reference, or if @clean is set and one of
 * them is dirty. This allocates nothing.
 *
 * A holder of a reference may set the dirty flag without the folio lock until it drops the
 * reference. So the flag is tested after the freeze. The test before it keeps lookups away from
 * folios whose freeze would be undone, because a lookup takes a frozen folio for one that leaves.
 *
 * No lookup can get a frozen folio: there is no page table, and lookups through the core or i_pages
 * retry until the folio is not frozen or not there. Both changes are made under one xa_lock, so
 * that a lookup does not retry for long where the lock does not sleep.
 */
bool hugemap_mm_freeze_folios(struct address_space *mapping, struct folio *const *folios, u32 n,
			      bool clean)
{
	XA_STATE(xas, &mapping->i_pages, 0);
	bool frozen;
	u32 end, i;

	xas_lock_irq(&xas);
	for (end = 0; end < n; end++) {
		if (!folios[end])
			continue;
		if ((clean && folio_test_dirty(folios[end])) ||
		    !folio_ref_freeze(folios[end], hugemap_mm_cached_refs(folios[end])))
			break;
	}
	frozen = end == n;
	for (i = 0; clean && i < end; i++)
		frozen = frozen && !(folios[i] && folio_test_dirty(folios[i]));
	hugemap_race_point_atomic("leave: frozen, in i_pages");
	for (i = 0; i < end; i++) {
		if (!folios[i])
			continue;
		if (!frozen) {
			folio_ref_unfreeze(folios[i], hugemap_mm_cached_refs(folios[i]));
			continue;
		}
		/* Entry by entry: at a NULL there may be a foreign folio. */
		xas_set_order(&xas, folios[i]->index, folio_order(folios[i]));
		WARN_ON_ONCE(xas_store(&xas, NULL) != folios[i]);
	}
	xas_unlock_irq(&xas);
	return frozen;
}

/*
 * Freeze a base folio, copy it to @to and put @to in its place. Both are locked, @from is unmapped,
 * and only the pool has a reference to @to. Return false and change nothing if @from has another
 * reference. All is done under one xa_lock, so that a lookup finds one of the two, and the entry
 * needs no memory: the shrinker may be the caller.
 */
bool hugemap_mm_replace_folio(struct address_space *mapping, struct folio *from, struct folio *to)
{
	XA_STATE(xas, &mapping->i_pages, from->index);
	bool frozen;

	xas_lock_irq(&xas);
	frozen = folio_ref_freeze(from, hugemap_mm_cached_refs(from));
	if (frozen) {
		copy_highpage(folio_page(to, 0), folio_page(from, 0));
		to->index = from->index;
		folio_mark_uptodate(to);
		flush_dcache_folio(to);
		folio_ref_add(to, 1);
		/* Pairs with hugemap_folio_is(): a lookup that sees the mapping sees the data. */
		smp_store_release(&to->mapping, mapping);
		xas_set_order(&xas, from->index, 0);
		WARN_ON_ONCE(xas_store(&xas, to) != from);
	}
	xas_unlock_irq(&xas);
	return frozen;
}

/* Remove the entry of a folio that cannot be frozen. This allocates nothing. */
void hugemap_mm_remove_entry(struct address_space *mapping, struct folio *folio)
{
	XA_STATE_ORDER(xas, &mapping->i_pages, folio->index, folio_order(folio));
	void *entry;

	xas_lock_irq(&xas);
	entry = xas_store(&xas, NULL);
	xas_unlock_irq(&xas);
	WARN_ON_ONCE(entry != folio);
}
