// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* vfs_tmpfile_open() has got a new name in 6.3. */
#include <linux/fs.h>

struct file *probe(struct mnt_idmap *idmap, const struct path *parent, umode_t mode, int flags,
		   const struct cred *cred);
struct file *probe(struct mnt_idmap *idmap, const struct path *parent, umode_t mode, int flags,
		   const struct cred *cred)
{
	return kernel_tmpfile_open(idmap, parent, mode, flags, cred);
}
