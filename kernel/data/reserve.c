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

#include "change.h"
#include "reserve.h"
#include "worker.h"

/* Blocks of the lower file system that must stay free for its own needs. */
#define MIN_SPARE_BLOCKS 64u
#define PAGES_PER_SPARE_BLOCK 128u

/*
 * Return true if the lower file system would have too few free blocks. When it writes, it needs
 * some more blocks than the data: it splits extents, at worst one for each dirty page. Without
 * these blocks, data whose own blocks are allocated could not be written.
 */
static bool reserve_room_is_short(struct hugemap_inode *hi, loff_t bytes)
{
	u64 spare = MIN_SPARE_BLOCKS + hm_file_dirty_pages(hi->hfile) / PAGES_PER_SPARE_BLOCK;
	struct kstatfs st;

	if (vfs_statfs(&hi->data->writer->f_path, &st) || !st.f_blocks || !st.f_bsize)
		return false; /* it does not report its size, or has no limit */
	return st.f_bavail < spare + DIV_ROUND_UP_ULL(bytes, st.f_bsize);
}

/*
 * Return true if the lower file has extents in a range: data or preallocated blocks. A file system
 * that cannot report extents (tmpfs) has none to split.
 */
static bool reserve_has_extents(struct hugemap_inode *hi, loff_t pos, loff_t len)
{
	struct fiemap_extent_info info = {};

	if (!hi->lower->i_op->fiemap)
		return true;
	return !hi->lower->i_op->fiemap(hi->lower, &info, pos, len) && info.fi_extents_mapped;
}

/*
 * A preallocated range is a hole for the core, because it holds no data, but a store into it takes
 * no free block. Databases preallocate so that they can write when space is short. So if space is
 * short, let the lower file system decide about such a range.
 */
static int reserve_allocate(struct hugemap_inode *hi, struct file *writer, loff_t pos, loff_t len)
{
	bool is_short = reserve_room_is_short(hi, len);
	int err = -EOPNOTSUPP;

	if (is_short && !reserve_has_extents(hi, pos, len))
		return -ENOSPC;
	if (writer->f_op->fallocate)
		err = writer->f_op->fallocate(writer, FALLOC_FL_KEEP_SIZE, pos, len);
	/* A file system that cannot allocate blocks ahead reports a lack of space at write-back. */
	if (err == -EOPNOTSUPP)
		err = is_short && !hi->lower->i_op->fiemap ? -ENOSPC : 0;
	return err;
}

static int reserve_range(struct hugemap_inode *hi, u64 pgoff, u64 npages, struct hm_access unused)
{
	struct address_space *mapping = hi->vfs_inode.i_mapping;
	struct file *writer = smp_load_acquire(&hi->data->writer);
	loff_t pos = (loff_t)pgoff << HM_PAGE_SHIFT, len;
	int err = 0;

	hugemap_start_write_lower(hi);
	/*
	 * The lock keeps others from punching a hole between the allocation and
	 * hm_file_set_allocated().
	 */
	filemap_invalidate_lock_shared(mapping);
	/* Allocate to the end of the last page: it is not reserved again when the file grows. */
	len = round_up((loff_t)hm_file_size(hi->hfile), HM_PAGE_SIZE) - pos;
	len = min_t(loff_t, npages << HM_PAGE_SHIFT, len);
	if (len > 0) {
		err = reserve_allocate(hi, writer, pos, len);
		hugemap_race_point("room: allocated, not noted");
		if (!err)
			/*
			 * Not beyond the end of the file: a writer there may have noted holes by
			 * now.
			 */
			hm_file_set_allocated(hi->hfile, pgoff, hugemap_pages(len));
	}
	filemap_invalidate_unlock_shared(mapping);
	hugemap_end_write_lower(hi);
	return err;
}

int hugemap_reserve(struct hugemap_inode *hi, u64 pgoff, u64 npages)
{
	int err = -EINTR;

	if (!hi->lower || !smp_load_acquire(&hi->data->writer))
		return 0;
	/*
	 * Some file systems apply the caller's RLIMIT_FSIZE to an allocation that does not extend
	 * the file. A store to a mapping has no such limit, and the range may lie beyond the end of
	 * the lower file because write(2) was allowed to extend the upper one. A worker has no
	 * limit.
	 */
	if (current->flags & PF_KTHREAD || rlimit(RLIMIT_FSIZE) == RLIM_INFINITY)
		err = reserve_range(hi, pgoff, npages, HM_ACCESS_READ);
	/*
	 * tmpfs and FUSE servers may fail an allocation while any signal is pending. A worker has
	 * no signals, so let it try again. Without blocks no store happens, and write(2) takes no
	 * data.
	 */
	if (err == -EINTR && !(current->flags & PF_KTHREAD) && !fatal_signal_pending(current))
		err = hugemap_by_worker(hi, reserve_range, pgoff, npages, HM_ACCESS_READ);
	return err;
}

bool hugemap_drop_huge(struct hugemap_inode *hi, u64 pgoff, u64 end, u32 *tries)
{
	struct address_space *mapping = hi->vfs_inode.i_mapping;

	if (*tries > HUGEMAP_PIN_RETRIES)
		return false;
	/* Wait without the lock: the pin holder may need it for its next page. */
	if ((*tries)++)
		schedule_timeout_killable(1);
	filemap_invalidate_lock(mapping);
	hugemap_drop_clean_pages(hi, pgoff, end);
	filemap_invalidate_unlock(mapping);
	return true;
}

bool hugemap_has_huge(struct hugemap_inode *hi, u64 pgoff)
{
	struct hm_unit unit;
	enum hm_state state = hm_peek(hi->hfile, pgoff, &unit);

	return state != HM_ABSENT && unit.npages > 1;
}
