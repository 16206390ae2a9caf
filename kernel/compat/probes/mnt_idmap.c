// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* A mount's idmap has a type of its own (6.3). */
#include <linux/fs.h>

struct mnt_idmap *probe(struct file *file)
{
	return file_mnt_idmap(file);
}
