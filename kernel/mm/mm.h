/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Uses of mm for which mm offers no hook. Each file has one of them, and starts with three
 * sentences: what the module needs, why mm offers no hook for it, and which hook would
 * replace the file.
 */
#ifndef HUGEMAP_MM_H
#define HUGEMAP_MM_H

#include <linux/mm.h>

#include "compat/compat.h"

/* A block is the memory that one PMD maps. */
#define HUGEMAP_MM_BLOCK_ORDER (PMD_SHIFT - PAGE_SHIFT)
#define HUGEMAP_MM_BLOCK_PAGES (1u << HUGEMAP_MM_BLOCK_ORDER)

/* --- block.c: a block of memory as 512 base pages ------------------------------------- */

void hugemap_mm_split_block(struct page *first);
bool hugemap_mm_merge_block(struct page *first);

/* --- i_pages.c: entries of folios that are on no LRU list -------------------------------- */

void hugemap_mm_add_folios(struct address_space *mapping, struct folio *const *folios, u32 n);
bool hugemap_mm_freeze_folios(struct address_space *mapping, struct folio *const *folios, u32 n,
			      bool clean);
bool hugemap_mm_replace_folio(struct address_space *mapping, struct folio *from, struct folio *to);
void hugemap_mm_remove_entry(struct address_space *mapping, struct folio *folio);

/* --- map_around.c: map a dirty huge folio for a store, by the page table that is there ---- */

bool hugemap_mm_may_map_around(const struct vm_fault *vmf);
vm_fault_t hugemap_mm_map_around(struct vm_fault *vmf);

/* --- mlocked.c: does a locked VMA cover these pages? ---------------------------------------- */

bool hugemap_mm_is_mlocked(struct address_space *mapping, u64 first, u64 npages);

/* --- page_table.c: have a page table, so that mm maps one page and not the block ---------- */

bool hugemap_mm_need_page_table(struct vm_fault *vmf);
void hugemap_mm_set_maps_one(bool maps_one);
bool hugemap_mm_maps_whole_folio(void);
bool hugemap_mm_exceeds(int entries, u32 dirty_pages, u32 mappings);

/* Return the number of shared mappings of a file that can store to it. */
static inline u32 hugemap_mm_mappings(const struct address_space *mapping)
{
	return max(atomic_read(&mapping->i_mmap_writable), 1);
}

/*
 * Return true if a store to a mapping may set only a part of a huge unit dirty: mm maps only the
 * page of the store, and the page table stays until then.
 */
static inline bool hugemap_mm_maps_parts(void)
{
	return HUGEMAP_TABLES_STAY && !hugemap_mm_maps_whole_folio();
}

/* --- pins.c: is a folio pinned? --------------------------------------------------------- */

/*
 * The references of a cached folio without any other user: one of the pool, and one of
 * i_pages for each page, as mm expects it of a folio in the page cache. Code of mm that
 * compares the count with its own expectation is therefore off by one for every size.
 */
static inline int hugemap_mm_cached_refs(struct folio *folio)
{
	return 1 + folio_nr_pages(folio);
}

bool hugemap_mm_is_pinned(struct folio *folio);
bool hugemap_mm_may_be_pinned(struct folio *folio, bool count_references);

/* --- poison.c: memory that the machine has found broken ----------------------------------- */

void hugemap_poison_setup(void);
void hugemap_poison_teardown(void);
bool hugemap_may_be_poisoned(void);
bool hugemap_is_poisoned(const struct folio *folio);
void hugemap_mm_put_folio(struct folio *folio);

/* --- self_test.c: how many pages does a store map? --------------------------------------- */

bool hugemap_mm_test_store(void);

/* --- unlock_fault.c: drop the fault lock before a wait -------------------------------------- */

struct file *hugemap_mm_unlock_fault(struct vm_fault *vmf);

/* --- upgrade.c: make a read-only PMD writable in place -------------------------------------- */

struct folio *hugemap_mm_mapped_folio(const struct vm_fault *vmf);
bool hugemap_mm_upgrade_pmd(struct vm_fault *vmf, const struct folio *folio);

#endif /* HUGEMAP_MM_H */
