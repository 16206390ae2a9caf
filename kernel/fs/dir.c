// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Operations of directories. Each one changes the lower directory, then the upper dentries.
 *
 * The VFS holds the lock of the upper directory. An operation locks the lower directory and looks
 * the name up again there. If the result is not the lower dentry that the upper one represents,
 * another task has changed the lower directory. The operation fails with -ESTALE, and the VFS
 * repeats the lookup.
 */
#include <linux/cred.h>
#include <linux/dcache.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/mount.h>
#include <linux/namei.h>
#include <linux/security.h>
#include <linux/writeback.h>

#include "namespace.h"

/* The object to create. */
struct make {
	umode_t mode;
	dev_t dev;
	const char *target; /* of a symbolic link */
	struct dentry *old; /* of a hard link: the lower dentry of the old name */
};

/* Returns the lower dentry. On an error hugemap_end_naming() has been called. */
static struct dentry *dir_make_lower(struct hugemap_idmap *idmap, struct dentry *parent,
				     struct dentry *lower, const struct make *make)
{
	int err;

	if (d_really_is_positive(lower))
		err = -ESTALE;
	else if (make->old)
		err = vfs_link(make->old, idmap, d_inode(parent), lower, NULL);
	else if (make->target)
		err = hugemap_symlink_lower(idmap, parent, lower, make->target);
	else if (S_ISDIR(make->mode))
		return hugemap_mkdir_lower(idmap, parent, lower, make->mode);
	else if (S_ISREG(make->mode))
		err = hugemap_create_lower(idmap, parent, lower, make->mode);
	else
		err = hugemap_mknod_lower(idmap, parent, lower, make->mode, make->dev);
	if (!err)
		return lower;
	hugemap_end_naming(parent, lower);
	return ERR_PTR(err);
}

/* The lower name exists: let the upper dentry represent it. */
static int dir_make_known(struct inode *dir, struct dentry *dentry, struct dentry *lower)
{
	struct inode *inode;

	if (d_really_is_negative(lower)) {
		dput(lower);
		return -ESTALE;
	}
	inode = hugemap_inode_get(dir->i_sb, d_inode(lower));
	if (IS_ERR(inode)) {
		dput(lower);
		return PTR_ERR(inode);
	}
	hugemap_set_lower(dentry, lower);
	d_instantiate(dentry, inode);
	/* A concurrent lookup may have found the dentry stale and dropped it. */
	if (d_unhashed(dentry))
		d_rehash(dentry);
	return 0;
}

static int dir_make_name(struct inode *dir, struct dentry *dentry, const struct make *make)
{
	struct hugemap_idmap *idmap = hugemap_lower_idmap(dir->i_sb);
	struct vfsmount *mnt = hugemap_mount(dir->i_sb)->lower.mnt;
	struct dentry *parent = hugemap_lower(dentry->d_parent);
	struct dentry *lower, *made;
	int err;

	err = mnt_want_write(mnt);
	if (err)
		return err;
	hugemap_name_changes(dentry);
	lower = hugemap_start_naming(idmap, parent, &dentry->d_name);
	if (!IS_ERR(lower))
		lower = dir_make_lower(idmap, parent, lower, make);
	if (IS_ERR(lower)) {
		err = PTR_ERR(lower);
		goto out;
	}
	made = dget(lower);
	hugemap_end_naming(parent, lower);
	/* Some file systems instantiate the dentry only at the next lookup. */
	if (d_really_is_negative(made) || d_unhashed(made)) {
		dput(made);
		made = hugemap_lookup_lower(idmap, &dentry->d_name, parent);
	}
	err = PTR_ERR_OR_ZERO(made) ?: dir_make_known(dir, dentry, made);
	hugemap_copy_attr(dir);
out:
	mnt_drop_write(mnt);
	if (err)
		hugemap_name_stays(dentry);
	if (err == -ESTALE)
		d_drop(dentry);
	return err;
}

