// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* ->create() has no argument for O_EXCL. */
#include <linux/fs.h>

int probe(struct mnt_idmap *idmap, struct inode *dir, struct dentry *dentry);
int probe(struct mnt_idmap *idmap, struct inode *dir, struct dentry *dentry)
{
	return dir->i_op->create(idmap, dir, dentry, 0600);
}
