// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* The address space operations: calls of mm for pages of a file, apart from faults. */
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/pagemap.h>

#include "aops.h"
#include "dirty.h"

/*
 * A kernel function wants a page that is not cached, and has put a folio of its own into i_pages:
 * the build id of a program (kernels 6.12 to 6.18 check nothing before that), a uprobe, swapon(2).
 * Only folios of the pool may stay in i_pages, so remove this one and fail.
 */
static int aops_refuse_folio(struct file *file, struct folio *folio)
{
	hugemap_remove_folio(folio->mapping, folio);
	folio_unlock(folio);
	return -EIO;
}

const struct address_space_operations hugemap_aops = {
	.dirty_folio = hugemap_dirty_folio,
	.read_folio = aops_refuse_folio,
};
