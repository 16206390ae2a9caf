/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The simulated machine in which kernel/ runs: one mount over a few files, programs that map,
 * load, store, read, write and sync, and a model of the values that each word of a file may hold.
 *
 * The value of a word is a version number, which grows with each store. 0 means zeros.
 */
#ifndef SIM_KERNEL_WORLD_H
#define SIM_KERNEL_WORLD_H

#include "data/data.h"
#include "fs/namespace.h"

#define MAX_FILES 2u
/* In a contest each task has two files of its own, too. */
#define CONTEST_FILES 7u
#define MAX_PROGRAMS 6u
#define MAX_TRANSFER (2 * HM_BLOCK_PAGES * WORDS)

/* How many pages a store through a page table maps, and whether the module's test notices. */
enum maps {
	MAPS_ONE,
	MAPS_WHOLE,
	MAPS_WHOLE_UNNOTICED,
};

/* The parameters that the seed chooses. Each run has its own bias. */
struct scenario {
	u32 switch_every, stall_every, cpus, nfiles, npages, pool_frames, programs;
	u32 write_percent, sequential_percent, hot_percent, skew_percent, spot_percent;
	u32 read_error_percent, write_error_percent, short_percent, alloc_error_percent;
	u32 touches, reads, writes, appends, syncs, directs, dmas, pipes, remaps, advices;
	u32 privates, reopens, resizes, punches, pools, kills, limits, pressure, fills, foreigners,
		signals;
	u32 lower_block; /* bytes of a block of the lower file system */
	u32 tick; /* most milliseconds of one step of the clock */
	u32 race_point; /* the race point at which tasks stay long; RACE_POINTS: none */
	u32 race_percent; /* the chance that a task stays there */
	enum hugemap_page page;
	enum maps maps;
	bool holes, solid, stalls, stable, extents, unwritten;
};

#define CANDIDATES 6u
#define OLD 16u

struct model_value {
	u64 value;
	u32 order; /* position among all values of its word, from 1 */
	u64 until; /* step at which it was replaced */
};

/* The values that a load of a word may return, and the value that must survive a power cut. */
struct model_word {
	struct model_value now[CANDIDATES], old[OLD];
	u32 n, nold; /* @nold counts all values that were ever put into @old */
	u32 orders, changes, resets;
	u32 busy; /* writes in flight to the word */
	/* A call that began at this step or earlier may return a value that @old has lost. */
	u64 forgot;
	u32 durable; /* order of a value: a power cut leaves this value or a later one */
	u32 lost; /* order of the last candidate that @now had no room for */
	bool any; /* @now was too small for all candidates, so the model accepts any value */
	bool was_zero;
};

struct sim_file {
	u32 index;
	struct disk_file *disk;
	struct hugemap_inode *hi;
	struct dentry dentry;
	struct file *fd[2];
	u64 spot; /* the page that a device or a pipe has referenced last */
	struct model_word word[MAX_FILE_WORDS];
	loff_t min, max; /* bounds of its size, which differ during an extending write */
	loff_t durable_size;
	u32 resizes; /* odd while a resize runs */
	loff_t resize_min; /* the smaller of the old and the new size of that resize */
	bool loose; /* an extending writer was killed and may have left a cached block beyond EOF */
};

/* A write of words into a file. */
struct transfer {
	struct sim_file *file;
	struct kiocb *iocb;
	size_t known_at; /* offset in its source of the word for @pos */
	bool begun;
	loff_t pos, old_size;
	size_t bytes;
	u32 resizes;
	u64 value[MAX_TRANSFER];
	u32 changes[MAX_TRANSFER];
	bool known, shared[MAX_TRANSFER];
};

#define CORE_RACE_POINT "cache" /* any race point of kernel/cache/ */

/* A world with a few tasks that follow a plan. The contents of files are not checked. */
struct play {
	void (*scenario)(struct scenario *s); /* adapt the scenario of the seed */
	void (*spawn)(void);
	void (*at_race_point)(const char *text); /* a task passes a race point; or NULL */
};

struct world {
	struct scenario s;
	bool running, stopping;
	const struct play *play; /* progress.c, claims.c, ...; NULL: random programs */
	bool parking; /* programs must pause */
	u32 acting; /* programs that are in the middle of an action */
	u32 programs_left;
	struct disk_file disk[CONTEST_FILES]; /* the only part that survives a power cut */
	struct super_block sb, lower_sb;
	struct hugemap_mount *mount;
	struct sim_file file[CONTEST_FILES];
	u64 version; /* the newest version number */
	u64 failures; /* injected errors so far */
	struct shrinker shrinker;
	u32 shrinking; /* running calls of the shrinker */
	u32 pins; /* pages that devices and pipes hold */
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

/* fs.c */
void inodes_forget(void);

/* task.c */
void task_kill(struct task_struct *task);
void tasks_forget(void);
void works_forget(void);

/* model.c: its functions do not switch tasks */
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
/* The caller zeroes a range, or changes the length, until it releases the inode lock. */
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
void machine_spawn(void); /* the clock, the disk and the workers */
struct sim_file *any_file(void);
struct task_struct *any_program(void);
/* Does the scenario explain why a call failed with @err? */
bool excused(int err);
/* With the scenario's chance, move @pos to the page that a device or a pipe has referenced. */
void aim(const struct sim_file *file, loff_t *pos, bool aligned);

/* disturb.c */
void sync_all(void);
/* coroutines */
void disturber_main(void *arg);
void clock_main(void *arg);

/* progress.c */
/* Run all contests with some seeds. False: a task starved, or a check failed. */
bool progress_run(u64 from, u64 to);
void progress_scenario(struct scenario *s);

/* claims.c */
/* Claim a unit twice, with some seeds. False: a sync missed a store, or a check failed. */
bool claims_run(u64 from, u64 to);

/* full.c */
/* Store to a huge unit without room for it, with some seeds. False: a check failed. */
bool full_run(u64 from, u64 to);

/* pinned.c */
/* Evict beside pinned pages, with some seeds. False: a check failed. */
bool pinned_run(u64 from, u64 to);

/* around.c */
/* Map a dirty huge page beside its write-back, with some seeds. False: a check failed. */
bool around_run(u64 from, u64 to);

/* world.c */
void world_open(struct sim_file *file, bool again);
void world_new_file(struct sim_file *file, u32 index, bool fresh);
void world_close(struct sim_file *file);
void world_new(bool fresh);
void world_hurries(void);
void world_unmount(void *arg);
void world_count(void); /* coroutine */
/* Run a play in a fresh world, until its tasks end. */
void world_play(const struct play *play, u64 seed);
/*
 * Run a seed in its own process, so that each starts with the same memory. Return the result of
 * @run; 1 if a check failed or the process was killed.
 */
int world_in_child(int (*run)(u64 seed), u64 seed);
/* Run the seeds in this way. Return the first one that fails; @to + 1 if none does. */
u64 world_first_failure(int (*run)(u64 seed), u64 from, u64 to);
/* The same, and print the result. Return true if all seeds hold. */
bool world_all_hold(int (*run)(u64 seed), u64 from, u64 to);
/* Map the first four blocks of the first file into a new address space. */
struct mm_struct *world_map_file(unsigned long flags);

#endif /* SIM_KERNEL_WORLD_H */
