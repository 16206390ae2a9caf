// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Memory that mlock(2) has locked must stay mapped and cached, so this file finds the locked VMAs
 * of a range. mm marks locked folios (folio_test_mlocked()), but it loses the mark of folios that
 * are on no LRU list: see hugemap_mm_is_mlocked(). A call of mm that reports whether a locked VMA
 * maps a folio would replace this file.
 */
#include <linux/fs.h>
#include <linux/interval_tree_generic.h>
#include <linux/mm.h>
#include <linux/pagemap.h>

#include "mm.h"

#define VMA_FIRST(vma) ((vma)->vm_pgoff)
#define VMA_LAST(vma) ((vma)->vm_pgoff + vma_pages(vma) - 1)

/* mm sorts i_mmap in this way, but does not export its functions for it. */
INTERVAL_TREE_DEFINE(struct vm_area_struct, shared.rb, unsigned long, shared.rb_subtree_last,
		     VMA_FIRST, VMA_LAST, static __maybe_unused, mlocked_vma)

/*
 * Return true if a locked VMA covers one of the pages. The caller tests whether the page is mapped.
 * Takes i_mmap_rwsem, like unmap_mapping_pages().
 *
 * folio_test_mlocked() alone is not enough:
 *  - mm does not mark a huge folio that PTEs map, for example after a promotion. Since 6.12 it does
 *    not mark a huge folio that is mapped after mlock(2) either.
 *  - mm counts the locks of a folio only on an LRU list. Here the end of the first lock clears the
 *    mark, also if another VMA has locked the folio.
 *  - mm delays the work of munlock. If a locked page is unmapped and faulted in again, the page may
 *    still have its mark, and then the delayed work clears it.
 *
 * mlock(2) may set VM_LOCKED just after this call. If its pages are unmapped after mlock(2) has
 * found them present, they are not mapped until the next access.
 */
bool hugemap_mm_is_mlocked(struct address_space *mapping, u64 first, u64 npages)
{
	struct vm_area_struct *vma;

	if (!mapping_mapped(mapping))
		return false;
	i_mmap_lock_read(mapping);
	vma = mlocked_vma_iter_first(&mapping->i_mmap, first, first + npages - 1);
	while (vma && !(READ_ONCE(vma->vm_flags) & VM_LOCKED))
		vma = mlocked_vma_iter_next(vma, first, first + npages - 1);
	i_mmap_unlock_read(mapping);
	return vma;
}
