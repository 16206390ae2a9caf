// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Changes of the lower file that bypass the cache: truncate, punch, direct I/O, clone. Units that
 * reach out of the range are written before the change, and cached data of the range is dropped
 * after it.
 *
 * No program can make a clean unit dirty during the change: a store to a mapping takes the
 * invalidate_lock, and write(2) takes i_rwsem, which the caller holds. A device can: it writes into
 * pinned pages at any time. So a unit that is changed in part is never dropped at once: its changed
 * part is read again, and the rest is written. A pinned unit stays, and data that the device writes
 * afterwards counts as written after the change.
 */
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/sched.h>

#include "change.h"
#include "evict.h"
#include "folio.h"
#include "index.h"
#include "io.h"
#include "slot.h"
#include "wait.h"
#include "writeback.h"

/* Attempts, a tick apart, to read the changed part, because the lower file may fail to read now. */
#define AMEND_TRIES 20u

struct change {
	loff_t start, end; /* in bytes; LLONG_MAX: to the end */
	enum hugemap_change what;
};

static loff_t change_lower_size(const struct hugemap_inode *hi)
{
	return i_size_read(hi->lower ?: hugemap_of(hi)->device->f_mapping->host);
}

/* Set the size of the file. The caller holds the locks of hugemap_change_lower(). */
static void change_take_size(struct hugemap_inode *hi, loff_t size)
{
	i_size_write(&hi->vfs_inode, size);
	if (hi->hfile)
		hm_file_set_size(hi->hfile, size);
}

/* These give the pages of all blocks that a range of bytes touches. */
static u64 change_first_of(loff_t start)
{
	return ((u64)start >> HM_PAGE_SHIFT) & ~HUGEMAP_BLOCK_MASK;
}

static u64 change_end_of(loff_t end)
{
	return end == LLONG_MAX ? U64_MAX : round_up(hugemap_pages(end), (u64)HM_BLOCK_PAGES);
}

bool hugemap_grows_in_page(const struct hugemap_inode *hi, loff_t old, loff_t size)
{
	loff_t end = hi->lower ? round_up(old, (loff_t)i_blocksize(hi->lower)) : 0;

	return end < size && end % HM_PAGE_SIZE;
}

/*
 * Write data that the change would lose: units that reach out of a discarded range; units beyond
 * the end of the lower file, if the lower file must catch up; and the page with the end of the
 * file, whose rest becomes zeros if the file grows. Units that are discarded as a whole are not
 * written: there may be no space for them.
 */
static int change_write_before(struct hugemap_inode *hi, loff_t start, loff_t end,
			       enum hugemap_change what)
{
	loff_t size = i_size_read(&hi->vfs_inode);
	bool cut = what == HUGEMAP_DISCARD && end == LLONG_MAX && start < size;
	u64 first = change_first_of(start), last = change_end_of(end);
	int err = 0;

	if (what == HUGEMAP_KEEP)
		err = hugemap_write_range(hi, first, last);
	else if (start % HM_BLOCK_SIZE || (cut && change_lower_size(hi) < start))
		err = hugemap_write_range(hi, first, hugemap_pages(start));
	if (!err && what == HUGEMAP_DISCARD && end != LLONG_MAX && end % HM_BLOCK_SIZE)
		err = hugemap_write_range(hi, last - HM_BLOCK_PAGES, last);
	if (!err && !cut)
		err = hugemap_write_range(hi, (u64)size >> HM_PAGE_SHIFT, U64_MAX);
	return err;
}

/*
 * The lower file system has freed the blocks that lie in a range. If its blocks are smaller than
 * pages, the first and the last page may have data in other blocks. They need blocks as well before
 * the next store.
 */
static void change_note_edges(struct hugemap_inode *hi, loff_t start, loff_t end)
{
	loff_t block = i_blocksize(hi->lower);

	start = round_up(start, block);
	end = round_down(end, block);
	if (start < end && start % HM_PAGE_SIZE)
		hugemap_note_zero_fill(hi, (u64)start >> HM_PAGE_SHIFT, 1, false);
	if (start < end && end % HM_PAGE_SIZE)
		hugemap_note_zero_fill(hi, (u64)end >> HM_PAGE_SHIFT, 1, false);
}

