// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* An inode's times are plain fields, up to 6.5. */
#include <linux/fs.h>

void probe(struct inode *inode);
void probe(struct inode *inode)
{
	inode->i_ctime = inode->i_mtime = current_time(inode);
}
