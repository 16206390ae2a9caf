// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* HUGEMAP_IOC_CACHED: report which parts of a file are cached, and how. It counts as no access. */
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/sched/signal.h>
#include <linux/uaccess.h>

#include "data.h"
#include "hugemap_ioctl.h"

#define MAX_CELLS 65536u
/* The number of pages of a cell fits into 32 bits. */
#define LARGEST_CELL (1ull << (HM_PAGE_SHIFT + 31))

/*
 * As for mincore(2): the cached pages reveal how others use the file. So only a task that owns the
 * file or may write to it can see them.
 */
static bool cached_may_see(struct file *file)
{
	return file->f_mode & FMODE_WRITE ||
	       inode_owner_or_capable(hugemap_idmap_of(file->f_path.mnt), file_inode(file)) ||
	       !file_permission(file, MAY_WRITE);
}

/* Count the cached pages of a cell of the file. Return false if the file ends before it. */
static bool cached_scan(struct hugemap_inode *hi, u64 pgoff, u64 npages, struct hugemap_cell *cell)
{
	struct hm_file *hfile = smp_load_acquire(&hi->hfile);
	u64 end = min_t(u64, pgoff + npages, hugemap_pages(i_size_read(&hi->vfs_inode)));
	struct hm_cached sum = {};

	if (pgoff >= end)
		return false;
	*cell = (struct hugemap_cell){ .pages = end - pgoff };
	while (hfile && pgoff < end && !fatal_signal_pending(current)) {
		pgoff = hm_cached(hfile, pgoff, end, &sum);
		cond_resched();
	}
	cell->huge = sum.huge;
	cell->base = sum.base;
	cell->dirty = sum.dirty;
	return true;
}

long hugemap_cached(struct file *file, void __user *arg)
{
	struct hugemap_cached cached;
	struct hugemap_cell cell;
	u64 at;
	u32 i;

	if (!cached_may_see(file))
		return -EPERM;
	if (copy_from_user(&cached, arg, sizeof(cached)))
		return -EFAULT;
	if (cached.zero || !cached.cell || cached.cell > LARGEST_CELL || cached.count > MAX_CELLS ||
	    cached.offset > LLONG_MAX || (cached.offset | cached.cell) & (HM_BLOCK_SIZE - 1))
		return -EINVAL;
	at = cached.offset >> HM_PAGE_SHIFT;
	for (i = 0; i < cached.count; i++) {
		if (!cached_scan(hugemap_inode(file_inode(file)), at, cached.cell >> HM_PAGE_SHIFT,
				 &cell))
			break;
		if (fatal_signal_pending(current))
			return -EINTR;
		if (copy_to_user(u64_to_user_ptr(cached.cells) + i * sizeof(cell), &cell,
				 sizeof(cell)))
			return -EFAULT;
		at += cached.cell >> HM_PAGE_SHIFT;
	}
	cached.count = i;
	return copy_to_user(arg, &cached, sizeof(cached)) ? -EFAULT : 0;
}