#ifdef HUGEMAP_HAVE_CREATE_WITHOUT_EXCL
static int dir_create(struct hugemap_idmap *idmap, struct inode *dir, struct dentry *dentry,
		      umode_t mode)
#else
static int dir_create(struct hugemap_idmap *idmap, struct inode *dir, struct dentry *dentry,
		      umode_t mode, bool excl)
#endif
{
	return dir_make_name(dir, dentry, &(struct make){ .mode = S_IFREG | (mode & S_IALLUGO) });
}

static int dir_mknod(struct hugemap_idmap *idmap, struct inode *dir, struct dentry *dentry,
		     umode_t mode, dev_t dev)
{
	return dir_make_name(dir, dentry, &(struct make){ .mode = mode, .dev = dev });
}

static int dir_symlink(struct hugemap_idmap *idmap, struct inode *dir, struct dentry *dentry,
		       const char *target)
{
	return dir_make_name(dir, dentry, &(struct make){ .target = target });
}

#ifdef HUGEMAP_HAVE_MKDIR_DENTRY
static struct dentry *dir_mkdir(struct hugemap_idmap *idmap, struct inode *dir,
				struct dentry *dentry, umode_t mode)
{
	return ERR_PTR(dir_make_name(dir, dentry, &(struct make){ .mode = S_IFDIR | mode }));
}
#else
static int dir_mkdir(struct hugemap_idmap *idmap, struct inode *dir, struct dentry *dentry,
		     umode_t mode)
{
	return dir_make_name(dir, dentry, &(struct make){ .mode = S_IFDIR | mode });
}
#endif

static int dir_link(struct dentry *old, struct inode *dir, struct dentry *dentry)
{
	int err = dir_make_name(dir, dentry, &(struct make){ .old = hugemap_lower(old) });
	struct hugemap_inode *hi = hugemap_inode(d_inode(old));

	if (err)
		return err;
	/*
	 * The file had no name (O_TMPFILE) and has one now. If its lower link count is still 0,
	 * the lower file system does not count links, and 0 no longer means "deleted".
	 */
	if (!hi->lower->i_nlink)
		hi->uncounted = true;
	hugemap_copy_attr(d_inode(old));
	return 0;
}

/* True if NFS has renamed the open file in place of removing it, and no other name is left. */
static bool dir_only_we_keep(const struct dentry *removed)
{
	return removed->d_flags & DCACHE_NFSFS_RENAMED && d_inode(removed)->i_nlink <= 1;
}

/*
 * Let the last iput() evict the inode, if its last name was removed. If the lower file system
 * does not count links, assume so until a lookup finds another name.
 */
static void dir_lose_name(struct inode *inode, const struct dentry *removed)
{
	struct hugemap_inode *hi = hugemap_inode(inode);

	if ((hi->uncounted && !hi->lower->i_nlink) || dir_only_we_keep(removed))
		hi->gone = true;
}

static int dir_remove_name(struct inode *dir, struct dentry *dentry, bool is_dir)
{
	struct hugemap_idmap *idmap = hugemap_lower_idmap(dir->i_sb);
	struct vfsmount *mnt = hugemap_mount(dir->i_sb)->lower.mnt;
	struct dentry *parent = hugemap_lower(dentry->d_parent);
	struct inode *inode = d_inode(dentry);
	struct dentry *lower;
	int err;

	err = mnt_want_write(mnt);
	if (err)
		return err;
	lower = hugemap_start_naming(idmap, parent, &dentry->d_name);
	if (IS_ERR(lower)) {
		err = PTR_ERR(lower);
		goto out;
	}
	if (lower != hugemap_lower(dentry))
		err = -ESTALE;
	else if (is_dir)
		err = hugemap_rmdir_lower(idmap, parent, lower);
	else
		err = vfs_unlink(idmap, d_inode(parent), lower, NULL);
	if (!err)
		dir_lose_name(inode, lower);
	hugemap_end_naming(parent, lower);
	if (!err) {
		hugemap_copy_attr(dir);
		hugemap_copy_attr(inode);
		if (is_dir)
			hugemap_set_nlink(inode, 0);
	}
out:
	mnt_drop_write(mnt);
	/*
	 * Do not keep a negative dentry either: it would hold the lower dentry, which holds the
	 * lower inode, so the space of the file would not be freed.
	 */
	if (!err || err == -ESTALE)
		d_drop(dentry);
	return err;
}

