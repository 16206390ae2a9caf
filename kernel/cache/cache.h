/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The cache as a whole: its settings, its memory, its clock, its counters and its frames.
 *
 * The cache decides which units are cached, in which frame, clean or dirty; what to read
 * ahead, what to evict, and what to write in which order. It does no I/O, does not wait,
 * touches no page table and allocates nothing. The engine calls it, carries out its answers
 * and reports the results. Any thread may call any function at any time unless a comment
 * says otherwise.
 *
 *	types.h		the words
 *	cache.h		settings, memory, counters, frames
 *	file.h		files and their index nodes
 *	fault.h		from absent to cached, from clean to dirty
 *	readahead.h	streams
 *	reclaim.h	eviction and invalidation
 *	writeback.h	from dirty to clean
 *	promotion.h	base pages become a huge unit
 */
#ifndef HM_CACHE_H
#define HM_CACHE_H

#include "types.h"

/**
 * struct hm_options - the settings of a cache
 * @pool_frames: size of the pool in huge frames; no default; at least 4
 * @cpus: how many shards the free lists and queues have; default 1
 * @dirty_ratio: write-back starts by itself when more than this share of the pool is dirty;
 *	percent; default 75
 * @dirty_expire_ms: a file that has been dirty for this long is written back even below
 *	@dirty_ratio; milliseconds; default 5000; 0 = never
 * @evict_batch: how many units are evicted at a time; default 16
 * @free_target: huge frames that reclaim keeps free; default @evict_batch; at most a quarter
 *	of the pool
 * @probation_ratio: share of the clean units of a shard that new units may take before
 *	older, proven ones are evicted; percent; default 10
 * @inactive_ratio: share of the clean units of a shard that stays unmapped but cached, so
 *	that an access can still save them; percent; default 12
 * @readahead_kb: the largest read-ahead window of a stream of huge units; KiB; default
 *	32768; 0 = no read-ahead
 * @readahead_base_kb: the same for base pages; KiB; default 2048
 * @stream_min: sequential faults that make a stream; default 3
 * @promote_util: (HM_SIZE_AUTO) a block is promoted when this share of it is cached in base
 *	pages; percent; default 90; 0 = never
 * @promote_interval_ms: how long after a failed promotion the first retry is; milliseconds;
 *	default 1000
 *
 * A field of 0 means its default, except where 0 has a meaning of its own: those fields get
 * their defaults from hm_options_init().
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

void hm_options_init(struct hm_options *opts);

/**
 * hm_options_check() - check settings, and give fields of 0 their defaults
 * @opts: the settings
 *
 * Return: NULL if they are valid, else a sentence that names the wrong one.
 */
const char *hm_options_check(struct hm_options *opts);

/* Bytes of zeroed memory that hm_cache_init() needs; @opts must be checked. */
size_t hm_cache_bytes(const struct hm_options *opts);

/**
 * hm_cache_init() - make a cache
 * @mem: hm_cache_bytes() of zeroed memory, aligned to 64; the caller's, who may free it when
 *	all files are destroyed
 * @opts: checked settings; copied
 */
struct hm_cache *hm_cache_init(void *mem, const struct hm_options *opts);

/* Change the settings of a cache in use, except .pool_frames and .cpus. @opts is checked. */
void hm_cache_set_options(struct hm_cache *cache, const struct hm_options *opts);
const struct hm_options *hm_cache_options(const struct hm_cache *cache);

/* Set the clock of the cache, in milliseconds; it never goes back. */
void hm_cache_tick(struct hm_cache *cache, u64 now_ms);

/* --- counters -------------------------------------------------------------------------- */

/* Counters of a cache: hm_cache_count(). Each only grows. */
enum hm_counter {
	HM_C_FAULTS, /* faults without .ahead that were answered HIT, FILL or ZERO */
	HM_C_HITS,
	HM_C_FILLS, /* faults that read a unit, a block or a base page */
	HM_C_ZERO_FILLS, /* faults that zeroed a unit instead of reading it */
	HM_C_AHEAD, /* units brought in by read-ahead */
	HM_C_AHEAD_USED, /* of these, units that were accessed */
	HM_C_AHEAD_WASTED, /* of these, units that were evicted before an access */
	HM_C_DIRTIED, /* clean units that became dirty */
	HM_C_DEACTIVATED, /* units that became inactive */
	HM_C_REACTIVATED, /* units accessed while inactive */
	HM_C_EVICTED,
	HM_C_GHOSTS, /* units read again soon after their eviction */
	HM_C_WRITTEN, /* base pages written back */
	HM_C_WRITE_ERRORS, /* runs whose write failed */
	HM_C_READ_ERRORS,
	HM_C_SPLITS, /* blocks split into base pages */
	HM_C_JOINS, /* blocks joined when no base page of them was cached */
	HM_C_FRAMES_SPLIT, /* huge frames split into base frames */
	HM_C_FRAMES_MERGED, /* and merged again */
	HM_C_PROMOTED,
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

u64 hm_cache_count(struct hm_cache *cache, enum hm_counter counter);
u64 hm_cache_dirty_pages(const struct hm_cache *cache);
bool hm_cache_dirty_above_limit(const struct hm_cache *cache); /* see dirty_ratio */
u64 hm_cache_free_pages(struct hm_cache *cache);
u64 hm_cache_huge_pages(struct hm_cache *cache); /* base pages of used huge frames */

/* --- frames ---------------------------------------------------------------------------- */

/* Offset of a frame in the memory of the pool; bytes. Base frames lie in huge ones. */
u64 hm_frame_offset(const struct hm_cache *cache, u32 frame);

/* Numbers of base frames start at opts.pool_frames. */
bool hm_frame_is_base(const struct hm_cache *cache, u32 frame);

/**
 * hm_frame_offline() - take a free huge frame out of the pool, which shrinks by it
 * @cache: the cache
 *
 * Return: the frame, whose memory the engine may free; HM_NO_FRAME_ID if none is free now.
 */
u32 hm_frame_offline(struct hm_cache *cache);

/*
 * The engine has memory for an offline frame. @base_backed: it is base pages, so that the
 * pool splits this frame before others.
 */
void hm_frame_online(struct hm_cache *cache, u32 frame, bool base_backed);

#endif /* HM_CACHE_H */
