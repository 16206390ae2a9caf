// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * After a store to a huge folio with only some dirty pages, only the stored page may become
 * writable, so it must be mapped by a page table and not by a PMD. mm maps a whole huge folio where
 * no page table exists, and it exports no function that allocates one, so this file makes one with
 * apply_to_page_range(). A flag in the return value of ->page_mkwrite() that limits mm to the one
 * page would replace this file.
 */
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/sched/mm.h>

#include "mm.h"

/* A store maps all pages of a huge folio. Unknown means true. */
static bool maps_whole_folio = true;

/* Set the result of the self-test. */
void hugemap_mm_set_maps_one(bool maps_one)
{
	WRITE_ONCE(maps_whole_folio, !maps_one);
	if (!maps_one)
		pr_info("hugemap: this kernel maps more pages than the one that a program stores to, so stores to mappings write huge pages whole\n");
}

bool hugemap_mm_maps_whole_folio(void)
{
	return READ_ONCE(maps_whole_folio);
}

/*
 * Return true if more entries allowed stores to a huge folio than its dirty pages explain. Each
 * shared mapping has at most one entry for each page. @mappings: hugemap_mm_mappings() before
 * the folio was write-protected.
 */
bool hugemap_mm_exceeds(int entries, u32 dirty_pages, u32 mappings)
{
	if (likely((u64)entries <= (u64)dirty_pages * mappings))
		return false;
	if (!xchg(&maps_whole_folio, true))
		pr_warn("hugemap: this kernel mapped %d pages writable for stores to %u; from now on stores to mappings write huge pages whole\n",
			entries, dirty_pages);
	return true;
}

/*
 * Make sure that a page table is there. Return false if there is none: the block is mapped by a
 * PMD, or there is no memory. The caller holds the lock of the folio that would be mapped, so no
 * other task maps it. Another task may unmap it: an empty PMD is filled here.
 */
bool hugemap_mm_need_page_table(struct vm_fault *vmf)
{
	pmd_t pmd = READ_ONCE(*vmf->pmd);
	unsigned int flags;
	int err;

	if (!pmd_none(pmd))
		return !pmd_trans_huge(pmd);
	/* Reclaim must not enter a file system, this one included, under the folio lock. */
	flags = memalloc_nofs_save();
	err = apply_to_page_range(vmf->vma->vm_mm, vmf->address & PAGE_MASK, PAGE_SIZE, NULL, NULL);
	memalloc_nofs_restore(flags);
	return !err;
}