/* The file has grown. A store to the page with the old end needs blocks for its rest. */
static void change_note_old_end(struct hugemap_inode *hi, loff_t old_size, loff_t size)
{
	if (hugemap_grows_in_page(hi, old_size, size))
		hugemap_note_zero_fill(hi, (u64)old_size >> HM_PAGE_SHIFT, 1, false);
}

/* Update the core's knowledge of holes in a range that has changed. */
static void change_note_needs_alloc(struct hugemap_inode *hi, loff_t start, loff_t end,
				    loff_t old_size, loff_t size, enum hugemap_change what)
{
	u64 beyond = hugemap_pages(size), old_end = hugemap_pages(old_size);
	u64 first = (u64)start >> HM_PAGE_SHIFT, last;

	/* A device has no holes. */
	if (!hi->lower)
		return;
	if (beyond > old_end)
		hugemap_note_zero_fill(hi, old_end, (beyond | HUGEMAP_BLOCK_MASK) + 1 - old_end,
				       true);
	change_note_old_end(hi, old_size, size);
	if (what == HUGEMAP_KEEP) {
		/* After direct I/O or a clone the range may hold data, and may have holes. */
		last = min(end == LLONG_MAX ? beyond : hugemap_pages(end), beyond);
		if (last > first)
			hugemap_note_zero_fill(hi, first, last - first, false);
	} else if (end != LLONG_MAX) {
		/* A punch that reaches the end frees the blocks of the whole last page (ext4). */
		if (end >= size)
			end = round_up(end, HM_PAGE_SIZE);
		first = hugemap_pages(start);
		last = min((u64)end >> HM_PAGE_SHIFT, beyond);
		if (last > first)
			hugemap_note_zero_fill(hi, first, last - first, true);
		change_note_edges(hi, start, end);
	}
	if (old_end > beyond)
		hugemap_note_zero_fill(hi, beyond, (old_end | HUGEMAP_BLOCK_MASK) + 1 - beyond,
				       true);
}

/* Return the bytes of a unit that have changed, and their offset in its folio. */
static size_t change_part_of(const struct hm_unit *unit, const struct change *change,
			     size_t *offset)
{
	loff_t first = (loff_t)unit->pgoff << HM_PAGE_SHIFT;
	loff_t last = first + ((loff_t)unit->npages << HM_PAGE_SHIFT);
	loff_t start = max(first, change->start), end = last;

	if (change->end < last)
		end = change->end;
	*offset = start - first;
	return end > start ? end - start : 0;
}

/* Make the changed part of a cached unit equal to the lower file. */
static int change_amend(struct hugemap_inode *hi, struct hm_unit *unit, const struct change *change)
{
	size_t offset, bytes = change_part_of(unit, change, &offset);
	struct folio *folio = bytes ? hugemap_unit_folio(hi, unit) : NULL;
	int err = 0;

	if (!folio)
		return 0;
	if (change->what == HUGEMAP_DISCARD) {
		folio_lock(folio);
		if (hugemap_folio_is(hi, folio, unit->pgoff))
			folio_zero_range(folio, offset, bytes);
		folio_unlock(folio);
	} else {
		err = hugemap_io_refresh(hi, folio, unit->pgoff, offset, bytes);
	}
	folio_put(folio);
	return err;
}

/*
 * Return true if the new end of the file lies within a huge unit. Such a unit must not stay,
 * because it would map pages beyond the end.
 */
static bool change_is_cut(const struct hm_unit *unit, const struct change *change)
{
	return unit->npages > 1 && change->what == HUGEMAP_DISCARD && change->end == LLONG_MAX &&
	       change->start > (loff_t)unit->pgoff << HM_PAGE_SHIFT;
}

/*
 * Before the change: return true if it would truncate within a huge unit that is pinned. That unit
 * has to go, but data that a device writes into the remaining part must not be lost. So the caller
 * waits until the unit is not pinned, up to a deadline. On older kernels a device has only a plain
 * reference to the folio. So before the deadline, while @soon is true, each extra reference counts
 * as a pin. After it only real pins count, because most users with plain references do not write.
 */
