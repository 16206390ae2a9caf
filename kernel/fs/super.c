// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* The life of a mount over a directory or a block device. */
#include <linux/blkdev.h>
#include <linux/cred.h>
#include <linux/dcache.h>
#include <linux/errseq.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/fs_context.h>
#include <linux/fs_parser.h>
#include <linux/mount.h>
#include <linux/namei.h>
#include <linux/slab.h>
#include <linux/stat.h>
#include <linux/statfs.h>

#include "namespace.h"

/* The mounts over directories. They must not overlap: two caches of one file would differ. */
static DEFINE_MUTEX(mounts_lock);
static LIST_HEAD(mounts);

/* --- the lower directory or device --------------------------------------------------- */

static int super_refuse_overlap(struct hugemap_mount *mount, struct fs_context *fc)
{
	struct dentry *dir = mount->lower.dentry;
	struct hugemap_mount *other;
	int err = 0;

	mutex_lock(&mounts_lock);
	list_for_each_entry(other, &mounts, mounts) {
		if (!is_subdir(dir, other->lower.dentry) && !is_subdir(other->lower.dentry, dir))
			continue;
		errorfc(fc,
			"%s is mounted already, or contains or lies in a mounted directory: unmount that first, because two caches of one file would differ",
			fc->source);
		err = -EBUSY;
		break;
	}
	if (!err)
		list_add_tail(&mount->mounts, &mounts);
	mutex_unlock(&mounts_lock);
	return err;
}

/* Direct I/O transfers single base pages. */
static int super_check_sectors(struct block_device *bdev, struct fs_context *fc)
{
	if (!bdev || bdev_logical_block_size(bdev) <= HM_PAGE_SIZE)
		return 0;
	return invalfc(fc, "%s has sectors of %u bytes: hugemap supports up to %u bytes",
		       fc->source, bdev_logical_block_size(bdev), HM_PAGE_SIZE);
}

static int super_check_lower(const struct path *path, struct fs_context *fc)
{
	const struct super_block *lower = path->dentry->d_sb;

	if (lower->s_type == fc->fs_type)
		return invalfc(fc, "%s is on a hugemap mount: mount the directory that it caches",
			       fc->source);
	if (lower->s_stack_depth >= FILESYSTEM_MAX_STACK_DEPTH)
		return invalfc(
			fc,
			"%s is on %d stacked file systems already, the most that Linux allows: mount a directory of one of them",
			fc->source, lower->s_stack_depth);
	/* Its setuid programs and capabilities are valid in that user namespace only. */
	if (lower->s_user_ns != &init_user_ns)
		return invalfc(fc, "%s is on a file system that was mounted in a user namespace",
			       fc->source);
	if (is_idmapped_mnt(path->mnt))
		return invalfc(
			fc, "%s is on an id-mapped mount: mount the same directory without the map",
			fc->source);
	if (!(fc->sb_flags & SB_RDONLY) && __mnt_is_readonly(path->mnt)) {
		errorfc(fc, "%s is on a read-only mount: say -o ro, or remount that one with rw",
			fc->source);
		return -EROFS;
	}
	return super_check_sectors(lower->s_bdev, fc);
}

