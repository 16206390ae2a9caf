/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The kernel engine: a file system type over a directory or a block device,
 * whose files are cached in a pool of 2 MB frames of its own. This header is
 * what its files share.
 *
 * Two halves. The *name space* (kernel/fs/) stands
 * in for the lower file system. The *data* (pool.c, slot.c, store.c, change.c, fill.c, fault.c,
 * evict.c, orphan.c, shrink.c, writeback.c, writer.c, rw.c) carries out what the cache core
 * decides. The one calls the other through the functions under "the data" only; the other way
 * round goes nothing. Both use lower.c.
 *
 * Order of locks (each may be taken with those before it held):
 *
 *   mount->pool_lock               the pool becomes larger or smaller; held while memory
 *                                  is asked for, so whoever reclaims only tries it
 *   inode->i_rwsem                 of the upper inode, as in every file system
 *   freeze protection below        sb_start_write(): write-back, changes below
 *   mm->mmap_lock or a VMA lock    the core of mm holds it around a fault
 *   mapping->invalidate_lock       shared: a miss becomes a fill, a clean unit
 *                                  dirty, write-back; exclusive: truncate, punch,
 *                                  what changes below
 *   hi->grow_lock                  write-back behind the end of the lower file
 *   the locks of the lower file system, while it does our I/O
 *   folio lock                     several only of one batch, in frame order, by
 *                                  folio_trylock() for all but the first
 *   i_pages' xa_lock, page-table locks
 *   the core's spinlocks
 *
 * The lower file system may hold its locks and take a fault of a mapping here. So
 * a fault drops mmap_lock before it waits for the invalidate_lock or calls below,
 * and where it cannot, in ->page_mkwrite(), it only tries. Faults without
 * FAULT_FLAG_ALLOW_RETRY, which may not drop it, are the exception: see fault_bring().
 *
 * A write makes the upper file longer at once, and the lower one when its data is
 * written there, from the old end on and in order: so nobody reads zeros where data
 * was appended, not even after a power cut. Whoever changes the lower file has it
 * catch up first: see hugemap_change_lower().
 *
 * The state of a unit is the core's; a folio that holds one has ->mapping and
 * ->index set and is in the inode's own i_pages, never on an LRU list. Whoever
 * found a frame through the core takes a reference and the folio lock, and looks
 * at ->mapping and ->index again, as with page-cache folios. A frame is reused
 * only after folio_ref_freeze() under the folio lock, which fails while anybody
 * else has a reference. A folio that is
 * mapped writable, or written by write(2), belongs to a unit that is dirty, or
 * writing and redirtied.
 */
#ifndef HUGEMAP_H_KERNEL
#define HUGEMAP_H_KERNEL

#include <linux/fs.h>
#include <linux/kobject.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/path.h>
#include <linux/rwsem.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "cache/cache.h"
#include "cache/file.h"
#include "cache/hist.h"

#define HUGEMAP_SUPER_MAGIC 0x48554745 /* "HUGE" */
#define HUGEMAP_WAITS 256u
#define HUGEMAP_POOL_MIN (4ull * HM_BLOCK_SIZE)
#define HUGEMAP_BLOCK_MASK ((u64)HM_BLOCK_PAGES - 1)
/* Blocks of a file that share a count of stores that map a dirty unit. */
#define HUGEMAP_MAPPING_STORES 8

struct fs_context;
struct shrinker;

enum hugemap_page {
	HUGEMAP_PAGE_2M,
	HUGEMAP_PAGE_4K,
	HUGEMAP_PAGE_AUTO,
};

/**
 * struct hugemap_options - what a mount was asked for
 * @pool: size of the pool in bytes, a multiple of 2 MB
 * @pool_min: what of it is kept when others want memory, in bytes; if @pool_min_percent is 0
 * @pool_min_percent: the same, as a part of the pool
 * @page: page size of new units
 * @dirty_ratio: percent of the pool that may be dirty before write-back starts
 * @evict_batch: units evicted at a time
 * @readahead_kb: the longest read-ahead of a stream, KiB; 0 = none
 * @priority: of files that have none of their own: -1 low, 0, 1 high
 * @node: NUMA node of the pool, or NUMA_NO_NODE to spread it over all
 * @read_optimization: read(2) copies a whole unit under one reference
 * @write_optimization: write(2) takes its frames for the whole length at once
 * @util_threshold: page=auto: percent of a block that is cached, from which on it becomes
 *	huge; 0 = never
 * @promote_interval: page=auto: how often what may become huge is looked for, ms
 * @promote_batch: how many blocks become huge in such an interval, at most
 * @given: while they are parsed: which ones were, a bit each
 */
