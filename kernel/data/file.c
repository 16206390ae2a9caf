// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The life of a cached file: the first open opens the lower file and creates the struct hm_file
 * of the core. Both stay until the inode is evicted, or until the core has no room for another
 * file and this one is closed and clean.
 */
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/slab.h>

#include "aops.h"
#include "evict.h"
#include "index.h"
#include "writeback.h"
#include "writer.h"

/* Files that are examined when the core has no room for another one. */
#define TRIM_FILES 64u

void hugemap_data_init(struct hugemap_inode *hi)
{
	mutex_init(&hi->data->hfile_lock);
	mutex_init(&hi->data->grow_lock);
	spin_lock_init(&hi->data->overwrite_lock);
	INIT_LIST_HEAD(&hi->data->overwrites);
	hi->data->growth_failed_at = LLONG_MAX;
	INIT_LIST_HEAD(&hi->data->files);
	INIT_LIST_HEAD(&hi->data->idle);
	INIT_WORK(&hi->data->chunk, hugemap_chunk_work);
	hi->vfs_inode.i_mapping->a_ops = &hugemap_aops;
	mapping_set_large_folios(hi->vfs_inode.i_mapping);
}

/* Open the lower file with the mounter's credentials. */
static struct file *file_open_for_data(struct hugemap_inode *hi, const struct file *upper,
				       int flags)
{
	struct hugemap_mount *mount = hugemap_of(hi);

	if (mount->device)
		return get_file(mount->device);
	return hugemap_open_quietly(mount, &hugemap_lower_file(upper)->f_path, flags | O_NOATIME);
}

/*
 * Destroy the struct hm_file of a file that has no dirty units and no users. @evicted: the inode is
 * being evicted. Otherwise this fails and returns false if another task holds a reference to the
 * inode, for example a sync that has found the file in the list.
 */
static bool file_destroy(struct hugemap_inode *hi, bool evicted)
{
	struct hugemap_mount *mount = hugemap_of(hi);
	struct hm_file *hfile = hi->hfile;

	/* A task that claims or writes units of the file holds files_lock or a reference. */
	down_write(&mount->files_lock);
	if (!evicted && atomic_read(&hi->vfs_inode.i_count) != 1) {
		up_write(&mount->files_lock);
		return false;
	}
	list_del_init(&hi->data->files);
	WRITE_ONCE(hi->hfile, NULL);
	/* hm_writeback_pick() walks all files of the cache under files_lock. */
	hm_file_destroy(hfile);
	up_write(&mount->files_lock);
	hugemap_free_nodes(hfile);
	kvfree(hi->data->file_mem);
	hi->data->file_mem = NULL;
	return true;
}

static void file_close_for_data(struct hugemap_inode *hi)
{
	if (hi->data->writer)
		fput(hi->data->writer);
	if (hi->data->reader)
		fput(hi->data->reader);
	hi->data->writer = NULL;
	hi->data->reader = NULL;
}

/* Destroy the struct hm_file of a file that is not open. Return false if it is in use again. */
static bool file_trim(struct hugemap_inode *hi)
{
	struct inode *inode = &hi->vfs_inode;
	bool unused = false;

	/* Cached names hold references to the inode. */
	d_prune_aliases(inode);
	hugemap_start_write_lower(hi);
	mutex_lock(&hi->data->hfile_lock);
	filemap_invalidate_lock(inode->i_mapping);
	if (hi->hfile && !hi->data->opens && !hugemap_write_range(hi, 0, U64_MAX)) {
		hugemap_invalidate(hi, 0, U64_MAX, false);
		/* If the caller has the only reference, no thread works on the file. */
		unused = mapping_empty(inode->i_mapping) && file_destroy(hi, false);
		if (unused)
			file_close_for_data(hi);
	}
	filemap_invalidate_unlock(inode->i_mapping);
	mutex_unlock(&hi->data->hfile_lock);
	hugemap_end_write_lower(hi);
	return unused;
}

/* The core has no room for another file: destroy some that are not open. */
static u32 file_trim_some(struct hugemap_mount *mount)
{
	struct hugemap_inode *found;
	struct hugemap_data *data;
	u32 ended = 0, looked;

	for (looked = 0; looked < TRIM_FILES; looked++) {
		found = NULL;
		down_write(&mount->files_lock);
		list_for_each_entry(data, &mount->files, files) {
			if (READ_ONCE(data->opens) || !igrab(&data->hi->vfs_inode))
				continue;
			found = data->hi;
			list_move_tail(&data->files, &mount->files);
			mount->files_moved++;
			break;
		}
		up_write(&mount->files_lock);
		if (!found)
			break;
		ended += file_trim(found);
		iput(&found->vfs_inode);
	}
	return ended;
}

