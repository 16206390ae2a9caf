/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * All differences between the kernels that the module supports. The probes in kernel/compat/probes/
 * detect which functions a kernel has; no code checks its version.
 */
#ifndef HUGEMAP_COMPAT_H
#define HUGEMAP_COMPAT_H

#include <linux/blkdev.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/mount.h>
#include <linux/namei.h>
#include <linux/sched/mm.h>
#include <linux/shrinker.h>
#include <linux/slab.h>
#include <linux/swap.h>

#include "probed.h"

#ifdef HUGEMAP_HAVE_FILELOCK_H
#include <linux/filelock.h>
#endif

/* Since 6.17 a per-CPU workqueue must be requested by a flag. */
#ifdef HUGEMAP_HAVE_WQ_PERCPU
#define HUGEMAP_WQ_PERCPU WQ_PERCPU
#else
#define HUGEMAP_WQ_PERCPU 0
#endif

/* --- memory management ------------------------------------------------------ */

static inline void hugemap_release_fault_lock(struct vm_fault *vmf)
{
#ifdef HUGEMAP_HAVE_RELEASE_FAULT_LOCK
	release_fault_lock(vmf);
#else
	mmap_read_unlock(vmf->vma->vm_mm);
#endif
}

/* The caller is ->mmap(), which holds mmap_lock for writing. */
static inline void hugemap_vm_flags_set(struct vm_area_struct *vma, vm_flags_t flags)
{
#ifdef HUGEMAP_HAVE_VM_FLAGS_SET
	vm_flags_set(vma, flags);
#else
	vma->vm_flags |= flags;
#endif
}

static inline pmd_t hugemap_pmd_mkwrite(pmd_t pmd)
{
#ifdef HUGEMAP_HAVE_PMD_MKWRITE_NOVMA
	return pmd_mkwrite_novma(pmd);
#else
	return pmd_mkwrite(pmd);
#endif
}

/* True if userfaultfd tracks stores to the range, or since 7.3 all accesses. */
static inline bool hugemap_pmd_uffd(pmd_t pmd)
{
#ifdef HUGEMAP_HAVE_PMD_UFFD
	return pmd_uffd(pmd);
#else
	return pmd_uffd_wp(pmd);
#endif
}

/*
 * Before 6.7 a block device that has read into a compound page does not set it dirty. So a
 * unit that is still pinned after its write-back counts as dirty.
 */
#ifdef HUGEMAP_HAVE_SHRINKER_ALLOC /* of 6.7 as well */
#define HUGEMAP_FORGETS_DIRTY 0
#else
#define HUGEMAP_FORGETS_DIRTY 1
#endif

/*
 * Whether a page table stays until mm has mapped the page of a store: see mm/page_table.c. Since
 * 6.14 madvise(2) may free an empty page table without the folio lock, and then mm maps the whole
 * block writable.
 */
#define HUGEMAP_TABLES_STAY !IS_ENABLED(CONFIG_PT_RECLAIM)

/* Remove a locked folio from i_pages that mm has put there and that was not read. */
static inline void hugemap_remove_folio(struct address_space *mapping, struct folio *folio)
{
#ifdef HUGEMAP_HAVE_ERROR_REMOVE_FOLIO
	generic_error_remove_folio(mapping, folio);
#else
	generic_error_remove_page(mapping, &folio->page);
#endif
}

typedef unsigned long hugemap_shrink_t(struct shrinker *shrinker, struct shrink_control *sc);

#ifdef HUGEMAP_HAVE_SHRINKER_ALLOC
static inline void *hugemap_shrinker_data(const struct shrinker *shrinker)
{
	return shrinker->private_data;
}

/* Allocate a shrinker. @batch: the pages that one call scans. Return NULL if memory is short. */
static inline struct shrinker *hugemap_shrinker_new(void *data, long batch, hugemap_shrink_t *count,
						    hugemap_shrink_t *scan, const char *name)
{
	struct shrinker *shrinker = shrinker_alloc(0, "hugemap:%s", name);

	if (!shrinker)
		return NULL;
	shrinker->count_objects = count;
	shrinker->scan_objects = scan;
	shrinker->batch = batch;
	shrinker->private_data = data;
	shrinker_register(shrinker);
	return shrinker;
}

/* After the return the shrinker does not run and is not called again. */
static inline void hugemap_shrinker_free(struct shrinker *shrinker)
{
	shrinker_free(shrinker);
}
#else
struct hugemap_shrinker {
	struct shrinker shrinker;
	void *data;
};