static bool change_cuts_pinned(struct hugemap_inode *hi, const struct change *change, bool soon)
{
	struct hm_unit unit = { .pgoff = (u64)change->start >> HM_PAGE_SHIFT, .npages = 1 };
	enum hm_state state = hm_peek(hi->hfile, unit.pgoff, &unit);
	struct folio *folio;
	bool pinned;

	if (state == HM_ABSENT || state == HM_FILLING || !change_is_cut(&unit, change))
		return false;
	folio = hugemap_unit_folio(hi, &unit);
	if (!folio)
		return false;
	/* Unmap the unit first: a task that has it mapped could still pin it. */
	unmap_mapping_pages(hi->vfs_inode.i_mapping, unit.pgoff, unit.npages, false);
	pinned = hugemap_mm_may_be_pinned(folio, soon);
	folio_put(folio);
	return pinned;
}

/*
 * Drop a claimed clean unit at the edge of the range. Return false if it is still cached and has to
 * leave.
 */
static bool change_drop_edge(struct hugemap_inode *hi, struct hm_unit *unit,
			     const struct change *change, u32 tries)
{
	struct folio *folio = hugemap_frame_folio(hugemap_of(hi), unit->frame);
	enum hm_evict_result result = HM_EVICT_BUSY;
	size_t offset, bytes = change_part_of(unit, change, &offset);
	bool whole = bytes == folio_size(folio), abandoned = false, amend = false;
	bool cut = change_is_cut(unit, change);

	folio_lock(folio);
	unmap_mapping_pages(hi->vfs_inode.i_mapping, unit->pgoff, unit->npages, false);
	hugemap_race_point("edge: unmapped, not looked at");
	if (hugemap_folio_remove(hi, folio, !whole)) {
		result = HM_EVICT_DISCARD;
	} else if (folio_test_dirty(folio) && !whole) {
		/* change_write_edge() reads its changed part again. */
		result = HM_EVICT_DIRTY;
	} else if (bytes && tries >= HUGEMAP_PIN_RETRIES &&
		   (whole || cut || tries >= AMEND_TRIES)) {
		hugemap_folio_orphan(hi, folio);
		hugemap_frame_empty(hugemap_of(hi), unit);
		result = HM_EVICT_DISCARD;
		abandoned = true;
	} else {
		/*
		 * Do not wait for the pin holder for long: it may be a device that continues to
		 * write, or a task whose fault on the next page waits for this change. After some
		 * attempts, read the changed part again in place. Base pages outside of the changed
		 * range stay as they are.
		 */
		amend = !bytes || tries >= HUGEMAP_PIN_RETRIES;
	}
	folio_unlock(folio);
	if (abandoned)
		folio_put(folio);
	hugemap_evict_report(hi, unit, result);
	return result == HM_EVICT_DISCARD || (amend && !change_amend(hi, unit, change));
}

/*
 * Read the changed part of the units that are still cached again, and write the dirty ones, to
 * which a device has written. Clean units are included: if a device makes one dirty, the write-back
 * must not write its old data. Return true if the caller has to repeat the call.
 */
static bool change_write_edge(struct hugemap_inode *hi, u64 first, u64 end,
			      const struct change *change, u32 tries)
{
	u64 pages = hugemap_pages(i_size_read(&hi->vfs_inode)), pgoff;
	bool dirty = false, cut = false;
	struct hm_unit unit;

	for (pgoff = first; pgoff < end; pgoff = max(unit.pgoff + unit.npages, pgoff + 1)) {
		enum hm_state state;
		size_t offset, bytes;
		int err;

		unit = (struct hm_unit){ .pgoff = pgoff, .npages = 1 };
		/* evict_move() may have claimed a dirty page, which it cannot move now. */
		while ((state = hm_peek(hi->hfile, pgoff, &unit)) == HM_EVICTING)
			wait_event(*hugemap_wait_of(hugemap_of(hi), hi->hfile, pgoff),
				   hugemap_unit_idle(hi, pgoff));
		if (state == HM_ABSENT || state == HM_FILLING || state == HM_FAILED)
			continue;
		bytes = change_part_of(&unit, change, &offset);
		if (!bytes)
			continue;
		err = change_amend(hi, &unit, change);
		if (err && tries < AMEND_TRIES)
			return true;
		if (state != HM_DIRTY)
			continue;
		if (err)
			/*
			 * Never write the old data. Drop the unit, with the device's data, and
			 * report an error.
			 */
			mapping_set_error(hi->vfs_inode.i_mapping, err);
		if (err || bytes == (size_t)unit.npages << HM_PAGE_SHIFT)
			hugemap_invalidate(hi, unit.pgoff, unit.pgoff + unit.npages, true);
		else if (unit.pgoff < pages)
			dirty = true;
		cut |= change_is_cut(&unit, change);
	}
	/*
	 * Units that cannot be written stay, with the changed part up to date, and are retried
	 * later.
	 */
	if (!dirty || hugemap_write_range(hi, first, end) || !cut)
		return false;
	/*
	 * The new end of the file cuts a huge unit, which has to leave. While it is pinned, it may
	 * become dirty again.
	 */
	if (tries < AMEND_TRIES)
		return true;
	hugemap_invalidate(hi, first, end, true);
	return false;
}

