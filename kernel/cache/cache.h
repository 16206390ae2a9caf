/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The cache core: which blocks are cached, in which frame, clean or dirty,
 * what to read ahead, what to evict, what to write and in which order.
 *
 * The core does no I/O, does not wait, touches no page table and allocates
 * nothing. An engine (user/, kernel/, or the simulator) asks it, carries out
 * the answers and reports back. Every function may be called from any thread
 * at any time unless its comment says otherwise.
 *
 * Words: a *store* is the backing file or device; a *block* an aligned 2 MB
 * piece of it; a *base page* 4 KB; a *frame* the DRAM that holds a block (huge
 * frame) or a base page (base frame); the *pool* all frames. A *unit* is what
 * the index keeps one state word for: a whole block in a huge frame, or one
 * base page of a block that is *split*.
 */
#ifndef HM_CACHE_H
#define HM_CACHE_H

#include "port.h"

/*
 * log2 of the bytes in a base page, of the base pages in a block, and of the slots in an
 * index node. The simulators make them small, so that a few hundred pages reach every
 * level, and a page is moved by a copy.
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

/* The largest store: three levels of nodes over blocks (256 TB by default). */
#define HM_FILE_BLOCKS_MAX ((u64)HM_NODE_SLOTS * HM_NODE_SLOTS * HM_NODE_SLOTS)

/* Files that one cache can have open at a time. */
#ifndef HM_FILES_MAX
#define HM_FILES_MAX 65536u
#endif

/* Concurrent streams that one store tells apart. */
#define HM_STREAMS 16u

#define HM_NO_FRAME_ID 0xffffffffu

/**
 * struct hm_options - every setting of the core
 * @pool_frames: size of the pool in huge frames (2 MB); no default; at least 4
 * @cpus: how many shards the free lists and queues have; default 1
 * @dirty_ratio: write-back starts by itself when more than this share of the
 *	pool is dirty; percent, default 75
 * @dirty_expire_ms: a store that has been dirty for this long is written back
 *	even below @dirty_ratio; milliseconds, default 5000, 0 = never
 * @evict_batch: how many units are evicted at a time; units, default 16
 * @free_target: frames that reclaim keeps free; huge frames, default
 *	@evict_batch, and never more than a quarter of the pool
 * @probation_ratio: share of the clean units of a shard that newly read units
 *	may take before the older, proven ones are asked to leave; percent,
 *	default 10
 * @inactive_ratio: share of the clean units of a shard that is kept unmapped
 *	but cached, as a last chance to be touched again; percent, default 12
 * @readahead_kb: the largest read-ahead window of a stream of huge units;
 *	KiB, default 32768, 0 = no read-ahead
 * @readahead_base_kb: the same for base pages; KiB, default 2048
 * @stream_min: sequential faults that make a stream; count, default 3
 * @promote_util: the share of a block that is cached in base pages, brought in
 *	with HM_ACCESS_AUTO, from which on it is to be promoted; percent, default
 *	90, 0 = never. What a promotion holds beyond that is what was not asked for.
 * @promote_interval_ms: how long after a promotion that was refused it is tried
 *	again, the first time; milliseconds, default 1000
 *
 * A field of 0 means the default, except where 0 has a meaning of its own:
 * those take their default from hm_options_init().
 */
struct hm_options {
	u32 pool_frames;
	u32 cpus;
	u32 dirty_ratio;
	u32 dirty_expire_ms;
	u32 evict_batch;
	u32 free_target;
	u32 probation_ratio;
	u32 inactive_ratio;
	u32 readahead_kb;
	u32 readahead_base_kb;
	u32 stream_min;
	u32 promote_util;
	u32 promote_interval_ms;
};

/* Kinds of frames, of units and of the queues for them. */
enum hm_kind {
	HM_HUGE,
	HM_BASE,
	HM_KINDS,
};

/* The state of a unit, in the low bits of its word (see word.h). */
enum hm_state {
	HM_ABSENT,
	HM_FILLING, /* a frame is taken, data is on its way */
	HM_CLEAN,
	HM_DIRTY,
	HM_WRITING, /* being written back; stores set HM_W_REDIRTY */
	HM_EVICTING, /* claimed by somebody who will call hm_evict_done() */
	HM_FAILED, /* the read failed; the next fault is told, then absent */
	HM_SPLIT, /* block: look in the base pages */
	HM_FROZEN, /* base page: being joined, look at the block again */
};