static int dir_unlink(struct inode *dir, struct dentry *dentry)
{
	return dir_remove_name(dir, dentry, false);
}

static int dir_rmdir(struct inode *dir, struct dentry *dentry)
{
	return dir_remove_name(dir, dentry, true);
}

/* True if another task has renamed one of the lower names. */
static bool dir_moved_lower(const struct renamedata *rename, struct dentry *old, struct dentry *new)
{
	if (rename->old_dentry != hugemap_lower(old))
		return true;
	/* In a case-insensitive directory both names may be the same lower dentry. */
	if (d_really_is_negative(new))
		return d_really_is_positive(rename->new_dentry) &&
		       rename->new_dentry != rename->old_dentry;
	return rename->new_dentry != hugemap_lower(new);
}

static void dir_copy_renamed(struct inode *old_dir, struct dentry *old, struct inode *new_dir,
			     struct dentry *new, unsigned int flags)
{
	struct inode *replaced = d_inode(new);

	hugemap_copy_attr(old_dir);
	if (new_dir != old_dir)
		hugemap_copy_attr(new_dir);
	hugemap_copy_attr(d_inode(old));
	if (!replaced)
		return;
	hugemap_copy_attr(replaced);
	if (S_ISDIR(replaced->i_mode) && !(flags & RENAME_EXCHANGE))
		hugemap_set_nlink(replaced, 0);
}

static int dir_rename(struct hugemap_idmap *unused, struct inode *old_dir, struct dentry *old,
		      struct inode *new_dir, struct dentry *new, unsigned int flags)
{
	struct hugemap_idmap *idmap = hugemap_lower_idmap(old_dir->i_sb);
	struct vfsmount *mnt = hugemap_mount(old_dir->i_sb)->lower.mnt;
	struct dentry *old_parent = hugemap_lower(old->d_parent);
	struct dentry *new_parent = hugemap_lower(new->d_parent);
	struct renamedata rename = { .flags = flags };
	int err;

	/*
	 * A program that writes a new file and renames it over the old one without a sync finds
	 * either the old or the new data after a power cut, as on ext4 and others.
	 */
	if (d_really_is_positive(new) && S_ISREG(d_inode(old)->i_mode) &&
	    !(flags & RENAME_EXCHANGE))
		hugemap_write_back(d_inode(old), 0, LLONG_MAX);
	err = mnt_want_write(mnt);
	if (err)
		return err;
	err = hugemap_start_renaming(&rename, idmap, old_parent, &old->d_name, new_parent,
				     &new->d_name);
	if (err)
		goto out;
	hugemap_name_changes(old);
	hugemap_name_changes(new);
	err = dir_moved_lower(&rename, old, new) ? -ESTALE : vfs_rename(&rename);
	if (!err && d_really_is_positive(new) && !(flags & RENAME_EXCHANGE))
		dir_lose_name(d_inode(new), rename.new_dentry);
	hugemap_end_renaming(&rename, old_parent, new_parent);
	if (!err) {
		dir_copy_renamed(old_dir, old, new_dir, new, flags);
	} else {
		hugemap_name_stays(old);
		hugemap_name_stays(new);
	}
out:
	mnt_drop_write(mnt);
	if (err == -ESTALE) {
		d_drop(old);
		d_drop(new);
	}
	return err;
}

/* Let security modules label the new file as one that the caller creates in @parent. */
static int dir_label_as(const struct cred *caller, struct dentry *parent, umode_t mode,
			struct cred *cred)
{
	struct qstr name = QSTR_INIT("/", 1);
	struct dentry *child = d_alloc(parent, &name);
	int err;

