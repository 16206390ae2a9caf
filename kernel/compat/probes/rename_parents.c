// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* struct renamedata has the dentries of the directories, since 6.17. */
#include <linux/fs.h>

void probe(struct renamedata *rename, struct dentry *parent);
void probe(struct renamedata *rename, struct dentry *parent)
{
	rename->old_parent = parent;
	rename->new_parent = parent;
}
