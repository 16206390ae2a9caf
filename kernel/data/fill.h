/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* fill.c: fills of single units, and read-ahead. */
#ifndef HUGEMAP_DATA_FILL_H
#define HUGEMAP_DATA_FILL_H

#include "data.h"

/**
 * hugemap_fill_page() - make sure that a page is cached
 * @hi: the inode
 * @pgoff: the page
 * @access: see hm_fault()
 *
 * Sleeps and takes the invalidate_lock itself. The page may leave again at any time.
 *
 * Return: 0; -ENODATA beyond the end of the file; -EINTR or -ERESTARTSYS after a fatal signal;
 * -ENOMEM; or the error of the read.
 */
int hugemap_fill_page(struct hugemap_inode *hi, u64 pgoff, struct hm_access access);

/*
 * A fault had HM_HINT_READAHEAD. I/O for a reader starts here, and the lower file system may
 * sleep; work for a writer is queued.
 */
void hugemap_read_ahead(struct hugemap_inode *hi, u64 pgoff, struct hm_access access);

/* hugemap_read_ahead() with everything queued, for a caller that holds the fault lock. */
void hugemap_queue_ahead(struct hugemap_inode *hi, u64 pgoff, struct hm_access access);

/* hugemap_queue_ahead() for write(2), which needs write-behind but no read-ahead. */
void hugemap_write_behind(struct hugemap_inode *hi, u64 pgoff, struct hm_access access);

/*
 * hm_fault(), with the index nodes that it needs. The invalidate_lock is held. HM_NO_NODE: the file
 * has changed in size at the node each time; release the lock before another attempt.
 */
enum hm_outcome hugemap_cache_fault(struct hugemap_inode *hi, u64 pgoff, struct hm_access access,
				    struct hm_unit *unit);

/* hm_fill_cancel(), and wake the tasks that wait for the unit. */
void hugemap_fill_cancel(struct hugemap_inode *hi, const struct hm_unit *unit);

#endif /* HUGEMAP_DATA_FILL_H */
