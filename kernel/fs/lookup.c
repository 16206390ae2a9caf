// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Lookup of names in the lower file system, and revalidation of dentries, whose lower names may
 * change at any time.
 */
#include <linux/dcache.h>
#include <linux/fs.h>
#include <linux/namei.h>
#include <linux/rcupdate.h>
#include <linux/string.h>

#include "namespace.h"

struct dentry *hugemap_lookup(struct inode *dir, struct dentry *dentry, unsigned int flags)
{
	struct dentry *parent = hugemap_lower(dentry->d_parent);
	struct inode *inode = NULL;
	struct dentry *lower;

	lower = hugemap_lookup_lower(hugemap_lower_idmap(dir->i_sb), &dentry->d_name, parent);
	if (IS_ERR(lower))
		return lower;
	/* No path walk of this file system could follow an automount point. */
	if (lower->d_flags & (DCACHE_NEED_AUTOMOUNT | DCACHE_MANAGE_TRANSIT)) {
		dput(lower);
		return ERR_PTR(-EREMOTE);
	}
	if (d_really_is_positive(lower)) {
		inode = hugemap_inode_get(dir->i_sb, d_inode(lower));
		if (IS_ERR(inode)) {
			dput(lower);
			return ERR_CAST(inode);
		}
	}
	dentry->d_fsdata = lower;
	return d_splice_alias(inode, dentry);
}

/*
 * True if the lower name has changed since the lookup. Takes no locks: RCU keeps both dentries and
 * their names, and the sequence counters detect changes.
 */
static bool lookup_is_stale(struct dentry *dentry)
{
	struct dentry *lower, *parent;
	struct qstr name, lower_name;
	struct inode *inode;
	unsigned int seq, lower_seq;
	bool stale;

	rcu_read_lock();
	do {
		seq = read_seqcount_begin(&dentry->d_seq);
		lower = READ_ONCE(dentry->d_fsdata);
		lower_seq = read_seqcount_begin(&lower->d_seq);
		inode = READ_ONCE(dentry->d_inode);
		stale = d_unhashed(lower) ||
			READ_ONCE(lower->d_inode) != (inode ? hugemap_inode(inode)->lower : NULL);
		parent = READ_ONCE(dentry->d_parent);
		if (READ_ONCE(lower->d_parent) != READ_ONCE(parent->d_fsdata))
			stale = true;
		name = dentry->d_name;
		lower_name = lower->d_name;
	} while (read_seqcount_retry(&dentry->d_seq, seq) ||
		 read_seqcount_retry(&lower->d_seq, lower_seq));
	/* In a case-insensitive directory the names may differ. */
	if (!stale && !(lower->d_flags & (DCACHE_OP_HASH | DCACHE_OP_COMPARE)))
		stale = name.len != lower_name.len || memcmp(name.name, lower_name.name, name.len);
	rcu_read_unlock();
	return stale;
}

/* A value of d_time that read_seqcount_begin() of d_seq, which is even, never returns. */
#define NOT_CHANGING 1ul

static int lookup_dentry_init(struct dentry *dentry)
{
	dentry->d_time = NOT_CHANGING;
	return 0;
}

/* The VFS changes d_seq when it changes the dentry, so the value in d_time expires by itself. */
void hugemap_name_changes(struct dentry *dentry)
{
	WRITE_ONCE(dentry->d_time, read_seqcount_begin(&dentry->d_seq));
}

void hugemap_name_stays(struct dentry *dentry)
{
	WRITE_ONCE(dentry->d_time, NOT_CHANGING);
}

/*
 * True if another task has changed the lower name. The lock of the upper directory proves
 * nothing: a task that looks the name up to create it holds that lock, too.
 */
static bool lookup_lower_changed(struct dentry *dentry)
{
	unsigned int seq;

	do {
		seq = read_seqcount_begin(&dentry->d_seq);
		if (!lookup_is_stale(dentry) || READ_ONCE(dentry->d_time) == seq)
			return false;
	} while (read_seqcount_retry(&dentry->d_seq, seq));
	return true;
}

void hugemap_set_lower(struct dentry *dentry, struct dentry *lower)
{
	struct dentry *old;

	spin_lock(&dentry->d_lock);
	old = dentry->d_fsdata;
	WRITE_ONCE(dentry->d_fsdata, lower);
	spin_unlock(&dentry->d_lock);
	dput(old);
}

struct dentry *hugemap_get_lower(struct dentry *dentry)
{
	struct dentry *lower;

	rcu_read_lock();
	do {
		/* hugemap_set_lower() may have replaced it and dropped the last reference. */
		lower = READ_ONCE(dentry->d_fsdata);
	} while (!lockref_get_not_dead(&lower->d_lockref));
	rcu_read_unlock();
	return lower;
}

static int lookup_revalidate_lower(struct dentry *dentry, unsigned int flags)
{
	struct dentry *lower, *parent;
	struct name_snapshot name;
	int valid = 1;

	rcu_read_lock();
	lower = READ_ONCE(dentry->d_fsdata);
	if (lower->d_flags & DCACHE_OP_REVALIDATE)
		valid = -ECHILD;
	rcu_read_unlock();
	if (valid > 0 || (flags & LOOKUP_RCU))
		return valid;

	lower = hugemap_get_lower(dentry);
	parent = dget_parent(lower);
	take_dentry_name_snapshot(&name, lower);
	valid = hugemap_revalidate_lower(lower, d_inode(parent), &name.name, flags);
	release_dentry_name_snapshot(&name);
	if (!valid)
		d_invalidate(lower);
	dput(parent);
	dput(lower);
	return valid;
}

static int lookup_revalidate(struct dentry *dentry, unsigned int flags)
{
	struct inode *inode;

	if (!lookup_is_stale(dentry)) {
		/* Update the copies before the VFS checks permissions with them. */
		inode = d_inode_rcu(dentry);
		if (inode && !hugemap_has_owner_of(inode, hugemap_inode(inode)->lower)) {
			if (flags & LOOKUP_RCU)
				return -ECHILD;
			hugemap_follow_owner(inode);
		}
		if (inode)
			hugemap_copy_flags(inode);
		return lookup_revalidate_lower(dentry, flags);
	}
	if (flags & LOOKUP_RCU)
		return -ECHILD;
	if (!lookup_lower_changed(dentry))
		return 1;
	/* If the lower file was deleted, do not keep its data in the cache. */
	inode = d_inode(dentry);
	if (inode && !hugemap_inode(inode)->lower->i_nlink)
		hugemap_set_nlink(inode, 0);
	return 0;
}

#ifdef HUGEMAP_HAVE_REVALIDATE_NAME
static int lookup_dentry_revalidate(struct inode *dir, const struct qstr *name,
				    struct dentry *dentry, unsigned int flags)
#else
static int lookup_dentry_revalidate(struct dentry *dentry, unsigned int flags)
#endif
{
	return lookup_revalidate(dentry, flags);
}

static void lookup_dentry_release(struct dentry *dentry)
{
	dput(dentry->d_fsdata);
}

const struct dentry_operations hugemap_dentry_operations = {
	.d_init = lookup_dentry_init,
	.d_revalidate = lookup_dentry_revalidate,
	.d_release = lookup_dentry_release,
};
