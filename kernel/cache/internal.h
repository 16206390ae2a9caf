/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What the files of the core share. Engines see cache.h only.
 *
 * Lock order (all are spinlocks; at most one of each at a time):
 *   cache->files_lock      the table of stores; nothing taken inside
 *   store->node_lock        nodes that are added, blocks that are joined; nothing taken inside
 *   store->stream_lock      read-ahead streams; nothing taken inside
 *   cache->promote_lock     candidates for promotion; nothing taken inside
 *   store->dirty_lock       clearing of dirty bits, the ordered walk
 *     shard->queue_lock     the queues, and desc->word of queued frames
 *   shard->pool_lock        free lists; nothing taken inside
 * Lookups, faults on cached units and marking a unit dirty take no lock; but of a huge unit, of
 * which it is said what is stored to, a first store at its start, and some in a row, may take
 * stream_lock, and a fault where programs have asked for blocks promote_lock.
 */
#ifndef HM_INTERNAL_H
#define HM_INTERNAL_H

#include "cache.h"
#include "fault.h"
#include "file.h"
#include "promotion.h"
#include "readahead.h"
#include "reclaim.h"
#include "word.h"
#include "writeback.h"

/* Concurrent streams that one file tells apart. */
#define HM_STREAMS 16u

/*
 * Queues of a shard. A unit that is not clean may linger in one: whoever finds
 * it at the tail takes it out, and hm_writeback_done() puts it back.
 */
enum hm_queue {
	HM_Q_NONE,
	HM_Q_PROBATION, /* new units */
	HM_Q_MAIN, /* units that proved to be used again */
	HM_Q_HIGH, /* units of high priority: only when nothing else is left */
	HM_Q_INACTIVE, /* unmapped, first to leave */
	HM_Q_USE_ONCE, /* of a stream that does not stay, and leaves even before */
	HM_QUEUES,
};

/*
 * What a victim search looks at before it gives up, so that a queue full of
 * dirty units costs a bounded time.
 */
#define HM_SCAN_MAX 512u

/*
 * Blocks next to each other share a shard in groups of this many, so that a
 * batch of victims is made of contiguous runs.
 */
#define HM_GROUP_ORDER 4

/*
 * One frame, huge or base. Owned by the unit whose word names the frame. While
 * it is queued, everything here is stable under the queue_lock of its shard.
 */
struct hm_desc {
	hm_atomic_t *word; /* NULL when free; cleared under queue_lock */
	struct hm_file *file;
	u64 pgoff;
	hm_atomic_t where; /* shard << 8 | enum hm_queue; HM_Q_NONE: in none */
	u32 next, prev; /* in the queue or the free list */
	u32 stamp; /* cache->clock when it was queued */
	u8 priority; /* enum hm_priority */
	bool use_once; /* hm_access.use_once */
};

/* A huge frame seen as a container of base frames. */
struct hm_container {
	unsigned long free[HM_BITMAP_LONGS(HM_BLOCK_PAGES)];
	u32 nfree;
	u32 low; /* of free, nothing is set before this long */
	u32 next, prev; /* shard->partial */
	bool split;
	bool isolated; /* hands out no base frames: it is wanted as a whole */
	bool base_backed; /* its memory is base pages, as far as is known: better carved than not */
};

/*
 * What is dirty of the unit in a huge frame, where its word says HM_W_PARTIAL_DIRTY; see dirty_map.c. Changed
 * with the lock of hm_access.npages, or by who writes the unit.
 */
struct hm_dirty_map {
	unsigned long changed[HM_BITMAP_LONGS(HM_BLOCK_PAGES)]; /* since the last take */
	unsigned long writing[HM_BITMAP_LONGS(HM_BLOCK_PAGES)]; /* what that take was given */
	bool pinned; /* at the last write-back, somebody held it */
	u8 whole; /* times that it will be dirty as a whole, as it came to that before */
};

/* Faults that a CPU remembers, so that the next one in sequence is seen. */
#define HM_NOTES 16u

struct hm_list {
	u32 head, tail;
	hm_atomic_t count; /* changed under queue_lock, read without it too */
};

struct hm_shard {
	hm_spinlock_t pool_lock;
	hm_atomic_t free[HM_KINDS]; /* free lists of huge frames, by what their memory is made of */
	u32 partial; /* carved frames with free base frames */
	hm_atomic_t nfree[HM_KINDS];

	hm_spinlock_t queue_lock __attribute__((aligned(64)));
	struct hm_list list[HM_KINDS][HM_QUEUES];

	hm_atomic_t note[HM_NOTES] __attribute__((aligned(64))); /* see readahead.c */
	hm_atomic_t tags[HM_NOTES / 8]; /* a byte of each */

