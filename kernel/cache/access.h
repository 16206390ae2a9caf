/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* How a page is accessed: what a fault passes to the cache, and a plan for read-ahead, too. */
#ifndef HM_ACCESS_H
#define HM_ACCESS_H

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
 * @allocated_only: (with @write) change nothing if write-back of the unit may need blocks that the
 *	file does not have yet: the answer is HM_NEEDS_ALLOC
 * @stable: (with @write) change nothing while the unit is under write-back: the answer is HM_STABLE
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
	u32 allocated_only : 1;
	u32 stable : 1;
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

#endif /* HM_ACCESS_H */