/* hm_invalidate() has returned HM_INV_BUSY for a page: wait until its unit is idle. */
static void change_wait_idle(struct hugemap_inode *hi, u64 pgoff)
{
	/* If the unit has left, its index nodes may be empty. */
	hugemap_keep_index(hi, pgoff);
	wait_event(*hugemap_wait_of(hugemap_of(hi), hi->hfile, pgoff),
		   hugemap_unit_idle(hi, pgoff));
}

/* Drop or update the units of a block that has changed in part. */
static void change_forget_edge(struct hugemap_inode *hi, u64 first, const struct change *change)
{
	u64 end = first + HM_BLOCK_PAGES;
	u32 tries;

	for (tries = 0;; tries++) {
		bool again = false;
		u64 pos = first;

		while (pos < end) {
			struct hm_unit unit;
			enum hm_invalidated found =
				hm_invalidate(hi->hfile, &pos, end, false, &unit);

			if (found == HM_INV_DONE)
				break;
			if (found == HM_INV_UNIT)
				again |= !change_drop_edge(hi, &unit, change, tries);
			else if (found == HM_INV_BUSY)
				change_wait_idle(hi, pos);
		}
		again |= change_write_edge(hi, first, end, change, tries);
		if (!again)
			return;
		schedule_timeout_uninterruptible(1);
	}
}

static void change_forget_range(struct hugemap_inode *hi, const struct change *change, bool cut)
{
	loff_t start = change->start, end = change->end;
	u64 first = change_first_of(start), last = change_end_of(end);
	u64 whole_first = change_first_of(start + HM_BLOCK_SIZE - 1), whole_last = last;

	hugemap_race_point("change: size published, cached and mapped");
	unmap_mapping_range(hi->vfs_inode.i_mapping, start, end == LLONG_MAX ? 0 : end - start,
			    false);
	if (end != LLONG_MAX)
		whole_last = change_first_of(end);
	if (whole_first > first)
		change_forget_edge(hi, first, change);
	if (last > whole_last && whole_last >= whole_first)
		change_forget_edge(hi, whole_last, change);
	if (whole_last > whole_first)
		hugemap_invalidate(hi, whole_first, whole_last, true);
	/*
	 * Private copies are unmapped only for pages beyond the new end. This comes last: until a
	 * folio has left, a fault that saw the old size may still copy its page.
	 */
	if (cut)
		unmap_mapping_range(hi->vfs_inode.i_mapping, round_up(start, PAGE_SIZE), 0, true);
}

void hugemap_drop_clean_pages(struct hugemap_inode *hi, u64 pos, u64 end)
{
	enum hm_invalidated found;
	struct hm_unit unit;

	while ((found = hm_invalidate(hi->hfile, &pos, end, false, &unit)) != HM_INV_DONE) {
		enum hm_evict_result result = HM_EVICT_BUSY;
		struct folio *folio;

		if (found == HM_INV_AGAIN) {
			cond_resched();
			continue;
		}
		if (found == HM_INV_BUSY) {
			change_wait_idle(hi, pos);
			continue;
		}
		folio = hugemap_frame_folio(hugemap_of(hi), unit.frame);
		folio_lock(folio);
		/* Readers may have mapped it again since it was claimed. */
		unmap_mapping_pages(hi->vfs_inode.i_mapping, unit.pgoff, unit.npages, false);
		if (hugemap_folio_remove(hi, folio, true))
			result = HM_EVICT_DISCARD;
		else if (folio_test_dirty(folio))
			result = HM_EVICT_DIRTY;
		folio_unlock(folio);
		hugemap_evict_report(hi, &unit, result);
		cond_resched();
	}
}