static inline void *hugemap_shrinker_data(struct shrinker *shrinker)
{
	return container_of(shrinker, struct hugemap_shrinker, shrinker)->data;
}

static inline struct shrinker *hugemap_shrinker_new(void *data, long batch, hugemap_shrink_t *count,
						    hugemap_shrink_t *scan, const char *name)
{
	struct hugemap_shrinker *new = kzalloc(sizeof(*new), GFP_KERNEL);

	if (!new)
		return NULL;
	new->data = data;
	new->shrinker.count_objects = count;
	new->shrinker.scan_objects = scan;
	new->shrinker.batch = batch;
	new->shrinker.seeks = DEFAULT_SEEKS;
	if (register_shrinker(&new->shrinker, "hugemap:%s", name)) {
		kfree(new);
		return NULL;
	}
	return &new->shrinker;
}

static inline void hugemap_shrinker_free(struct shrinker *shrinker)
{
	unregister_shrinker(shrinker);
	kfree(container_of(shrinker, struct hugemap_shrinker, shrinker));
}
#endif

/* Add pages that a shrinker freed to the count of the reclaiming task. */
static inline void hugemap_account_reclaimed(unsigned long pages)
{
#ifdef HUGEMAP_HAVE_ACCOUNT_RECLAIMED
	mm_account_reclaimed_pages(pages);
#else
	if (current->reclaim_state)
		current->reclaim_state->reclaimed_slab += pages;
#endif
}

/* Change the size of a lower file. The caller has write access to it. */
static inline int hugemap_resize_lower(struct file *lower, loff_t size)
{
	struct iattr attr = { .ia_valid = ATTR_SIZE | ATTR_FILE,
			      .ia_size = size,
			      .ia_file = lower };
	struct dentry *dentry = lower->f_path.dentry;
	int err;

	inode_lock(d_inode(dentry));
#ifdef HUGEMAP_HAVE_MNT_IDMAP
	err = notify_change(file_mnt_idmap(lower), dentry, &attr, NULL);
#else
	err = notify_change(file_mnt_user_ns(lower), dentry, &attr, NULL);
#endif
	inode_unlock(d_inode(dentry));
	return err;
}

/*
 * True if the lower file system or device may compute checksums of the data while it is written,
 * so that the data must be stable. btrfs does not declare this for direct I/O, nor do file systems
 * that sign the data for a server.
 */
static inline bool hugemap_wants_stable(struct file *lower)
{
	struct inode *inode = lower->f_mapping->host;
	const struct super_block *sb;

	if (S_ISBLK(inode->i_mode))
		return bdev_stable_writes(I_BDEV(inode));
	/* An overlayfs file that is open for writing is in the upper layer. */
	sb = d_real_inode(lower->f_path.dentry)->i_sb;
	return sb->s_iflags & SB_I_STABLE_WRITES || sb->s_magic == BTRFS_SUPER_MAGIC ||
	       (!sb->s_bdev && sb->s_magic != TMPFS_MAGIC);
}

/* --- the name space --------------------------------------------------------- */

/* The user id map of a mount: struct hugemap_idmap. */
#ifdef HUGEMAP_HAVE_MNT_IDMAP
#define hugemap_idmap mnt_idmap
#else
#define hugemap_idmap user_namespace
#endif

static inline struct hugemap_idmap *hugemap_idmap_of(const struct vfsmount *mnt)
{
#ifdef HUGEMAP_HAVE_MNT_IDMAP
	return mnt_idmap(mnt);
#else
	return mnt_user_ns(mnt);
#endif
}

#ifdef HUGEMAP_HAVE_FILE_KATTR
#define hugemap_fileattr file_kattr
#else
#define hugemap_fileattr fileattr
#endif

#ifdef HUGEMAP_HAVE_XATTR_CONST
#define HUGEMAP_XATTR_CONST const
#else
#define HUGEMAP_XATTR_CONST
#endif

#ifdef HUGEMAP_HAVE_COPY_SPLICE_READ
#define hugemap_splice_read copy_splice_read
#else
#define hugemap_splice_read generic_file_splice_read
#endif

static inline bool hugemap_inode_is_new(struct inode *inode)
{
#ifdef HUGEMAP_HAVE_INODE_STATE
	return inode_state_read_once(inode) & I_NEW;
#else
	return inode->i_state & I_NEW;
#endif
}

static inline void hugemap_set_dentry_ops(struct super_block *sb,
					  const struct dentry_operations *ops)
{
#ifdef HUGEMAP_HAVE_SET_DEFAULT_D_OP
	set_default_d_op(sb, ops);
#else
	sb->s_d_op = ops;
#endif
}

