// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Promotion: the base pages of a block become one huge unit (page=auto). The promoter thread does
 * it, never a fault. It reads missing pages into the huge frame, and copies cached pages while they
 * are in use. Then it claims all of them at once, unmaps them together and freezes them, and the
 * huge folio replaces them. Any event in between (a pin, a store, a truncation) leaves everything
 * as it was.
 *
 * The core has the states (cache/promote.c), and knows of each store to a page that was copied: a
 * store to a clean page faults. The exception is a device, whose pin keeps the page from being
 * frozen, and which sets the dirty flag. A change of the lower file may change clean pages, too,
 * and then no copy is valid (hi->data->changes).
 */
#include <linux/bitmap.h>
#include <linux/delay.h>
#include <linux/freezer.h>
#include <linux/fs.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/slab.h>

#include "evict.h"
#include "folio.h"
#include "index.h"
#include "io.h"
#include "overwrite.h"
#include "promote.h"
#include "slot.h"
#include "trace.h"
#include "wait.h"

/* Attempts to claim a block whose pages may be busy or pinned. */
#define CLAIM_TRIES 3u
#define MOMENT_US 50u

/* The data of a promotion, allocated once for a mount. It is too large for the stack. */
struct hugemap_promotion {
	struct hm_promotion core;
	struct hugemap_inode *hi;
	u32 changes; /* hi->data->changes at the start */
	struct folio *huge;
	DECLARE_BITMAP(to_read, HM_BLOCK_PAGES); /* missing pages; the rest are zeros */
	struct folio *folio[HM_BLOCK_PAGES]; /* the base pages, locked; NULL for a missing one */
};

/* --- missing pages ------------------------------------------------------------------ */

/*
 * Zero the missing pages that are holes, and set a bit for those to read. This decides once for
 * each page: a hole may become data at any time.
 */
static void promote_zero_holes(struct hugemap_promotion *p)
{
	u32 i;

	bitmap_zero(p->to_read, HM_BLOCK_PAGES);
	for_each_set_bit(i, p->core.missing, HM_BLOCK_PAGES) {
		if (hm_is_zero_fill(p->hi->hfile, p->core.unit.pgoff + i))
			clear_highpage(folio_page(p->huge, i));
		else
			__set_bit(i, p->to_read);
	}
}

struct flight {
	struct hugemap_io *io[HUGEMAP_WRITE_DEPTH];
	u32 n;
	int err;
};

static void promote_wait_reads(struct flight *flight)
{
	while (flight->n) {
		struct hugemap_io *io = flight->io[--flight->n];
		int err = hugemap_io_wait(io);

		if (err)
			flight->err = err;
		hugemap_io_free(io);
	}
}

/*
 * Read the missing pages. The invalidate_lock is held shared, and is released as soon as the last
 * I/O is submitted.
 */
static int promote_read_missing(struct hugemap_promotion *p)
{
	loff_t start = (loff_t)p->core.unit.pgoff << HM_PAGE_SHIFT;
	struct flight flight = {};
	u32 first, end;

	promote_zero_holes(p);
	hugemap_race_point("promote: holes are zeros, nothing is read");
	for (first = 0; hugemap_next_run(p->to_read, &first, &end); first = end) {
		struct hugemap_io *io = NULL;

		if (flight.n && flight.n < HUGEMAP_WRITE_DEPTH)
			io = hugemap_io_new(p->hi, GFP_NOWAIT | __GFP_NOWARN);
		if (!io) {
			promote_wait_reads(&flight);
			io = hugemap_io_new(p->hi, GFP_NOFS);
		}
		hugemap_io_add_pages(io, p->huge, first, end - first);
		hugemap_io_submit(io, start + ((loff_t)first << HM_PAGE_SHIFT), io->bytes);
		flight.io[flight.n++] = io;
	}
	filemap_invalidate_unlock_shared(p->hi->vfs_inode.i_mapping);
	promote_wait_reads(&flight);
	return flight.err;
}

/* --- cached pages ---------------------------------------------------------------------- */

static void promote_take_copy(const struct hugemap_promotion *p, u32 i, struct folio *from)
{
	copy_highpage(folio_page(p->huge, i), folio_page(from, 0));
}

/*
 * Copy the cached pages while they are in use. The core notes which of them leave or are stored to
 * afterwards.
 */
