/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The declarations that all files of the module share.
 *
 * The module has two halves. The name space (kernel/fs/) represents the lower file system: a
 * directory of another file system, or a block device. The data half (kernel/data/) reads, writes
 * and maps regular files through a pool of 2 MB frames, as the cache core (kernel/cache/) decides.
 * The name space calls only those functions of the data half that are declared under "the data"
 * below. The data half never calls the name space. Both use lower.c.
 *
 * Lock order. A task may take a lock while it holds locks from lines above it:
 *
 *   lock                              protects
 *   --------------------------------  ---------------------------------------------------------
 *   mount->pool_lock                  the size of the pool. A task may allocate memory while it
 *                                     holds this lock, so the shrinker only tries to take it.
 *   inode->i_rwsem (upper inode)      as in every file system
 *   freeze protection of the lower    sb_start_write(): write-back and changes of lower data
 *     file system
 *   mm->mmap_lock or a VMA lock       held by mm around a fault
 *   hi->data->open_lock               the life of a file's lower files
 *   mapping->invalidate_lock          shared: start a fill, allow the first store of a mapping,
 *                                     write back; exclusive: truncate, punch, change the lower
 *                                     file
 *   hi->data->grow_lock               write-back beyond the end of the lower file
 *   hugemap_files_srcu (SRCU)         keeps files that the core returned, and their inodes, in
 *                                     memory. An eviction ends its claims before it leaves the
 *                                     section.
 *   mount->split_lock                 the split of a slot into base pages, and the reverse
 *   locks of the lower file system    held by the lower file system during I/O of this module
 *   folio lock                        the mapping and the content of a folio. A task holds several
 *                                     only for one batch, in file order, and takes all but the
 *                                     first by folio_trylock(). In a section of SRCU it only tries
 *                                     to take the first, too. A promotion also takes the lock of
 *                                     its huge folio, which only a stale lookup may hold, for a
 *                                     moment.
 *   i_pages' xa_lock, page-table locks
 *   spinlocks of the cache core and of struct hugemap_mount
 *
 * The lower file system may fault on a mapping of this file system while it holds its own locks.
 * So a fault releases mmap_lock before it waits for the invalidate_lock, or reads, writes or
 * allocates in the lower file. ->page_mkwrite() cannot release mmap_lock: it only tries to take the
 * invalidate_lock, and calls the lower file system only to update the times. A fault without
 * FAULT_FLAG_ALLOW_RETRY may not release mmap_lock and waits with it: see hugemap_miss().
 *
 * A write extends the upper file at once. Write-back extends the lower file, from its old end on
 * and in file order, when it writes the appended data. So no reader finds zeros in place of
 * appended data, not even after a power cut. A change of the lower file first writes back the
 * appended data: see hugemap_change_lower().
 *
 * The cache core owns the state of a unit. The folio of a cached unit has ->mapping and ->index
 * set, is in the i_pages of the upper inode, and is on no LRU list. A task that found a frame
 * through the core takes a reference and the folio lock, and then checks ->mapping and ->index
 * again, as for page-cache folios. A frame is reused only after folio_ref_freeze() under the folio
 * lock, which fails while another task or a device has a reference. A folio that is mapped
 * writable, or that write(2) modified, belongs to a unit that is dirty, or that is under
 * write-back and has been redirtied.
 */
#ifndef HUGEMAP_H_KERNEL
#define HUGEMAP_H_KERNEL

#include <linux/fs.h>
#include <linux/kobject.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/path.h>
#include <linux/rwsem.h>
#include <linux/srcu.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "cache/cache.h"
#include "cache/file.h"
#include "cache/hist.h"
#include "hugemap_ioctl.h"

#define HUGEMAP_WAITS 256u
#define HUGEMAP_POOL_MIN (4ull * HM_BLOCK_SIZE)
#define HUGEMAP_BLOCK_MASK ((u64)HM_BLOCK_PAGES - 1)
/* Counters per file of faults that are mapping a dirty unit; blocks share them. */
#define HUGEMAP_MAPPING_STORES 8
/* Counters per file of tasks in dirty_flag(); blocks share them. */
#define HUGEMAP_FLAGGING 8

struct fs_context;
struct shrinker;

enum hugemap_page {
	HUGEMAP_PAGE_2M,
	HUGEMAP_PAGE_4K,
	HUGEMAP_PAGE_AUTO,
};

