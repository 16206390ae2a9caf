/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The cache as a whole: its memory, its clock, its counters and its frames.
 *
 * The cache decides which units are cached, in which frame, clean or dirty; what to read
 * ahead, what to evict, and what to write in which order. It does no I/O, does not wait,
 * touches no page table and allocates nothing. The engine calls it, carries out its answers
 * and reports the results. Any thread may call any function at any time unless a comment
 * says otherwise.
 *
 *	types.h		the words
 *	options.h	settings
 *	counters.h	statistics
 *	cache.h		memory, clock, frames
 *	file.h		files and their index nodes
 *	access.h	how a page is accessed
 *	fault.h		from absent to cached, from clean to dirty
 *	readahead.h	streams
 *	reclaim.h	eviction and invalidation
 *	move.h		dirty base pages leave a split frame
 *	writeback.h	from dirty to clean
 *	promotion.h	base pages become a huge unit
 */
#ifndef HM_CACHE_H
#define HM_CACHE_H

#include "counters.h"
#include "options.h"
#include "types.h"

/* Bytes of zeroed memory that hm_cache_init() needs; @opts must be checked. */
size_t hm_cache_bytes(const struct hm_options *opts);

/**
 * hm_cache_init() - make a cache
 * @mem: hm_cache_bytes() of zeroed memory, aligned to 64. The caller owns it, and may free
 *	it when all files are destroyed
 * @opts: checked settings; copied
 */
struct hm_cache *hm_cache_init(void *mem, const struct hm_options *opts);

/* Change the settings of a cache in use, except .pool_frames and .cpus. @opts is checked. */
void hm_cache_set_options(struct hm_cache *cache, const struct hm_options *opts);
const struct hm_options *hm_cache_options(const struct hm_cache *cache);

/* Set the clock of the cache, in milliseconds; it never goes back. */
void hm_cache_tick(struct hm_cache *cache, u64 now_ms);

/* --- counters -------------------------------------------------------------------------- */

u64 hm_cache_count(struct hm_cache *cache, enum hm_counter counter);
u64 hm_cache_dirty_pages(const struct hm_cache *cache);
bool hm_cache_dirty_above_limit(const struct hm_cache *cache); /* see dirty_ratio */
u64 hm_cache_free_pages(struct hm_cache *cache);
u64 hm_cache_index_bytes(const struct hm_cache *cache); /* of the index nodes of all files */
u64 hm_cache_index_excess(const struct hm_cache *cache); /* those above a share of the pool */
u32 hm_cache_empty_count(struct hm_cache *cache); /* of places with nodes without units */
u64 hm_cache_empty_bytes(struct hm_cache *cache); /* of these places, without units now */
u64 hm_cache_huge_pages(struct hm_cache *cache); /* base pages of used huge frames */

/**
 * hm_cache_take_empty() - remove the index nodes without units at one place
 * @cache: the cache
 * @nodes: filled in, see hm_file_take_empty()
 * @n: set to their number, which may be 0
 *
 * The caller keeps the memory of each file until the call returns, also that of a file that is
 * destroyed meanwhile.
 *
 * Return: false if the list of hm_file_keep_empty() is empty.
 */
bool hm_cache_take_empty(struct hm_cache *cache, void *nodes[HM_EMPTY_NODES], u32 *n);

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
 * The engine has allocated memory for an offline frame, and the pool grows by it. @base_backed: the
 * memory is base pages, so the pool splits this frame before others.
 */
void hm_frame_online(struct hm_cache *cache, u32 frame, bool base_backed);

#endif /* HM_CACHE_H */
