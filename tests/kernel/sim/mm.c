// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Page tables, faults and rmap: see mm.h. */
#include "world.h"

struct mm_struct *mms[MAX_MMS];
static struct mm_struct spaces[MAX_MMS];

void mm_forget(void)
{
	memset(mms, 0, sizeof(mms));
}

/* --- page tables ------------------------------------------------------------ */

static u32 page_nr(unsigned long address)
{
	return (u32)(address >> PAGE_SHIFT);
}

static pmd_t *pmd_of(struct mm_struct *mm, unsigned long address)
{
	return &mm->pmd[page_nr(address) / HM_BLOCK_PAGES];
}

static struct vm_area_struct *find_vma(struct mm_struct *mm, unsigned long address)
{
	struct vm_area_struct *vma = &mm->vma[page_nr(address) / VMA_PAGES];

	return vma->used && address >= vma->vm_start && address < vma->vm_end ? vma : NULL;
}

static u64 file_page(const struct vm_area_struct *vma, unsigned long address)
{
	return vma->vm_pgoff + ((address - vma->vm_start) >> PAGE_SHIFT);
}

/* Does the VMA cover the whole block around an address, with huge page alignment? */
static bool fits_huge(const struct vm_area_struct *vma, unsigned long address)
{
	unsigned long start = address & PMD_MASK;

	return start >= vma->vm_start && start + PMD_SIZE <= vma->vm_end &&
	       file_page(vma, start) % HM_BLOCK_PAGES == 0;
}

/* The caller holds mm->ptl. */
static void map_huge(pmd_t *pmd, struct folio *folio, bool write)
{
	folio_get(folio);
	folio->mapcount++;
	*pmd = (pmd_t){ .folio = folio, .write = write, .dirty = write };
}

static void map_page(struct mm_struct *mm, unsigned long address, struct page *page, bool write)
{
	folio_get(page->folio);
	page->folio->mapcount++;
	pmd_of(mm, address)->table = true;
	mm->pte[page_nr(address)] = (struct pte){ page, write, write, false };
}

static void unmap(struct folio *folio, bool dirty)
{
	sim_check(folio->mapcount > 0, "a folio was unmapped more often than mapped");
	if (dirty)
		folio_mark_dirty(folio);
	folio->mapcount--;
	folio_put(folio);
}

static void zap_pmd(pmd_t *pmd)
{
	pmd_t old = *pmd;

	*pmd = (pmd_t){ 0 };
	unmap(old.folio, old.dirty);
}

static void zap_pte(struct pte *pte)
{
	struct pte old = *pte;

	*pte = (struct pte){ 0 };
	unmap(old.page->folio, old.dirty);
}

/*
 * Unmap a range. A huge page that overlaps it is unmapped whole; its other pages fault again.
 * @cows: remove private copies, too.
 */
static void zap_range(struct mm_struct *mm, unsigned long start, unsigned long end, bool cows)
{
	unsigned long at;

	for (at = start; at < end; at += PAGE_SIZE) {
		spin_lock(&mm->ptl);
		if (pmd_of(mm, at)->folio)
			zap_pmd(pmd_of(mm, at));
		else if (mm->pte[page_nr(at)].page && (cows || !mm->pte[page_nr(at)].copy))
			zap_pte(&mm->pte[page_nr(at)]);
		spin_unlock(&mm->ptl);
	}
}

/* Compute the part of a VMA that maps pages @first to @end of a file. False: there is none. */
static bool clip(const struct vm_area_struct *vma, const struct address_space *mapping, u64 first,
		 u64 end, unsigned long *start, unsigned long *stop)
{
	u64 last = vma->vm_pgoff + vma_pages(vma);

	if (!vma->used || vma->vm_file->f_mapping != mapping || end <= vma->vm_pgoff ||
	    first >= last)
		return false;
	*start = vma->vm_start + ((max(first, vma->vm_pgoff) - vma->vm_pgoff) << PAGE_SHIFT);
	*stop = vma->vm_start + ((min(end, last) - vma->vm_pgoff) << PAGE_SHIFT);
	return true;
}

