/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* overwrite.c: direct writes beside fills; hugemap.h declares hugemap_overwrite_lower(). */
#ifndef HUGEMAP_DATA_OVERWRITE_H
#define HUGEMAP_DATA_OVERWRITE_H

#include "data.h"

bool hugemap_is_overwritten_slow(struct hugemap_inode *hi, const struct hm_unit *unit);

/*
 * Return true if an overwrite has claimed a part of the unit. The caller has made the unit
 * HM_FILLING, and must cancel the fill then.
 */
static inline bool hugemap_is_overwritten(struct hugemap_inode *hi, const struct hm_unit *unit)
{
	/* Pairs with overwrite_claim(). The compare-and-swap to HM_FILLING was a full barrier. */
	return !list_empty(&hi->data->overwrites) && hugemap_is_overwritten_slow(hi, unit);
}

/*
 * Wait until no overwrite claims a part of the unit. From here on the fill is counted, and new
 * overwrites yield to it: hugemap_yield_to_stores(). *counted: set here. -ERESTARTSYS: a fatal
 * signal.
 */
int hugemap_wait_overwrite(struct hugemap_inode *hi, const struct hm_unit *unit, bool *counted);

/* The counted fill has begun, or its task has given up. */
void hugemap_end_wait_overwrite(struct hugemap_inode *hi, bool *counted);

#endif /* HUGEMAP_DATA_OVERWRITE_H */
