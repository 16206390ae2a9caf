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

#include "types.h"

/**
 * enum hm_size - which unit a miss brings in
 * @HM_SIZE_HUGE: the block
 * @HM_SIZE_BASE: a base page. Its block is not promoted until all of it has left the cache,
 *	or a fault has .promote.
 * @HM_SIZE_AUTO: the block if a stream continues there and no page of it is cached; else a
 *	base page
 * @HM_SIZE_AUTO_BASE: a base page of a block that may be promoted later
 */
enum hm_size {
	HM_SIZE_HUGE,
	HM_SIZE_BASE,
	HM_SIZE_AUTO,
	HM_SIZE_AUTO_BASE,
};

/**
 * enum hm_order - advice of the program about the order of its accesses
 * @HM_ORDER_LEARN: none: streams are recognised by their faults
 * @HM_ORDER_SEQUENTIAL: read ahead from the first fault on; with HM_SIZE_AUTO, blocks
 * @HM_ORDER_RANDOM: do not read ahead; with HM_SIZE_AUTO, base pages
 */
enum hm_order {
	HM_ORDER_LEARN,
	HM_ORDER_SEQUENTIAL,
	HM_ORDER_RANDOM,
};

/**
 * enum hm_priority - when the unit is evicted
 * @HM_PRIORITY_NORMAL: by its use
 * @HM_PRIORITY_HIGH: after all units of other priorities
 * @HM_PRIORITY_LOW: before them
 */
enum hm_priority {
	HM_PRIORITY_NORMAL,
	HM_PRIORITY_HIGH,
	HM_PRIORITY_LOW,
};

/**
 * struct hm_access - how a page is accessed
 * @size: see enum hm_size
 * @order: see enum hm_order
 * @priority: see enum hm_priority
 * @promote: the program wants the block huge (MADV_HUGEPAGE): with HM_SIZE_AUTO a miss brings
 *	in the block, and a block of base pages is promoted however few of them are cached
 * @write: the page is stored to
 * @cached_only: change nothing unless the page is cached: else the answer is HM_MISS
 * @again: this fault was counted before
 * @ahead: read-ahead: no task waits for the page
 * @mark: (with @ahead) put the read-ahead marker on the unit
 * @use_once: (from a plan) the stream exceeds what the pool can keep of it
 * @stream: (from a plan) a long stream that will need all of the block
 * @npages: how many pages are stored to, from the page on, all in one unit; 0 = any page of
 *	the unit may be. With @write and a huge unit, only these pages become dirty if the
 *	answer has HM_HINT_PARTIAL. Without @write: the store follows in another call. The
 *	caller holds the lock of the unit that hm_writeback_pages() needs, too (the folio
 *	lock in the module).
 *
 * It fits into a register and is passed by value.
 */
struct hm_access {
	u32 size : 2;
	u32 order : 2;
	u32 priority : 2;
	u32 promote : 1;
	u32 write : 1;
	u32 cached_only : 1;
	u32 again : 1;
	u32 ahead : 1;
	u32 mark : 1;
	u32 use_once : 1;
	u32 stream : 1;
	u32 npages : 16;
};

#define HM_ACCESS(...) ((struct hm_access){ __VA_ARGS__ })
#define HM_ACCESS_READ HM_ACCESS(.write = false)
#define HM_ACCESS_WRITE HM_ACCESS(.write = true)

/* Does a miss with @access always bring in a base page? */
static inline bool hm_access_is_base(struct hm_access access)
{
	return access.size == HM_SIZE_BASE || access.size == HM_SIZE_AUTO_BASE;
}

/* The same access, but a miss brings in a base page, because no huge frame can be had. */
static inline struct hm_access hm_access_to_base(struct hm_access access)
{
	access.size = access.size == HM_SIZE_HUGE || access.size == HM_SIZE_BASE ?
			      HM_SIZE_BASE :
			      HM_SIZE_AUTO_BASE;
	return access;
}

/**
 * enum hm_outcome - the answer to a fault
 * @HM_HIT: cached; unit.frame has the data
 * @HM_FILL: unit.frame is taken for it: read the data, then call hm_fill_done()
 * @HM_ZERO: the same, but the file has no data there: zero the frame, then call
 *	hm_fill_done()
 * @HM_BUSY: another task fills or evicts the unit: wait until that is done, and ask again
 * @HM_NO_FRAME: the pool is empty: reclaim or write back for unit.npages, and ask again
 * @HM_NO_NODE: the index lacks a node: see hm_file_add_node(), and ask again
 * @HM_ERROR: its read failed, unit.err is why; each failure is reported once
 * @HM_BEYOND: the page lies beyond the end of the file
 * @HM_MISS: (with .cached_only) not cached; nothing happened
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
	HM_MISS,
};

/**
 * hm_fault() - a page is accessed, or will be
 * @file: the file
 * @pgoff: the base page
 * @access: see struct hm_access
 * @unit: filled in unless the answer is HM_BEYOND
 *
 * With .write the unit is dirty when the answer is HM_HIT. After HM_FILL and HM_ZERO it
 * becomes dirty by hm_fill_done() with @dirty, or by another hm_fault().
 *
 * Takes no lock if the page is cached, except for the first store to a huge unit of which
 * only some pages become dirty (the stream lock).
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

#endif /* HM_FAULT_H */
