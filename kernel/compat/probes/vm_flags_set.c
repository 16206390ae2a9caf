// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* vm_flags_set() sets flags of a VMA, since 6.3. */
#include <linux/mm.h>

void probe(struct vm_area_struct *vma);
void probe(struct vm_area_struct *vma)
{
	vm_flags_set(vma, VM_DONTCOPY);
}