/* Iterate over the VMAs of all processes. NULL: there is no such process. */
static struct vm_area_struct *any_vma(u32 i)
{
	struct mm_struct *mm = mms[i / MAX_VMAS];

	return mm ? &mm->vma[i % MAX_VMAS] : NULL;
}

void unmap_mapping_pages(struct address_space *mapping, pgoff_t first, pgoff_t nr, bool cows)
{
	u64 end = nr > U64_MAX - first ? U64_MAX : first + nr;
	unsigned long start, stop;
	u32 i;

	sim_check(!cows || first >= ((u64)mapping->host->i_size + PAGE_SIZE - 1) >> PAGE_SHIFT,
		  "private copies of page %llu, which is not beyond the end, were unmapped",
		  (unsigned long long)first);
	down_read(&mapping->i_mmap_rwsem);
	for (i = 0; i < MAX_MMS * MAX_VMAS; i++) {
		struct vm_area_struct *vma = any_vma(i);

		if (vma && clip(vma, mapping, first, end, &start, &stop))
			zap_range(vma->vm_mm, start, stop, cows);
	}
	up_read(&mapping->i_mmap_rwsem);
}

void unmap_mapping_range(struct address_space *mapping, loff_t start, loff_t length, int cows)
{
	/* As in Linux: the range is extended down to a page, and its length is rounded up. */
	u64 nr = ((u64)length + PAGE_SIZE - 1) >> PAGE_SHIFT;

	unmap_mapping_pages(mapping, (u64)start >> PAGE_SHIFT, nr ? nr : U64_MAX, cows);
}

int folio_mkclean(struct folio *folio)
{
	u64 first = folio->index, end = first + folio_nr_pages(folio);
	struct address_space *mapping = folio->mapping;
	unsigned long at, stop;
	int cleaned = 0;
	u32 i;

	sim_check(folio->lock.held, "folio_mkclean() without the folio lock");
	if (!mapping)
		return 0;
	down_read(&mapping->i_mmap_rwsem);
	for (i = 0; i < MAX_MMS * MAX_VMAS; i++) {
		struct vm_area_struct *vma = any_vma(i);

		if (!vma || !clip(vma, mapping, first, end, &at, &stop))
			continue;
		for (; at < stop; at += PAGE_SIZE) {
			struct mm_struct *mm = vma->vm_mm;
			pmd_t *pmd = pmd_of(mm, at);
			struct pte *pte = &mm->pte[page_nr(at)];

			spin_lock(&mm->ptl);
			if (pmd->folio == folio) {
				cleaned += pmd->write;
				pmd->write = pmd->dirty = false;
			} else if (pte->page && pte->page->folio == folio) {
				cleaned += pte->write;
				pte->write = pte->dirty = false;
			}
			spin_unlock(&mm->ptl);
		}
	}
	up_read(&mapping->i_mmap_rwsem);
	return cleaned;
}

unsigned long thp_get_unmapped_area(struct file *file, unsigned long address, unsigned long len,
				    unsigned long pgoff, unsigned long flags)
{
	sim_fail(__FILE__, __LINE__, "thp_get_unmapped_area() is not simulated");
}

/* --- faults ------------------------------------------------------------ */

/* kernel/mm/page_table.c calls this for one page without a function, to create a page table. */
int apply_to_page_range(struct mm_struct *mm, unsigned long address, unsigned long size,
			void *function, void *data)
{
	sim_step();
	if (w.running && sim_chance(w.s.alloc_error_percent))
		return -ENOMEM;
	spin_lock(&mm->ptl);
	if (pmd_none(*pmd_of(mm, address)))
		pmd_of(mm, address)->table = true;
	spin_unlock(&mm->ptl);
	return 0;
}