	hm_atomic_t count[HM_COUNTERS] __attribute__((aligned(64)));
	hm_atomic_t note_hand; /* the note to overwrite next */
	hm_atomic_t gone_pages; /* evicted by this CPU */
	hm_atomic_t dirtied, cleaned; /* pages, by this CPU: see hm_cache_dirty_pages() */
} __attribute__((aligned(64)));

/* Blocks that wait to be promoted; more than these are found again by later faults. */
#define HM_CANDIDATES 256u

struct hm_candidate {
	struct hm_file *file;
	u64 pgoff;
	u64 after; /* cache->clock */
	u32 tries; /* that were refused */
	bool stream; /* one goes through it: what will be touched counts */
};

/*
 * What every fault reads has cache lines of its own: what faults, write-back and
 * eviction write would take them away from all other CPUs.
 */
struct hm_cache {
	struct hm_options opts;
	u32 nframes;
	u32 nshards;
	u32 reserve; /* huge frames that read-ahead leaves alone */
	u32 nghosts; /* a power of two */
	u32 dirty_step; /* pages that a CPU makes dirty between two looks at the limit */
	struct hm_shard *shards;
	struct hm_desc *desc; /* nframes huge ones, then the base ones */
	struct hm_container *container;
	struct hm_dirty_map *dirty_map; /* of each huge frame */
	hm_atomic_t *ghosts;
	hm_atomic_t offline; /* huge frames that have no memory */
	hm_atomic_t clock; /* milliseconds */
	hm_atomic_t ghost_clock; /* blocks of pages evicted; see queue.c */

	hm_atomic_t evict_cursor __attribute__((aligned(64)));
	hm_atomic_t isolated; /* a huge frame, if it is carved, that becomes empty */

	hm_spinlock_t files_lock __attribute__((aligned(64)));
	hm_atomic_t files_end; /* one past the last one used */
	u32 files_free; /* none below this is free; under files_lock */

	hm_spinlock_t promote_lock __attribute__((aligned(64)));
	u32 ncandidates;
	struct hm_candidate candidate[HM_CANDIDATES];

	struct hm_file *files[HM_FILES_MAX];
};

/* --- the index -------------------------------------------------------------- */

/*
 * Three levels of nodes over the blocks, and one of base pages under a block
 * that is split. Nodes are only ever added while the store is open, so lookups
 * need no protection. The dirty bitmap of each node summarises what is below:
 * an ordered walk over everything dirty comes for free.
 */
struct hm_node {
	struct hm_node *next; /* all nodes of the store */
};

struct hm_base {
	struct hm_node node;
	hm_atomic_t resident; /* no fewer than the words that are not absent (or frozen) */
	unsigned long dirty[HM_BITMAP_LONGS(HM_BLOCK_PAGES)];
	unsigned long zero_fill[HM_BITMAP_LONGS(HM_BLOCK_PAGES)];
	unsigned long needs_alloc[HM_BITMAP_LONGS(HM_BLOCK_PAGES)];
	hm_atomic_t word[HM_BLOCK_PAGES];
};

struct hm_leaf {
	struct hm_node node;
	unsigned long dirty[HM_BITMAP_LONGS(HM_NODE_SLOTS)];
	unsigned long zero_fill[HM_BITMAP_LONGS(HM_NODE_SLOTS)]; /* all of it is a hole */
	unsigned long needs_alloc[HM_BITMAP_LONGS(HM_NODE_SLOTS)]; /* some of it may be one */
	/* blocks that could not be read as a whole: base pages only */
	unsigned long read_failed[HM_BITMAP_LONGS(HM_NODE_SLOTS)];
	/* blocks that are candidates for promotion, or picked; that are being promoted */
	unsigned long queued[HM_BITMAP_LONGS(HM_NODE_SLOTS)];
	unsigned long promoting[HM_BITMAP_LONGS(HM_NODE_SLOTS)];
	/* blocks of which a program wants base pages; that it wants as a whole */
	unsigned long no_promote[HM_BITMAP_LONGS(HM_NODE_SLOTS)];
	unsigned long force_promote[HM_BITMAP_LONGS(HM_NODE_SLOTS)];
	hm_atomic_t word[HM_NODE_SLOTS];
	struct hm_base *base[HM_NODE_SLOTS];
};

struct hm_dir {
	struct hm_node node;
	unsigned long dirty[HM_BITMAP_LONGS(HM_NODE_SLOTS)];
	struct hm_leaf *leaf[HM_NODE_SLOTS];
};

