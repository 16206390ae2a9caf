// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The lower file changes without the cache: truncate, punch, direct I/O, clone. What
 * reaches out of the range is written before; what was cached of it goes afterwards.
 *
 * Nobody makes a clean unit dirty meanwhile, as that takes the invalidate_lock, but for
 * devices: their writes into pinned pages end when they like. So a unit of which only a
 * part changes is never just dropped: the part is made what it is below, and the rest
 * is written. What a device holds stays, and what it writes from then on came later.
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

/* What has changed below can perhaps not be read now; a tick apart. */
#define AMEND_TRIES 20u

struct change {
	loff_t start, end; /* bytes; LLONG_MAX: all there is */
	enum hugemap_change what;
};

static loff_t change_lower_size(const struct hugemap_inode *hi)
{
	return i_size_read(hi->lower ?: hugemap_of(hi)->device->f_mapping->host);
}

/* The file is @size bytes long now; the caller holds what a change needs. */
static void change_take_size(struct hugemap_inode *hi, loff_t size)
{
	i_size_write(&hi->vfs_inode, size);
	if (hi->hfile)
		hm_file_set_size(hi->hfile, size);
}

/* The pages of all blocks that a range of bytes touches. */
static u64 change_first_of(loff_t start)
{
	return ((u64)start >> HM_PAGE_SHIFT) & ~HUGEMAP_BLOCK_MASK;
}

static u64 change_end_of(loff_t end)
{
	return end == LLONG_MAX ? U64_MAX : round_up(hugemap_pages(end), (u64)HM_BLOCK_PAGES);
}

/*
 * Write what would otherwise be lost: units that reach out of what is discarded; what
 * is behind the end of the lower file, if that has to catch up; and the page in which
 * the file ends, of which the end is zero if it grows. What is discarded as a whole is
 * not: there may be no room for it.
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

/* What is known about holes in a range that has changed. */
static void change_note_needs_alloc(struct hugemap_inode *hi, loff_t start, loff_t end,
				    loff_t old_size, loff_t size, enum hugemap_change what)
{
	u64 beyond = hugemap_pages(size), old_end = hugemap_pages(old_size);
	u64 first = (u64)start >> HM_PAGE_SHIFT, last;

	/* A device has none. */
	if (!hi->lower)
		return;
	if (beyond > old_end)
		hugemap_note_zero_fill(hi, old_end, (beyond | HUGEMAP_BLOCK_MASK) + 1 - old_end,
				       true);
	if (what == HUGEMAP_KEEP) {
		/* Direct I/O, a clone: it may be data now, and may have holes. */
		last = min(end == LLONG_MAX ? beyond : hugemap_pages(end), beyond);
		if (last > first) {
			hugemap_note_zero_fill(hi, first, last - first, true);
			hugemap_note_zero_fill(hi, first, last - first, false);
		}
	} else if (end != LLONG_MAX) {
		first = hugemap_pages(start);
		last = min((u64)end >> HM_PAGE_SHIFT, beyond);
		if (last > first)
			hugemap_note_zero_fill(hi, first, last - first, true);
	}
	if (old_end > beyond)
		hugemap_note_zero_fill(hi, beyond, (old_end | HUGEMAP_BLOCK_MASK) + 1 - beyond,
				       true);
}

/* The part of a unit that has changed, in bytes of its folio. */
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

/* What has changed of a cached unit is what it is below. */
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

/* The end of the file comes to lie in a huge unit, which must not map what is behind it. */
static bool change_is_cut(const struct hm_unit *unit, const struct change *change)
{
	return unit->npages > 1 && change->what == HUGEMAP_DISCARD && change->end == LLONG_MAX &&
	       change->start > (loff_t)unit->pgoff << HM_PAGE_SHIFT;
}

/*
 * Before the change: would it cut a huge unit that a device writes into? It has to go,
 * but not what the device writes into the part that stays. Older kernels' devices have
 * plain references, as others have who may keep them for ever: those only @soon.
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
	/* Whoever has it mapped could pin it. */
	unmap_mapping_pages(hi->vfs_inode.i_mapping, unit.pgoff, unit.npages, false);
	pinned = hugemap_mm_may_be_pinned(folio, soon);
	folio_put(folio);
	return pinned;
}