/**
 * struct hugemap_options - the options of a mount
 * @pool: size of the pool in bytes, a multiple of 2 MB
 * @pool_min: bytes that the pool keeps under memory pressure, if @pool_min_percent is 0
 * @pool_min_percent: the same, as a percentage of the pool
 * @page: page size of new units
 * @dirty_ratio: percentage of the pool that may be dirty before write-back starts
 * @evict_batch: units that one eviction takes
 * @readahead_kb: the longest read-ahead of a stream, KiB; 0: none
 * @priority: default for files that have no priority of their own: -1 low, 0 normal, 1 high
 * @node: NUMA node of the pool, or NUMA_NO_NODE to spread it over all nodes
 * @read_optimization: read(2) copies a whole unit under one reference
 * @write_optimization: write(2) takes its frames for the whole length at once
 * @util_threshold: page=auto: percentage of a block that must be cached before the block is
 *	promoted; 0: never
 * @promote_interval: page=auto: milliseconds between two searches for blocks to promote
 * @promote_batch: the most blocks that are promoted in such an interval
 * @given: while options are parsed: one bit for each option that was given
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

/*
 * Counters of the module, in addition to those of the cache core (enum hm_counter).
 * include/hugemap_counters.def describes each.
 */
enum hugemap_counter {
#define HUGEMAP_MODULE(id, name, help) HUGEMAP_C_##id,
#define HUGEMAP_MODULE_ONLY(id, help) HUGEMAP_C_##id,
#include "hugemap_counters.def"
	HUGEMAP_COUNTERS,
};

enum hugemap_histogram {
#define HUGEMAP_LATENCY(id, name, help) HUGEMAP_H_##id,
#include "hugemap_counters.def"
	HUGEMAP_HISTOGRAMS,
};

struct hugemap_counts {
	u64 value[HUGEMAP_COUNTERS];
};

/*
 * The lock classes of the fields of the following structs, as in fs/erofs:
 *
 *   I  set before the object is published, or by the mounter; constant until it is torn down
 *   A  accessed with atomic operations, or READ_ONCE() and WRITE_ONCE(), or acquire and release
 *   F  written under mount->files_lock
 *   P  written under mount->pool_lock
 *   S  written under mount->split_lock
 *   H  written under data->open_lock
 *   G  written under data->grow_lock
 *   V  written under mapping->invalidate_lock, held exclusively
 *   R  written under i_rwsem of the upper inode
 *   U  written under sb->s_umount
 *   W  written by the work data->chunk while data->in_chunk is set, by the writer otherwise
 *   -  protects itself (locks, wait queues, kobjects)
 *
 * A field with a lock class and A is read without the lock, too. Other spinlocks are named.
 */

/* The error of a fault that released the fault lock, kept until the task faults again. */
struct hugemap_fault_error {
	const struct task_struct *task;
	u64 pgoff;
	int err;
};

/* A block that a task needs; see data/demand.c. */
struct hugemap_demand_note {
	u64 key; /* of the inode and the block; 0: none */
	unsigned long until; /* jiffies */
};

/*
 * One container of the pool: a PMD-order folio, or 512 base pages. While the slot is offline, its
 * fields change under pool_lock in place of split_lock. A task that has claimed a frame in the
 * cache core may take the frame's memory out of the slot without a lock.
 */
struct hugemap_slot {
	struct folio *huge; /* SA */
	struct page **base; /* SA: table, allocated when the slot is split for the first time */
	bool split; /* S: the memory consists of the pages in @base */
	bool contiguous; /* SA: @base was allocated in one piece, and no page was replaced */
	bool offline; /* P: the slot has no memory; the pool can grow by it */
};

/* A mount: struct super_block.s_fs_info. */
struct hugemap_mount {
	struct super_block *sb; /* I */
	struct hugemap_options opts; /* UPA; @page: I */
	const struct cred *cred; /* I: the mounter's, for I/O on the lower file system */
	struct path lower; /* I: the lower directory; .dentry is NULL over a device */
	errseq_t lower_err; /* mounts_lock (super.c): errors of @lower that syncfs(2) reported */
	dev_t lower_dev; /* I: st_dev of @lower; on btrfs it differs from s_dev */
	struct file *device; /* I: the device, opened with O_EXCL, for all I/O; or NULL */

	/* the name space */
	void (*set_operations)(struct inode *inode); /* I: sets those of a new inode */
	struct list_head mounts; /* mounts_lock (super.c): list of mounts over directories */
	struct inode *disk; /* I: over a device: the only file */
	bool started; /* U: hugemap_data_start() has succeeded */
	bool never_clones; /* A: the lower file system has no reflinks */

