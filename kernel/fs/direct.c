// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * O_DIRECT: I/O that bypasses the cache and is coherent with it.
 *
 * The lower file system must not fault on the program's buffer while it holds its locks. The
 * buffer may map a file of this file system, and the fault may need the same locks, or wait for a
 * frame whose write-back needs them. So this file faults the buffer in before the I/O. If the
 * buffer is reclaimed again each time, the data is copied through the cache.
 */
#include <linux/cred.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/fsnotify.h>
#include <linux/magic.h>
#include <linux/uaccess.h>
#include <linux/uio.h>

#include "namespace.h"
#include "race.h"

#define FAULT_IN_TRIES 3

/* A read into a pipe adds pages to it, so a saved copy of the iterator cannot restore it. */
static bool direct_is_pipe(const struct iov_iter *iter)
{
#ifdef HUGEMAP_HAVE_COPY_SPLICE_READ
	return false;
#else
	return iov_iter_is_pipe(iter);
#endif
}

/*
 * Advance the iterator by exactly @done bytes from @was. The lower file system may have truncated
 * the iterator at its maximum file size without restoring it.
 */
static void direct_advance(struct iov_iter *iter, const struct iov_iter *was, size_t done)
{
	if (direct_is_pipe(iter)) {
		iov_iter_revert(iter, iov_iter_count(was) - iov_iter_count(iter) - done);
		return;
	}
	*iter = *was;
	iov_iter_advance(iter, done);
}

/* Transfer data between program and lower file. -EFAULT: the buffer must be faulted in. */
static ssize_t direct_transfer(struct kiocb *iocb, struct iov_iter *iter, bool write)
{
	struct file *lower = hugemap_lower_file(iocb->ki_filp);
	struct iov_iter was = *iter;
	struct kiocb lower_iocb;
	ssize_t done;

	hugemap_race_point("direct: written back, not transferred");
	init_sync_kiocb(&lower_iocb, lower);
	lower_iocb.ki_pos = iocb->ki_pos;
	lower_iocb.ki_flags = IOCB_DIRECT | (iocb->ki_flags & (IOCB_DSYNC | IOCB_SYNC));
	iter->nofault = true;
	/*
	 * @nofault covers pinning only. Disable faults, too: the lower file system may copy zeros
	 * of a hole or parts of a sector, and some file systems fault buffers in by themselves,
	 * while this task holds the invalidate_lock.
	 */
	pagefault_disable();
	if (write) {
		lower_iocb.ki_flags |= IOCB_WRITE;
		/* vfs_iocb_iter_write() takes freeze protection on some kernels; it is held. */
		done = lower->f_op->write_iter(&lower_iocb, iter);
		if (done > 0)
			fsnotify_modify(lower);
	} else {
		const struct cred *old =
			override_creds(hugemap_mount(file_inode(iocb->ki_filp)->i_sb)->cred);

		/*
		 * A read uses the mounter's credentials, as in io.c. A write uses the caller's:
		 * the lower file system checks them for set-id bits and reserved blocks.
		 */
		done = vfs_iocb_iter_read(lower, &lower_iocb, iter);
		revert_creds(old);
	}
	pagefault_enable();
	iter->nofault = false;
	direct_advance(iter, &was, max_t(ssize_t, done, 0));
	if (done > 0)
		iocb->ki_pos += done;
	return done;
}

ssize_t hugemap_direct_read(struct kiocb *iocb, struct iov_iter *to)
{
	struct inode *inode = file_inode(iocb->ki_filp);
	size_t count = iov_iter_count(to);
	int tries = 0;
	ssize_t n;

	if (!count)
		return 0;
	/* If data was appended, the lower file must reach its new end first. */
	n = hugemap_write_back(inode, iocb->ki_pos,
			       hugemap_is_growing(hugemap_inode(inode)) ? LLONG_MAX :
									  iocb->ki_pos + count);
	if (n)
		return n;
	/*
	 * btrfs would fault missing pages in while it holds its inode lock, and that fault may need
	 * the same lock. So fault them in before.
	 */
	if (hugemap_lower_file(iocb->ki_filp) &&
	    file_inode(hugemap_lower_file(iocb->ki_filp))->i_sb->s_magic == BTRFS_SUPER_MAGIC)
		fault_in_iov_iter_writeable(to, count);
	while (iov_iter_count(to) && iocb->ki_pos < i_size_read(inode)) {
		n = direct_transfer(iocb, to, false);
		if (n > 0) {
			tries = 0;
			continue;
		}
		if (n != -EFAULT)
			break;
		if (tries++ == FAULT_IN_TRIES) {
			n = hugemap_read_iter(iocb, to);
			break;
		}
		if (fault_in_iov_iter_writeable(to, iov_iter_count(to)) == iov_iter_count(to))
			break;
	}
	count -= iov_iter_count(to);
	return count ? (ssize_t)count : n;
}

struct direct_write {
	struct kiocb *iocb;
	struct iov_iter *from;
};

