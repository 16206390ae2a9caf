// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Write-back of dirty units in file order, with several I/Os in flight. It is started by a sync, by
 * the stream of a writer or by the writer thread (writer.c).
 *
 * A unit that the core gives to write-back is locked, write-protected and unlocked before its I/O
 * starts. The I/O contains all earlier stores. A later store faults, and the core notes that the
 * unit is dirty again.
 */
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/rmap.h>

#include "dirty.h"
#include "evict.h"
#include "io.h"
#include "slot.h"
#include "trace.h"
#include "wait.h"
#include "writeback.h"

/* Runs of at least this number of base pages are unmapped, with one TLB flush for all. */
#define UNMAP_PAGES 4u
/* The longest run. A huge unit is a run by itself. */
#define RUN_PAGES min(HUGEMAP_IO_SEGMENTS, HM_BLOCK_PAGES)
/*
 * Each run of appended data is waited for before the next one. It uses up at least this number of
 * pages of the budget.
 */
#define LONE_RUN_PAGES 16u
#define BACKOFF_MAX (30 * HZ)

struct in_flight {
	struct hugemap_io *io[HUGEMAP_WRITE_DEPTH];
	u32 first, n;
	int part_err; /* first error of the parts before the part that ends the run */
	int err;
};

static void writeback_failed(struct hugemap_inode *hi, int err)
{
	unsigned long wait = min_t(unsigned long, HZ << min(hi->data->failures, 10u), BACKOFF_MAX);

	mapping_set_error(hi->vfs_inode.i_mapping, err);
	/*
	 * I/Os that were in flight together count as one failure; otherwise the delay would grow
	 * too long.
	 */
	if (hi->data->failures && time_before(jiffies, READ_ONCE(hi->data->retry_at)))
		return;
	if (!hi->data->failures)
		pr_err_ratelimited(
			"hugemap: %s: inode %llu cannot be written: error %d; it is kept and tried again\n",
			hi->vfs_inode.i_sb->s_id, (u64)hi->vfs_inode.i_ino, err);
	hi->data->failures++;
	WRITE_ONCE(hi->data->retry_at, jiffies + wait);
}

static void writeback_run_done(struct hugemap_inode *hi, const struct hm_run *run, int err)
{
	struct hugemap_mount *mount = hugemap_of(hi);
	u64 block;

	trace_hugemap_writeback(&hi->vfs_inode, run->pgoff, run->npages, err);
	if (err)
		writeback_failed(hi, err);
	else
		WRITE_ONCE(hi->data->good_runs, hi->data->good_runs + 1);
	WRITE_ONCE(hi->data->runs, hi->data->runs + 1);
	hugemap_race_point("write-back: I/O has ended, not clean yet");
	hm_writeback_done(hi->hfile, run->pgoff, run->npages, err);
	hugemap_race_point("write-back: clean, waiters not woken");
	for (block = run->pgoff & ~HUGEMAP_BLOCK_MASK; block < run->pgoff + run->npages;
	     block += HM_BLOCK_PAGES)
		hugemap_wake(mount, hi->hfile, block);
	if (!err)
		hugemap_progress(mount);
}

/*
 * Some units were written, and others may have failed. Without a delay, the writer would spend all
 * its time on retries of the failed ones. With a long delay, units that can be written would stay
 * dirty.
 */
static void writeback_went_well(struct hugemap_inode *hi, int err)
{
	if (!err) {
		hi->data->failures = 0;
	} else if (hi->data->failures > 1) {
		hi->data->failures = 1;
		WRITE_ONCE(hi->data->retry_at, jiffies + HZ);
	}
}

static void writeback_reap(struct hugemap_inode *hi, struct in_flight *flight)
{
	struct hugemap_io *io = flight->io[flight->first];
	int err = hugemap_io_wait(io);

	flight->first = (flight->first + 1) % HUGEMAP_WRITE_DEPTH;
	flight->n--;
	if (err && !flight->err)
		flight->err = err;
	err = flight->part_err ?: err;
	if (io->run.npages)
		writeback_run_done(hi, &io->run, err);
	flight->part_err = io->run.npages ? 0 : err;
	hugemap_io_free(io);
}

static struct hugemap_io *writeback_new_write(struct hugemap_inode *hi, struct in_flight *flight)
{
	struct hugemap_io *io = NULL;

