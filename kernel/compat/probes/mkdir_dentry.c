// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* ->mkdir() may return another dentry, since 6.15. */
#include <linux/fs.h>

struct dentry *probe(struct mnt_idmap *idmap, struct inode *dir, struct dentry *dentry);
struct dentry *probe(struct mnt_idmap *idmap, struct inode *dir, struct dentry *dentry)
{
	return dir->i_op->mkdir(idmap, dir, dentry, 0700);
}
