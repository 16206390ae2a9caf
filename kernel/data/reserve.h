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

#endif /* HUGEMAP_DATA_RESERVE_H */
