/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The model's VFS: inodes, open files, their pages, and iterators over all kinds of memory.
 * And a lower file system on a disk that reorders writes, fails and loses power.
 */
#ifndef SIM_KERNEL_FS_H
#define SIM_KERNEL_FS_H

#include "mm.h"

#define MAX_FILE_WORDS (MAX_FILE_PAGES * WORDS)

/* --- inodes and files ------------------------------------------------------------------- */

struct xarray {
	struct folio *slot[MAX_FILE_PAGES]; /* written under the lock, read without it */
	spinlock_t lock;
};

struct address_space_operations {
	bool (*dirty_folio)(struct address_space *mapping, struct folio *folio);
};

/* foreign_folio() does the work of ->read_folio. */
extern const struct address_space_operations hugemap_aops;

struct address_space {
	struct inode *host;
	const struct address_space_operations *a_ops;
	struct xarray i_pages;
	unsigned long nrpages; /* foreign folios only */
	struct rw_semaphore invalidate_lock, i_mmap_rwsem;
	atomic_t i_mmap_writable;
	u32 wb_seq; /* errors of write-back so far */
	int wb_err;
};

struct xa_state {
	struct xarray *xa;
	u64 index;
	u32 order;
	int err;
};

#define XA_STATE(name, array, i) struct xa_state name = { .xa = (array), .index = (i) }
#define XA_STATE_ORDER(name, array, i, o) \
	struct xa_state name = { .xa = (array), .index = (i), .order = (o) }
#define xas_lock_irq(xas) spin_lock(&(xas)->xa->lock)
#define xas_unlock_irq(xas) spin_unlock(&(xas)->xa->lock)
#define xas_set(xas, i) ((xas)->index = (i))
#define xas_set_order(xas, i, o) ((xas)->index = (i), (xas)->order = (o))
#define xas_error(xas) ((xas)->err)
void *xas_find_conflict(const struct xa_state *xas);
bool xas_nomem(struct xa_state *xas, gfp_t gfp);
void *xas_store(struct xa_state *xas, void *entry);
/*
 * The kernel reads an uncached page, as for a build id: it inserts a foreign folio, gets an error
 * from ->read_folio, and removes the folio.
 */
void foreign_folio(struct inode *inode, u64 index);

struct inode;
struct super_block;

struct super_operations {
	struct inode *(*alloc_inode)(struct super_block *sb);
	void (*destroy_inode)(struct inode *inode);
	void (*evict_inode)(struct inode *inode);
};

struct super_block {
	const struct super_operations *s_op; /* not of the lower file system */
	unsigned long s_magic;
	loff_t s_maxbytes;
	void *s_fs_info;
	dev_t s_dev;
	char s_id[32];
	struct {
		int frozen;
	} s_writers;
};

#define SB_UNFROZEN 0
#define S_IMMUTABLE 1
#define S_APPEND 2
#define IS_IMMUTABLE(inode) ((inode)->i_flags & S_IMMUTABLE)
#define IS_APPEND(inode) ((inode)->i_flags & S_APPEND)
#define IS_SWAPFILE(inode) ((void)(inode), false)
#define sb_rdonly(sb) ((void)(sb), false)

struct fiemap_extent_info {
	u32 fi_extents_mapped;
};

struct inode_operations {
	int (*fiemap)(struct inode *inode, struct fiemap_extent_info *info, u64 start, u64 len);
};

struct inode {
	const struct inode_operations *i_op; /* lower files only */
	struct super_block *i_sb;
	struct rcu_head i_rcu;
	struct address_space *i_mapping;
	struct address_space i_data;
	struct rw_semaphore i_rwsem;
	atomic_t i_count;
	bool is_new; /* I_NEW */
	bool hashed;
	bool freeing; /* I_FREEING: igrab() fails */
	u64 i_ino;
	u32 i_generation;
	unsigned int i_nlink;
	umode_t i_mode;
	u32 i_flags;
	loff_t i_size;
};

struct vfsmount;
struct dentry;
struct cred;

struct path {
	struct vfsmount *mnt;
	struct dentry *dentry;
};

struct file_ra_state {
	pgoff_t start;
	u32 size, ra_pages;
};