void hugemap_drop_clean(struct hugemap_inode *hi, loff_t start, loff_t last)
{
	hugemap_drop_clean_pages(hi, change_first_of(start), change_end_of(last));
}

/*
 * The change has failed, but a part of it may have been made. Drop the clean units, which are read
 * again. Follow the size of the lower file if it has grown or shrunk; it was @lower_size before,
 * which may be less than the size of the upper file. Forget which parts are holes.
 */
static void change_take_rest(struct hugemap_inode *hi, const struct change *change, loff_t old_size,
			     loff_t lower_size)
{
	struct change grown = { old_size, change_lower_size(hi), HUGEMAP_KEEP };
	struct change cut = { grown.end, LLONG_MAX, HUGEMAP_DISCARD };
	bool is_shorter = grown.end < min(lower_size, old_size);
	bool is_longer = grown.end > old_size;

	if (is_shorter)
		change_take_size(hi, grown.end);
	if (hi->hfile) {
		hugemap_drop_clean(hi, change->start, change->end);
		change_note_needs_alloc(hi, change->start, change->end, old_size, old_size,
					HUGEMAP_KEEP);
		if (is_shorter) {
			change_forget_range(hi, &cut, true);
			change_note_needs_alloc(hi, cut.start, cut.end, old_size, cut.start,
						HUGEMAP_DISCARD);
		}
		if (is_longer) {
			change_forget_range(hi, &grown, false);
			change_note_needs_alloc(hi, old_size, LLONG_MAX, old_size, grown.end,
						HUGEMAP_KEEP);
		}
	}
	if (is_longer)
		change_take_size(hi, grown.end);
}

void hugemap_make_room(struct hugemap_inode *hi, loff_t size)
{
	loff_t old = i_size_read(&hi->vfs_inode);
	u64 old_end = hugemap_pages(old), end = hugemap_pages(size) | HUGEMAP_BLOCK_MASK;
	struct hm_unit unit;

	while (old % HM_BLOCK_SIZE) {
		u64 last = (u64)(old - 1) >> HM_PAGE_SHIFT;
		enum hm_state state;
		struct folio *folio;

		hm_peek(hi->hfile, last, &unit);
		if (unit.npages == 1 && !(old % HM_PAGE_SIZE))
			break;
		folio = hugemap_find_locked(hi, last, HM_ACCESS(.again = true), &unit);
		if (folio) {
			size_t offset = old - folio_pos(folio);

			/* Stores may change the bytes beyond @size. The next growth zeroes them. */
			folio_zero_range(folio, offset,
					 min_t(u64, folio_size(folio) - offset, size - old));
			folio_unlock(folio);
			folio_put(folio);
			break;
		}
		state = hm_peek(hi->hfile, last, &unit);
		if (state == HM_ABSENT || state == HM_FILLING || state == HM_FAILED)
			break;
		/* The unit is claimed for eviction, and may stay. */
		wait_event(*hugemap_wait_of(hugemap_of(hi), hi->hfile, last),
			   hugemap_unit_idle(hi, last));
	}
	hugemap_race_point("write: old end zeroed, no room beyond");
	/*
	 * Set the size before the holes are recorded:
	 * CPU 0 (writer): sets the size; takes node_lock, and records the holes in all nodes.
	 * CPU 1 (reader): searches for holes; takes node_lock, compares the size, and adds a node.
	 * If CPU 1 adds its node first, CPU 0 records the holes in this node, too. Otherwise CPU 1
	 * sees the new size, and hm_file_add_node() fails.
	 */
	if (hugemap_pages(size) <= old_end) {
		/* Most small steps add no page. */
		hm_file_set_size(hi->hfile, size);
		return;
	}
	old_end = hm_file_grow(hi->hfile, old_end, size);
	hugemap_race_point("write: room beyond the end, holes not known");
	if (old_end <= end)
		hugemap_note_zero_fill(hi, old_end, end + 1 - old_end, true);
}

/*
 * Let the lower file system make the file longer. No cached page leaves. The added part of the last
 * page becomes zeros in the cache, as it is in the lower file.
 */
