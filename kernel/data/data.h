/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Declarations that all files of the data half use. Each file's functions are in the header with
 * its name. hugemap.h has the functions for the name space, the order of locks, and the rules for
 * folios.
 */
#ifndef HUGEMAP_DATA_H
#define HUGEMAP_DATA_H

#include <linux/fs_context.h>
#include <linux/pagemap.h>

#include "cache/fault.h"
#include "cache/move.h"
#include "cache/promotion.h"
#include "cache/readahead.h"
#include "cache/reclaim.h"
#include "cache/writeback.h"
#include "compat/compat.h"
#include "hugemap.h"
#include "mm/mm.h"
#include "race.h"

/* Report an error in words to the mounter, or in the log if @fc is NULL. */
#define hugemap_errorfc(fc, fmt, ...)                                \
	do {                                                         \
		if (fc)                                              \
			errorf(fc, "hugemap: " fmt, ##__VA_ARGS__);  \
		else                                                 \
			pr_err("hugemap: " fmt "\n", ##__VA_ARGS__); \
	} while (0)

/* Attempts, a tick apart, to remove a pinned folio from the cache before its pin holder gets it. */
#define HUGEMAP_PIN_RETRIES 3u

/* How long a fault waits for a frame without any progress before it fails. */
#define HUGEMAP_FAULT_TIMEOUT_MS 5000u

static inline u64 hugemap_pages(loff_t size)
{
	return ((u64)size + HM_PAGE_SIZE - 1) >> HM_PAGE_SHIFT;
}

static inline struct hugemap_mount *hugemap_of(const struct hugemap_inode *hi)
{
	return hugemap_mount(hi->vfs_inode.i_sb);
}

#endif /* HUGEMAP_DATA_H */