/* What a fault wants: bits for hm_fault() and hm_readahead(). */
enum {
	HM_ACCESS_READ = 0,
	HM_ACCESS_WRITE = 1 << 0,
	HM_ACCESS_BASE = 1 << 1, /* a base page is wanted, if not cached yet */
	HM_ACCESS_AHEAD = 1 << 2, /* nobody waits for it */
	HM_ACCESS_MARK = 1 << 3, /* with AHEAD: put the read-ahead marker here */
	HM_ACCESS_SEQUENTIAL = 1 << 4, /* the program said so: no need to learn */
	HM_ACCESS_HIGH = 1 << 5, /* priority: evict late */
	HM_ACCESS_LOW = 1 << 6, /* priority: evict first */
	HM_ACCESS_CACHED = 1 << 7, /* only if it is cached: else HM_MISS */
	HM_ACCESS_AGAIN = 1 << 8, /* of a fault that was counted before */
	HM_ACCESS_AUTO = 1 << 9, /* block or base page, as a stream goes through it; see below */
	HM_ACCESS_USE_ONCE = 1 << 10, /* of a stream that is too large to stay: from a plan */
	HM_ACCESS_RANDOM = 1 << 11, /* the program said so: with AUTO, a base page */
	HM_ACCESS_HUGE = 1 << 12, /* the program said so: with AUTO, the block */
	HM_ACCESS_STREAM = 1 << 13, /* of a long stream, that wants all of a block: from a plan */
};

/*
 * With HM_ACCESS_WRITE: only so many pages, from this one on and of its unit, are stored to;
 * without it: they will be, by another call, and nothing else is meant by this one. Of
 * a huge unit, write-back can learn which these are: see hm_writeback_pages(). That is so if
 * HM_HINT_PARTIAL is the answer; else all of it may be stored to, as without this. The caller holds
 * a lock of the unit, as whoever calls hm_writeback_pages() does.
 */
#define HM_ACCESS_PAGES_SHIFT 16
#define HM_ACCESS_PAGES(n) ((u32)(n) << HM_ACCESS_PAGES_SHIFT)

/*
 * What a miss brings in: the block; with HM_ACCESS_BASE its base page; with HM_ACCESS_AUTO
 * the block if a stream goes on there, or HM_ACCESS_SEQUENTIAL or HM_ACCESS_HUGE says so, and
 * if nothing of it is cached, else the base page. HUGE wins over RANDOM, BASE over AUTO. What is
 * cached is found whatever it is; if that is a base page, HUGE has its block promoted,
 * however little of it is cached. What came in with BASE, and without AUTO, keeps its block from
 * being promoted until all of it has gone, or HUGE is said.
 */

/**
 * enum hm_outcome - the answer to a fault
 * @HM_HIT: cached; unit.frame holds the data
 * @HM_FILL: unit.frame is taken for it: read the data, call hm_fill_done()
 * @HM_ZERO: the same, but the store holds no data there: zero the frame
 *	instead of reading, call hm_fill_done()
 * @HM_BUSY: somebody is filling or evicting it; wait until that is reported
 *	done (its done-call returns true for "somebody waits") and ask again
 * @HM_NO_FRAME: the pool is empty; reclaim or write back, for unit.npages, ask again
 * @HM_NO_NODE: the index lacks a node: see hm_file_add_node(), ask again
 * @HM_ERROR: reading it failed, unit.err says why; told once
 * @HM_BEYOND: the store ends before it
 * @HM_MISS: not cached, and HM_ACCESS_CACHED was given: nothing happened
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

/* What a fault suggests to do next: bits of hm_unit.hints. */
enum {
	HM_HINT_READAHEAD = 1 << 0, /* call hm_readahead() */
	HM_HINT_WRITEBACK = 1 << 1, /* the dirty share is above its limit */
	HM_HINT_RECLAIM = 1 << 2, /* few free frames: call hm_reclaim() */
	HM_HINT_JOINED = 1 << 4, /* base pages before this call, one huge unit now */
	HM_HINT_PROMOTE = 1 << 5, /* there is something to promote: hm_promote_pick() */
	HM_HINT_NEEDS_ALLOC =
		1 << 6, /* of hm_peek() only: as hm_needs_alloc(), of this very unit */
	HM_HINT_PARTIAL = 1 << 7, /* of a huge unit, only the HM_ACCESS_PAGES may be stored to */
};

/* Kinds of index nodes. */
enum hm_node_kind {
	HM_NODE_DIR,
	HM_NODE_LEAF,
	HM_NODE_BASE,
};

struct hm_cache;
struct hm_file;

