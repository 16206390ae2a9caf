// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* userfaultfd uses one bit for tracking of stores and of all accesses, since 7.3. */
#include <linux/mm.h>

bool probe(pmd_t pmd)
{
	return pmd_uffd(pmd);
}
