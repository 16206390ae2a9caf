// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * ->huge_fault() takes an order in place of an enum, since 6.6. The compiler accepts one for the
 * other, so this probe redefines the enum, which fails while the kernel has it.
 */
#include <linux/mm.h>

enum page_entry_size {
	NO_SUCH_ENUM_YET,
};

vm_fault_t probe(struct vm_fault *vmf, unsigned int order)
{
	return vmf->vma->vm_ops->huge_fault(vmf, order);
}
