// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Units and their folios: how a folio becomes the folio of a unit, how it is found, and how it
 * leaves. The entries in i_pages are in mm/i_pages.c.
 */
#include <linux/cacheflush.h>
#include <linux/mm.h>
#include <linux/pagemap.h>

#include "folio.h"
#include "orphan.h"
#include "owner.h"
#include "slot.h"

bool hugemap_folio_is(const struct hugemap_inode *hi, const struct folio *folio, u64 pgoff)
{
	return smp_load_acquire(&folio->mapping) == hi->vfs_inode.i_mapping &&
	       pgoff >= folio->index &&
	       pgoff - folio->index < folio_nr_pages((struct folio *)folio);
}

/* Get a reference to the folio of a frame, if it still holds the page. The caller holds RCU. */
static inline struct folio *folio_try_get_page(struct hugemap_inode *hi, u32 frame, u64 pgoff)
{
	struct folio *folio = hugemap_frame_folio(hugemap_of(hi), frame);

	hugemap_race_point_atomic("folio: found, no reference");
	if (!folio || !folio_try_get(folio))
		return NULL;
	if (likely(hugemap_folio_is(hi, folio, pgoff)))
		return folio;
	folio_put(folio);
	return NULL;
}

struct folio *hugemap_unit_folio(struct hugemap_inode *hi, const struct hm_unit *unit)
{
	struct folio *folio;

	rcu_read_lock();
	folio = folio_try_get_page(hi, unit->frame, unit->pgoff);
	rcu_read_unlock();
	return folio;
}

/* Make the folio of a filled unit a cached folio, apart from its entry in i_pages. */
static struct folio *folio_prepare(struct hugemap_inode *hi, const struct hm_unit *unit)
{
	struct folio *folio = hugemap_frame_folio(hugemap_of(hi), unit->frame);

	/* A lookup that found the frame's previous unit may hold the lock for a moment. */
	folio_lock(folio);
	hugemap_folio_own(folio, HUGEMAP_OWNER_POOL, HUGEMAP_OWNER_CACHE);
	folio->index = unit->pgoff;
	folio_mark_uptodate(folio);
	/* CPUs may have cached instructions of the frame's previous unit. */
	flush_dcache_folio(folio);
	/* These are the references of i_pages. A task that finds the folio there cannot free it. */
	folio_ref_add(folio, unit->npages);
	hugemap_race_point("join: owned, without a mapping");
	/* Pairs with hugemap_folio_is(): a lookup that sees the mapping sees the data. */
	smp_store_release(&folio->mapping, hi->vfs_inode.i_mapping);
	folio_unlock(folio);
	return folio;
}

void hugemap_folio_insert(struct hugemap_inode *hi, const struct hm_unit *units, u32 n)
{
	struct folio *folios[HUGEMAP_ROW_FOLIOS];
	u32 i, k;

	for (i = 0; i < n; i += k) {
		for (k = 0; k < HUGEMAP_ROW_FOLIOS && i + k < n; k++)
			folios[k] = folio_prepare(hi, &units[i + k]);
		hugemap_mm_add_folios(hi->vfs_inode.i_mapping, folios, k);
	}
}

/* A frozen folio that is no longer in i_pages returns to the pool. */
static void folio_leave(struct folio *folio)
{
	folio_clear_uptodate(folio);
	folio_clear_dirty(folio);
	folio->mapping = NULL;
	hugemap_folio_own(folio, HUGEMAP_OWNER_CACHE, HUGEMAP_OWNER_POOL);
	folio_ref_unfreeze(folio, 1);
}

bool hugemap_folio_remove(struct hugemap_inode *hi, struct folio *folio, bool clean)
{
	hugemap_race_point("leave: unmapped, not frozen");
	/* An unmapped folio may still be pinned by a zap or by direct I/O. */
	if (!hugemap_mm_freeze_folios(hi->vfs_inode.i_mapping, &folio, 1, clean))
		return false;
	folio_leave(folio);
	return true;
}

bool hugemap_folio_move(struct hugemap_inode *hi, struct folio *from, const struct hm_unit *to)
{
	struct folio *folio = hugemap_frame_folio(hugemap_of(hi), to->frame);
	bool moved;

	/* Reclaim has checked that the free frame, which it owns, has memory. */
	if (WARN_ON_ONCE(!folio))
		return false;
	/* A lookup that found the frame's previous unit may hold the lock. */
	if (!folio_trylock(folio))
		return false;
	hugemap_folio_own(folio, HUGEMAP_OWNER_POOL, HUGEMAP_OWNER_CACHE);
	moved = hugemap_mm_replace_folio(hi->vfs_inode.i_mapping, from, folio);
	if (moved)
		folio_leave(from);
	else
		hugemap_folio_own(folio, HUGEMAP_OWNER_CACHE, HUGEMAP_OWNER_POOL);
	folio_unlock(folio);
	return moved;
}

bool hugemap_folio_freeze_range(struct hugemap_inode *hi, struct folio *const *base)
{
	return hugemap_mm_freeze_folios(hi->vfs_inode.i_mapping, base, HM_BLOCK_PAGES, false);
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
	hugemap_mm_remove_entry(hi->vfs_inode.i_mapping, folio);
	folio_clear_dirty(folio);
	folio->mapping = NULL;
	hugemap_folio_own(folio, HUGEMAP_OWNER_CACHE, HUGEMAP_OWNER_EXTERNAL);
	/*
	 * Keep one reference of i_pages for the list of orphans. The caller puts the reference of
	 * the pool.
	 */
	folio_ref_sub(folio, folio_nr_pages(folio) - 1);
	hugemap_orphan_add(hugemap_of(hi), folio);
}

/*
 * Look up a cached page until its folio can be referenced. @hints: the hints of earlier calls for
 * the same access, because the core reports each hint only once.
 */
static inline struct folio *folio_find_again(struct hugemap_inode *hi, u64 pgoff,
					     struct hm_access access, struct hm_unit *unit,
					     u32 hints)
{
	struct folio *folio;

	/* Nothing has been cached yet. */
	if (unlikely(!smp_load_acquire(&hi->hfile)))
		return NULL;
	access.cached_only = true;
	while (hm_fault(hi->hfile, pgoff, access, unit) == HM_HIT) {
		unit->hints |= hints;
		folio = hugemap_unit_folio(hi, unit);
		if (likely(folio))
			return folio;
		hints = unit->hints;
		cpu_relax(); /* the unit was evicted in between: repeat the lookup */
	}
	return NULL;
}

struct folio *hugemap_find(struct hugemap_inode *hi, u64 pgoff, struct hm_access access,
			   struct hm_unit *unit)
{
	return folio_find_again(hi, pgoff, access, unit, 0);
}

u32 hugemap_find_row(struct hugemap_inode *hi, u64 pgoff, struct folio **folios, u32 n)
{
	u32 frames[HUGEMAP_ROW_FOLIOS], i;

	n = hm_fault_row(hi->hfile, pgoff, frames, n);
	rcu_read_lock();
	for (i = 0; i < n; i++) {
		folios[i] = folio_try_get_page(hi, frames[i], pgoff + i);
		if (unlikely(!folios[i]))
			break; /* the page was evicted in between */
	}
	rcu_read_unlock();
	return i;
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
