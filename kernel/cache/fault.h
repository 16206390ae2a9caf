/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Faults: a page goes from absent to cached, and from clean to dirty.
 *
 * The contract, in order:
 *  1. hm_fault() answers for one page. It never waits.
 *  2. After HM_FILL or HM_ZERO the caller owns the unit until it reports hm_fill_done() or
 *     hm_fill_cancel(). Until then other faults on the unit get HM_BUSY, and truncation,
 *     hole punching and promotion of the unit wait.
 *  3. After HM_HIT with .write the unit is dirty, and its dirty bit is set: a write-back
 *     that starts later finds it.
 *  4. The caller of hm_fill_done(), hm_fill_cancel() and hm_evict_done() wakes the tasks
 *     that got HM_BUSY, if the call returns true.
 */
#ifndef HM_FAULT_H
#define HM_FAULT_H

#include "access.h"

/**
 * enum hm_outcome - the answer to a fault
 * @HM_HIT: cached; unit.frame has the data
 * @HM_FILL: unit.frame is taken for it: read the data, then call hm_fill_done()
 * @HM_ZERO: the same, but the file has no data there: zero the frame, then call
 *	hm_fill_done()
 * @HM_BUSY: another task fills or evicts the unit: wait until that is done, and repeat the fault
 * @HM_NO_FRAME: the pool is empty: reclaim or write back for unit.npages, and repeat the fault
 * @HM_NO_NODE: the index lacks a node: call hm_file_add_node(), and repeat the fault
 * @HM_ERROR: the read of the page failed with unit.err; each failure is reported once
 * @HM_BEYOND: the page lies beyond the end of the file
 * @HM_NEEDS_ALLOC: (with .allocated_only) write-back may need blocks: reserve them, and repeat the
 *	fault
 * @HM_STABLE: (with .stable) under write-back: wait for its end, and repeat the fault
 * @HM_MISS: (with .cached_only) absent; nothing changed
 */
enum hm_outcome {
	HM_HIT,
	HM_FILL,
	HM_ZERO,
	HM_BUSY,
	HM_NO_FRAME,
	HM_NO_NODE,
	HM_ERROR,
	HM_BEYOND,
	HM_NEEDS_ALLOC,
	HM_STABLE,
	HM_MISS,
};

/**
 * hm_fault() - a page is accessed, or will be
 * @file: the file
 * @pgoff: the base page
 * @access: see struct hm_access
 * @unit: filled in unless HM_BEYOND is returned
 *
 * With .write the unit is dirty after HM_HIT. After HM_FILL and HM_ZERO it becomes dirty by
 * hm_fill_done() with @dirty, or by another hm_fault().
 *
 * If the page is cached, it takes at most stream_lock (a store to some pages of a huge unit) or
 * promote_lock (see state.h).
 *
 * Return: see enum hm_outcome.
 */
enum hm_outcome hm_fault(struct hm_file *file, u64 pgoff, struct hm_access access,
			 struct hm_unit *unit);

/**
 * hm_fill_done() - the data of HM_FILL or HM_ZERO is in the frame, or could not be read
 * @unit: from hm_fault()
 * @err: 0 or a negative errno
 * @dirty: a store follows: the unit starts dirty
 *
 * If a whole block cannot be read, later faults read its base pages one by one, so that each
 * gets an error of its own. If a base page cannot be read and a task got HM_BUSY for it, the
 * next fault on it gets HM_ERROR.
 *
 * Return: true if a task got HM_BUSY for the unit since hm_fault().
 */
bool hm_fill_done(const struct hm_unit *unit, int err, bool dirty);

/**
 * hm_fill_cancel() - give up after HM_FILL or HM_ZERO: no read was tried
 * @unit: from hm_fault()
 *
 * Return: as hm_fill_done().
 */
bool hm_fill_cancel(const struct hm_unit *unit);

/**
 * hm_fault_around() - find the cached pages around a fault, to map them with it
 * @file: the file
 * @pgoff: the page of the fault
 * @first: in: the lowest page wanted; out: the first page of the row
 * @last: in: the highest page wanted; out: the last page of the row, inclusive
 * @unit: filled in: the unit of @pgoff
 *
 * The row is a part of a huge unit, or consecutive cached base pages of one block. Each unit
 * counts as accessed. The row ends before a unit that has the read-ahead marker: only a
 * fault of its own may find the marker.
 *
 * Return: false if @pgoff is not cached, lies beyond the end of the file, or has the marker.
 */
bool hm_fault_around(struct hm_file *file, u64 pgoff, u64 *first, u64 *last, struct hm_unit *unit);

/**
 * hm_fault_row() - read adjacent base pages that are cached
 * @file: the file
 * @pgoff: the first page
 * @frame: set to their frames
 * @n: the most pages to find
 *
 * Each page counts as accessed, and as a hit. The row lies in one block. It ends before a page that
 * needs hm_fault(): the page is not cached, has the read-ahead marker, or is read-ahead that was
 * not accessed yet.
 *
 * Return: the number of pages; 0 also if the block is one unit.
 */
u32 hm_fault_row(struct hm_file *file, u64 pgoff, u32 *frame, u32 n);

#endif /* HM_FAULT_H */
