// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * I/O on the lower file or device, through a kiocb: direct, asynchronous if the lower file system
 * can, and without a copy. It uses the mounter's credentials, with which the lower file was opened.
 * The reason is that the cached data serves all tasks, whichever needs it first, and that security
 * modules (SELinux) must not check the label of that task against the mounter's open file.
 */
#include <linux/bitmap.h>
#include <linux/blk_types.h>
#include <linux/cred.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/mempool.h>
#include <linux/mm.h>
#include <linux/sched/clock.h>
#include <linux/slab.h>
#include <linux/uio.h>

#include "folio.h"
#include "io.h"

#define MERGED_PAGES (HM_BLOCK_PAGES / 128)

struct io_buffer {
	struct hugemap_io io;
	struct bio_vec segment[HUGEMAP_IO_SEGMENTS];
};

static struct kmem_cache *io_cache;
static mempool_t *io_pool;

int hugemap_io_setup(void)
{
	io_cache = kmem_cache_create("hugemap_io", sizeof(struct io_buffer), 0, SLAB_HWCACHE_ALIGN,
				     NULL);
	if (!io_cache)
		return -ENOMEM;
	io_pool = mempool_create_slab_pool(2 * HUGEMAP_WRITE_DEPTH, io_cache);
	if (io_pool)
		return 0;
	kmem_cache_destroy(io_cache);
	return -ENOMEM;
}

void hugemap_io_teardown(void)
{
	mempool_destroy(io_pool);
	kmem_cache_destroy(io_cache);
}

bool hugemap_next_run(const unsigned long *pages, u32 *first, u32 *end)
{
	u32 next = find_next_bit(pages, HM_BLOCK_PAGES, *first);

	*first = *end = next;
	while (next < HM_BLOCK_PAGES && next <= *end + MERGED_PAGES) {
		*end = find_next_zero_bit(pages, HM_BLOCK_PAGES, next);
		next = find_next_bit(pages, HM_BLOCK_PAGES, *end);
	}
	return *first < HM_BLOCK_PAGES;
}

struct hugemap_io *hugemap_io_new(struct hugemap_inode *hi, gfp_t gfp)
{
	struct io_buffer *buffer = mempool_alloc(io_pool, gfp);

	if (!buffer)
		return NULL;
	hugemap_io_init(&buffer->io, hi, buffer->segment, HUGEMAP_IO_SEGMENTS);
	return &buffer->io;
}

void hugemap_io_init(struct hugemap_io *io, struct hugemap_inode *hi, struct bio_vec *segment,
		     u32 max_segments)
{
	memset(io, 0, sizeof(*io));
	io->hi = hi;
	io->segment = segment;
	io->max_segments = max_segments;
	init_completion(&io->done);
	/*
	 * The caller's reference. io_issue() takes another one until the submission has returned.
	 */
	refcount_set(&io->refs, 1);
}

void hugemap_io_free(struct hugemap_io *io)
{
	if (refcount_dec_and_test(&io->refs))
		mempool_free(container_of(io, struct io_buffer, io), io_pool);
}

/* Called in any context: in an interrupt, or by the submitter. */
static void io_complete(struct kiocb *iocb, long result)
{
	struct hugemap_io *io = container_of(iocb, struct hugemap_io, iocb);

	io->result = result;
	hugemap_race_point_atomic("I/O: ended, not reported yet");
	if (io->ahead)
		queue_work(hugemap_of(io->hi)->done_wq, &io->work);
	else
		complete(&io->done);
}

/*
 * Count the end of an I/O. hugemap_data_quiesce() may go on from then on. A CPU that sees the end
 * in hugemap_in_flight() also sees the start, and all accesses of the I/O.
 */
static void io_ended(struct hugemap_mount *mount)
{
	smp_mb(); /* pairs with hugemap_in_flight() */
	hugemap_count(mount, HUGEMAP_C_IOS_ENDED, 1);
}

static loff_t io_lower_size(const struct hugemap_inode *hi)
{
	return i_size_read(hi->lower ?: &hi->vfs_inode);
}

/* Submit the I/O from the byte io->written on. */
static ssize_t io_call(struct hugemap_io *io, int flags)
{
	struct file *file = io->write ? io->hi->data->writer : io->hi->data->reader;
	struct iov_iter iter;

	init_sync_kiocb(&io->iocb, file);
	io->iocb.ki_pos = io->pos + io->written;
	io->iocb.ki_complete = io_complete;
	io->iocb.ki_flags |= flags;
	/* An overlay checks this flag at the end of the I/O, to release its own resources. */
	if (io->write)
		io->iocb.ki_flags |= IOCB_WRITE;
	iov_iter_bvec(&iter, io->write ? ITER_SOURCE : ITER_DEST, io->segment, io->nsegments,
		      io->bytes);
	iov_iter_advance(&iter, io->written);
	/* The caller holds freeze protection of the lower file system. */
	if (io->write)
		return file->f_op->write_iter(&io->iocb, &iter);
	return vfs_iocb_iter_read(file, &io->iocb, &iter);
}

