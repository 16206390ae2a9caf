// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * What mm asks of a file's pages, beside faults.
 */
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/pagemap.h>

#include "aops.h"
#include "writeback.h"

/*
 * Somebody in the kernel wants a page that is not cached, and has put a folio of their own
 * into i_pages: a build id for a profiler (6.12 to 6.18 look for nothing else before they
 * call), a uprobe, swapon(2). Only folios of the pool may stay there.
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
