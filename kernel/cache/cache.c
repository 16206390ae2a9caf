// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* The cache as a whole: its memory, its clock and its counters. */
#include "cache.h"
#include "pool.h"
#include "queue.h"
#include "state.h"

/*
 * A CPU compares the number of dirty pages with the limit once in 4 * cpus pages that it dirties.
 * The check reads 2 * cpus counters, half a counter per dirtied page. In a small pool the CPU
 * checks more often: between two checks all CPUs together dirty at most 1/32 of the pool.
 */
static u32 hm_cache_dirty_step(const struct hm_options *opts)
{
	u64 step = (u64)opts->pool_frames * HM_BLOCK_PAGES / 32 / opts->cpus;

	if (step > 4 * opts->cpus)
		step = 4 * opts->cpus;
	return step ? (u32)step : 1;
}

/*
 * The index nodes may take 1/64 of the pool, or enough for a few blocks, whichever is more. Base
 * pages far from each other take a node each, so without a limit random accesses to a file of
 * terabytes would fill more memory with nodes than with pages.
 */
#define HM_INDEX_SHARE 64u
#define HM_INDEX_BLOCKS_MIN 64u

static u64 hm_cache_index_limit(const struct hm_options *opts)
{
	u64 share = (u64)opts->pool_frames * HM_BLOCK_SIZE / HM_INDEX_SHARE;
	u64 min = HM_INDEX_BLOCKS_MIN * sizeof(struct hm_base);

	return share > min ? share : min;
}

static u32 hm_cache_ghost_count(const struct hm_options *opts)
{
	u64 pages = (u64)opts->pool_frames * HM_BLOCK_PAGES;
	u32 n = 1024;

	while (n < pages && n < (1u << 24))
		n *= 2;
	return n;
}

/* Offsets of the arrays in the memory of the cache, each aligned to 64. */
struct hm_cache_layout {
	size_t shards, desc, container, dirty_map, ghosts, end;
};

static size_t hm_cache_align64(size_t size)
{
	return (size + 63) & ~(size_t)63;
}

static struct hm_cache_layout hm_cache_lay_out(const struct hm_options *opts)
{
	size_t frames = opts->pool_frames;
	struct hm_cache_layout at;

	at.shards = hm_cache_align64(sizeof(struct hm_cache));
	at.desc = at.shards + hm_cache_align64(sizeof(struct hm_shard) * opts->cpus);
	at.container =
		at.desc + hm_cache_align64(sizeof(struct hm_desc) * frames * (HM_BLOCK_PAGES + 1));
	at.dirty_map = at.container + hm_cache_align64(sizeof(struct hm_container) * frames);
	at.ghosts = at.dirty_map + hm_cache_align64(sizeof(struct hm_dirty_map) * frames);
	at.end = at.ghosts + hm_cache_align64(sizeof(hm_atomic_t) * hm_cache_ghost_count(opts));
	return at;
}

size_t hm_cache_bytes(const struct hm_options *opts)
{
	return hm_cache_lay_out(opts).end;
}

struct hm_cache *hm_cache_init(void *mem, const struct hm_options *opts)
{
	struct hm_cache *cache = mem;
	struct hm_cache_layout at = hm_cache_lay_out(opts);
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
	cache->nghosts = hm_cache_ghost_count(opts);
	cache->dirty_step = hm_cache_dirty_step(opts);
	cache->index_limit = hm_cache_index_limit(opts);
	hm_atomic_set(&cache->clock, 1);
	hm_spin_init(&cache->files_lock);
	hm_spin_init(&cache->promote_lock);
	hm_spin_init(&cache->empty_lock);
	for (i = 0; i < cache->nshards; i++) {
		struct hm_shard *shard = &cache->shards[i];

		hm_spin_init(&shard->queue_lock);
		for (kind = 0; kind < HM_KINDS; kind++) {
			for (q = 0; q < HM_QUEUES; q++) {
				shard->list[kind][q].head = HM_NO_FRAME_ID;
				shard->list[kind][q].tail = HM_NO_FRAME_ID;
			}
			for (q = 0; q < HM_AGED_QUEUES; q++)
				hm_atomic_set(&shard->oldest[kind][q], HM_NO_OLDEST);
		}
	}
	hm_pool_init(cache);
	return cache;
}

void hm_cache_set_options(struct hm_cache *cache, const struct hm_options *opts)
{
	struct hm_options now = *opts;

	/*
	 * The assignment below rewrites all fields while other CPUs read them. So it must write the
	 * same values to the fields that never change.
	 */
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

u64 hm_cache_index_bytes(const struct hm_cache *cache)
{
	u64 sum = 0;
	u32 i;

	for (i = 0; i < cache->nshards; i++)
		sum += hm_atomic_read(&cache->shards[i].index_bytes);
	return sum;
}

u64 hm_cache_index_excess(const struct hm_cache *cache)
{
	u64 bytes = hm_cache_index_bytes(cache);

	return bytes > cache->index_limit ? bytes - cache->index_limit : 0;
}

u64 hm_cache_huge_pages(struct hm_cache *cache)
{
	u64 split = hm_cache_count(cache, HM_C_FRAMES_SPLIT) -
		    hm_cache_count(cache, HM_C_FRAMES_MERGED);
	u64 others = split + hm_pool_free(cache, HM_HUGE) + hm_atomic_read(&cache->offline);

	/* The counters change while they are added up, so the sum may be too large. */
	return others < cache->nframes ? (cache->nframes - others) * HM_BLOCK_PAGES : 0;
}

const struct hm_options *hm_cache_options(const struct hm_cache *cache)
{
	return &cache->opts;
}
