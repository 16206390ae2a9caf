// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* folio_mapcount() of a large folio counts PTEs and PMDs in one field, since 6.10. */
#include <linux/mm.h>

int probe(struct folio *folio);
int probe(struct folio *folio)
{
	return atomic_read(&folio->_large_mapcount) == folio_mapcount(folio);
}