/**
 * struct hm_unit - a unit as the core and an engine speak of it
 * @file: the store
 * @pgoff: its first base page in the store
 * @npages: HM_BLOCK_PAGES for a block in a huge frame, 1 for a base page
 * @frame: the frame's number; see hm_frame_offset()
 * @hints: HM_HINT_*, set by hm_fault() and hm_peek()
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

/* Statistics of a cache: hm_cache_count(). Each only grows. */
enum hm_counter {
	HM_C_FAULTS, /* hm_fault() without AHEAD that gave an answer */
	HM_C_HITS,
	HM_C_FILLS, /* demand fills, base pages or blocks alike */
	HM_C_ZERO_FILLS,
	HM_C_AHEAD, /* units brought in ahead */
	HM_C_AHEAD_USED, /* ... that were then used */
	HM_C_AHEAD_WASTED, /* ... that left the cache unused */
	HM_C_DIRTIED, /* clean units made dirty */
	HM_C_DEACTIVATED, /* moved to the inactive queue */
	HM_C_REACTIVATED, /* touched while inactive */
	HM_C_EVICTED,
	HM_C_GHOSTS, /* read again soon after their eviction */
	HM_C_WRITTEN, /* base pages written back */
	HM_C_WRITE_ERRORS, /* runs that could not be written */
	HM_C_READ_ERRORS,
	HM_C_SPLITS,
	HM_C_JOINS,
	HM_C_FRAMES_SPLIT, /* huge frames carved into base frames */
	HM_C_FRAMES_MERGED, /* and these that are huge again */
	HM_C_PROMOTED,
	HM_C_DEMOTED, /* evicted: huge units, of which few pages were stored to, and no more used */
	HM_C_NOT_PROMOTED, /* failed promotions, then one counter per enum hm_promote_result: */
	HM_C_NOT_PROMOTED_COLD,
	HM_C_NOT_PROMOTED_DIRTY,
	HM_C_NOT_PROMOTED_NEEDS_ALLOC,
	HM_C_NOT_PROMOTED_BUSY,
	HM_C_NOT_PROMOTED_NO_FRAME,
	HM_C_NOT_PROMOTED_PINNED,
	HM_C_NOT_PROMOTED_FAILED,
	HM_COUNTERS,
};

/* --- the cache ---------------------------------------------------------- */

void hm_options_init(struct hm_options *opts);

/**
 * hm_options_check() - is this a set of options that the core accepts?
 * @opts: the options; fields of 0 are given their defaults
 *
 * Return: NULL, or a sentence that says what is wrong.
 */
const char *hm_options_check(struct hm_options *opts);

/* Bytes of zeroed memory that hm_cache_init() needs; opts must be checked. */
size_t hm_cache_bytes(const struct hm_options *opts);

/**
 * hm_cache_init() - make a cache
 * @mem: hm_cache_bytes() of zeroed memory, aligned to 64; it stays the
 *	caller's and may be released when all stores are destroyed
 * @opts: checked options, copied
 */
struct hm_cache *hm_cache_init(void *mem, const struct hm_options *opts);

/**
 * hm_cache_set_options() - change what may change while the cache is used
 * @cache: the cache
 * @opts: checked options; .pool_frames and .cpus stay as they are
 */
void hm_cache_set_options(struct hm_cache *cache, const struct hm_options *opts);

/**
 * hm_frame_offline() - take a free huge frame out of the pool: it becomes smaller
 *
 * Return: the frame, whose memory the engine may give away, or HM_NO_FRAME_ID
 * if none is free now.
 */
u32 hm_frame_offline(struct hm_cache *cache);

/* It has memory again, which is base pages now if @base_backed: it is carved before others. */
void hm_frame_online(struct hm_cache *cache, u32 frame, bool base_backed);

/* The engine's clock, in milliseconds; only ever forward; for ages. */
void hm_cache_tick(struct hm_cache *cache, u64 now_ms);

u64 hm_cache_count(struct hm_cache *cache, enum hm_counter counter);
u64 hm_cache_dirty_pages(const struct hm_cache *cache);
bool hm_cache_dirty_above_limit(const struct hm_cache *cache); /* see dirty_ratio */
u64 hm_cache_free_pages(struct hm_cache *cache);
u64 hm_cache_huge_pages(struct hm_cache *cache); /* of those that are not free, in huge frames */
const struct hm_options *hm_cache_options(const struct hm_cache *cache);

/*
 * Byte offset of a frame in the pool's memory. Base frames lie in huge ones; their numbers
 * begin with opts.pool_frames.
 */
u64 hm_frame_offset(const struct hm_cache *cache, u32 frame);
bool hm_frame_is_base(const struct hm_cache *cache, u32 frame);

/* --- stores -------------------------------------------------------------- */

size_t hm_file_bytes(void);

/**
 * hm_file_init() - open a store in a cache
 * @cache: the cache
 * @mem: hm_file_bytes() of zeroed memory, the caller's, kept until
 *	hm_file_destroy()
 * @size: length in bytes; may be 0
 *
 * Return: the store, or NULL if HM_FILES_MAX are open or @size is beyond
 * HM_FILE_BLOCKS_MAX.
 */
