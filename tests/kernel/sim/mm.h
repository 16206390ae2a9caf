/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The model's address spaces: page tables of several processes with PMD- and PTE-mapped pages,
 * page faults in the order of mm/memory.c, and rmap.
 */
#ifndef SIM_KERNEL_MM_H
#define SIM_KERNEL_MM_H

#include "folio.h"

struct file;

/* --- processes ------------------------------------------------------------------------ */

#define MAX_VMAS 3u
#define MAX_MMS 4u
#define VMA_PAGES (MAX_FILE_PAGES + 2 * HM_BLOCK_PAGES) /* address space of each VMA */
#define MAX_FILE_PAGES 96u
#define MM_PAGES (MAX_VMAS * VMA_PAGES)

_Static_assert(VMA_PAGES % HM_BLOCK_PAGES == 0, "a PMD belongs to one VMA");

typedef struct {
	struct folio *folio; /* NULL: empty, or a page table */
	bool table, write, dirty;
} pmd_t;

struct pte {
	struct page *page; /* NULL: empty */
	bool write, dirty, copy; /* @copy: a private copy */
};

struct vm_operations_struct;

struct vm_area_struct {
	bool used;
	unsigned long vm_start, vm_end, vm_flags;
	u64 vm_pgoff;
	struct file *vm_file;
	struct mm_struct *vm_mm;
	const struct vm_operations_struct *vm_ops;
};

struct mm_struct {
	struct rw_semaphore mmap_lock;
	spinlock_t ptl; /* guards all its page tables */
	struct vm_area_struct vma[MAX_VMAS];
	pmd_t pmd[MM_PAGES / HM_BLOCK_PAGES];
	struct pte pte[MM_PAGES];
	u64 copy[MM_PAGES][WORDS]; /* expected contents of private copies */
};

#define VM_SHARED 1ul
#define VM_MAYWRITE 2ul
#define VM_WRITE 4ul
#define VM_SEQ_READ 8ul
#define VM_RAND_READ 16ul
#define VM_LOCKED 32ul
#define VM_HUGEPAGE 64ul
#define VM_NOHUGEPAGE 128ul
#define vma_pages(vma) (((vma)->vm_end - (vma)->vm_start) >> PAGE_SHIFT)

#define FAULT_FLAG_WRITE 1u
#define FAULT_FLAG_ALLOW_RETRY 2u
#define FAULT_FLAG_RETRY_NOWAIT 4u
#define FAULT_FLAG_TRIED 8u
#define FAULT_FLAG_USER 16u
#define VM_FAULT_SIGBUS 2u
#define VM_FAULT_MAJOR 4u
#define VM_FAULT_NOPAGE 0x100u
#define VM_FAULT_LOCKED 0x200u
#define VM_FAULT_RETRY 0x400u
#define VM_FAULT_FALLBACK 0x800u
typedef u32 vm_fault_t;

struct vm_fault {
	struct vm_area_struct *vma;
	u32 flags;
	pgoff_t pgoff;
	unsigned long address;
	pmd_t *pmd, orig_pmd;
	struct pte *pte; /* NULL: not mapped */
	struct page *page;
};

struct vm_operations_struct {
	vm_fault_t (*fault)(struct vm_fault *vmf);
	vm_fault_t (*huge_fault)(struct vm_fault *vmf, u32 order);
	vm_fault_t (*map_pages)(struct vm_fault *vmf, pgoff_t start, pgoff_t end);
	vm_fault_t (*page_mkwrite)(struct vm_fault *vmf);
};

static inline spinlock_t *pmd_lock(struct mm_struct *mm, pmd_t *pmd)
{
	(void)pmd;
	spin_lock(&mm->ptl);
	return &mm->ptl;
}

#define pmd_none(p) (!(p).folio && !(p).table)
#define pmd_trans_huge(p) (!!(p).folio)
#define pmd_pfn(p) folio_pfn((p).folio)
#define pmd_page(p) folio_page((p).folio, 0)
#define hugemap_pmd_uffd(p) false

static inline bool pmd_same(pmd_t a, pmd_t b)
{
	return a.folio == b.folio && a.table == b.table && a.write == b.write && a.dirty == b.dirty;
}

static inline pmd_t pmd_mkdirty(pmd_t pmd)
{
	pmd.dirty = true;
	return pmd;
}

#define pmd_mkyoung(p) (p)

static inline pmd_t hugemap_pmd_mkwrite(pmd_t pmd)
{
	pmd.write = true;
	return pmd;
}

#define set_pmd(at, value) (*(at) = (value))
#define HUGEMAP_TABLES_STAY true
#define userfaultfd_armed(vma) ((void)(vma), false)
#define memalloc_nofs_save() 0u
#define memalloc_nofs_restore(flags) ((void)(flags))
int apply_to_page_range(struct mm_struct *mm, unsigned long address, unsigned long size,
			void *function, void *data);
#define hugemap_release_fault_lock(vmf) up_read(&(vmf)->vma->vm_mm->mmap_lock)

vm_fault_t vmf_insert_folio_pmd(struct vm_fault *vmf, struct folio *folio, bool write);
vm_fault_t filemap_map_pages(struct vm_fault *vmf, pgoff_t first, pgoff_t last);
unsigned long thp_get_unmapped_area(struct file *file, unsigned long address, unsigned long len,
				    unsigned long pgoff, unsigned long flags);
void unmap_mapping_pages(struct address_space *mapping, pgoff_t start, pgoff_t nr, bool cows);
void unmap_mapping_range(struct address_space *mapping, loff_t start, loff_t length, int cows);
int folio_mkclean(struct folio *folio);

/* --- for the actors ------------------------------------------------------------------------ */

void mm_forget(void); /* drop all processes */
struct mm_struct *mm_new(void);
/* @skew: base pages by which the mapping is misaligned for huge pages. */
int mm_map(struct mm_struct *mm, u32 slot, struct file *file, u64 pgoff, u32 npages, u32 skew,
	   unsigned long flags);
void mm_unmap(struct mm_struct *mm, u32 slot);
void mm_unmap_file(const struct address_space *mapping); /* in all processes */

/*
 * Translate an address. NULL: the access faults. The caller must access the word before its next
 * step, as one instruction would.
 */
u64 *mm_word(struct mm_struct *mm, unsigned long address, bool write);
/* The expected value of a word in a private copy. NULL: the page belongs to the file. */
u64 *mm_copy_word(struct mm_struct *mm, unsigned long address);
/* 0: retry the access; -EFAULT: not mapped; -EIO: SIGBUS; -EINTR: a fatal signal. */
int mm_fault(struct mm_struct *mm, unsigned long address, u32 flags);
/* Get a reference to the mapped page. NULL: it is not mapped, or not writable. */
struct page *mm_get(struct mm_struct *mm, unsigned long address, bool write);
/* Pin the mapped page for a device. NULL: as for mm_get(). */
struct page *mm_pin(struct mm_struct *mm, unsigned long address, bool write);

extern struct mm_struct *mms[MAX_MMS];

#endif /* SIM_KERNEL_MM_H */
