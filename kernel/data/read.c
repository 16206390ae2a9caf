// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * read(2) through the pool. It uses the same frames as mappings, so both agree at every byte.
 *
 * An idea of "VFS on a many-core processor" can be switched while mounted: with read_optimization
 * there is one reference and one copy for each folio, instead of one for each base page, and
 * adjacent base pages are looked up together.
 */
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/uio.h>

#include "access.h"
#include "fill.h"
#include "folio.h"
#include "wait.h"

/* Attempts without progress before a copy goes through a buffer. */
#define STUCK 4u

/* Return the folio of a position, with a reference. @again: the page was looked up before. */
static struct folio *read_get_folio(struct kiocb *iocb, struct hugemap_inode *hi, u64 pgoff,
				    bool again, int *err)
{
	struct hm_access access = hugemap_access(iocb->ki_filp);
	struct hm_unit unit;
	struct folio *folio;

	access.again = again;
	while (!(folio = hugemap_find(hi, pgoff, access, &unit))) {
		if (iocb->ki_flags & IOCB_NOWAIT) {
			*err = -EAGAIN;
			return NULL;
		}
		*err = hugemap_fill_page(hi, pgoff, access);
		if (*err)
			return NULL;
		access.again = true;
	}
	hugemap_take_hints(hi, &unit);
	if (!(unit.hints & HM_HINT_READAHEAD))
		return folio;
	if (iocb->ki_flags & IOCB_NOWAIT)
		hugemap_queue_ahead(hi, pgoff, access);
	else
		hugemap_read_ahead(hi, pgoff, access);
	return folio;
}

/*
 * Read the size again after a lookup: the file may have been truncated. If it has grown instead,
 * the folio may lack the new data, so keep the smaller size. @size: from before the lookup.
 */
static loff_t read_size_again(struct inode *inode, loff_t size)
{
	size = min(size, i_size_read(inode));
	smp_rmb();
	return size;
}

/*
 * Copy to the target without faults, and put the folio before any fault is served: the target may
 * be a mapping of a file of a FUSE server, whose faults can take for ever. @bounce: not NULL if the
 * target page was gone again after it was faulted in; then copy through that page.
 */
static size_t read_copy_out(struct folio *folio, size_t offset, size_t bytes, struct iov_iter *to,
			    void *bounce)
{
	const void *from = folio_address(folio) + offset;
	size_t copied;

	if (bounce) {
		bytes = min_t(size_t, bytes, HM_PAGE_SIZE);
		memcpy(bounce, from, bytes);
		folio_put(folio);
		return copy_to_iter(bounce, bytes, to);
	}
	pagefault_disable();
	copied = copy_to_iter(from, bytes, to);
	pagefault_enable();
	folio_put(folio);
	return copied;
}

/*
 * Copy the cached base pages from the position on, as far as they are in one block and need no
 * read-ahead. Return the bytes copied: 0 also if the position is not at the start of a page.
 */
static size_t read_row(struct kiocb *iocb, struct hugemap_inode *hi, struct iov_iter *to)
{
	struct inode *inode = &hi->vfs_inode;
	loff_t pos = iocb->ki_pos, size = i_size_read(inode);
	struct folio *folios[HUGEMAP_ROW_FOLIOS];
	size_t done = 0;
	u32 n, i;

	if (pos % HM_PAGE_SIZE || pos >= size)
		return 0;
	n = min_t(u64, hugemap_pages(iov_iter_count(to)), HUGEMAP_ROW_FOLIOS);
	n = hugemap_find_row(hi, pos >> HM_PAGE_SHIFT, folios, n);
	hugemap_race_point("read: has a row, size from before");
	size = max(read_size_again(inode, size), pos);
	pagefault_disable();
	for (i = 0; i < n; i++) {
		size_t bytes = min_t(size_t, HM_PAGE_SIZE, iov_iter_count(to));

		/* After a short copy only put the other folios. */
		if (done == i * HM_PAGE_SIZE)
			done += copy_to_iter(folio_address(folios[i]),
					     min_t(loff_t, bytes, size - pos - done), to);
		folio_put(folios[i]);
	}
	pagefault_enable();
	return done;
}

/* Copy rows of base pages while they are cached. Return the bytes copied. */
static size_t read_rows(struct kiocb *iocb, struct hugemap_inode *hi, struct iov_iter *to)
{
	size_t copied, done = 0;

	while (iov_iter_count(to)) {
		copied = read_row(iocb, hi, to);
		if (!copied)
			break;
		iocb->ki_pos += copied;
		done += copied;
		cond_resched();
	}
	return done;
}

/*
 * Nothing could be copied. Fault the target in, or allocate a bounce page after STUCK attempts, or
 * return an error.
 */
static int read_wait_target(struct iov_iter *to, size_t bytes, u32 stuck, void **bounce)
{
	if (*bounce || fault_in_iov_iter_writeable(to, bytes) == bytes)
		return -EFAULT;
	if (stuck < STUCK)
		return 0;
	*bounce = kmalloc(HM_PAGE_SIZE, GFP_KERNEL);
	return *bounce ? 0 : -ENOMEM;
}

ssize_t hugemap_read_iter(struct kiocb *iocb, struct iov_iter *to)
{
	struct inode *inode = file_inode(iocb->ki_filp);
	struct hugemap_inode *hi = hugemap_inode(inode);
	struct hugemap_mount *mount = hugemap_of(hi);
	void *bounce = NULL;
	ssize_t done = 0;
	u32 stuck = 0;
	int err = 0;

	while (iov_iter_count(to)) {
		bool optimized = READ_ONCE(mount->opts.read_optimization);
		loff_t pos = iocb->ki_pos, size = i_size_read(inode);
		size_t offset, bytes, copied;
		struct folio *folio;

		if (pos >= size)
			break;
		if (fatal_signal_pending(current)) {
			err = -EINTR;
			break;
		}
		folio = read_get_folio(iocb, hi, pos >> HM_PAGE_SHIFT, stuck, &err);
		if (!folio)
			break;
		hugemap_race_point("read: has a folio, size from before");
		size = read_size_again(inode, size);
		if (pos >= size) {
			folio_put(folio);
			break;
		}
		offset = pos - ((loff_t)folio->index << HM_PAGE_SHIFT);
		bytes = min_t(size_t, folio_size(folio) - offset, iov_iter_count(to));
		bytes = min_t(loff_t, bytes, size - pos);
		if (!optimized)
			bytes = min_t(size_t, bytes, HM_PAGE_SIZE - offset % HM_PAGE_SIZE);
		hugemap_race_point("read: size known, not copied");
		copied = read_copy_out(folio, offset, bytes, to, bounce);
		iocb->ki_pos += copied;
		done += copied;
		stuck = copied ? 0 : stuck + 1;
		if (!copied)
			err = read_wait_target(to, bytes, stuck, &bounce);
		else if (optimized && !bounce)
			done += read_rows(iocb, hi, to);
		if (err)
			break;
		cond_resched();
	}
	kfree(bounce);
	hugemap_count(mount, HUGEMAP_C_COPIED_OUT_BYTES, done);
	file_accessed(iocb->ki_filp);
	/* A page that has left because the file shrank is beyond the end of the file. */
	if (err == -ENODATA)
		err = 0;
	return done ?: err;
}
