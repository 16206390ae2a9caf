// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* vfs_tmpfile_open() is called kernel_tmpfile_open(), since 6.3. */
#include <linux/fs.h>

struct file *probe(struct mnt_idmap *idmap, const struct path *parent, umode_t mode, int flags,
		   const struct cred *cred);
struct file *probe(struct mnt_idmap *idmap, const struct path *parent, umode_t mode, int flags,
		   const struct cred *cred)
{
	return kernel_tmpfile_open(idmap, parent, mode, flags, cred);
}
