/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Files: their life, their size, their index nodes, and which parts of the backing file have data
 * and allocated blocks.
 *
 * The engine serialises changes of a file (truncation, hole punching, writes that bypass the cache)
 * with fills and write-back: it holds its invalidation lock exclusively for the former and shared
 * for the latter.
 */
#ifndef HM_FILE_H
#define HM_FILE_H

#include "types.h"

size_t hm_file_bytes(void);

/**
 * hm_file_init() - open a file in a cache
 * @cache: the cache
 * @mem: hm_file_bytes() of zeroed memory; the caller's, kept until hm_file_destroy()
 * @size: length in bytes; may be 0
 *
 * Return: the file; or NULL if @size is beyond HM_FILE_BLOCKS_MAX.
 */
struct hm_file *hm_file_init(struct hm_cache *cache, void *mem, u64 size);

/**
 * hm_file_uncount_index() - stop counting the index nodes of a file in the index of the cache
 * @file: the file, which is about to be destroyed
 *
 * Its nodes stay until then. If they counted, reclaim would evict units of other files to make the
 * index smaller. hm_file_destroy() calls this, too. Takes node_lock.
 */
void hm_file_uncount_index(struct hm_file *file);

/**
 * hm_file_destroy() - close a file that has no cached units any more
 * @file: the file
 *
 * Afterwards hm_file_take_node() returns its index nodes to the caller, one a call.
 */
void hm_file_destroy(struct hm_file *file);
void *hm_file_take_node(struct hm_file *file);

/**
 * hm_file_set_size() - the file grew or shrank
 * @file: the file
 * @size: its length in bytes
 *
 * When it shrinks, faults beyond @size get HM_BEYOND from now on. Units beyond @size stay cached
 * until the caller has invalidated them. The block that contains the end of the file is never
 * cached as a huge unit, because its last pages must raise SIGBUS: the caller writes back
 * and invalidates that block, too.
 *
 * Return: false if @size is beyond HM_FILE_BLOCKS_MAX.
 */
bool hm_file_set_size(struct hm_file *file, u64 size);
u64 hm_file_size(const struct hm_file *file);

/*
 * The number of dirty base pages of the file. 0 means that no page was dirty during the whole call.
 */
u64 hm_file_dirty_pages(const struct hm_file *file);

/* --- index nodes ---------------------------------------------------------------------- */

size_t hm_node_bytes(enum hm_node_kind kind);

/*
 * Prepare zeroed memory for hm_file_add_node(), before the caller searches the file for holes. If
 * write-back fills one of these holes afterwards, hm_file_add_node() fails.
 */
void hm_file_prepare_node(struct hm_file *file, u64 pgoff, void *mem);

/**
 * hm_file_add_node() - give the index the node that a fault with HM_NO_NODE lacked
 * @file: the file
 * @pgoff: the page of the fault
 * @kind: unit.err of the fault
 * @mem: hm_node_bytes(@kind) of zeroed memory, aligned to 64; if the file may have holes, after
 *	hm_file_prepare_node()
 * @size: hm_file_size() before the caller determined the bitmaps below
 * @zero_fill: (leaf or head) HM_NODE_SLOTS bits, set for blocks that have no data in the
 *	file; NULL = all have data. The first one starts at hm_node_start(@pgoff, @kind).
 * @needs_alloc: a bit for each piece that is not completely allocated in the file.
 *	Leaf or head: a piece is a block; NULL = as @zero_fill. HM_NODE_BASE, HM_NODE_FIRST: a
 *	piece is one of the HM_BLOCK_PAGES base pages; NULL = all pages if the block's bit is set
 *	in the leaf, else none.
 *
 * Return: true if @mem belongs to the file now. False if another task was faster, the size has
 * changed within the range of the node, or a hole there got data: the caller keeps @mem, and
 * repeats the fault. A size that changes elsewhere does not delay the node, so a miss makes
 * progress beside a writer that appends.
 */
bool hm_file_add_node(struct hm_file *file, u64 pgoff, enum hm_node_kind kind, void *mem, u64 size,
		      const unsigned long *zero_fill, const unsigned long *needs_alloc);
u64 hm_node_start(u64 pgoff, enum hm_node_kind kind); /* the first page below a node */

/**
 * hm_file_take_empty() - remove the index nodes above a page that have no cached unit
 * @file: the file
 * @pgoff: a page, for example one that has left the cache
 * @nodes: filled in: memory from hm_file_add_node(). Other tasks may still read it: the caller
 *	frees it after all sections of hm_read_begin() that have begun are over. Its first two
 *	pointers are the caller's at once.
 *
 * Return: the number of nodes.
 */
