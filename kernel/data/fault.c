// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Faults of mappings. A unit that is cached is found without a lock of ours and
 * mapped by the core of mm: a PMD-order folio with one PMD. One that is not is
 * brought in with the fault lock dropped, and the fault comes back for it.
 *
 *   hugemap_fault()         nothing is mapped: find or bring in, return the page
 *   hugemap_page_mkwrite()  first store to a page: the unit becomes dirty
 *   hugemap_huge_fault()    first store to a PMD that is there: allow it in place
 *   hugemap_map_pages()     a read fault: map what is cached around it
 */
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/hash.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/sched/clock.h>

#include "data.h"
#include "trace.h"

/*
 * What a fault waits for: the page; for a store, that nobody changes the file
 * below, room there, and where pages are stable, the end of a write-back.
 */
static int fault_provide(struct hugemap_inode *hi, u64 pgoff, u64 stores, struct hm_access access)
{
	struct address_space *mapping = hi->vfs_inode.i_mapping;
	struct hm_unit unit;
	int err = hugemap_fill_page(hi, pgoff, access);

	if (!err && stores)
		err = hugemap_wait_stable(hi, pgoff);
	hugemap_race_point("fault: brought in, no room below");
	if (err || !stores)
		return err;
	if (!hm_needs_alloc(hi->hfile, pgoff)) {
		if (down_read_killable(&mapping->invalidate_lock))
			return -EINTR;
		filemap_invalidate_unlock_shared(mapping);
		return 0;
	}
	hm_peek(hi->hfile, pgoff, &unit);
	return hugemap_reserve(hi, unit.pgoff, unit.npages);
}

/* Will hugemap_page_mkwrite() let a store happen, as far as can be seen? */
static bool fault_may_store(struct hugemap_inode *hi, u64 pgoff)
{
	struct address_space *mapping = hi->vfs_inode.i_mapping;

	if (hm_needs_alloc(hi->hfile, pgoff) || hugemap_stable_write_pending(hi, pgoff) ||
	    !filemap_invalidate_trylock_shared(mapping))
		return false;
	filemap_invalidate_unlock_shared(mapping);
	return true;
}

/*
 * An error without the fault lock is told by the fault that comes back for it:
 * what this task's last one met is kept until then. Another task's may take its
 * place; the fault that comes back tries once more, then.
 */
static void fault_keep_error(struct hugemap_mount *mount, u64 pgoff, int err)
{
	struct hugemap_fault_error *kept = &mount->fault_error[hash_ptr(current, 6)];

	BUILD_BUG_ON(ARRAY_SIZE(mount->fault_error) != 1 << 6);
	/* Nobody else makes it this task's. */
	if (!err && READ_ONCE(kept->task) != current)
		return;
	spin_lock(&mount->fault_error_lock);
	if (err || kept->task == current)
		*kept = (struct hugemap_fault_error){ err ? current : NULL, pgoff, err };
	spin_unlock(&mount->fault_error_lock);
}

static int fault_kept_error(struct hugemap_mount *mount, u64 pgoff)
{
	struct hugemap_fault_error *kept = &mount->fault_error[hash_ptr(current, 6)];
	int err = 0;

	spin_lock(&mount->fault_error_lock);
	if (kept->task == current && kept->pgoff == pgoff) {
		err = kept->err;
		kept->task = NULL;
	}
	spin_unlock(&mount->fault_error_lock);
	return err;
}

/*
 * A fault of the kernel's own, by GUP or in a copy, may have come with locks of the
 * lower file system, that of the very file that it is about: none is waited for here.
 */
static int fault_wait(const struct vm_fault *vmf, struct hugemap_inode *hi, u64 pgoff, bool store,
		      struct hm_access access)
{
	int err;

	if (vmf->flags & FAULT_FLAG_USER)
		err = fault_provide(hi, pgoff, store, access);
	else
		err = hugemap_by_worker(hi, fault_provide, pgoff, store, access);
	/* A signal that the program handles: it faults again. */
	return err == -EINTR || err == -ERESTARTSYS ? -EINTR : err;
}

static struct hm_access fault_access(const struct vm_fault *vmf)
{
	struct hm_access access = hugemap_access_in(vmf->vma);

	/* It comes back after the page was brought in for it. */
	access.again = !!(vmf->flags & FAULT_FLAG_TRIED);
	return access;
}

/* The same, for the read-ahead and the write-behind of a stream that stores. */
static struct hm_access fault_store_access(const struct vm_fault *vmf)
{
	struct hm_access access = fault_access(vmf);

