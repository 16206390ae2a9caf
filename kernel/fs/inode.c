// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Inodes that stand for lower inodes: allocation, lookup and eviction. This file does not know
 * the operations of an inode: mount->set_operations() sets them, so that operations can create
 * inodes without a circle between files.
 */
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>

#include "namespace.h"

static struct kmem_cache *inode_cache, *data_cache;

static void inode_init_object(void *object)
{
	struct hugemap_inode *hi = object;

	inode_init_once(&hi->vfs_inode);
}

int __init hugemap_inode_setup(void)
{
	inode_cache = kmem_cache_create("hugemap_inode", sizeof(struct hugemap_inode), 0,
					SLAB_RECLAIM_ACCOUNT | SLAB_ACCOUNT, inode_init_object);
	data_cache = KMEM_CACHE(hugemap_data, SLAB_RECLAIM_ACCOUNT | SLAB_ACCOUNT);
	if (inode_cache && data_cache)
		return 0;
	hugemap_inode_teardown();
	return -ENOMEM;
}

void hugemap_inode_teardown(void)
{
	/* Wait for inode_free(), an RCU callback. */
	rcu_barrier();
	kmem_cache_destroy(inode_cache);
	kmem_cache_destroy(data_cache);
}

struct inode *hugemap_alloc_inode(struct super_block *sb)
{
	struct hugemap_inode *hi = alloc_inode_sb(sb, inode_cache, GFP_KERNEL);

	if (!hi)
		return NULL;
	/* Clear everything except the VFS inode, which inode_init_object() initialized. */
	memset((char *)hi + offsetofend(struct hugemap_inode, vfs_inode), 0,
	       sizeof(*hi) - offsetofend(struct hugemap_inode, vfs_inode));
	return &hi->vfs_inode;
}

static void inode_free(struct rcu_head *rcu)
{
	struct hugemap_inode *hi = hugemap_inode(container_of(rcu, struct inode, i_rcu));

	if (hi->data)
		kmem_cache_free(data_cache, hi->data);
	kmem_cache_free(inode_cache, hi);
}

static void inode_free_data(struct work_struct *work)
{
	struct hugemap_inode *hi = container_of(work, struct hugemap_data, chunk)->hi;

	hugemap_data_free(hi);
	/* A path walk may still find the inode. */
	call_rcu(&hi->vfs_inode.i_rcu, inode_free);
}

/*
 * Linux calls this with bottom halves off. A file of terabytes has a million index nodes, so a
 * worker frees them.
 */
static void inode_queue_free(struct rcu_head *rcu)
{
	struct hugemap_inode *hi = hugemap_inode(container_of(rcu, struct inode, i_rcu));

	/* The file is closed, so its write-back needs the work no more. */
	INIT_WORK(&hi->data->chunk, inode_free_data);
	queue_work(hugemap_mount(hi->vfs_inode.i_sb)->free_wq, &hi->data->chunk);
}

void hugemap_destroy_inode(struct inode *inode)
{
	if (hugemap_inode(inode)->hfile)
		call_srcu(&hugemap_files_srcu, &inode->i_rcu, inode_queue_free);
	else
		call_rcu(&inode->i_rcu, inode_free);
}

int hugemap_inode_add_data(struct inode *inode)
{
	struct hugemap_inode *hi = hugemap_inode(inode);

	hi->data = kmem_cache_zalloc(data_cache, GFP_KERNEL);
	if (!hi->data)
		return -ENOMEM;
	hi->data->hi = hi;
	hugemap_data_init(hi);
	return 0;
}

/*
 * True if the file has no names. The upper link count alone may be old: another machine may have
 * linked the file since. The lower one alone is always 0 on some FUSE file systems.
 */
static bool inode_is_deleted(const struct inode *inode)
{
	const struct hugemap_inode *hi = hugemap_inode(inode);

	return !inode->i_nlink && hi->lower && !hi->lower->i_nlink && !hi->uncounted;
}

void hugemap_evict_inode(struct inode *inode)
{
	if (hugemap_inode(inode)->data)
		hugemap_data_evict(inode, inode_is_deleted(inode));
	truncate_inode_pages_final(&inode->i_data);
	clear_inode(inode);
	/* Keep the pointer: a path walk under RCU may still compare it. */
	iput(hugemap_inode(inode)->lower);
}

static int inode_test(struct inode *inode, void *lower)
{
	return hugemap_inode(inode)->lower == lower;
}

static int inode_set(struct inode *inode, void *data)
{
	struct inode *lower = data;

	ihold(lower);
	hugemap_inode(inode)->lower = lower;
	inode->i_ino = lower->i_ino;
	return 0;
}

static int inode_init_inode(struct inode *inode, struct inode *lower)
{
	int err = 0;

	hugemap_inode(inode)->uncounted = !lower->i_nlink;
	hugemap_copy_attr(inode);
	inode->i_generation = lower->i_generation;
#ifdef CONFIG_FS_POSIX_ACL
	/* The lower file system caches ACLs. */
	inode->i_acl = ACL_DONT_CACHE;
	inode->i_default_acl = ACL_DONT_CACHE;
#endif
	if (S_ISREG(inode->i_mode)) {
		i_size_write(inode, i_size_read(lower));
		err = hugemap_inode_add_data(inode);
	}
	hugemap_mount(inode->i_sb)->set_operations(inode);
	return err;
}

struct inode *hugemap_inode_get(struct super_block *sb, struct inode *lower)
{
	struct hugemap_inode *hi;
	struct inode *inode;
	int err;

	inode = iget5_locked(sb, (unsigned long)lower, inode_test, inode_set, lower);
	if (!inode)
		return ERR_PTR(-ENOMEM);
	hi = hugemap_inode(inode);
	if (hugemap_inode_is_new(inode)) {
		err = inode_init_inode(inode, lower);
		if (err) {
			iget_failed(inode);
			return ERR_PTR(err);
		}
		unlock_new_inode(inode);
	} else if (!inode->i_nlink && (lower->i_nlink || hi->uncounted) && inode_trylock(inode)) {
		/* A lookup found a name, so the file is not deleted. */
		if (hi->uncounted)
			hi->gone = false;
		hugemap_copy_attr(inode);
		inode_unlock(inode);
	}
	return inode;
}
