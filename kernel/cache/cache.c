// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* The cache as a whole: options, memory layout, stores, statistics. */
#include "internal.h"

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

static u32 or_default(u32 value, u32 default_value)
{
	return value ? value : default_value;
}

const char *hm_options_check(struct hm_options *opts)
{
	opts->cpus = or_default(opts->cpus, 1);
	opts->dirty_ratio = or_default(opts->dirty_ratio, DEFAULT_DIRTY_RATIO);
	opts->evict_batch = or_default(opts->evict_batch, DEFAULT_EVICT_BATCH);
	opts->probation_ratio = or_default(opts->probation_ratio, DEFAULT_PROBATION_RATIO);
	opts->inactive_ratio = or_default(opts->inactive_ratio, DEFAULT_INACTIVE_RATIO);
	opts->stream_min = or_default(opts->stream_min, DEFAULT_STREAM_MIN);
	opts->promote_interval_ms =
		or_default(opts->promote_interval_ms, DEFAULT_PROMOTE_INTERVAL_MS);
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
	opts->free_target = or_default(opts->free_target, opts->evict_batch);
	if (opts->free_target > opts->pool_frames / 4)
		opts->free_target = opts->pool_frames / 4;
	return NULL;
}

/* All CPUs together are no later with it than by a 32nd of the pool. */
static u32 dirty_step(const struct hm_options *opts)
{
	u64 most = (u64)opts->pool_frames * HM_BLOCK_PAGES / 32 / opts->cpus;

	if (most > 4 * opts->cpus)
		most = 4 * opts->cpus;
	return most ? (u32)most : 1;
}

static u32 ghost_count(const struct hm_options *opts)
{
	u64 pages = (u64)opts->pool_frames * HM_BLOCK_PAGES;
	u32 n = 1024;

	while (n < pages && n < (1u << 24))
		n *= 2;
	return n;
}

/* The parts of the cache's memory, one after the other, each aligned to 64. */
struct layout {
	size_t shards, desc, container, dirty_map, ghosts, end;
};

static size_t align64(size_t size)
{
	return (size + 63) & ~(size_t)63;
}

static struct layout lay_out(const struct hm_options *opts)
{
	size_t frames = opts->pool_frames;
	struct layout at;

	at.shards = align64(sizeof(struct hm_cache));
	at.desc = at.shards + align64(sizeof(struct hm_shard) * opts->cpus);
	at.container = at.desc + align64(sizeof(struct hm_desc) * frames * (HM_BLOCK_PAGES + 1));
	at.dirty_map = at.container + align64(sizeof(struct hm_container) * frames);
	at.ghosts = at.dirty_map + align64(sizeof(struct hm_dirty_map) * frames);
	at.end = at.ghosts + align64(sizeof(hm_atomic_t) * ghost_count(opts));
	return at;
}

size_t hm_cache_bytes(const struct hm_options *opts)
{
	return lay_out(opts).end;
}

struct hm_cache *hm_cache_init(void *mem, const struct hm_options *opts)
{
	struct hm_cache *cache = mem;
	struct layout at = lay_out(opts);
	char *base = mem;
	u32 i, kind, q;

	cache->opts = *opts;
	cache->nframes = opts->pool_frames;
	cache->nshards = opts->cpus;
	cache->reserve = cache->nframes / 32 < 8 ? cache->nframes / 32 : 8;
	cache->shards = (struct hm_shard *)(base + at.shards);
	cache->desc = (struct hm_desc *)(base + at.desc);
	cache->container = (struct hm_container *)(base + at.container);
	cache->dirty_map = (struct hm_dirty_map *)(base + at.dirty_map);
	cache->ghosts = (hm_atomic_t *)(base + at.ghosts);
	cache->nghosts = ghost_count(opts);
	cache->dirty_step = dirty_step(opts);
	hm_atomic_set(&cache->clock, 1);
	hm_spin_init(&cache->files_lock);
	hm_spin_init(&cache->promote_lock);
	for (i = 0; i < cache->nshards; i++) {
		struct hm_shard *shard = &cache->shards[i];

		hm_spin_init(&shard->queue_lock);
		for (kind = 0; kind < HM_KINDS; kind++) {
			for (q = 0; q < HM_QUEUES; q++) {
				shard->list[kind][q].head = HM_NO_FRAME_ID;
				shard->list[kind][q].tail = HM_NO_FRAME_ID;
			}
		}
	}
	hm_pool_init(cache);
	return cache;
}

