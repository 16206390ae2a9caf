/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The state of the cache, which its files share.
 *
 * Lock order. All are spinlocks; a thread holds at most one of each kind.
 *
 *   cache->files_lock		the list of files
 *   file->node_lock		adding index nodes, joining blocks
 *   file->stream_lock		streams
 *   cache->promote_lock		candidates for promotion
 *   cache->empty_lock		index nodes without a unit
 *   file->dirty_lock		clearing dirty bits, the ordered walk
 *     shard->queue_lock		the queues, and desc->word of queued frames
 *       shard->pool_lock		free lists
 *
 * Only three pairs nest: dirty_lock inside node_lock, queue_lock inside dirty_lock, and pool_lock
 * inside queue_lock. The last one is hm_pool_unisolate(), which reclaim calls for a unit that is
 * not clean.
 *
 * Fields of struct hm_shard, hm_cache and hm_file name their lock by a letter:
 *
 *   I  set when the object is made, constant afterwards
 *   A  atomic, or read without a lock while it changes
 *   F, N, S, P, E, Q, L  written under files_lock, node_lock, stream_lock, promote_lock,
 *      empty_lock, queue_lock, pool_lock
 *   A after one of them: written under the lock, read without it
 *
 * Lookups, faults on cached units and marking a unit dirty take no lock, with two exceptions. A
 * store to some pages of a huge unit may take stream_lock, if it is the first store at the start of
 * the unit or continues a row of stores. promote_lock may be taken by a fault with
 * hm_access.promote, and, with HM_SIZE_AUTO, by the first access to a base page that was read
 * ahead.
 */
#ifndef HM_STATE_H
#define HM_STATE_H

#include "counters.h"
#include "options.h"
#include "word.h"

/* Concurrent streams per file. */
#define HM_STREAMS 16u

/*
 * Queues of a shard. A unit that became dirty may still be queued: reclaim unlinks it when it
 * finds it at the tail, and hm_writeback_done() queues it again.
 */
enum hm_queue {
	HM_Q_NONE,
	HM_Q_PROBATION, /* new units */
	HM_Q_MAIN, /* units that were accessed again */
	HM_Q_HIGH, /* units of high priority: evicted after all others */
	HM_Q_INACTIVE, /* unmapped units: evicted before those above */
	HM_Q_USE_ONCE, /* of streams that exceed the pool: evicted first */
	HM_QUEUES,
};

/* The queues whose ages reclaim compares: HM_Q_PROBATION to HM_Q_INACTIVE. */
#define HM_AGED_QUEUES (HM_Q_USE_ONCE - HM_Q_PROBATION)

/* Units that one search for victims examines at most: a queue may be full of dirty units. */
#define HM_SCAN_MAX 512u

/*
 * log2 of the neighbouring blocks that share a shard, so that a batch of victims consists of
 * contiguous runs.
 */
#define HM_GROUP_ORDER 4

/*
 * One frame, huge or base. It belongs to the unit whose word contains the frame's number. While
 * the frame is queued, the queue_lock of its shard protects all fields.
 */
struct hm_desc {
	hm_atomic_t *word; /* NULL when free; cleared under queue_lock */
	struct hm_file *file;
	u64 pgoff;
	hm_atomic_t where; /* shard << 8 | enum hm_queue */
	u32 next, prev; /* in the queue or the free list */
	u32 stamp; /* cache->clock when it was queued */
	u8 priority; /* enum hm_priority */
	bool use_once; /* hm_access.use_once */
};

/* A huge frame seen as a container of base frames. */
struct hm_container {
	unsigned long free[HM_BITMAP_LONGS(HM_BLOCK_PAGES)];
	u32 nfree;
	u32 low; /* index of the first long of @free that may have a bit set */
	u32 next, prev; /* shard->partial */
	bool split;
	bool isolated; /* no base frames are taken from it: reclaim empties it */
	bool base_backed; /* its memory was base pages when it came online: split it first */
};

/*
 * Which pages of a huge unit are dirty, if its word has HM_W_PARTIAL_DIRTY; see dirty_map.c. The
 * lock of the unit (see hm_access.npages) protects it, or the claim of its write-back.
 */
