/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* pool.c: how many slots of the pool have memory. */
#ifndef HUGEMAP_DATA_POOL_H
#define HUGEMAP_DATA_POOL_H

#include "data.h"

/* Take the memory of the whole pool at mount, and free it after the mount has ended. */
int hugemap_pool_take(struct hugemap_mount *mount, struct fs_context *fc);
void hugemap_pool_give(struct hugemap_mount *mount);

/**
 * hugemap_pool_resize() - grow or shrink the pool by a remount
 * @mount: the mount
 * @bytes: the new size
 * @fc: for errors in words
 *
 * It changes everything or nothing, and may wait for write-back. Memory that the shrinker has
 * given away is not taken back here: see shrink.c.
 */
int hugemap_pool_resize(struct hugemap_mount *mount, u64 bytes, struct fs_context *fc);

/* Free the memory of a slot without used frames, if there is one. pool_lock is held. */
bool hugemap_pool_shed(struct hugemap_mount *mount);

/* Allocate memory for up to @more slots without reclaim. Return their number. pool_lock is held. */
u32 hugemap_pool_take_back(struct hugemap_mount *mount, u32 more);

/* Return true if memory for @slots is available and 1/@part of RAM would stay available. */
bool hugemap_pool_fits(u32 slots, u32 part);

#endif /* HUGEMAP_DATA_POOL_H */