void hm_cache_set_options(struct hm_cache *cache, const struct hm_options *opts)
{
	struct hm_options now = *opts;

	/* Each is read on its own, by others, meanwhile. */
	now.cpus = cache->opts.cpus;
	now.pool_frames = cache->opts.pool_frames;
	cache->opts = now;
}

void hm_cache_tick(struct hm_cache *cache, u64 now_ms)
{
	u64 old = hm_atomic_read(&cache->clock);

	while (now_ms > old && !hm_atomic_cas(&cache->clock, &old, now_ms))
		;
}

u64 hm_cache_count(struct hm_cache *cache, enum hm_counter counter)
{
	u64 sum = 0;
	u32 i;

	for (i = 0; i < cache->nshards; i++)
		sum += hm_atomic_read(&cache->shards[i].count[counter]);
	return sum;
}

/*
 * Never too low, whatever is counted meanwhile: a page was counted as dirty before it was
 * seen to be by whoever cleaned it. Both are full barriers. So what is subtracted, as it was
 * read first, is in what is read after that, and so is what has been dirty all the time.
 */
u64 hm_cache_dirty_pages(const struct hm_cache *cache)
{
	u64 sum = 0;
	u32 i;

	for (i = 0; i < cache->nshards; i++)
		sum -= hm_atomic_read(&cache->shards[i].cleaned);
	hm_race_point();
	for (i = 0; i < cache->nshards; i++)
		sum += hm_atomic_read(&cache->shards[i].dirtied);
	return sum;
}

const struct hm_options *hm_cache_options(const struct hm_cache *cache)
{
	return &cache->opts;
}

size_t hm_file_bytes(void)
{
	return sizeof(struct hm_file);
}

struct hm_file *hm_file_init(struct hm_cache *cache, void *mem, u64 size)
{
	struct hm_file *file = mem;
	u32 i;

	if (size > HM_FILE_BLOCKS_MAX << HM_BLOCK_SHIFT)
		return NULL;
	file->cache = cache;
	hm_atomic_set(&file->size, size);
	hm_spin_init(&file->dirty_lock);
	hm_spin_init(&file->stream_lock);
	hm_spin_init(&file->node_lock);

	hm_spin_lock(&cache->files_lock);
	for (i = cache->files_free; i < HM_FILES_MAX && hm_ptr_read(&cache->files[i]); i++)
		;
	cache->files_free = i;
	if (i < HM_FILES_MAX) {
		file->id = i;
		hm_ptr_set(&cache->files[i], file);
		if (i >= hm_atomic_read(&cache->files_end))
			hm_atomic_set(&cache->files_end, i + 1);
	}
	hm_spin_unlock(&cache->files_lock);
	return i < HM_FILES_MAX ? file : NULL;
}

void hm_file_destroy(struct hm_file *file)
{
	struct hm_cache *cache = file->cache;

	hm_assert(hm_file_dirty_pages(file) == 0);
	hm_promote_forget(file);
	hm_spin_lock(&cache->files_lock);
	hm_assert(hm_ptr_read(&cache->files[file->id]) == file);
	hm_ptr_set(&cache->files[file->id], NULL);
	if (file->id < cache->files_free)
		cache->files_free = file->id;
	hm_spin_unlock(&cache->files_lock);
}

bool hm_file_set_size(struct hm_file *file, u64 size)
{
	if (size > HM_FILE_BLOCKS_MAX << HM_BLOCK_SHIFT)
		return false;
	hm_atomic_set(&file->size, size);
	return true;
}

u64 hm_file_size(const struct hm_file *file)
{
	return hm_atomic_read(&file->size);
}

/*
 * 0 says that nothing was dirty all the time that this took: such a page would have been in its
 * part whenever that was read. (Parts by CPU could add up to 0 beside a page that one CPU
 * makes dirty after its part was read, and another one cleans before its part is.)
 */
u64 hm_file_dirty_pages(const struct hm_file *file)
{
	u64 sum = 0;
	u32 i;

	for (i = 0; i < HM_DIRTY_COUNTERS; i++)
		sum += hm_atomic_read(&file->dirty_counter[i].pages);
	return sum;
}
