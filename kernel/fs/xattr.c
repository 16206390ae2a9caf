// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Extended attributes and ACLs: those of the lower file, of all names.
 */
#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/fs.h>
#include <linux/mount.h>
#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>
#include <linux/xattr.h>

#include "namespace.h"

/*
 * Each VFS call converts the root user id in a file's capabilities between the caller's user
 * namespace and the file system's. The upper call has done so. To avoid a second conversion, the
 * lower call runs with the mounter's credentials.
 */
static const struct cred *xattr_begin_as(const struct inode *inode, const char *name)
{
	if (strcmp(name, XATTR_NAME_CAPS))
		return NULL;
	return override_creds(hugemap_mount(inode->i_sb)->cred);
}

static void xattr_end_as(const struct cred *old)
{
	if (old)
		revert_creds(old);
}

static int xattr_get(const struct xattr_handler *handler, struct dentry *dentry,
		     struct inode *inode, const char *name, void *value, size_t size)
{
	const struct cred *old = xattr_begin_as(inode, name);
	ssize_t n = vfs_getxattr(hugemap_lower_idmap(inode->i_sb), hugemap_lower(dentry), name,
				 value, size);

	xattr_end_as(old);
	return (int)n;
}

static int xattr_set(const struct xattr_handler *handler, struct hugemap_idmap *unused,
		     struct dentry *dentry, struct inode *inode, const char *name,
		     const void *value, size_t size, int flags)
{
	struct hugemap_idmap *idmap = hugemap_lower_idmap(inode->i_sb);
	struct vfsmount *mnt = hugemap_mount(inode->i_sb)->lower.mnt;
	bool caps = value && !strcmp(name, XATTR_NAME_CAPS);
	struct dentry *lower = hugemap_lower(dentry);
	int err = mnt_want_write(mnt);
	const struct cred *old;

	if (err)
		return err;
	/*
	 * A write to the lower file removes its capabilities. Write back stores that were made
	 * before setcap(8) now, so that their write-back does not remove the new ones.
	 */
	if (caps)
		err = hugemap_quiesce_writes(inode);
	if (err)
		goto out;
	if (!value) {
		err = vfs_removexattr(idmap, lower, name);
	} else if (caps && !capable_wrt_inode_uidgid(idmap, d_inode(lower), CAP_SETFCAP)) {
		/* The VFS has checked the upper owner, which may be out of date. */
		err = -EPERM;
	} else {
		old = xattr_begin_as(inode, name);
		err = vfs_setxattr(idmap, lower, name, value, size, flags);
		xattr_end_as(old);
	}
	if (caps)
		hugemap_resume_writes(inode);
out:
	mnt_drop_write(mnt);
	if (!err)
		hugemap_copy_attr(inode);
	return err;
}

static const struct xattr_handler all_handler = {
	.prefix = "",
	.get = xattr_get,
	.set = xattr_set,
};

const struct xattr_handler *HUGEMAP_XATTR_CONST hugemap_xattr_handlers[] = {
	&all_handler,
	NULL,
};

ssize_t hugemap_listxattr(struct dentry *dentry, char *list, size_t size)
{
	return vfs_listxattr(hugemap_lower(dentry), list, size);
}

#ifdef HUGEMAP_HAVE_VFS_ACL
struct posix_acl *hugemap_get_acl(struct hugemap_idmap *idmap, struct dentry *dentry, int type)
{
	return vfs_get_acl(hugemap_lower_idmap(dentry->d_sb), hugemap_lower(dentry),
			   posix_acl_xattr_name(type));
}

int hugemap_set_acl(struct hugemap_idmap *unused, struct dentry *dentry, struct posix_acl *acl,
		    int type)
{
	struct hugemap_idmap *idmap = hugemap_lower_idmap(dentry->d_sb);
	struct vfsmount *mnt = hugemap_mount(dentry->d_sb)->lower.mnt;
	const char *name = posix_acl_xattr_name(type);
	int err = mnt_want_write(mnt);

	if (err)
		return err;
	if (acl)
		err = vfs_set_acl(idmap, hugemap_lower(dentry), name, acl);
	else
		err = vfs_remove_acl(idmap, hugemap_lower(dentry), name);
	mnt_drop_write(mnt);
	if (!err)
		hugemap_copy_attr(d_inode(dentry));
	return err;
}

#elif defined(HUGEMAP_HAVE_GET_ACL)
/* For NFS servers only: programs use the names of the extended attributes. */
struct posix_acl *hugemap_get_acl(struct inode *inode, int type, bool rcu)
{
	return rcu ? ERR_PTR(-ECHILD) : get_acl(hugemap_inode(inode)->lower, type);
}

int hugemap_set_acl(struct user_namespace *unused, struct inode *inode, struct posix_acl *acl,
		    int type)
{
	struct vfsmount *mnt = hugemap_mount(inode->i_sb)->lower.mnt;
	struct inode *lower = hugemap_inode(inode)->lower;
	int err = mnt_want_write(mnt);

	if (err)
		return err;
	inode_lock(lower);
	err = set_posix_acl(hugemap_lower_idmap(inode->i_sb), lower, type, acl);
	inode_unlock(lower);
	mnt_drop_write(mnt);
	if (!err)
		hugemap_copy_attr(inode);
	return err;
}
#endif