/* One sequential reader or writer; see readahead.c. */
struct hm_stream {
	u64 next; /* the page it is expected to touch next */
	u64 ahead; /* everything below this has been asked for */
	u64 first; /* where it began */
	u64 behind; /* everything below this has been written behind */
	u32 window; /* base pages */
	u32 seen; /* faults in sequence */
	u32 step; /* base pages of its units, 1 if they are chosen; 0 = slot is free */
	u32 lives; /* how often the hand passes it before it is over */
	bool write;
};

/*
 * The dirty pages of every so many-th block: what is stored to at many places is counted at
 * many, each page always at the same. See hm_file_dirty_pages().
 */
#define HM_DIRTY_COUNTERS 16u

struct hm_dirty_counter {
	hm_atomic_t pages;
} __attribute__((aligned(64)));

/* Here, too, what every fault reads comes first. */
struct hm_file {
	struct hm_cache *cache;
	u32 id;
	hm_atomic_t size; /* bytes */
	hm_atomic_t needs_alloc; /* 1: there are, or were, bits in a node's holes */

	struct hm_dirty_counter dirty_counter[HM_DIRTY_COUNTERS];
	/* All stores read it, hardly one writes it: not where all of them count. */
	hm_atomic_t dirty_since __attribute__((aligned(64))); /* cache->clock, 0 = nothing dirty */

	hm_spinlock_t dirty_lock __attribute__((aligned(64)));

	/* Of streams, and which of these are not 0; see readahead.c. */
	hm_atomic_t spans __attribute__((aligned(64)));
	hm_atomic_t span[HM_STREAMS];
	hm_spinlock_t stream_lock __attribute__((aligned(64)));
	u32 stream_hand; /* the slot to take next */
	struct hm_stream stream[HM_STREAMS];

	hm_spinlock_t node_lock __attribute__((aligned(64)));
	struct hm_node *nodes;

	unsigned long dirty[HM_BITMAP_LONGS(HM_NODE_SLOTS)] __attribute__((aligned(64)));

	struct hm_dir *dir[HM_NODE_SLOTS] __attribute__((aligned(64)));
};

/* Where a unit is in the index. */
struct hm_pos {
	struct hm_file *file;
	struct hm_dir *dir;
	struct hm_leaf *leaf;
	struct hm_base *base; /* NULL: the word is the block's */
	hm_atomic_t *word;
	enum hm_node_kind missing; /* when hm_index_find() returned false */
	u64 pgoff; /* first page of the unit */
	u32 root_slot, dir_slot, leaf_slot, base_slot;
};

/* index.c */
bool hm_index_find(struct hm_file *file, u64 pgoff, struct hm_pos *pos);
u64 hm_index_next(const struct hm_pos *pos, u64 pgoff);
u64 hm_index_word(struct hm_pos *pos, u64 pgoff);
bool hm_index_split(struct hm_pos *pos, u64 word);
bool hm_index_join(struct hm_pos *pos);
void hm_index_whole(const struct hm_pos *pos, struct hm_base *base, u64 now);
bool hm_index_is_zero_fill(const struct hm_pos *pos);
void hm_index_set_data(const struct hm_pos *pos, bool all);
u64 hm_file_npages(const struct hm_file *file);

/* pool.c */
void hm_pool_init(struct hm_cache *cache);
u32 hm_pool_take(struct hm_cache *cache, enum hm_kind kind, bool ahead);
void hm_pool_give(struct hm_cache *cache, u32 frame);
u64 hm_pool_free(struct hm_cache *cache, enum hm_kind kind);
u64 hm_pool_frames(const struct hm_cache *cache);
u64 hm_pool_free_target(const struct hm_cache *cache);
bool hm_pool_low(struct hm_cache *cache, enum hm_kind kind);
u32 hm_pool_base_frame(const struct hm_cache *cache, u32 huge, u32 slot);
u32 hm_pool_container(const struct hm_cache *cache, u32 frame);
void hm_pool_unisolate(struct hm_cache *cache, u32 frame);
u64 hm_pool_dirty_limit(const struct hm_cache *cache);
bool hm_pool_is_split(struct hm_cache *cache, u32 huge, bool isolated);
void hm_pool_isolate(struct hm_cache *cache, u32 huge);

/* queue.c */
void hm_queue_insert(const struct hm_pos *pos, u32 frame, bool proven);
void hm_queue_forget(const struct hm_pos *pos, u32 frame);
void hm_queue_push(struct hm_cache *cache, struct hm_shard *shard, u32 frame, enum hm_queue queue,
		   bool at_tail);
