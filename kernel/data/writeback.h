/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* writeback.c: write dirty units to the lower file. */
#ifndef HUGEMAP_DATA_WRITEBACK_H
#define HUGEMAP_DATA_WRITEBACK_H

#include "data.h"

/* Pages of a file that are written before other files get their turn. */
#define HUGEMAP_CHUNK_PAGES (64u * HM_BLOCK_PAGES)

/**
 * hugemap_write_pages() - write dirty units in file order
 * @hi: the inode
 * @pos: first page; set to the page at which the next call should continue
 * @end: the page after the last one
 * @budget: write about this number of pages
 * @wait: also wait for units under write-back, as a sync must. Without @wait, the units beyond
 *	the end of the lower file are written from its end on, wherever *pos is.
 *
 * The caller holds freeze protection of the lower file system and the invalidate_lock, shared
 * or exclusive. A worker does the writes, so that limits, signals and rights of the caller do
 * not matter.
 *
 * Return: 0 or the first error.
 */
int hugemap_write_pages(struct hugemap_inode *hi, u64 *pos, u64 end, u64 budget, bool wait);

/* hugemap_write_pages() for a caller without these locks. */
int hugemap_write_some(struct hugemap_inode *hi, u64 *pos, u64 end, u64 budget, bool wait);

/* Write a whole range as a sync does. The caller holds the locks of hugemap_write_pages(). */
int hugemap_write_range(struct hugemap_inode *hi, u64 start, u64 end);

#endif /* HUGEMAP_DATA_WRITEBACK_H */
