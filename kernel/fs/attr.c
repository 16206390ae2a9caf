// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Attributes and permissions of inodes. The lower inode has the valid ones; the upper inode holds
 * a copy, which is renewed when the VFS is about to read it.
 */
#include <linux/cred.h>
#include <linux/dcache.h>
#include <linux/fcntl.h>
#include <linux/fs.h>
#include <linux/fileattr.h>
#include <linux/fs_stack.h>
#include <linux/magic.h>
#include <linux/mount.h>
#include <linux/stat.h>

#include "namespace.h"

/*
 * exec() holds i_rwsem while it reads mode and owner, so a change of the set-id bits or of the
 * owner of a set-id program needs i_rwsem. Without it, only a mode without set-id bits may be
 * stored: the @mode that was checked, not a second read of lower->i_mode.
 */
void hugemap_follow_owner(struct inode *inode)
{
	const struct inode *lower = hugemap_inode(inode)->lower;
	umode_t mode = READ_ONCE(lower->i_mode);

	if (!hugemap_sets_id(inode->i_mode) && !hugemap_sets_id(mode)) {
		inode->i_mode = mode;
		inode->i_uid = lower->i_uid;
		inode->i_gid = lower->i_gid;
	} else if (inode_trylock(inode)) {
		hugemap_copy_owner(inode);
		inode_unlock(inode);
	} else {
		/*
		 * i_rwsem is contended, possibly by this task: drop the set-id bits until the
		 * next revalidation.
		 */
		inode->i_mode = mode & ~(S_ISUID | S_ISGID);
	}
}

bool hugemap_has_owner_of(const struct inode *inode, const struct inode *lower)
{
	return inode->i_mode == lower->i_mode && uid_eq(inode->i_uid, lower->i_uid) &&
	       gid_eq(inode->i_gid, lower->i_gid);
}

int hugemap_permission(struct hugemap_idmap *idmap, struct inode *inode, int mask)
{
	struct inode *lower = hugemap_inode(inode)->lower;

	/*
	 * The VFS reads the upper mode and owner itself, for setuid programs and sticky
	 * directories, so the copy must be up to date.
	 */
	if (!hugemap_has_owner_of(inode, lower)) {
		if (mask & MAY_NOT_BLOCK)
			return -ECHILD;
		hugemap_follow_owner(inode);
	}
	/* may_open() reads the flags of chattr(1) after this call. */
	hugemap_copy_flags(inode);
	return inode_permission(hugemap_lower_idmap(inode->i_sb), lower, mask);
}

/*
 * Use the mounter's credentials: see hugemap_open_lower(). The VFS has checked that the caller
 * may read the attributes of the upper inode.
 */
static int attr_get_lower(const struct hugemap_mount *mount, const struct path *path,
			  struct kstat *stat, u32 mask, unsigned int flags)
{
	const struct cred *old;
	int err;

#ifdef AT_GETATTR_NOSEC
	if (flags & AT_GETATTR_NOSEC)
		return vfs_getattr_nosec(path, stat, mask, flags & ~AT_GETATTR_NOSEC);
#endif
	old = override_creds(mount->cred);
	err = vfs_getattr(path, stat, mask, flags);
	revert_creds(old);
	return err;
}

/* Hide features that only the lower file has: I/O of the upper one goes through the pool. */
static void attr_hide_features(struct kstat *stat)
{
	stat->attributes &= ~(u64)STATX_ATTR_DAX;
#ifdef STATX_WRITE_ATOMIC
	stat->attributes &= ~(u64)STATX_ATTR_WRITE_ATOMIC;
	stat->result_mask &= ~STATX_WRITE_ATOMIC;
	stat->atomic_write_unit_min = 0;
	stat->atomic_write_unit_max = 0;
	stat->atomic_write_segments_max = 0;
#endif
}

int hugemap_getattr(struct hugemap_idmap *idmap, const struct path *path, struct kstat *stat,
		    u32 mask, unsigned int flags)
{
	struct inode *inode = d_inode(path->dentry);
	const struct hugemap_mount *mount = hugemap_mount(inode->i_sb);
	struct path lower = hugemap_lower_path(path->dentry);
	int err;

	err = attr_get_lower(mount, &lower, stat, mask, flags);
	if (err)
		return err;
	/* btrfs has a device number for each subvolume, which must remain distinct. */
	if (stat->dev == mount->lower_dev || stat->dev == lower.dentry->d_sb->s_dev)
		stat->dev = inode->i_sb->s_dev;
	if (S_ISREG(inode->i_mode)) {
		stat->size = i_size_read(inode);
		attr_hide_features(stat);
	}
	return 0;
}

struct change_attr {
	struct super_block *sb;
	struct dentry *lower;
	struct iattr *attr;
};

static ssize_t attr_change_lower(void *arg)
{
	struct change_attr *change = arg;
	struct inode *inode = d_inode(change->lower);
	int err;

	inode_lock(inode);
	err = notify_change(hugemap_lower_idmap(change->sb), change->lower, change->attr, NULL);
	inode_unlock(inode);
	return err;
}

/*
 * True if write-back through a file with FMODE_NOCMTIME keeps the times of the inode. btrfs
 * checks only the inode's flag, and servers set the times themselves.
 */
static bool attr_keeps_times(const struct super_block *lower)
{
	switch (lower->s_magic) {
	case EXT4_SUPER_MAGIC:
	case XFS_SUPER_MAGIC:
	case F2FS_SUPER_MAGIC:
	case TMPFS_MAGIC:
		return true;
	}
	return false;
}

static int attr_change_settled(struct inode *inode, struct change_attr *change)
{
	int err = hugemap_quiesce_writes(inode);

	if (err)
		return err;
	err = (int)attr_change_lower(change);
	hugemap_resume_writes(inode);
	return err;
}

