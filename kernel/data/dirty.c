// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * ->dirty_folio(): the kernel reports a store that no fault has reported. A device with a reference
 * to the page has stored to it, or a zap has found the dirty bit of a page table entry.
 */
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/pagemap.h>

#include "dirty.h"
#include "slot.h"

enum hm_state hugemap_become_dirty(struct hugemap_inode *hi, u64 pgoff)
{
	struct hm_access access = HM_ACCESS(.write = true, .cached_only = true, .again = true);
	struct hm_unit unit;

	hugemap_race_point_atomic("flagged dirty, not dirty in the cache");
	return hm_fault(hi->hfile, pgoff, access, &unit) == HM_BUSY ? HM_EVICTING : HM_DIRTY;
}

/*
 * Set the dirty flag of a folio. If this task is the first one, report the store to the core, and
 * return true. A claim counts as a report before the task leaves this function: then another task
 * that finds the flag either sees this task here, or its sync waits for the claim.
 */
static bool dirty_flag(struct hugemap_inode *hi, struct folio *folio)
{
	atomic_t *flagging = hugemap_flagging(hi, folio->index);
	bool first;

	atomic_inc(flagging);
	smp_mb__after_atomic();
	first = !folio_test_set_dirty(folio);
	if (first && hugemap_become_dirty(hi, folio->index) == HM_EVICTING)
		atomic_inc(&hugemap_of(hi)->dirtied_claimed);
	smp_mb__before_atomic();
	atomic_dec(flagging);
	return first;
}

/*
 * Return true if the core may not know of a store to a folio with the dirty flag. A sync by this
 * task must not depend on another task, so this task reports the store if
 * - the unit is clean; or
 * - a task is in dirty_flag(): it may have set this flag, and not have reported it. If the core
 *   knows of an older store, the write-back of that store may have read the page before this one.
 */
static bool dirty_is_unreported(struct hugemap_inode *hi, u64 pgoff, enum hm_state state)
{
	return state == HM_CLEAN || atomic_read_acquire(hugemap_flagging(hi, pgoff));
}

bool hugemap_dirty_folio(struct address_space *mapping, struct folio *folio)
{
	struct hugemap_inode *hi = hugemap_inode(mapping->host);
	enum hm_state state;
	struct hm_unit unit;

	if (!hi->hfile)
		return false;
	/* A write-back that clears the flag after this test reads the store of the caller. */
	smp_mb();
	if (!folio_test_dirty(folio) && dirty_flag(hi, folio))
		return false;
	smp_mb(); /* pairs with the compare-and-swap of a claim: see evict_stay() */
	state = hm_peek(hi->hfile, folio->index, &unit);
	if (state != HM_EVICTING && dirty_is_unreported(hi, folio->index, state))
		state = hugemap_become_dirty(hi, folio->index);
	/* The task that has claimed the unit finds the flag. */
	if (state == HM_EVICTING)
		atomic_inc(&hugemap_of(hi)->dirtied_claimed);
	return false;
}