struct kiocb;
struct iov_iter;
struct disk_file;

typedef void *fl_owner_t;

/* Operations that the model does not call have no type. */
struct file_operations {
	void *owner, *splice_read, *splice_write, *get_unmapped_area, *compat_ioctl, *setlease;
	int (*open)(struct inode *inode, struct file *file);
	int (*release)(struct inode *inode, struct file *file);
	int (*flush)(struct file *file, fl_owner_t id);
	loff_t (*llseek)(struct file *file, loff_t offset, int whence);
	ssize_t (*read_iter)(struct kiocb *iocb, struct iov_iter *to);
	ssize_t (*write_iter)(struct kiocb *iocb, struct iov_iter *from);
	int (*mmap)(struct file *file, struct vm_area_struct *vma);
	int (*fsync)(struct file *file, loff_t start, loff_t end, int datasync);
	long (*fallocate)(struct file *file, int mode, loff_t offset, loff_t length);
	loff_t (*remap_file_range)(struct file *in, loff_t from, struct file *out, loff_t to,
				   loff_t length, unsigned int flags);
	int (*fadvise)(struct file *file, loff_t start, loff_t length, int advice);
	long (*unlocked_ioctl)(struct file *file, unsigned int cmd, unsigned long arg);
};

struct file {
	struct inode *f_inode;
	struct address_space *f_mapping;
	const struct file_operations *f_op;
	struct path f_path;
	struct file_ra_state f_ra;
	spinlock_t f_lock; /* f_mode */
	fmode_t f_mode;
	u32 f_flags;
	u32 wb_seen;
	atomic_t refs;
	void *private_data;
	struct disk_file *disk; /* lower files only */
};

struct kiocb {
	struct file *ki_filp;
	loff_t ki_pos;
	void (*ki_complete)(struct kiocb *iocb, long result);
	int ki_flags;
};

struct bio_vec {
	struct page *bv_page;
	u32 bv_len, bv_offset;
};

struct kvec {
	void *iov_base;
	size_t iov_len;
};

#define FMODE_READ 1u
#define FMODE_WRITE 2u
#define FMODE_RANDOM 4u
#define FMODE_CAN_ODIRECT 8u
#define FMODE_NOCMTIME 16u
#define FMODE_NOWAIT 32u
#ifndef O_NOATIME
#define O_RDONLY 0
#define O_RDWR 2
#define O_LARGEFILE 0
#define O_NOATIME 0
#endif
#ifndef O_CREAT
#define O_CREAT 0100
#define O_EXCL 0200
#define O_NOCTTY 0400
#define O_TRUNC 01000
#endif
#ifndef S_IFREG
#define S_IFREG 0100000
#define S_ISUID 04000
#define S_ISGID 02000
#define S_ISREG(mode) (((mode) & 0170000) == S_IFREG)
#endif
#define IOCB_DIRECT 1
#define IOCB_NOWAIT 2
#define IOCB_WRITE 4
#define IOCB_DSYNC 8
#define IOCB_SYNC 16
#define IOCB_APPEND 32
#define EIOCBQUEUED 529
#ifndef ERESTARTSYS
#define ERESTARTSYS 512
#endif
/* Larger than any file of the model, so that the engine does not check O_LARGEFILE. */
#define MAX_NON_LFS ((1ul << 31) - 1)
#define SEEK_SET 0
#define SEEK_DATA 3
#define SEEK_HOLE 4
#define FALLOC_FL_KEEP_SIZE 1
#define FALLOC_FL_PUNCH_HOLE 2
#define FALLOC_FL_COLLAPSE_RANGE 8
#define FALLOC_FL_ZERO_RANGE 16
#define FALLOC_FL_INSERT_RANGE 32
#define FALLOC_FL_UNSHARE_RANGE 64
#define REMAP_FILE_DEDUP 1
#define POSIX_FADV_NORMAL 0
#define POSIX_FADV_RANDOM 1
#define POSIX_FADV_SEQUENTIAL 2
#define POSIX_FADV_WILLNEED 3
#define POSIX_FADV_DONTNEED 4
#define POSIX_FADV_NOREUSE 5
#define check_add_overflow(a, b, sum) __builtin_add_overflow(a, b, sum)

