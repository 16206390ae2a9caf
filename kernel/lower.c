// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Open lower files and directories, and copy attributes between lower and upper inodes. */
#include <linux/cred.h>
#include <linux/fs.h>
#include <linux/fs_stack.h>

#include "compat/compat.h"
#include "hugemap.h"

/* The flags of a lower inode that the VFS checks on the upper one. */
#define COPIED_FLAGS (S_SYNC | S_IMMUTABLE | S_APPEND | S_NOATIME | S_DIRSYNC)

struct file *hugemap_open_lower(const struct hugemap_mount *mount, const struct path *path,
				int flags)
{
	const struct cred *old = override_creds(mount->cred);
	struct file *file = dentry_open(path, flags | O_LARGEFILE, mount->cred);

	revert_creds(old);
	return file;
}

#ifdef __FMODE_NONOTIFY
#define O_QUIET __FMODE_NONOTIFY

static void lower_keep_quiet(struct file *file)
{
	/* No listener approves writes, and events that report writes remain enabled. */
	if (file->f_mode & FMODE_WRITE)
		file->f_mode &= ~FMODE_NONOTIFY;
}
#else
/* Since 6.14 a module can suppress the events of reads, but not that of the open itself. */
#define O_QUIET 0

static void lower_keep_quiet(struct file *file)
{
	/* A hierarchical storage manager must see each read, to fetch the file's content first. */
	if (FMODE_FSNOTIFY_HSM(file->f_mode))
		file->f_mode |= FMODE_NONOTIFY | FMODE_NONOTIFY_PERM;
	else if (!FMODE_FSNOTIFY_NONE(file->f_mode))
		file->f_mode = (file->f_mode & ~FMODE_NONOTIFY) | FMODE_NONOTIFY_PERM;
}
#endif

struct file *hugemap_open_quietly(const struct hugemap_mount *mount, const struct path *path,
				  int flags)
{
	struct file *file = hugemap_open_lower(mount, path, flags | O_QUIET);

	if (!IS_ERR(file))
		lower_keep_quiet(file);
	return file;
}

bool hugemap_sets_id(umode_t mode)
{
	return S_ISREG(mode) && mode & (S_ISUID | S_ISGID);
}

/*
 * chown(2) of the lower file sets the owner first and clears the set-id bits later. Hold the lower
 * i_rwsem, so that the copy does not combine the new owner with the old set-id bits.
 */
void hugemap_copy_owner(struct inode *inode)
{
	struct inode *lower = hugemap_inode(inode)->lower;
	umode_t mode = READ_ONCE(lower->i_mode);
	bool set_id = hugemap_sets_id(mode);

	if (set_id) {
		inode_lock_shared(lower);
		mode = lower->i_mode;
	}
	inode->i_mode = mode;
	inode->i_uid = lower->i_uid;
	inode->i_gid = lower->i_gid;
	if (set_id)
		inode_unlock_shared(lower);
}

void hugemap_copy_flags(struct inode *inode)
{
	const struct inode *lower = hugemap_inode(inode)->lower;
	unsigned int flags;

	if (!lower)
		return;
	flags = READ_ONCE(lower->i_flags) & COPIED_FLAGS;
	if ((READ_ONCE(inode->i_flags) & COPIED_FLAGS) != flags)
		inode_set_flags(inode, flags, COPIED_FLAGS);
}

int hugemap_tell_change(struct inode *inode)
{
	struct inode *lower = hugemap_inode(inode)->lower;
	int err = hugemap_lower_changed(lower);

	fsstack_copy_attr_times(inode, lower);
	return err;
}

void hugemap_tell_late_change(struct inode *inode)
{
	struct hugemap_inode *hi = hugemap_inode(inode);

	if (!READ_ONCE(hi->times_update_pending))
		return;
	WRITE_ONCE(hi->times_update_pending, false);
	hugemap_tell_change(inode);
}

/*
 * set_nlink() updates the super block's count of inodes without names by comparing the old and the
 * new link count. Two concurrent calls for one inode, as by two lookups of a name that was removed
 * from the lower directory, would count it twice. i_lock prevents that.
 */
void hugemap_set_nlink(struct inode *inode, unsigned int nlink)
{
	spin_lock(&inode->i_lock);
	set_nlink(inode, nlink);
	spin_unlock(&inode->i_lock);
}

/*
 * If the lower file system does not count links, report one for an inode in use. With a link count
 * of 0, the last iput(), which memory reclaim may call, would evict the inode at once and wait for
 * write-back. And the VFS would refuse to make the mount read-only.
 */
static unsigned int lower_names_of(const struct hugemap_inode *hi)
{
	return hi->gone ? 0 : hi->lower->i_nlink ?: hi->uncounted;
}

void hugemap_copy_times(struct inode *inode)
{
	fsstack_copy_attr_times(inode, hugemap_inode(inode)->lower);
}

void hugemap_copy_attr(struct inode *inode)
{
	struct inode *lower = hugemap_inode(inode)->lower;

	hugemap_copy_owner(inode);
	fsstack_copy_attr_times(inode, lower);
	inode->i_blkbits = lower->i_blkbits;
	hugemap_copy_flags(inode);
	hugemap_set_nlink(inode, lower_names_of(hugemap_inode(inode)));
	if (!S_ISREG(inode->i_mode))
		i_size_write(inode, i_size_read(lower));
}
