// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Faults of mappings.
 *
 * A read fault maps the cached pages around it (hugemap_map_pages()). If its own page is not
 * cached, hugemap_fault() waits in hugemap_miss() until the page is filled, and returns it. A huge
 * unit is mapped with one PMD, where the mapping is aligned for that.
 *
 * Pages are read-only until the first store. That store faults, and its unit becomes dirty before
 * the page becomes writable: hugemap_page_mkwrite(), or fault_store_to_pmd() for a PMD. Write-back
 * makes the pages read-only again.
 */
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/sched/clock.h>

#include "access.h"
#include "fill.h"
#include "folio.h"
#include "miss.h"
#include "trace.h"
#include "wait.h"

static struct hm_access fault_access(const struct vm_fault *vmf)
{
	struct hm_access access = hugemap_access_in(vmf->vma);

	/* The fault is repeated after hugemap_miss(). */
	access.again = !!(vmf->flags & FAULT_FLAG_TRIED);
	return access;
}

/* --- read faults ---------------------------------------------------------------------- */

/* The most base pages that one fault of a sequential reader maps. */
#define AROUND_PAGES 256u

/*
 * Choose the base pages around a fault to map. mm suggests *first to *last. If a file is read in
 * order, each fault is just behind the pages that the last one mapped. Then this doubles their
 * number, so that more pages share the cost of an exception. The range stays within one page table
 * and within the VMA.
 */
static void fault_widen(struct vm_fault *vmf, u64 *first, u64 *last)
{
	struct vm_area_struct *vma = vmf->vma;
	struct file_ra_state *around = &vma->vm_file->f_ra;
	u64 table_end = vmf->pgoff + ((~vmf->address & ~PMD_MASK) >> PAGE_SHIFT);
	u64 vma_end = vma->vm_pgoff + vma_pages(vma) - 1;
	u32 n = *last - vmf->pgoff + 1;

	/* These are hints: threads that share the file may overwrite each other's values. */
	if (READ_ONCE(around->start) == vmf->pgoff && !(vma->vm_flags & VM_RAND_READ)) {
		n = clamp(2 * READ_ONCE(around->size), n, AROUND_PAGES);
		*first = vmf->pgoff;
		*last = min3(vmf->pgoff + n - 1, table_end, vma_end);
	}
	WRITE_ONCE(around->size, n);
}

/*
 * Return true if the file ends within a huge unit. During an extending write(2) the core already
 * has the new size, so such a unit may be cached. The pages beyond the end raise SIGBUS until the
 * writer has copied their data: a PMD must not map them.
 */
static bool fault_ends_within(const struct inode *inode, const struct hm_unit *unit)
{
	return unit->npages > 1 && unit->pgoff + unit->npages > hugemap_pages(i_size_read(inode));
}

/*
 * ->map_pages(): map the cached pages around a read fault, from i_pages, under RCU. Each mapped
 * unit counts as accessed. A page with a read-ahead marker is left out, so that its own fault
 * starts the read-ahead.
 */
static vm_fault_t hugemap_map_pages(struct vm_fault *vmf, pgoff_t start, pgoff_t end)
{
	struct inode *inode = file_inode(vmf->vma->vm_file);
	struct hugemap_inode *hi = hugemap_inode(inode);
	u64 first = start, last = end;
	u64 file_end = hugemap_pages(i_size_read(inode));
	struct hm_unit unit;
	vm_fault_t ret;

	fault_widen(vmf, &first, &last);
	if (!smp_load_acquire(&hi->hfile) || vmf->pgoff >= file_end ||
	    !hm_fault_around(hi->hfile, vmf->pgoff, &first, &last, &unit))
		return 0;
	/* Linux before 6.12 may read i_size only once for all pages of a folio. */
	last = min(last, file_end - 1);
	/* Without a page table mm would map the block by a PMD. hugemap_fault() makes one. */
	if (pmd_none(READ_ONCE(*vmf->pmd)) && fault_ends_within(inode, &unit))
		return 0;
	WRITE_ONCE(vmf->vma->vm_file->f_ra.start, last + 1);
	hugemap_race_point_atomic("fault-around: found, not mapped");
	ret = filemap_map_pages(vmf, first, last);
	if (ret & VM_FAULT_NOPAGE) {
		hugemap_count(hugemap_of(hi),
			      pmd_trans_huge(*vmf->pmd) ? HUGEMAP_C_HUGE_MAPPED :
							  HUGEMAP_C_BASE_MAPPED,
			      1);
		trace_hugemap_fault(inode, first, (u32)(last - first + 1), 0);
	}
	return ret;
}