struct hm_file *hm_file_init(struct hm_cache *cache, void *mem, u64 size);

/**
 * hm_file_destroy() - close a store; nothing of it may be cached any more
 *
 * Afterwards hm_file_take_node() hands back the nodes, one a call.
 */
void hm_file_destroy(struct hm_file *file);
void *hm_file_take_node(struct hm_file *file);

/**
 * hm_file_set_size() - the store grew or shrank
 *
 * When it shrinks, faults beyond @size are refused from now on, but what is
 * cached there stays until the caller has invalidated it. The block that
 * holds the end of the store is never cached as a whole (its last pages
 * must raise SIGBUS), so the caller writes back and invalidates it too.
 */
bool hm_file_set_size(struct hm_file *file, u64 size);
u64 hm_file_size(const struct hm_file *file);
u64 hm_file_dirty_pages(const struct hm_file *file);

size_t hm_node_bytes(enum hm_node_kind kind);

/**
 * hm_file_add_node() - give the index the node that HM_NO_NODE asked for
 * @file: the store
 * @pgoff: the fault's page
 * @kind: unit.err of the fault
 * @mem: hm_node_bytes(@kind) of zeroed memory, aligned to 64
 * @size: hm_file_size() before it was looked for what follows
 * @zero_fill: for HM_NODE_LEAF: HM_NODE_SLOTS bits, set for blocks that hold no
 *	data in the store; NULL = all hold data. The leaf of @pgoff starts at
 *	hm_leaf_start(@pgoff).
 * @needs_alloc: bits for what is not, or not all, allocated in the store: blocks for
 *	HM_NODE_LEAF, where NULL means those of @zero_fill; HM_BLOCK_PAGES pages for
 *	HM_NODE_BASE, where NULL means what is known of the block.
 *
 * Return: true if @mem is now the store's, false if another thread was
 * faster, or the store has another size now, and @mem is still the caller's: ask again.
 */
bool hm_file_add_node(struct hm_file *file, u64 pgoff, enum hm_node_kind kind, void *mem, u64 size,
		      const unsigned long *zero_fill, const unsigned long *needs_alloc);
u64 hm_leaf_start(u64 pgoff);

/* Which node would a fault on this page ask for? False: none but a base node. */
bool hm_file_lacks_node(struct hm_file *file, u64 pgoff, enum hm_node_kind *kind);

/**
 * hm_file_set_zero_fill() - pages are known to hold data, or to hold none
 *
 * For pages that are not cached. Only blocks whose leaf exists are touched:
 * others are told when their leaf is added; so what is new behind the end is told after
 * hm_file_set_size(), and nobody stores to it before. That a part of a block holds none is
 * only remembered of a block that is split.
 */
void hm_file_set_zero_fill(struct hm_file *file, u64 pgoff, u64 npages, bool zero_fill);

/*
 * Units that are allocated in the store now, with data or without: they can be
 * written. Whole units: a part of a block that is not split is not remembered, but for the part
 * in front of the end of the store.
 */
void hm_file_set_allocated(struct hm_file *file, u64 pgoff, u64 npages);

/* --- faults -------------------------------------------------------------- */

/**
 * hm_fault() - a page is touched, or will be
 * @file: the store
 * @pgoff: the base page
 * @access: HM_ACCESS_*
 * @unit: filled in unless the answer is HM_BEYOND
 *
 * With HM_ACCESS_WRITE the unit is dirty when the answer is HM_HIT; after
 * HM_FILL and HM_ZERO it becomes dirty by hm_fill_done(.dirty).
 *
 * Return: see enum hm_outcome.
 */
enum hm_outcome hm_fault(struct hm_file *file, u64 pgoff, u32 access, struct hm_unit *unit);

/**
 * hm_fill_done() - the data of HM_FILL or HM_ZERO is in the frame, or not
 * @unit: as hm_fault() gave it
 * @err: 0 or a negative errno
 * @dirty: a store follows: the unit starts dirty; only if @err is 0
 *
 * When a whole block cannot be read, it is split, so that each of its base
 * pages gets a read, and a result, of its own. When a base page cannot be
 * read, the next fault on it gets HM_ERROR.
 *
 * Return: true if somebody was told HM_BUSY meanwhile.
 */
bool hm_fill_done(const struct hm_unit *unit, int err, bool dirty);

/**
 * hm_fill_cancel() - give up a HM_FILL or HM_ZERO: it was not tried
 *
 * Return: true if somebody was told HM_BUSY meanwhile.
 */
bool hm_fill_cancel(const struct hm_unit *unit);

