// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Direct writes that overwrite allocated blocks. They run in parallel, and beside fills of other
 * pages: docs/design/direct.md.
 *
 * An overwrite claims its pages in data->overwrites, and then looks at the states of the units. A
 * fill makes its unit HM_FILLING, and then looks at data->overwrites:
 *
 *   CPU 0 (overwrite): adds its range to the list; reads the states of the units.
 *   CPU 1 (fill): changes ABSENT to FILLING; reads the list.
 *
 * Both writes are full barriers. So CPU 0 waits for the fill, or CPU 1 cancels it and waits for the
 * overwrite, or both.
 */
#include <linux/fs.h>
#include <linux/pagemap.h>
#include <linux/sched/signal.h>

#include "change.h"
#include "index.h"
#include "overwrite.h"
#include "wait.h"
#include "writeback.h"

/* Attempts to drop the cached units. A unit that stays is pinned, or a device stores to it. */
#define DROP_TRIES 2u
/* Waits for units that other tasks fill, write or evict. */
#define WAIT_TRIES 1000u

/* An overwrite waits only for overlapping overwrites that are before it in data->overwrites. */
struct overwrite {
	struct list_head entry; /* data->overwrite_lock: in data->overwrites */
	u64 first, end; /* in pages */
};

/* All overwrites of a file and the fills that wait for them use the queue of its first block. */
static wait_queue_head_t *overwrite_wait_of(struct hugemap_inode *hi)
{
	return hugemap_wait_of(hugemap_of(hi), hi->hfile, 0);
}

/*
 * Return true if an overwrite claims a part of the range. If @mine is not NULL, only the overwrites
 * before it in the list count.
 */
static bool overwrite_claims(struct hugemap_inode *hi, u64 first, u64 end,
			     const struct overwrite *mine)
{
	const struct overwrite *other;
	bool claims = false;

	spin_lock(&hi->data->overwrite_lock);
	list_for_each_entry(other, &hi->data->overwrites, entry) {
		if (other == mine)
			break;
		claims = other->first < end && first < other->end;
		if (claims)
			break;
	}
	spin_unlock(&hi->data->overwrite_lock);
	return claims;
}

bool hugemap_is_overwritten_slow(struct hugemap_inode *hi, const struct hm_unit *unit)
{
	return overwrite_claims(hi, unit->pgoff, unit->pgoff + unit->npages, NULL);
}

int hugemap_wait_overwrite(struct hugemap_inode *hi, const struct hm_unit *unit, bool *counted)
{
	if (!*counted)
		atomic_inc(&hi->data->fills_waiting);
	*counted = true;
	hugemap_race_point("fill: waits for an overwrite");
	return wait_event_killable(*overwrite_wait_of(hi), !hugemap_is_overwritten(hi, unit));
}

void hugemap_end_wait_overwrite(struct hugemap_inode *hi, bool *counted)
{
	if (likely(!*counted))
		return;
	*counted = false;
	if (atomic_dec_and_test(&hi->data->fills_waiting))
		wake_up_all(overwrite_wait_of(hi));
}

static void overwrite_unclaim(struct hugemap_inode *hi, struct overwrite *mine)
{
	spin_lock(&hi->data->overwrite_lock);
	list_del_init(&mine->entry);
	spin_unlock(&hi->data->overwrite_lock);
	hugemap_wake(hugemap_of(hi), hi->hfile, 0);
}

/* Claim the range, and wait until no earlier overwrite claims a part of it. */
static int overwrite_claim(struct hugemap_inode *hi, struct overwrite *mine)
{
	int err;

	hugemap_yield_to_stores(hi);
	spin_lock(&hi->data->overwrite_lock);
	list_add_tail(&mine->entry, &hi->data->overwrites);
	spin_unlock(&hi->data->overwrite_lock);
	/* Pairs with hugemap_is_overwritten(). */
	smp_mb();
	err = wait_event_killable(*overwrite_wait_of(hi),
				  !overwrite_claims(hi, mine->first, mine->end, mine));
	if (err)
		overwrite_unclaim(hi, mine);
	return err ? -EINTR : 0;
}

/* Move *pgoff to the next unit of the range that is not absent. HM_ABSENT: there is none. */
static enum hm_state overwrite_next(struct hugemap_inode *hi, u64 *pgoff, u64 end)
{
	while (*pgoff < end) {
		struct hm_unit unit;
		enum hm_state state = hm_peek(hi->hfile, *pgoff, &unit);

		/* A failed read left an error for the task that waited for it, and no data. */
		if (state != HM_ABSENT && state != HM_FAILED)
			return state;
		*pgoff = unit.pgoff + unit.npages;
	}
	return HM_ABSENT;
}

