// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Changes of a directory take a struct delegated_inode, since 6.19. */
#include <linux/fs.h>

int probe(struct mnt_idmap *idmap, struct inode *dir, struct dentry *dentry,
	  struct delegated_inode *delegated);
int probe(struct mnt_idmap *idmap, struct inode *dir, struct dentry *dentry,
	  struct delegated_inode *delegated)
{
	return vfs_create(idmap, dentry, 0600, delegated)		 ?:
		       vfs_mknod(idmap, dir, dentry, 0600, 0, delegated) ?:
		       vfs_symlink(idmap, dir, dentry, "x", delegated)	 ?:
		       vfs_rmdir(idmap, dir, dentry, delegated);
}