/*
 * An open file may promise direct I/O that does not work: an overlay promises it for the files of
 * its layers, and CIFS refuses it at the first I/O. Then the I/O goes through the lower page cache.
 */
static bool io_is_refused(ssize_t result, int flags)
{
	return result == -EINVAL && flags & IOCB_DIRECT;
}

static int io_flags_of(const struct file *file)
{
	return file->f_mode & FMODE_CAN_ODIRECT ? IOCB_DIRECT : 0;
}

static void io_issue(struct hugemap_io *io)
{
	int flags = io_flags_of(io->write ? io->hi->data->writer : io->hi->data->reader);
	struct hugemap_mount *mount = hugemap_of(io->hi);
	const struct cred *old;
	ssize_t result;

	hugemap_count(mount, io->write ? HUGEMAP_C_WRITE_IOS : HUGEMAP_C_READ_IOS, 1);
	/* File systems use the kiocb even after they have reported its end. */
	refcount_inc(&io->refs);
	hugemap_race_point("I/O: its range is known, not submitted");
	old = override_creds(mount->cred);
	result = io_call(io, flags);
	if (io_is_refused(result, flags))
		result = io_call(io, 0);
	revert_creds(old);
	if (result != -EIOCBQUEUED)
		io_complete(&io->iocb, result);
	hugemap_io_free(io);
}

void hugemap_io_submit(struct hugemap_io *io, loff_t pos, size_t bytes)
{
	struct hugemap_mount *mount = hugemap_of(io->hi);

	io->pos = pos;
	io->bytes = bytes;
	io->end = io_lower_size(io->hi);
	io->started_ns = local_clock();
	hugemap_count(mount, io->write ? HUGEMAP_C_WRITTEN_BYTES : HUGEMAP_C_READ_BYTES, bytes);
	io_issue(io);
}

static void io_zero_from(struct hugemap_io *io, size_t from)
{
	u32 i;

	for (i = 0; i < io->nsegments; i++) {
		struct bio_vec *segment = &io->segment[i];

		if (from < segment->bv_len) {
			struct folio *folio = page_folio(segment->bv_page);
			size_t first = folio_page_idx(folio, segment->bv_page);

			folio_zero_range(folio, (first << HM_PAGE_SHIFT) + from,
					 segment->bv_len - from);
		}
		from -= min_t(size_t, from, segment->bv_len);
	}
}

/*
 * Get the result of an I/O that has ended. A read that ends at the end of the lower file or device
 * is zeroed to its end. Any other short I/O is an error.
 */
int hugemap_io_result(struct hugemap_io *io)
{
	struct hugemap_mount *mount = hugemap_of(io->hi);

	io_ended(mount);
	hugemap_record(mount, io->write ? HUGEMAP_H_WRITE_NS : HUGEMAP_H_READ_NS,
		       local_clock() - io->started_ns);
	if (io->result < 0)
		return io->result;
	if (io->result == io->bytes - io->written)
		return 0;
	if (io->write)
		return -EIO;
	/*
	 * The read may end early at the end of the lower file: the end at its start (->end), or the
	 * current one if it is lower. If the file has grown in between, the bytes behind ->end are
	 * zeros, or the task that extends the file discards them. If the file has shrunk, the
	 * truncation waits for this read, so the file cannot have grown again.
	 */
	if (io->pos + io->result < min(io->end, io_lower_size(io->hi)))
		return -EIO;
	io_zero_from(io, io->result);
	return 0;
}

int hugemap_io_wait(struct hugemap_io *io)
{
	wait_for_completion(&io->done);
	/* Submit the rest of a short write, to get its error (no space, quota). */
	while (io->write && io->result > 0 && (size_t)io->result < io->bytes - io->written) {
		io_ended(hugemap_of(io->hi));
		io->written += io->result;
		reinit_completion(&io->done);
		io_issue(io);
		wait_for_completion(&io->done);
	}
	return hugemap_io_result(io);
}

