// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Fills of absent units on a miss, and the read-ahead of a stream. A miss becomes a fill under the
 * shared invalidate_lock. During the I/O the lock is not held: the state of the unit keeps truncate
 * and punch waiting.
 */
#include <linux/cred.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "access.h"
#include "demand.h"
#include "evict.h"
#include "fill.h"
#include "folio.h"
#include "index.h"
#include "io.h"
#include "overwrite.h"
#include "reserve.h"
#include "slot.h"
#include "trace.h"
#include "wait.h"
#include "writeback.h"

/*
 * A page needs at most three index nodes. After this many attempts to add them the caller releases
 * the invalidate_lock.
 */
#define NODE_TRIES 6u

enum hm_outcome hugemap_cache_fault(struct hugemap_inode *hi, u64 pgoff, struct hm_access access,
				    struct hm_unit *unit)
{
	enum hm_outcome outcome;
	u32 tries;

	unit->hints = 0;
	for (tries = 0;; tries++) {
		int err;

		outcome = hm_fault(hi->hfile, pgoff, access, unit);
		if (outcome != HM_NO_NODE || tries == NODE_TRIES)
			break;
		err = hugemap_add_node(hi, pgoff, unit->err);
		if (err) {
			unit->err = err;
			outcome = HM_ERROR;
			break;
		}
	}
	/* Without a claim, and if another task brought in the block, a node may have no unit. */
	if (tries || (outcome != HM_FILL && outcome != HM_ZERO && outcome != HM_HIT))
		hugemap_keep_index(hi, pgoff);
	if (unlikely(unit->hints & HM_HINT_JOINED))
		trace_hugemap_promote(&hi->vfs_inode, unit->pgoff, unit->npages, 0);
	return outcome;
}

/* End the fills of @n units. @err: 0 if all were read, otherwise the error of all. */
static void fill_done(struct hugemap_inode *hi, const struct hm_unit *units, u32 n, int err)
{
	u32 i;

	hugemap_race_point("fill: read, not in i_pages");
	if (!err)
		hugemap_folio_insert(hi, units, n);
	for (i = 0; i < n; i++) {
		hugemap_race_point("fill: in i_pages, not cached yet");
		trace_hugemap_fill(&hi->vfs_inode, units[i].pgoff, units[i].npages, err);
		hm_fill_done(&units[i], err, false);
		if (err)
			hugemap_keep_index(hi, units[i].pgoff);
		hugemap_race_point("fill: cached, waiters not woken");
		hugemap_wake_unit(hugemap_of(hi), &units[i]);
	}
}

void hugemap_fill_cancel(struct hugemap_inode *hi, const struct hm_unit *unit)
{
	hm_fill_cancel(unit);
	hugemap_keep_index(hi, unit->pgoff);
	hugemap_wake_unit(hugemap_of(hi), unit);
}

static void fill_zero(struct hugemap_inode *hi, const struct hm_unit *unit)
{
	struct folio *folio = hugemap_frame_folio(hugemap_of(hi), unit->frame);
	u32 i;

	for (i = 0; i < unit->npages; i++) {
		clear_highpage(folio_page(folio, i));
		cond_resched();
	}
	fill_done(hi, unit, 1, 0);
}

/*
 * Runs in a workqueue: folios enter i_pages at the end of a fill, which is not possible in an
 * interrupt.
 */
static void fill_ahead_done(struct work_struct *work)
{
	struct hugemap_io *io = container_of(work, struct hugemap_io, work);
	struct hugemap_inode *hi = io->hi;
	u64 pgoff = io->unit.pgoff, end = pgoff + io->unit.npages;
	struct hm_unit units[HUGEMAP_ROW_FOLIOS];
	int err = hugemap_io_result(io);
	u32 n;

	hugemap_race_point("read-ahead: read, not in i_pages");
	while (pgoff < end) {
		for (n = 0; n < HUGEMAP_ROW_FOLIOS && pgoff < end; n++) {
			hm_peek(hi->hfile, pgoff, &units[n]);
			pgoff = units[n].pgoff + units[n].npages;
			/* The next access to a unit reads it again, and gets its own error. */
			if (err)
				hugemap_fill_cancel(hi, &units[n]);
		}
		if (!err)
			fill_done(hi, units, n, 0);
	}
	hugemap_io_free(io);
	iput(&hi->vfs_inode);
}

