// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* The table of xattr handlers is constant, since 6.7. */
#include <linux/fs.h>
#include <linux/xattr.h>

static const struct xattr_handler *const handlers[] = { NULL };

void probe(struct super_block *sb)
{
	sb->s_xattr = handlers;
}
