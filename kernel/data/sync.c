// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* fsync(), syncfs() and changes of attributes need all stores in the lower file. */
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/pagemap.h>

#include "evict.h"
#include "trace.h"
#include "wait.h"
#include "writeback.h"

static bool sync_may_be_dirty(struct hugemap_inode *hi)
{
	struct address_space *mapping = hi->vfs_inode.i_mapping;
	bool dirty;

	if (!smp_load_acquire(&hi->hfile))
		return false;
	/*
	 * A change of the lower file may have claimed dirty units. It holds the lock until it has
	 * reported them, or has counted those that reclaim has claimed again.
	 */
	filemap_invalidate_lock_shared(mapping);
	hugemap_wait_claims(hugemap_of(hi));
	dirty = hm_file_dirty_pages(hi->hfile);
	filemap_invalidate_unlock_shared(mapping);
	return dirty;
}

int hugemap_write_back(struct inode *inode, loff_t start, loff_t end)
{
	struct hugemap_inode *hi = hugemap_inode(inode);
	u64 last = end >= LLONG_MAX - HM_PAGE_SIZE ? U64_MAX : hugemap_pages(end);
	u64 pos = (u64)start >> HM_PAGE_SHIFT, before;
	int err = 0, one = 0;

	/* Without dirty units, do not wait for a frozen lower file system. */
	if (!sync_may_be_dirty(hi))
		return 0;
	last = min(last, hugemap_pages(i_size_read(inode)));
	/* Release the invalidate_lock between chunks, for other tasks. Continue behind an error. */
	for (before = U64_MAX; pos < last && (!one || pos != before);) {
		before = pos;
		one = hugemap_write_some(hi, &pos, last, HUGEMAP_CHUNK_PAGES, true);
		err = err ?: one;
	}
	return err;
}

int hugemap_quiesce_writes(struct inode *inode)
{
	struct hugemap_inode *hi = hugemap_inode(inode);
	int err = 0;

	hugemap_yield_to_stores(hi);
	filemap_invalidate_lock(inode->i_mapping);
	/*
	 * If the lower file is already immutable, this change clears the flag, or the lower file
	 * system refuses it.
	 */
	if (hi->hfile && !IS_IMMUTABLE(hi->lower))
		err = hugemap_write_range(hi, 0, U64_MAX);
	if (err)
		filemap_invalidate_unlock(inode->i_mapping);
	return err;
}

void hugemap_resume_writes(struct inode *inode)
{
	filemap_invalidate_unlock(inode->i_mapping);
}

int hugemap_fsync(struct file *file, loff_t start, loff_t end, int datasync)
{
	struct inode *inode = file_inode(file);
	struct hugemap_mount *mount = hugemap_mount(inode->i_sb);
	struct file *lower = mount->device ?: hugemap_lower_file(file);
	int err, lower_err, told;

	/* The lower file gets its final size with the last data beyond its old end. */
	if (hugemap_is_growing(hugemap_inode(inode)))
		end = LLONG_MAX;
	/* @end is the last byte, and not the byte after it. */
	err = hugemap_write_back(inode, start, end == LLONG_MAX ? end : end + 1);
	hugemap_race_point("sync: written, not flushed");
	/* Flush the metadata of the lower file and the cache of the device. */
	lower_err = vfs_fsync_range(lower, start, end, datasync);
	hugemap_race_point("sync: flushed, errors not reported");
	told = file_check_and_advance_wb_err(file);
	hugemap_count(mount, HUGEMAP_C_SYNCS, 1);
	trace_hugemap_sync(inode, start, end, err ?: lower_err);
	return told ?: err ?: lower_err;
}

/*
 * Return true if a sync may skip the file. A device may store to a page that a change of the lower
 * file has claimed as clean. Before the change releases the invalidate_lock, it counts this page as
 * dirty, or as claimed again if reclaim has claimed it since. So test the lock before both counts.
 */
static bool sync_is_clean(struct hugemap_inode *hi)
{
	if (rwsem_is_locked(&hi->vfs_inode.i_mapping->invalidate_lock))
		return false;
	smp_rmb(); /* pairs with the release in up_write() */
	return !hugemap_claims_pending(hugemap_of(hi)) && !hm_file_dirty_pages(hi->hfile);
}

int hugemap_data_sync(struct hugemap_mount *mount)
{
	struct hugemap_inode *hi, *last = NULL;
	struct hugemap_data *data;
	int err = 0, one, idx;
	u64 end;

	/* A file that a task uses already may not be in the list yet; the lock waits for that. */
	spin_lock(&mount->files_lock);
	end = mount->next_nr;
	spin_unlock(&mount->files_lock);
	hugemap_wait_claims(mount);
	/*
	 * Write one file after the other. The list may change while a file is written, but that
	 * file stays in it. Files that other tasks create meanwhile join at the end. A sync that
	 * included them might never end.
	 */
	idx = srcu_read_lock(&hugemap_files_srcu);
	list_for_each_entry_srcu(data, &mount->files, files,
				 srcu_read_lock_held(&hugemap_files_srcu)) {
		if (data->nr >= end)
			break;
		hi = data->hi;
		hugemap_race_point("sync: at a file, without a reference");
		if (sync_is_clean(hi) || !igrab(&hi->vfs_inode))
			continue;
		srcu_read_unlock(&hugemap_files_srcu, idx);
		if (last)
			iput(&last->vfs_inode);
		one = hugemap_write_back(&hi->vfs_inode, 0, LLONG_MAX);
		if (one && !err)
			err = one;
		last = hi;
		idx = srcu_read_lock(&hugemap_files_srcu);
	}
	srcu_read_unlock(&hugemap_files_srcu, idx);
	if (last)
		iput(&last->vfs_inode);
	return err;
}
