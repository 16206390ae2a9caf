// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Open directories: entries and positions are those of the lower directory.
 */
#include <linux/cred.h>
#include <linux/fs.h>
#include <linux/fs_stack.h>

#include "namespace.h"

static int readdir_iterate(struct file *file, struct dir_context *ctx)
{
	struct file *lower = hugemap_lower_file(file);
	const struct cred *old;
	int err;

	lower->f_pos = ctx->pos;
	/* Use the mounter's credentials, with which the lower directory was opened. */
	old = override_creds(hugemap_mount(file_inode(file)->i_sb)->cred);
	err = iterate_dir(lower, ctx);
	revert_creds(old);
	fsstack_copy_attr_atime(file_inode(file), file_inode(lower));
	return err;
}

static loff_t readdir_llseek(struct file *file, loff_t offset, int whence)
{
	struct file *lower = hugemap_lower_file(file);
	loff_t at;

	lower->f_pos = file->f_pos;
	at = vfs_llseek(lower, offset, whence);
	if (at >= 0)
		file->f_pos = at;
	return at;
}

static int readdir_fsync(struct file *file, loff_t start, loff_t end, int datasync)
{
	return vfs_fsync_range(hugemap_lower_file(file), start, end, datasync);
}

const struct file_operations hugemap_dir_operations = {
	.owner = THIS_MODULE,
	.open = hugemap_open,
	.release = hugemap_release,
	.llseek = readdir_llseek,
	.read = generic_read_dir,
	.iterate_shared = readdir_iterate,
	.fsync = readdir_fsync,
	.setlease = generic_setlease,
};