	/* the data: the pool */
	struct hm_cache *cache; /* I */
	void *cache_mem; /* I */
	struct hugemap_slot *slots; /* I */
	u32 nslots; /* I: the most that the pool can grow to: twice its size, if the core can */
	u32 noffline; /* PA: slots without memory */
	struct mutex pool_lock; /* - */
	struct mutex split_lock; /* - */
	struct shrinker *shrinker; /* I */
	unsigned long shed_at; /* PA: jiffies of the last time that the pool gave memory back */
	spinlock_t orphan_lock; /* - */
	struct list_head orphans; /* orphan_lock: pinned folios that left the cache: orphan.c */
	u64 orphan_pages; /* orphan_lock, A */

	/* the data: threads and the tasks that wait for them */
	wait_queue_head_t waits[HUGEMAP_WAITS]; /* -: for units, hashed */
	wait_queue_head_t frames_wait; /* -: for free or clean frames */
	struct task_struct *writer; /* I */
	wait_queue_head_t writer_wait; /* - */
	bool write; /* A: there may be dirty units to write */
	struct task_struct *reclaimer; /* I */
	wait_queue_head_t reclaim_wait; /* - */
	bool reclaim; /* A: free frames are short */
	struct task_struct *promoter; /* I: with page=auto only */
	wait_queue_head_t promote_wait; /* - */
	bool promote; /* A: there may be blocks to promote */
	struct hugemap_promotion *promotion; /* I: used by the promoter only */
	atomic_t pressed; /* A: faults that wait for clean frames */
	atomic_t freed; /* A: changes when a frame becomes free or a unit clean */
	unsigned long progress; /* A: jiffies of the last change of @freed */
	struct workqueue_struct *done_wq; /* I: completions of reads without a waiter */
	struct workqueue_struct *ahead_wq; /* I: read-ahead and write-behind for writers */
	struct workqueue_struct *lower_wq; /* I: faults of tasks that may hold lower locks */
	struct workqueue_struct *write_wq; /* I: write-back with a waiter */
	struct workqueue_struct *chunk_wq; /* I: background write-back, one work per file */
	struct workqueue_struct *free_wq; /* I: the memory of evicted files; never waits for I/O */

	/* the data: files */
	spinlock_t files_lock; /* - */
	struct list_head files; /* F, SRCU: hugemap_data.files of cached files, by @nr */
	u64 next_nr; /* FA: hugemap_data.nr of the next file in @files */
	spinlock_t idle_lock; /* - */
	struct list_head idle; /* idle_lock: hugemap_data.idle, inodes to release: evict.c */
	atomic_t dirtied_claimed; /* A: units that became dirty while claimed for eviction */
	atomic_t claimed_again; /* A: those of @dirtied_claimed that were claimed again at once */
	int awaited; /* A: value of @dirtied_claimed at the last hugemap_wait_claims() */

	/* counters and histograms, per CPU */
	struct hugemap_counts __percpu *counts; /* I */
	struct hm_hist __percpu *hist[HUGEMAP_HISTOGRAMS]; /* I */

	/* miss.c */
	spinlock_t fault_error_lock; /* - */
	struct hugemap_fault_error fault_error[64]; /* fault_error_lock; @task: A */

	/* demand.c */
	unsigned long demand_until; /* A: jiffies, when the last note expires */
	struct hugemap_demand_note demand[64]; /* A */

	/* sysfs.c */
	struct kobject kobj; /* - */
	struct completion kobj_gone; /* - */
	bool kobj_added; /* U */
};

