// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* What userfaultfd marks is one bit with one name, for stores or for all access (7.3). */
#include <linux/mm.h>

bool probe(pmd_t pmd)
{
	return pmd_uffd(pmd);
}