static int super_use_directory(struct super_block *sb, struct fs_context *fc,
			       const struct path *path)
{
	struct hugemap_mount *mount = hugemap_mount(sb);
	struct super_block *lower = path->dentry->d_sb;
	struct vfsmount *mnt;
	struct kstat stat;
	int err;

	err = super_check_lower(path, fc) ?:
		      vfs_getattr(path, &stat, STATX_BASIC_STATS, AT_STATX_SYNC_AS_STAT);
	if (err)
		return err;
	mount->lower_dev = stat.dev;
	/* A private mount: later mounts over it or below it have no effect. */
	mnt = clone_private_mount(path);
	if (IS_ERR(mnt)) {
		errorfc(fc,
			"%s cannot be used from here (error %ld): it must be on a mount of this mount namespace that can be bound",
			fc->source, PTR_ERR(mnt));
		return PTR_ERR(mnt);
	}
	mount->lower = (struct path){ .mnt = mnt, .dentry = dget(path->dentry) };
	mount->lower_err = errseq_sample(&lower->s_wb_err);
	err = super_refuse_overlap(mount, fc);
	if (err)
		return err;

	sb->s_iflags |= lower->s_iflags & (SB_I_NODEV | SB_I_NOEXEC);
#ifdef SB_I_NOUMASK
	/* The server applies the umask, or the default ACL of the directory. */
	sb->s_iflags |= lower->s_iflags & SB_I_NOUMASK;
#endif
	sb->s_stack_depth = lower->s_stack_depth + 1;
	sb->s_maxbytes = min_t(loff_t, lower->s_maxbytes, HM_FILE_BLOCKS_MAX << HM_BLOCK_SHIFT);
	sb->s_blocksize = lower->s_blocksize;
	sb->s_blocksize_bits = lower->s_blocksize_bits;
	sb->s_time_gran = lower->s_time_gran;
	sb->s_time_min = lower->s_time_min;
	sb->s_time_max = lower->s_time_max;
	sb->s_flags |= lower->s_flags &
		       (SB_POSIXACL | SB_NOSEC | SB_NOATIME | SB_NODIRATIME | SB_SYNCHRONOUS);
	if (mnt->mnt_flags & MNT_NOATIME)
		sb->s_flags |= SB_NOATIME;
	sb->s_xattr = hugemap_xattr_handlers;
	hugemap_set_export(sb, lower);
	hugemap_set_dentry_ops(sb, &hugemap_dentry_operations);
	return 0;
}

static int super_use_device(struct super_block *sb, struct fs_context *fc)
{
	struct hugemap_mount *mount = hugemap_mount(sb);
	bool ro = fc->sb_flags & SB_RDONLY;
	struct block_device *bdev;
	struct file *file;
	int err;

	/* O_EXCL on a block device excludes mounts and other exclusive openers. */
	file = filp_open(fc->source, (ro ? O_RDONLY : O_RDWR) | O_EXCL | O_LARGEFILE, 0);
	if (IS_ERR(file)) {
		err = PTR_ERR(file);
		if (err == -EBUSY)
			errorfc(fc,
				"%s is in use: it is mounted, or part of a volume (lsblk shows it)",
				fc->source);
		else if (err == -EROFS || err == -EACCES)
			errorfc(fc, "%s cannot be written: say -o ro", fc->source);
		else
			errorfc(fc, "%s cannot be opened: error %d", fc->source, err);
		return err;
	}
	mount->device = file;
	/* Another task may have replaced the device node after the lookup. */
	if (!S_ISBLK(file_inode(file)->i_mode)) {
		errorfc(fc, "%s is no block device any more", fc->source);
		return -ENOTBLK;
	}
	bdev = I_BDEV(file->f_mapping->host);
	if (!ro && bdev_read_only(bdev)) {
		errorfc(fc, "%s cannot be written: say -o ro", fc->source);
		return -EROFS;
	}
	if (i_size_read(file->f_mapping->host) > HM_FILE_BLOCKS_MAX << HM_BLOCK_SHIFT)
		return invalfc(fc, "%s is too large: at most %llu TB can be cached", fc->source,
			       (HM_FILE_BLOCKS_MAX << HM_BLOCK_SHIFT) >> 40);
	err = super_check_sectors(bdev, fc);
	if (err)
		return err;
	/* Write back and drop the page cache of the device, which other openers filled. */
	err = sync_blockdev(bdev);
	if (err)
		return err;
	invalidate_bdev(bdev);
	sb->s_maxbytes = MAX_LFS_FILESIZE;
	sb->s_blocksize = HM_PAGE_SIZE;
	sb->s_blocksize_bits = HM_PAGE_SHIFT;
	sb->s_time_gran = 1;
	return 0;
}

