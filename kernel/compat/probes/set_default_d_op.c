// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* set_default_d_op() sets the dentry operations of a super block, since 6.17. */
#include <linux/dcache.h>
#include <linux/fs.h>

void probe(struct super_block *sb, const struct dentry_operations *ops);
void probe(struct super_block *sb, const struct dentry_operations *ops)
{
	set_default_d_op(sb, ops);
}