struct hm_dirty_map {
	unsigned long changed[HM_BITMAP_LONGS(HM_BLOCK_PAGES)]; /* since the last write-back */
	unsigned long writing[HM_BITMAP_LONGS(HM_BLOCK_PAGES)]; /* by the current write-back */
	bool pinned; /* the folio was pinned at the last write-back */
};

/* Number of faults that a CPU remembers, to recognise the next one in sequence. */
#define HM_NOTES 16u

struct hm_list {
	u32 head, tail;
	hm_atomic_t count; /* written under queue_lock, read without it */
};

struct hm_shard {
	hm_spinlock_t pool_lock;
	hm_atomic_t
		free[HM_KINDS]; /* LA: lists of huge frames: of huge folios, and of base pages */
	u32 partial; /* L: list of split frames with free base frames */
	hm_atomic_t nfree[HM_KINDS]; /* LA */

	hm_spinlock_t queue_lock __attribute__((aligned(64)));
	struct hm_list list[HM_KINDS][HM_QUEUES]; /* Q */
	hm_atomic_t stayed[HM_KINDS]; /* A: see hm_queue_note_stay() */
	u32 turn[HM_KINDS]; /* Q: see hm_reclaim_stuck_donor() */

	/*
	 * QA: the oldest unit of each queue but the use-once queue: frame << 32 | stamp. Reclaim
	 * compares the ages of all shards with one line of each, and without queue_lock.
	 */
	hm_atomic_t oldest[HM_KINDS][HM_AGED_QUEUES] __attribute__((aligned(64)));

	hm_atomic_t note[HM_NOTES] __attribute__((aligned(64))); /* A: see stream.c */
	hm_atomic_t tags[HM_NOTES / 8]; /* A: one byte of each note */

	hm_atomic_t count[HM_COUNTERS] __attribute__((aligned(64))); /* A */
	hm_atomic_t note_hand; /* A: the note to overwrite next */
	hm_atomic_t gone_pages; /* A: pages that this CPU evicted */
	hm_atomic_t dirtied, cleaned; /* A: pages, by this CPU; see hm_cache_dirty_pages() */
	hm_atomic_t index_bytes; /* A: added by this CPU, less those removed */
} __attribute__((aligned(64)));

/* Blocks that can wait for promotion. A later fault queues a block that found no place. */
#define HM_CANDIDATES 256u

struct hm_candidate {
	struct hm_file *file;
	u64 pgoff;
	u64 after; /* cache->clock */
	u32 tries; /* failed promotions */
	bool stream; /* a stream reads the block, and will access all of it */
};

struct hm_empty {
	struct hm_file *file;
	u64 pgoff; /* first page of a block whose node of base pages, leaf or both are empty */
};

/*
 * The fields that every fault reads have cache lines of their own. Writes by faults, write-back and
 * eviction would otherwise take these lines away from all other CPUs.
 */
struct hm_cache {
	struct hm_options opts; /* A: hm_cache_set_options() */
	u32 nframes; /* I */
	u32 nshards; /* I */
	u32 reserve; /* I: huge frames that read-ahead leaves free */
	u32 nghosts; /* I: a power of two */
	u32 dirty_step; /* I: pages that a CPU dirties between two checks of the limit */
	u64 index_limit; /* I: bytes of index nodes for units that were accessed once */
	struct hm_shard *shards; /* I */
	struct hm_desc *desc; /* I: of nframes huge frames, then of the base frames */
	struct hm_container *container; /* I */
	struct hm_dirty_map *dirty_map; /* I: one per huge frame */
	hm_atomic_t *ghosts; /* I */
	hm_atomic_t offline; /* A: huge frames without memory */
	hm_atomic_t clock; /* A: milliseconds */
	hm_atomic_t ghost_clock; /* A: evicted pages, in units of a block; see queue.c */

	hm_atomic_t evict_cursor[HM_KINDS] __attribute__((aligned(64))); /* A */
	hm_atomic_t isolated; /* A: the split huge frame that reclaim empties */
	hm_atomic_t huge_short; /* A: 1 = a task found no huge frame: hm_reclaim_pick_container() */
	hm_atomic_t isolate_skip; /* A: split frames to skip, because a page there is pinned */

