// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The module: `mount -t hugemap`.
 */
#include <linux/fs.h>
#include <linux/module.h>

#include "fs/namespace.h"

static struct file_system_type hugemap_type = {
	.owner = THIS_MODULE,
	.name = "hugemap",
	.init_fs_context = hugemap_init_fs_context,
	.kill_sb = hugemap_kill_sb,
};
MODULE_ALIAS_FS("hugemap");

static int __init hugemap_init(void)
{
	int err;

	err = hugemap_inode_setup();
	if (err)
		return err;
	err = hugemap_data_setup();
	if (err)
		goto no_data;
	err = hugemap_sysfs_init();
	if (err)
		goto no_sysfs;
	err = register_filesystem(&hugemap_type);
	if (err)
		goto no_type;
	return 0;
no_type:
	hugemap_sysfs_exit();
no_sysfs:
	hugemap_data_teardown();
no_data:
	hugemap_inode_teardown();
	return err;
}

static void __exit hugemap_exit(void)
{
	unregister_filesystem(&hugemap_type);
	hugemap_sysfs_exit();
	/* Free the last inodes first: they contain data of both halves. */
	hugemap_inode_teardown();
	hugemap_data_teardown();
}

module_init(hugemap_init);
module_exit(hugemap_exit);

MODULE_DESCRIPTION("Memory-mapped file I/O through a cache of 2 MB pages");
MODULE_LICENSE("Dual MIT/GPL");
MODULE_VERSION("0.2.0"); /* as in meson.build, which a test compares */