static void promote_copy_ahead(struct hugemap_promotion *p)
{
	struct hm_unit unit;
	u32 at = 0;

	while (hm_promote_copy(&p->core, &at, &unit)) {
		struct folio *folio = hugemap_unit_folio(p->hi, &unit);

		hugemap_race_point("promote: noted as copied, not copied");
		if (folio && hugemap_is_poisoned(folio)) {
			/* A poisoned page cannot be claimed either. */
			folio_put(folio);
		} else if (folio) {
			promote_take_copy(p, unit.pgoff - p->core.unit.pgoff, folio);
			folio_put(folio);
		}
		cond_resched();
	}
}

/*
 * Report pages to the core that became dirty while they were claimed. Pairs with
 * hugemap_dirty_folio(), as in evict.c. Called in the section of the claim.
 */
static void promote_note_dirtied(struct hugemap_promotion *p)
{
	u32 i;

	smp_mb();
	for_each_clear_bit(i, p->core.missing, HM_BLOCK_PAGES) {
		u64 pgoff = p->core.unit.pgoff + i;
		struct hm_unit unit;
		enum hm_state state = hm_peek(p->hi->hfile, pgoff, &unit);
		struct folio *folio;

		/* The task that made the page dirty may not have set its dirty bit yet. */
		if (state == HM_DIRTY && !hm_confirm_dirty(p->hi->hfile, pgoff))
			state = hm_peek(p->hi->hfile, pgoff, &unit);
		/* Reclaim may have claimed the page already. */
		if ((state != HM_CLEAN && state != HM_EVICTING) || unit.npages > 1)
			continue;
		folio = hugemap_unit_folio(p->hi, &unit);
		if (!folio)
			continue;
		hugemap_report_dirtied(p->hi, pgoff, folio);
		folio_put(folio);
	}
}

/* --- all at once ------------------------------------------------------------------------ */

/* Unlock the first @n pages of the block. */
static void promote_unlock_pages(struct hugemap_promotion *p, u32 n)
{
	u32 i;

	for_each_clear_bit(i, p->core.missing, n)
		folio_unlock(p->folio[i]);
}

/*
 * Return true if the page must not be copied: it is poisoned, and its data is lost; or it is
 * mlocked, and mm would forget the lock with the mapping. @may_be_mlocked: a locked VMA covers
 * pages of the block.
 */
static bool promote_must_stay(struct folio *folio, bool may_be_mlocked)
{
	return hugemap_is_poisoned(folio) || folio_test_mlocked(folio) ||
	       (may_be_mlocked && folio_mapped(folio));
}

/* Lock all pages of a claimed block, or none. */
static bool promote_lock_pages(struct hugemap_promotion *p)
{
	bool may_be_mlocked = hugemap_mm_is_mlocked(p->hi->vfs_inode.i_mapping, p->core.unit.pgoff,
						    HM_BLOCK_PAGES);
	struct hm_unit unit;
	u32 i;

	memset(p->folio, 0, sizeof(p->folio));
	for_each_clear_bit(i, p->core.missing, HM_BLOCK_PAGES) {
		hm_promote_page(&p->core, i, &unit);
		p->folio[i] = hugemap_frame_folio(hugemap_of(p->hi), unit.frame);
		if (promote_must_stay(p->folio[i], may_be_mlocked) || !folio_trylock(p->folio[i])) {
			promote_unlock_pages(p, i);
			return false;
		}
	}
	return true;
}

/* No task can store to the pages now. Copy those that changed since the first copy. */
static void promote_copy_rest(struct hugemap_promotion *p)
{
	struct hm_unit unit;
	u32 i;

	for_each_clear_bit(i, p->core.missing, HM_BLOCK_PAGES) {
		if (folio_test_dirty(p->folio[i]) ||
		    hm_promote_page(&p->core, i, &unit) == HM_PAGE_COPY)
			promote_take_copy(p, i, p->folio[i]);
		if (folio_test_dirty(p->folio[i]))
			hm_promote_dirty(&p->core, i);
	}
}

/* Give the base pages back to the pool. */
static void promote_release(struct hugemap_promotion *p)
{
	struct hm_unit unit;
	u32 i;

	hugemap_folio_replace(p->hi, &p->core.unit, p->folio);
	promote_unlock_pages(p, HM_BLOCK_PAGES);
	for_each_clear_bit(i, p->core.missing, HM_BLOCK_PAGES) {
		hm_promote_page(&p->core, i, &unit);
		hugemap_frame_check(hugemap_of(p->hi), &unit);
	}
}

