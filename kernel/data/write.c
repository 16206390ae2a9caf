// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * write(2) through the pool. It uses the same frames as mappings, so both agree at every byte.
 *
 * An idea of "VFS on a many-core processor" can be switched while mounted: with write_optimization
 * the frames for the whole write are taken and enter the file together, and are neither read nor
 * zeroed first.
 */
#include <linux/cacheflush.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/sched/signal.h>
#include <linux/uaccess.h>
#include <linux/uio.h>

#include "access.h"
#include "change.h"
#include "fill.h"
#include "folio.h"
#include "index.h"
#include "reserve.h"
#include "slot.h"
#include "wait.h"

/* Base pages that one write takes at a time. */
#define BATCH 64u
/* Those of a short write, which needs no allocation. */
#define BATCH_SHORT 2u
/* Attempts without progress before a copy goes through a buffer. */
#define STUCK 4u
/* Copies of at least this length bypass the caches of the CPU. */
#define NOCACHE_BYTES (256u << 10)

/* The units that a write takes at a time. */
struct write_batch {
	struct hm_unit *units;
	u32 max;
	struct hm_unit few[BATCH_SHORT];
};

/*
 * Make room for the units of a write of @bytes at @pos. An append of a few bytes costs less than an
 * allocation of BATCH units, which the kernel may fill with zeros.
 */
static int write_batch_init(struct hugemap_inode *hi, struct write_batch *batch, loff_t pos,
			    size_t bytes)
{
	bool optimized = READ_ONCE(hugemap_of(hi)->opts.write_optimization);

	batch->units = batch->few;
	batch->max = optimized ? BATCH_SHORT : 1;
	if (!optimized || hugemap_pages(pos % HM_PAGE_SIZE + bytes) <= BATCH_SHORT)
		return 0;
	batch->units = kmalloc_array(BATCH, sizeof(*batch->units), GFP_KERNEL);
	batch->max = BATCH;
	return batch->units ? 0 : -ENOMEM;
}

static void write_batch_free(struct write_batch *batch)
{
	if (batch->units != batch->few)
		kfree(batch->units);
}

/* Copy without faults, because the source may be a mapping of the folio that is written. */
static size_t write_copy_in(struct folio *folio, size_t offset, size_t bytes, struct iov_iter *from)
{
	void *to = folio_address(folio) + offset;
	size_t copied;

	pagefault_disable();
	if (bytes >= NOCACHE_BYTES)
		copied = copy_from_iter_nocache(to, bytes, from);
	else
		copied = copy_from_iter(to, bytes, from);
	pagefault_enable();
	return copied;
}

/*
 * Extend the file to show the copied data. Do this before the data can be written back: with the
 * folio locked, or while the unit is being filled. Otherwise write-back would treat the data as
 * bytes beyond the end of the file.
 */
static void write_publish(struct hugemap_inode *hi, loff_t end)
{
	if (end > i_size_read(&hi->vfs_inode)) {
		/*
		 * Write the data before the size; pairs with smp_rmb() in read.c.
		 * Newer kernels have the barrier in i_size_write().
		 */
		smp_wmb();
		i_size_write(&hi->vfs_inode, end);
	}
}

/*
 * Allocate blocks of the lower file for pages that are about to become dirty, so that accepted data
 * can be written: from the first to the last hole among them.
 */
static int write_reserve_room(struct hugemap_inode *hi, u64 start, u64 end, struct hm_access access)
{
	u64 first = U64_MAX, last = 0, pgoff = start;
	enum hm_node_kind kind;
	int err = 0;

	while (hm_file_lacks_node(hi->hfile, start, &kind)) {
		/*
		 * The index nodes record the holes, so add the missing ones. A chunk lies under one
		 * leaf.
		 */
		err = hugemap_add_node(hi, start, kind);
		if (err)
			return err;
	}
	while (pgoff < end) {
		struct hm_unit unit = { .pgoff = pgoff, .npages = 1 };
		enum hm_state state = hm_peek(hi->hfile, pgoff, &unit);
		u64 next;

		next = max(unit.pgoff + unit.npages, pgoff + 1);
		if (unit.hints & HM_HINT_NEEDS_ALLOC) {
			/* A unit that is huge, or will be, is written as a whole. */
			bool part = state == HM_ABSENT && access.size != HM_SIZE_HUGE;

			first = min(first, part ? pgoff : unit.pgoff);
			last = part ? min(next, end) : next;
		}
		pgoff = next;
	}
	if (first < last)
		err = hugemap_reserve(hi, first, last - first);
	/* The writer may give up, and the leaf may be new. */
	if (err)
		hugemap_keep_index(hi, start);
	return err;
}