/* --- fill one unit and wait for it ------------------------------------------------------ */

/* Return true if the error concerns this reader only, for its signals or limits. */
static bool fill_concerns_reader(int err)
{
	switch (err) {
	case -EINTR:
	case -ERESTARTSYS:
	case -EAGAIN:
	case -ENOMEM:
	case -EACCES:
	case -EPERM:
		return true;
	}
	return false;
}

/* Return 1 if the unit is cached now, 0 to try again, or an error. */
static int fill_read(struct hugemap_inode *hi, const struct hm_unit *unit, struct hm_access *access)
{
	/* On the stack, because nothing uses it after hugemap_io_wait(). */
	struct bio_vec segment;
	struct hugemap_io io;
	int err;

	hugemap_io_init(&io, hi, &segment, 1);
	io.unit = *unit;
	hugemap_io_add(&io, hugemap_frame_folio(hugemap_of(hi), unit->frame));
	hugemap_io_submit(&io, (loff_t)unit->pgoff << HM_PAGE_SHIFT, io.bytes);
	filemap_invalidate_unlock_shared(hi->vfs_inode.i_mapping);
	/* Start the read-ahead while the device reads the unit. */
	if (unit->hints & HM_HINT_READAHEAD)
		hugemap_read_ahead(hi, unit->pgoff, *access);
	err = hugemap_io_wait(&io);
	if (fill_concerns_reader(err)) {
		/* Other tasks that wait for the unit read it themselves. */
		hugemap_fill_cancel(hi, unit);
		if (err != -ENOMEM || unit->npages == 1)
			return err;
		*access = hm_access_to_base(*access);
		return 0;
	}
	fill_done(hi, unit, 1, err);
	if (!err)
		return 1;
	/* Repeat a fill of a block that has failed: the caller then reads page by page. */
	return unit->npages == 1 ? err : 0;
}

/*
 * Fill a unit that the core has given to this task. The invalidate_lock is held shared, and is
 * released here. Return 1 if the unit is cached now, 0 to try again, or an error.
 */
static int fill_units(struct hugemap_inode *hi, const struct hm_unit *unit, enum hm_outcome outcome,
		      struct hm_access *access)
{
	int err = hugemap_frame_prepare(hugemap_of(hi), unit);

	hugemap_race_point("fill: has a frame, not read");
	if (err) {
		hugemap_fill_cancel(hi, unit);
		filemap_invalidate_unlock_shared(hi->vfs_inode.i_mapping);
		if (unit->npages == 1)
			return err;
		/* There is no contiguous memory, so use base pages. */
		*access = hm_access_to_base(*access);
		return 0;
	}
	if (outcome == HM_FILL)
		return fill_read(hi, unit, access);
	fill_zero(hi, unit);
	filemap_invalidate_unlock_shared(hi->vfs_inode.i_mapping);
	if (unit->hints & HM_HINT_READAHEAD)
		hugemap_read_ahead(hi, unit->pgoff, *access);
	return 1;
}

/*
 * No huge frame is free. Return true to use base pages instead, if some are free. Slots with dirty
 * base pages cannot become huge frames, so it is no use to wait long for one. An access that allows
 * both sizes does not wait at all.
 */
static bool fill_base_pages_do(struct hugemap_mount *mount, struct hm_access access,
			       unsigned long deadline)
{
	if (!hm_cache_free_pages(mount->cache))
		return false;
	return time_after(jiffies, deadline) ||
	       (access.size == HM_SIZE_AUTO && !hugemap_evict_some(mount, HM_HUGE));
}

/*
 * A frame has no memory, and none can be allocated: evict, because evicted frames have memory.
 * Return 0, -EINTR, or -ENOMEM after HUGEMAP_FAULT_TIMEOUT_MS.
 */
