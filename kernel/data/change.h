/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* change.c: changes of the lower file; hugemap.h declares hugemap_change_lower(). */
#ifndef HUGEMAP_DATA_CHANGE_H
#define HUGEMAP_DATA_CHANGE_H

#include "data.h"

/*
 * Drop the clean units of all blocks that a range of bytes touches, because the lower file may
 * have changed there. Pinned units stay: a device may have written to one without having
 * reported it yet.
 */
void hugemap_drop_clean(struct hugemap_inode *hi, loff_t start, loff_t last);

/* Drop the clean units that a range of pages touches. Pinned units stay. */
void hugemap_drop_clean_pages(struct hugemap_inode *hi, u64 pos, u64 end);

/*
 * Prepare the cache for pages up to @size. Zero the last unit from the old end of the file up to
 * @size. That unit may be huge: a writer that was killed while it extended the file may have left
 * it pinned. The upper file grows with the data that is copied, and the lower file with the data
 * that is written back.
 */
void hugemap_make_room(struct hugemap_inode *hi, loff_t size);

/*
 * Return true if growth of the file from @old to @size adds blocks of the lower file to the page
 * with the old end, because the blocks are smaller than pages.
 */
bool hugemap_grows_in_page(const struct hugemap_inode *hi, loff_t old, loff_t size);

#endif /* HUGEMAP_DATA_CHANGE_H */