static int super_use_source(struct super_block *sb, struct fs_context *fc)
{
	struct path path;
	int err;

	err = kern_path(fc->source, LOOKUP_FOLLOW, &path);
	if (err) {
		errorfc(fc, "%s: there is no such directory or block device (error %d)", fc->source,
			err);
		return err;
	}
	if (d_is_dir(path.dentry))
		err = super_use_directory(sb, fc, &path);
	else if (S_ISBLK(d_inode(path.dentry)->i_mode))
		err = super_use_device(sb, fc);
	else
		err = invalfc(
			fc,
			"%s is neither a directory nor a block device: mount the directory that it is in",
			fc->source);
	path_put(&path);
	return err;
}

/* --- a mounted file system ------------------------------------------------------------ */

static int super_statfs(struct dentry *dentry, struct kstatfs *statfs)
{
	struct hugemap_mount *mount = hugemap_mount(dentry->d_sb);
	u64 id = huge_encode_dev(dentry->d_sb->s_dev);
	struct path lower;
	int err = 0;

	if (mount->device) {
		statfs->f_bsize = HM_PAGE_SIZE;
		statfs->f_blocks = (u64)i_size_read(mount->disk) >> HM_PAGE_SHIFT;
		statfs->f_files = 1;
		statfs->f_namelen = NAME_MAX;
	} else {
		lower = hugemap_lower_path(dentry);
		err = vfs_statfs(&lower, statfs);
	}
	statfs->f_type = HUGEMAP_SUPER_MAGIC;
	statfs->f_fsid = u64_to_fsid(id);
	return err;
}

static int super_sync(struct super_block *sb, int wait)
{
	struct hugemap_mount *mount = hugemap_mount(sb);
	struct super_block *lower;
	int err, lower_err, lost;

	/* The VFS calls twice, first without waiting. The second call does all the work. */
	if (!wait)
		return 0;
	err = hugemap_data_sync(mount);
	if (mount->device)
		return err ?: blkdev_issue_flush(I_BDEV(mount->device->f_mapping->host));
	lower = mount->lower.dentry->d_sb;
	down_read(&lower->s_umount);
	lower_err = sync_filesystem(lower);
	up_read(&lower->s_umount);
	/*
	 * Data may have been lost in the page cache of the lower file system. Record the error in
	 * this super block, from which the VFS reports it to each descriptor once.
	 */
	mutex_lock(&mounts_lock);
	lost = errseq_check_and_advance(&lower->s_wb_err, &mount->lower_err);
	mutex_unlock(&mounts_lock);
	if (lost)
		errseq_set(&sb->s_wb_err, lost);
	return err ?: lower_err;
}

static const struct super_operations super_operations = {
	.alloc_inode = hugemap_alloc_inode,
	.destroy_inode = hugemap_destroy_inode,
	.evict_inode = hugemap_evict_inode,
	.statfs = super_statfs,
	.sync_fs = super_sync,
	.show_options = hugemap_show_options,
};

static int super_make_root(struct super_block *sb)
{
	struct hugemap_mount *mount = hugemap_mount(sb);
	struct dentry *root;
	struct inode *inode;

	if (mount->device)
		inode = hugemap_disk_root(mount);
	else
		inode = hugemap_inode_get(sb, d_inode(mount->lower.dentry));
	if (IS_ERR(inode))
		return PTR_ERR(inode);
	root = d_make_root(inode);
	if (!root)
		return -ENOMEM;
	if (!mount->device)
		root->d_fsdata = dget(mount->lower.dentry);
	sb->s_root = root;
	return 0;
}

static int super_fill(struct super_block *sb, struct fs_context *fc)
{
	struct hugemap_mount *mount = hugemap_mount(sb);
	int err;

	mount->sb = sb;
	sb->s_magic = HUGEMAP_SUPER_MAGIC;
	sb->s_op = &super_operations;
	err = super_use_source(sb, fc);
	if (err)
		return err;
	err = hugemap_data_start(mount, fc);
	if (err)
		return err;
	mount->started = true;
	err = super_make_root(sb);
	if (err)
		return err;
	return hugemap_sysfs_add(mount);
}