/*
 * The lower file system has no blocks for a huge unit. Reserve the blocks of the pages alone. All
 * pages lie in one block.
 */
static int write_reserve_pages(struct hugemap_inode *hi, u64 start, u64 end,
			       struct hm_access access)
{
	int err = -ENOSPC;
	u32 tries = 0;

	while (hugemap_has_no_room(err) && hugemap_drop_huge(hi, start, end, &tries)) {
		err = write_reserve_room(hi, start, end, access);
		if (hugemap_has_huge(hi, start))
			continue;
		/* Another task may have dropped the huge unit after there was no room for it. */
		return hugemap_has_no_room(err) ? write_reserve_room(hi, start, end, access) : err;
	}
	return err;
}

/* Write into a cached unit. 0: it is not cached. */
static ssize_t write_cached(struct hugemap_inode *hi, loff_t pos, struct iov_iter *from,
			    struct hm_access access)
{
	u64 pgoff = pos >> HM_PAGE_SHIFT;
	size_t offset, bytes, copied;
	struct hm_access store;
	enum hm_outcome outcome;
	struct folio *folio;
	struct hm_unit unit;

	access.npages = 1;
	folio = hugemap_find(hi, pgoff, access, &unit);
	if (!folio)
		return 0;
	folio_lock(folio);
	/*
	 * Base pages with allocated blocks may have become a huge unit with holes, which is written
	 * as a whole. So hm_fault() checks again that the unit needs no blocks (.allocated_only).
	 * The unit becomes dirty before the copy, and the folio stays locked until after it: see
	 * writeback_protect().
	 */
	offset = pos - ((loff_t)folio->index << HM_PAGE_SHIFT);
	bytes = min_t(size_t, folio_size(folio) - offset, iov_iter_count(from));
	store = hugemap_store_access(hi, hugemap_pages(offset % HM_PAGE_SIZE + bytes));
	outcome = hugemap_folio_is(hi, folio, pgoff) ? hm_fault(hi->hfile, pgoff, store, &unit) :
						       HM_MISS;
	if (outcome != HM_HIT) {
		folio_unlock(folio);
		folio_put(folio);
		/* 0: the caller tries again. */
		return outcome == HM_STABLE ? hugemap_wait_stable(hi, pgoff) : 0;
	}
	hugemap_race_point("write: dirty, not copied");
	copied = write_copy_in(folio, offset, bytes, from);
	flush_dcache_folio(folio);
	hugemap_race_point("write: copied, not the file's yet");
	if (copied)
		write_publish(hi, pos + copied);
	folio_unlock(folio);
	folio_put(folio);
	hugemap_take_hints(hi, &unit);
	if (unit.hints & HM_HINT_READAHEAD)
		hugemap_write_behind(hi, pgoff, access);
	return copied ?: -EFAULT;
}

/* Return true if a write from @pos on overwrites all bytes of a unit that belong to the file. */
static bool write_covers(const struct hm_unit *unit, loff_t pos, size_t bytes, loff_t size)
{
	loff_t start = (loff_t)unit->pgoff << HM_PAGE_SHIFT;
	loff_t end = start + ((loff_t)unit->npages << HM_PAGE_SHIFT);

	return start >= pos && min(end, size) <= pos + (loff_t)bytes;
}

/* Copy the data into units that were taken for it. Return false if not all of it was copied. */
static bool write_copy_units(struct hugemap_inode *hi, const struct hm_unit *units, u32 n,
			     struct iov_iter *from, size_t *done)
{
	u32 i;

	for (i = 0; i < n; i++) {
		struct folio *folio = hugemap_frame_folio(hugemap_of(hi), units[i].frame);
		size_t bytes = min_t(size_t, folio_size(folio), iov_iter_count(from));
		size_t copied = write_copy_in(folio, 0, bytes, from);

		*done += copied;
		if (copied < bytes)
			return false;
		if (bytes < folio_size(folio))
			folio_zero_range(folio, bytes, folio_size(folio) - bytes);
	}
	return true;
}

