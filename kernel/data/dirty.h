/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* dirty.c: report the stores that no fault has reported. */
#ifndef HUGEMAP_DATA_DIRTY_H
#define HUGEMAP_DATA_DIRTY_H

#include "data.h"

/* ->dirty_folio(): GUP, DMA or a zap set a folio dirty. May be called under spinlocks. */
bool hugemap_dirty_folio(struct address_space *mapping, struct folio *folio);

/*
 * Make a cached page dirty in the core, also while its write-back is in flight. Return HM_EVICTING
 * if its unit is claimed: then nothing has changed. Otherwise return HM_DIRTY.
 */
enum hm_state hugemap_become_dirty(struct hugemap_inode *hi, u64 pgoff);

#endif /* HUGEMAP_DATA_DIRTY_H */
