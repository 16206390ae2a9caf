/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * An engine on the machine that is not there: it calls the core as kernel/ does, and has the
 * machine wait for what the core does not do: faults, mapping, the device.
 */
#ifndef SCALE_ENGINE_H
#define SCALE_ENGINE_H

#include "internal.h"
#include "machine.h"

#define PAGES HM_BLOCK_PAGES
#define VICTIMS 128u
#define IO_PAGES 256u /* of one I/O, as in kernel/data.h */
#define WRITE_DEPTH 8u /* write-backs in flight, as there */
#define JOBS 600u /* reads ahead that one processor has under way */
#define POLL_NS 1000u
#define MOST_FRAMES 4096u

/* What is assumed of all that is not the core. */
struct costs {
	u64 fault, map, unmap, protect; /* ns */
	u64 latency, stream, bandwidth, depth; /* us, MB/s, MB/s, I/Os */
	u64 copy; /* MB/s */
	u64 readahead;
};
extern struct costs costs;

struct job {
	u64 done; /* when the device has answered */
	u64 pgoff, npages;
};

struct cpu {
	struct hm_file *file;
	u64 first, pages; /* its part of the store */
	u64 at; /* how far it is */
	u64 random;
	u64 ops;
	struct job job[JOBS];
	u32 first_job, njobs;
};

struct workload {
	const char *name;
	bool own_files;
	bool huge;
	void (*helper)(struct cpu *cpu, u64 end); /* what one more processor does */
	u32 pool; /* frames */
	u32 file; /* blocks of the file, or of all files; 0: some for each processor */
	u64 warm_us, us;
	void (*op)(struct cpu *cpu);
};

extern const struct workload *workload;
extern struct cpu cpus[MACHINE_CPUS];
extern struct hm_cache *cache;
extern bool one_locked; /* each call of the core is under one lock */
extern bool reclaim_wanted;
extern u64 core_ns; /* spent in the core, waits for lines and locks included */
extern u8 mapped[(HM_BLOCK_PAGES + 1) * MOST_FRAMES]; /* frames that page tables may map */

/* Members of what is in a cache, by name, and time that was not spent on any of them. */
extern struct machine_member *const engine_members[];
extern const size_t engine_nmembers;
extern struct machine_member engine_waits[];

/* A cache, and stores in it, in modelled memory; nothing has been waited for yet. */
void engine_new_cache(const struct hm_options *opts);
struct hm_file *engine_open_file(u64 blocks);

/* A call of the core: CORE(hm_fault(...)), or between the two. */
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

u32 engine_access(void);
u64 engine_unit_pages(void);
u64 engine_random(struct cpu *cpu, u64 n);
void engine_wait_until(u64 time);

/* When will the device have done an I/O that is given to it now? */
u64 engine_submit(u64 pages);

/* hm_fault(), with the nodes that it asks for. */
enum hm_outcome engine_get_unit(struct hm_file *file, u64 pgoff, u32 access, struct hm_unit *unit);

/* What has been read ahead by now: @wait, for the first of it, or for what others do. */
void engine_finish_jobs(struct cpu *cpu, bool wait);
void engine_read_ahead(struct cpu *cpu, u64 pgoff, u32 access);

/* A fault that reads: what is there is mapped without a lock. */
void engine_fault(struct cpu *cpu, u64 pgoff, struct hm_unit *unit);

/* The thread that reclaims, until @end: hugemap_evict_ahead(), while there is too little free. */
void engine_reclaim(struct cpu *cpu, u64 end);

#endif /* SCALE_ENGINE_H */