	hm_spinlock_t files_lock __attribute__((aligned(64)));
	struct hm_file *files; /* FA: all files; the last one first */
	u32 next_id; /* F */

	hm_spinlock_t promote_lock __attribute__((aligned(64)));
	u32 ncandidates; /* P */
	struct hm_candidate candidate[HM_CANDIDATES]; /* P */

	hm_spinlock_t empty_lock __attribute__((aligned(64)));
	u32 nempty; /* E */
	struct hm_empty empty[HM_EMPTY_MAX]; /* E: a node may be in use again */
};

/* --- the index -------------------------------------------------------------- */

/*
 * Levels of nodes over the blocks, and a node of base pages under each split block. The first
 * blocks of each file are in a node of their own, its head, which is small. Lookups take no lock:
 * see hm_index_guard(). The dirty bitmap of a node has a bit for each child with a dirty unit: the
 * ordered walk over dirty units uses it.
 */
struct hm_node {
	struct hm_node *next, *prev; /* N: list of all nodes of the file; then the engine's */
	u32 bytes; /* I */
	u32 filled; /* I: the counter in @holes_filled at hm_file_prepare_node() */
};

/*
 * Set in the count of a node that is being removed. A task that counts a unit, and finds this bit,
 * does not use the node.
 */
#define HM_NODE_DEAD (1ull << 62)

/* The words of the first block behind its first HM_FIRST_PAGES words. */
struct hm_rest {
	struct hm_node node;
	hm_atomic_t word[HM_BLOCK_PAGES - HM_FIRST_PAGES];
};

/*
 * The base pages of a block. The node of the first block of a file has only HM_FIRST_PAGES elements
 * of @word. A fault on one of the other pages of that block adds the rest. Words that are missing
 * count as absent if the block is split, and as frozen otherwise. The bitmaps have a bit for each
 * page of the block, also in the first block.
 */
struct hm_base {
	struct hm_node node;
	struct hm_rest *rest; /* NA: only in the first block; stays as long as this node */
	/* A: at least the number of words that are neither absent nor frozen; or HM_NODE_DEAD */
	hm_atomic_t resident;
	unsigned long dirty[HM_BITMAP_LONGS(HM_BLOCK_PAGES)];
	unsigned long zero_fill[HM_BITMAP_LONGS(HM_BLOCK_PAGES)];
	unsigned long needs_alloc[HM_BITMAP_LONGS(HM_BLOCK_PAGES)];
	hm_atomic_t word[HM_BLOCK_PAGES];
};

struct hm_block {
	hm_atomic_t word;
	struct hm_base *base; /* NA */
};

/* The head of a file is a leaf with only HM_HEAD_BLOCKS elements of @block. */
struct hm_leaf {
	struct hm_node node;
	hm_atomic_t
		resident; /* A: at least the number of words that are not absent; or HM_NODE_DEAD */
	u32 nbase; /* N: nodes of base pages in @block */
	unsigned long dirty[HM_BITMAP_LONGS(HM_NODE_SLOTS)];
	unsigned long
		zero_fill[HM_BITMAP_LONGS(HM_NODE_SLOTS)]; /* the file has no data in the block */
	unsigned long
		needs_alloc[HM_BITMAP_LONGS(HM_NODE_SLOTS)]; /* some pages may be unallocated */
	/* blocks whose read failed: their pages are read one by one, until all have been read */
	unsigned long read_failed[HM_BITMAP_LONGS(HM_NODE_SLOTS)];
	/* blocks that wait for promotion or were picked; blocks that are being promoted */
	unsigned long queued[HM_BITMAP_LONGS(HM_NODE_SLOTS)];
	unsigned long promoting[HM_BITMAP_LONGS(HM_NODE_SLOTS)];
	/* blocks that a program wants in base pages (MADV_NOHUGEPAGE), or huge (MADV_HUGEPAGE) */
	unsigned long no_promote[HM_BITMAP_LONGS(HM_NODE_SLOTS)];
	unsigned long force_promote[HM_BITMAP_LONGS(HM_NODE_SLOTS)];
	struct hm_block block[HM_NODE_SLOTS];
};

