// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Functions read inode->i_state, since 6.19. */
#include <linux/fs.h>

bool probe(struct inode *inode);
bool probe(struct inode *inode)
{
	return inode_state_read_once(inode) & I_NEW;
}