	if (flight->n == HUGEMAP_WRITE_DEPTH)
		writeback_reap(hi, flight);
	while (!io) {
		io = hugemap_io_new(hi, flight->n ? GFP_NOWAIT | __GFP_NOWARN : GFP_NOFS);
		if (!io)
			writeback_reap(hi, flight);
	}
	io->write = true;
	return io;
}

static void writeback_submit(struct in_flight *flight, struct hugemap_io *io)
{
	flight->io[(flight->first + flight->n++) % HUGEMAP_WRITE_DEPTH] = io;
}

/*
 * Get the pages of a huge unit to write in @changed; NULL: all of them. The folio is locked and no
 * program can store to it. If a device has it pinned and may write to it without a report, it stays
 * dirty. @entries: the page table entries that allowed stores.
 */
static void writeback_take(struct hugemap_inode *hi, struct folio *folio,
			   const struct hm_unit *unit, int entries, u32 mappings,
			   unsigned long *changed)
{
	bool pinned;
	u32 pages;

	if (!folio_test_large(folio) || (!changed && !HUGEMAP_FORGETS_DIRTY))
		return;
	pinned = hugemap_mm_is_pinned(folio);
	if (pinned && HUGEMAP_FORGETS_DIRTY)
		hugemap_become_dirty(hi, unit->pgoff);
	if (!changed)
		return;
	pages = hm_writeback_pages(unit, pinned, changed);
	if (unlikely(hugemap_mm_exceeds(entries, pages, mappings))) {
		/* Programs may have stored to pages that no fault has reported. */
		bitmap_fill(changed, HM_BLOCK_PAGES);
		hugemap_become_dirty(hi, unit->pgoff);
	}
}

/*
 * Collect the folios of a run. Return true if they may be unmapped together, with one TLB flush. An
 * mlocked folio may not, because mm would forget the lock with the mapping.
 */
static bool writeback_gather(struct hugemap_inode *hi, const struct hm_run *run,
			     struct hugemap_io *io, struct hm_unit *unit)
{
	bool may_unmap = run->kind == HM_BASE && run->npages >= UNMAP_PAGES;
	u64 pgoff = run->pgoff, end = pgoff + run->npages;

	for (; pgoff < end; pgoff = unit->pgoff + unit->npages) {
		struct folio *folio;

		hm_peek(hi->hfile, pgoff, unit);
		folio = hugemap_frame_folio(hugemap_of(hi), unit->frame);
		may_unmap &= !folio_test_mlocked(folio);
		hugemap_io_add_pages(io, folio, 0, unit->npages);
	}
	return may_unmap &&
	       !hugemap_mm_is_mlocked(hi->vfs_inode.i_mapping, run->pgoff, run->npages);
}

/* Write-protect a run: from here on every store to it faults. */
static void writeback_protect(struct hugemap_inode *hi, const struct hm_run *run,
			      struct hugemap_io *io, unsigned long *changed)
{
	struct hugemap_mount *mount = hugemap_of(hi);
	struct hm_unit unit;
	u32 i, mappings;

	if (writeback_gather(hi, run, io, &unit)) {
		unmap_mapping_pages(hi->vfs_inode.i_mapping, run->pgoff, run->npages, false);
		hugemap_count(mount, HUGEMAP_C_UNMAPS, 1);
	}
	for (i = 0; i < io->nsegments; i++) {
		struct folio *folio = page_folio(io->segment[i].bv_page);
		int entries = 0;
		bool mapping;

		hugemap_race_point("write-back: claimed, not protected");
		/* A fault that is about to map the folio writable holds the lock, or is counted. */
		folio_lock(folio);
		mapping = folio_test_large(folio) &&
			  atomic_read_acquire(hugemap_mapping_stores(hi, unit.pgoff));
		/*
		 * Count the mappings before folio_mkclean() counts entries: a mapping that ends in
		 * between may have had some of them.
		 */
		mappings = hugemap_mm_mappings(hi->vfs_inode.i_mapping);
		if (folio_mapped(folio))
			entries = folio_mkclean(folio);
		if (entries)
			hugemap_count(mount, HUGEMAP_C_CLEANED, 1);
		folio_clear_dirty(folio);
		/* The I/O reads the page after the flag is clear: see hugemap_dirty_folio(). */
		smp_mb__after_atomic();
		if (mapping)
			hugemap_become_dirty(hi, unit.pgoff);
		/* A huge unit is a run by itself, so @unit is the only one. */
		writeback_take(hi, folio, &unit, entries, mappings, changed);
		folio_unlock(folio);
	}
	hugemap_race_point("write-back: protected, size not known");
}