/* Take up to @max adjacent units that the write covers. */
static u32 write_take_units(struct hugemap_inode *hi, loff_t pos, size_t bytes,
			    struct hm_access access, struct hm_unit *units, u32 max)
{
	loff_t size = i_size_read(&hi->vfs_inode);
	u64 pgoff = pos >> HM_PAGE_SHIFT;
	u32 n = 0;

	while (n < max) {
		struct hm_unit *unit = &units[n];
		enum hm_outcome outcome;

		if (pos + (loff_t)bytes <= (loff_t)pgoff << HM_PAGE_SHIFT)
			break;
		outcome = hugemap_cache_fault(hi, pgoff, access, unit);
		if (outcome != HM_FILL && outcome != HM_ZERO)
			break;
		if (!write_covers(unit, pos, bytes, size) || (n && unit->npages > 1) ||
		    hugemap_frame_prepare(hugemap_of(hi), unit)) {
			hugemap_fill_cancel(hi, unit);
			break;
		}
		n++;
		pgoff = unit->pgoff + unit->npages;
		if (unit->npages > 1)
			break;
	}
	return n;
}

/*
 * Complete a unit that was filled by the write. Extend the file to @end, but not beyond this unit:
 * the next unit is not dirty yet, so write-back would pass it and leave a hole in the lower file.
 */
static void write_fresh_done(struct hugemap_inode *hi, const struct hm_unit *unit, loff_t end)
{
	loff_t unit_end = (loff_t)(unit->pgoff + unit->npages) << HM_PAGE_SHIFT;

	write_publish(hi, min(end, unit_end));
	hugemap_race_point("write: the file's, not cached yet");
	hm_fill_done(unit, 0, true);
	hugemap_wake_unit(hugemap_of(hi), unit);
}

/*
 * Write over units that are not cached, as far as the write covers them. 0: a unit has to be filled
 * first.
 */
static ssize_t write_fresh(struct hugemap_inode *hi, loff_t pos, size_t chunk,
			   struct iov_iter *from, struct hm_access access,
			   const struct write_batch *batch)
{
	struct address_space *mapping = hi->vfs_inode.i_mapping;
	struct hugemap_mount *mount = hugemap_of(hi);
	struct hm_unit *units = batch->units;
	size_t done = 0;
	u32 n, i;
	bool all;

	if (pos % HM_PAGE_SIZE)
		return 0;
	filemap_invalidate_lock_shared(mapping);
	n = write_take_units(hi, pos, chunk, access, units, batch->max);
	filemap_invalidate_unlock_shared(mapping);
	if (!n)
		return 0;
	hugemap_race_point("write: has frames, not copied");
	all = write_copy_units(hi, units, n, from, &done);
	if (all) {
		hugemap_folio_insert(hi, units, n);
		hugemap_race_point("write: in i_pages, not the file's yet");
	}
	for (i = 0; i < n; i++) {
		hugemap_take_hints(hi, &units[i]);
		if (all)
			write_fresh_done(hi, &units[i], pos + done);
		else
			hugemap_fill_cancel(hi, &units[i]);
	}
	if (!all) {
		/* A source page was not in memory: use the slow way from the start. */
		iov_iter_revert(from, done);
		return 0;
	}
	if (hm_cache_dirty_above_limit(mount->cache))
		hugemap_wake_writer(mount);
	hugemap_write_behind(hi, units[n - 1].pgoff, access);
	return done;
}

/*
 * Return the length of the next step of a write: up to the end of the block. If the first page is
 * cached alone, and its blocks are allocated, the step copies this page only, so that only this
 * page is searched for holes. Otherwise each page would search the rest of the block.
 */
static size_t write_step(struct hugemap_inode *hi, loff_t pos, size_t bytes)
{
	struct hm_unit unit;
	enum hm_state state = hm_peek(hi->hfile, pos >> HM_PAGE_SHIFT, &unit);
	bool alone = (state == HM_CLEAN || state == HM_DIRTY) && unit.npages == 1;
	loff_t size = alone && !(unit.hints & HM_HINT_NEEDS_ALLOC) ? HM_PAGE_SIZE : HM_BLOCK_SIZE;

	return min_t(size_t, bytes, size - (pos & (size - 1)));
}

/* Do one step of a write. Return the bytes written, 0 to try again, or an error. */
static ssize_t write_some(struct hugemap_inode *hi, loff_t pos, struct iov_iter *from,
			  struct hm_access access, const struct write_batch *batch)
{
	u64 pgoff = pos >> HM_PAGE_SHIFT;
	size_t chunk = write_step(hi, pos, iov_iter_count(from));
	ssize_t written;
	int err;