#define file_inode(file) ((file)->f_inode)
#define file_dentry(file) ((file)->f_path.dentry)
#define file_accessed(file) sim_step()
#define file_update_time(file) ((void)(file), sim_step())
struct file *get_file(struct file *file);
void fput(struct file *file);
#define sb_start_pagefault(sb) ((void)(sb))
#define sb_end_pagefault(sb) ((void)(sb))
#define sb_start_write(sb) ((void)(sb))
#define sb_end_write(sb) ((void)(sb))
#define mnt_want_write(mnt) ((void)(mnt), 0)
#define mnt_drop_write(mnt) ((void)(mnt))
#define fsnotify_modify(file) ((void)(file))
#define MAJOR(dev) 0u
#define MINOR(dev) 0u

#define inode_lock(inode) down_write(&(inode)->i_rwsem)
void inode_unlock(struct inode *inode);
bool inode_trylock(struct inode *inode);
#define inode_lock_shared(inode) down_read(&(inode)->i_rwsem)
void inode_unlock_shared(struct inode *inode);
#define i_size_read(inode) READ_ONCE((inode)->i_size)
#define i_size_write(inode, size) WRITE_ONCE((inode)->i_size, size)
#define ihold(inode) atomic_inc(&(inode)->i_count)
struct inode *igrab(struct inode *inode);
void iput(struct inode *inode);
void inode_init(struct inode *inode, struct super_block *sb, u64 ino, loff_t size);
#define inode_init_once(inode) ((void)(inode)) /* inode_init() does it */
#define alloc_inode_sb(sb, cache, gfp) ((void)(sb), kmem_cache_alloc(cache, gfp))
/* Only one task looks up inodes. */
struct inode *iget5_locked(struct super_block *sb, unsigned long hash,
			   int (*test)(struct inode *inode, void *data),
			   int (*set)(struct inode *inode, void *data), void *data);
#define hugemap_inode_is_new(inode) ((inode)->is_new)
void unlock_new_inode(struct inode *inode);
void iget_failed(struct inode *inode);
void inode_evict(struct inode *inode); /* the last reference has been put */
#define truncate_inode_pages_final(mapping) ((void)(mapping))
void clear_inode(struct inode *inode);

#define filemap_invalidate_lock(m) down_write(&(m)->invalidate_lock)
#define filemap_invalidate_unlock(m) up_write(&(m)->invalidate_lock)
#define filemap_invalidate_lock_shared(m) down_read(&(m)->invalidate_lock)
#define filemap_invalidate_unlock_shared(m) up_read(&(m)->invalidate_lock)
#define filemap_invalidate_trylock_shared(m) down_read_trylock(&(m)->invalidate_lock)
#define mapping_set_large_folios(m) ((void)(m))
#define lock_two_nondirectories(a, b) lock_two(a, b)
void lock_two(struct inode *a, struct inode *b);
void unlock_two_nondirectories(struct inode *a, struct inode *b);
bool mapping_empty(const struct address_space *mapping);
void mapping_set_error(struct address_space *mapping, int err);
int file_check_and_advance_wb_err(struct file *file);

ssize_t generic_write_checks(struct kiocb *iocb, struct iov_iter *from);
ssize_t generic_write_sync(struct kiocb *iocb, ssize_t count);
int file_modified(struct file *file);

/* --- iterators --------------------------------------------------------------------------- */

enum iter_type {
	ITER_BVEC, /* folios */
	ITER_KVEC, /* kernel memory, or private memory of a program */
	ITER_MAPPING, /* addresses of a process at which files may be mapped */
};

#define ITER_SOURCE 1
#define ITER_DEST 0

struct transfer;

struct iov_iter {
	enum iter_type type;
	bool nofault;
	size_t at, count; /* bytes done, and left */
	const struct bio_vec *bvec;
	char *base;
	struct mm_struct *mm;
	unsigned long address;
	struct transfer *transfer; /* for model.c: the write that reads from this iterator */
};

#define iov_iter_count(iter) ((iter)->count)
void iov_iter_bvec(struct iov_iter *iter, int direction, const struct bio_vec *bvec, u32 n,
		   size_t bytes);