	access.write = true;
	return access;
}

/*
 * Have the page there. VM_FAULT_RETRY: tried without the fault lock, which the
 * lower file system may need: see the order of locks. 0: with it, for the few
 * that cannot let go of it.
 */
static vm_fault_t fault_fill(struct vm_fault *vmf, bool again, bool store, u64 started)
{
	struct hugemap_inode *hi = hugemap_inode(file_inode(vmf->vma->vm_file));
	struct hugemap_mount *mount = hugemap_of(hi);
	struct hm_access access = fault_access(vmf);
	pgoff_t pgoff = vmf->pgoff;
	struct file *file;
	int err = 0;

	access.again |= again;
	if (vmf->flags & FAULT_FLAG_ALLOW_RETRY) {
		if (vmf->flags & FAULT_FLAG_RETRY_NOWAIT)
			return VM_FAULT_RETRY;
		if (vmf->flags & FAULT_FLAG_TRIED)
			err = fault_kept_error(mount, pgoff);
		if (!err) {
			file = hugemap_mm_unlock_fault(vmf);
			err = fault_wait(vmf, hi, pgoff, store, access);
			fault_keep_error(mount, pgoff, err == -EINTR ? 0 : err);
			/* It may be all that keeps the mount, if somebody has unmapped. */
			hm_hist_record(mount->fault_ns, local_clock() - started);
			fput(file);
			return VM_FAULT_RETRY | VM_FAULT_MAJOR;
		}
	} else {
		err = fault_wait(vmf, hi, pgoff, store, access);
		/* Whoever does not look at signals would come again and again: an error, then. */
		if (err == -EINTR && !fatal_signal_pending(current))
			return VM_FAULT_NOPAGE;
	}
	/*
	 * SIGBUS for all errors, as Linux has it for ENOSPC. -ENOMEM: the pool is
	 * full of what can be neither written nor evicted, and VM_FAULT_OOM would
	 * have somebody killed who is not to blame.
	 */
	return err ? VM_FAULT_SIGBUS : 0;
}

/* As far as a unit that is cached has to know of it. */
static struct hm_access fault_hit_access(const struct vm_fault *vmf,
					 const struct hugemap_mount *mount)
{
	if (mount->opts.page == HUGEMAP_PAGE_AUTO)
		return fault_access(vmf);
	return HM_ACCESS(.again = !!(vmf->flags & FAULT_FLAG_TRIED));
}

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
			if (!store || fault_may_store(hi, vmf->pgoff))
				break;
			folio_unlock(folio);
			folio_put(folio);
		}
		if (!started)
			started = local_clock();
		ret = fault_fill(vmf, access.again, store, started);
		if (ret)
			return ret;
		access.again = true;
	}
	if (unlikely(vmf->pgoff >= hugemap_pages(i_size_read(inode)))) {
		folio_unlock(folio);
		folio_put(folio);
		return VM_FAULT_SIGBUS;
	}
	/* Where there is a page table, mm maps a huge folio by it, too. */
	hugemap_count(mount,
		      unit.npages > 1 && pmd_none(*vmf->pmd) ? HUGEMAP_C_HUGE_MAPPED :
							       HUGEMAP_C_BASE_MAPPED,
		      1);
	trace_hugemap_fault(inode, vmf->pgoff, unit.npages, vmf->flags & FAULT_FLAG_WRITE);
	if (started)
		hm_hist_record(mount->fault_ns, local_clock() - started);
	vmf->page = folio_page(folio, vmf->pgoff - folio->index);
	return VM_FAULT_LOCKED;
}

/*
 * The unit of a locked folio is being stored to. False: it is claimed for
 * eviction, which cannot succeed, so look again soon; or it has to stay as it is.
 */
static bool fault_make_dirty(struct vm_fault *vmf, struct hugemap_inode *hi, struct folio *folio,
			     struct hm_unit *unit)
{
	/* What is locked in memory stays mapped: mm would forget the lock with the entry. */
	bool part = HUGEMAP_MAPS_PARTS && !(vmf->vma->vm_flags & VM_LOCKED);
	struct hm_access access = hugemap_store_access(hi, part);