/**
 * hm_fault_around() - find the cached pages around a fault, to map them with it
 * @file: the store
 * @pgoff: the page of the fault
 * @first: in: the lowest page wanted; out: the first page of the row
 * @last: in: the highest page wanted; out: the last page of the row, inclusive
 * @unit: filled in: the unit of @pgoff
 *
 * The row is a part of a huge unit, or consecutive cached base pages of one block. Each unit
 * counts as accessed. The row ends before a unit that has the read-ahead marker: only a
 * fault of its own may find the marker.
 *
 * Return: false if @pgoff is not cached, lies beyond the end of the store, or has the marker.
 */
bool hm_fault_around(struct hm_file *file, u64 pgoff, u64 *first, u64 *last, struct hm_unit *unit);

/**
 * hm_is_zero_fill() - does the store hold no data where this unit is?
 *
 * True until the unit has been written back for the first time.
 */
bool hm_is_zero_fill(struct hm_file *file, u64 pgoff);

/*
 * May writing this unit need room in the store that it does not have yet? True
 * until hm_file_set_allocated(), or until it has been written back. Of a page
 * whose leaf is there.
 */
bool hm_needs_alloc(struct hm_file *file, u64 pgoff);

/**
 * struct hm_cached - how much of a range is cached, in base pages
 * @huge: in huge units
 * @base: in base pages, those that are being filled among them
 * @dirty: of both, what was stored to and not written yet
 */
struct hm_cached {
	u64 huge;
	u64 base;
	u64 dirty;
};

/**
 * hm_cached() - add up what is cached of the blocks from a page on
 * @file: the store
 * @pgoff: a page of the first one
 * @end: where to stop
 * @sum: it is added to
 *
 * For people: units come and go meanwhile. Nothing counts as touched by it.
 *
 * Return: where to go on, after a bounded number of blocks; not below @end: it is all.
 */
u64 hm_cached(struct hm_file *file, u64 pgoff, u64 end, struct hm_cached *sum);

/* The unit that holds a page now, and its state; for checks under a lock. */
enum hm_state hm_peek(struct hm_file *file, u64 pgoff, struct hm_unit *unit);

/* Was the unit touched since it became inactive? */
bool hm_referenced(struct hm_file *file, u64 pgoff);

/* --- read-ahead and write-behind ----------------------------------------- */

/**
 * struct hm_plan - what a stream wants next
 * @start: first base page to bring in; unit by unit, with
 *	hm_fault(HM_ACCESS_AHEAD | @access)
 * @end: the page after the last one; == @start if there is nothing to do
 * @mark: the page to set HM_ACCESS_MARK for
 * @access: HM_ACCESS_* bits for these faults
 * @behind_start: first page of a finished stretch of writing
 * @behind_end: the page after it; write it back now if above @behind_start
 */
struct hm_plan {
	u64 start;
	u64 end;
	u64 mark;
	u32 access;
	u64 behind_start;
	u64 behind_end;
};

/**
 * hm_readahead() - a fault had HM_HINT_READAHEAD
 * @file: the store
 * @pgoff: the fault's page
 * @access: the fault's access
 * @plan: what to bring in and to write back
 *
 * A stream is recognised by its faults alone; random access gets an empty
 * plan. Each plan continues where the last one of the stream ended. With
 * HM_ACCESS_AUTO it is the rest of a block in base pages, or whole blocks.
 *
 * Return: true if there is something to do.
 */
bool hm_readahead(struct hm_file *file, u64 pgoff, u32 access, struct hm_plan *plan);

/**
 * hm_readahead_stopped() - a plan could not be carried out to its end
 * @file: the store
 * @plan: the plan
 * @pgoff: the first page that was not brought in
 *
 * The stream goes on from there at its next fault.
 */
void hm_readahead_stopped(struct hm_file *file, const struct hm_plan *plan, u64 pgoff);

/* --- eviction ------------------------------------------------------------- */

/**
 * struct hm_victim - one thing to take away
 * @unit: the unit
 * @evict: true: it is claimed; unmap it everywhere, then hm_evict_done().
 *	false: it became inactive; unmap it if it is still clean and not
 *	hm_referenced(); its frame and data stay, and nothing is reported.
 */
struct hm_victim {
	struct hm_unit unit;
	bool evict;
};

/**
 * hm_reclaim_want() - how many frames of a kind reclaim should free now
 */
u32 hm_reclaim_want(struct hm_cache *cache, enum hm_kind kind);

/**
 * hm_reclaim() - choose what leaves the cache
 * @cache: the cache
 * @kind: which kind of frame is short
 * @want: how many frames to free
 * @victims: room for @max, sorted by store and offset, so that neighbours
 *	can be unmapped with one TLB flush
 * @max: see @victims
 *
 * Only clean units are chosen.
 *
 * Return: how many victims; 0 means that nothing is found now that is clean and may go.
 */
