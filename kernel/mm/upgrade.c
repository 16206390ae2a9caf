// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The first store to a huge page that is mapped read-only should make the PMD writable in place,
 * which costs neither a split nor a TLB flush. mm does so for anonymous memory only; for a file it
 * calls ->huge_fault() and leaves the page table to the file system, so this file calls set_pmd().
 * A ->pmd_mkwrite() that works like ->page_mkwrite(), with mm changing the entry, would replace
 * this file.
 */
#include <linux/mm.h>

#include "mm.h"

/* Return the folio that the PMD maps, with a reference; NULL if the PMD has changed. */
struct folio *hugemap_mm_mapped_folio(const struct vm_fault *vmf)
{
	spinlock_t *ptl = pmd_lock(vmf->vma->vm_mm, vmf->pmd);
	struct folio *folio = NULL;

	if (pmd_same(*vmf->pmd, vmf->orig_pmd) && pmd_trans_huge(*vmf->pmd)) {
		folio = page_folio(pmd_page(*vmf->pmd));
		folio_get(folio);
	}
	spin_unlock(ptl);
	return folio;
}

/*
 * Allow stores through the PMD, if it still maps @folio read-only. There is no TLB flush: a CPU
 * with a stale read-only entry faults and drops that entry. Only x86 guarantees this.
 */
bool hugemap_mm_upgrade_pmd(struct vm_fault *vmf, const struct folio *folio)
{
	spinlock_t *ptl = pmd_lock(vmf->vma->vm_mm, vmf->pmd);
	bool same = IS_ENABLED(CONFIG_X86) && pmd_same(*vmf->pmd, vmf->orig_pmd) &&
		    pmd_trans_huge(*vmf->pmd) &&
		    pmd_pfn(*vmf->pmd) == folio_pfn((struct folio *)folio) &&
		    /* userfaultfd must see the store, and mm reports it page by page. */
		    !hugemap_pmd_uffd(*vmf->pmd);

	if (same)
		set_pmd(vmf->pmd, hugemap_pmd_mkwrite(pmd_mkyoung(pmd_mkdirty(*vmf->pmd))));
	spin_unlock(ptl);
	return same;
}