struct hugemap_options {
	u64 pool;
	u64 pool_min;
	u32 pool_min_percent;
	enum hugemap_page page;
	u32 dirty_ratio;
	u32 evict_batch;
	u32 readahead_kb;
	int priority;
	int node;
	bool read_optimization;
	bool write_optimization;
	u32 util_threshold;
	u32 promote_interval;
	u32 promote_batch;
	u32 given;
};

/* Counters of the engine, beside those of the core (enum hm_counter). */
enum hugemap_counter {
	HUGEMAP_C_HUGE_MAPPED, /* faults that mapped 2 MB at once */
	HUGEMAP_C_BASE_MAPPED, /* faults that mapped base pages */
	HUGEMAP_C_UPGRADES, /* stores allowed in place, without a new mapping */
	HUGEMAP_C_CLEANED, /* units write-protected for write-back */
	HUGEMAP_C_UNMAPS, /* ranges unmapped by eviction, each one TLB flush a VMA */
	HUGEMAP_C_READ_BYTES, /* from below */
	HUGEMAP_C_WRITTEN_BYTES,
	HUGEMAP_C_READ_IOS,
	HUGEMAP_C_WRITE_IOS,
	HUGEMAP_C_COPIED_IN, /* bytes of write(2) */
	HUGEMAP_C_COPIED_OUT, /* bytes of read(2) */
	HUGEMAP_C_PINNED, /* victims that could not leave */
	HUGEMAP_C_SYNCS,
	HUGEMAP_C_PARTIAL_WRITEBACKS, /* huge units of which only what had changed was written */
	HUGEMAP_COUNTERS,
};

struct hugemap_counts {
	u64 value[HUGEMAP_COUNTERS];
};

/* What a fault without the fault lock has failed with, until it comes back. */
struct hugemap_fault_error {
	const struct task_struct *task;
	u64 pgoff;
	int err;
};

/* One container of the pool: a PMD-order folio, or 512 base pages. */
struct hugemap_slot {
	struct folio *huge;
	struct page **base; /* a table, from the first time that it is carved on */
	bool split; /* the memory is that of @base; under split_lock, or if it is parked */
	bool contiguous; /* it was taken as one piece, and none of it has been replaced */
	bool offline; /* no memory: the pool could grow by it; under pool_lock */
};

/* A mount: struct super_block.s_fs_info. */
struct hugemap_mount {
	struct super_block *sb;
	struct hugemap_options opts;
	const struct cred *cred; /* of who mounted it, for I/O below */
	struct path lower; /* the directory; .dentry is NULL over a device */
	errseq_t lower_err; /* of it, up to where syncfs(2) has told; super.c */
	dev_t lower_dev; /* what stat(2) says of it: on btrfs not its super block's */
	struct file *device; /* the device, opened with O_EXCL, for all I/O; or NULL */

	/* the name space */
	void (*set_operations)(struct inode *inode); /* of a new inode */
	struct list_head mounts; /* super.c: all mounts over directories */
	struct inode *disk; /* over a device: its one file */
	bool started; /* hugemap_data_start() has succeeded */
	bool never_clones; /* the lower file system has said so */

