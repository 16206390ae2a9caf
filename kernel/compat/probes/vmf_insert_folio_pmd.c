// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* vmf_insert_folio_pmd() maps a folio with one PMD, since 6.16. */
#include <linux/mm.h>

vm_fault_t probe(struct vm_fault *vmf, struct folio *folio)
{
	return vmf_insert_folio_pmd(vmf, folio, true);
}