int hugemap_setattr(struct hugemap_idmap *idmap, struct dentry *dentry, struct iattr *attr)
{
	struct vfsmount *mnt = hugemap_mount(dentry->d_sb)->lower.mnt;
	struct inode *inode = d_inode(dentry);
	struct iattr above = *attr, lower_attr;
	struct change_attr change = { dentry->d_sb, hugemap_lower(dentry), &lower_attr };
	int err;

	hugemap_copy_flags(inode);
	/* ftruncate() has checked the flags before this update. */
	if ((attr->ia_valid & ATTR_SIZE) && IS_APPEND(inode))
		return -EPERM;
	if ((attr->ia_valid & ATTR_SIZE) && hugemap_swaps_lower(hugemap_inode(inode)))
		return -ETXTBSY;
	/*
	 * The lower notify_change() removes the file's capabilities. setattr_prepare() would do
	 * so by xattr_set(), which checks the caller's permission.
	 */
	above.ia_valid &= ~ATTR_KILL_PRIV;
	err = setattr_prepare(idmap, dentry, &above);
	if (err)
		return err;
	lower_attr = above;
	lower_attr.ia_valid |= attr->ia_valid & ATTR_KILL_PRIV;
	/* The lower notify_change() clears the set-id bits itself, and accepts no mode then. */
	if (lower_attr.ia_valid & (ATTR_KILL_SUID | ATTR_KILL_SGID))
		lower_attr.ia_valid &= ~ATTR_MODE;
	/* The lower file was opened without O_TRUNC, so this is a plain truncation. */
	lower_attr.ia_valid &= ~(ATTR_OPEN | ATTR_FILE);
	if ((attr->ia_valid & ATTR_FILE) && S_ISREG(inode->i_mode)) {
		lower_attr.ia_valid |= ATTR_FILE;
		lower_attr.ia_file = hugemap_lower_file(attr->ia_file);
	}
	err = mnt_want_write(mnt);
	if (err)
		return err;
	/* Times of earlier stores must not replace the times that are set now. */
	hugemap_tell_late_change(inode);
	if ((attr->ia_valid & ATTR_SIZE) && S_ISREG(inode->i_mode))
		err = (int)hugemap_change_lower(
			inode, min(i_size_read(inode), attr->ia_size), LLONG_MAX,
			attr->ia_size > i_size_read(inode) ? HUGEMAP_GROW : HUGEMAP_DISCARD,
			attr_change_lower, &change);
	else if ((attr->ia_valid & ATTR_MTIME_SET) && !attr_keeps_times(change.lower->d_sb))
		/* Write back first: a later write-back would replace the mtime. */
		err = attr_change_settled(inode, &change);
	else
		err = (int)attr_change_lower(&change);
	mnt_drop_write(mnt);
	if (!err)
		hugemap_copy_attr(inode);
	return err;
}

static void attr_update_atime(struct inode *inode)
{
	struct inode *lower = hugemap_inode(inode)->lower;
	struct path path = { .mnt = hugemap_mount(inode->i_sb)->lower.mnt };

	path.dentry = d_find_any_alias(lower);
	if (!path.dentry)
		return;
	touch_atime(&path);
	dput(path.dentry);
	fsstack_copy_attr_atime(inode, lower);
}

/*
 * A fault calls this, too, with mmap_lock held, which comes after freeze protection in the lock
 * order. So it must not wait until the lower file system is thawed.
 */
static int attr_update_mtime(struct inode *inode)
{
	struct inode *lower = hugemap_inode(inode)->lower;
	int err;

	if (!sb_start_write_trylock(lower->i_sb)) {
		/* The first write-back after the thaw sets the times. */
		WRITE_ONCE(hugemap_inode(inode)->times_update_pending, true);
		return 0;
	}
	err = hugemap_tell_change(inode);
	sb_end_write(lower->i_sb);
	return err;
}

/*
 * A read or change of the upper file sets the times of the lower one at once. The later write-back
 * does not change them again.
 */
#if defined(HUGEMAP_HAVE_UPDATE_TIME_TYPE)
int hugemap_update_time(struct inode *inode, enum fs_update_time type, unsigned int flags)
{
	if (type == FS_UPD_CMTIME)
		return attr_update_mtime(inode);
#else
#if defined(HUGEMAP_HAVE_UPDATE_TIME_FLAGS)
int hugemap_update_time(struct inode *inode, int flags)
#else
int hugemap_update_time(struct inode *inode, struct timespec64 *time, int flags)
#endif
{
	if (flags & (S_MTIME | S_CTIME))
		return attr_update_mtime(inode);
#endif
	attr_update_atime(inode);
	return 0;
}

int hugemap_fileattr_get(struct dentry *dentry, struct hugemap_fileattr *fa)
{
	return vfs_fileattr_get(hugemap_lower(dentry), fa);
}

int hugemap_fileattr_set(struct hugemap_idmap *idmap, struct dentry *dentry,
			 struct hugemap_fileattr *fa)
{
	struct vfsmount *mnt = hugemap_mount(dentry->d_sb)->lower.mnt;
	struct inode *inode = d_inode(dentry);
	int err = mnt_want_write(mnt);

	if (err)
		return err;
	/* Write-back to an immutable file would fail. */
	err = hugemap_quiesce_writes(inode);
	if (err)
		goto out;
	err = vfs_fileattr_set(hugemap_lower_idmap(dentry->d_sb), hugemap_lower(dentry), fa);
	if (!err)
		hugemap_copy_attr(inode);
	hugemap_resume_writes(inode);
out:
	mnt_drop_write(mnt);
	return err;
}