struct hm_dir {
	struct hm_node node;
	unsigned long dirty[HM_BITMAP_LONGS(HM_NODE_SLOTS)];
	struct hm_leaf *leaf[HM_NODE_SLOTS];
};

struct hm_root {
	struct hm_node node;
	struct hm_dir *dir[HM_NODE_SLOTS];
};

/* One sequential reader or writer; see stream.c. */
struct hm_stream {
	u64 next; /* the page that it is expected to access next */
	u64 ahead; /* the page after its read-ahead */
	u64 first; /* its first page */
	u64 behind; /* the page after its write-behind */
	u32 window; /* base pages */
	u32 seen; /* number of faults in sequence */
	u32 step; /* base pages per unit; 1 with HM_SIZE_AUTO; 0 = the slot is free */
	u32 passes_left; /* how often the clock hand passes it before it ends */
	bool write;
};

/*
 * Counters of dirty pages. A block always uses the same counter, and neighbouring blocks use
 * different ones, so that stores to many places do not share a cache line. See
 * hm_file_dirty_pages().
 */
#define HM_DIRTY_COUNTERS 16u

struct hm_dirty_counter {
	hm_atomic_t pages;
} __attribute__((aligned(64)));

/*
 * Counters of write-backs to blocks without data. A leaf always uses the same counter, and
 * neighbouring leaves use different ones. Only the head and the first leaf share one: a write-back
 * to one of them can repeat the preparation of the other. See hm_file_prepare_node().
 */
#define HM_FILLED_COUNTERS 16u

/* As in struct hm_cache, the fields that every fault reads come first. */
struct hm_file {
	struct hm_cache *cache; /* I */
	u32 id; /* I: unique among the last 2^32 files */
	hm_atomic_t size; /* A: bytes */
	hm_atomic_t needs_alloc; /* A: 1 = a node has, or had, a bit set in @needs_alloc */
	struct hm_leaf *head; /* NA: the leaf of the first blocks */
	struct hm_dir *first_dir; /* NA */
	struct hm_root *root; /* NA: the other directories, of a file beyond 512 GB */

	struct hm_dirty_counter dirty_counter[HM_DIRTY_COUNTERS]; /* A */
	/* Read by all stores but rarely written: not in a cache line of the counters. */
	hm_atomic_t dirty_since __attribute__((aligned(64))); /* A: clock; 0 = clean */

	hm_spinlock_t dirty_lock __attribute__((aligned(64)));

	/* The spans of the streams, and which of @span are not 0; see stream.c. */
	hm_atomic_t spans __attribute__((aligned(64))); /* SA */
	hm_atomic_t span[HM_STREAMS]; /* SA */
	hm_spinlock_t stream_lock __attribute__((aligned(64)));
	u32 stream_hand; /* S: the clock hand: the slot to examine next */
	struct hm_stream stream[HM_STREAMS]; /* S */

	hm_spinlock_t node_lock __attribute__((aligned(64)));
	hm_atomic_t holes_filled[HM_FILLED_COUNTERS]; /* A: blocks without data that got some */
	struct hm_node *nodes; /* N */
	u64 node_bytes; /* N: of @nodes */
	bool uncounted; /* N: the cache does not count @node_bytes any more */
	struct hm_file *next; /* FA */
	struct hm_file *prev; /* F */

	/* A: set by stores; cleared under dirty_lock */
	unsigned long dirty[HM_BITMAP_LONGS(HM_NODE_SLOTS)] __attribute__((aligned(64)));
};

/* The counter of the leaf above a page; see HM_FILLED_COUNTERS. */
static inline hm_atomic_t *hm_file_holes_filled(struct hm_file *file, u64 pgoff)
{
	return &file->holes_filled[(pgoff >> (HM_BLOCK_ORDER + HM_NODE_ORDER)) %
				   HM_FILLED_COUNTERS];
}

/* The pointer to a directory of a file. NULL: the root is missing. */
static inline struct hm_dir **hm_file_dir(struct hm_file *file, u32 slot)
{
	struct hm_root *root;

	if (!slot)
		return &file->first_dir;
	root = hm_ptr_read(&file->root);
	return root ? &root->dir[slot] : NULL;
}

