// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * O_DIRECT: past the cache, and yet coherent with it.
 *
 * The lower file system must not fault on the program's buffer while it holds
 * its locks: the buffer may be a mapping of a file here, and the fault may need
 * those locks, or wait for a frame whose write-back needs them. So pages are
 * faulted in before, and a buffer that does not stay in is copied from or to
 * through the cache.
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

/* A pipe fills while it is read into: what it was before is no way back. */
static bool direct_is_pipe(const struct iov_iter *iter)
{
#ifdef HUGEMAP_HAVE_COPY_SPLICE_READ
	return false;
#else
	return iov_iter_is_pipe(iter);
#endif
}

/*
 * The iterator has moved by what was done, and by nothing else. A lower file system may have
 * made it shorter, too, and has not told: where the longest file ends that it can have.
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

/* What program and lower file hand to each other: all of it at once, or -EFAULT. */
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
	 * Nor where it copies: zeros for a hole, what is no whole sector. And some file
	 * systems fault in by themselves, with our invalidate_lock held.
	 */
	pagefault_disable();
	if (write) {
		lower_iocb.ki_flags |= IOCB_WRITE;
		/* vfs_iocb_iter_write() takes freeze protection on some kernels, we have it. */
		done = lower->f_op->write_iter(&lower_iocb, iter);
		if (done > 0)
			fsnotify_modify(lower);
	} else {
		const struct cred *old =
			override_creds(hugemap_mount(file_inode(iocb->ki_filp)->i_sb)->cred);

		/* As in io.c. A write asks what the writer may: set-id bits, reserved blocks. */
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
	/* Where the lower file is to become longer, its end has to be there, too. */
	n = hugemap_write_back(inode, iocb->ki_pos,
			       hugemap_is_growing(hugemap_inode(inode)) ? LLONG_MAX :
									  iocb->ki_pos + count);
	if (n)
		return n;
	/* btrfs faults in what is missing with its lock held, which the fault may need. */
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

/* Under i_rwsem. -EFAULT: the rest has to go through the cache. */
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

ssize_t hugemap_direct_write(struct kiocb *iocb, struct iov_iter *from)
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
	/* Nobody comes in between: one write(2) is one piece. */
	if (cached)
		n = hugemap_write_locked(iocb, from);
	inode_unlock(inode);
	if (cached) {
		if (n > 0)
			n = generic_write_sync(iocb, n);
		if (n > 0)
			n = hugemap_write_back(inode, start, iocb->ki_pos);
		if (n < 0) {
			/* The rest is cached, but is not below: only what went there counts. */
			iocb->ki_pos = start;
			return direct ? (ssize_t)direct : n;
		}
	}
	count -= iov_iter_count(from);
	return count ? (ssize_t)count : n;
}