	/* Write-back protects under this lock: a unit dirtied before it may be clean by now. */
	WARN_ON_ONCE(!folio_test_locked(folio));
	hugemap_race_point("first store: locked, not dirty");
	if (hugemap_stable_write_pending(hi, vmf->pgoff) ||
	    hm_fault(hi->hfile, vmf->pgoff, access, unit) != HM_HIT)
		return false;
	hugemap_race_point("first store: dirty, no flag");
	/* mm will tell hugemap_dirty_folio() what is known by now. */
	folio_test_set_dirty(folio);
	hugemap_take_hints(hi, unit);
	return true;
}

/* By chattr(1) or swapon(8), since it was opened: write-back would be refused. */
static bool fault_is_immutable(const struct hugemap_inode *hi)
{
	return hi->lower && (IS_IMMUTABLE(hi->lower) || hugemap_swaps_lower(hi));
}

/*
 * mm maps the page, or all of the block where no page table is. Of a unit that is dirty in
 * parts, a page is all that may be stored to.
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
 * Nothing is mapped at the page, but a page table is there, and what is dirty is the whole block:
 * then a fault for each of its pages would tell nothing. But where pages are stable, the
 * next write-back must not find some that may be stored to.
 */
static bool fault_may_map_around(const struct vm_fault *vmf, const struct hugemap_inode *hi,
				 const struct hm_unit *unit)
{
	return unit->npages > 1 && !(unit->hints & HM_HINT_PARTIAL) && !hi->stable &&
	       hugemap_mm_may_map_around(vmf);
}

/*
 * The folio is locked, and its unit dirty; mm will lock it itself. Until what may be stored to
 * is mapped, who writes the unit back leaves it dirty. True: the page is mapped; the folio is
 * not locked any more, either way.
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
	    hm_needs_alloc(hi->hfile, vmf->pgoff) || !fault_make_dirty(vmf, hi, folio, &unit) ||
	    !fault_may_map(vmf, hi, &unit)) {
		folio_unlock(folio);
		goto out;
	}
	hugemap_race_point("first store: dirty, not writable");
	ahead |= unit.hints & HM_HINT_READAHEAD;
	ret = VM_FAULT_LOCKED;
	if (!tried && fault_may_map_around(vmf, hi, &unit)) {
		tried = true;
		ret = VM_FAULT_NOPAGE;
		/* Somebody else had the lock just then: this page, as ever. */
		if (!fault_map_around(vmf, hi, folio))
			goto lock;
		mapped = true;
	}
out:
	filemap_invalidate_unlock_shared(mapping);
again:
	sb_end_pagefault(inode->i_sb);
	if (ret == VM_FAULT_NOPAGE && !mapped)
		/* hugemap_fault() can drop the fault lock and wait: have it called. */
		unmap_mapping_pages(mapping, vmf->pgoff, 1, false);
	if (ahead)
		hugemap_queue_ahead(hi, unit.pgoff, fault_store_access(vmf));
	return ret;
}

