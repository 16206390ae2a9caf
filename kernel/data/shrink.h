/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* shrink.c: give memory back under pressure, and take it again later. */
#ifndef HUGEMAP_DATA_SHRINK_H
#define HUGEMAP_DATA_SHRINK_H

#include "data.h"

int hugemap_shrink_start(struct hugemap_mount *mount);
void hugemap_shrink_stop(struct hugemap_mount *mount);

/* Return true if the pool does not have the size that it should have now. */
bool hugemap_pool_is_off(const struct hugemap_mount *mount);

/* Bring the pool closer to that size, as far as memory allows. */
void hugemap_pool_adjust(struct hugemap_mount *mount);

#endif /* HUGEMAP_DATA_SHRINK_H */
