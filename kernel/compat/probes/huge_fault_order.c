// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * ->huge_fault() is told the order, not an enum (6.6). The compiler takes one for
 * the other, so this tries whether the enum is gone.
 */
#include <linux/mm.h>

enum page_entry_size {
	NO_SUCH_ENUM_YET,
};

vm_fault_t probe(struct vm_fault *vmf, unsigned int order)
{
	return vmf->vma->vm_ops->huge_fault(vmf, order);
}
