// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* The idmap of a mount is a struct mnt_idmap, since 6.3. */
#include <linux/fs.h>

struct mnt_idmap *probe(struct file *file)
{
	return file_mnt_idmap(file);
}
