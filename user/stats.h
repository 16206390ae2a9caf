/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The numbers of a pool, in memory that `hugemap stat PID` can read while the
 * program runs: a memfd, found through /proc/PID/fd by its name.
 */
#ifndef HM_STATS_H
#define HM_STATS_H

#include "cache.h"
#include "hist.h"

#define STATS_MEMFD_NAME "hugemap-stats"
#define STATS_MAGIC 0x48554745u
#define STATS_VERSION 2u

/* Counters of the engine, beside those of the core (enum hm_counter). */
enum stats_counter {
	STATS_MAPPED_BYTES,
	STATS_POOL_BYTES,
	STATS_FREE_BYTES,
	STATS_DIRTY_BYTES,
	STATS_RESIDENT_BYTES,
	STATS_HUGE_MAPPED, /* units mapped now */
	STATS_BASE_MAPPED,
	STATS_READ_BYTES,
	STATS_WRITTEN_BYTES,
	STATS_UNWRITTEN_BYTES, /* write-back found nothing that had to be written */
	STATS_SLIPPED, /* stores caught between move and write protection */
	STATS_MOVES, /* calls of UFFDIO_MOVE */
	STATS_PROTECTS, /* calls of UFFDIO_WRITEPROTECT */
	STATS_LOST, /* frames that the program zapped behind our back */
	STATS_IO_DEPTH, /* operations in flight now */
	STATS_MAPPINGS,
	STATS_READ_ERRORS,
	STATS_COUNTERS,
};

struct stats {
	u32 magic;
	u32 version;
	u32 pid;
	u32 bytes; /* sizeof(struct stats) */
	char engine[16];
	char io[16];
	hm_atomic_t updated_ms; /* CLOCK_MONOTONIC, when @core was copied */
	hm_atomic_t core[HM_COUNTERS];
	hm_atomic_t count[STATS_COUNTERS];
	struct hm_hist fault_ns;
	struct hm_hist read_ns;
	struct hm_hist write_ns;
};

/* --- stat.c; takes no lock ------------------------------------------------------ */
struct hugemap_stat;
struct mapping;
struct pool;
int stats_create(struct pool *pool);
void stats_destroy(struct pool *pool);
void stats_publish(struct pool *pool); /* maps_lock is held */
void stats_fault(struct pool *pool, struct mapping *map, u64 arrived_ns, bool hit);
/* Numbers as hugemap_stat() gives them; *stats may be another process's. */
void stats_fill(const struct stats *stats, struct hugemap_stat *stat);

static inline void stats_add(struct stats *stats, enum stats_counter counter, s64 delta)
{
	hm_atomic_count(&stats->count[counter], delta);
}

static inline u64 stats_get(const struct stats *stats, enum stats_counter counter)
{
	return hm_atomic_read(&stats->count[counter]);
}

#endif /* HM_STATS_H */