/*
 * Promote a claimed block. The caller is in a section of hugemap_files_srcu, and holds the
 * invalidate_lock shared.
 */
static enum hm_promote_result promote_claimed(struct hugemap_promotion *p)
{
	hugemap_race_point("promote: claimed, mapped");
	if (!promote_lock_pages(p))
		return HM_PROMOTE_PINNED;
	hugemap_count(hugemap_of(p->hi), HUGEMAP_C_UNMAPS, 1);
	unmap_mapping_pages(p->hi->vfs_inode.i_mapping, p->core.unit.pgoff, HM_BLOCK_PAGES, false);
	hugemap_race_point("promote: unmapped, not frozen");
	if (!hugemap_folio_freeze_range(p->hi, p->folio)) {
		promote_unlock_pages(p, HM_BLOCK_PAGES);
		return HM_PROMOTE_PINNED;
	}
	promote_copy_rest(p);
	promote_release(p);
	hugemap_race_point("promote: in i_pages, claimed");
	hm_promote_commit(&p->core);
	return HM_PROMOTE_OK;
}

/*
 * Claim the block and promote it. Return true if the promotion has ended. A claim ends before the
 * section of SRCU, with the final state of each page: see hugemap_wait_claims(). Only try to
 * take the invalidate_lock: its holder may wait for pages that this promotion has to fill.
 */
static bool promote_finish(struct hugemap_promotion *p, enum hm_promote_result *why)
{
	struct address_space *mapping = p->hi->vfs_inode.i_mapping;
	struct hugemap_mount *mount = hugemap_of(p->hi);
	bool ended = false;
	int idx;

	*why = HM_PROMOTE_BUSY;
	idx = srcu_read_lock(&hugemap_files_srcu);
	if (!filemap_invalidate_trylock_shared(mapping)) {
		srcu_read_unlock(&hugemap_files_srcu, idx);
		return false;
	}
	if (p->hi->data->changes != p->changes) {
		hm_promote_abort(&p->core, *why);
		ended = true;
	} else {
		*why = hm_promote_claim(&p->core);
		if (!*why) {
			*why = promote_claimed(p);
			if (*why)
				hm_promote_unclaim(&p->core);
			hugemap_race_point("promote: released, not reported as dirty");
		}
		ended = !*why;
		if (*why)
			promote_note_dirtied(p);
	}
	filemap_invalidate_unlock_shared(mapping);
	srcu_read_unlock(&hugemap_files_srcu, idx);
	/* While the block was claimed, other tasks found its pages busy and waited. */
	hugemap_wake_unit(mount, &p->core.unit);
	return ended;
}

/* Return true if no task fills, writes or evicts a page that is to be claimed. */
static bool promote_pages_idle(const struct hugemap_promotion *p)
{
	u32 i;

	for_each_clear_bit(i, p->core.missing, HM_BLOCK_PAGES)
		if (!hugemap_unit_idle(p->hi, p->core.unit.pgoff + i))
			return false;
	return true;
}

/*
 * Wait until a busy page is read or written, but for a tick at most: other tasks wait for the
 * missing pages of the block. If a page is pinned, wait only for a moment, which is enough for a
 * fault. Longer pins are not waited for.
 */
static void promote_wait_pages(const struct hugemap_promotion *p, enum hm_promote_result why)
{
	wait_queue_head_t *wait =
		hugemap_wait_of(hugemap_of(p->hi), p->hi->hfile, p->core.unit.pgoff);

	if (why == HM_PROMOTE_PINNED)
		usleep_range(MOMENT_US, 2 * MOMENT_US);
	else if (promote_pages_idle(p))
		schedule_timeout_uninterruptible(1);
	else
		wait_event_timeout(*wait, promote_pages_idle(p), 1);
}

/*
 * A promotion needs the words of all pages, but only a fault on the rest of the first block adds
 * their node. Add it here. If that fails, hm_promote_begin() refuses the block, and it is tried again
 * later.
 */
static void promote_add_words(struct hugemap_promotion *p)
{
	u64 last = p->core.unit.pgoff + HM_BLOCK_PAGES - 1;
	enum hm_node_kind kind;

	if (hm_file_lacks_node(p->hi->hfile, last, &kind) && kind == HM_NODE_REST)
		hugemap_add_node(p->hi, last, kind);
}

static enum hm_promote_result promote_block(struct hugemap_promotion *p)
{
	struct address_space *mapping = p->hi->vfs_inode.i_mapping;
	enum hm_promote_result why;
	u32 tries = 0;

