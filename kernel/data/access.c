// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Describe accesses for the cache core: their page size, priority and pattern. These come from the
 * mount, the file and the advice of the program.
 */
#include <linux/fs.h>
#include <linux/mm.h>

#include "access.h"

struct hm_access hugemap_access(const struct file *file)
{
	static const enum hm_size size_of[] = {
		[HUGEMAP_PAGE_2M] = HM_SIZE_HUGE,
		[HUGEMAP_PAGE_4K] = HM_SIZE_BASE,
		[HUGEMAP_PAGE_AUTO] = HM_SIZE_AUTO,
	};
	const struct hugemap_inode *hi = hugemap_inode(file_inode(file));
	const struct hugemap_file *private = file->private_data;
	const struct hugemap_mount *mount = hugemap_mount(hi->vfs_inode.i_sb);
	int priority = READ_ONCE(hi->data->priority);
	struct hm_access access = HM_ACCESS(.size = size_of[mount->opts.page]);

	if (!priority)
		priority = mount->opts.priority;
	if (priority)
		access.priority = priority > 0 ? HM_PRIORITY_HIGH : HM_PRIORITY_LOW;
	if (file->f_mode & FMODE_RANDOM)
		access.order = HM_ORDER_RANDOM;
	else if (READ_ONCE(private->sequential))
		access.order = HM_ORDER_SEQUENTIAL;
	return access;
}

struct hm_access hugemap_access_in(const struct vm_area_struct *vma)
{
	struct hm_access access = hugemap_access(vma->vm_file);

	if (likely(!(vma->vm_flags & (VM_SEQ_READ | VM_RAND_READ | VM_HUGEPAGE | VM_NOHUGEPAGE))))
		return access;
	if (vma->vm_flags & (VM_SEQ_READ | VM_RAND_READ))
		access.order = vma->vm_flags & VM_SEQ_READ ? HM_ORDER_SEQUENTIAL : HM_ORDER_RANDOM;
	/* madvise(2) cannot change the page size if the mount has only one. */
	if (access.size == HM_SIZE_AUTO) {
		if (vma->vm_flags & VM_NOHUGEPAGE)
			access.size = HM_SIZE_BASE;
		else if (vma->vm_flags & VM_HUGEPAGE)
			access.promote = true;
	}
	return access;
}