static vm_fault_t fault_upgrade_fault(struct vm_fault *vmf)
{
	struct inode *inode = file_inode(vmf->vma->vm_file);
	struct hugemap_inode *hi = hugemap_inode(inode);
	struct address_space *mapping = inode->i_mapping;
	vm_fault_t ret = VM_FAULT_FALLBACK;
	struct hm_unit unit = {};
	struct folio *folio = NULL;

	/* A freeze is waited for without the lock, for which its sync may have to wait. */
	sb_start_pagefault(inode->i_sb);
	/* What may sleep for long, or is refused, is left to hugemap_page_mkwrite(). */
	if (!filemap_invalidate_trylock_shared(mapping))
		goto out;
	if (fault_is_immutable(hi))
		goto unlock;
	file_update_time(vmf->vma->vm_file);
	folio = hugemap_mm_mapped_folio(vmf);
	if (folio) {
		folio_lock(folio);
		if (hugemap_folio_is(hi, folio, vmf->pgoff) &&
		    !hm_needs_alloc(hi->hfile, vmf->pgoff) &&
		    fault_make_dirty(vmf, hi, folio, &unit) &&
		    /* Else mm takes the PMD away, and comes to hugemap_page_mkwrite(). */
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
out:
	sb_end_pagefault(inode->i_sb);
	if (folio && unit.hints & HM_HINT_READAHEAD)
		hugemap_queue_ahead(hi, vmf->pgoff, fault_store_access(vmf));
	return ret;
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

/* Nothing is mapped, it is a read, and the unit is cached: the short way. */
static vm_fault_t fault_insert_fault(struct vm_fault *vmf)
{
	struct inode *inode = file_inode(vmf->vma->vm_file);
	struct hugemap_inode *hi = hugemap_inode(inode);
	u64 first = vmf->pgoff, last = vmf->pgoff;
	vm_fault_t ret = VM_FAULT_FALLBACK;
	struct hm_unit unit;
	struct folio *folio;

	if (vmf->flags & FAULT_FLAG_WRITE || !fault_fits(vmf) ||
	    !hm_fault_around(hi->hfile, vmf->pgoff, &first, &last, &unit))
		return VM_FAULT_FALLBACK;
	if (unit.npages == 1)
		return VM_FAULT_FALLBACK;
	folio = hugemap_unit_folio(hi, &unit);
	if (!folio)
		return VM_FAULT_FALLBACK;
	if (folio_trylock(folio)) {
		if (hugemap_folio_is(hi, folio, vmf->pgoff) &&
		    vmf->pgoff < hugemap_pages(i_size_read(inode))) {
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

static vm_fault_t hugemap_pmd_fault(struct vm_fault *vmf)
{
	if (!(vmf->vma->vm_flags & VM_SHARED) && vmf->flags & FAULT_FLAG_WRITE)
		return VM_FAULT_FALLBACK;
	if (pmd_trans_huge(vmf->orig_pmd) && vmf->flags & FAULT_FLAG_WRITE)
		return fault_upgrade_fault(vmf);
#ifdef HUGEMAP_HAVE_VMF_INSERT_FOLIO_PMD
	if (pmd_none(vmf->orig_pmd))
		return fault_insert_fault(vmf);
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

/* Base pages that one fault of a sequential reader maps, at most. */
#define AROUND_PAGES 256u

/*
 * Which base pages around a fault to map? mm asks for @first to @last, the same for
 * all. Where a file is read in order, the next fault comes right behind what this
 * one maps, and each is worth twice as many: what an exception costs is shared by
 * more pages. Not out of what one page table maps, nor out of the VMA.
 */
static void fault_widen(struct vm_fault *vmf, u64 *first, u64 *last)
{
	struct vm_area_struct *vma = vmf->vma;
	struct file_ra_state *around = &vma->vm_file->f_ra;
	u64 table_end = vmf->pgoff + ((~vmf->address & ~PMD_MASK) >> PAGE_SHIFT);
	u64 vma_end = vma->vm_pgoff + vma_pages(vma) - 1;
	u32 n = *last - vmf->pgoff + 1;

	/* A hint: threads that share the file may write over each other's. */
	if (READ_ONCE(around->start) == vmf->pgoff && !(vma->vm_flags & VM_RAND_READ)) {
		n = clamp(2 * READ_ONCE(around->size), n, AROUND_PAGES);
		*first = vmf->pgoff;
		*last = min3(vmf->pgoff + n - 1, table_end, vma_end);
	}
	WRITE_ONCE(around->size, n);
}

/*
 * Map what is cached around a read fault, from i_pages. Each unit counts as
 * touched, and a read-ahead marker is left for a fault of its own. Under RCU.
 */
static vm_fault_t hugemap_map_pages(struct vm_fault *vmf, pgoff_t start, pgoff_t end)
{
	struct inode *inode = file_inode(vmf->vma->vm_file);
	struct hugemap_inode *hi = hugemap_inode(inode);
	u64 first = start, last = end;
	struct hm_unit unit;
	vm_fault_t ret;

	fault_widen(vmf, &first, &last);
	if (!hm_fault_around(hi->hfile, vmf->pgoff, &first, &last, &unit))
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

static const struct vm_operations_struct hugemap_vm_ops = {
	.fault = hugemap_fault,
	.huge_fault = hugemap_huge_fault,
	.map_pages = hugemap_map_pages,
	.page_mkwrite = hugemap_page_mkwrite,
};

int hugemap_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct hugemap_inode *hi = hugemap_inode(file_inode(file));

	if (!smp_load_acquire(&hi->hfile))
		return -ENODEV;
	if (vma->vm_flags & VM_SHARED && vma->vm_flags & VM_MAYWRITE &&
	    !smp_load_acquire(&hi->writer))
		return -EACCES;
	/* The VFS makes this check for a swap file, but only of the upper inode. */
	if (vma->vm_flags & VM_SHARED && vma->vm_flags & VM_WRITE && hugemap_swaps_lower(hi))
		return -ETXTBSY;
	file_accessed(file);
	vma->vm_ops = &hugemap_vm_ops;
	return 0;
}
