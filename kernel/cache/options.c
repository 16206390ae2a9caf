// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Settings: defaults and limits. */
#include "options.h"

#define DEFAULT_DIRTY_RATIO 75u
#define DEFAULT_DIRTY_EXPIRE_MS 5000u
#define DEFAULT_EVICT_BATCH 16u
#define DEFAULT_PROBATION_RATIO 10u
#define DEFAULT_INACTIVE_RATIO 12u
#define DEFAULT_READAHEAD_KB 32768u
#define DEFAULT_READAHEAD_BASE_KB 2048u
#define DEFAULT_STREAM_MIN 3u
#define DEFAULT_PROMOTE_UTIL 90u
#define DEFAULT_PROMOTE_INTERVAL_MS 1000u

#define MIN_POOL_FRAMES 4u
#define MAX_POOL_FRAMES (1u << 22) /* 8 TB: base frame numbers fit 32 bits */
#define MAX_EVICT_BATCH 256u

void hm_options_init(struct hm_options *opts)
{
	*opts = (struct hm_options){
		.cpus = 1,
		.dirty_ratio = DEFAULT_DIRTY_RATIO,
		.dirty_expire_ms = DEFAULT_DIRTY_EXPIRE_MS,
		.evict_batch = DEFAULT_EVICT_BATCH,
		.probation_ratio = DEFAULT_PROBATION_RATIO,
		.inactive_ratio = DEFAULT_INACTIVE_RATIO,
		.readahead_kb = DEFAULT_READAHEAD_KB,
		.readahead_base_kb = DEFAULT_READAHEAD_BASE_KB,
		.stream_min = DEFAULT_STREAM_MIN,
		.promote_util = DEFAULT_PROMOTE_UTIL,
		.promote_interval_ms = DEFAULT_PROMOTE_INTERVAL_MS,
	};
}

static u32 hm_options_or_default(u32 value, u32 default_value)
{
	return value ? value : default_value;
}

const char *hm_options_check(struct hm_options *opts)
{
	opts->cpus = hm_options_or_default(opts->cpus, 1);
	opts->dirty_ratio = hm_options_or_default(opts->dirty_ratio, DEFAULT_DIRTY_RATIO);
	opts->evict_batch = hm_options_or_default(opts->evict_batch, DEFAULT_EVICT_BATCH);
	opts->probation_ratio =
		hm_options_or_default(opts->probation_ratio, DEFAULT_PROBATION_RATIO);
	opts->inactive_ratio = hm_options_or_default(opts->inactive_ratio, DEFAULT_INACTIVE_RATIO);
	opts->stream_min = hm_options_or_default(opts->stream_min, DEFAULT_STREAM_MIN);
	opts->promote_interval_ms =
		hm_options_or_default(opts->promote_interval_ms, DEFAULT_PROMOTE_INTERVAL_MS);
	if (opts->pool_frames < MIN_POOL_FRAMES)
		return "the pool must have at least 4 huge frames (8 MB)";
	if (opts->pool_frames > MAX_POOL_FRAMES)
		return "the pool must not be larger than 8 TB";
	if (opts->dirty_ratio > 95)
		return "dirty_ratio must be between 1 and 95 percent";
	if (opts->probation_ratio > 90 || opts->inactive_ratio > 90)
		return "probation_ratio and inactive_ratio must be between 1 and 90 percent";
	if (opts->promote_util > 100)
		return "promote_util must be between 0 and 100 percent";
	if (opts->evict_batch > MAX_EVICT_BATCH)
		return "evict_batch must be between 1 and 256";
	if (opts->cpus > opts->pool_frames)
		opts->cpus = opts->pool_frames;
	opts->free_target = hm_options_or_default(opts->free_target, opts->evict_batch);
	if (opts->free_target > opts->pool_frames / 4)
		opts->free_target = opts->pool_frames / 4;
	return NULL;
}
