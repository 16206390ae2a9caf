// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* release_fault_lock() releases mmap_lock or the VMA lock, since 6.4. */
#include <linux/mm.h>

void probe(struct vm_fault *vmf)
{
	release_fault_lock(vmf);
}
