// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* start_creating() locks a directory and looks a name up in it, since 6.19. */
#include <linux/fs.h>
#include <linux/namei.h>

void probe(struct mnt_idmap *idmap, struct dentry *parent, struct qstr *name,
	   struct renamedata *rename);
void probe(struct mnt_idmap *idmap, struct dentry *parent, struct qstr *name,
	   struct renamedata *rename)
{
	end_creating(start_creating(idmap, parent, name));
	end_removing(start_removing(idmap, parent, name));
	if (!start_renaming(rename, 0, name, name))
		end_renaming(rename);
}