vm_fault_t vmf_insert_folio_pmd(struct vm_fault *vmf, struct folio *folio, bool write)
{
	spinlock_t *ptl = pmd_lock(vmf->vma->vm_mm, vmf->pmd);

	if (pmd_none(*vmf->pmd))
		map_huge(vmf->pmd, folio, write);
	spin_unlock(ptl);
	return VM_FAULT_NOPAGE;
}

/* Get a folio that fault-around may map. It is returned locked and with a reference. */
static struct folio *next_uptodate(struct address_space *mapping, u64 index)
{
	struct folio *folio = READ_ONCE(mapping->i_pages.slot[index]);

	if (!folio || folio_test_locked(folio) || !folio_try_get(folio))
		return NULL;
	if (folio != READ_ONCE(mapping->i_pages.slot[index]))
		goto put;
	if (!folio->uptodate || !folio_trylock(folio))
		goto put;
	if (folio->mapping == mapping && folio->uptodate &&
	    index < ((u64)i_size_read(mapping->host) + PAGE_SIZE - 1) >> PAGE_SHIFT)
		return folio;
	folio_unlock(folio);
put:
	folio_put(folio);
	return NULL;
}

vm_fault_t filemap_map_pages(struct vm_fault *vmf, pgoff_t first, pgoff_t last)
{
	struct vm_area_struct *vma = vmf->vma;
	struct mm_struct *mm = vma->vm_mm;
	bool write = vmf->flags & FAULT_FLAG_WRITE;
	vm_fault_t ret = 0;
	u64 index;

	for (index = first; index <= last && index < MAX_FILE_PAGES; index++) {
		unsigned long at = vma->vm_start + ((index - vma->vm_pgoff) << PAGE_SHIFT);
		struct folio *folio = next_uptodate(vma->vm_file->f_mapping, index);
		u64 end;

		if (!folio)
			continue;
		/* Linux before 6.12 may read i_size only once for all pages of a folio. */
		end = min(folio->index + folio_nr_pages(folio) - 1, (u64)last);
		spin_lock(&mm->ptl);
		if (folio->order && pmd_none(*vmf->pmd) && fits_huge(vma, at)) {
			map_huge(vmf->pmd, folio, write);
			ret = VM_FAULT_NOPAGE;
		}
		for (; !vmf->pmd->folio && index <= end; index++, at += PAGE_SIZE) {
			if (mm->pte[page_nr(at)].page)
				continue;
			map_page(mm, at, &folio->page[index - folio->index], write);
			if (index == vmf->pgoff)
				ret = VM_FAULT_NOPAGE;
		}
		spin_unlock(&mm->ptl);
		folio_unlock(folio);
		folio_put(folio);
		if (ret && pmd_trans_huge(*vmf->pmd))
			break;
		index = end;
	}
	return ret;
}

/*
 * Linux since 6.18: map all pages of a folio if no entry of them is in use, and they lie in one
 * page table, in the VMA and in the file. The caller holds mm->ptl.
 */
static bool map_whole(struct vm_fault *vmf, bool write)
{
	struct vm_area_struct *vma = vmf->vma;
	struct folio *folio = vmf->page->folio;
	u64 index = vmf->page - folio->page, n = folio_nr_pages(folio), i;
	unsigned long start = vmf->address - (index << PAGE_SHIFT);

	if (!w.s.maps || vmf->address < vma->vm_start + (index << PAGE_SHIFT) || n == 1 ||
	    start + (n << PAGE_SHIFT) > vma->vm_end || start % PMD_SIZE ||
	    (folio->index + n) << PAGE_SHIFT > (u64)i_size_read(vma->vm_file->f_mapping->host))
		return false;
	for (i = 0; i < n; i++)
		if (vma->vm_mm->pte[page_nr(start) + i].page)
			return false;
	for (i = 0; i < n; i++)
		map_page(vma->vm_mm, start + (i << PAGE_SHIFT), &folio->page[i], write);
	return true;
}