	/* the data */
	struct hm_cache *cache;
	void *cache_mem;
	struct hugemap_slot *slots;
	u32 nslots; /* twice the pool at mount, if the core can: how far it can grow */
	u32 noffline;
	struct mutex pool_lock; /* which slots are parked; reclaim only tries it */
	struct shrinker *shrinker;
	unsigned long shed_at; /* jiffies, when the pool last gave memory to others */
	spinlock_t orphan_lock; /* of @held and @orphan_pages */
	struct list_head orphans; /* folios that were abandoned: orphan.c */
	u64 orphan_pages;
	spinlock_t idle_lock; /* of @idle */
	struct list_head idle; /* inodes that reclaim is done with; see evict.c */
	struct mutex split_lock; /* a slot turns from huge to base or back */
	wait_queue_head_t waits[HUGEMAP_WAITS]; /* for units, hashed */
	wait_queue_head_t frames_wait; /* for free or clean frames */
	wait_queue_head_t writer_wait;
	bool write; /* there may be something to write */
	struct task_struct *writer;
	struct task_struct *reclaimer;
	wait_queue_head_t reclaim_wait;
	bool reclaim; /* frames are short */
	struct task_struct *promoter; /* with page=auto */
	wait_queue_head_t promote_wait;
	bool promote; /* there may be something to promote */
	struct hugemap_promotion *promotion; /* the promoter's */
	atomic_t pressed; /* faults that wait for clean frames */
	atomic_t freed; /* changes when a frame comes free or a unit clean */
	unsigned long progress; /* jiffies, when a frame last came free */
	struct workqueue_struct *done_wq; /* ends of reads that nobody waits for */
	struct workqueue_struct *ahead_wq; /* work ahead of and behind writers */
	struct workqueue_struct
		*lower_wq; /* for tasks that wait, perhaps with locks of the lower file */
	struct workqueue_struct *write_wq; /* write-back that somebody waits for */
	struct workqueue_struct *chunk_wq; /* in the background: one work for a file */
	struct rw_semaphore files_lock; /* the list of files */
	struct list_head files;
	atomic_t dirtied_claimed; /* became dirty while they were claimed for eviction */
	int awaited; /* as many of those were waited for */
	u64 files_moved; /* changes when one is moved in the list; under files_lock */
	atomic64_t syncs; /* a number for each */
	atomic_t depth; /* I/Os in flight */
	struct hugemap_counts __percpu *counts;
	struct hm_hist *fault_ns; /* a fault that had to wait, I/O included */
	struct hm_hist *read_ns; /* a read below */
	struct hm_hist *write_ns; /* a write below */

	/* fault.c */
	spinlock_t fault_error_lock;
	struct hugemap_fault_error fault_error[64];

	/* sysfs.c */
	struct kobject kobj;
	struct completion kobj_gone;
	bool kobj_added;
};

struct hugemap_inode {
	struct inode vfs_inode;
	struct inode *lower; /* NULL over a device */

	bool times_update_pending; /* changed while the lower file system was frozen: it does not know */
	bool gone; /* the last name that is known was taken away here, whatever is counted below */
	bool uncounted; /* what is below counts no names: 0 of them does not mean deleted */

	/* the data; of regular files only */
	struct hm_file *hfile; /* NULL until the first use; see store.c */
	void *file_mem;
	struct mutex hfile_lock; /* making @hfile, @reader and @writer */
	struct file *reader; /* the lower file, for fills */
	struct file *writer; /* the same, for write-back; NULL until somebody may write */
	struct mutex grow_lock; /* who writes behind the end of the lower file */
	loff_t growth_failed_at; /* it ends there, whatever it says; or LLONG_MAX */
	struct list_head files; /* mount->files */
	struct list_head idle; /* mount->idle */
	u64 synced; /* by which hugemap_data_sync() it was seen last */
	u32 opens; /* open files; under file_lock */
	u32 changes; /* of the lower file, without the cache; under the invalidate_lock */
	bool stable; /* what is being written may not change meanwhile: below computes sums */
	int priority;
	/* Faults that map a dirty unit without its lock, by its block. */
	atomic_t mapping_stores[HUGEMAP_MAPPING_STORES];
	u32 failures; /* write-backs in sequence that failed */
	unsigned long retry_at; /* jiffies; background write-back waits until then */
	u64 write_at; /* where background write-back goes on */
	struct work_struct chunk; /* of that */
	bool in_chunk; /* it is under way */
	bool wrote; /* something, the last time */
	u32 runs; /* that were written so far, well or not: does it get on? */
	u32 good_runs; /* of them, those that went well */
};

static inline struct hugemap_mount *hugemap_mount(const struct super_block *sb)
{
	return sb->s_fs_info;
}

static inline struct hugemap_inode *hugemap_inode(const struct inode *inode)
{
	return container_of(inode, struct hugemap_inode, vfs_inode);
}

