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

/*
 * Drop the clean units of a range of pages, so that base pages can replace huge units. The lower
 * file system may have room for a page, but not for all of a huge unit. The caller does not hold
 * the invalidate_lock.
 */
void hugemap_drop_huge(struct hugemap_inode *hi, u64 pgoff, u64 end);

#endif /* HUGEMAP_DATA_RESERVE_H */
