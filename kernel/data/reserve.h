/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* reserve.c: allocate blocks of the lower file before a store. */
#ifndef HUGEMAP_DATA_RESERVE_H
#define HUGEMAP_DATA_RESERVE_H

#include "data.h"

/**
 * hugemap_reserve() - make sure that dirty pages can be written
 * @hi: the inode
 * @pgoff: the first page of units that have holes in the lower file
 * @npages: length of the range
 *
 * The caller holds neither the fault lock nor the invalidate_lock.
 *
 * Return: 0, -ENOSPC, -EINTR after a fatal signal, or another error of the lower file system.
 */
int hugemap_reserve(struct hugemap_inode *hi, u64 pgoff, u64 npages);

/* Return true if hugemap_reserve() has failed because the lower file system or a quota is full. */
static inline bool hugemap_has_no_room(int err)
{
	return err == -ENOSPC || err == -EDQUOT;
}

/**
 * hugemap_drop_huge() - drop the clean units of a range, so that base pages can replace huge units
 * @hi: the inode
 * @pgoff: the first page
 * @end: the page after the range
 * @tries: the number of attempts so far, which the call counts; 0 before the first call
 *
 * The lower file system may have room for a page, but not for all of a huge unit. A short reference
 * to the unit, for example by GUP, makes an attempt fail, and another task may fill the unit again.
 * So each attempt after the first one comes a tick later. The caller does not hold the
 * invalidate_lock.
 *
 * Return: false, without an attempt, after HUGEMAP_PIN_RETRIES more attempts than one.
 */
bool hugemap_drop_huge(struct hugemap_inode *hi, u64 pgoff, u64 end, u32 *tries);

/* Return true if a huge unit with the page is cached, or is being filled. */
bool hugemap_has_huge(struct hugemap_inode *hi, u64 pgoff);

#endif /* HUGEMAP_DATA_RESERVE_H */
