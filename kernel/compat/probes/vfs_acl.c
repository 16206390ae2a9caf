// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* vfs_get_acl() and vfs_set_acl() access POSIX ACLs without xattrs, since 6.2. */
#include <linux/fs.h>
#include <linux/posix_acl.h>

struct posix_acl *probe(struct mnt_idmap *idmap, struct dentry *dentry, const char *name);
struct posix_acl *probe(struct mnt_idmap *idmap, struct dentry *dentry, const char *name)
{
	return vfs_get_acl(idmap, dentry, name);
}