/*
 * Return the bytes of a run that belong to the file. Called after writeback_protect(), so that the
 * size includes every store that is part of the I/O.
 */
static size_t writeback_bytes_of(struct hugemap_inode *hi, const struct hm_run *run)
{
	loff_t pos = (loff_t)run->pgoff << HM_PAGE_SHIFT;
	loff_t left = max_t(loff_t, i_size_read(&hi->vfs_inode) - pos, 0);

	return min_t(loff_t, (loff_t)run->npages << HM_PAGE_SHIFT, left);
}

/* Write the last bytes of a file, which do not fit direct I/O. */
static int writeback_write_tail(struct hugemap_inode *hi, const struct hm_run *run,
				const struct hugemap_io *io, size_t start, size_t bytes)
{
	const struct bio_vec *segment = io->segment;
	size_t at = start;

	for (; at >= segment->bv_len; segment++)
		at -= segment->bv_len;
	return hugemap_io_write_tail(hi,
				     folio_page(page_folio(segment->bv_page), at >> HM_PAGE_SHIFT),
				     ((loff_t)run->pgoff << HM_PAGE_SHIFT) + start, bytes);
}

/*
 * Decide whether to write only the changed pages of a huge unit. Write the whole unit if more than
 * half of its pages changed, if it holds the last bytes of the file, or if it extends the lower
 * file, which must have no gaps.
 */
static bool writeback_writes_parts(const struct hugemap_inode *hi, const struct hm_run *run,
				   const unsigned long *changed, size_t bytes)
{
	loff_t end = (loff_t)(run->pgoff + run->npages) << HM_PAGE_SHIFT;
	u32 first = 0, last, pages = 0;

	if (bytes < (size_t)run->npages << HM_PAGE_SHIFT ||
	    (hi->lower && i_size_read(hi->lower) < end))
		return false;
	for (; hugemap_next_run(changed, &first, &last); first = last)
		pages += last - first;
	return pages <= HM_BLOCK_PAGES / 2;
}

/*
 * Only the last part has io->run set. Parts are reaped in order, so writeback_reap() ends the run
 * after all its parts.
 */
static void writeback_write_parts(struct hugemap_inode *hi, const struct hm_run *run,
				  const unsigned long *changed, struct folio *folio,
				  struct in_flight *flight)
{
	u32 first = 0, end, next;

	if (!hugemap_next_run(changed, &first, &end))
		writeback_run_done(hi, run, 0);
	for (; first < HM_BLOCK_PAGES; first = next) {
		struct hugemap_io *io = writeback_new_write(hi, flight);

		hugemap_next_run(changed, &first, &end);
		next = end;
		if (!hugemap_next_run(changed, &next, &(u32){ 0 }))
			io->run = *run;
		hugemap_io_add_pages(io, folio, first, end - first);
		hugemap_io_submit(io, (loff_t)(run->pgoff + first) << HM_PAGE_SHIFT, io->bytes);
		writeback_submit(flight, io);
	}
}

static void writeback_write_run(struct hugemap_inode *hi, const struct hm_run *run,
				struct in_flight *flight)
{
	bool may_be_parts = run->kind == HM_HUGE && run->npages == HM_BLOCK_PAGES &&
			    hugemap_of(hi)->opts.page == HUGEMAP_PAGE_AUTO;
	struct hugemap_io *io = writeback_new_write(hi, flight);
	loff_t pos = (loff_t)run->pgoff << HM_PAGE_SHIFT;
	DECLARE_BITMAP(changed, HM_BLOCK_PAGES);
	size_t bytes, tail;
	int err = 0;

	io->run = *run;
	writeback_protect(hi, run, io, may_be_parts ? changed : NULL);

