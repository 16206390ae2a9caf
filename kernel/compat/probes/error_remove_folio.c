// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* generic_error_remove_folio() takes a folio, since 6.8. */
#include <linux/mm.h>

int probe(struct address_space *mapping, struct folio *folio);
int probe(struct address_space *mapping, struct folio *folio)
{
	return generic_error_remove_folio(mapping, folio);
}