static ssize_t direct_write_lower(void *arg)
{
	struct direct_write *direct = arg;

	return direct_transfer(direct->iocb, direct->from, true);
}

/* i_rwsem is held. -EFAULT: the caller must write the rest through the cache. */
static ssize_t direct_write_locked(struct inode *inode, struct kiocb *iocb, struct iov_iter *from)
{
	struct direct_write direct = { iocb, from };
	int tries = 0;
	ssize_t n = 0;

	while (iov_iter_count(from)) {
		loff_t start = iocb->ki_pos, size = i_size_read(inode);
		loff_t end = start + iov_iter_count(from);

		hugemap_start_write_lower(hugemap_inode(inode));
		n = hugemap_change_lower(inode, min(start, size), end > size ? LLONG_MAX : end,
					 HUGEMAP_KEEP, direct_write_lower, &direct);
		hugemap_end_write_lower(hugemap_inode(inode));
		if (n > 0) {
			tries = 0;
			continue;
		}
		if (n != -EFAULT || tries++ == FAULT_IN_TRIES)
			break;
		if (fault_in_iov_iter_readable(from, iov_iter_count(from)) == iov_iter_count(from))
			break;
	}
	hugemap_copy_attr(inode);
	return n;
}

/*
 * Return true if the lower file system makes such a write with its own i_rwsem shared, if the
 * blocks that it overwrites hold data. The write must not change the mode of the file, and a page
 * must not be written in part.
 */
static bool direct_is_plain(const struct hugemap_inode *hi, const struct kiocb *iocb,
			    const struct iov_iter *from)
{
	unsigned long magic = hi->lower ? hi->lower->i_sb->s_magic : 0;

	return (magic == EXT4_SUPER_MAGIC || magic == XFS_SUPER_MAGIC) && IS_NOSEC(hi->lower) &&
	       PAGE_ALIGNED(iocb->ki_pos) && PAGE_ALIGNED(iov_iter_count(from));
}

/*
 * Overwrite a part of the file in parallel with other direct writes. Return the bytes, an error,
 * or -EAGAIN if the write needs i_rwsem exclusively.
 */
static ssize_t direct_overwrite(struct inode *inode, struct kiocb *iocb, struct iov_iter *from)
{
	struct hugemap_inode *hi = hugemap_inode(inode);
	struct direct_write direct = { iocb, from };
	ssize_t n = -EAGAIN;

	/* The end of the file, where O_APPEND writes, is stable only if i_rwsem is held. */
	if (iocb->ki_flags & IOCB_APPEND || !direct_is_plain(hi, iocb, from))
		return n;
	inode_lock_shared(inode);
	if (iocb->ki_pos + iov_iter_count(from) > i_size_read(inode))
		goto out;
	n = generic_write_checks(iocb, from);
	if (n <= 0)
		goto out;
	if (!direct_is_plain(hi, iocb, from)) {
		n = -EAGAIN;
		goto out;
	}
	hugemap_start_write_lower(hi);
	n = hugemap_overwrite_lower(inode, iocb->ki_pos, iocb->ki_pos + n, direct_write_lower,
				    &direct);
	hugemap_end_write_lower(hi);
	hugemap_copy_times(inode);
out:
	inode_unlock_shared(inode);
	return n;
}

/* i_rwsem is taken exclusively. */
static ssize_t direct_write_rest(struct kiocb *iocb, struct iov_iter *from)
{
	struct inode *inode = file_inode(iocb->ki_filp);
	size_t count, direct;
	loff_t start;
	bool cached;
	ssize_t n;

	inode_lock(inode);
	n = generic_write_checks(iocb, from);
	if (n <= 0) {
		inode_unlock(inode);
		return n;
	}
	count = iov_iter_count(from);
	n = direct_write_locked(inode, iocb, from);
	direct = count - iov_iter_count(from);
	start = iocb->ki_pos;
	cached = n == -EFAULT;
	/* Keep i_rwsem: one write(2) is atomic. */
	if (cached)
		n = hugemap_write_locked(iocb, from);
	inode_unlock(inode);
	if (cached) {
		if (n > 0)
			n = generic_write_sync(iocb, n);
		if (n > 0)
			n = hugemap_write_back(inode, start, iocb->ki_pos);
		if (n < 0) {
			/* The rest is only cached: count the bytes in the lower file. */
			iocb->ki_pos = start;
			return direct ? (ssize_t)direct : n;
		}
	}
	count -= iov_iter_count(from);
	return count ? (ssize_t)count : n;
}

ssize_t hugemap_direct_write(struct kiocb *iocb, struct iov_iter *from)
{
	ssize_t done = 0, n;

	if (!iov_iter_count(from))
		return 0;
	n = direct_overwrite(file_inode(iocb->ki_filp), iocb, from);
	if (n > 0)
		done = n;
	/* The buffer has to be faulted in, or the lower file system has written a part. */
	if (n == -EAGAIN || n == -EFAULT || (n > 0 && iov_iter_count(from)))
		n = direct_write_rest(iocb, from);
	else
		return n;
	return n > 0 ? n + done : done ?: n;
}
