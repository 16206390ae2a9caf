// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The life of a cached file: the first open opens the lower file, and the first access to its data
 * creates the struct hm_file of the core (hugemap_need_file()). Both stay until the inode is
 * evicted.
 */
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/pagemap.h>

#include "aops.h"
#include "evict.h"
#include "index.h"
#include "writeback.h"
#include "writer.h"

void hugemap_data_init(struct hugemap_inode *hi)
{
	mutex_init(&hi->data->open_lock);
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

static void file_close_for_data(struct hugemap_inode *hi)
{
	if (hi->data->writer)
		fput(hi->data->writer);
	if (hi->data->reader)
		fput(hi->data->reader);
	hi->data->writer = NULL;
	hi->data->reader = NULL;
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

	mutex_lock(&hi->data->open_lock);
	err = file_open_both(hi, file);
	mutex_unlock(&hi->data->open_lock);
	return err;
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
	/* The nodes of the file are freed together, at its end. */
	hi->data->evicting = true;
	hm_file_uncount_index(hi->hfile);
	hugemap_invalidate(hi, 0, U64_MAX, true);
	hugemap_drop_file(hi);
close:
	file_close_for_data(hi);
}