/* The part of the inode of a regular file that other inodes do not need: hugemap_inode.data. */
struct hugemap_data {
	struct hugemap_inode *hi; /* I */
	void *file_mem; /* F: memory of hi->hfile */
	struct mutex open_lock; /* - */
	struct file *reader; /* H: lower file, for fills; constant while the file is open */
	struct file *writer; /* HA: lower file, for write-back; NULL before an open for writing */
	struct mutex grow_lock; /* - */
	/*
	 * GA: real end of the lower file after a failed extending write, although its i_size may
	 * be larger. LLONG_MAX: none failed.
	 */
	loff_t growth_failed_at;
	struct list_head files; /* F, SRCU: in mount->files */
	u64 nr; /* I, before it is in mount->files: its place in the order of the list */
	struct list_head idle; /* mount->idle_lock: in mount->idle */
	u32 changes; /* V: changes of the lower file that bypassed the cache */
	/*
	 * H, before @writer is set: data must not change during write-back, because the lower
	 * file system computes checksums.
	 */
	bool stable;
	int priority; /* A */
	/* A: tasks in dirty_flag(), by block: most other blocks stay partly dirty. */
	atomic_t flagging[HUGEMAP_FLAGGING];
	/* A: faults that are mapping a dirty unit without its folio lock. */
	atomic_t mapping_stores[HUGEMAP_MAPPING_STORES];
	/* wait.c: store faults that go before the next change of the lower file. */
	atomic_t stores_waiting; /* A: they wait for the invalidate_lock */
	atomic_t stores_allowed; /* A: they have waited, and mm is going to repeat them */
	unsigned long stores_until; /* A: jiffies; @stores_allowed is valid until then */
	/* overwrite.c: direct writes in progress that hold i_rwsem shared */
	spinlock_t overwrite_lock; /* - */
	struct list_head overwrites; /* overwrite_lock, A: they claim pages */
	atomic_t fills_waiting; /* A: fills that wait for an overwrite */
	/*
	 * overwrite_lock: the lower file held data from @data_start to @data_end when @changes had
	 * the value of @data_changes
	 */
	loff_t data_start, data_end;
	u32 data_changes;
	u32 failures; /* A: write-backs in a row that failed; concurrent updates may be lost */
	unsigned long retry_at; /* A: jiffies; background write-back waits until then */
	u64 write_at; /* W: page at which background write-back continues */
	struct work_struct chunk; /* -: background write-back of one chunk; then the free */
	bool evicting; /* I, before the whole file is invalidated: hugemap_data_free() follows */
	bool in_chunk; /* A: @chunk is queued or runs */
	bool wrote; /* W: the last chunk wrote something */
	u32 runs; /* A: completed runs of write-back; shows that it progresses */
	u32 good_runs; /* A: those of @runs without an error */
};

struct hugemap_inode {
	struct inode vfs_inode;
	struct inode *lower; /* I: NULL over a device */
	/*
	 * FA: cache index; NULL until the first access to the data of a regular file, and always
	 * for others. It is set under the shared invalidate_lock, and stays until the inode is
	 * freed. It is not in @data, so that a fault reads it without another load.
	 */
	struct hm_file *hfile;
	struct hugemap_data *data; /* I: NULL unless the inode is a regular file */
	bool times_update_pending; /* A: changed while the lower fs was frozen; not yet recorded */
	bool gone; /* R: the last known name was removed here, whatever the lower link count is */
	bool uncounted; /* R: the lower file system does not count links: 0 is not "deleted" */
};

static inline struct hugemap_mount *hugemap_mount(const struct super_block *sb)
{
	return sb->s_fs_info;
}

static inline struct hugemap_inode *hugemap_inode(const struct inode *inode)
{
	return container_of(inode, struct hugemap_inode, vfs_inode);
}

static inline atomic_t *hugemap_flagging(struct hugemap_inode *hi, u64 pgoff)
{
	return &hi->data->flagging[(pgoff >> HM_BLOCK_ORDER) % HUGEMAP_FLAGGING];
}

static inline atomic_t *hugemap_mapping_stores(struct hugemap_inode *hi, u64 pgoff)
{
	return &hi->data->mapping_stores[(pgoff >> HM_BLOCK_ORDER) % HUGEMAP_MAPPING_STORES];
}

/**
 * struct hugemap_file - an open file: file->private_data
 * @lower: I: the lower file, with the opener's access mode; NULL over a device
 * @sequential: A: the program gave POSIX_FADV_SEQUENTIAL; f_mode records POSIX_FADV_RANDOM
 */
struct hugemap_file {
	struct file *lower;
	bool sequential;
};

static inline struct file *hugemap_lower_file(const struct file *file)
{
	return ((struct hugemap_file *)file->private_data)->lower;
}

/* --- lower.c: the lower file ------------------------------------------------ */

/*
 * Open a lower file or directory with the mounter's credentials. The VFS has checked the caller's
 * permissions on the upper file. Security modules that confine programs by path (AppArmor,
 * Landlock) have checked the upper path; they would refuse the path in the private mount, which
 * has no meaning to them.
 */
struct file *hugemap_open_lower(const struct hugemap_mount *mount, const struct path *path,
				int flags);

/*
 * Open a lower file for I/O of the module itself, without events for fanotify listeners that
 * approve each open and read. Such a listener may watch both file systems. If its own access
 * caused this I/O, the listener would wait for its own answer. The open files that fanotify
 * gives to a listener cause no events on this file system. Before 6.14 their flags have the same
 * effect on the lower files that hugemap_open_lower() opens for them.
 */
