// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * A fault must not hold mmap_lock or the VMA lock while it waits for a fill, because the lower file
 * system may hold its own locks and fault on a mapping of this one. mm drops the lock in
 * maybe_unlock_mmap_for_io(), which only mm/filemap.c can call. An export of that function would
 * replace this file.
 */
#include <linux/file.h>
#include <linux/mm.h>

#include "mm.h"

/*
 * Drop the fault lock of a fault that has FAULT_FLAG_ALLOW_RETRY. The VMA must not be used
 * afterwards, and the fault returns VM_FAULT_RETRY. Return the file of the VMA with a reference,
 * which the caller puts.
 */
struct file *hugemap_mm_unlock_fault(struct vm_fault *vmf)
{
	struct file *file = get_file(vmf->vma->vm_file);

	hugemap_release_fault_lock(vmf);
	return file;
}