static inline int hugemap_revalidate_lower(struct dentry *dentry, struct inode *dir,
					   const struct qstr *name, unsigned int flags)
{
#ifdef HUGEMAP_HAVE_REVALIDATE_NAME
	return dentry->d_op->d_revalidate(dir, name, dentry, flags);
#else
	return dentry->d_op->d_revalidate(dentry, flags);
#endif
}

/* Set all times of a new inode to the current time. */
static inline void hugemap_init_times(struct inode *inode)
{
#ifdef HUGEMAP_HAVE_INODE_TIME_FIELDS
	inode->i_atime = current_time(inode);
	inode->i_mtime = inode->i_atime;
	inode->i_ctime = inode->i_atime;
#else
	simple_inode_init_ts(inode);
#endif
}

/* Set mtime and ctime, as a store to a mapping does. Takes no locks. */
static inline int hugemap_lower_changed(struct inode *inode)
{
#if defined(HUGEMAP_HAVE_UPDATE_TIME_TYPE)
	/* inode_update_time() of these kernels only sets the fields of the inode. */
	if (inode->i_op->update_time)
		return inode->i_op->update_time(inode, FS_UPD_CMTIME, 0);
	return generic_update_time(inode, FS_UPD_CMTIME, 0);
#elif defined(HUGEMAP_HAVE_UPDATE_TIME_FLAGS)
	return inode_update_time(inode, S_MTIME | S_CTIME | S_VERSION);
#else
	struct timespec64 now = current_time(inode);

	return inode_update_time(inode, &now, S_MTIME | S_CTIME | S_VERSION);
#endif
}

static inline struct file *hugemap_tmpfile_lower(struct hugemap_idmap *idmap,
						 const struct path *parent, umode_t mode, int flags)
{
#ifdef HUGEMAP_HAVE_KERNEL_TMPFILE_OPEN
	return kernel_tmpfile_open(idmap, parent, mode, flags, current_cred());
#else
	return vfs_tmpfile_open(idmap, parent, mode, flags, current_cred());
#endif
}

static inline struct dentry *hugemap_lookup_lower(struct hugemap_idmap *idmap,
						  const struct qstr *name, struct dentry *parent)
{
#ifdef HUGEMAP_HAVE_LOOKUP_QSTR
	return lookup_one_unlocked(idmap, &QSTR_LEN(name->name, name->len), parent);
#else
	return lookup_one_unlocked(idmap, name->name, parent, name->len);
#endif
}

/* Look a name up in a directory that is locked. */
static inline struct dentry *hugemap_lookup_locked(struct hugemap_idmap *idmap,
						   const struct qstr *name, struct dentry *parent)
{
#ifdef HUGEMAP_HAVE_LOOKUP_QSTR
	return lookup_one(idmap, &QSTR_LEN(name->name, name->len), parent);
#else
	return lookup_one(idmap, name->name, parent, name->len);
#endif
}

/*
 * Lock a lower directory and look a name up, before a change. The dentry may be negative.
 * hugemap_end_naming() drops it and unlocks the directory.
 */
static inline struct dentry *hugemap_start_naming(struct hugemap_idmap *idmap,
						  struct dentry *parent, const struct qstr *name)
{
#ifdef HUGEMAP_HAVE_START_CREATING
	return start_creating(idmap, parent, &QSTR_LEN(name->name, name->len));
#else
	struct inode *dir = d_inode(parent);
	struct dentry *dentry;

	inode_lock_nested(dir, I_MUTEX_PARENT);
	dentry = hugemap_lookup_locked(idmap, name, parent);
	if (IS_ERR(dentry))
		inode_unlock(dir);
	return dentry;
#endif
}

static inline void hugemap_end_naming(struct dentry *parent, struct dentry *dentry)
{
#ifdef HUGEMAP_HAVE_START_CREATING
	end_creating(dentry);
#else
	dput(dentry);
	inode_unlock(d_inode(parent));
#endif
}

static inline int hugemap_create_lower(struct hugemap_idmap *idmap, struct dentry *parent,
				       struct dentry *dentry, umode_t mode)
{
#ifdef HUGEMAP_HAVE_DELEGATED_INODE
	return vfs_create(idmap, dentry, mode, NULL);
#else
	return vfs_create(idmap, d_inode(parent), dentry, mode, true);
#endif
}

static inline int hugemap_mknod_lower(struct hugemap_idmap *idmap, struct dentry *parent,
				      struct dentry *dentry, umode_t mode, dev_t dev)
{
#ifdef HUGEMAP_HAVE_DELEGATED_INODE
	return vfs_mknod(idmap, d_inode(parent), dentry, mode, dev, NULL);
#else
	return vfs_mknod(idmap, d_inode(parent), dentry, mode, dev);
#endif
}