struct file *hugemap_open_quietly(const struct hugemap_mount *mount, const struct path *path,
				  int flags);

/* Copy the times. Takes no lock. */
void hugemap_copy_times(struct inode *inode);
/* Copy all attributes except the size of a regular file: see hugemap_change_lower(). */
void hugemap_copy_attr(struct inode *inode);
void hugemap_set_nlink(struct inode *inode, unsigned int nlink);
/*
 * Copy mode and owner. The caller holds i_rwsem, so that no exec() reads the set-id bits of one
 * owner with the id of another.
 */
void hugemap_copy_owner(struct inode *inode);
/* True if a program of this mode runs as its owner or group. */
bool hugemap_sets_id(umode_t mode);
/* Copy the flags of chattr(1). Takes no lock. */
void hugemap_copy_flags(struct inode *inode);

/*
 * Set the times of the lower file after a store to the upper one. The caller has freeze protection
 * of the lower file system.
 */
int hugemap_tell_change(struct inode *inode);
/* Do so for a store that happened while the lower file system was frozen. */
void hugemap_tell_late_change(struct inode *inode);

static inline void hugemap_count(struct hugemap_mount *mount, enum hugemap_counter counter,
				 u64 delta)
{
	this_cpu_add(mount->counts->value[counter], delta);
}

u64 hugemap_counted(const struct hugemap_mount *mount, enum hugemap_counter counter);

/* The number of I/Os in flight. 0 means that at some time during the call there was none. */
u64 hugemap_in_flight(const struct hugemap_mount *mount);

/* Record a latency. hm_hist_record() is atomic, so the task may move to another CPU during it. */
static inline void hugemap_record(struct hugemap_mount *mount, enum hugemap_histogram histogram,
				  u64 ns)
{
	hm_hist_record(raw_cpu_ptr(mount->hist[histogram]), ns);
}

/* Add the records of all CPUs to a histogram. */
void hugemap_recorded(const struct hugemap_mount *mount, enum hugemap_histogram histogram,
		      struct hm_hist *sum);

/* --- the data, as the name space sees it ------------------------------------ */

/* Called when the module is loaded and unloaded. */
int hugemap_data_setup(void);
void hugemap_data_teardown(void);

/**
 * hugemap_data_start() - allocate the pool, start the threads
 * @mount: @opts, @cred, @sb and @lower or @device are set (the device is a file
 *	from dentry_open() with O_RDWR or O_RDONLY, O_EXCL and O_LARGEFILE)
 * @fc: receives error messages
 */
int hugemap_data_start(struct hugemap_mount *mount, struct fs_context *fc);

/* The bytes of the pool that the shrinker never gives back. */
u64 hugemap_pool_floor(const struct hugemap_options *opts);

/* The current size of the pool in 2 MB slots. Under memory pressure it is below opts.pool. */
static inline u32 hugemap_pool_slots(const struct hugemap_mount *mount)
{
	return mount->nslots - READ_ONCE(mount->noffline);
}

/* Change the options of a mount: all of them, or none if one is refused. */
int hugemap_data_reconfigure(struct hugemap_mount *mount, const struct hugemap_options *opts,
			     struct fs_context *fc);

/* Stop the threads, before generic_shutdown_super(). No data is lost. */
void hugemap_data_quiesce(struct hugemap_mount *mount);

/* Free the pool, after all inodes are gone. May be called if the start failed. */
void hugemap_data_stop(struct hugemap_mount *mount);

/* Write back all dirty units (sync_fs). 0 or the first error. */
int hugemap_data_sync(struct hugemap_mount *mount);

/* Initialize hi->data, which is zeroed, of a new inode before it is visible. */
void hugemap_data_init(struct hugemap_inode *hi);

/*
 * A regular file is being opened; file->private_data is set. Open the lower files that fills and
 * write-back need.
 */
int hugemap_data_open(struct inode *inode, struct file *file);

/*
 * ->evict_inode(). @discard: the file is deleted, so its dirty data is dropped. Otherwise the
 * dirty data is written back first. May sleep for I/O.
 */
void hugemap_data_evict(struct inode *inode, bool discard);

/*
 * Free the memory of the file of an evicted inode, unless its data was never accessed. It takes
 * time in proportion to the number of index nodes, and reschedules in between. The caller has
 * waited for a grace period of hugemap_files_srcu: evictions and the writer look at files, and at
 * their inodes, without a reference.
 */
