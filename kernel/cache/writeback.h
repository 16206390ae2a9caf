/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Write-back: from dirty to clean, in offset order, in runs of adjacent units.
 *
 * The contract, in order:
 *  1. hm_writeback() claims a run: its units are HM_WRITING.
 *  2. The engine write-protects each unit, and may then get the pages of a huge unit
 *     that it must write (hm_writeback_pages()).
 *  3. It writes, and reports hm_writeback_done() for the run or for parts of it.
 *  A store between 1 and 3 makes the unit dirty again.
 */
#ifndef HM_WRITEBACK_H
#define HM_WRITEBACK_H

#include "types.h"

/**
 * struct hm_run - adjacent units that are being written
 * @pgoff: the first base page
 * @npages: length in base pages
 * @kind: the kind of all its units; hm_peek() finds their frames
 */
struct hm_run {
	u64 pgoff;
	u32 npages;
	enum hm_kind kind;
};

/**
 * enum hm_wb - the answer of hm_writeback()
 * @HM_WB_DONE: no unit is dirty up to the end
 * @HM_WB_RUN: a run to write; then call hm_writeback_done()
 * @HM_WB_BUSY: another task writes, promotes or moves the unit at *pos
 */
enum hm_wb {
	HM_WB_DONE,
	HM_WB_RUN,
	HM_WB_BUSY,
};

/**
 * hm_writeback() - claim the next run of dirty units, in offset order
 * @file: the file
 * @pos: where to look from; moved past the run
 * @end: where to stop
 * @max_pages: the longest run wanted; a run has at least one unit
 * @wait: true for a sync, which must not pass units that another task writes, promotes or moves: it
 *	gets HM_WB_BUSY, waits until the unit at *pos is neither written nor claimed, and calls
 *	again. false: skip such units.
 * @run: filled in
 *
 * Return: see enum hm_wb.
 */
enum hm_wb hm_writeback(struct hm_file *file, u64 *pos, u64 end, u32 max_pages, bool wait,
			struct hm_run *run);

/**
 * hm_writeback_pages() - which pages of a huge unit of a run are to be written
 * @unit: the unit
 * @pinned: the folio is still pinned, so that a device can modify it without a fault
 * @pages: HM_BLOCK_PAGES bits, filled in; the engine may write other pages, too
 *
 * Call it once, when no task can store to the unit without hm_fault() any more, with the lock
 * that hm_access.npages requires. An engine that does not call it writes all of the unit.
 *
 * A device with a long-term pin may DMA at any time, and sets the folio dirty only when it
 * unpins. If the unit is dirty already, that notification is lost. So if the unit was
 * pinned at its last write-back (@pinned), the next store makes all of it dirty, until a
 * write-back finds it unpinned.
 *
 * Return: the number of bits set in @pages.
 */
u32 hm_writeback_pages(const struct hm_unit *unit, bool pinned, unsigned long *pages);

/* For hm_writeback_done(): the write was not tried; no error. */
#define HM_WB_AGAIN 1

/**
 * hm_writeback_done() - a run, or a part of one, was written or failed
 * @file: the file
 * @pgoff: the first page
 * @npages: length; whole units
 * @err: 0, HM_WB_AGAIN or a negative errno. After HM_WB_AGAIN and errors
 *	the units are dirty again.
 */
void hm_writeback_done(struct hm_file *file, u64 pgoff, u32 npages, int err);

/**
 * hm_writeback_pick() - the file that background write-back should work on
 * @cache: the cache
 * @skip: returns true for a file that cannot be written now; its age goes on. NULL: skip none
 * @expired: set if the file was chosen for the age of its dirty units. Its age starts again at zero
 *
 * The walk takes no lock. The caller keeps the memory of each file until the call returns, also
 * that of a file that is destroyed meanwhile.
 *
 * Return: a file; NULL if the dirty share is below its limit and no dirty unit is old, or if all
 * such files are skipped.
 */
struct hm_file *hm_writeback_pick(struct hm_cache *cache, bool (*skip)(struct hm_file *file),
				  bool *expired);

#endif /* HM_WRITEBACK_H */
