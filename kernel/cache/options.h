/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The settings of a cache. */
#ifndef HM_OPTIONS_H
#define HM_OPTIONS_H

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

#endif /* HM_OPTIONS_H */
