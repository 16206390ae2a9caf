// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* struct fileattr is called file_kattr, since 6.17. */
#include <linux/fs.h>
#include <linux/fileattr.h>

int probe(struct dentry *dentry, struct file_kattr *fa);
int probe(struct dentry *dentry, struct file_kattr *fa)
{
	return vfs_fileattr_get(dentry, fa);
}
