// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * A block that has become huge while programs have it mapped in base pages: its page
 * tables stay, even when nothing is mapped by them any more, and as long as they are
 * there mm maps base pages. So a thread of the mount makes the same mapping anew over
 * the block, in the program's place. The page table goes with the old one, mm merges the
 * new one with its neighbours, and the next touch maps the block by one PMD.
 *
 * Nobody must notice: what is mapped anew is looked at once more with mmap_lock held for
 * writing, in hugemap_get_unmapped_area(), before anything is unmapped. What the
 * program has said of a mapping would be forgotten: such a one stays as it is.
 */
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/kthread.h>
#include <linux/mempolicy.h>
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/rbtree.h>
#include <linux/sched/mm.h>

#include "data.h"

/* Mappings of one block that are looked for, and nodes that are looked at for them. */
#define MOST_MAPPINGS 16u
#define MOST_NODES 1024u
/* Of a lock that others have, a tick apart. */
#define LOCK_TRIES 4u

/* What mmap(2) by itself says of a shared mapping. */
#define PLAIN_FLAGS                                                                         \
	(VM_READ | VM_WRITE | VM_EXEC | VM_SHARED | VM_MAYREAD | VM_MAYWRITE | VM_MAYEXEC | \
	 VM_MAYSHARE | VM_SOFTDIRTY)

/* What madvise(2) says of what its pages are for. */
#define ADVICE_FLAGS (VM_HUGEPAGE | VM_NOHUGEPAGE | VM_SEQ_READ | VM_RAND_READ)

struct hugemap_remap {
	struct mm_struct *mm; /* its users are counted */
	struct file *file;
	unsigned long address;
	unsigned long prot;
};

static unsigned long prot_of(const struct vm_area_struct *vma)
{
	return (vma->vm_flags & VM_READ ? PROT_READ : 0) |
	       (vma->vm_flags & VM_WRITE ? PROT_WRITE : 0) |
	       (vma->vm_flags & VM_EXEC ? PROT_EXEC : 0);
}

/* Would the same mapping made anew be the same one? */
static bool is_plain(struct vm_area_struct *vma)
{
	return vma->vm_flags & VM_MAYSHARE && !(vma->vm_flags & ~PLAIN_FLAGS) && !vma_policy(vma) &&
	       !vma->vm_mm->def_flags;
}

u32 hugemap_access_by_caller(struct file *file, u64 first, u64 end)
{
	struct address_space *mapping = file_inode(file)->i_mapping;
	u32 access = hugemap_access(file), looked = 0;
	struct rb_node *node;

	if (!(access & HM_ACCESS_AUTO))
		return access;
	i_mmap_lock_read(mapping);
	for (node = rb_first_cached(&mapping->i_mmap); node && looked < MOST_NODES;
	     node = rb_next(node), looked++) {
		struct vm_area_struct *vma = rb_entry(node, struct vm_area_struct, shared.rb);

		if (vma->vm_mm == current->mm && vma->vm_flags & ADVICE_FLAGS &&
		    vma->vm_pgoff < end && first < vma->vm_pgoff + vma_pages(vma)) {
			access = hugemap_access_in(vma);
			break;
		}
	}
	i_mmap_unlock_read(mapping);
	return access;
}

/* Does it map all of a block, so that one PMD can? */
static bool maps_block(const struct vm_area_struct *vma, u64 pgoff, unsigned long *address)
{
	if (pgoff < vma->vm_pgoff ||
	    pgoff + HM_BLOCK_PAGES > vma->vm_pgoff + ((vma->vm_end - vma->vm_start) >> PAGE_SHIFT))
		return false;
	*address = vma->vm_start + ((pgoff - vma->vm_pgoff) << PAGE_SHIFT);
	return IS_ALIGNED(*address, PMD_SIZE);
}

/* What maps the block now, with references. */
static u32 find_mappings(struct address_space *mapping, u64 pgoff, struct hugemap_remap *found)
{
	struct rb_node *node;
	u32 n = 0, looked = 0;

	i_mmap_lock_read(mapping);
	for (node = rb_first_cached(&mapping->i_mmap); node && looked < MOST_NODES;
	     node = rb_next(node), looked++) {
		struct vm_area_struct *vma = rb_entry(node, struct vm_area_struct, shared.rb);
		unsigned long address;

		if (!maps_block(vma, pgoff, &address) || !is_plain(vma) ||
		    !mmget_not_zero(vma->vm_mm))
			continue;
		found[n++] = (struct hugemap_remap){ vma->vm_mm, get_file(vma->vm_file), address,
						     prot_of(vma) };
		if (n == MOST_MAPPINGS)
			break;
	}
	i_mmap_unlock_read(mapping);
	return n;
}

unsigned long hugemap_get_unmapped_area(struct file *file, unsigned long address, unsigned long len,
					unsigned long pgoff, unsigned long flags)
{
	const struct hugemap_mount *mount = hugemap_mount(file_inode(file)->i_sb);
	struct vm_area_struct *vma;
	unsigned long at;

	if (likely(current != READ_ONCE(mount->promoter)))
		return thp_get_unmapped_area(file, address, len, pgoff, flags);
	vma = find_vma(current->mm, address);
	if (!vma || vma->vm_file != file || !maps_block(vma, pgoff, &at) || at != address ||
	    !is_plain(vma) || prot_of(vma) != mount->remap_prot)
		return -EAGAIN;
	return address;
}

/*
 * A task may have the lock for as long as something below takes: nobody waits for it here,
 * but for the moment in between.
 */
static bool is_free(struct mm_struct *mm)
{
	u32 tries;

	for (tries = 0; tries < LOCK_TRIES; tries++) {
		if (!rwsem_is_locked(&mm->mmap_lock))
			return true;
		schedule_timeout_uninterruptible(1);
	}
	return false;
}

void hugemap_remap(struct hugemap_inode *hi, u64 pgoff)
{
	struct hugemap_mount *mount = hugemap_of(hi);
	struct hugemap_remap found[MOST_MAPPINGS];
	u32 n = find_mappings(hi->vfs_inode.i_mapping, pgoff, found), i;

	for (i = 0; i < n; i++) {
		const struct hugemap_remap *remap = &found[i];

		mount->remap_prot = remap->prot;
		if (is_free(remap->mm)) {
			unsigned long at;

			kthread_use_mm(remap->mm);
			at = vm_mmap(remap->file, remap->address, PMD_SIZE, remap->prot,
				     MAP_SHARED | MAP_FIXED, pgoff << PAGE_SHIFT);
			kthread_unuse_mm(remap->mm);
			/* Refused, it stays as it is. */
			hugemap_count(mount, HUGEMAP_C_REMAPPED, !IS_ERR_VALUE(at));
		}
		fput(remap->file);
		mmput(remap->mm);
	}
	/* Who unmounts as soon as a program has ended finds nothing open. */
	if (n)
		flush_delayed_fput();
}