int hugemap_io_write_tail(struct hugemap_inode *hi, struct page *page, loff_t pos, size_t bytes)
{
	struct hugemap_mount *mount = hugemap_of(hi);
	const struct cred *old = override_creds(mount->cred);
	ssize_t result = 1;
	size_t done = 0;

	hugemap_count(mount, HUGEMAP_C_WRITE_IOS, 1);
	hugemap_count(mount, HUGEMAP_C_WRITTEN_BYTES, bytes);
	while (result > 0 && done < bytes) {
		struct bio_vec segment;
		struct iov_iter iter;
		struct kiocb iocb;

		bvec_set_page(&segment, page, bytes - done, done);
		iov_iter_bvec(&iter, ITER_SOURCE, &segment, 1, bytes - done);
		init_sync_kiocb(&iocb, hi->data->writer);
		iocb.ki_pos = pos + done;
		iocb.ki_flags &= ~IOCB_DIRECT;
		iocb.ki_flags |= IOCB_WRITE;
		/*
		 * All descriptors of a device share one lower file, which reports a write-back
		 * error only once. With IOCB_DSYNC the error is known here: every descriptor
		 * reports it, and the data stays dirty.
		 */
		if (!hi->lower)
			iocb.ki_flags |= IOCB_DSYNC;
		result = hi->data->writer->f_op->write_iter(&iocb, &iter);
		if (result > 0)
			done += result;
	}
	io_ended(mount);
	revert_creds(old);
	if (result < 0)
		return result;
	return done == bytes ? 0 : -EIO;
}

/* Read a page of the lower file. The part beyond the end of the file becomes zeros. */
static int io_read_page(struct hugemap_inode *hi, struct page *page, loff_t pos)
{
	int flags = io_flags_of(hi->data->reader);
	ssize_t result = 1;
	size_t done = 0;

	/* Direct I/O may be refused at the end of the file, so stop there. */
	while (result > 0 && done < HM_PAGE_SIZE &&
	       (!done || pos + (loff_t)done < i_size_read(hi->data->reader->f_mapping->host))) {
		struct bio_vec segment;
		struct iov_iter iter;
		struct kiocb iocb;

		bvec_set_page(&segment, page, HM_PAGE_SIZE - done, done);
		iov_iter_bvec(&iter, ITER_DEST, &segment, 1, segment.bv_len);
		init_sync_kiocb(&iocb, hi->data->reader);
		iocb.ki_pos = pos + done;
		iocb.ki_flags |= flags;
		result = vfs_iocb_iter_read(hi->data->reader, &iocb, &iter);
		if (result > 0)
			done += result;
		if (io_is_refused(result, flags)) {
			flags = 0;
			result = 1;
		}
	}
	if (result < 0)
		return result;
	hugemap_count(hugemap_of(hi), HUGEMAP_C_READ_BYTES, done);
	folio_zero_range(page_folio(page), done, HM_PAGE_SIZE - done);
	return 0;
}

/*
 * Read into a bounce page: a device may be writing into the rest of the same sector of the folio.
 * And a task that waits for the folio lock in a fault may hold locks of the lower file system, so
 * the lock must not be held during the I/O.
 */
static int io_refresh(struct hugemap_inode *hi, struct folio *folio, u64 pgoff, size_t offset,
		      size_t bytes)
{
	struct page *page = alloc_pages_node(NUMA_NO_NODE, GFP_NOFS, 0);
	const struct cred *old;
	int err = 0;

	if (!page)
		return -ENOMEM;
	old = override_creds(hugemap_of(hi)->cred);
	hugemap_count(hugemap_of(hi), HUGEMAP_C_READ_IOS, 1);
	while (bytes && !err) {
		size_t start = round_down(offset, HM_PAGE_SIZE);
		size_t part = min_t(size_t, bytes, start + HM_PAGE_SIZE - offset);

		err = io_read_page(hi, page, ((loff_t)pgoff << HM_PAGE_SHIFT) + start);
		folio_lock(folio);
		if (!err && hugemap_folio_is(hi, folio, pgoff)) {
			memcpy(folio_address(folio) + offset,
			       folio_address(page_folio(page)) + (offset - start), part);
			flush_dcache_folio(folio);
		}
		folio_unlock(folio);
		offset += part;
		bytes -= part;
	}
	io_ended(hugemap_of(hi));
	revert_creds(old);
	__free_pages(page, 0);
	return err;
}

struct io_refresh_work {
	struct work_struct work;
	struct completion done;
	struct hugemap_inode *hi;
	struct folio *folio;
	u64 pgoff;
	size_t offset, bytes;
	int err;
};

static void io_refresh_work(struct work_struct *work)
{
	struct io_refresh_work *w = container_of(work, struct io_refresh_work, work);

	w->err = io_refresh(w->hi, w->folio, w->pgoff, w->offset, w->bytes);
	complete(&w->done);
}

/*
 * A worker does the read, because the read of a killed task may fail. The lower file has changed
 * already, so this must not fail for such a reason.
 */
int hugemap_io_refresh(struct hugemap_inode *hi, struct folio *folio, u64 pgoff, size_t offset,
		       size_t bytes)
{
	struct io_refresh_work w = {
		.hi = hi, .folio = folio, .pgoff = pgoff, .offset = offset, .bytes = bytes
	};

	init_completion(&w.done);
	INIT_WORK_ONSTACK(&w.work, io_refresh_work);
	queue_work(hugemap_of(hi)->write_wq, &w.work);
	wait_for_completion(&w.done);
	destroy_work_on_stack(&w.work);
	return w.err;
}