/* Describe an access for the case of a hit, for which less is needed than for a miss. */
static struct hm_access fault_hit_access(const struct vm_fault *vmf,
					 const struct hugemap_mount *mount)
{
	if (mount->opts.page == HUGEMAP_PAGE_AUTO)
		return fault_access(vmf);
	return HM_ACCESS(.again = !!(vmf->flags & FAULT_FLAG_TRIED));
}

/* Return false if hugemap_page_mkwrite() would refuse a store to the unit now. True is a hint. */
static bool fault_may_store(struct hugemap_inode *hi, const struct hm_unit *unit)
{
	struct address_space *mapping = hi->vfs_inode.i_mapping;

	if (unit->hints & HM_HINT_NEEDS_ALLOC ||
	    (hi->data->stable && unit->hints & HM_HINT_WRITING) ||
	    !filemap_invalidate_trylock_shared(mapping))
		return false;
	filemap_invalidate_unlock_shared(mapping);
	return true;
}

/* ->fault(): nothing is mapped at the page. Return its folio, locked and with a reference. */
static vm_fault_t hugemap_fault(struct vm_fault *vmf)
{
	struct inode *inode = file_inode(vmf->vma->vm_file);
	struct hugemap_inode *hi = hugemap_inode(inode);
	struct hugemap_mount *mount = hugemap_of(hi);
	bool store = vmf->flags & FAULT_FLAG_WRITE && vmf->vma->vm_flags & VM_SHARED;
	u64 started = 0;
	struct hm_access access = fault_hit_access(vmf, mount);
	struct folio *folio;
	struct hm_unit unit;
	vm_fault_t ret;

	access.npages = store;
	for (;;) {
		if (vmf->pgoff >= hugemap_pages(i_size_read(inode)))
			return VM_FAULT_SIGBUS;
		folio = hugemap_find_locked(hi, vmf->pgoff, access, &unit);
		if (folio) {
			hugemap_race_point("fault: locked, not mapped");
			hugemap_take_hints(hi, &unit);
			if (unit.hints & HM_HINT_READAHEAD)
				hugemap_queue_ahead(hi, vmf->pgoff, fault_access(vmf));
			if (!store || fault_may_store(hi, &unit))
				break;
			folio_unlock(folio);
			folio_put(folio);
		}
		if (!started)
			started = local_clock();
		ret = hugemap_miss(vmf, access.again, store, started);
		if (ret)
			return ret;
		access.again = true;
	}
	ret = VM_FAULT_LOCKED;
	if (unlikely(vmf->pgoff >= hugemap_pages(i_size_read(inode))))
		ret = VM_FAULT_SIGBUS;
	else if (unlikely(fault_ends_within(inode, &unit)) && !hugemap_mm_need_page_table(vmf))
		ret = VM_FAULT_NOPAGE; /* mm repeats the fault */
	if (unlikely(ret != VM_FAULT_LOCKED)) {
		folio_unlock(folio);
		folio_put(folio);
		return ret;
	}
	/* mm maps a huge folio with PTEs if there is a page table. */
	hugemap_count(mount,
		      unit.npages > 1 && pmd_none(*vmf->pmd) ? HUGEMAP_C_HUGE_MAPPED :
							       HUGEMAP_C_BASE_MAPPED,
		      1);
	trace_hugemap_fault(inode, vmf->pgoff, unit.npages, vmf->flags & FAULT_FLAG_WRITE);
	if (started)
		hugemap_record(mount, HUGEMAP_H_FAULT_NS, local_clock() - started);
	vmf->page = folio_page(folio, vmf->pgoff - folio->index);
	return VM_FAULT_LOCKED;
}

#ifdef HUGEMAP_HAVE_VMF_INSERT_FOLIO_PMD
static bool fault_fits(const struct vm_fault *vmf)
{
	unsigned long start = vmf->address & PMD_MASK;

	return start >= vmf->vma->vm_start && start + PMD_SIZE <= vmf->vma->vm_end &&
	       IS_ALIGNED((start >> PAGE_SHIFT) - vmf->vma->vm_start / PAGE_SIZE +
				  vmf->vma->vm_pgoff,
			  HM_BLOCK_PAGES);
}