static inline atomic_t *hugemap_mapping_stores(struct hugemap_inode *hi, u64 pgoff)
{
	return &hi->mapping_stores[(pgoff >> HM_BLOCK_ORDER) % HUGEMAP_MAPPING_STORES];
}

/*
 * struct hugemap_file - an open file: file->private_data
 * @lower: the lower file, for what the opener may do with it; NULL over a device
 * @data: hugemap_data_open() succeeded
 * @sequential: POSIX_FADV_SEQUENTIAL was said of it; of FADV_RANDOM, f_mode tells
 */
struct hugemap_file {
	struct file *lower;
	bool data;
	bool sequential;
};

static inline struct file *hugemap_lower_file(const struct file *file)
{
	return ((struct hugemap_file *)file->private_data)->lower;
}

/* --- lower.c: the lower file ------------------------------------------------ */

/*
 * Open a file or lower directory, as who mounted: whether the caller may was asked of
 * the upper one. What confines programs by paths (AppArmor, Landlock) has seen its
 * path; that of the private mount means nothing to it, so it would say no.
 */
struct file *hugemap_open_lower(const struct hugemap_mount *mount, const struct path *path,
				int flags);

/*
 * The same for what no program asks for: who is asked about each open and each read
 * (fanotify), here and below, would be asked by himself, and wait for his own answer. His
 * own file here is quiet, and by its flags (before 6.14) so is the one that it opens below.
 */
struct file *hugemap_open_quietly(const struct hugemap_mount *mount, const struct path *path,
				  int flags);

/* All attributes, but not the size of a regular file: see hugemap_change_lower(). */
void hugemap_copy_attr(struct inode *inode);
void hugemap_set_nlink(struct inode *inode, unsigned int nlink);
/* Of these: who may do what. Nobody else may look at set-id bits meanwhile: i_rwsem. */
void hugemap_copy_owner(struct inode *inode);
/* Does a program of this mode run as its owner or group? */
bool hugemap_sets_id(umode_t mode);
/* What chattr(1) has said of the lower file since; takes no lock. */
void hugemap_copy_flags(struct inode *inode);

/* The file is changed by a store: so is the lower one. Freeze protection there is held. */
int hugemap_tell_change(struct inode *inode);
/* The same, if it could not be told when it happened. */
void hugemap_tell_late_change(struct inode *inode);

static inline void hugemap_count(struct hugemap_mount *mount, enum hugemap_counter counter,
				 u64 delta)
{
	this_cpu_add(mount->counts->value[counter], delta);
}

u64 hugemap_counted(const struct hugemap_mount *mount, enum hugemap_counter counter);

/* --- the data, as the name space sees it ------------------------------------ */

/* When the module is loaded, and unloaded. */
int hugemap_data_setup(void);
void hugemap_data_teardown(void);

/**
 * hugemap_data_start() - take the pool, start the threads
 * @mount: @opts, @cred, @sb and @lower or @device are set (the device is a file
 *	from dentry_open() with O_RDWR or O_RDONLY, O_EXCL and O_LARGEFILE)
 * @fc: for errors in words
 */
int hugemap_data_start(struct hugemap_mount *mount, struct fs_context *fc);

/* What others cannot have of the pool, in bytes. */
u64 hugemap_pool_floor(const struct hugemap_options *opts);

/* What the pool has now, in slots of 2 MB: less than it was asked for, if others want memory. */
static inline u32 hugemap_pool_slots(const struct hugemap_mount *mount)
{
	return mount->nslots - READ_ONCE(mount->noffline);
}

/* Change what can be changed while mounted; all of it or nothing. */
int hugemap_data_reconfigure(struct hugemap_mount *mount, const struct hugemap_options *opts,
			     struct fs_context *fc);

/* Before generic_shutdown_super(): the threads end; nothing is lost. */
void hugemap_data_quiesce(struct hugemap_mount *mount);

/* After all inodes are gone: give the pool back. Safe if the start failed. */
void hugemap_data_stop(struct hugemap_mount *mount);

/* Write back everything dirty (sync_fs). 0 or the first error. */
int hugemap_data_sync(struct hugemap_mount *mount);

/* For a new struct hugemap_inode, before it is visible. */
void hugemap_data_init(struct hugemap_inode *hi);

/*
 * A regular file is being opened; file->private_data is set. Opens the files
 * below that fills and write-back need. Each that succeeded is released once.
 */