static inline int hugemap_symlink_lower(struct hugemap_idmap *idmap, struct dentry *parent,
					struct dentry *dentry, const char *target)
{
#ifdef HUGEMAP_HAVE_DELEGATED_INODE
	return vfs_symlink(idmap, d_inode(parent), dentry, target, NULL);
#else
	return vfs_symlink(idmap, d_inode(parent), dentry, target);
#endif
}

/* Returns the dentry of the new directory. On failure it has called hugemap_end_naming(). */
static inline struct dentry *hugemap_mkdir_lower(struct hugemap_idmap *idmap, struct dentry *parent,
						 struct dentry *dentry, umode_t mode)
{
#ifdef HUGEMAP_HAVE_DELEGATED_INODE
	return vfs_mkdir(idmap, d_inode(parent), dentry, mode, NULL);
#elif defined(HUGEMAP_HAVE_MKDIR_DENTRY)
	dentry = vfs_mkdir(idmap, d_inode(parent), dentry, mode);
	if (IS_ERR(dentry))
		inode_unlock(d_inode(parent));
	return dentry;
#else
	int err = vfs_mkdir(idmap, d_inode(parent), dentry, mode);

	if (!err)
		return dentry;
	hugemap_end_naming(parent, dentry);
	return ERR_PTR(err);
#endif
}

static inline int hugemap_rmdir_lower(struct hugemap_idmap *idmap, struct dentry *parent,
				      struct dentry *dentry)
{
#ifdef HUGEMAP_HAVE_DELEGATED_INODE
	return vfs_rmdir(idmap, d_inode(parent), dentry, NULL);
#else
	return vfs_rmdir(idmap, d_inode(parent), dentry);
#endif
}

/* Lock two directories and look one name up in each. @rename receives the dentries. */
static inline int hugemap_start_renaming(struct renamedata *rename, struct hugemap_idmap *idmap,
					 struct dentry *old_parent, const struct qstr *old_name,
					 struct dentry *new_parent, const struct qstr *new_name)
{
#ifdef HUGEMAP_HAVE_START_CREATING
	rename->mnt_idmap = idmap;
	rename->old_parent = old_parent;
	rename->new_parent = new_parent;
	return start_renaming(rename, 0, &QSTR_LEN(old_name->name, old_name->len),
			      &QSTR_LEN(new_name->name, new_name->len));
#else
	struct dentry *trap = lock_rename(old_parent, new_parent);
	struct dentry *old, *new = NULL;
	int err;

	if (IS_ERR(trap))
		return PTR_ERR(trap);
	old = hugemap_lookup_locked(idmap, old_name, old_parent);
	if (!IS_ERR(old))
		new = hugemap_lookup_locked(idmap, new_name, new_parent);
	err = PTR_ERR_OR_ZERO(old) ?: PTR_ERR_OR_ZERO(new);
	if (!err && old == trap)
		err = -EINVAL;
	if (!err && new == trap)
		err = rename->flags & RENAME_EXCHANGE ? -EINVAL : -ENOTEMPTY;
	if (err) {
		if (!IS_ERR_OR_NULL(new))
			dput(new);
		if (!IS_ERR(old))
			dput(old);
		unlock_rename(old_parent, new_parent);
		return err;
	}
#if defined(HUGEMAP_HAVE_RENAME_ONE_IDMAP)
	rename->mnt_idmap = idmap;
#elif defined(HUGEMAP_HAVE_MNT_IDMAP)
	rename->old_mnt_idmap = idmap;
	rename->new_mnt_idmap = idmap;
#else
	rename->old_mnt_userns = idmap;
	rename->new_mnt_userns = idmap;
#endif
#ifdef HUGEMAP_HAVE_RENAME_PARENTS
	rename->old_parent = old_parent;
	rename->new_parent = new_parent;
#else
	rename->old_dir = d_inode(old_parent);
	rename->new_dir = d_inode(new_parent);
#endif
	rename->old_dentry = old;
	rename->new_dentry = new;
	return 0;
#endif
}

static inline void hugemap_end_renaming(struct renamedata *rename, struct dentry *old_parent,
					struct dentry *new_parent)
{
#ifdef HUGEMAP_HAVE_START_CREATING
	end_renaming(rename);
#else
	dput(rename->new_dentry);
	dput(rename->old_dentry);
	unlock_rename(old_parent, new_parent);
#endif
}

#endif /* HUGEMAP_COMPAT_H */