/* A read fault in a block without any mapped page: map the huge unit, if it is cached. */
static vm_fault_t fault_insert_pmd(struct vm_fault *vmf)
{
	struct inode *inode = file_inode(vmf->vma->vm_file);
	struct hugemap_inode *hi = hugemap_inode(inode);
	u64 first = vmf->pgoff, last = vmf->pgoff;
	vm_fault_t ret = VM_FAULT_FALLBACK;
	struct hm_unit unit;
	struct folio *folio;

	if (vmf->flags & FAULT_FLAG_WRITE || !fault_fits(vmf) || !smp_load_acquire(&hi->hfile) ||
	    !hm_fault_around(hi->hfile, vmf->pgoff, &first, &last, &unit))
		return VM_FAULT_FALLBACK;
	if (unit.npages == 1)
		return VM_FAULT_FALLBACK;
	folio = hugemap_unit_folio(hi, &unit);
	if (!folio)
		return VM_FAULT_FALLBACK;
	if (folio_trylock(folio)) {
		if (hugemap_folio_is(hi, folio, vmf->pgoff) && !fault_ends_within(inode, &unit)) {
			ret = vmf_insert_folio_pmd(vmf, folio, false);
			/* mm also returns this if another task has just put a page table there. */
			if (ret == VM_FAULT_NOPAGE && pmd_trans_huge(READ_ONCE(*vmf->pmd))) {
				hugemap_count(hugemap_of(hi), HUGEMAP_C_HUGE_MAPPED, 1);
				trace_hugemap_fault(inode, unit.pgoff, unit.npages, 0);
			}
		}
		folio_unlock(folio);
	}
	folio_put(folio);
	return ret;
}
#endif

/* --- stores ------------------------------------------------------------------------------ */

/* Return true if chattr(1) or swapon(8) has made the lower file immutable since it was opened. */
static bool fault_is_immutable(const struct hugemap_inode *hi)
{
	return hi->lower && (IS_IMMUTABLE(hi->lower) || hugemap_swaps_lower(hi));
}

/*
 * Set the unit of a locked folio dirty, for the store of a fault. Return false if the unit is
 * claimed for eviction, needs blocks of the lower file, or must not change before its write-back
 * has ended. The fault is repeated then. An eviction fails, because the fault has a reference.
 */
static bool fault_make_dirty(struct vm_fault *vmf, struct hugemap_inode *hi, struct folio *folio,
			     struct hm_unit *unit)
{
	/* A page locked by mlock(2) must stay mapped: an unmap of its PTE would munlock it. */
	bool part = hugemap_mm_maps_parts() && !(vmf->vma->vm_flags & VM_LOCKED);
	struct hm_access access = hugemap_store_access(hi, part);

	/* Write-back makes pages read-only and the unit clean under the folio lock. */
	WARN_ON_ONCE(!folio_test_locked(folio));
	hugemap_race_point("first store: locked, not dirty");
	if (hm_fault(hi->hfile, vmf->pgoff, access, unit) != HM_HIT)
		return false;
	hugemap_race_point("first store: dirty, no flag");
	/* With the flag set, hugemap_dirty_folio() does not report this store again. */
	folio_test_set_dirty(folio);
	hugemap_take_hints(hi, unit);
	return true;
}

/*
 * mm is going to map the page alone if there is a page table, otherwise the whole block. If only
 * some pages of the unit are dirty, no other page may become writable: get a page table, or set the
 * whole unit dirty.
 */
static bool fault_may_map(struct vm_fault *vmf, struct hugemap_inode *hi,
			  const struct hm_unit *unit)
{
	struct hm_unit whole;

	hugemap_race_point("first store: a page is dirty, the block may be mapped");
	return !(unit->hints & HM_HINT_PARTIAL) || hugemap_mm_need_page_table(vmf) ||
	       hm_fault(hi->hfile, vmf->pgoff,
			HM_ACCESS(.write = true, .cached_only = true, .again = true),
			&whole) == HM_HIT;
}

/*
 * Return true if the whole unit is dirty and is going to be mapped by a page table: one fault for
 * each of its pages would report nothing new, so all of them may be mapped at once. Not for stable
 * pages: the next write-back must find no writable page that it does not know of.
 */