	/*
	 * A whole block is taken without a read. For a part of a block, read only the pages that
	 * are overwritten in part.
	 */
	if (access.size == HM_SIZE_AUTO && chunk == HM_BLOCK_SIZE)
		access.size = HM_SIZE_HUGE;
	else if (access.size == HM_SIZE_AUTO && !hm_is_zero_fill(hi->hfile, pgoff))
		access.size = HM_SIZE_AUTO_BASE;
	/* Fault the source in, because the copies do not serve faults. */
	if (fault_in_iov_iter_readable(from, chunk) == chunk)
		return -EFAULT;
	err = write_reserve_room(hi, pgoff, hugemap_pages(pos + chunk), access);
	if (hugemap_has_no_room(err) && hugemap_of(hi)->opts.page == HUGEMAP_PAGE_AUTO) {
		access.size = HM_SIZE_BASE;
		err = write_reserve_pages(hi, pgoff, hugemap_pages(pos + chunk), access);
	}
	if (err)
		return err;
	hugemap_race_point("write: room below, not cached");
	written = write_cached(hi, pos, from, access);
	if (!written)
		written = write_fresh(hi, pos, chunk, from, access, batch);
	if (written)
		return written == -EFAULT ? 0 : written;
	return hugemap_fill_page(hi, pgoff, access);
}

/*
 * The source is not in memory each time it is copied, for example because a small pool cannot hold
 * the source and the target at once. Copy through a buffer of one block instead, because each
 * attempt may evict a block of the source and one of the target.
 */
static ssize_t write_bounced(struct hugemap_inode *hi, loff_t pos, struct iov_iter *from,
			     struct hm_access access, const struct write_batch *batch, void *buffer)
{
	struct kvec kvec = { .iov_base = buffer };
	struct iov_iter iter;
	ssize_t done = 0, written = 0;

	/* This copy serves faults of the source. */
	kvec.iov_len =
		copy_from_iter(buffer, min_t(size_t, iov_iter_count(from), HM_BLOCK_SIZE), from);
	if (!kvec.iov_len)
		return -EFAULT;
	iov_iter_kvec(&iter, ITER_SOURCE, &kvec, 1, kvec.iov_len);
	while (written >= 0 && iov_iter_count(&iter)) {
		written = write_some(hi, pos + done, &iter, access, batch);
		access.again = !written;
		if (written > 0)
			done += written;
		if (!written && fatal_signal_pending(current))
			written = -EINTR;
		cond_resched();
	}
	/* Return the part that was not written to the iterator. */
	iov_iter_revert(from, kvec.iov_len - done);
	return done ?: written;
}

/* Write all data of @from. Use the bounce buffer if the direct copies make no progress. */
static ssize_t write_all(struct hugemap_inode *hi, struct kiocb *iocb, struct iov_iter *from)
{
	struct hm_access access = hugemap_access(iocb->ki_filp);
	u32 stuck = 0;
	struct write_batch batch;
	ssize_t done = 0, err;
	void *bounce = NULL;

	err = write_batch_init(hi, &batch, iocb->ki_pos, iov_iter_count(from));
	if (err)
		return err;
	while (iov_iter_count(from)) {
		ssize_t written;

		if (fatal_signal_pending(current)) {
			err = -EINTR;
			break;
		}
		if (stuck == STUCK && !bounce) {
			bounce = kvmalloc(HM_BLOCK_SIZE, GFP_KERNEL);
			if (!bounce) {
				err = -ENOMEM;
				break;
			}
		}
		access.again = stuck > 0;
		if (bounce)
			written = write_bounced(hi, iocb->ki_pos, from, access, &batch, bounce);
		else
			written = write_some(hi, iocb->ki_pos, from, access, &batch);
		stuck = written ? 0 : stuck + 1;
		if (written < 0) {
			err = written;
			break;
		}
		iocb->ki_pos += written;
		done += written;
		cond_resched();
	}
	kvfree(bounce);
	write_batch_free(&batch);
	hugemap_count(hugemap_of(hi), HUGEMAP_C_COPIED_IN_BYTES, done);
	return done ?: err;
}

/* Update the lower file as if it had been written: its times, and its set-id bits. */
static int write_touch_lower(struct inode *inode, struct file *lower)
{
	struct inode *inode_lower = file_inode(lower);
	int err;

	inode_lock(inode_lower);
	err = file_modified(lower);
	inode_unlock(inode_lower);
	hugemap_copy_attr(inode);
	return err;
}

