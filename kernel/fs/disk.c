// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * A mount over a block device: a directory with one file, which represents the device.
 */
#include <linux/blkdev.h>
#include <linux/dcache.h>
#include <linux/fs.h>
#include <linux/fs_context.h>
#include <linux/kdev_t.h>

#include "namespace.h"

enum {
	ROOT_INO = 1,
	DISK_INO,
};

/* The name of the device in /dev: "vdb", "nvme0n1p2". */
static int disk_name(const struct hugemap_mount *mount, char *name, size_t size)
{
	int length = snprintf(name, size, "%pg", I_BDEV(mount->device->f_mapping->host));

	/* A name has no slash; sysfs replaces it in the same way. */
	strreplace(name, '/', '!');
	return length;
}

static struct dentry *disk_root_lookup(struct inode *dir, struct dentry *dentry, unsigned int flags)
{
	struct hugemap_mount *mount = hugemap_mount(dir->i_sb);
	char name[BDEVNAME_SIZE];
	unsigned int length = disk_name(mount, name, sizeof(name));
	struct inode *inode = NULL;

	if (dentry->d_name.len > NAME_MAX)
		return ERR_PTR(-ENAMETOOLONG);
	if (dentry->d_name.len == length && !memcmp(dentry->d_name.name, name, length))
		inode = igrab(mount->disk);
	return d_splice_alias(inode, dentry);
}

static int disk_root_iterate(struct file *file, struct dir_context *ctx)
{
	struct hugemap_mount *mount = hugemap_mount(file_inode(file)->i_sb);
	char name[BDEVNAME_SIZE];
	int length = disk_name(mount, name, sizeof(name));

	if (!dir_emit_dots(file, ctx))
		return 0;
	if (ctx->pos == 2 && dir_emit(ctx, name, length, DISK_INO, DT_REG))
		ctx->pos++;
	return 0;
}

const struct inode_operations hugemap_disk_root_inode_operations = {
	.lookup = disk_root_lookup,
};

const struct file_operations hugemap_disk_root_operations = {
	.owner = THIS_MODULE,
	.llseek = generic_file_llseek,
	.read = generic_read_dir,
	.iterate_shared = disk_root_iterate,
	.fsync = noop_fsync,
};

/*
 * Owner, mode and times last until the unmount. The size is that of the device at the mount or at
 * the last remount.
 */
static int disk_setattr(struct hugemap_idmap *idmap, struct dentry *dentry, struct iattr *attr)
{
	struct inode *inode = d_inode(dentry);
	int err;

	err = setattr_prepare(idmap, dentry, attr);
	if (err)
		return err;
	/* open(O_TRUNC) does not truncate a device, so `cp image /mnt/dev/vdb` works. */
	if (attr->ia_valid & ATTR_SIZE) {
		if (!(attr->ia_valid & ATTR_OPEN) && attr->ia_size != i_size_read(inode))
			return -EPERM;
		attr->ia_valid &= ~ATTR_SIZE;
	}
	setattr_copy(idmap, inode, attr);
	return 0;
}

/* For hugemap_change_lower(): nothing to do, since the device has changed already. */
static ssize_t disk_device_has_grown(void *arg)
{
	return 0;
}

int hugemap_disk_resize(struct hugemap_mount *mount, struct fs_context *fc)
{
	loff_t size = i_size_read(mount->device->f_mapping->host), old;
	struct inode *disk = mount->disk;
	ssize_t err = 0;

	if ((u64)size > HM_FILE_BLOCKS_MAX << HM_BLOCK_SHIFT)
		return invalfc(fc, "the device is too large now: at most %llu TB can be cached",
			       (HM_FILE_BLOCKS_MAX << HM_BLOCK_SHIFT) >> 40);
	inode_lock(disk);
	old = i_size_read(disk);
	if (size < old)
		warnfc(fc,
		       "the device has become smaller: cached data beyond its end cannot be written");
	else if (size > old)
		err = hugemap_change_lower(disk, old, LLONG_MAX, HUGEMAP_KEEP,
					   disk_device_has_grown, NULL);
	inode_unlock(disk);
	return (int)err;
}

static const struct inode_operations disk_inode_operations = {
	.setattr = disk_setattr,
};

static struct inode *disk_new_inode_at(struct super_block *sb, unsigned long ino, umode_t mode,
				       const struct inode *node)
{
	struct inode *inode = new_inode(sb);

	if (!inode)
		return NULL;
	inode->i_ino = ino;
	inode->i_mode = mode;
	if (node) {
		inode->i_uid = node->i_uid;
		inode->i_gid = node->i_gid;
	}
	hugemap_init_times(inode);
	return inode;
}

struct inode *hugemap_disk_root(struct hugemap_mount *mount)
{
	const struct inode *node = d_inode(mount->device->f_path.dentry);
	struct super_block *sb = mount->sb;
	struct inode *root, *disk;

	disk = disk_new_inode_at(sb, DISK_INO, S_IFREG | (node->i_mode & 0777), node);
	if (!disk)
		return NULL;
	i_size_write(disk, i_size_read(mount->device->f_mapping->host));
	disk->i_op = &disk_inode_operations;
	disk->i_fop = &hugemap_file_operations;
	if (hugemap_inode_add_data(disk)) {
		iput(disk);
		return NULL;
	}
	mount->disk = disk;

	root = disk_new_inode_at(sb, ROOT_INO, S_IFDIR | 0755, NULL);
	if (!root)
		return NULL;
	set_nlink(root, 2);
	root->i_op = &hugemap_disk_root_inode_operations;
	root->i_fop = &hugemap_disk_root_operations;
	return root;
}