static bool fault_may_map_around(const struct vm_fault *vmf, const struct hugemap_inode *hi,
				 const struct hm_unit *unit)
{
	return unit->npages > 1 && !(unit->hints & HM_HINT_PARTIAL) && !hi->data->stable &&
	       hugemap_mm_may_map_around(vmf);
}

/*
 * Map all pages of a dirty unit. The folio is locked and is unlocked here, because mm locks it
 * itself. Write-back leaves the unit dirty as long as the fault is counted in mapping_stores.
 * Return true if the page of the fault is mapped.
 */
static bool fault_map_around(struct vm_fault *vmf, struct hugemap_inode *hi, struct folio *folio)
{
	atomic_t *mapping = hugemap_mapping_stores(hi, vmf->pgoff);
	vm_fault_t ret;

	/* Pairs with writeback_protect(). */
	atomic_inc(mapping);
	folio_unlock(folio);
	hugemap_race_point("first store: dirty, none of the block mapped");
	ret = hugemap_mm_map_around(vmf);
	hugemap_race_point("first store: the block is mapped, and counted");
	smp_mb__before_atomic();
	atomic_dec(mapping);
	return ret & VM_FAULT_NOPAGE;
}

/*
 * The store is allowed. If the fault has waited before, it no longer holds back changes of the
 * lower file.
 */
static void fault_end_store(const struct vm_fault *vmf, struct hugemap_inode *hi)
{
	if (unlikely(vmf->flags & FAULT_FLAG_TRIED || !(vmf->flags & FAULT_FLAG_ALLOW_RETRY)))
		hugemap_end_store(hi);
}

/* Describe the access of a stream that stores, for its read-ahead and write-behind. */
static struct hm_access fault_store_access(const struct vm_fault *vmf)
{
	struct hm_access access = fault_access(vmf);

	access.write = true;
	return access;
}

/* ->page_mkwrite(): the first store to a page that is mapped, or about to be mapped. */
static vm_fault_t hugemap_page_mkwrite(struct vm_fault *vmf)
{
	struct inode *inode = file_inode(vmf->vma->vm_file);
	struct hugemap_inode *hi = hugemap_inode(inode);
	struct address_space *mapping = inode->i_mapping;
	struct folio *folio = page_folio(vmf->page);
	vm_fault_t ret = VM_FAULT_NOPAGE;
	struct hm_unit unit = {};
	bool ahead = false, tried = false, mapped = false;

	sb_start_pagefault(inode->i_sb);
	hugemap_race_point("first store: mapped, not dirty");
	if (!filemap_invalidate_trylock_shared(mapping))
		goto again;
	if (fault_is_immutable(hi)) {
		ret = VM_FAULT_SIGBUS;
		goto out;
	}
	file_update_time(vmf->vma->vm_file);
lock:
	folio_lock(folio);
	if (!hugemap_folio_is(hi, folio, vmf->pgoff) ||
	    vmf->pgoff >= hugemap_pages(i_size_read(inode)) ||
	    !fault_make_dirty(vmf, hi, folio, &unit) || !fault_may_map(vmf, hi, &unit)) {
		folio_unlock(folio);
		goto out;
	}
	hugemap_race_point("first store: dirty, not writable");
	ahead |= unit.hints & HM_HINT_READAHEAD;
	ret = VM_FAULT_LOCKED;
	if (!tried && fault_may_map_around(vmf, hi, &unit)) {
		tried = true;
		ret = VM_FAULT_NOPAGE;
		/* Another task held the folio lock: map only this page, the usual way. */
		if (!fault_map_around(vmf, hi, folio))
			goto lock;
		mapped = true;
	}
out:
	filemap_invalidate_unlock_shared(mapping);
	if (ret != VM_FAULT_NOPAGE || mapped)
		fault_end_store(vmf, hi);
again:
	sb_end_pagefault(inode->i_sb);
	if (ret == VM_FAULT_NOPAGE && !mapped)
		/* Only hugemap_fault() can drop the fault lock and wait: let mm call it. */
		unmap_mapping_pages(mapping, vmf->pgoff, 1, false);
	if (ahead)
		hugemap_queue_ahead(hi, unit.pgoff, fault_store_access(vmf));
	return ret;
}