/* Map the locked page that ->fault() has returned. */
static vm_fault_t finish_fault(struct vm_fault *vmf, bool write)
{
	struct mm_struct *mm = vmf->vma->vm_mm;
	struct folio *folio = vmf->page->folio;
	vm_fault_t ret = 0;

	spin_lock(&mm->ptl);
	if (folio->order && pmd_none(*vmf->pmd) && fits_huge(vmf->vma, vmf->address))
		map_huge(vmf->pmd, folio, write);
	else if (vmf->pmd->folio || mm->pte[page_nr(vmf->address)].page)
		ret = VM_FAULT_NOPAGE;
	else if (!map_whole(vmf, write))
		map_page(mm, vmf->address, vmf->page, write);
	spin_unlock(&mm->ptl);
	return ret;
}

/* 0: the page is locked and may be mapped writable. */
static vm_fault_t do_page_mkwrite(struct vm_fault *vmf)
{
	struct folio *folio = vmf->page->folio;
	vm_fault_t ret;

	vmf->flags |= FAULT_FLAG_WRITE;
	ret = vmf->vma->vm_ops->page_mkwrite(vmf);
	if (ret & (VM_FAULT_SIGBUS | VM_FAULT_NOPAGE))
		return ret;
	if (ret & VM_FAULT_LOCKED)
		return 0;
	folio_lock(folio);
	if (folio->mapping)
		return 0;
	folio_unlock(folio);
	return VM_FAULT_NOPAGE;
}

static void dirty_and_put(struct folio *folio)
{
	folio_mark_dirty(folio);
	folio_unlock(folio);
	folio_put(folio);
}

static vm_fault_t do_read_fault(struct vm_fault *vmf)
{
	u64 table = vmf->pgoff - ((vmf->address & ~PMD_MASK) >> PAGE_SHIFT);
	u64 first =
		max(table + HM_BLOCK_PAGES, vmf->vma->vm_pgoff + HM_BLOCK_PAGES) - HM_BLOCK_PAGES;
	u64 last = min(table + HM_BLOCK_PAGES, vmf->vma->vm_pgoff + vma_pages(vmf->vma)) - 1;
	vm_fault_t ret;

	rcu_read_lock();
	ret = vmf->vma->vm_ops->map_pages(vmf, first, last);
	rcu_read_unlock();
	if (ret)
		return ret;
	ret = vmf->vma->vm_ops->fault(vmf);
	if (!(ret & VM_FAULT_LOCKED))
		return ret;
	ret = finish_fault(vmf, false);
	folio_unlock(vmf->page->folio);
	folio_put(vmf->page->folio);
	return ret;
}

static vm_fault_t do_shared_fault(struct vm_fault *vmf)
{
	vm_fault_t ret = vmf->vma->vm_ops->fault(vmf);
	struct folio *folio;

	if (!(ret & VM_FAULT_LOCKED))
		return ret;
	folio = vmf->page->folio;
	folio_unlock(folio);
	ret = do_page_mkwrite(vmf);
	if (ret) {
		folio_put(folio);
		return ret;
	}
	ret = finish_fault(vmf, true);
	if (!ret) {
		dirty_and_put(folio);
		return 0;
	}
	folio_unlock(folio);
	folio_put(folio);
	return ret;
}

