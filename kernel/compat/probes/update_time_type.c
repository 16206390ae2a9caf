// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* ->update_time() takes the type of the time, since 7.0. */
#include <linux/fs.h>

int probe(struct inode *inode, enum fs_update_time type, unsigned int flags);
int probe(struct inode *inode, enum fs_update_time type, unsigned int flags)
{
	return inode->i_op->update_time(inode, type, flags) ?:
		       generic_update_time(inode, FS_UPD_CMTIME, flags);
}
