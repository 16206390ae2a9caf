// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Units and their folios. A folio that holds a unit is in i_pages of its inode,
 * as a page-cache folio would be: fault-around and mincore(2) find it there, and
 * an inode with cached data is not reclaimed. It is on no LRU list and is not
 * counted in nrpages. What drops or splits folios by the way of i_pages (drop_caches,
 * madvise) freezes one reference a page and its own, and never finds as few: there is
 * that of the pool, too.
 */
#include <linux/cacheflush.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/xarray.h>

#include "data.h"

bool hugemap_folio_is(const struct hugemap_inode *hi, const struct folio *folio, u64 pgoff)
{
	return smp_load_acquire(&folio->mapping) == hi->vfs_inode.i_mapping &&
	       pgoff >= folio->index &&
	       pgoff - folio->index < folio_nr_pages((struct folio *)folio);
}

struct folio *hugemap_unit_folio(struct hugemap_inode *hi, const struct hm_unit *unit)
{
	struct folio *folio;

	rcu_read_lock();
	folio = hugemap_frame_folio(hugemap_of(hi), unit->frame);
	hugemap_race_point_atomic("folio: found, no reference");
	if (folio && !folio_try_get(folio))
		folio = NULL;
	rcu_read_unlock();
	if (!folio)
		return NULL;
	if (likely(hugemap_folio_is(hi, folio, unit->pgoff)))
		return folio;
	folio_put(folio);
	return NULL;
}

/*
 * Somebody else's folio in the place of an entry, with a reference; or NULL. mm counts such
 * folios, and only them, where it puts them there. The xa_lock is held.
 */
static struct folio *folio_find_foreign(const struct address_space *mapping, struct xa_state *xas)
{
	struct folio *foreign = mapping->nrpages ? xas_find_conflict(xas) : NULL;

	if (foreign)
		folio_get(foreign);
	return foreign;
}

/*
 * All entries of a row under one xa_lock, and none may lack: i_pages tells whether anything
 * is cached, to us and to who reclaims inodes. What somebody else has put there is waited
 * for: it is locked until he takes it out again (see aops.c), and with it he would take ours.
 */