/* The position of a unit in the index. */
struct hm_pos {
	struct hm_file *file;
	struct hm_dir *dir; /* NULL: the leaf is the head */
	struct hm_leaf *leaf;
	struct hm_base *base; /* NULL: the word is the block's */
	hm_atomic_t *word;
	enum hm_node_kind missing; /* the missing node, if hm_index_find() returned false */
	u64 pgoff; /* first page of the unit */
	u32 root_slot, dir_slot, leaf_slot, base_slot;
};

/* The block of a position, and its node of base pages; NULL = it has none. */
static inline struct hm_block *hm_pos_block(const struct hm_pos *pos)
{
	return &pos->leaf->block[pos->leaf_slot];
}

static inline struct hm_base *hm_pos_base_node(const struct hm_pos *pos)
{
	return hm_ptr_read(&hm_pos_block(pos)->base);
}

/*
 * The word of a base page. @base: the node of its block. NULL: the page is in the rest of the first
 * block, which is missing.
 */
static inline hm_atomic_t *hm_base_word(struct hm_base *base, u64 pgoff)
{
	struct hm_rest *rest;

	/* One comparison excludes the first pages and all other blocks. */
	if (pgoff - HM_FIRST_PAGES >= HM_BLOCK_PAGES - HM_FIRST_PAGES)
		return &base->word[pgoff & (HM_BLOCK_PAGES - 1)];
	rest = hm_ptr_read(&base->rest);
	return rest ? &rest->word[pgoff - HM_FIRST_PAGES] : NULL;
}

/* The number of words that the block from page @start on has; they are those of its first pages. */
static inline u32 hm_base_words(const struct hm_base *base, u64 start)
{
	return start || hm_ptr_read(&base->rest) ? HM_BLOCK_PAGES : HM_FIRST_PAGES;
}

/* The base pages of a file. */
static inline u64 hm_file_npages(const struct hm_file *file)
{
	return (hm_atomic_read(&file->size) + HM_PAGE_SIZE - 1) >> HM_PAGE_SHIFT;
}

static inline u64 hm_block_of(u64 pgoff)
{
	return pgoff >> HM_BLOCK_ORDER;
}

static inline u64 hm_block_start(u64 pgoff)
{
	return pgoff & ~(u64)(HM_BLOCK_PAGES - 1);
}

static inline enum hm_kind hm_pos_kind(const struct hm_pos *pos)
{
	return pos->base ? HM_BASE : HM_HUGE;
}

static inline u32 hm_pos_pages(const struct hm_pos *pos)
{
	return pos->base ? 1 : HM_BLOCK_PAGES;
}

static inline u32 hm_kind_pages(enum hm_kind kind)
{
	return kind == HM_BASE ? 1 : HM_BLOCK_PAGES;
}

/* The kind of a frame: hm_frame_is_base() as an inline function. */
static inline enum hm_kind hm_frame_kind(const struct hm_cache *cache, u32 frame)
{
	return frame >= cache->nframes ? HM_BASE : HM_HUGE;
}

/* The shard whose queues hold a unit. */
static inline struct hm_shard *hm_shard_of(struct hm_cache *cache, const struct hm_file *file,
					   u64 pgoff)
{
	u64 group = pgoff >> (HM_BLOCK_ORDER + HM_GROUP_ORDER);

	return &cache->shards[(group + file->id) % cache->nshards];
}

static inline struct hm_shard *hm_local_shard(struct hm_cache *cache)
{
	return &cache->shards[hm_cpu() % cache->nshards];
}

static inline void hm_count(struct hm_cache *cache, enum hm_counter counter, s64 delta)
{
	hm_atomic_count(&hm_local_shard(cache)->count[counter], delta);
}

static inline struct hm_desc *hm_desc_of(struct hm_cache *cache, u32 frame)
{
	return &cache->desc[frame];
}

static inline u32 hm_list_count(const struct hm_list *list)
{
	return (u32)hm_atomic_read(&list->count);
}

static inline void hm_unit_set(struct hm_unit *unit, const struct hm_pos *pos, u32 frame)
{
	unit->file = pos->file;
	unit->pgoff = pos->pgoff;
	unit->npages = hm_pos_pages(pos);
	unit->frame = frame;
}

#endif /* HM_STATE_H */
