/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* folio.c: units of the cache and their folios. */
#ifndef HUGEMAP_DATA_FOLIO_H
#define HUGEMAP_DATA_FOLIO_H

#include "data.h"

/*
 * Folios that enter i_pages together: less than a block, so that the simulator, whose blocks have 8
 * pages, repeats the loop, too.
 */
#define HUGEMAP_ROW_FOLIOS (HM_BLOCK_PAGES < 32 ? HM_BLOCK_PAGES / 2 : 16)

/* Return the folio of a cached unit, with a reference; NULL if the unit has left. */
struct folio *hugemap_unit_folio(struct hugemap_inode *hi, const struct hm_unit *unit);

/* Return true if a locked folio still holds the page. */
bool hugemap_folio_is(const struct hugemap_inode *hi, const struct folio *folio, u64 pgoff);

/**
 * hugemap_find() - find the folio of a cached page
 * @hi: the inode
 * @pgoff: the page
 * @access: see hm_fault(); the page counts as accessed
 * @unit: set to the unit, with the hints of hm_fault()
 *
 * Return: the folio with a reference; NULL if the page is not cached, or is busy.
 */
struct folio *hugemap_find(struct hugemap_inode *hi, u64 pgoff, struct hm_access access,
			   struct hm_unit *unit);

/**
 * hugemap_find_row() - find the folios of cached base pages
 * @hi: the inode, of which a page was cached
 * @pgoff: the first page
 * @folios: set to their folios, each with a reference
 * @n: at most HUGEMAP_ROW_FOLIOS
 *
 * Return: the number of folios; see hm_fault_row().
 */
u32 hugemap_find_row(struct hugemap_inode *hi, u64 pgoff, struct folio **folios, u32 n);

/* Find and lock the folio of a cached page. It holds the page until it is unlocked. */
struct folio *hugemap_find_locked(struct hugemap_inode *hi, u64 pgoff, struct hm_access access,
				  struct hm_unit *unit);

/* @n adjacent units are filled: their folios enter the cache. */
void hugemap_folio_insert(struct hugemap_inode *hi, const struct hm_unit *units, u32 n);

/*
 * Take a locked and unmapped folio out of the cache. Return false if it is pinned, or if @clean is
 * set and the folio is dirty.
 */
bool hugemap_folio_remove(struct hugemap_inode *hi, struct folio *folio, bool clean);

/*
 * Move a locked and unmapped base page to the frame of @to. Return false if it is pinned, or if the
 * folio of the frame is locked. The frame has memory. The page is dirty, which the core knows.
 * Allocates nothing.
 */
bool hugemap_folio_move(struct hugemap_inode *hi, struct folio *from, const struct hm_unit *to);

/*
 * Freeze the base pages of a block, which are locked and unmapped, and take them out of i_pages.
 * @base: NULL where a page is not cached. Return false if one is pinned. Allocates nothing.
 */
bool hugemap_folio_freeze_range(struct hugemap_inode *hi, struct folio *const *base);

/*
 * After hugemap_folio_freeze_range(): replace the base folios by the huge folio of @unit, which
 * holds their data.
 */
void hugemap_folio_replace(struct hugemap_inode *hi, const struct hm_unit *unit,
			   struct folio *const *base);

/* Take a pinned folio out of the cache and leave it to its pin holders. */
void hugemap_folio_orphan(struct hugemap_inode *hi, struct folio *folio);

#endif /* HUGEMAP_DATA_FOLIO_H */