static void folio_store_row(struct hugemap_inode *hi, const struct hm_unit *units, u32 n)
{
	struct address_space *mapping = hi->vfs_inode.i_mapping;
	XA_STATE(xas, &mapping->i_pages, units[0].pgoff);
	struct folio *foreign;
	u32 i = 0;

	do {
		foreign = NULL;
		xas_lock_irq(&xas);
		for (; i < n; i++) {
			xas_set_order(&xas, units[i].pgoff, ilog2(units[i].npages));
			foreign = folio_find_foreign(mapping, &xas);
			if (foreign)
				break;
			xas_store(&xas, hugemap_frame_folio(hugemap_of(hi), units[i].frame));
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

/* It takes no memory. */
static void folio_take_entry(struct hugemap_inode *hi, struct folio *folio)
{
	XA_STATE_ORDER(xas, &hi->vfs_inode.i_mapping->i_pages, folio->index, folio_order(folio));
	void *entry;

	xas_lock_irq(&xas);
	entry = xas_store(&xas, NULL);
	xas_unlock_irq(&xas);
	WARN_ON_ONCE(entry != folio);
}

void hugemap_folio_insert(struct hugemap_inode *hi, const struct hm_unit *units, u32 n)
{
	struct folio *folio;
	u32 i;

	for (i = 0; i < n; i++) {
		folio = hugemap_frame_folio(hugemap_of(hi), units[i].frame);
		/* A late lookup may have the lock for a moment. */
		folio_lock(folio);
		hugemap_folio_own(folio, HUGEMAP_OWNER_POOL, HUGEMAP_OWNER_CACHE);
		folio->index = units[i].pgoff;
		folio_mark_uptodate(folio);
		/* Instructions that were run out of this frame are stale. */
		flush_dcache_folio(folio);
		/* Of i_pages: with them, nobody who finds it there can take it away. */
		folio_ref_add(folio, units[i].npages);
		hugemap_race_point("join: owned, without a mapping");
		/* Whoever sees the mapping sees the data: see hugemap_unit_folio(). */
		smp_store_release(&folio->mapping, hi->vfs_inode.i_mapping);
		folio_unlock(folio);
	}
	folio_store_row(hi, units, n);
}

/*
 * Does nobody hold one of these, NULL where there is none? Locked and unmapped. Frozen,
 * nobody can get it: not through a page table, as there is none, and not through the core or
 * i_pages, which try until it is not frozen, or gone; so it is both under one lock, and nobody
 * is kept waiting where the lock does not sleep.
 */
static bool folio_freeze_entry(struct hugemap_inode *hi, struct folio *const *folios, u32 n)
{
	XA_STATE(xas, &hi->vfs_inode.i_mapping->i_pages, 0);
	bool frozen;
	u32 end, i;

	xas_lock_irq(&xas);
	for (end = 0; end < n; end++)
		if (folios[end] &&
		    !folio_ref_freeze(folios[end], hugemap_mm_cached_refs(folios[end])))
			break;
	frozen = end == n;
	hugemap_race_point_atomic("leave: frozen, in i_pages");
	for (i = 0; i < end; i++) {
		if (!folios[i])
			continue;
		if (!frozen) {
			folio_ref_unfreeze(folios[i], hugemap_mm_cached_refs(folios[i]));
			continue;
		}
		/* One by one: where a page was not cached there may be a foreign folio. */
		xas_set_order(&xas, folios[i]->index, folio_order(folios[i]));
		WARN_ON_ONCE(xas_store(&xas, NULL) != folios[i]);
	}
	xas_unlock_irq(&xas);
	return frozen;
}

/* Frozen, and not in i_pages any more: it is the pool's. */
static void folio_leave(struct folio *folio)
{
	folio_clear_uptodate(folio);
	folio_clear_dirty(folio);
	folio->mapping = NULL;
	hugemap_folio_own(folio, HUGEMAP_OWNER_CACHE, HUGEMAP_OWNER_POOL);
	folio_ref_unfreeze(folio, 1);
}

bool hugemap_folio_remove(struct hugemap_inode *hi, struct folio *folio)
{
	/* A zap or a direct I/O may hold it still, although it is unmapped. */
	if (!folio_freeze_entry(hi, &folio, 1))
		return false;
	folio_leave(folio);
	return true;
}

bool hugemap_folio_freeze_range(struct hugemap_inode *hi, struct folio *const *base)
{
	return folio_freeze_entry(hi, base, HM_BLOCK_PAGES);
}

void hugemap_folio_replace(struct hugemap_inode *hi, const struct hm_unit *unit,
			   struct folio *const *base)
{
	u32 i;

	for (i = 0; i < HM_BLOCK_PAGES; i++)
		if (base[i])
			folio_leave(base[i]);
	hugemap_folio_insert(hi, unit, 1);
}

void hugemap_folio_orphan(struct hugemap_inode *hi, struct folio *folio)
{
	folio_take_entry(hi, folio);
	folio_clear_dirty(folio);
	folio->mapping = NULL;
	hugemap_folio_own(folio, HUGEMAP_OWNER_CACHE, HUGEMAP_OWNER_EXTERNAL);
	/* With one reference of i_pages; that of the pool is the caller's. */
	folio_ref_sub(folio, folio_nr_pages(folio) - 1);
	hugemap_orphan_add(hugemap_of(hi), folio);
}

/* @hints: of earlier looks. What a touch has taken out of the unit is told only once. */
static struct folio *folio_find_again(struct hugemap_inode *hi, u64 pgoff, struct hm_access access,
				      struct hm_unit *unit, u32 hints)
{
	struct folio *folio;

	access.cached_only = true;
	while (hm_fault(hi->hfile, pgoff, access, unit) == HM_HIT) {
		unit->hints |= hints;
		folio = hugemap_unit_folio(hi, unit);
		if (likely(folio))
			return folio;
		hints = unit->hints;
		cpu_relax(); /* it has been evicted since: ask again */
	}
	return NULL;
}

struct folio *hugemap_find(struct hugemap_inode *hi, u64 pgoff, struct hm_access access,
			   struct hm_unit *unit)
{
	return folio_find_again(hi, pgoff, access, unit, 0);
}

struct folio *hugemap_find_locked(struct hugemap_inode *hi, u64 pgoff, struct hm_access access,
				  struct hm_unit *unit)
{
	struct folio *folio;
	u32 hints = 0;

	while ((folio = folio_find_again(hi, pgoff, access, unit, hints))) {
		hugemap_race_point("folio: has a reference, not locked");
		folio_lock(folio);
		if (likely(hugemap_folio_is(hi, folio, pgoff)))
			return folio;
		folio_unlock(folio);
		folio_put(folio);
		hints = unit->hints;
	}
	return NULL;
}
