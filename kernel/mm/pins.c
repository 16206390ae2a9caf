// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Write-back and truncation need to know whether a device or another pin holder can still store to
 * a folio without a fault. mm counts pins only for FOLL_PIN (folio_maybe_dma_pinned()), and older
 * users of get_user_pages() take plain references, so this file compares the reference count with
 * the references that the module and the page tables have. A "pinned for writing" state of the
 * folio that get_user_pages() sets for every user and that ends with a callback would replace this
 * file.
 */
#include <linux/mm.h>

#include "mm.h"

/*
 * Return true if a cached huge folio has references besides those of the cache and of page tables.
 * The caller holds the folio lock and has write-protected the folio, so no task can get a new
 * writable reference through a mapping. A lookup that holds a reference for a moment counts as a
 * pin as well.
 */
#ifdef HUGEMAP_HAVE_LARGE_MAPCOUNT
bool hugemap_mm_is_pinned(struct folio *folio)
{
	int mapped = folio_mapcount(folio), refs;

	/*
	 * Each mapping is one reference, of a PTE or of a PMD. If the mapcount changes while the
	 * references are counted, the folio is taken for pinned.
	 */
	smp_rmb();
	refs = folio_ref_count(folio);
	smp_rmb();
	return refs > hugemap_mm_cached_refs(folio) + mapped || folio_mapcount(folio) != mapped;
}
#else
static int pins_count_mappings(struct folio *folio)
{
	int entire = folio_entire_mapcount(folio), n = entire;
	unsigned long i;

	/* page_mapcount() includes the mappings by PMDs. */
	for (i = 0; i < folio_nr_pages(folio); i++)
		n += page_mapcount(folio_page(folio, i)) - entire;
	return n;
}

/* If the mappings change while they are counted, the folio is taken for pinned. */
static bool pins_exceed_mappings(struct folio *folio)
{
	int mapped = pins_count_mappings(folio), refs;

	smp_rmb();
	refs = folio_ref_count(folio);
	smp_rmb();
	return refs > hugemap_mm_cached_refs(folio) + mapped ||
	       pins_count_mappings(folio) != mapped;
}

bool hugemap_mm_is_pinned(struct folio *folio)
{
	int refs = folio_ref_count(folio);

	/*
	 * Read the reference count before the mapcount: an entry that is unmapped in between is
	 * counted as a reference only, and the folio is taken for pinned, never the reverse.
	 */
	smp_rmb();
	if (refs <= hugemap_mm_cached_refs(folio) + folio_entire_mapcount(folio))
		return false;
	/*
	 * PTEs may map it, too. To count them takes a look at each page, so remove all mappings. But
	 * mm would forget a lock by mlock(2) with the mapping.
	 */
	if (hugemap_mm_is_mlocked(folio->mapping, folio->index, folio_nr_pages(folio)))
		return pins_exceed_mappings(folio);
	unmap_mapping_pages(folio->mapping, folio->index, folio_nr_pages(folio), false);
	return folio_ref_count(folio) > hugemap_mm_cached_refs(folio);
}
#endif

/*
 * Return true if an unmapped folio may be pinned; the caller has one reference to it.
 * @count_references: also count plain references, which any other user may keep for ever.
 */
bool hugemap_mm_may_be_pinned(struct folio *folio, bool count_references)
{
	return folio_maybe_dma_pinned(folio) ||
	       (count_references && folio_ref_count(folio) > hugemap_mm_cached_refs(folio) + 1);
}
