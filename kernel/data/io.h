/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* io.c: direct I/O between the lower file and frames. */
#ifndef HUGEMAP_DATA_IO_H
#define HUGEMAP_DATA_IO_H

#include <linux/bvec.h>
#include <linux/completion.h>

#include "data.h"

/* Base pages of one I/O. A huge unit is one segment. */
#define HUGEMAP_IO_SEGMENTS 256u
/* Writes in flight of one sync or of background write-back. */
#define HUGEMAP_WRITE_DEPTH 8u

/**
 * struct hugemap_io - one I/O on the lower file
 * @iocb: the I/O for the lower file system
 * @refs: one of the caller, and one of the submission until it has returned
 * @hi: the inode
 * @done: completed at the end, unless @ahead is set
 * @work: queued at the end, if @ahead is set: completes a read-ahead
 * @unit: read: the units that are filled
 * @run: write: the units that are written
 * @end: read: size of the lower file at the start
 * @result: bytes of the last submission, or a negative errno
 * @pos: offset in the file
 * @bytes: length
 * @written: bytes that short writes have written so far
 * @started_ns: local_clock() at the start
 * @write: direction
 * @ahead: no task waits
 * @nsegments: used segments
 * @max_segments: size of @segment
 * @segment: the pages
 */
struct hugemap_io {
	struct kiocb iocb;
	refcount_t refs;
	struct hugemap_inode *hi;
	struct completion done;
	struct work_struct work;
	struct hm_unit unit;
	struct hm_run run;
	loff_t end;
	ssize_t result;
	loff_t pos;
	size_t bytes;
	size_t written;
	u64 started_ns;
	bool write;
	bool ahead;
	u32 nsegments, max_segments;
	struct bio_vec *segment;
};

/**
 * hugemap_io_new() - allocate an I/O with HUGEMAP_IO_SEGMENTS segments
 * @hi: the inode
 * @gfp: GFP_NOFS waits until one is free. A caller with I/O of its own in flight must pass
 *	GFP_NOWAIT, and finish some of that I/O if it gets NULL.
 *
 * Return: the I/O, which the caller frees when it has ended; NULL only with GFP_NOWAIT.
 */
struct hugemap_io *hugemap_io_new(struct hugemap_inode *hi, gfp_t gfp);

/* Initialize an I/O in memory of the caller. The caller waits for its end. */
void hugemap_io_init(struct hugemap_io *io, struct hugemap_inode *hi, struct bio_vec *segment,
		     u32 max_segments);
void hugemap_io_free(struct hugemap_io *io);

static inline bool hugemap_io_full(const struct hugemap_io *io)
{
	return io->nsegments == io->max_segments;
}

/* Add @npages of a folio from @first on. Inline: called for each page that is written. */
static inline void hugemap_io_add_pages(struct hugemap_io *io, struct folio *folio, u32 first,
					u32 npages)
{
	size_t bytes = (size_t)npages << HM_PAGE_SHIFT;

	WARN_ON_ONCE(hugemap_io_full(io));
	bvec_set_page(&io->segment[io->nsegments++], folio_page(folio, first), bytes, 0);
	io->bytes += bytes;
}

static inline void hugemap_io_add(struct hugemap_io *io, struct folio *folio)
{
	hugemap_io_add_pages(io, folio, 0, folio_nr_pages(folio));
}

/**
 * hugemap_next_run() - find the next pages of a block to transfer with one I/O
 * @pages: a bit for each page of the block that is to be transferred
 * @first: where to start; set to the first page of the run
 * @end: set to the page after the run
 *
 * The run includes gaps of up to 16 KB, because another I/O costs about as much.
 *
 * Return: false if there is no page from *first on.
 */
bool hugemap_next_run(const unsigned long *pages, u32 *first, u32 *end);

/* Start an I/O. At its end io->done is completed, or io->work is queued. */
void hugemap_io_submit(struct hugemap_io *io, loff_t pos, size_t bytes);

/* Wait for the end. 0 or a negative errno. The rest of a short read is zeroed. */
int hugemap_io_wait(struct hugemap_io *io);
/* Return the result of an I/O that has ended. */
int hugemap_io_result(struct hugemap_io *io);

/**
 * hugemap_io_refresh() - read a part of a cached unit again
 * @hi: the inode
 * @folio: with a reference, and not locked; it is locked for each page that is copied, and
 *	skipped if it no longer holds the unit
 * @pgoff: first page of the unit
 * @offset: in bytes from there
 * @bytes: length
 *
 * Return: 0 or a negative errno.
 */
int hugemap_io_refresh(struct hugemap_inode *hi, struct folio *folio, u64 pgoff, size_t offset,
		       size_t bytes);

/* Write the last bytes of a file, which are no multiple of a sector, without direct I/O. */
int hugemap_io_write_tail(struct hugemap_inode *hi, struct page *page, loff_t pos, size_t bytes);

/* When the module is loaded and unloaded. */
int hugemap_io_setup(void);
void hugemap_io_teardown(void);

#endif /* HUGEMAP_DATA_IO_H */
