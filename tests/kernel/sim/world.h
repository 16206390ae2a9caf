/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The world in which kernel/ runs: one mount over some files, programs that map, load,
 * store, read, write and sync, and a model of what each word of a file may hold.
 *
 * A word's value is a version: a number that each store makes larger. 0 = zeros.
 */
#ifndef SIM_KERNEL_WORLD_H
#define SIM_KERNEL_WORLD_H

#include "data/data.h"
#include "fs/namespace.h"

#define MAX_FILES 2u
#define MAX_PROGRAMS 6u
#define MAX_TRANSFER (2 * HM_BLOCK_PAGES * WORDS)

/* What a seed decides, so that each run is lopsided in its own way. */
struct scenario {
	u32 switch_every, stall_every, cpus, nfiles, npages, pool_frames, programs;
	u32 write_percent, sequential_percent, hot_percent, skew_percent, spot_percent;
	u32 read_error_percent, write_error_percent, short_percent, alloc_error_percent;
	u32 touches, reads, writes, appends, syncs, directs, dmas, pipes, remaps, advices;
	u32 privates, reopens, resizes, punches, pools, kills, limits, pressure, fills, foreigners,
		signals;
	u32 tick; /* ms, at most, that pass at a time */
	u32 race_point; /* delayed for long; RACE_POINTS: none */
	enum hugemap_page page;
	bool holes, solid, stalls, stable, extents, unwritten;
};

#define CANDIDATES 6u
#define OLD 16u

struct model_value {
	u64 value;
	u32 order; /* the how-manieth of its word */
	u64 until; /* the step at which it was replaced */
};

/* What a load of a word may see, and what must survive. */
struct model_word {
	struct model_value now[CANDIDATES], old[OLD];
	u32 n, nold; /* of @old: how many there ever were */
	u32 orders, changes, resets;
	u32 busy; /* transfers under way */
	u64 forgot; /* the step at which some were not remembered */
	u32 durable; /* this order, or a later one */
	bool any; /* more than fit */
	bool was_zero;
};

struct sim_file {
	u32 index;
	struct disk_file *disk;
	struct hugemap_inode *hi;
	struct dentry dentry;
	struct file *fd[2];
	u64 spot; /* a page that a device or a pipe got hold of */
	struct model_word word[MAX_FILE_WORDS];
	loff_t min, max; /* its size, or between them while somebody writes behind it */
	loff_t durable_size;
	u32 resizes; /* odd: one is under way */
	loff_t resize_min; /* the shorter of the two sizes of that */
	bool loose; /* who was killed while he made it longer may leave a block behind its end */
};

/* Words on their way into a file. */
struct transfer {
	struct sim_file *file;
	struct kiocb *iocb;
	size_t known_at; /* of its source, where it begins */
	bool begun;
	loff_t pos, old_size;
	size_t bytes;
	u32 resizes;
	u64 value[MAX_TRANSFER];
	u32 changes[MAX_TRANSFER];
	bool known, shared[MAX_TRANSFER];
};

struct world {
	struct scenario s;
	bool running, stopping;
	bool parking; /* programs do nothing for now */
	u32 acting; /* those that do */
	u32 programs_left;
	struct disk_file disk[MAX_FILES]; /* outlives the rest */
	struct super_block sb, lower_sb;
	struct hugemap_mount *mount;
	struct sim_file file[MAX_FILES];
	u64 version; /* the last one given */
	u64 failures; /* injected errors so far */
	struct shrinker shrinker;
	u32 shrinking; /* calls of it under way */
	u32 pins; /* pages in the hands of others */
	u64 counts[16];
};

enum {
	C_STORES,
	C_LOADS,
	C_READS,
	C_WRITES,
	C_SYNCS,
	C_DMAS,
	C_COPIES,
	C_INODES,
	C_RESIZES,
	C_ERRORS,
	C_CUTS,
	C_UNMOUNTS,
	C_PROMOTIONS,
	C_REFUSED,
	C_PARTS,
};

extern struct world w;

/* task.c */
void task_kill(struct task_struct *task);
void tasks_forget(void);
void works_forget(void);

/* model.c: nothing there is a step */
struct sim_file *model_file_of(const struct vm_area_struct *vma);
void model_load(struct sim_file *file, u64 word, u64 value, u64 since);
void model_store(struct sim_file *file, u64 word, u64 value);
loff_t model_size_of(const struct vm_area_struct *vma);
void model_copied(const struct vm_area_struct *vma, u64 page, const u64 *value, u64 since,
		  loff_t size);
void model_stored(struct mm_struct *mm, unsigned long address, u64 value);
void model_begin(struct transfer *t, struct sim_file *file, loff_t pos, size_t bytes);
void model_transfers(struct transfer *t, size_t at, u64 value);
void model_end(struct transfer *t, size_t done);
void model_resize(struct sim_file *file, loff_t old, loff_t size);
/* A range becomes zeros, or the length another: until the caller lets go of the file. */
void model_zeroes(struct sim_file *file, loff_t start, loff_t end);
loff_t model_certain_size(const struct sim_file *file);
void model_resizes(struct sim_file *file, loff_t size);
void model_written(struct disk_file *disk, loff_t pos);
void model_sync_begins(struct sim_file *file, u64 first, u64 end);
void model_synced(struct sim_file *file, u64 first, u64 end);
void model_after_power_cut(struct sim_file *file);
void model_restart(struct sim_file *file);
void model_unmounted(struct sim_file *file);
bool model_may_be_told(int err);

/* actors.c */
void actors_spawn(void);
struct sim_file *any_file(void);
struct task_struct *any_program(void);
/* May a call fail with it, without a fault of anybody? */
bool excused(int err);
/* Where a call begins that goes where something is held, a page aligned or not; or not there. */
void aim(const struct sim_file *file, loff_t *pos, bool aligned);

/* disturb.c: coroutines */
void disturber_main(void *arg);
void clock_main(void *arg);

/* world.c */
void world_open(struct sim_file *file, bool again);
void world_close(struct sim_file *file);
void world_new(bool fresh);
void world_hurries(void);
void world_unmount(void *arg);
void world_count(void); /* coroutine */

#endif /* SIM_KERNEL_WORLD_H */