/* A store to a read-only PTE of a shared mapping. */
static vm_fault_t wp_page_shared(struct vm_fault *vmf)
{
	struct mm_struct *mm = vmf->vma->vm_mm;
	struct pte *pte = &mm->pte[page_nr(vmf->address)], old;
	vm_fault_t ret = VM_FAULT_NOPAGE;
	struct folio *folio;

	spin_lock(&mm->ptl);
	old = *pte;
	if (!old.page || old.write) {
		spin_unlock(&mm->ptl);
		return 0;
	}
	folio = old.page->folio;
	folio_get(folio);
	spin_unlock(&mm->ptl);
	vmf->page = old.page;
	vmf->pte = pte;
	ret = do_page_mkwrite(vmf);
	if (ret) {
		folio_put(folio);
		return ret;
	}
	spin_lock(&mm->ptl);
	if (pte->page != old.page || pte->write) {
		spin_unlock(&mm->ptl);
		folio_unlock(folio);
		folio_put(folio);
		return VM_FAULT_NOPAGE;
	}
	pte->write = pte->dirty = true;
	spin_unlock(&mm->ptl);
	dirty_and_put(folio);
	return 0;
}

/* --- private mappings --------------------------------------------------------------- */

/* Other tasks may store to the page during the copy, through shared mappings. */
static void copy_page(struct page *copy, const struct page *from)
{
	const u64 *words = &from->folio->memory[(size_t)(from - from->folio->page) * WORDS];
	u32 i;

	for (i = 0; i < WORDS; i++) {
		folio_check_alive(from->folio);
		copy->folio->memory[i] = words[i];
		sim_step();
	}
}

/* The caller holds mm->ptl. */
static void map_copy(struct vm_fault *vmf, struct page *copy, u64 since, loff_t size)
{
	struct mm_struct *mm = vmf->vma->vm_mm;

	map_page(mm, vmf->address, copy, true);
	mm->pte[page_nr(vmf->address)].copy = true;
	memcpy(mm->copy[page_nr(vmf->address)], copy->folio->memory, PAGE_SIZE);
	model_copied(vmf->vma, vmf->pgoff, copy->folio->memory, since, size);
}

/* A store to an unmapped page of a private mapping. */
static vm_fault_t do_cow_fault(struct vm_fault *vmf)
{
	struct page *copy = alloc_pages_node(NUMA_NO_NODE, GFP_KERNEL, 0);
	struct mm_struct *mm = vmf->vma->vm_mm;
	vm_fault_t ret;
	loff_t size;
	u64 since;

	if (!copy)
		return VM_FAULT_NOPAGE;
	ret = vmf->vma->vm_ops->fault(vmf);
	if (ret & VM_FAULT_LOCKED) {
		since = sched_steps();
		size = model_size_of(vmf->vma);
		window_pass(1, "");
		copy_page(copy, vmf->page);
		spin_lock(&mm->ptl);
		if (!vmf->pmd->folio && !mm->pte[page_nr(vmf->address)].page)
			map_copy(vmf, copy, since, size);
		spin_unlock(&mm->ptl);
		folio_unlock(vmf->page->folio);
		folio_put(vmf->page->folio);
		ret = 0;
	}
	folio_put(copy->folio);
	return ret;
}

/* A store to a page of the file in a private mapping. */
static vm_fault_t wp_page_copy(struct vm_fault *vmf)
{
	struct page *copy = alloc_pages_node(NUMA_NO_NODE, GFP_KERNEL, 0);
	struct mm_struct *mm = vmf->vma->vm_mm;
	struct pte *pte = &mm->pte[page_nr(vmf->address)], old;
	loff_t size = model_size_of(vmf->vma);
	u64 since = sched_steps();

	if (!copy)
		return VM_FAULT_NOPAGE;
	spin_lock(&mm->ptl);
	old = *pte;
	if (old.page && !old.copy)
		folio_get(old.page->folio);
	spin_unlock(&mm->ptl);
	if (old.page && !old.copy) {
		copy_page(copy, old.page);
		spin_lock(&mm->ptl);
		if (pte->page == old.page) {
			zap_pte(pte);
			map_copy(vmf, copy, since, size);
		}
		spin_unlock(&mm->ptl);
		folio_put(old.page->folio);
	}
	folio_put(copy->folio);
	return 0;
}