void hugemap_data_free(struct hugemap_inode *hi);
extern struct srcu_struct hugemap_files_srcu;

ssize_t hugemap_read_iter(struct kiocb *iocb, struct iov_iter *to);
ssize_t hugemap_write_iter(struct kiocb *iocb, struct iov_iter *from);
/* The same under i_rwsem. The caller does the sync for O_SYNC. */
ssize_t hugemap_write_locked(struct kiocb *iocb, struct iov_iter *from);
int hugemap_mmap(struct file *file, struct vm_area_struct *vma);

int hugemap_fsync(struct file *file, loff_t start, loff_t end, int datasync);

/* Write back the dirty units in a range of bytes and wait; no device flush. */
int hugemap_write_back(struct inode *inode, loff_t start, loff_t end);

/*
 * Lower attributes are about to change. The new ones could make write-back fail, or write-back
 * would overwrite them. So write back everything first, and let no program dirty the file until
 * hugemap_resume_writes(). The caller holds i_rwsem and freeze protection of the lower file
 * system. On an error the caller must not call hugemap_resume_writes(). Not for devices.
 */
int hugemap_quiesce_writes(struct inode *inode);
void hugemap_resume_writes(struct inode *inode);

/* Drop clean data in a range unless it is mapped (FADV_DONTNEED); start to read a range. */
void hugemap_data_dontneed(struct inode *inode, loff_t start, loff_t end);
void hugemap_data_willneed(struct file *file, loff_t start, loff_t end);

/* HUGEMAP_IOC_CACHED of an open file. */
long hugemap_cached(struct file *file, void __user *arg);

enum hugemap_change {
	HUGEMAP_KEEP, /* the old data in the range matters: write it back first */
	HUGEMAP_DISCARD, /* the old data does not matter: truncate, punch */
	HUGEMAP_GROW, /* the file becomes longer, by zeros; nothing else changes */
};

/*
 * Freeze protection of the lower file system. It comes before the invalidate_lock, because
 * writers of the lower file system hold it when they fault on a mapping of this one.
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

/* True if the kernel swaps to the lower file, which must not change then. */
static inline bool hugemap_swaps_lower(const struct hugemap_inode *hi)
{
	return hi->lower && IS_SWAPFILE(hi->lower);
}

/* True if the file is longer than the lower one until the appended data is written back. */
static inline bool hugemap_is_growing(const struct hugemap_inode *hi)
{
	return hi->lower && i_size_read(hi->lower) < i_size_read(&hi->vfs_inode);
}

/**
 * hugemap_change_lower() - change the lower file without the cache
 * @inode: the upper inode; the caller holds i_rwsem for writing and freeze protection of the
 *	lower file system: hugemap_start_write_lower() or mnt_want_write()
 * @start: first byte that changes
 * @end: the byte after the last one; LLONG_MAX for "to the end, and the size"
 * @what: see enum hugemap_change
 * @change: changes the lower file; returns 0 or -errno, or a positive count of bytes
 * @arg: for @change
 *
 * No fill, fault or write-back of the file runs at the same time. After @change succeeded, the
 * cached data of the range is dropped, and the upper inode gets the size of the lower one. If
 * @change failed, no data is lost. For truncate, punch, zero range, collapse, insert, direct I/O,
 * clone and copy.
 *
 * Return: the value of @change, or -errno.
 */
ssize_t hugemap_change_lower(struct inode *inode, loff_t start, loff_t end,
			     enum hugemap_change what, ssize_t (*change)(void *arg), void *arg);

/**
 * hugemap_overwrite_lower() - overwrite whole pages of the lower file, beside other overwrites
 * @inode: the upper inode; the caller holds i_rwsem shared, and freeze protection of the lower
 *	file system
 * @start: first byte, at the start of a page
 * @end: the byte after the last one, at the start of a page
 * @change: writes the range; returns a positive count of bytes or -errno
 * @arg: for @change
 *
 * The units of the range leave the cache before @change. Until it returns, fills of these pages and
 * overlapping overwrites wait; all other fills, faults and write-backs go on.
 *
 * Return: the value of @change, or -errno. -EAGAIN: use hugemap_change_lower(), with i_rwsem held
 * for writing, because the range is not allocated or beyond the end, or a page is pinned.
 */
ssize_t hugemap_overwrite_lower(struct inode *inode, loff_t start, loff_t end,
				ssize_t (*change)(void *arg), void *arg);

#endif /* HUGEMAP_H_KERNEL */
