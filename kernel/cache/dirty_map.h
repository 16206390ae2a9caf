/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Which pages of a huge unit are dirty. */
#ifndef HM_DIRTY_MAP_H
#define HM_DIRTY_MAP_H

#include "access.h"
#include "state.h"

struct hm_promotion;

/**
 * hm_dirty_map_store() - record a store to some pages of a huge unit
 * @pos: the unit
 * @word: its word, just read; a clean, dirty or writing unit
 * @pgoff: the first page of the store
 * @access: the access; .npages is not 0
 *
 * The caller holds the lock of the unit (see hm_access.npages), and calls this before the word
 * changes.
 *
 * Return: HM_W_PARTIAL_DIRTY if only the pages in the map become dirty; 0 if all pages do.
 */
u64 hm_dirty_map_store(const struct hm_pos *pos, u64 word, u64 pgoff, struct hm_access access);

/*
 * A huge unit became HM_WRITING: write all pages, unless the engine calls hm_writeback_pages(). The
 * caller holds dirty_lock.
 */
void hm_dirty_map_claimed(const struct hm_pos *pos, u32 frame);

/* Return the number of pages that the current write-back of a huge unit writes. */
u32 hm_dirty_map_written(const struct hm_pos *pos, u32 frame);

/*
 * A write-back failed: mark its pages dirty again. The caller owns the write-back. Return: false if
 * all pages of the unit are dirty, or the unit is a base page.
 */
bool hm_dirty_map_failed(const struct hm_pos *pos, u32 frame);

/*
 * Make the map of a promoted unit from the dirty bits of its base pages. The caller has claimed all
 * base pages. Return: false if too many are dirty for a map: all of the unit becomes dirty.
 */
bool hm_dirty_map_promoted(const struct hm_promotion *p);

/* A frame was taken for a new unit: forget that the folio of the previous unit was pinned. */
void hm_dirty_map_reset(struct hm_cache *cache, u32 frame);

#endif /* HM_DIRTY_MAP_H */
