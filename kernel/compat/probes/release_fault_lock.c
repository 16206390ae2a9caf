// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* One call drops whichever lock a fault holds (6.4). */
#include <linux/mm.h>

void probe(struct vm_fault *vmf)
{
	release_fault_lock(vmf);
}
