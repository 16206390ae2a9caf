/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * An engine on the virtual machine: it calls the cache like kernel/data does. For the work
 * outside the cache (faults, mapping, I/O) it only advances the clock of the processor.
 */
#ifndef SCALE_ENGINE_H
#define SCALE_ENGINE_H

#include "bits.h"
#include "cache.h"
#include "dirty.h"
#include "dirty_map.h"
#include "evict.h"
#include "fault.h"
#include "file.h"
#include "index.h"
#include "move.h"
#include "pool.h"
#include "promote.h"
#include "promotion.h"
#include "queue.h"
#include "readahead.h"
#include "reclaim.h"
#include "stream.h"
#include "writeback.h"
#include "machine.h"

#define PAGES HM_BLOCK_PAGES
#define VICTIMS 128u
#define IO_PAGES 256u /* most pages of one I/O, as in kernel/data/io.h */
#define WRITE_DEPTH 8u /* most write-backs in flight, as in kernel/data/io.h */
#define JOBS 600u /* most reads ahead in flight on one processor */
#define POLL_NS 1000u
#define MOST_FRAMES 4096u

/* Assumed costs of the work outside the cache. */
struct costs {
	u64 fault, map, unmap, protect; /* ns */
	u64 latency, stream, bandwidth, depth; /* us, MB/s, MB/s, I/Os */
	u64 copy; /* MB/s */
	u64 readahead;
};
extern struct costs costs;

struct job {
	u64 done; /* time at which the I/O completes */
	u64 pgoff, npages;
};

struct cpu {
	struct hm_file *file;
	u64 first, pages; /* its part of the file */
	u64 at; /* the next unit or page, for a workload of streams or of first stores */
	u64 turn; /* operations of a mixed workload */
	u64 random;
	u64 ops;
	struct job job[JOBS];
	u32 first_job, njobs;
};

struct workload {
	const char *name;
	bool own_files;
	enum hm_size size; /* HM_SIZE_AUTO: half of the pool starts as huge units */
	void (*helper)(struct cpu *cpu, u64 end); /* work of one more processor, or NULL */
	u32 pool; /* frames */
	u32 file; /* blocks of all files; 0: PART_BLOCKS for each processor */
	u64 warm_us, us;
	void (*op)(struct cpu *cpu);
};

extern const struct workload *workload;
extern struct cpu cpus[MACHINE_CPUS];
extern struct hm_cache *cache;
extern bool one_locked; /* serialize all calls of the cache by one lock */
extern bool reclaim_wanted;
extern u64 clock_ms; /* the cache's clock at the start of the run */
extern u64 core_ns; /* time spent in the cache, including waits for lines and locks */
extern u8 mapped[(HM_BLOCK_PAGES + 1) * MOST_FRAMES]; /* frames that are mapped */

/* Names of the structures' members, and the waits that belong to none of them. */
extern struct machine_member *const engine_members[];
extern const size_t engine_nmembers;
extern struct machine_member engine_waits[];

/* Make a cache and its files in modelled memory, and reset all times. */
void engine_new_cache(const struct hm_options *opts);
struct hm_file *engine_open_file(u64 blocks);

/* Calls of the cache are timed: CORE(hm_fault(...)), or code between enter and leave. */
void engine_enter(void);
void engine_leave(void);

#define CORE(call)                        \
	({                                \
		__typeof__(call) result_; \
		engine_enter();           \
		result_ = (call);         \
		engine_leave();           \
		result_;                  \
	})

struct hm_access engine_access(void);
u64 engine_unit_pages(void);
u64 engine_random(struct cpu *cpu, u64 n);
void engine_wait_until(u64 time);

/* Submit an I/O, and return the time at which it completes. */
u64 engine_submit(u64 pages);

/* Call hm_fault(), and add the index nodes that it requests. */
enum hm_outcome engine_get_unit(struct hm_file *file, u64 pgoff, struct hm_access access,
				struct hm_unit *unit);

/*
 * Complete the reads ahead that are done by now. @wait: first wait for the oldest one, or for
 * one poll interval if another processor reads the page.
 */
void engine_finish_jobs(struct cpu *cpu, bool wait);
void engine_read_ahead(struct cpu *cpu, u64 pgoff, struct hm_access access);

/* A read fault. A cached unit is mapped without a lock. */
void engine_fault(struct cpu *cpu, u64 pgoff, struct hm_unit *unit);

/* The reclaim thread, until @end: evict while too few frames are free (hugemap_evict_ahead()). */
void engine_reclaim(struct cpu *cpu, u64 end);

#endif /* SCALE_ENGINE_H */
