// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The operations of an inode, by its type. Those of directories are in dir.c.
 */
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/kdev_t.h>
#include <linux/pagemap.h>
#include <linux/stat.h>
#include <linux/uaccess.h>

#include "namespace.h"

/* Limits for program memory that is reclaimed again before the copy can use it. */
#define FAULT_IN_TRIES 3
#define FAULT_IN_BYTES (1u << 20)

/*
 * The lower file system copies extents to the program's memory with its own locks held. If that
 * memory maps a file of this file system, a fault on it may need the same locks. So disable
 * faults during the call, and fault the memory in between two calls.
 */
static int operations_fiemap_lower(struct inode *lower, struct fiemap_extent_info *info, u64 start,
				   u64 length)
{
	u32 most = 0, tries = 0;

	for (;;) {
		char __user *next;
		size_t bytes;
		int err;

		info->fi_extents_mapped = 0;
		pagefault_disable();
		err = lower->i_op->fiemap(lower, info, start, length);
		pagefault_enable();
		if (err != -EFAULT)
			return err;
		if (info->fi_extents_mapped > most)
			tries = 0;
		else if (tries++ == FAULT_IN_TRIES)
			return err;
		most = max(most, info->fi_extents_mapped);
		next = (char __user *)(info->fi_extents_start + info->fi_extents_mapped);
		bytes = min_t(u64, FAULT_IN_BYTES,
			      sizeof(struct fiemap_extent) *
				      (u64)(info->fi_extents_max - info->fi_extents_mapped));
		if (fault_in_writeable(next, bytes) == bytes)
			return err;
	}
}

static int operations_fiemap(struct inode *inode, struct fiemap_extent_info *info, u64 start,
			     u64 length)
{
	struct inode *lower = hugemap_inode(inode)->lower;
	int err;

	if (!lower->i_op->fiemap)
		return -EOPNOTSUPP;
	err = hugemap_write_back(inode, 0, LLONG_MAX);
	return err ?: operations_fiemap_lower(lower, info, start, length);
}

static const char *operations_get_link(struct dentry *dentry, struct inode *inode,
				       struct delayed_call *done)
{
	if (!dentry)
		return ERR_PTR(-ECHILD);
	return vfs_get_link(hugemap_lower(dentry), done);
}

static const struct inode_operations file_inode_operations = {
	.permission = hugemap_permission,
	.getattr = hugemap_getattr,
	.setattr = hugemap_setattr,
	.listxattr = hugemap_listxattr,
	.update_time = hugemap_update_time,
	.fiemap = operations_fiemap,
	.fileattr_get = hugemap_fileattr_get,
	.fileattr_set = hugemap_fileattr_set,
#if defined(HUGEMAP_HAVE_VFS_ACL) || defined(HUGEMAP_HAVE_GET_ACL)
	.get_acl = hugemap_get_acl,
	.set_acl = hugemap_set_acl,
#endif
};

static const struct inode_operations symlink_inode_operations = {
	.get_link = operations_get_link,
	.permission = hugemap_permission,
	.getattr = hugemap_getattr,
	.setattr = hugemap_setattr,
	.listxattr = hugemap_listxattr,
	.update_time = hugemap_update_time,
};

static const struct inode_operations special_inode_operations = {
	.permission = hugemap_permission,
	.getattr = hugemap_getattr,
	.setattr = hugemap_setattr,
	.listxattr = hugemap_listxattr,
	.update_time = hugemap_update_time,
#if defined(HUGEMAP_HAVE_VFS_ACL) || defined(HUGEMAP_HAVE_GET_ACL)
	.get_acl = hugemap_get_acl,
	.set_acl = hugemap_set_acl,
#endif
};

void hugemap_set_operations(struct inode *inode)
{
	switch (inode->i_mode & S_IFMT) {
	case S_IFREG:
		inode->i_op = &file_inode_operations;
		inode->i_fop = &hugemap_file_operations;
		break;
	case S_IFDIR:
		inode->i_op = &hugemap_dir_inode_operations;
		inode->i_fop = &hugemap_dir_operations;
		break;
	case S_IFLNK:
		inode->i_op = &symlink_inode_operations;
		break;
	default:
		inode->i_op = &special_inode_operations;
		init_special_inode(inode, inode->i_mode, hugemap_inode(inode)->lower->i_rdev);
	}
}
