// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* pmd_mkwrite() takes a VMA and pmd_mkwrite_novma() does not, since 6.6. */
#include <linux/mm.h>

pmd_t probe(pmd_t pmd)
{
	return pmd_mkwrite_novma(pmd);
}
