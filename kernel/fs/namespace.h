/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The declarations that the files of the name space share.
 *
 * Every upper inode represents a lower inode and holds a reference to it. Every upper dentry holds
 * the lower dentry of the same name in d_fsdata; both are positive or both are negative. An
 * operation on an upper object performs the same operation on the lower one with the caller's
 * credentials, then copies the attributes up.
 *
 * Locks: the VFS holds the locks of the upper inodes. Functions here take those of lower inodes
 * after them, parents before children, as the VFS does.
 */
#ifndef HUGEMAP_NAMESPACE_H
#define HUGEMAP_NAMESPACE_H

#include <linux/dcache.h>
#include <linux/fs_context.h>

#include "compat/compat.h"
#include "hugemap.h"

struct fs_parameter;
struct hugemap_fileattr;

static inline struct dentry *hugemap_lower(const struct dentry *dentry)
{
	return dentry->d_fsdata;
}

/* The lower path, without a reference. */
static inline struct path hugemap_lower_path(const struct dentry *dentry)
{
	return (struct path){
		.mnt = hugemap_mount(dentry->d_sb)->lower.mnt,
		.dentry = hugemap_lower(dentry),
	};
}

static inline struct hugemap_idmap *hugemap_lower_idmap(const struct super_block *sb)
{
	return hugemap_idmap_of(hugemap_mount(sb)->lower.mnt);
}

/* --- options.c --- */

void hugemap_options_init(struct hugemap_options *opts);
int hugemap_parse_param(struct fs_context *fc, struct fs_parameter *param);
/* Set the options that were not given to their values in @now. s_umount is held. */
void hugemap_options_update(struct hugemap_options *opts, const struct hugemap_options *now);
const char *hugemap_page_name(enum hugemap_page page);
int hugemap_show_options(struct seq_file *seq, struct dentry *root);

/* --- super.c --- */

int hugemap_init_fs_context(struct fs_context *fc);
void hugemap_kill_sb(struct super_block *sb);

/* --- export.c --- */

/* Provide file handles if the lower file system does. */
void hugemap_set_export(struct super_block *sb, const struct super_block *lower);

/* --- inode.c --- */

int __init hugemap_inode_setup(void);
void hugemap_inode_teardown(void);
struct inode *hugemap_alloc_inode(struct super_block *sb);
void hugemap_destroy_inode(struct inode *inode);
void hugemap_evict_inode(struct inode *inode);

/* Allocate hugemap_inode.data of a new regular file. 0 or -ENOMEM. */
int hugemap_inode_add_data(struct inode *inode);

/* The inode that represents @lower, with a reference. */
struct inode *hugemap_inode_get(struct super_block *sb, struct inode *lower);

/* --- attr.c --- */

/* True if mode and owner are those of @lower. Takes no lock. */
bool hugemap_has_owner_of(const struct inode *inode, const struct inode *lower);
/* Copy mode and owner from the lower inode, as far as possible without waiting. */
void hugemap_follow_owner(struct inode *inode);
int hugemap_permission(struct hugemap_idmap *idmap, struct inode *inode, int mask);
int hugemap_getattr(struct hugemap_idmap *idmap, const struct path *path, struct kstat *stat,
		    u32 mask, unsigned int flags);
int hugemap_setattr(struct hugemap_idmap *idmap, struct dentry *dentry, struct iattr *attr);
int hugemap_fileattr_get(struct dentry *dentry, struct hugemap_fileattr *fa);
int hugemap_fileattr_set(struct hugemap_idmap *idmap, struct dentry *dentry,
			 struct hugemap_fileattr *fa);
#if defined(HUGEMAP_HAVE_UPDATE_TIME_TYPE)
int hugemap_update_time(struct inode *inode, enum fs_update_time type, unsigned int flags);
#elif defined(HUGEMAP_HAVE_UPDATE_TIME_FLAGS)
int hugemap_update_time(struct inode *inode, int flags);
#else
int hugemap_update_time(struct inode *inode, struct timespec64 *time, int flags);
#endif

/* --- lookup.c --- */

extern const struct dentry_operations hugemap_dentry_operations;

/* Replace the lower dentry of a name. Takes over the caller's reference to @lower. */
void hugemap_set_lower(struct dentry *dentry, struct dentry *lower);
/* The lower dentry with a reference, for callers that race with hugemap_set_lower(). */
struct dentry *hugemap_get_lower(struct dentry *dentry);
struct dentry *hugemap_lookup(struct inode *dir, struct dentry *dentry, unsigned int flags);

/*
 * An operation of this file system is about to change a lower name. Until the VFS changes the
 * upper dentry, concurrent lookups treat the dentry as valid.
 */
void hugemap_name_changes(struct dentry *dentry);
/* The operation failed and the lower name has not changed. */
void hugemap_name_stays(struct dentry *dentry);

/* --- dir.c --- */

extern const struct inode_operations hugemap_dir_inode_operations;

/* --- operations.c --- */

/* mount->set_operations: called for a new inode before it is visible. */
void hugemap_set_operations(struct inode *inode);

/* --- xattr.c --- */

extern const struct xattr_handler *HUGEMAP_XATTR_CONST hugemap_xattr_handlers[];
ssize_t hugemap_listxattr(struct dentry *dentry, char *list, size_t size);
#ifdef HUGEMAP_HAVE_VFS_ACL
struct posix_acl *hugemap_get_acl(struct hugemap_idmap *idmap, struct dentry *dentry, int type);
int hugemap_set_acl(struct hugemap_idmap *idmap, struct dentry *dentry, struct posix_acl *acl,
		    int type);
#elif defined(HUGEMAP_HAVE_GET_ACL)
struct posix_acl *hugemap_get_acl(struct inode *inode, int type, bool rcu);
int hugemap_set_acl(struct user_namespace *userns, struct inode *inode, struct posix_acl *acl,
		    int type);
#endif

/* --- file.c, readdir.c, direct.c, disk.c --- */

extern const struct file_operations hugemap_file_operations;
extern const struct file_operations hugemap_dir_operations;
extern const struct inode_operations hugemap_disk_root_inode_operations;
extern const struct file_operations hugemap_disk_root_operations;

int hugemap_open(struct inode *inode, struct file *file);
int hugemap_release(struct inode *inode, struct file *file);
ssize_t hugemap_direct_read(struct kiocb *iocb, struct iov_iter *to);
ssize_t hugemap_direct_write(struct kiocb *iocb, struct iov_iter *from);

/* Make the root directory over a device, and mount->disk, its only file. */
struct inode *hugemap_disk_root(struct hugemap_mount *mount);

/* Set the size of mount->disk to that of the device. On an error @fc has a message. */
int hugemap_disk_resize(struct hugemap_mount *mount, struct fs_context *fc);

/* --- sysfs.c --- */

int hugemap_sysfs_init(void);
void hugemap_sysfs_exit(void);
int hugemap_sysfs_add(struct hugemap_mount *mount);
void hugemap_sysfs_remove(struct hugemap_mount *mount);

#endif /* HUGEMAP_NAMESPACE_H */