	if (!child)
		return -ENOMEM;
	err = security_dentry_create_files_as(child, S_IFREG | mode, &name, caller, cred);
	dput(child);
	return err;
}

/*
 * Create a lower file without a name, owned by the caller, and open it with the mounter's
 * credentials: see hugemap_open_lower().
 */
static struct file *dir_tmpfile_lower(struct super_block *sb, const struct path *parent,
				      umode_t mode, int flags)
{
	const struct cred *caller = current_cred(), *old;
	struct file *lower;
	struct cred *cred;
	int err;

	old = override_creds(hugemap_mount(sb)->cred);
	cred = prepare_creds();
	revert_creds(old);
	if (!cred)
		return ERR_PTR(-ENOMEM);
	cred->fsuid = caller->fsuid;
	cred->fsgid = caller->fsgid;
	set_groups(cred, caller->group_info);
	/*
	 * Use the caller's capabilities. Those of the mounter would allow space that is reserved
	 * for root, or space above a quota.
	 */
	if (caller->user_ns == cred->user_ns) {
		cred->cap_effective = caller->cap_effective;
	} else {
		cap_clear(cred->cap_effective);
		/* The VFS has checked the caller's permissions in the caller's user namespace. */
		cap_raise(cred->cap_effective, CAP_DAC_OVERRIDE);
	}
	err = dir_label_as(caller, parent->dentry, mode, cred);
	if (err) {
		put_cred(cred);
		return ERR_PTR(err);
	}
	old = override_creds(cred);
	lower = hugemap_tmpfile_lower(hugemap_lower_idmap(sb), parent, mode, flags);
	revert_creds(old);
	put_cred(cred);
	return lower;
}

static int dir_tmpfile(struct hugemap_idmap *unused, struct inode *dir, struct file *file,
		       umode_t mode)
{
	struct dentry *dentry = file->f_path.dentry;
	struct path parent = hugemap_lower_path(dentry->d_parent);
	struct inode *inode;
	struct file *lower;
	int err;

	err = mnt_want_write(parent.mnt);
	if (err)
		return err;
	lower = dir_tmpfile_lower(dir->i_sb, &parent, mode, file->f_flags);
	mnt_drop_write(parent.mnt);
	if (IS_ERR(lower))
		return PTR_ERR(lower);
	inode = hugemap_inode_get(dir->i_sb, file_inode(lower));
	if (IS_ERR(inode)) {
		fput(lower);
		return PTR_ERR(inode);
	}
	hugemap_set_lower(dentry, dget(lower->f_path.dentry));
	/* A lower link count of 0 means "deleted" until the file gets a name: see dir_link(). */
	hugemap_inode(inode)->uncounted = false;
	/* d_tmpfile() decrements the link count. */
	set_nlink(inode, 1);
	d_tmpfile(file, inode);
	/* d_tmpfile() marked the inode dirty. Clean it, or it would never be evicted. */
	write_inode_now(inode, 0);
	fput(lower);
	return finish_open_simple(file, 0);
}

const struct inode_operations hugemap_dir_inode_operations = {
	.lookup = hugemap_lookup,
	.create = dir_create,
	.link = dir_link,
	.unlink = dir_unlink,
	.symlink = dir_symlink,
	.mkdir = dir_mkdir,
	.rmdir = dir_rmdir,
	.mknod = dir_mknod,
	.rename = dir_rename,
	.tmpfile = dir_tmpfile,
	.permission = hugemap_permission,
	.getattr = hugemap_getattr,
	.setattr = hugemap_setattr,
	.listxattr = hugemap_listxattr,
	.update_time = hugemap_update_time,
	.fileattr_get = hugemap_fileattr_get,
	.fileattr_set = hugemap_fileattr_set,
#if defined(HUGEMAP_HAVE_VFS_ACL) || defined(HUGEMAP_HAVE_GET_ACL)
	.get_acl = hugemap_get_acl,
	.set_acl = hugemap_set_acl,
#endif
};
