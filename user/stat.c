// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Statistics: collected for hugemap_stat() and published for `hugemap stat`. */
#include "linux.h"
#include "objects.h"
#include "stats.h"

int stats_create(struct pool *pool)
{
	int fd = sys_memfd_create(STATS_MEMFD_NAME), err;
	struct stats *stats;

	if (fd < 0)
		return fd;
	err = sys_ftruncate(fd, sizeof(*stats));
	if (!err) {
		stats = sys_mmap(NULL, sizeof(*stats), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		err = sys_error(stats);
	}
	if (err) {
		sys_close(fd);
		return err;
	}
	sys_madvise(stats, sizeof(*stats), MADV_DONTFORK);
	stats->magic = STATS_MAGIC;
	stats->version = STATS_VERSION;
	stats->pid = (u32)sys_pid();
	stats->bytes = sizeof(*stats);
	strcpy(stats->engine, "pool");
	pool->stats = stats;
	pool->stats_fd = fd;
	return 0;
}

void stats_destroy(struct pool *pool)
{
	sys_munmap(pool->stats, sizeof(*pool->stats));
	sys_close(pool->stats_fd);
}

/* Copy what lives elsewhere to where others can see it. maps_lock is held. */
void stats_publish(struct pool *pool)
{
	struct stats *stats = pool->stats;
	u64 free_bytes = hm_cache_free_pages(pool->cache) << HM_PAGE_SHIFT;
	struct store *store;
	u64 depth = 0;
	u32 i;

	for (i = 0; i < HM_COUNTERS; i++)
		hm_atomic_set(&stats->core[i], hm_cache_count(pool->cache, (enum hm_counter)i));
	for (store = pool->stores; store; store = store->next)
		depth += atomic_load(&store->ops);
	hm_atomic_set(&stats->count[STATS_POOL_BYTES], pool->slots_bytes);
	hm_atomic_set(&stats->count[STATS_FREE_BYTES], free_bytes);
	hm_atomic_set(&stats->count[STATS_RESIDENT_BYTES], pool->slots_bytes - free_bytes);
	hm_atomic_set(&stats->count[STATS_DIRTY_BYTES], hm_cache_dirty_pages(pool->cache)
								<< HM_PAGE_SHIFT);
	hm_atomic_set(&stats->count[STATS_IO_DEPTH], depth);
	hm_atomic_set(&stats->updated_ms, sys_clock_ns() / 1000000);
}

/* A fault was served. @map: NULL if it is gone meanwhile */
void stats_fault(struct pool *pool, struct mapping *map, u64 arrived_ns, bool hit)
{
	u64 ns = sys_clock_ns() - arrived_ns;

	hm_hist_record(&pool->stats->fault_ns, ns);
	if (!map)
		return;
	atomic_fetch_add_explicit(&map->faults, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&map->wait_ns, ns, memory_order_relaxed);
	if (hit)
		atomic_fetch_add_explicit(&map->hits, 1, memory_order_relaxed);
}

static struct hugemap_latency latency(const struct hm_hist *hist)
{
	return (struct hugemap_latency){
		.count = hm_atomic_read(&hist->count),
		.p50 = hm_hist_percentile(hist, 50000),
		.p90 = hm_hist_percentile(hist, 90000),
		.p99 = hm_hist_percentile(hist, 99000),
		.p999 = hm_hist_percentile(hist, 99900),
		.max = hm_atomic_read(&hist->max),
	};
}

/* Numbers as the public structure has them; *stats may be another process's. */
void stats_fill(const struct stats *stats, struct hugemap_stat *stat)
{
	const hm_atomic_t *core = stats->core;

	stat->engine = HUGEMAP_ENGINE_POOL;
	stat->reason[0] = '\0';
	stat->pool_bytes = stats_get(stats, STATS_POOL_BYTES);
	stat->free_bytes = stats_get(stats, STATS_FREE_BYTES);
	stat->mapped_bytes = stats_get(stats, STATS_MAPPED_BYTES);
	stat->resident_bytes = stats_get(stats, STATS_RESIDENT_BYTES);
	stat->dirty_bytes = stats_get(stats, STATS_DIRTY_BYTES);
	stat->huge_pages = stats_get(stats, STATS_HUGE_MAPPED);
	stat->base_pages = stats_get(stats, STATS_BASE_MAPPED);
	stat->faults = hm_atomic_read(&core[HM_C_FAULTS]);
	stat->hits = hm_atomic_read(&core[HM_C_HITS]);
	stat->fills = hm_atomic_read(&core[HM_C_FILLS]);
	stat->zeros = hm_atomic_read(&core[HM_C_ZEROS]);
	stat->write_faults = hm_atomic_read(&core[HM_C_DIRTIED]);
	stat->ahead = hm_atomic_read(&core[HM_C_AHEAD]);
	stat->ahead_used = hm_atomic_read(&core[HM_C_AHEAD_USED]);
	stat->ahead_wasted = hm_atomic_read(&core[HM_C_AHEAD_WASTED]);
	stat->evictions = hm_atomic_read(&core[HM_C_EVICTED]);
	stat->rescued = hm_atomic_read(&core[HM_C_RESCUED]);
	stat->read_bytes = stats_get(stats, STATS_READ_BYTES);
	stat->written_bytes = stats_get(stats, STATS_WRITTEN_BYTES);
	stat->read_errors = stats_get(stats, STATS_READ_ERRORS);
	stat->write_errors = hm_atomic_read(&core[HM_C_WRITE_ERRORS]);
	stat->slipped = stats_get(stats, STATS_SLIPPED);
	stat->fault_ns = latency(&stats->fault_ns);
	stat->read_ns = latency(&stats->read_ns);
	stat->write_ns = latency(&stats->write_ns);
}
