// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Blocks of the lower file for pages that become dirty, so that each store that was accepted
 * can be written back. A store into a hole needs them first.
 */
#include <linux/fs.h>
#include <linux/falloc.h> /* needs the types of fs.h */
#include <linux/fiemap.h>
#include <linux/pagemap.h>
#include <linux/sched/signal.h>
#include <linux/statfs.h>

#include "reserve.h"
#include "worker.h"

/* Blocks that stay free below for its own needs. */
#define MIN_SPARE_BLOCKS 64u
#define PAGES_PER_SPARE_BLOCK 128u

/*
 * The lower file system needs a few blocks more than the data when it is written:
 * extents that are split, at worst one for each dirty page. Without them, data
 * that has room could not be written.
 */
static bool reserve_room_is_short(struct hugemap_inode *hi, loff_t bytes)
{
	u64 spare = MIN_SPARE_BLOCKS + hm_file_dirty_pages(hi->hfile) / PAGES_PER_SPARE_BLOCK;
	struct kstatfs st;

	if (vfs_statfs(&hi->writer->f_path, &st) || !st.f_blocks || !st.f_bsize)
		return false; /* it cannot say, or has no limit */
	return st.f_bavail < spare + DIV_ROUND_UP_ULL(bytes, st.f_bsize);
}

/*
 * Has the lower file something of a range: data, or room that was preallocated? Who cannot
 * say (tmpfs) has no extents to split.
 */
static bool reserve_has_extents(struct hugemap_inode *hi, loff_t pos, loff_t len)
{
	struct fiemap_extent_info info = {};

	if (!hi->lower->i_op->fiemap)
		return true;
	return !hi->lower->i_op->fiemap(hi->lower, &info, pos, len) && info.fi_extents_mapped;
}

/*
 * What is preallocated is a hole here, as it holds no data, and takes no room: when room is
 * short, as databases provide for, the lower file system has the last word.
 */
static int reserve_allocate(struct hugemap_inode *hi, struct file *writer, loff_t pos, loff_t len)
{
	bool is_short = reserve_room_is_short(hi, len);
	int err = -EOPNOTSUPP;

	if (is_short && !reserve_has_extents(hi, pos, len))
		return -ENOSPC;
	if (writer->f_op->fallocate)
		err = writer->f_op->fallocate(writer, FALLOC_FL_KEEP_SIZE, pos, len);
	/* Whoever cannot reserve tells at write-back. */
	if (err == -EOPNOTSUPP)
		err = is_short && !hi->lower->i_op->fiemap ? -ENOSPC : 0;
	return err;
}

static int reserve_range(struct hugemap_inode *hi, u64 pgoff, u64 npages, struct hm_access unused)
{
	struct address_space *mapping = hi->vfs_inode.i_mapping;
	struct file *writer = smp_load_acquire(&hi->writer);
	loff_t pos = (loff_t)pgoff << HM_PAGE_SHIFT, len;
	int err = 0;

	hugemap_start_write_lower(hi);
	/* Nobody makes a hole between the allocation and the note of it. */
	filemap_invalidate_lock_shared(mapping);
	/* To the end of the last page: it will not be reserved again if the file grows. */
	len = round_up((loff_t)hm_file_size(hi->hfile), HM_PAGE_SIZE) - pos;
	len = min_t(loff_t, npages << HM_PAGE_SHIFT, len);
	if (len > 0) {
		err = reserve_allocate(hi, writer, pos, len);
		hugemap_race_point("room: allocated, not noted");
		if (!err)
			/* Not behind the end: who writes there may have noted it as holes. */
			hm_file_set_allocated(hi->hfile, pgoff, hugemap_pages(len));
	}
	filemap_invalidate_unlock_shared(mapping);
	hugemap_end_write_lower(hi);
	return err;
}

int hugemap_reserve(struct hugemap_inode *hi, u64 pgoff, u64 npages)
{
	int err = -EINTR;

	if (!hi->lower || !smp_load_acquire(&hi->writer))
		return 0;
	/*
	 * Some file systems hold a limit of the caller's against room in a file that does not
	 * become longer. A store to a mapping has no limit, and behind the end of the file
	 * below there may be much that write(2) was allowed.
	 */
	if (current->flags & PF_KTHREAD || rlimit(RLIMIT_FSIZE) == RLIM_INFINITY)
		err = reserve_range(hi, pgoff, npages, HM_ACCESS_READ);
	/*
	 * tmpfs may give no room while any signal is pending, nor a FUSE server: who has no
	 * signals asks again. Nothing is stored, or taken from a write, without room.
	 */
	if (err == -EINTR && !(current->flags & PF_KTHREAD) && !fatal_signal_pending(current))
		err = hugemap_by_worker(hi, reserve_range, pgoff, npages, HM_ACCESS_READ);
	return err;
}
