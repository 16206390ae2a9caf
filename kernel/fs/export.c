// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * File handles, for NFS servers and open_by_handle_at(2). They are the handles of the lower file
 * system. Only files in the mounted directory can be opened by them.
 */
#include <linux/cred.h>
#include <linux/dcache.h>
#include <linux/exportfs.h>
#include <linux/fs.h>

#include "namespace.h"

static int export_encode_fh(struct inode *inode, u32 *fh, int *max_len, struct inode *unused)
{
	struct inode *inode_lower = hugemap_inode(inode)->lower;
	/* Prefer a name that has not been deleted. */
	struct dentry *lower = d_find_alias(inode_lower) ?: d_find_any_alias(inode_lower);
	const struct export_operations *ops = inode_lower->i_sb->s_export_op;
	int type;

	if (!lower)
		return FILEID_INVALID;
	/*
	 * Encode the parent directory, too, so that the decoder finds the file in the tree.
	 * File systems without fh_to_parent, such as tmpfs, do not need the parent, and Linux
	 * 6.13 and later refuse to encode it.
	 */
	type = exportfs_encode_fh(lower, (struct fid *)fh, max_len, ops && ops->fh_to_parent);
	dput(lower);
	return type < 0 ? FILEID_INVALID : type;
}

/*
 * exportfs_decode_fh() calls this for each alias of a file. Accept only a name that has not been
 * deleted: a deleted name may still be open, while the file has another name. A directory has only
 * one name, which is looked up again.
 */
static int export_lies_in(void *root, struct dentry *lower)
{
	return (d_is_dir(lower) || !d_unhashed(lower)) && is_subdir(lower, root);
}

/* The ancestor of @lower, or @lower itself, whose parent is @parent. */
static struct dentry *export_step_towards(struct dentry *lower, struct dentry *parent)
{
	struct dentry *at = dget(lower), *up;

	for (;;) {
		up = dget_parent(at);
		if (up == parent) {
			dput(up);
			return at;
		}
		dput(at);
		at = up;
		if (IS_ROOT(at)) {
			dput(at);
			return NULL;
		}
	}
}

/* The child of @upper that is @lower, or an ancestor of @lower. */
static struct dentry *export_step_down(struct dentry *upper, struct dentry *lower)
{
	struct dentry *parent, *next, *found;
	struct name_snapshot name;

	parent = hugemap_get_lower(upper);
	next = export_step_towards(lower, parent);
	dput(parent);
	if (!next)
		return ERR_PTR(-ESTALE);
	take_dentry_name_snapshot(&name, next);
	found = hugemap_lookup_lower(hugemap_lower_idmap(upper->d_sb), &name.name, upper);
	release_dentry_name_snapshot(&name);
	/* Another task renamed or deleted it. */
	if (!IS_ERR(found) && (d_really_is_negative(found) ||
			       hugemap_inode(d_inode(found))->lower != d_inode(next))) {
		dput(found);
		found = ERR_PTR(-ESTALE);
	}
	dput(next);
	return found;
}

static struct dentry *export_upper_of(struct super_block *sb, struct dentry *lower)
{
	struct dentry *upper = dget(sb->s_root), *next;

	while (hugemap_inode(d_inode(upper))->lower != d_inode(lower)) {
		next = d_is_dir(upper) ? export_step_down(upper, lower) : ERR_PTR(-ESTALE);
		dput(upper);
		if (IS_ERR(next))
			return next;
		upper = next;
	}
	return upper;
}

/* Returns connected dentries only: it looks up each name on the path to the lower dentry. */
static struct dentry *export_fh_to_dentry(struct super_block *sb, struct fid *fid, int fh_len,
					  int fh_type)
{
	struct hugemap_mount *mount = hugemap_mount(sb);
	const struct cred *old = override_creds(mount->cred);
	struct dentry *lower, *upper;

	lower = exportfs_decode_fh(mount->lower.mnt, fid, fh_len, fh_type, export_lies_in,
				   mount->lower.dentry);
	if (IS_ERR_OR_NULL(lower)) {
		upper = lower ?: ERR_PTR(-ESTALE);
	} else {
		upper = export_upper_of(sb, lower);
		dput(lower);
	}
	revert_creds(old);
	return upper;
}

/* An NFS server replies to a change of a name or attribute after this call made it durable. */
static int export_commit_metadata(struct inode *inode)
{
	struct inode *lower = hugemap_inode(inode)->lower;
	const struct export_operations *ops = lower->i_sb->s_export_op;

	if (ops->commit_metadata)
		return ops->commit_metadata(lower);
	return sync_inode_metadata(lower, 1);
}

static const struct export_operations export_operations = {
	.encode_fh = export_encode_fh,
	.fh_to_dentry = export_fh_to_dentry,
	.commit_metadata = export_commit_metadata,
};

void hugemap_set_export(struct super_block *sb, const struct super_block *lower)
{
	if (IS_ENABLED(CONFIG_EXPORTFS) && lower->s_export_op && lower->s_export_op->fh_to_dentry)
		sb->s_export_op = &export_operations;
}
