// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* A rename names its directories by dentries, since 6.17. */
#include <linux/fs.h>

void probe(struct renamedata *rename, struct dentry *parent);
void probe(struct renamedata *rename, struct dentry *parent)
{
	rename->old_parent = parent;
	rename->new_parent = parent;
}
