// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * After a store to a huge folio with only some dirty pages, only the stored page may become
 * writable, so it must be mapped by a page table and not by a PMD. mm maps a whole huge folio where
 * no page table exists, and it exports no function that allocates one, so this file makes one with
 * apply_to_page_range(). A flag in the return value of ->page_mkwrite() that limits mm to the one
 * page would replace this file.
 */
#include <linux/mm.h>
#include <linux/sched/mm.h>

#include "mm.h"

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