u64 *mm_copy_word(struct mm_struct *mm, unsigned long address)
{
	u32 nr = page_nr(address);

	if (pmd_of(mm, address)->folio || !mm->pte[nr].copy)
		return NULL;
	return &mm->copy[nr][address % PAGE_SIZE / sizeof(u64)];
}

/* --- faults of all kinds ------------------------------------------------------------ */

static vm_fault_t handle_fault(struct vm_fault *vmf, bool write)
{
	struct vm_area_struct *vma = vmf->vma;
	struct mm_struct *mm = vma->vm_mm;
	bool shared = vma->vm_flags & VM_SHARED;
	vm_fault_t ret;

	vmf->orig_pmd = READ_ONCE(*vmf->pmd);
	if (pmd_none(vmf->orig_pmd) && fits_huge(vma, vmf->address)) {
		ret = vma->vm_ops->huge_fault(vmf, HM_BLOCK_ORDER);
		if (!(ret & VM_FAULT_FALLBACK))
			return ret;
	} else if (pmd_trans_huge(vmf->orig_pmd)) {
		if (!write || vmf->orig_pmd.write)
			return 0;
		ret = shared ? vma->vm_ops->huge_fault(vmf, HM_BLOCK_ORDER) : VM_FAULT_FALLBACK;
		if (!(ret & VM_FAULT_FALLBACK))
			return ret;
		spin_lock(&mm->ptl);
		if (vmf->pmd->folio)
			zap_pmd(vmf->pmd);
		spin_unlock(&mm->ptl);
	}
	if (READ_ONCE(mm->pte[page_nr(vmf->address)].page))
		return !write ? 0 : shared ? wp_page_shared(vmf) : wp_page_copy(vmf);
	if (!write)
		return do_read_fault(vmf);
	return shared ? do_shared_fault(vmf) : do_cow_fault(vmf);
}

int mm_fault(struct mm_struct *mm, unsigned long address, u32 flags)
{
	bool write = flags & FAULT_FLAG_WRITE;
	struct vm_fault vmf = { .flags = flags };
	vm_fault_t ret;

	for (;;) {
		struct vm_area_struct *vma;

		down_read(&mm->mmap_lock);
		vma = find_vma(mm, address);
		if (!vma || (write && !(vma->vm_flags & VM_WRITE))) {
			up_read(&mm->mmap_lock);
			return -EFAULT;
		}
		vmf.vma = vma;
		vmf.address = address & ~(PAGE_SIZE - 1);
		vmf.pgoff = file_page(vma, address);
		vmf.pmd = pmd_of(mm, address);
		ret = handle_fault(&vmf, write);
		if (!(ret & VM_FAULT_RETRY)) {
			up_read(&mm->mmap_lock);
			break;
		}
		if (fatal_signal_pending(current))
			return -EINTR;
		/* As in Linux: ->fault() should wait without mmap_lock in the first try only. */
		vmf.flags |= FAULT_FLAG_TRIED;
		if (!write)
			vmf.flags &= ~FAULT_FLAG_WRITE;
	}
	return ret & VM_FAULT_SIGBUS ? -EIO : 0;
}

/* --- for the actors ---------------------------------------------------------------- */

struct mm_struct *mm_new(void)
{
	u32 i;

	for (i = 0; i < MAX_MMS; i++) {
		if (mms[i])
			continue;
		memset(&spaces[i], 0, sizeof(spaces[i]));
		mms[i] = &spaces[i];
		return mms[i];
	}
	sim_fail(__FILE__, __LINE__, "too many processes");
}