/*
 * Return the longest size, from @now up to @end, that the lower file system allows. The writer must
 * get this error now, because write-back could not report it to the writer. The limit may be less
 * than s_maxbytes (ext4 without extents), but a seek reveals it.
 */
static loff_t write_lower_maximum(const struct hugemap_inode *hi, loff_t now, loff_t end)
{
	loff_t middle;

	/* All file systems allow this size. */
	if (end <= MAX_NON_LFS || vfs_llseek(hi->data->reader, end, SEEK_SET) != -EINVAL)
		return end;
	while (end - now > 1) {
		middle = now + (end - now) / 2;
		if (vfs_llseek(hi->data->reader, middle, SEEK_SET) < 0)
			end = middle;
		else
			now = middle;
	}
	return now;
}

/*
 * A change that leaves the lower file as it is. The lower file ends at the end of the upper file,
 * or before it.
 */
static ssize_t write_give_room(void *arg)
{
	return 0;
}

ssize_t hugemap_write_locked(struct kiocb *iocb, struct iov_iter *from)
{
	struct file *file = iocb->ki_filp, *lower = hugemap_lower_file(file);
	struct inode *inode = file_inode(file);
	struct hugemap_inode *hi = hugemap_inode(inode);
	loff_t old = i_size_read(inode), end, longest;
	size_t cut = 0;
	ssize_t ret = generic_write_checks(iocb, from);

	if (ret <= 0)
		return ret;
	/* chattr(1) may have made the file immutable since it was opened. */
	if (IS_IMMUTABLE(inode))
		return -EPERM;
	ret = hugemap_need_file(hi);
	if (ret)
		return ret;
	end = iocb->ki_pos + iov_iter_count(from);
	if (end > old && !hi->lower) {
		/* A device does not grow. */
		if (iocb->ki_pos >= old)
			return -ENOSPC;
		iov_iter_truncate(from, old - iocb->ki_pos);
		end = old;
	} else if (end > old) {
		longest = write_lower_maximum(hi, old, end);
		if (iocb->ki_pos >= longest)
			return -EFBIG;
		cut = end - longest;
		iov_iter_truncate(from, longest - iocb->ki_pos);
		end = longest;
	}
	if (lower) {
		hugemap_start_write_lower(hi);
		ret = write_touch_lower(inode, lower);
		hugemap_end_write_lower(hi);
		if (ret)
			return ret;
	}
	/* The page with the old end may be dirty, and write-back will write all of it. */
	if (hugemap_grows_in_page(hi, old, end)) {
		ret = hugemap_reserve(hi, (u64)old >> HM_PAGE_SHIFT, 1);
		if (ret)
			return ret;
	}
	if (end > old)
		hugemap_make_room(hi, end);
	ret = write_all(hi, iocb, from);
	/* The caller counts the rest of the iterator. */
	iov_iter_reexpand(from, iov_iter_count(from) + cut);
	hugemap_race_point("write: done, room beyond it");
	/* The write was shorter than planned: drop everything cached beyond the end. */
	if (hm_file_size(hi->hfile) > i_size_read(inode) && lower) {
		hugemap_start_write_lower(hi);
		if (hugemap_change_lower(inode, i_size_read(inode), LLONG_MAX, HUGEMAP_DISCARD,
					 write_give_room, NULL)) {
			/*
			 * Units that cannot be written stay, with the data beyond the end of the
			 * file in the last one.
			 */
			filemap_invalidate_lock(inode->i_mapping);
			hm_file_set_size(hi->hfile, i_size_read(inode));
			hugemap_drop_clean(hi, i_size_read(inode), LLONG_MAX);
			filemap_invalidate_unlock(inode->i_mapping);
		}
		hugemap_end_write_lower(hi);
	}
	return ret;
}

ssize_t hugemap_write_iter(struct kiocb *iocb, struct iov_iter *from)
{
	struct inode *inode = file_inode(iocb->ki_filp);
	ssize_t ret;

	if (iocb->ki_flags & IOCB_NOWAIT) {
		if (!inode_trylock(inode))
			return -EAGAIN;
	} else {
		inode_lock(inode);
	}
	ret = hugemap_write_locked(iocb, from);
	inode_unlock(inode);
	return ret > 0 ? generic_write_sync(iocb, ret) : ret;
}
