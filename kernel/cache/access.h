/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The access of a page. A fault passes it to the cache, and a read-ahead plan contains one for its
 * faults.
 */
#ifndef HM_ACCESS_H
#define HM_ACCESS_H

#include "types.h"

/**
 * enum hm_size - which unit a miss brings in
 * @HM_SIZE_HUGE: the whole block
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
 * @HM_PRIORITY_NORMAL: according to its use
 * @HM_PRIORITY_HIGH: after all units of other priorities
 * @HM_PRIORITY_LOW: before all units of normal and high priority
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
 * @cached_only: if the page is absent, take no frame and return HM_MISS. HM_BUSY still notes the
 *	waiting task, and HM_ERROR still clears the failed read
 * @allocated_only: (with @write) if write-back of the unit may need blocks that the file does not
 *	have yet, change nothing and return HM_NEEDS_ALLOC
 * @stable: (with @write) if the unit is under write-back, change nothing and return HM_STABLE
 * @again: the caller repeats an access, which must not be counted again; a fill notes that the
 *	block is in demand (data/demand.c)
 * @ahead: read-ahead: no task waits for the page
 * @mark: (with @ahead) put the read-ahead marker on the unit
 * @use_once: (from a plan) the stream exceeds what the pool can keep of it
 * @stream: (from a plan) a long stream that will need all of the block
 * @npages: number of pages that the store changes, from the page of the fault on, all in one unit;
 *	0: it may change any page of the unit. With @write and a huge unit, only these pages become
 *	dirty if hm_unit.hints has HM_HINT_PARTIAL. Without @write, the store follows in another
 *	call. The caller holds the lock of the unit that hm_writeback_pages() needs (the folio lock
 *	in the module).
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

/* Change an access so that a miss brings in a base page, for a caller that got no huge frame. */
static inline struct hm_access hm_access_to_base(struct hm_access access)
{
	access.size = access.size == HM_SIZE_HUGE || access.size == HM_SIZE_BASE ?
			      HM_SIZE_BASE :
			      HM_SIZE_AUTO_BASE;
	return access;
}

#endif /* HM_ACCESS_H */