static void unmap_locked(struct mm_struct *mm, u32 slot)
{
	struct vm_area_struct *vma = &mm->vma[slot];
	u32 i;

	if (!vma->used)
		return;
	zap_range(mm, vma->vm_start, vma->vm_end, true);
	for (i = slot * VMA_PAGES / HM_BLOCK_PAGES; i < (slot + 1) * VMA_PAGES / HM_BLOCK_PAGES;
	     i++)
		mm->pmd[i].table = false;
	down_write(&vma->vm_file->f_mapping->i_mmap_rwsem);
	if (vma->vm_flags & VM_SHARED)
		atomic_dec(&vma->vm_file->f_mapping->i_mmap_writable);
	vma->used = false;
	up_write(&vma->vm_file->f_mapping->i_mmap_rwsem);
}

int mm_map(struct mm_struct *mm, u32 slot, struct file *file, u64 pgoff, u32 npages, u32 skew,
	   unsigned long flags)
{
	struct vm_area_struct *vma = &mm->vma[slot];
	struct vm_area_struct new = {
		.vm_start = (slot * VMA_PAGES + (pgoff + skew) % HM_BLOCK_PAGES) << PAGE_SHIFT,
		.vm_flags = flags,
		.vm_pgoff = pgoff,
		.vm_file = file,
		.vm_mm = mm,
	};
	int err;

	new.vm_end = new.vm_start + ((unsigned long)npages << PAGE_SHIFT);
	err = file->f_op->mmap(file, &new);
	if (err)
		return err;
	down_write(&mm->mmap_lock);
	unmap_locked(mm, slot);
	down_write(&file->f_mapping->i_mmap_rwsem);
	*vma = new;
	vma->used = true;
	if (flags & VM_SHARED)
		atomic_inc(&file->f_mapping->i_mmap_writable);
	up_write(&file->f_mapping->i_mmap_rwsem);
	up_write(&mm->mmap_lock);
	return 0;
}

void mm_unmap(struct mm_struct *mm, u32 slot)
{
	down_write(&mm->mmap_lock);
	unmap_locked(mm, slot);
	up_write(&mm->mmap_lock);
}

void mm_unmap_file(const struct address_space *mapping)
{
	u32 i;

	for (i = 0; i < MAX_MMS * MAX_VMAS; i++) {
		const struct vm_area_struct *vma = any_vma(i);

		if (vma && vma->used && vma->vm_file->f_mapping == mapping)
			mm_unmap(vma->vm_mm, i % MAX_VMAS);
	}
}

u64 *mm_word(struct mm_struct *mm, unsigned long address, bool write)
{
	pmd_t *pmd = pmd_of(mm, address);
	struct pte *pte = &mm->pte[page_nr(address)];
	size_t at = address & ~PMD_MASK;
	struct folio *folio;

	sim_step();
	folio = pmd->folio;
	if (folio) {
		if (write && !pmd->write)
			return NULL;
		pmd->dirty |= write;
	} else {
		if (!pte->page || (write && !pte->write))
			return NULL;
		pte->dirty |= write;
		folio = pte->page->folio;
		at = (size_t)(pte->page - folio->page) * PAGE_SIZE + (address & (PAGE_SIZE - 1));
	}
	folio_check_alive(folio);
	return &folio->memory[at / sizeof(u64)];
}

static struct page *get_page(struct mm_struct *mm, unsigned long address, bool write, u32 pins)
{
	pmd_t *pmd = pmd_of(mm, address);
	struct pte *pte = &mm->pte[page_nr(address)];
	struct page *page = NULL;

	spin_lock(&mm->ptl);
	if (pmd->folio && (!write || pmd->write))
		page = &pmd->folio->page[(address & ~PMD_MASK) >> PAGE_SHIFT];
	else if (pte->page && (!write || pte->write))
		page = pte->page;
	if (page)
		page->folio->dma_pins += pins;
	if (page)
		folio_get(page->folio);
	spin_unlock(&mm->ptl);
	return page;
}

struct page *mm_pin(struct mm_struct *mm, unsigned long address, bool write)
{
	return get_page(mm, address, write, 1);
}

struct page *mm_get(struct mm_struct *mm, unsigned long address, bool write)
{
	return get_page(mm, address, write, 0);
}
