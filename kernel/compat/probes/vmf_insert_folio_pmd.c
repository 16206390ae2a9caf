// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* A folio is mapped with one PMD from ->huge_fault() (6.16). */
#include <linux/mm.h>

vm_fault_t probe(struct vm_fault *vmf, struct folio *folio)
{
	return vmf_insert_folio_pmd(vmf, folio, true);
}