u32 hm_reclaim(struct hm_cache *cache, enum hm_kind kind, u32 want, struct hm_victim *victims,
	       u32 max);

enum hm_evict_result {
	HM_EVICTED, /* unmapped everywhere; the frame is free */
	HM_EVICT_BUSY, /* pinned: it stays, clean */
	HM_EVICT_DIRTY, /* it was stored to after all: it stays, dirty */
	HM_EVICT_DISCARD, /* as HM_EVICTED, for truncation: do not remember it */
};

/**
 * hm_evict_done() - report a victim, or a unit of hm_invalidate()
 *
 * Return: true if somebody was told HM_BUSY meanwhile.
 */
bool hm_evict_done(const struct hm_unit *unit, enum hm_evict_result result);

/* --- write-back ------------------------------------------------------------ */

/**
 * struct hm_run - adjacent dirty units, now being written
 * @pgoff: first base page
 * @npages: length in base pages
 * @kind: all units are of this kind; look their frames up with hm_peek()
 */
struct hm_run {
	u64 pgoff;
	u32 npages;
	enum hm_kind kind;
};

enum hm_wb {
	HM_WB_DONE, /* nothing dirty up to the end */
	HM_WB_RUN, /* a run to write; then hm_writeback_done() */
	HM_WB_BUSY, /* at *pos something is being written already */
};

/**
 * hm_writeback() - the next run of dirty units, in offset order
 * @file: the store
 * @pos: where to look from; moved past the run
 * @end: where to stop
 * @max_pages: the longest run wanted; at least one unit is given
 * @wait: true for a sync, which must not pass units that are being written
 *	by somebody else, or promoted: it gets HM_WB_BUSY, waits for any
 *	hm_writeback_done() on the store, or the end of the promotion, and asks
 *	again. false: skip them.
 * @run: the run
 */
enum hm_wb hm_writeback(struct hm_file *file, u64 *pos, u64 end, u32 max_pages, bool wait,
			struct hm_run *run);

/**
 * hm_writeback_pages() - what of a huge unit that is to be written has changed
 * @unit: a huge unit of a run
 * @pinned: may somebody store to it without a word before or after, who could before?
 * @pages: HM_BLOCK_PAGES bits: the pages to write. Others may be written as well.
 *
 * Once, when nobody can store to the unit without hm_fault() any more, and with the lock that
 * HM_ACCESS_PAGES asks for. Who does not ask writes all of it.
 *
 * Where a device may store to what it once got hold of, as long as it likes, and tells only then,
 * and where that is not heard if the unit is known to be dirty, all of the unit is dirty from the
 * next store on, until nobody holds it at a write-back (@pinned).
 *
 * Return: how many pages.
 */
u32 hm_writeback_pages(const struct hm_unit *unit, bool pinned, unsigned long *pages);

/**
 * hm_writeback_done() - a run, or part of one, is written or has failed
 * @file: the store
 * @pgoff: first page
 * @npages: whole units
 * @err: 0; HM_WB_AGAIN if the write was not tried; or a negative errno. After HM_WB_AGAIN and
 *	errors the units are dirty again.
 */
#define HM_WB_AGAIN 1
void hm_writeback_done(struct hm_file *file, u64 pgoff, u32 npages, int err);

/**
 * hm_writeback_pick() - the store that background write-back should work on
 * @cache: the cache
 * @expired: set if it was chosen for the age of its dirty units
 *
 * Return: a store, or NULL when the dirty share is below the limit and
 * nothing is old. Not safe against hm_file_destroy().
 */
struct hm_file *hm_writeback_pick(struct hm_cache *cache, bool *expired);

/* --- invalidation ---------------------------------------------------------- */

enum hm_invalidated {
	HM_INV_DONE, /* nothing (more) in the range */
	HM_INV_UNIT, /* *unit is claimed: unmap it, then hm_evict_done() */
	HM_INV_BUSY, /* at *pos a fill, a write or an eviction is under way */
};

/**
 * hm_invalidate() - take the cached units of a range away, one a call
 * @file: the store
 * @pos: where to look from; moved past the unit
 * @end: where to stop
 * @discard: true: dirty units too, their data is not wanted (truncate,
 *	punch). false: clean units only; dirty ones are passed over.
 * @unit: the unit
 */
enum hm_invalidated hm_invalidate(struct hm_file *file, u64 *pos, u64 end, bool discard,
				  struct hm_unit *unit);

/* --- promotion --------------------------------------------------------------- */

