// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* lookup_one() and similar functions take a struct qstr, since 6.16. */
#include <linux/fs.h>
#include <linux/namei.h>

struct dentry *probe(struct mnt_idmap *idmap, struct qstr *name, struct dentry *base);
struct dentry *probe(struct mnt_idmap *idmap, struct qstr *name, struct dentry *base)
{
	return lookup_one_unlocked(idmap, name, base);
}