	bytes = writeback_bytes_of(hi, run);
	if (may_be_parts && writeback_writes_parts(hi, run, changed, bytes)) {
		struct folio *folio = page_folio(io->segment->bv_page);

		hugemap_io_free(io);
		hugemap_count(hugemap_of(hi), HUGEMAP_C_PARTIAL_WRITEBACKS, 1);
		writeback_write_parts(hi, run, changed, folio, flight);
		return;
	}
	tail = bytes % HM_PAGE_SIZE;
	bytes -= tail;
	if (bytes) {
		if (run->kind == HM_BASE)
			io->nsegments = bytes / HM_PAGE_SIZE;
		hugemap_io_submit(io, pos, bytes);
		if (!tail) {
			writeback_submit(flight, io);
			return;
		}
		err = hugemap_io_wait(io);
	}
	hugemap_race_point("write-back: all but the tail written");
	/* Write the tail only after the rest of the run has succeeded. */
	if (!err && tail)
		err = writeback_write_tail(hi, run, io, bytes, tail);
	hugemap_io_free(io);
	writeback_run_done(hi, run, err);
	if (err && !flight->err)
		flight->err = err;
}

/*
 * Write the next run of dirty units from *pos on. Return its pages; 0 if there is none up to @end.
 */
static u32 writeback_write_next(struct hugemap_inode *hi, u64 *pos, u64 end, bool wait,
				struct in_flight *flight)
{
	struct hm_run run;

	for (;;) {
		switch (hm_writeback(hi->hfile, pos, end, RUN_PAGES, wait, &run)) {
		case HM_WB_RUN:
			writeback_write_run(hi, &run, flight);
			return run.npages;
		case HM_WB_BUSY:
			/*
			 * This task may be writing the unit itself, so finish its own writes first.
			 */
			if (flight->n) {
				writeback_reap(hi, flight);
				continue;
			}
			wait_event(*hugemap_wait_of(hugemap_of(hi), hi->hfile, *pos),
				   hugemap_unit_idle(hi, *pos));
			continue;
		case HM_WB_DONE:
			*pos = end;
			return 0;
		}
	}
}

/*
 * Write dirty units from *pos to @end: see hugemap_write_pages(). Some may still be in flight at
 * the end.
 */
static void writeback_write_units(struct hugemap_inode *hi, u64 *pos, u64 end, u64 *budget,
				  bool wait, struct in_flight *flight)
{
	u32 npages = 1;

	while (*budget && npages) {
		npages = writeback_write_next(hi, pos, end, wait, flight);
		*budget -= min_t(u64, *budget, npages);
	}
}

static void writeback_reap_all(struct hugemap_inode *hi, struct in_flight *flight)
{
	while (flight->n)
		writeback_reap(hi, flight);
}

/*
 * Return the first page of the block in which the lower file ends, if it is shorter than the upper
 * one; otherwise U64_MAX.
 */
static u64 writeback_growth(struct hugemap_inode *hi)
{
	loff_t lower_size;

	if (!hi->lower)
		return U64_MAX;
	lower_size = min(i_size_read(hi->lower), READ_ONCE(hi->data->growth_failed_at));
	if (lower_size >= i_size_read(&hi->vfs_inode))
		return U64_MAX;
	return ((u64)lower_size >> HM_PAGE_SHIFT) & ~HUGEMAP_BLOCK_MASK;
}

/*
 * Record the result of the write of all units from @pos up to @end, which extends the lower file.
 * After a failure the lower file may be longer nevertheless: btrfs extends the file at the start of
 * a write and leaves it so. So remember the real end. Units beyond it are written after those at
 * @pos.
 */
static void writeback_note_growth(struct hugemap_inode *hi, u64 pos, u64 end, int err)
{
	if (err)
		WRITE_ONCE(hi->data->growth_failed_at, (loff_t)pos << HM_PAGE_SHIFT);
	else if ((loff_t)end << HM_PAGE_SHIFT > hi->data->growth_failed_at)
		WRITE_ONCE(hi->data->growth_failed_at, LLONG_MAX);
}

/*
 * Extend the lower file by writing the appended data: from its end on, in file order, and each run
 * after the previous one has ended. So the file never has a hole in place of data. grow_lock makes
 * tasks that extend the file at the same time take turns. Each run is waited for, so a sync skips
 * no unit that another task writes.
 */