/**
 * enum hm_promote_result - why a promotion does not happen
 * @HM_PROMOTE_OK: it does, so far
 * @HM_PROMOTE_COLD: too little of the block was touched
 * @HM_PROMOTE_DIRTY: a part of it is stored to, and all of it would be written
 * @HM_PROMOTE_NEEDS_ALLOC: the store may have no room for all of it
 * @HM_PROMOTE_BUSY: a page of it is being filled, written, evicted, or has just left
 * @HM_PROMOTE_NO_FRAME: no huge frame is free
 * @HM_PROMOTE_PINNED: for the engine: somebody holds a page of it
 * @HM_PROMOTE_FAILED: for the engine: there is no memory, or a page cannot be read
 * @HM_PROMOTE_GONE: there is nothing to promote any more; not counted
 *
 * It is tried again later, if it still may be, but after HM_PROMOTE_GONE.
 */
enum hm_promote_result {
	HM_PROMOTE_OK,
	HM_PROMOTE_COLD,
	HM_PROMOTE_DIRTY,
	HM_PROMOTE_NEEDS_ALLOC,
	HM_PROMOTE_BUSY,
	HM_PROMOTE_NO_FRAME,
	HM_PROMOTE_PINNED,
	HM_PROMOTE_FAILED,
	HM_PROMOTE_GONE,
};

/**
 * struct hm_promotion - a block that is to be promoted: 512 base pages become one unit
 * @unit: the block as it will be: .file, .pgoff and .npages from hm_promote_pick() on (or set
 *	by the caller), .frame, the huge one, from hm_promote_begin() on
 * @missing: pages of it that are not cached, a bit each: the engine reads them. Nobody else
 *	does: their faults are told HM_BUSY until the end. (What hm_peek() says of the frame
 *	of such a page is its place in the huge one.)
 * @nmissing: how many
 *
 * What follows is the core's. About 2.3 KB: too large for a kernel's stack.
 *
 * One promotion is one task's, and these calls come one after the other:
 *
 *	hm_promote_pick()	which block; or the caller's choice (MADV_COLLAPSE)
 *	hm_promote_begin()	a huge frame; the missing pages are FILLING
 *		The engine has memory for the frame and reads what is missing, and zeroes
 *		what hm_is_zero_fill() says, into its place in the frame: page i at i * 4 KB.
 *	hm_promote_copy()	a page to copy ahead, again and again, while all are in use
 *	hm_promote_claim()	all base pages are claimed, or none
 *		The engine has nobody use them: it locks, unmaps all at once, freezes.
 *	hm_promote_page()	page by page: what is yet to be copied
 *	hm_promote_commit()	the block is one unit; the base frames are free
 *
 * In kernel/ that is: begin under the shared invalidate_lock, then hugemap_frame_prepare(),
 * and the reads, after it has been let go; each page to copy by hugemap_unit_folio(), with a
 * reference and without its lock. To claim, the shared invalidate_lock by a trylock, and
 * files_lock; then folio_trylock() of all base folios, in order, one unmap_mapping_pages(),
 * folio_ref_freeze() of all; the copies; all out of i_pages and the huge folio in; unfrozen
 * and unlocked; commit; wake all of the block. Whatever fails: unfreeze, unlock, abort.
 *
 * From hm_promote_pick() on, hm_promote_abort() ends it at any time and leaves everything
 * as it was; it must be called if it does not come to hm_promote_commit(). Only when
 * hm_promote_begin() refuses, that has been done.
 */
struct hm_promotion {
	struct hm_unit unit;
	u32 nmissing;
	unsigned long missing[HM_BITMAP_LONGS(HM_BLOCK_PAGES)];

	u32 tries, weight;
	bool picked, begun, claimed;
	bool stream;
	u32 ndirty;
	unsigned long copied[HM_BITMAP_LONGS(HM_BLOCK_PAGES)];
	unsigned long changed[HM_BITMAP_LONGS(HM_BLOCK_PAGES)];
	u32 frame[HM_BLOCK_PAGES];
};

/**
 * hm_promote_pick() - the next block that should be promoted
 * @cache: the cache
 * @p: set to it
 *
 * Of the store that has least of the huge frames for its priority, where those that are idle
 * count more often; of several in the order in which they came. For a worker of the engine: after
 * HM_HINT_PROMOTE, and every opts.promote_interval_ms for those that are tried again.
 * Not safe against hm_file_destroy(); afterwards the store must stay until the promotion has
 * ended.
 *
 * Return: false if there is none, or none yet.
 */
bool hm_promote_pick(struct hm_cache *cache, struct hm_promotion *p);

/**
 * hm_promote_begin() - take a huge frame, claim what is missing
 * @p: from hm_promote_pick(); or zeroed, with .unit.file and .unit.pgoff set, a multiple of
 *	HM_BLOCK_PAGES below the end
 * @force: somebody has asked for it: whatever was touched or stored to
 *
 * What keeps faults, which this is as many as pages are missing, apart from changes of the
 * store (truncate, punch) is held by the caller, and may be let go before the I/O: these wait
 * for what is FILLING. After HM_PROMOTE_NO_FRAME the caller may have some evicted.
 *
 * Return: HM_PROMOTE_OK, or why not, and it has ended.
 */
