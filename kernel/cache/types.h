/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The words of the cache.
 *
 * A *file* is the backing file or device of one cached object. A *block* is an aligned 2 MB
 * piece of it, a *base page* 4 KB. A *frame* is the memory for a block (huge frame) or for a
 * base page (base frame); the *pool* is all frames, a hard limit. A *unit* is the piece for
 * which the index keeps one state word: a whole block in a huge frame, or one base page of
 * a block that is *split*. The *engine* is the caller: it does the I/O, waits and changes
 * page tables.
 */
#ifndef HM_TYPES_H
#define HM_TYPES_H

#include "port.h"

/*
 * log2 of the bytes of a base page, of the base pages of a block, and of the slots of an
 * index node. The simulators make them small, so that a few hundred pages reach every level
 * of the index.
 */
#ifndef HM_PAGE_SHIFT
#define HM_PAGE_SHIFT 12
#endif
#ifndef HM_BLOCK_ORDER
#define HM_BLOCK_ORDER 9
#endif
#ifndef HM_NODE_ORDER
#define HM_NODE_ORDER 9
#endif

#define HM_PAGE_SIZE (1u << HM_PAGE_SHIFT)
#define HM_BLOCK_PAGES (1u << HM_BLOCK_ORDER)
#define HM_BLOCK_SHIFT (HM_BLOCK_ORDER + HM_PAGE_SHIFT)
#define HM_BLOCK_SIZE (1u << HM_BLOCK_SHIFT)
#define HM_NODE_SLOTS (1u << HM_NODE_ORDER)
/* The first blocks of a file have a leaf of their own, so that a small file needs no other. */
#define HM_HEAD_BLOCKS (2u << HM_NODE_ORDER / 3)

/*
 * The first pages of a file have words in a node of their own, and the other pages of the first
 * block in another one, so that a small file needs few words: 64 by default.
 */
#define HM_FIRST_PAGES (1u << HM_BLOCK_ORDER * 2 / 3)

/* The largest file: a root, its directories, and their leaves (256 TB by default). */
#define HM_FILE_BLOCKS_MAX ((u64)HM_NODE_SLOTS * HM_NODE_SLOTS * HM_NODE_SLOTS)

#define HM_NO_FRAME_ID 0xffffffffu

/*
 * The most index nodes above one page that may have no unit: its node of base pages, in the first
 * block the rest of that node, and its leaf.
 */
#define HM_EMPTY_NODES 3u
/* The most places with such nodes that a cache keeps. */
#ifndef HM_EMPTY_MAX
#define HM_EMPTY_MAX 256u
#endif

struct hm_cache;
struct hm_file;

/* Kinds of frames, of units, and of the queues for them. */
enum hm_kind {
	HM_HUGE,
	HM_BASE,
	HM_KINDS,
};

/**
 * enum hm_state - the state of a unit, in the low bits of its word (see word.h)
 * @HM_ABSENT: not cached
 * @HM_FILLING: it has a frame, and the engine is reading its data
 * @HM_CLEAN: cached; the file has the same data
 * @HM_DIRTY: cached; not written back yet
 * @HM_WRITING: under write-back; a store during it sets HM_W_REDIRTY
 * @HM_EVICTING: claimed by a caller that will report hm_evict_done() for it
 * @HM_FAILED: its read failed; the next fault gets the error, then it is absent
 * @HM_SPLIT: (block) its base pages have words of their own
 * @HM_FROZEN: (base page) the block is not split, or is being joined: read its word again
 */
enum hm_state {
	HM_ABSENT,
	HM_FILLING,
	HM_CLEAN,
	HM_DIRTY,
	HM_WRITING,
	HM_EVICTING,
	HM_FAILED,
	HM_SPLIT,
	HM_FROZEN,
};

/**
 * enum hm_node_kind - kinds of index nodes
 * @HM_NODE_ROOT: pointers to directories, except to the first one
 * @HM_NODE_DIR: pointers to leaves
 * @HM_NODE_LEAF: HM_NODE_SLOTS blocks
 * @HM_NODE_HEAD: a leaf for the first HM_HEAD_BLOCKS blocks, below no directory
 * @HM_NODE_BASE: the base pages of a block, except the first block
 * @HM_NODE_FIRST: the first HM_FIRST_PAGES base pages of a file
 * @HM_NODE_REST: the other base pages of the first block
 */
enum hm_node_kind {
	HM_NODE_ROOT,
	HM_NODE_DIR,
	HM_NODE_LEAF,
	HM_NODE_HEAD,
	HM_NODE_BASE,
	HM_NODE_FIRST,
	HM_NODE_REST,
};

/**
 * struct hm_unit - a unit, as the cache and the engine pass it to each other
 * @file: the file
 * @pgoff: its first base page in the file
 * @npages: HM_BLOCK_PAGES for a block in a huge frame, 1 for a base page
 * @frame: number of its frame; see hm_frame_offset()
 * @hints: HM_HINT_*, set by hm_fault() and hm_peek(). hm_fault() sets HM_HINT_NEEDS_ALLOC and
 *	HM_HINT_WRITING only on a hit of a store that follows in another call (hm_access.npages
 *	without .write).
 * @err: for HM_ERROR the negative errno; for HM_NO_NODE the enum hm_node_kind
 */
struct hm_unit {
	struct hm_file *file;
	u64 pgoff;
	u32 npages;
	u32 frame;
	u32 hints;
	int err;
};

/* Requests to the engine: bits of hm_unit.hints. */
enum {
	HM_HINT_READAHEAD = 1 << 0, /* call hm_readahead() */
	HM_HINT_WRITEBACK = 1 << 1, /* the dirty share is above its limit: write back */
	HM_HINT_RECLAIM = 1 << 2, /* few free frames: call hm_reclaim() */
	HM_HINT_JOINED = 1 << 3, /* this call made one huge unit of a split block */
	HM_HINT_PROMOTE = 1 << 4, /* a block waits for promotion: call hm_promote_pick() */
	HM_HINT_NEEDS_ALLOC = 1 << 5, /* writing it may need blocks: see struct hm_unit */
	HM_HINT_WRITING = 1 << 7, /* the unit is under write-back: see struct hm_unit */
	HM_HINT_PARTIAL = 1 << 6, /* only the pages of this store may be dirty: map no others */
};

#endif /* HM_TYPES_H */