static int writeback_write_growth(struct hugemap_inode *hi, u64 pos, u64 end, u64 *budget)
{
	struct in_flight flight = {};
	u32 npages;
	u64 from;

	mutex_lock(&hi->data->grow_lock);
	/* Before this task got the lock, another one may have failed at a lower position. */
	pos = min(pos, writeback_growth(hi));
	while (pos < end && *budget && !flight.err) {
		from = pos;
		npages = writeback_write_next(hi, &pos, end, true, &flight);
		writeback_reap_all(hi, &flight);
		writeback_note_growth(hi, from, pos, flight.err);
		*budget -= min_t(u64, *budget, max(npages, LONE_RUN_PAGES));
	}
	mutex_unlock(&hi->data->grow_lock);
	return flight.err;
}

static int writeback_write_pages(struct hugemap_inode *hi, u64 *pos, u64 end, u64 budget, bool wait)
{
	u64 pages = hugemap_pages(i_size_read(&hi->vfs_inode)), grow = writeback_growth(hi);
	struct in_flight flight = {};
	/* Data that a writer copies beyond the end of the file does not belong to the file yet. */
	u64 last = min(end, pages), stop = min(last, grow);
	u32 good = READ_ONCE(hi->data->good_runs);
	int err = 0;

	if (wait)
		hugemap_wait_claims(hugemap_of(hi));
	hugemap_race_point("write-back: sizes known, nothing claimed");
	if (*pos < stop) {
		writeback_write_units(hi, pos, stop, &budget, wait, &flight);
		writeback_reap_all(hi, &flight);
	}
	if (budget && last > grow) {
		err = writeback_write_growth(hi, grow, last, &budget);
		/*
		 * The next call finds the remaining growth by writeback_growth(), whatever its
		 * position is. So move on, and the units before the end of the lower file get their
		 * turn.
		 */
		if (!wait)
			*pos = end;
	}
	if (budget)
		*pos = end;
	err = flight.err ?: err;
	if (READ_ONCE(hi->data->good_runs) != good)
		writeback_went_well(hi, err);
	return err;
}

/* A write-back whose task waits. */
struct writeback_write_work {
	struct work_struct work;
	struct completion done;
	struct hugemap_inode *hi;
	u64 *pos;
	u64 end, budget;
	bool wait;
	int err;
};

static void writeback_write_work(struct work_struct *work)
{
	struct writeback_write_work *w = container_of(work, struct writeback_write_work, work);

	w->err = writeback_write_pages(w->hi, w->pos, w->end, w->budget, w->wait);
	complete(&w->done);
}

int hugemap_write_pages(struct hugemap_inode *hi, u64 *pos, u64 end, u64 budget, bool wait)
{
	struct writeback_write_work w = {
		.hi = hi, .pos = pos, .end = end, .budget = budget, .wait = wait
	};
	struct hugemap_mount *mount = hugemap_of(hi);

	if (!hm_file_dirty_pages(hi->hfile) && (!wait || !smp_load_acquire(&hi->data->writer))) {
		*pos = end;
		return 0;
	}
	if (!smp_load_acquire(&hi->data->writer))
		return -EROFS;
	/* A worker has no limits and no signals. Other kernel threads may have them (nfsd). */
	if (current->flags & PF_WQ_WORKER)
		return writeback_write_pages(hi, pos, end, budget, wait);
	init_completion(&w.done);
	INIT_WORK_ONSTACK(&w.work, writeback_write_work);
	queue_work(mount->write_wq, &w.work);
	wait_for_completion(&w.done);
	destroy_work_on_stack(&w.work);
	return w.err;
}

int hugemap_write_range(struct hugemap_inode *hi, u64 start, u64 end)
{
	u64 pos = start;

	hugemap_tell_late_change(&hi->vfs_inode);
	return hugemap_write_pages(hi, &pos, end, U64_MAX, true);
}

int hugemap_write_some(struct hugemap_inode *hi, u64 *pos, u64 end, u64 budget, bool wait)
{
	struct address_space *mapping = hi->vfs_inode.i_mapping;
	int err = 0;

	hugemap_start_write_lower(hi);
	hugemap_tell_late_change(&hi->vfs_inode);
	filemap_invalidate_lock_shared(mapping);
	if (hi->hfile)
		err = hugemap_write_pages(hi, pos, end, budget, wait);
	else
		*pos = end;
	filemap_invalidate_unlock_shared(mapping);
	hugemap_end_write_lower(hi);
	return err;
}