/* The first store to a block that a read-only PMD maps. */
static vm_fault_t fault_store_to_pmd(struct vm_fault *vmf)
{
	struct inode *inode = file_inode(vmf->vma->vm_file);
	struct hugemap_inode *hi = hugemap_inode(inode);
	struct address_space *mapping = inode->i_mapping;
	vm_fault_t ret = VM_FAULT_FALLBACK;
	struct hm_unit unit = {};
	struct folio *folio = NULL;

	/* Wait for a thaw before taking the invalidate_lock: the freeze's sync needs the lock. */
	sb_start_pagefault(inode->i_sb);
	/* Leave long waits and errors to hugemap_page_mkwrite(). */
	if (!filemap_invalidate_trylock_shared(mapping))
		goto out;
	if (fault_is_immutable(hi))
		goto unlock;
	file_update_time(vmf->vma->vm_file);
	folio = hugemap_mm_mapped_folio(vmf);
	if (folio) {
		folio_lock(folio);
		if (hugemap_folio_is(hi, folio, vmf->pgoff) &&
		    fault_make_dirty(vmf, hi, folio, &unit) &&
		    /* Otherwise mm unmaps the PMD and calls hugemap_page_mkwrite(). */
		    !(unit.hints & HM_HINT_PARTIAL) && hugemap_mm_upgrade_pmd(vmf, folio)) {
			hugemap_count(hugemap_of(hi), HUGEMAP_C_UPGRADES, 1);
			trace_hugemap_fault(inode, unit.pgoff, unit.npages, 1);
			ret = VM_FAULT_NOPAGE;
		}
		folio_unlock(folio);
		folio_put(folio);
	}
unlock:
	filemap_invalidate_unlock_shared(mapping);
	if (ret == VM_FAULT_NOPAGE)
		fault_end_store(vmf, hi);
out:
	sb_end_pagefault(inode->i_sb);
	if (folio && unit.hints & HM_HINT_READAHEAD)
		hugemap_queue_ahead(hi, vmf->pgoff, fault_store_access(vmf));
	return ret;
}

/* --- operations ------------------------------------------------------------------------------ */

/* ->huge_fault(): VM_FAULT_FALLBACK lets mm handle single pages. */
static vm_fault_t hugemap_pmd_fault(struct vm_fault *vmf)
{
	if (!(vmf->vma->vm_flags & VM_SHARED) && vmf->flags & FAULT_FLAG_WRITE)
		return VM_FAULT_FALLBACK;
	if (pmd_trans_huge(vmf->orig_pmd) && vmf->flags & FAULT_FLAG_WRITE)
		return fault_store_to_pmd(vmf);
#ifdef HUGEMAP_HAVE_VMF_INSERT_FOLIO_PMD
	if (pmd_none(vmf->orig_pmd))
		return fault_insert_pmd(vmf);
#endif
	return VM_FAULT_FALLBACK;
}

#ifdef HUGEMAP_HAVE_HUGE_FAULT_ORDER
static vm_fault_t hugemap_huge_fault(struct vm_fault *vmf, unsigned int order)
{
	return order == HM_BLOCK_ORDER ? hugemap_pmd_fault(vmf) : VM_FAULT_FALLBACK;
}
#else
static vm_fault_t hugemap_huge_fault(struct vm_fault *vmf, enum page_entry_size size)
{
	return size == PE_SIZE_PMD ? hugemap_pmd_fault(vmf) : VM_FAULT_FALLBACK;
}
#endif

static const struct vm_operations_struct hugemap_vm_ops = {
	.fault = hugemap_fault,
	.huge_fault = hugemap_huge_fault,
	.map_pages = hugemap_map_pages,
	.page_mkwrite = hugemap_page_mkwrite,
};

int hugemap_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct hugemap_inode *hi = hugemap_inode(file_inode(file));

	if (vma->vm_flags & VM_SHARED && vma->vm_flags & VM_MAYWRITE &&
	    !smp_load_acquire(&hi->data->writer))
		return -EACCES;
	/* The VFS checks only the upper inode for a swap file. */
	if (vma->vm_flags & VM_SHARED && vma->vm_flags & VM_WRITE && hugemap_swaps_lower(hi))
		return -ETXTBSY;
	file_accessed(file);
	vma->vm_ops = &hugemap_vm_ops;
	return 0;
}
