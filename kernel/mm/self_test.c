// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The module needs to know how many pages of a huge folio mm maps for one store when a page table
 * is there: one, or, since 6.18, all of them (finish_fault()). mm has no function or flag that
 * states this, so this file maps a folio of its own, stores a byte, and counts the references of
 * the page table entries. A flag in the return value of ->page_mkwrite() that limits mm to the one
 * page would replace this file.
 */
#include <linux/anon_inodes.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/uaccess.h>

#include "mm.h"

/* Another task may hold a reference to the folio for a moment. */
#define COUNT_TRIES 3

static vm_fault_t self_test_fault(struct vm_fault *vmf)
{
	struct folio *folio = vmf->vma->vm_private_data;
	pgoff_t page = vmf->pgoff - folio->index;

	if (page >= folio_nr_pages(folio))
		return VM_FAULT_SIGBUS;
	folio_get(folio);
	folio_lock(folio);
	vmf->page = folio_page(folio, page);
	return VM_FAULT_LOCKED;
}

/* As hugemap_page_mkwrite() does it for a part of a huge unit. */
static vm_fault_t self_test_page_mkwrite(struct vm_fault *vmf)
{
	struct folio *folio = page_folio(vmf->page);

	folio_lock(folio);
	if (hugemap_mm_need_page_table(vmf))
		return VM_FAULT_LOCKED;
	folio_unlock(folio);
	return VM_FAULT_SIGBUS;
}

static const struct vm_operations_struct self_test_vm_ops = {
	.fault = self_test_fault,
	.page_mkwrite = self_test_page_mkwrite,
};

static int self_test_mmap(struct file *file, struct vm_area_struct *vma)
{
	vma->vm_private_data = file->private_data;
	vma->vm_ops = &self_test_vm_ops;
	/* Another thread of the process may call fork() or mremap() during the test. */
	hugemap_vm_flags_set(vma, VM_DONTCOPY | VM_DONTEXPAND);
	return 0;
}

static const struct file_operations self_test_operations = { .mmap = self_test_mmap };

/* Store to a page in the middle of the folio. Return the entries that then map it, or 0. */
static int self_test_store(struct file *file, struct folio *folio)
{
	/* The folio fills the first page table that the mapping has to itself. */
	unsigned long start = vm_mmap(file, 0, 2 * PMD_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
	unsigned long at = ALIGN(start, PMD_SIZE);
	int before = folio_ref_count(folio), entries = 0, tries;

	if (IS_ERR_VALUE(start))
		return 0;
	folio->index = (at - start) >> PAGE_SHIFT;
	if (!put_user(1, (char __user *)at + PMD_SIZE / 2)) {
		for (tries = 0; tries < COUNT_TRIES && entries != 1; tries++)
			entries = folio_ref_count(folio) - before;
	}
	vm_munmap(start, 2 * PMD_SIZE);
	return entries;
}

/*
 * Return true if a store maps one page of a huge folio. The caller has an address space. Return
 * false if the test fails for another reason.
 */
bool hugemap_mm_test_store(void)
{
	struct folio *folio;
	struct inode *inode;
	struct file *file;
	int entries = 0;

	/* With mlockall(MCL_FUTURE) mm would fault all pages in. */
	if (!current->mm || current->mm->def_flags & VM_LOCKED)
		return false;
	folio = __folio_alloc_node(GFP_KERNEL | __GFP_NOWARN, HUGEMAP_MM_BLOCK_ORDER,
				   numa_node_id());
	if (!folio)
		return false;
	file = anon_inode_getfile("[hugemap]", &self_test_operations, folio, O_RDWR);
	if (IS_ERR(file))
		goto free;
	/* mm maps no page beyond the end of the file, so the file needs a size of its own. */
	inode = alloc_anon_inode(file_inode(file)->i_sb);
	if (!IS_ERR(inode)) {
		i_size_write(inode, 2 * PMD_SIZE);
		file->f_mapping = inode->i_mapping;
		entries = self_test_store(file, folio);
		file->f_mapping = file_inode(file)->i_mapping;
		iput(inode);
	}
	/* The file may exist longer than this module, because fput() is deferred. */
	file->f_op = file_inode(file)->i_fop;
	fput(file);
free:
	folio_clear_dirty(folio);
	folio_put(folio);
	return entries == 1;
}
