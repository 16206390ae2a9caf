// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The module needs to split a free block into base pages and to merge them again, so that a slot of
 * the pool that changes its page size gives back as much contiguous memory as it takes. mm exports
 * split_page(), but not its opposite: its only way to merge pages is to free each of them and to
 * hope that the buddy allocator joins them. An exported function that merges the pages of a split
 * block would replace this file.
 */
#include <linux/mm.h>

#include "mm.h"

/* @first was allocated with the order of a block, without __GFP_COMP. */
void hugemap_mm_split_block(struct page *first)
{
	u32 i;

	split_page(first, HUGEMAP_MM_BLOCK_ORDER);
	/* The allocator clears ->private of the first page only. */
	for (i = 0; i < HUGEMAP_MM_BLOCK_PAGES; i++)
		page_folio(first + i)->private = NULL;
}

/*
 * Undo split_page(), for __free_pages() with the order of a block: afterwards only the first page
 * has a reference. Return false and change nothing if another task holds a reference to one of the
 * other pages, or if a page is poisoned: the caller must free each page separately then, because mm
 * withholds a poisoned page only when that page is freed alone.
 */
bool hugemap_mm_merge_block(struct page *first)
{
	u32 i;

	if (PageHWPoison(first))
		return false;
	for (i = 1; i < HUGEMAP_MM_BLOCK_PAGES; i++) {
		if (PageHWPoison(first + i) || !folio_ref_freeze(page_folio(first + i), 1))
			break;
	}
	if (i == HUGEMAP_MM_BLOCK_PAGES)
		return true;
	while (--i > 0)
		folio_ref_unfreeze(page_folio(first + i), 1);
	return false;
}