void hm_queue_unlink(struct hm_cache *cache, struct hm_shard *shard, u32 frame);
bool hm_ghost_take(const struct hm_pos *pos);
void hm_ghost_add(const struct hm_pos *pos);

/* dirty.c */
void hm_dirty_ensure(const struct hm_pos *pos);
void hm_dirty_clear(const struct hm_pos *pos);
bool hm_dirty_add(const struct hm_pos *pos);
void hm_dirty_sub(const struct hm_pos *pos);
bool hm_dirty_next(struct hm_file *file, u64 from, u64 end, u64 *pgoff);

/* readahead.c */
void hm_stream_stores(struct hm_file *file, u64 pgoff);
void hm_stream_promoted(struct hm_file *file, u64 pgoff, bool done);
bool hm_stream_goes_on(struct hm_file *file, u64 pgoff, bool files);
bool hm_stream_is_use_once(struct hm_file *file);

/* dirty_map.c */
u64 hm_dirty_map_store(const struct hm_pos *pos, u64 word, u64 pgoff, struct hm_access access);
void hm_dirty_map_claimed(const struct hm_pos *pos, u32 frame);
u32 hm_dirty_map_written(const struct hm_pos *pos, u32 frame);
bool hm_dirty_map_failed(const struct hm_pos *pos, u32 frame);
bool hm_dirty_map_promoted(const struct hm_promotion *p);
void hm_dirty_map_reset(struct hm_cache *cache, u32 frame);

/* promote.c */
bool hm_promote_queue(const struct hm_pos *pos, struct hm_access access);
void hm_promote_note(const struct hm_pos *pos, bool keep);
void hm_promote_forget(struct hm_file *file);

/* evict.c */
bool hm_unit_gone(const struct hm_pos *pos, u32 frame);

/* --- small helpers ------------------------------------------------------------ */

static inline bool hm_bit_test(const unsigned long *map, u32 nr)
{
	return hm_bits_read(map, nr / HM_BITS_PER_LONG) >> (nr % HM_BITS_PER_LONG) & 1;
}

/* How many bits are set, by adding up neighbours: no port need know an instruction for it. */
static inline u32 hm_weight(u64 bits)
{
	bits -= bits >> 1 & 0x5555555555555555ull;
	bits = (bits & 0x3333333333333333ull) + (bits >> 2 & 0x3333333333333333ull);
	bits = (bits + (bits >> 4)) & 0x0f0f0f0f0f0f0f0full;
	return (u32)(bits * 0x0101010101010101ull >> 56);
}

/* How many of the base pages of a block have the bit? */
static inline u32 hm_bits_count(const unsigned long *map)
{
	u32 i, n = 0;

	for (i = 0; i < HM_BITMAP_LONGS(HM_BLOCK_PAGES); i++) {
		unsigned long bits = hm_bits_read(map, i);

		/* Where tests have small blocks, what is set as a whole has more bits. */
		if (HM_BLOCK_PAGES % HM_BITS_PER_LONG)
			bits &= (1ul << HM_BLOCK_PAGES % HM_BITS_PER_LONG) - 1;
		n += hm_weight(bits);
	}
	return n;
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

/* hm_frame_is_base(), in line. */
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

static inline u64 hm_where(const struct hm_cache *cache, const struct hm_shard *shard,
			   enum hm_queue queue)
{
	return (u64)(shard - cache->shards) << 8 | queue;
}

static inline bool hm_queued(const struct hm_desc *desc)
{
	return hm_atomic_read(&desc->where) != HM_Q_NONE;
}

static inline u32 hm_list_count(const struct hm_list *list)
{
	return (u32)hm_atomic_read(&list->count);
}

/* A frame is a unit's from now on, which is being filled, or made of base pages. */
static inline void hm_queue_own(const struct hm_pos *pos, u32 frame)
{
	struct hm_desc *desc = hm_desc_of(pos->file->cache, frame);

	hm_assert(!hm_ptr_read(&desc->word) && !hm_queued(desc));
	desc->file = pos->file;
	desc->pgoff = pos->pgoff;
	hm_ptr_set(&desc->word, pos->word);
}

/*
 * A unit was made dirty by a transition of its word that the caller won. It was counted
 * before that: it may be written as soon as it is dirty, and the count is never too low.
 */
static inline void hm_dirty_mark(const struct hm_pos *pos)
{
	hm_race_point();
	hm_dirty_ensure(pos);
}

static inline void hm_unit_set(struct hm_unit *unit, const struct hm_pos *pos, u32 frame)
{
	unit->file = pos->file;
	unit->pgoff = pos->pgoff;
	unit->npages = hm_pos_pages(pos);
	unit->frame = frame;
}

#endif /* HM_INTERNAL_H */
