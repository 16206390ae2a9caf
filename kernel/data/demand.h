/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* demand.c: blocks that a task needs, and has lost before it could use them. */
#ifndef HUGEMAP_DATA_DEMAND_H
#define HUGEMAP_DATA_DEMAND_H

#include "data.h"

/* The task has filled a page, and did not find it afterwards. It is about to fill it again. */
void hugemap_demand(struct hugemap_inode *hi, u64 pgoff);

/*
 * Limit a range of pages from @pgoff to @end to those that are not in demand. Move *pgoff past the
 * blocks in demand at the start of the range. Return the end of the first part that is left.
 */
u64 hugemap_skip_demand(struct hugemap_inode *hi, u64 *pgoff, u64 end);

#endif /* HUGEMAP_DATA_DEMAND_H */