/* A clean unit at the edge, claimed. False: it is still there, and has to go. */
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
	if (folio_test_dirty(folio) && !whole) {
		/* change_write_edge() amends it. */
		result = HM_EVICT_DIRTY;
	} else if (hugemap_folio_remove(hi, folio)) {
		result = HM_EVICT_DISCARD;
	} else if (bytes && tries >= HUGEMAP_PIN_RETRIES &&
		   (whole || cut || tries >= AMEND_TRIES)) {
		hugemap_folio_orphan(hi, folio);
		hugemap_frame_empty(hugemap_of(hi), unit);
		result = HM_EVICT_DISCARD;
		abandoned = true;
	} else {
		/*
		 * A device may go on to write into it, or who holds it may wait for us with a
		 * fault on the next page: never wait for it. Base pages beside what has
		 * changed may stay as they are.
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
 * What a device has written into since is amended, and written. True: look again. So is what is
 * clean yet: it may be dirty before it is written with the rest, and that not with what was there
 * before.
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
		state = hm_peek(hi->hfile, pgoff, &unit);
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
			/* Never what was there before: the device's bytes go, and that is told. */
			mapping_set_error(hi->vfs_inode.i_mapping, err);
		if (err || bytes == (size_t)unit.npages << HM_PAGE_SHIFT)
			hugemap_invalidate(hi, unit.pgoff, unit.pgoff + unit.npages, true);
		else if (unit.pgoff < pages)
			dirty = true;
		cut |= change_is_cut(&unit, change);
	}
	/* What cannot be written stays, as it should be, and is tried again later. */
	if (!dirty || hugemap_write_range(hi, first, end) || !cut)
		return false;
	/* A huge unit has to go; it may be dirty again, for as long as somebody holds it. */
	if (tries < AMEND_TRIES)
		return true;
	hugemap_invalidate(hi, first, end, true);
	return false;
}

/* A block of which a part has changed. */
static void change_forget_edge(struct hugemap_inode *hi, u64 first, const struct change *change)
{
	struct hugemap_mount *mount = hugemap_of(hi);
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
			else
				wait_event(*hugemap_wait_of(mount, hi->hfile, pos),
					   hugemap_unit_idle(hi, pos));
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

	hugemap_race_point("change: size told, cached and mapped");
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
	 * What programs have of their own goes only with its page. Last: until its folio has
	 * gone, a fault that saw the old size may make a copy of it.
	 */
	if (cut)
		unmap_mapping_range(hi->vfs_inode.i_mapping, round_up(start, PAGE_SIZE), 0, true);
}

void hugemap_drop_clean(struct hugemap_inode *hi, loff_t start, loff_t last)
{
	u64 pos = change_first_of(start), end = change_end_of(last);
	enum hm_invalidated found;
	struct hm_unit unit;

	while ((found = hm_invalidate(hi->hfile, &pos, end, false, &unit)) != HM_INV_DONE) {
		enum hm_evict_result result = HM_EVICT_BUSY;
		struct folio *folio;

		if (found == HM_INV_BUSY) {
			wait_event(*hugemap_wait_of(hugemap_of(hi), hi->hfile, pos),
				   hugemap_unit_idle(hi, pos));
			continue;
		}
		folio = hugemap_frame_folio(hugemap_of(hi), unit.frame);
		folio_lock(folio);
		/* Readers may have mapped it again since. */
		unmap_mapping_pages(hi->vfs_inode.i_mapping, unit.pgoff, unit.npages, false);
		if (folio_test_dirty(folio))
			result = HM_EVICT_DIRTY;
		else if (hugemap_folio_remove(hi, folio))
			result = HM_EVICT_DISCARD;
		folio_unlock(folio);
		hugemap_evict_report(hi, &unit, result);
		cond_resched();
	}
}

/*
 * The change has failed, but a part of it may have been made: what is clean is read
 * again, and what the lower file has become longer by is there, or has become shorter
 * by is not; it was @below bytes long before, which may be less than here. What were
 * holes, and what was data, is not known any more.
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

ssize_t hugemap_change_lower(struct inode *inode, loff_t start, loff_t end,
			     enum hugemap_change what, ssize_t (*change)(void *arg), void *arg)
{
	struct hugemap_inode *hi = hugemap_inode(inode);
	struct address_space *mapping = inode->i_mapping;
	unsigned long deadline = jiffies + msecs_to_jiffies(HUGEMAP_FAULT_TIMEOUT_MS);
	struct change range = { start, end, what };
	loff_t old_size = i_size_read(inode), lower_size;
	ssize_t ret = 0;

	filemap_invalidate_lock(mapping);
	/* Not with the lock: who pins page after page may need it for the next one. */
	while (hi->hfile && change_cuts_pinned(hi, &range, time_before(jiffies, deadline))) {
		filemap_invalidate_unlock(mapping);
		schedule_timeout_killable(1);
		if (fatal_signal_pending(current))
			return -EINTR;
		filemap_invalidate_lock(mapping);
	}
	if (hi->hfile)
		ret = change_write_before(hi, start, end, what);
	if (ret)
		goto out;
	lower_size = change_lower_size(hi);
	hi->changes++;
	hugemap_race_point("change: written before, not changed");
	ret = change(arg);
	hugemap_race_point("change: below, not here");
	if (ret < 0) {
		change_take_rest(hi, &range, old_size, lower_size);
	} else {
		loff_t size = change_lower_size(hi);

		/* Nobody comes to what is cut off; nobody sees what was cached behind the end. */
		if (size <= old_size)
			change_take_size(hi, size);
		if (hi->hfile && what == HUGEMAP_KEEP && ret > 0 &&
		    start + ret < min(end, old_size)) {
			/* The rest may be as it was: what devices wrote there stays. */
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
		hugemap_race_point("change: dropped, size not told");
		if (size > old_size)
			change_take_size(hi, size);
	}
out:
	filemap_invalidate_unlock(mapping);
	return ret;
}