int hugemap_data_open(struct inode *inode, struct file *file);
void hugemap_data_release(struct inode *inode);

/*
 * The inode goes away: ->evict_inode(). @discard: the file is deleted, its data
 * is not wanted. Else everything is written back first. May sleep for I/O.
 */
void hugemap_data_evict(struct inode *inode, bool discard);

ssize_t hugemap_read_iter(struct kiocb *iocb, struct iov_iter *to);
ssize_t hugemap_write_iter(struct kiocb *iocb, struct iov_iter *from);
/* The same under i_rwsem; what O_SYNC asks for is the caller's. */
ssize_t hugemap_write_locked(struct kiocb *iocb, struct iov_iter *from);
int hugemap_mmap(struct file *file, struct vm_area_struct *vma);

int hugemap_fsync(struct file *file, loff_t start, loff_t end, int datasync);

/* Write back what is dirty in a range of bytes and wait for it; no device flush. */
int hugemap_write_back(struct inode *inode, loff_t start, loff_t end);

/*
 * Attributes below are about to change that write-back would be refused by, or would
 * change in its turn: all is written before, and nothing becomes dirty by a program
 * until hugemap_resume_writes(). i_rwsem and freeze protection below are held. Not 0: it
 * cannot be written, and hugemap_resume_writes() is not called. Not for devices.
 */
int hugemap_quiesce_writes(struct inode *inode);
void hugemap_resume_writes(struct inode *inode);

/* Drop clean data in a range that nobody maps (FADV_DONTNEED); start to read it. */
void hugemap_data_dontneed(struct inode *inode, loff_t start, loff_t end);
void hugemap_data_willneed(struct file *file, loff_t start, loff_t end);

/* HUGEMAP_IOC_CACHED of an open file. */
long hugemap_cached(struct file *file, void __user *arg);

enum hugemap_change {
	HUGEMAP_KEEP, /* the old data in the range matters: it is written first */
	HUGEMAP_DISCARD, /* it does not: truncate, punch */
};

/*
 * Freeze protection of the lower file system, which comes before the
 * invalidate_lock: its own writers hold it when they fault on a mapping of ours.
 */
static inline void hugemap_start_write_lower(const struct hugemap_inode *hi)
{
	if (hi->lower)
		sb_start_write(hi->lower->i_sb);
}

static inline void hugemap_end_write_lower(const struct hugemap_inode *hi)
{
	if (hi->lower)
		sb_end_write(hi->lower->i_sb);
}

/* Does the kernel swap to the lower file? It may not change then. */
static inline bool hugemap_swaps_lower(const struct hugemap_inode *hi)
{
	return hi->lower && IS_SWAPFILE(hi->lower);
}

/* Is the file longer than the lower one, until it is written back? */
static inline bool hugemap_is_growing(const struct hugemap_inode *hi)
{
	return hi->lower && i_size_read(hi->lower) < i_size_read(&hi->vfs_inode);
}

/**
 * hugemap_change_lower() - the lower file changes without the cache
 * @inode: the upper inode; i_rwsem is held for writing, and so is freeze protection
 *	below: hugemap_start_write_lower() or mnt_want_write()
 * @start: first byte that changes
 * @end: the byte after the last one; LLONG_MAX for "to the end, and the size"
 * @what: see enum hugemap_change
 * @change: makes the change below; 0 or -errno, or a positive count of bytes
 * @arg: for @change
 *
 * No fill, fault or write-back of the file runs meanwhile. What was cached of
 * the range is dropped after @change succeeded, and the size of the upper inode
 * follows the lower one's. If it failed, nothing is lost. For truncate, punch
 * and zero range, collapse and insert, direct I/O, clone and copy below.
 *
 * Return: what @change returned, or -errno.
 */
ssize_t hugemap_change_lower(struct inode *inode, loff_t start, loff_t end,
			     enum hugemap_change what, ssize_t (*change)(void *arg), void *arg);

/* --- sysfs.c ------------------------------------------------------------------ */

int hugemap_sysfs_init(void);
void hugemap_sysfs_exit(void);
int hugemap_sysfs_add(struct hugemap_mount *mount);
void hugemap_sysfs_remove(struct hugemap_mount *mount);

#endif /* HUGEMAP_H_KERNEL */
