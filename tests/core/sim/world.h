/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The simulated world: files on a device that reorders, fails and loses power;
 * an engine that carries out the core's answers as user/ does, with page tables
 * that are arrays; and a model of what each page must hold.
 *
 * A page's data is a version: a number that each store makes larger. 0 = zeros.
 */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

#include "cache.h"
#include "sched.h"

#define MAX_FILES 2u
#define MAX_PAGES 320u
#define MAX_FRAMES 32u
#define MAX_OPS 24u
#define MAX_JOBS 16u
#define BLOCKS (MAX_PAGES / HM_BLOCK_PAGES + 1)
#define PENDING 3u /* values that a page's volatile cache remembers */

/* What a seed decides, so that each run is lopsided in its own way. */
struct scenario {
	u32 switch_every, stall_every, cpus, nfiles, npages, pool_frames;
	u32 programs, evict_batch;
	u32 write_percent, sequential_percent, hot_percent, base_percent, priority_percent;
	u32 read_error_percent, write_error_percent, short_percent;
	u32 resizes, reopens, forks, syncs, accesses; /* weights of the disturber */
	bool hints, holes;
};

/* The bytes of a file as the device has them. */
struct disk_page {
	u32 value; /* as a read finds it */
	u32 safe; /* as a power cut leaves it, or one of these: */
	u32 pending[PENDING];
	u32 npending;
	bool hole;
};

struct file {
	u64 size; /* bytes */
	struct disk_page page[MAX_PAGES];
	u32 bad_read; /* a page that cannot be read; MAX_PAGES: none */
};

/* What must be. */
struct model_page {
	u32 latest; /* last store */
	u32 durable; /* what the last sync promised */
	bool zeroed; /* punched or truncated since: zeros may be durable too */
	bool stored; /* since its last write-back failed */
};

/* A descriptor: it is told of write errors. */
struct descriptor {
	u64 seen; /* of the core's error sequence */
	bool must, may; /* it must, or may, be told of an error now */
	u32 told; /* how often it was */
};

struct place {
	bool mapped, stored;
	u64 pgoff;
};

struct pte {
	bool present, writable;
	u32 at; /* in content[] */
};

struct store {
	struct hm_store *core;
	u32 index;
	struct file *file;
	struct model_page model[MAX_PAGES];
	struct descriptor fd[2];
	struct pte pte[MAX_PAGES];
	struct sim_lock block[BLOCKS];
	u32 ops;
	bool resizing;
	u64 shrink_end, wb_pos;
	u64 written_key; /* sync waits for any write-back */
};

enum op_type {
	OP_READ,
	OP_WRITE
};

/* I/O under way. Its data is moved page by page, whenever the device likes. */
struct op {
	bool used, finished, claimed;
	enum op_type type;
	struct store *store;
	u64 pgoff;
	u32 npages, done, limit; /* limit: pages of it that lie in the file */
	u32 frame[HM_BLOCK_PAGES]; /* the first base page of each, in content[] */
	u32 sent[HM_BLOCK_PAGES]; /* versions that a write has sent */
	u32 units; /* frames of a read are those of so many units */
	struct hm_unit unit[HM_BLOCK_PAGES];
	bool demand, demand_write, sync;
	bool fails, ends_short;
	bool fresh; /* a failure of it must be told */
	u32 *sync_ops; /* who waits, and for how many */
	int *sync_err;
};

struct job {
	struct store *store;
	struct hm_plan plan;
	u64 pos;
	bool behind;
};

struct memory {
	struct memory *next;
};

struct world {
	struct scenario s;
	struct hm_options opts;
	struct hm_cache *cache;
	struct memory *memory; /* all that world_alloc() gave */
	u32 content[MAX_FRAMES * HM_BLOCK_PAGES]; /* the pool's memory */
	struct place *places;
	struct file files[MAX_FILES];
	struct store stores[MAX_FILES];
	struct sim_rwlock maps;
	struct op op[MAX_OPS];
	struct job job[MAX_JOBS];
	u32 njobs;
	u32 window[SIM_COROUTINES]; /* odd while one installs a unit; see pages.c */
	u32 version; /* the last one given */
	u64 now_ms;
	bool pressed;
	u64 counts[16];
};

enum {
	C_STORES,
	C_LOADS,
	C_SYNCS,
	C_CUTS,
	C_FORKS,
	C_ERRORS,
	C_RESIZES,
	C_REOPENS,
	C_AUDITS
};

extern struct world w;

static inline u64 file_pages(const struct file *file)
{
	return (file->size + HM_PAGE_SIZE - 1) >> HM_PAGE_SHIFT;
}

static inline u32 content_of(u32 frame)
{
	return (u32)(hm_frame_offset(w.cache, frame) >> HM_PAGE_SHIFT);
}

/* device.c */
void device_write(struct file *file, u64 page, u32 value);
void device_zero(struct file *file, u64 page);
void device_flush(struct file *file);
void device_lose_power(struct file *file);
bool device_block_is_hole(const struct file *file, u64 pgoff);
void device_main(void *arg); /* coroutine */

/* model.c */
void model_store(struct store *store, u64 page, u32 at);
void model_load(struct store *store, u64 page, u32 value);
void model_zero(struct store *store, u64 from, u64 to);
bool model_write_starts(struct store *store, u64 pgoff, u32 npages);
void model_write_fails(struct store *store, u32 told[2]);
void model_write_failed(struct store *store, const u32 told[2], bool fresh);
void model_told(struct store *store, struct descriptor *fd, int err);
void model_after_power_cut(struct file *file, struct model_page *model);
void model_audit(void); /* nothing is under way */

/* pages.c: page tables; the block's lock is held */
struct sim_lock *block_lock(struct store *store, u64 pgoff);
void page_install(struct store *store, const struct hm_unit *unit, bool protect);
void page_remove(struct store *store, const struct hm_unit *unit);
void page_wait_for_windows(void);
void page_wake(struct store *store, u64 pgoff, u32 npages);
struct place *place_of(const struct hm_unit *unit);

/* engine.c */
enum touch {
	TOUCHED,
	TOUCH_BUS
};
enum touch engine_touch(struct store *store, u64 page, bool write, u32 access);
void engine_add_node(struct store *store, u64 pgoff, enum hm_node_kind kind);
void engine_run_jobs(void *arg); /* coroutine */
void engine_reclaim(void *arg); /* coroutine */
void engine_write_back(void *arg); /* coroutine */
bool engine_evict(enum hm_kind kind);
enum hm_wb engine_write(struct store *store, u64 *pos, u64 end, bool wait, u32 *ops, int *err);
void engine_complete(void *arg); /* coroutine */
struct op *engine_take_op(u32 spare);
int engine_sync(struct store *store, u64 pos, u64 end); /* no lock held */
bool engine_drop(struct store *store, u64 pos, u64 end, bool discard); /* maps lock, writing */

/* actors.c */
void actors_spawn(void);
void world_new(u64 seed, bool fresh);
void *world_alloc(size_t bytes); /* zeroed; until the next power cut */

#endif /* SIM_WORLD_H */
