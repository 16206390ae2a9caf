// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* ->huge_fault() is told the order, not an enum (6.6). */
#include <linux/mm.h>

static vm_fault_t huge_fault(struct vm_fault *vmf, unsigned int order)
{
	return VM_FAULT_FALLBACK;
}

const struct vm_operations_struct probe = { .huge_fault = huge_fault };
