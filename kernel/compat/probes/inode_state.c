// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* inode->i_state is read by functions, since 6.19. */
#include <linux/fs.h>

bool probe(struct inode *inode);
bool probe(struct inode *inode)
{
	return inode_state_read_once(inode) & I_NEW;
}