static void super_free_mount(struct hugemap_mount *mount)
{
	if (mount->device)
		fput(mount->device);
	mutex_lock(&mounts_lock);
	list_del(&mount->mounts);
	mutex_unlock(&mounts_lock);
	dput(mount->lower.dentry);
	/* The private mount is a long-term mount, which mntput() does not end. */
	if (mount->lower.mnt)
		kern_unmount(mount->lower.mnt);
	put_cred(mount->cred);
	kfree(mount);
}

void hugemap_kill_sb(struct super_block *sb)
{
	struct hugemap_mount *mount = hugemap_mount(sb);

	hugemap_sysfs_remove(mount);
	if (mount->started)
		hugemap_data_quiesce(mount);
	iput(mount->disk);
	kill_anon_super(sb);
	hugemap_data_stop(mount);
	/* Path walks under RCU may still use the mount. */
	synchronize_rcu();
	super_free_mount(mount);
}

/* --- mounting and remounting ------------------------------------------------------------ */

static int super_get_tree(struct fs_context *fc)
{
	const struct hugemap_options *opts = fc->fs_private;
	struct hugemap_mount *mount;

	if (!fc->source || !*fc->source)
		return invalfc(fc, "no source to mount: name a directory or a block device");
	mount = kzalloc(sizeof(*mount), GFP_KERNEL);
	if (!mount)
		return -ENOMEM;
	mount->opts = *opts;
	mount->cred = get_cred(fc->cred);
	mount->set_operations = hugemap_set_operations;
	INIT_LIST_HEAD(&mount->mounts);
	fc->s_fs_info = mount;
	return get_tree_nodev(fc, super_fill);
}

static int super_reconfigure(struct fs_context *fc)
{
	struct super_block *sb = fc->root->d_sb;
	struct hugemap_mount *mount = hugemap_mount(sb);
	bool lower_ro;
	int err;

	/* A synchronous lower mount makes this one synchronous. */
	if (!mount->device)
		fc->sb_flags |= mount->lower.dentry->d_sb->s_flags & SB_SYNCHRONOUS;

	if (sb_rdonly(sb) && !(fc->sb_flags & SB_RDONLY)) {
		lower_ro = mount->device ? !(mount->device->f_mode & FMODE_WRITE) :
					   __mnt_is_readonly(mount->lower.mnt);
		if (lower_ro) {
			errorfc(fc,
				"the directory or device was read-only when it was mounted: unmount it and mount it again");
			return -EROFS;
		}
	}
	hugemap_options_update(fc->fs_private, &mount->opts);
	err = sync_filesystem(sb);
	if (!err && mount->device)
		err = hugemap_disk_resize(mount, fc);
	return err ?: hugemap_data_reconfigure(mount, fc->fs_private, fc);
}

static void super_free_fc(struct fs_context *fc)
{
	/* Set only if no super block has taken the mount over. */
	if (fc->s_fs_info)
		super_free_mount(fc->s_fs_info);
	kfree(fc->fs_private);
}

static const struct fs_context_operations context_operations = {
	.parse_param = hugemap_parse_param,
	.get_tree = super_get_tree,
	.reconfigure = super_reconfigure,
	.free = super_free_fc,
};

int hugemap_init_fs_context(struct fs_context *fc)
{
	struct hugemap_options *opts = kzalloc(sizeof(*opts), GFP_KERNEL);

	if (!opts)
		return -ENOMEM;
	if (fc->purpose == FS_CONTEXT_FOR_RECONFIGURE)
		*opts = hugemap_mount(fc->root->d_sb)->opts;
	else
		hugemap_options_init(opts);
	opts->given = 0;
	fc->fs_private = opts;
	fc->ops = &context_operations;
	return 0;
}