	/*
	 * A change of the lower file may hold the lock for long. Other files must not wait for it.
	 */
	if (!filemap_invalidate_trylock_shared(mapping)) {
		why = HM_PROMOTE_BUSY;
		goto failed;
	}
	promote_add_words(p);
	why = hm_promote_begin(&p->core, false);
	if (why) {
		filemap_invalidate_unlock_shared(mapping);
		return why;
	}
	p->changes = p->hi->data->changes;
	hugemap_race_point("promote: has a frame, not read");
	if (hugemap_is_overwritten(p->hi, &p->core.unit))
		why = HM_PROMOTE_BUSY;
	else if (hugemap_frame_prepare(hugemap_of(p->hi), &p->core.unit))
		why = HM_PROMOTE_FAILED;
	if (why) {
		filemap_invalidate_unlock_shared(mapping);
		goto failed;
	}
	p->huge = hugemap_frame_folio(hugemap_of(p->hi), p->core.unit.frame);
	if (promote_read_missing(p)) {
		why = HM_PROMOTE_FAILED;
		goto failed;
	}
	promote_copy_ahead(p);
	for (;;) {
		if (promote_finish(p, &why))
			return why;
		if ((why != HM_PROMOTE_BUSY && why != HM_PROMOTE_PINNED) || ++tries == CLAIM_TRIES)
			goto failed;
		promote_wait_pages(p, why);
	}
failed:
	hm_promote_abort(&p->core, why);
	return why;
}

/* --- the thread of a mount ---------------------------------------------------------------- */

/* Pick the next block and get a reference to its inode. */
static bool promote_pick(struct hugemap_mount *mount, struct hugemap_promotion *p)
{
	bool found;
	int idx;

	p->hi = NULL;
	idx = srcu_read_lock(&hugemap_files_srcu);
	found = hm_promote_pick(mount->cache, &p->core);
	if (found) {
		p->hi = hugemap_inode_of_file(p->core.unit.file);
		if (!igrab(&p->hi->vfs_inode)) {
			hm_promote_abort(&p->core, HM_PROMOTE_GONE);
			p->hi = NULL;
		}
	}
	srcu_read_unlock(&hugemap_files_srcu, idx);
	return found;
}

static void promote_one(struct hugemap_mount *mount, struct hugemap_promotion *p)
{
	enum hm_promote_result why = promote_block(p);
	struct inode *inode = &p->hi->vfs_inode;

	hugemap_wake_unit(mount, &p->core.unit);
	if (!why) {
		trace_hugemap_promote(inode, p->core.unit.pgoff, p->core.unit.npages, 0);
		hugemap_progress(mount);
	} else {
		trace_hugemap_refuse(inode, p->core.unit.pgoff, p->core.unit.npages, why);
	}
	hugemap_trim_index(p->hi->hfile, p->core.unit.pgoff);
	iput(inode);
}

static unsigned long promote_interval_of(const struct hugemap_mount *mount)
{
	return msecs_to_jiffies(READ_ONCE(mount->opts.promote_interval));
}

/*
 * The promoter works as soon as there is a block to promote, but it takes no more than
 * promote_batch blocks in each interval.
 */
int hugemap_promoter(void *arg)
{
	struct hugemap_mount *mount = arg;
	struct hugemap_promotion *p = mount->promotion;
	unsigned long began = jiffies;
	u32 picked = 0; /* since @began */

	set_freezable();
	while (!kthread_should_stop()) {
		unsigned long now = jiffies;
		unsigned long next = began + promote_interval_of(mount);

		wait_event_freezable_timeout(mount->promote_wait,
					     READ_ONCE(mount->promote) || kthread_should_stop(),
					     time_after(next, now) ? next - now : 1);
		WRITE_ONCE(mount->promote, false);
		/* A remount may have changed the interval. */
		if (!time_before(jiffies, began + promote_interval_of(mount))) {
			began = jiffies;
			picked = 0;
		}
		while (!kthread_should_stop() && picked < READ_ONCE(mount->opts.promote_batch) &&
		       promote_pick(mount, p)) {
			picked++;
			if (p->hi)
				promote_one(mount, p);
			try_to_freeze();
			cond_resched();
		}
	}
	return 0;
}

size_t hugemap_promotion_bytes(void)
{
	return sizeof(struct hugemap_promotion);
}