static int fill_wait_memory(struct hugemap_mount *mount, unsigned long *began)
{
	if (!*began)
		*began = jiffies;
	hugemap_evict_some(mount, HM_BASE);
	schedule_timeout_killable(1);
	if (fatal_signal_pending(current))
		return -EINTR;
	return time_after(jiffies, *began + msecs_to_jiffies(HUGEMAP_FAULT_TIMEOUT_MS)) ? -ENOMEM :
											  0;
}

/* hugemap_fill_page(). *counted: see hugemap_wait_overwrite(). */
static int fill_page(struct hugemap_inode *hi, u64 pgoff, struct hm_access access, bool *counted)
{
	struct address_space *mapping = hi->vfs_inode.i_mapping;
	struct hugemap_mount *mount = hugemap_of(hi);
	unsigned long deadline = jiffies + msecs_to_jiffies(HUGEMAP_FAULT_TIMEOUT_MS), began = 0;
	unsigned long short_since = 0;
	struct hm_unit unit;
	int err = hugemap_need_file(hi);

	while (!err) {
		enum hm_outcome outcome;

		if (fatal_signal_pending(current))
			return -EINTR;
		if (down_read_killable(&mapping->invalidate_lock))
			return -EINTR;
		outcome = hugemap_cache_fault(hi, pgoff, access, &unit);
		if (outcome == HM_FILL || outcome == HM_ZERO) {
			hugemap_take_hints(hi, &unit);
			hugemap_race_point("fill: claimed, overwrites not seen");
			if (unlikely(hugemap_is_overwritten(hi, &unit))) {
				hugemap_fill_cancel(hi, &unit);
				filemap_invalidate_unlock_shared(mapping);
				err = hugemap_wait_overwrite(hi, &unit, counted);
				continue;
			}
			hugemap_end_wait_overwrite(hi, counted);
			err = fill_units(hi, &unit, outcome, &access);
			if (err > 0)
				return 0;
			if (err == -ENOMEM && !hugemap_frame_folio(mount, unit.frame))
				err = fill_wait_memory(mount, &short_since);
			continue;
		}
		filemap_invalidate_unlock_shared(mapping);
		switch (outcome) {
		case HM_HIT:
			if (unit.hints & HM_HINT_READAHEAD)
				hugemap_read_ahead(hi, pgoff, access);
			return 0;
		case HM_BUSY:
			if (unit.hints & HM_HINT_READAHEAD)
				hugemap_read_ahead(hi, pgoff, access);
			err = hugemap_wait_unit(hi, pgoff);
			break;
		case HM_NO_FRAME:
			if (unit.npages > 1 && fill_base_pages_do(mount, access, deadline)) {
				access = hm_access_to_base(access);
				break;
			}
			err = hugemap_wait_frame(mount, unit.npages == 1 ? HM_BASE : HM_HUGE,
						 &began);
			if (err == -ENOMEM && unit.npages > 1) {
				/*
				 * All huge frames are in use and pinned, but base pages may be
				 * free.
				 */
				access = hm_access_to_base(access);
				began = 0;
				err = 0;
			}
			break;
		case HM_ERROR:
			return unit.err;
		case HM_BEYOND:
			return -ENODATA;
		default: /* HM_NO_NODE */
			break;
		}
	}
	return err;
}

int hugemap_fill_page(struct hugemap_inode *hi, u64 pgoff, struct hm_access access)
{
	bool counted = false;
	int err;

	if (unlikely(access.again))
		hugemap_demand(hi, pgoff);
	err = fill_page(hi, pgoff, access, &counted);
	/* The fill may have taken longer than the note lasts. */
	if (unlikely(access.again) && !err)
		hugemap_demand(hi, pgoff);
	hugemap_end_wait_overwrite(hi, &counted);
	/* The index nodes above the page may be new, and have no unit now. */
	if (unlikely(err) && hi->hfile)
		hugemap_trim_index(hi->hfile, pgoff);
	return err;
}

/* --- read-ahead ------------------------------------------------------------------------------- */

static void fill_submit_ahead(struct hugemap_inode *hi, struct hugemap_io **slot)
{
	struct hugemap_io *io = *slot;

	*slot = NULL;
	if (!io)
		return;
	io->ahead = true;
	INIT_WORK(&io->work, fill_ahead_done);
	ihold(&hi->vfs_inode);
	hugemap_io_submit(io, (loff_t)io->unit.pgoff << HM_PAGE_SHIFT, io->bytes);
}

