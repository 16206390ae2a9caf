// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * A store to a huge folio that is mapped by a page table needs all its pages mapped writable at
 * once, because one fault for each page would tell the cache nothing new. Before 6.18 mm maps one
 * page, and calls ->map_pages() for read faults only, so this file calls filemap_map_pages() from
 * ->page_mkwrite(). Newer kernels map all pages by themselves if the page table is empty, and this
 * file can go with the older ones.
 */
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/userfaultfd_k.h>

#include "mm.h"

#define IN_BLOCK(pgoff) ((pgoff) & (HUGEMAP_MM_BLOCK_PAGES - 1))

/*
 * Return true if there is a page table, and no page is mapped at the fault. Not if mm maps the
 * pages itself, and not with userfaultfd, which sees each fault: mm maps nothing around those.
 */
bool hugemap_mm_may_map_around(const struct vm_fault *vmf)
{
	pmd_t pmd = READ_ONCE(*vmf->pmd);

	return !vmf->pte && !pmd_none(pmd) && !pmd_trans_huge(pmd) &&
	       !hugemap_mm_maps_whole_folio() && !userfaultfd_armed(vmf->vma);
}

/*
 * Map the block of the fault, as far as it lies in the same page table and in the VMA. It is the
 * fault of a store, so filemap_map_pages() maps all pages writable. It locks the folio by itself,
 * so the caller must not hold the folio lock. VM_FAULT_NOPAGE: the page of the fault is mapped.
 */
vm_fault_t hugemap_mm_map_around(struct vm_fault *vmf)
{
	struct vm_area_struct *vma = vmf->vma;
	u64 before = min3((u64)IN_BLOCK(vmf->pgoff), (u64)(vmf->address & ~PMD_MASK) >> PAGE_SHIFT,
			  (u64)(vmf->pgoff - vma->vm_pgoff));
	u64 after = min3((u64)IN_BLOCK(~vmf->pgoff), (u64)(~vmf->address & ~PMD_MASK) >> PAGE_SHIFT,
			 (u64)(vma->vm_pgoff + vma_pages(vma) - 1 - vmf->pgoff));
	u64 file_end = (u64)(i_size_read(file_inode(vma->vm_file)) + PAGE_SIZE - 1) >> PAGE_SHIFT;
	vm_fault_t ret;

	/* Linux before 6.12 may read i_size only once for all pages of a folio. */
	if (vmf->pgoff >= file_end)
		return 0;
	after = min(after, file_end - 1 - vmf->pgoff);
	ret = filemap_map_pages(vmf, vmf->pgoff - before, vmf->pgoff + after);
	/* filemap_map_pages() has unmapped the page table. */
	vmf->pte = NULL;
	return ret;
}