enum hm_promote_result hm_promote_begin(struct hm_promotion *p, bool force);

/**
 * hm_promote_copy() - the next page that can be copied while it is in use
 * @p: the promotion; what was missing has been read
 * @at: 0 at first; moved past the page
 * @unit: the page
 *
 * Copy it from its frame to its place in the huge one; nothing is to be reported, and no lock is
 * needed but what keeps the frame's memory what it is: the page may be evicted at any
 * time, so look whether it is still there as one does who found it by hm_fault(), and go
 * on without it if it is not. If it is stored to, evicted or written meanwhile, the core knows
 * that the copy is worth nothing. Dirty pages are not copied ahead: who may store to
 * them is not seen.
 *
 * Return: false if there is none.
 */
bool hm_promote_copy(struct hm_promotion *p, u32 *at, struct hm_unit *unit);

/**
 * hm_promote_claim() - claim all base pages of the block, or none
 * @p: the promotion; what was missing has been read, successfully
 *
 * The caller holds what keeps the store from changes (truncate, punch) from here on to
 * hm_promote_commit() or hm_promote_abort(); it must not wait for that, as who has it may
 * wait for what is FILLING here: if it is not to be had, abort. What it holds while units are
 * claimed for an eviction, too, so that a sync waits: a unit may be dirty, or become it by
 * a device.
 *
 * From here on faults are told HM_BUSY. Programs go on to use what they have mapped, until
 * the engine unmaps the block, as it does for an eviction; stores to dirty pages are
 * among that.
 *
 * Return: HM_PROMOTE_OK; HM_PROMOTE_BUSY: something is being written, or has left: the caller
 * may wait, and ask again, or abort; otherwise abort. A device may have made a page dirty
 * that was claimed for a moment: see hm_promote_abort().
 */
enum hm_promote_result hm_promote_claim(struct hm_promotion *p);

enum hm_promote_page {
	HM_PAGE_READ, /* it was missing, and is in the huge frame */
	HM_PAGE_COPIED, /* it was copied; its frame is given back by the commit */
	HM_PAGE_COPY, /* copy it now */
};

/**
 * hm_promote_page() - a page of a claimed block
 * @p: the promotion
 * @i: which one, below HM_BLOCK_PAGES
 * @unit: the page and its base frame, but for HM_PAGE_READ
 *
 * When nobody can store to it any more: unmapped, and its folio frozen. What a device has
 * stored to after all (the folio says that it is dirty) is to be copied, whatever this says.
 */
enum hm_promote_page hm_promote_page(const struct hm_promotion *p, u32 i, struct hm_unit *unit);

/* A page of a claimed block was found to be stored to, which the core may not know. */
void hm_promote_dirty(struct hm_promotion *p, u32 i);

/**
 * hm_promote_unclaim() - somebody has a page of it for a moment: all are in use again
 * @p: the promotion, whose pages were claimed
 *
 * What was missing, and what was copied, is kept: the caller may claim them again, or abort.
 * As after hm_promote_abort() the engine asks what has become dirty.
 *
 * Return: true if somebody was told HM_BUSY meanwhile.
 */
bool hm_promote_unclaim(struct hm_promotion *p);

/**
 * hm_promote_commit() - the block is one huge unit from here on
 * @p: the promotion; all data is in the huge frame
 *
 * Before: the huge frame is what lookups shall find (its folio is in i_pages), the base
 * frames are the pool's again: nobody has them, they are in no table, and are not locked.
 * They are used for something else when this returns. As after a fill, whoever
 * was told HM_BUSY is to be woken, and who waits for a write-back: that of all pages.
 *
 * Return: true if somebody was told HM_BUSY meanwhile.
 */
bool hm_promote_commit(struct hm_promotion *p);

/**
 * hm_promote_abort() - give up: everything is as it was
 * @p: the promotion, at whatever point; nobody uses the huge frame, nor looks it up
 * @why: what to count; a page that was to be read and failed is read again by who needs it
 *
 * Claimed pages are clean or dirty as before. Afterwards the engine asks, as after
 * HM_EVICT_BUSY, whether a device has made one dirty meanwhile, and has it noted
 * (hm_fault() with HM_ACCESS_WRITE | HM_ACCESS_CACHED).
 *
 * Return: true if somebody was told HM_BUSY meanwhile.
 */
bool hm_promote_abort(struct hm_promotion *p, enum hm_promote_result why);

#endif /* HM_CACHE_H */