/* Add a unit to the I/O that is being built, or start a new one. */
static bool fill_add_ahead(struct hugemap_inode *hi, const struct hm_unit *unit,
			   struct hugemap_io **slot)
{
	struct hugemap_io *io = *slot;

	if (io && (unit->npages > 1 || hugemap_io_full(io) ||
		   io->unit.pgoff + io->unit.npages != unit->pgoff))
		fill_submit_ahead(hi, slot);
	if (!*slot) {
		*slot = hugemap_io_new(hi, GFP_NOWAIT | __GFP_NOWARN);
		if (!*slot)
			return false;
		(*slot)->unit = *unit;
		(*slot)->unit.npages = 0;
	}
	(*slot)->unit.npages += unit->npages;
	hugemap_io_add(*slot, hugemap_frame_folio(hugemap_of(hi), unit->frame));
	if (unit->npages > 1)
		fill_submit_ahead(hi, slot);
	return true;
}

/*
 * Start the fill of one unit of a read-ahead window. Return false to stop. The first unit from
 * *mark on that is filled gets the marker.
 */
static bool fill_submit_window(struct hugemap_inode *hi, u64 *pgoff, u64 *mark,
			       struct hm_access access, struct hugemap_io **io)
{
	enum hm_outcome outcome;
	struct hm_unit unit;

	access.ahead = true;
	access.mark = *pgoff >= *mark;
	outcome = hugemap_cache_fault(hi, *pgoff, access, &unit);
	if (unit.hints & HM_HINT_PROMOTE)
		hugemap_wake_promoter(hugemap_of(hi));
	switch (outcome) {
	case HM_FILL:
	case HM_ZERO:
		if (unlikely(hugemap_is_overwritten(hi, &unit))) {
			hugemap_fill_cancel(hi, &unit);
			break;
		}
		if (hugemap_frame_prepare(hugemap_of(hi), &unit) ||
		    (outcome == HM_FILL && !fill_add_ahead(hi, &unit, io))) {
			hugemap_fill_cancel(hi, &unit);
			return false;
		}
		if (access.mark)
			*mark = U64_MAX;
		if (outcome == HM_ZERO)
			fill_zero(hi, &unit);
		break;
	case HM_HIT:
	case HM_BUSY:
		break;
	default:
		return false;
	}
	*pgoff = unit.pgoff + unit.npages;
	return true;
}

/* Fill the units of a range. The invalidate_lock is held. Return where it stopped. */
static u64 fill_range(struct hugemap_inode *hi, u64 start, u64 end, u64 mark,
		      struct hm_access access)
{
	struct hugemap_io *io = NULL;
	u64 pgoff = start;
	bool more = true;

	access.write = false;
	while (more && pgoff < end && !fatal_signal_pending(current)) {
		more = fill_submit_window(hi, &pgoff, &mark, access, &io);
		/* Cached units take no time, and a range may have a million of them. */
		cond_resched();
	}
	fill_submit_ahead(hi, &io);
	return pgoff;
}

/*
 * Carry out the read-ahead of a plan. This only tries to take the invalidate_lock, because the
 * caller may be in the middle of a fill that the holder of the lock waits for.
 */
static u64 fill_plan(struct hugemap_inode *hi, const struct hm_plan *plan)
{
	struct address_space *mapping = hi->vfs_inode.i_mapping;
	u64 reached;

	if (!filemap_invalidate_trylock_shared(mapping))
		return plan->start;
	reached = fill_range(hi, plan->start, plan->end, plan->mark, plan->access);
	filemap_invalidate_unlock_shared(mapping);
	return reached;
}

