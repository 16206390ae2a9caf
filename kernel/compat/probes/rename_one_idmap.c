// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* struct renamedata has one idmap, since 6.18. */
#include <linux/fs.h>

void probe(struct renamedata *rename, struct mnt_idmap *idmap);
void probe(struct renamedata *rename, struct mnt_idmap *idmap)
{
	rename->mnt_idmap = idmap;
}
