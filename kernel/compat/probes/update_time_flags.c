// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* ->update_time() takes flags and no time, from 6.6 to 6.19. */
#include <linux/fs.h>

int probe(struct inode *inode, int flags);
int probe(struct inode *inode, int flags)
{
	return inode->i_op->update_time(inode, flags) ?: inode_update_time(inode, flags);
}