static int file_create(struct hugemap_inode *hi)
{
	struct hugemap_mount *mount = hugemap_of(hi);
	struct hugemap_file_mem *mem;
	struct hm_file *hfile;

	mem = kvzalloc(sizeof(*mem) + hm_file_bytes(), GFP_KERNEL_ACCOUNT);
	if (!mem)
		return -ENOMEM;
	mem->hi = hi;
	/*
	 * A task may truncate the file by its path. Under the lock, either that task sees
	 * hi->hfile, or this one sees the new size.
	 */
	filemap_invalidate_lock_shared(hi->vfs_inode.i_mapping);
	hfile = hm_file_init(mount->cache, mem->core, i_size_read(&hi->vfs_inode));
	if (!hfile) {
		filemap_invalidate_unlock_shared(hi->vfs_inode.i_mapping);
		kvfree(mem);
		return i_size_read(&hi->vfs_inode) >> HM_BLOCK_SHIFT > HM_FILE_BLOCKS_MAX ? -EFBIG :
											    -ENFILE;
	}
	hi->data->file_mem = mem;
	hi->data->write_at = 0;
	smp_store_release(&hi->hfile, hfile);
	filemap_invalidate_unlock_shared(hi->vfs_inode.i_mapping);
	down_write(&mount->files_lock);
	list_add_tail(&hi->data->files, &mount->files);
	up_write(&mount->files_lock);
	return 0;
}

static int file_open_both(struct hugemap_inode *hi, const struct file *file)
{
	struct file *lower;

	if (!hi->data->reader) {
		lower = file_open_for_data(hi, file, O_RDONLY);
		if (IS_ERR(lower))
			return PTR_ERR(lower);
		hi->data->reader = lower;
	}
	if (!hi->data->writer && (file->f_mode & FMODE_WRITE)) {
		lower = file_open_for_data(hi, file, O_RDWR);
		if (IS_ERR(lower))
			return PTR_ERR(lower);
		hi->data->stable = hugemap_wants_stable(lower);
		/* mtime and ctime are those of stores and writes, not of write-back. */
		lower->f_mode |= FMODE_NOCMTIME;
		/* Pairs with the smp_load_acquire() of hi->data->writer before write-back. */
		smp_store_release(&hi->data->writer, lower);
	}
	return 0;
}

int hugemap_data_open(struct inode *inode, struct file *file)
{
	struct hugemap_inode *hi = hugemap_inode(inode);
	int err;

	do {
		mutex_lock(&hi->data->hfile_lock);
		err = file_open_both(hi, file);
		if (!err && !hi->hfile)
			err = file_create(hi);
		if (!err)
			hi->data->opens++;
		mutex_unlock(&hi->data->hfile_lock);
	} while (err == -ENFILE && file_trim_some(hugemap_of(hi)));
	return err;
}

void hugemap_data_release(struct inode *inode)
{
	struct hugemap_inode *hi = hugemap_inode(inode);

	mutex_lock(&hi->data->hfile_lock);
	WARN_ON_ONCE(!hi->data->opens);
	hi->data->opens--;
	mutex_unlock(&hi->data->hfile_lock);
}

void hugemap_data_evict(struct inode *inode, bool discard)
{
	struct hugemap_inode *hi = hugemap_inode(inode);
	int err;

	if (!hi->hfile)
		goto close;
	/*
	 * Memory reclaim calls this, too, and must not wait: it only evicts inodes without dirty
	 * units.
	 */
	if (!discard && hm_file_dirty_pages(hi->hfile)) {
		hugemap_start_write_lower(hi);
		err = hugemap_write_range(hi, 0, U64_MAX);
		hugemap_end_write_lower(hi);
		if (err)
			pr_err("hugemap: %s: inode %llu leaves with %llu bytes that could not be written: error %d\n",
			       inode->i_sb->s_id, (u64)inode->i_ino,
			       hm_file_dirty_pages(hi->hfile) << HM_PAGE_SHIFT, err);
	}
	hugemap_invalidate(hi, 0, U64_MAX, true);
	file_destroy(hi, true);
close:
	file_close_for_data(hi);
}