static ssize_t change_grow(struct hugemap_inode *hi, ssize_t (*change)(void *arg), void *arg)
{
	struct inode *inode = &hi->vfs_inode;
	loff_t old_size = i_size_read(inode), size;
	ssize_t ret = 0;

	hugemap_yield_to_stores(hi);
	filemap_invalidate_lock(inode->i_mapping);
	/*
	 * Appended data goes first: after a power cut it must not read as zeros. If the page with
	 * the old end is dirty, it is written before it needs blocks for the rest of the page.
	 */
	size = min(i_size_read(hi->lower), READ_ONCE(hi->data->growth_failed_at));
	if (hi->hfile && (size < old_size || hugemap_grows_in_page(hi, old_size, LLONG_MAX)))
		ret = hugemap_write_range(hi, (u64)min(size, old_size) >> HM_PAGE_SHIFT, U64_MAX);
	if (ret)
		goto out;
	hugemap_race_point("grow: written before, not longer");
	ret = change(arg);
	/* A lower file system may fail after it has made a part of the change. */
	size = change_lower_size(hi);
	if (size > old_size) {
		if (hi->hfile) {
			hugemap_make_room(hi, size);
			change_note_old_end(hi, old_size, size);
		}
		change_take_size(hi, size);
	}
out:
	filemap_invalidate_unlock(inode->i_mapping);
	return ret;
}

ssize_t hugemap_change_lower(struct inode *inode, loff_t start, loff_t end,
			     enum hugemap_change what, ssize_t (*change)(void *arg), void *arg)
{
	struct hugemap_inode *hi = hugemap_inode(inode);
	struct address_space *mapping = inode->i_mapping;
	unsigned long deadline = jiffies + msecs_to_jiffies(HUGEMAP_FAULT_TIMEOUT_MS);
	struct change range = { start, end, what };
	loff_t old_size = i_size_read(inode), lower_size;
	bool soon = true;
	ssize_t ret = 0;

	if (what == HUGEMAP_GROW)
		return change_grow(hi, change, arg);
	hugemap_yield_to_stores(hi);
	filemap_invalidate_lock(mapping);
	/* Wait without the lock: a task that pins page after page may need it for the next page. */
	while (hi->hfile && change_cuts_pinned(hi, &range, soon)) {
		if (!soon) {
			/* A later store of the device to the part that stays will be lost. */
			mapping_set_error(mapping, -EIO);
			break;
		}
		filemap_invalidate_unlock(mapping);
		schedule_timeout_killable(1);
		if (fatal_signal_pending(current))
			return -EINTR;
		filemap_invalidate_lock(mapping);
		soon = time_before(jiffies, deadline);
	}
	if (hi->hfile)
		ret = change_write_before(hi, start, end, what);
	if (ret)
		goto out;
	lower_size = change_lower_size(hi);
	hi->data->changes++;
	hugemap_race_point("change: written before, not changed");
	ret = change(arg);
	hugemap_race_point("change: below, not here");
	if (ret < 0) {
		change_take_rest(hi, &range, old_size, lower_size);
	} else {
		loff_t size = change_lower_size(hi);

		/*
		 * Set a smaller size before the units are dropped, so that no task uses the
		 * truncated ones. A larger size is set at the end, when no unit beyond the old end
		 * is cached.
		 */
		if (size <= old_size)
			change_take_size(hi, size);
		if (hi->hfile && what == HUGEMAP_KEEP && ret > 0 &&
		    start + ret < min(end, old_size)) {
			/*
			 * The rest of the range may be unchanged, so data that devices wrote there
			 * stays.
			 */
			hugemap_drop_clean(hi, start + ret, end);
			range = (struct change){ start, start + ret, what };
		}
		if (hi->hfile) {
			change_forget_range(hi, &range, size < old_size);
			if (size > old_size) {
				range = (struct change){ old_size, size, what };
				change_forget_range(hi, &range, false);
			}
			change_note_needs_alloc(hi, start, end, old_size, size, what);
		}
		hugemap_race_point("change: dropped, size not published");
		if (size > old_size)
			change_take_size(hi, size);
	}
out:
	filemap_invalidate_unlock(mapping);
	return ret;
}