static void fill_carry_out(struct hugemap_inode *hi, const struct hm_plan *plan)
{
	u64 reached;

	if (plan->behind_end > plan->behind_start) {
		u64 pos = plan->behind_start;

		hugemap_write_some(hi, &pos, plan->behind_end, U64_MAX, false);
	}
	if (plan->end <= plan->start)
		return;
	reached = fill_plan(hi, plan);
	/*
	 * Allocate blocks for the writer ahead. If there are none, its own store reports the error.
	 */
	if (plan->access.write && reached > plan->start && hm_needs_alloc(hi->hfile, plan->start))
		hugemap_reserve(hi, plan->start, reached - plan->start);
	if (reached < plan->end) {
		hm_readahead_stopped(hi->hfile, plan, reached);
		hugemap_wake_reclaimer(hugemap_of(hi));
	}
}

/*
 * Work for a stream that stores, while the program continues: fill its next blocks and write the
 * last ones.
 */
struct fill_writer_work {
	struct work_struct work;
	struct hugemap_inode *hi;
	const struct cred *cred; /* the writer's, for its quota */
	struct hm_plan plan;
};

static void fill_writer_work(struct work_struct *work)
{
	struct fill_writer_work *w = container_of(work, struct fill_writer_work, work);
	const struct cred *old = override_creds(w->cred);

	fill_carry_out(w->hi, &w->plan);
	revert_creds(old);
	put_cred(w->cred);
	iput(&w->hi->vfs_inode);
	kfree(w);
}

static void fill_queue_plan(struct hugemap_inode *hi, const struct hm_plan *plan)
{
	struct fill_writer_work *w = kmalloc(sizeof(*w), GFP_NOWAIT | __GFP_NOWARN);

	if (!w) {
		hm_readahead_stopped(hi->hfile, plan, plan->start);
		return;
	}
	INIT_WORK(&w->work, fill_writer_work);
	w->hi = hi;
	w->cred = get_current_cred();
	w->plan = *plan;
	ihold(&hi->vfs_inode);
	queue_work(hugemap_of(hi)->ahead_wq, &w->work);
}

/*
 * Get the next work for a stream from the core. Accesses that the program declared as random are
 * not reported to the core.
 */
static bool fill_plan_ahead(struct hugemap_inode *hi, u64 pgoff, struct hm_access access,
			    struct hm_plan *plan)
{
	return access.order != HM_ORDER_RANDOM && hm_readahead(hi->hfile, pgoff, access, plan);
}

void hugemap_read_ahead(struct hugemap_inode *hi, u64 pgoff, struct hm_access access)
{
	struct hm_plan plan;

	if (!fill_plan_ahead(hi, pgoff, access, &plan))
		return;
	if (plan.access.write)
		fill_queue_plan(hi, &plan);
	else
		fill_carry_out(hi, &plan);
}

void hugemap_queue_ahead(struct hugemap_inode *hi, u64 pgoff, struct hm_access access)
{
	struct hm_plan plan;

	if (fill_plan_ahead(hi, pgoff, access, &plan))
		fill_queue_plan(hi, &plan);
}

void hugemap_write_behind(struct hugemap_inode *hi, u64 pgoff, struct hm_access access)
{
	struct hm_plan plan;

	access.write = true;
	if (!hm_readahead(hi->hfile, pgoff, access, &plan))
		return;
	if (plan.end > plan.start)
		hm_readahead_stopped(hi->hfile, &plan, plan.start);
	plan.end = plan.start;
	if (plan.behind_end > plan.behind_start)
		fill_queue_plan(hi, &plan);
}

/* Pages that FADV_WILLNEED starts to read before it lets a change of the file go first. */
#define WILLNEED_PAGES (4u * HM_BLOCK_PAGES)

void hugemap_data_willneed(struct file *file, loff_t start, loff_t end)
{
	struct hugemap_inode *hi = hugemap_inode(file_inode(file));
	struct address_space *mapping = hi->vfs_inode.i_mapping;
	u64 pos = start >> HM_PAGE_SHIFT,
	    last = hugemap_pages(min(end, i_size_read(&hi->vfs_inode)));

	while (pos < last && !hugemap_need_file(hi)) {
		u64 next = min(pos + WILLNEED_PAGES, last);

		if (down_read_killable(&mapping->invalidate_lock))
			return;
		pos = fill_range(hi, pos, next, U64_MAX, hugemap_access(file));
		filemap_invalidate_unlock_shared(mapping);
		if (pos < next)
			return;
	}
}