void iov_iter_kvec(struct iov_iter *iter, int direction, const struct kvec *kvec, u32 n,
		   size_t bytes);
void iov_iter_mapping(struct iov_iter *iter, struct mm_struct *mm, unsigned long address,
		      size_t bytes);
void iov_iter_advance(struct iov_iter *iter, size_t bytes);
void iov_iter_revert(struct iov_iter *iter, size_t bytes);
void iov_iter_truncate(struct iov_iter *iter, u64 bytes);
#define iov_iter_reexpand(iter, bytes) ((void)((iter)->count = (bytes)))
size_t copy_to_iter(const void *from, size_t bytes, struct iov_iter *to);
size_t copy_from_iter(void *to, size_t bytes, struct iov_iter *from);
#define copy_from_iter_nocache(to, bytes, from) copy_from_iter(to, bytes, from)
size_t fault_in_iov_iter_readable(const struct iov_iter *iter, size_t bytes);
size_t fault_in_iov_iter_writeable(const struct iov_iter *iter, size_t bytes);

static inline void bvec_set_page(struct bio_vec *bvec, struct page *page, u32 length, u32 offset)
{
	*bvec = (struct bio_vec){ page, length, offset };
}

/* --- the lower file system ------------------------------------------------------------------- */

#define PENDING 3u /* most values of a word that the write cache of the disk holds */

struct disk_word {
	u64 value; /* the value that a read returns */
	u64 safe; /* a power cut leaves this value, @value or one of @pending */
	u64 pending[PENDING];
	u32 npending;
};

/* A lower block has a page or a quarter of one. */
#define MAX_LOWER_BLOCKS (4 * MAX_FILE_PAGES)

/* A file on the disk. Its inode is initialized again after each power cut. */
struct disk_file {
	struct disk_word word[MAX_FILE_WORDS];
	bool hole[MAX_LOWER_BLOCKS]; /* the block has no data, and SEEK_DATA skips it */
	bool room[MAX_LOWER_BLOCKS]; /* the block is allocated: it has data, or is preallocated */
	loff_t size, safe_size;
	struct inode inode;
	bool ready;
	struct rw_semaphore lock; /* i_rwsem of the lower file */
};

struct file *lower_open(struct disk_file *disk, fmode_t mode);
void lower_flush(struct disk_file *disk);
/* Another user changes the lower file while it is not open. @fresh: the user replaces the file. */
void lower_change(struct disk_file *disk, bool fresh);
void lower_lose_power(struct disk_file *disk);
void lower_main(void *arg); /* coroutine: the disk */
void lower_forget(void); /* drop all I/O in flight */

/* Set the number of free blocks, as if other users allocated or freed space. */
void lower_set_room(u64 blocks);
/* lower_min_room(): the least number of free blocks since the caller's lower_watch_room(). */
void lower_watch_room(void);
u64 lower_min_room(void);
bool lower_may_free_pinned(void);
extern const struct inode_operations lower_extents, lower_no_extents;

static inline void init_sync_kiocb(struct kiocb *iocb, struct file *file)
{
	*iocb = (struct kiocb){ .ki_filp = file };
}

ssize_t vfs_iocb_iter_read(struct file *file, struct kiocb *iocb, struct iov_iter *iter);
loff_t vfs_llseek(struct file *file, loff_t offset, int whence);
#define vfs_setpos(file, at, most) ((at) > (most) ? -EINVAL : (at))
#define generic_file_llseek(file, offset, whence) vfs_setpos(file, offset, MAX_FILE_WORDS)
int vfs_fsync_range(struct file *file, loff_t start, loff_t end, int datasync);
bool hugemap_wants_stable(struct file *lower);
u32 i_blocksize(const struct inode *inode);
int hugemap_resize_lower(struct file *lower, loff_t size);

struct kstatfs {
	u64 f_blocks, f_bavail;
	u32 f_bsize;
};
int vfs_statfs(const struct path *path, struct kstatfs *st);

/* kernel/data/file.c opens the lower files by their path. */
struct file *dentry_open(const struct path *path, int flags, const struct cred *cred);

#endif /* SIM_KERNEL_FS_H */