/* Write and drop the cached units of the range. Fills of other pages wait meanwhile. */
static int overwrite_drop(struct hugemap_inode *hi, const struct overwrite *mine)
{
	struct address_space *mapping = hi->vfs_inode.i_mapping;
	int err;

	/* No hugemap_yield_to_stores(): a waiting fill may wait for this claim. */
	filemap_invalidate_lock(mapping);
	err = hugemap_write_range(hi, mine->first, mine->end);
	if (!err)
		hugemap_drop_clean_pages(hi, mine->first, mine->end);
	filemap_invalidate_unlock(mapping);
	return err;
}

/*
 * Take all units of the claimed range out of the cache. No fill brings one in again. -EAGAIN: one
 * stays.
 */
static int overwrite_clear(struct hugemap_inode *hi, const struct overwrite *mine)
{
	u32 drops = 0, waits = 0;
	u64 pgoff = mine->first;
	enum hm_state state;
	int err = 0;

	while (!err && (state = overwrite_next(hi, &pgoff, mine->end)) != HM_ABSENT) {
		if (state == HM_CLEAN || state == HM_DIRTY) {
			if (drops++ == DROP_TRIES)
				return -EAGAIN;
			err = overwrite_drop(hi, mine);
			/* Earlier pages may have been promoted to a cached huge unit. */
			pgoff = mine->first;
		} else if (waits++ == WAIT_TRIES) {
			return -EAGAIN;
		} else if (wait_event_killable(*hugemap_wait_of(hugemap_of(hi), hi->hfile, pgoff),
					       hugemap_unit_idle(hi, pgoff))) {
			return -EINTR;
		}
	}
	return err;
}

static bool overwrite_knows_data(struct hugemap_inode *hi, loff_t start, loff_t end)
{
	const struct hugemap_data *data = hi->data;
	bool known;

	spin_lock(&hi->data->overwrite_lock);
	known = data->data_changes == data->changes && data->data_start <= start &&
		end <= data->data_end;
	spin_unlock(&hi->data->overwrite_lock);
	return known;
}

/*
 * Return true if the lower file has no hole in the range. SEEK_HOLE walks through all extents up to
 * the next hole, so remember where that is. The caller holds i_rwsem, so no task makes a hole.
 */
static bool overwrite_finds_data(struct hugemap_inode *hi, loff_t start, loff_t end)
{
	struct hugemap_data *data = hi->data;
	loff_t hole;

	if (overwrite_knows_data(hi, start, end))
		return true;
	hole = vfs_llseek(data->reader, start, SEEK_HOLE);
	if (hole < end)
		return false;
	spin_lock(&data->overwrite_lock);
	if (data->data_changes != data->changes || data->data_end != hole)
		data->data_start = start;
	data->data_start = min(data->data_start, start);
	data->data_end = hole;
	data->data_changes = data->changes;
	spin_unlock(&data->overwrite_lock);
	return true;
}

/*
 * Return true if all pages of the range hold data, for the lower file system and for the core.
 * Otherwise the core has to learn of the write while no index node is added.
 */
static bool overwrite_has_data(struct hugemap_inode *hi, const struct overwrite *mine)
{
	loff_t start = (loff_t)mine->first << HM_PAGE_SHIFT;
	struct hm_unit unit;
	u64 pgoff;

	for (pgoff = mine->first; pgoff < mine->end; pgoff = unit.pgoff + unit.npages) {
		hm_peek(hi->hfile, pgoff, &unit);
		if (hm_is_zero_fill(hi->hfile, pgoff))
			return false;
	}
	return overwrite_finds_data(hi, start, (loff_t)mine->end << HM_PAGE_SHIFT);
}

ssize_t hugemap_overwrite_lower(struct inode *inode, loff_t start, loff_t end,
				ssize_t (*change)(void *arg), void *arg)
{
	struct hugemap_inode *hi = hugemap_inode(inode);
	struct overwrite mine = { .first = (u64)start >> HM_PAGE_SHIFT, .end = hugemap_pages(end) };
	ssize_t ret;

	/* Without memory for the index of a file that was never cached: the exclusive way. */
	if (end > i_size_read(inode) || hugemap_is_growing(hi) || hugemap_need_file(hi) ||
	    !overwrite_has_data(hi, &mine))
		return -EAGAIN;
	ret = overwrite_claim(hi, &mine);
	if (ret)
		return ret;
	hugemap_race_point("overwrite: claimed, not dropped");
	ret = overwrite_clear(hi, &mine);
	hugemap_race_point("overwrite: dropped, not written");
	if (!ret)
		ret = change(arg);
	hugemap_race_point("overwrite: written, claimed");
	overwrite_unclaim(hi, &mine);
	return ret;
}