u32 hm_file_take_empty(struct hm_file *file, u64 pgoff, void *nodes[HM_EMPTY_NODES]);

/**
 * hm_file_keep_empty() - a unit has left the cache: keep the nodes above it for the next one
 * @file: the file; the caller keeps it open
 * @pgoff: its page
 *
 * Nodes that have no cached unit now enter the list of the cache, for hm_cache_take_empty().
 *
 * Return: false if the list is full: call hm_file_take_empty().
 */
bool hm_file_keep_empty(struct hm_file *file, u64 pgoff);

/*
 * Set @kind to the node that a fault on this page would lack. False: the leaf exists, and if the
 * block is split, also the word of the page.
 */
bool hm_file_lacks_node(struct hm_file *file, u64 pgoff, enum hm_node_kind *kind);

/* --- data and allocation in the file ---------------------------------------------------- */

/**
 * hm_file_set_zero_fill() - record whether the file has data in a range of pages
 * @file: the file
 * @pgoff: the first page
 * @npages: how many
 * @zero_fill: the file has no data there: a fill zeroes the frame instead of reading. False: it may
 *	have data there, and holes.
 *
 * For pages that are not cached. The call changes only blocks whose leaf exists; the others
 * get their bits with their leaf. So the caller sets the size first when it makes the file
 * longer. A part of a block is remembered only if the block is split.
 */
void hm_file_set_zero_fill(struct hm_file *file, u64 pgoff, u64 npages, bool zero_fill);

/**
 * hm_file_grow() - the file becomes longer, by pages without data
 * @file: the file
 * @pgoff: the first of these pages
 * @size: the new length in bytes, at most HM_FILE_BLOCKS_MAX
 *
 * The new size allows the block with the old end to be a huge unit. A store to that unit must find
 * that the pages beyond the old end need blocks. So this records the holes of that block, and sets
 * the size, as one step. The caller then records the holes of the blocks behind it by
 * hm_file_set_zero_fill().
 *
 * Return: the first page of these blocks.
 */
u64 hm_file_grow(struct hm_file *file, u64 pgoff, u64 size);

/*
 * The file has allocated blocks for these pages now, with data or without: write-back can write
 * them. For a block that is not split, this is recorded only if the range covers the block up to
 * its end or up to the end of the file.
 */
void hm_file_set_allocated(struct hm_file *file, u64 pgoff, u64 npages);

/* Does the file have no data at this unit? True until its first write-back. */
bool hm_is_zero_fill(struct hm_file *file, u64 pgoff);

/*
 * May write-back of this unit need blocks that the file does not have yet? True until
 * hm_file_set_allocated(), or until it is written back. For a page whose leaf exists.
 */
bool hm_needs_alloc(struct hm_file *file, u64 pgoff);

/* --- observation: nothing counts as accessed ---------------------------------------------- */

/* The unit that contains a page now, and its state; a hint unless a lock keeps the state. */
enum hm_state hm_peek(struct hm_file *file, u64 pgoff, struct hm_unit *unit);

/*
 * If the unit of a page is dirty, make sure that write-back finds it. Any context.
 *
 * A store sets the dirty bit after the state, so another task can find a dirty unit without the bit.
 * A device that stores to a claimed unit leaves the report to the task with the claim, and the
 * device's sync waits only for the end of that task's section. So that task confirms a dirty unit.
 *
 * Return: false if the unit is not dirty now; nothing was done.
 */
bool hm_confirm_dirty(struct hm_file *file, u64 pgoff);

/* Was the unit accessed since it became inactive? */
bool hm_referenced(struct hm_file *file, u64 pgoff);

/**
 * struct hm_cached - how much of a range is cached; base pages
 * @huge: in huge units
 * @base: in base pages, including those that are being filled
 * @dirty: of both, not written back yet
 */
struct hm_cached {
	u64 huge;
	u64 base;
	u64 dirty;
};

/**
 * hm_cached() - add up how much is cached, from a page on
 * @file: the file
 * @pgoff: a page of the first block
 * @end: where to stop
 * @sum: the call adds to it
 *
 * Takes no lock: units come and go during the call.
 *
 * Return: where to continue, after a bounded number of blocks; not below @end: finished.
 */
u64 hm_cached(struct hm_file *file, u64 pgoff, u64 end, struct hm_cached *sum);

#endif /* HM_FILE_H */
