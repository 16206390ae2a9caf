/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* access.c: describe accesses for the cache core. */
#ifndef HUGEMAP_DATA_ACCESS_H
#define HUGEMAP_DATA_ACCESS_H

#include "data.h"

/* How a file is accessed: by the options of the mount, its priority and fadvise(2). */
struct hm_access hugemap_access(const struct file *file);
/* How a mapping is accessed: madvise(2) of the range overrides fadvise(2) of the file. */
struct hm_access hugemap_access_in(const struct vm_area_struct *vma);

/*
 * Describe a store to @npages of a cached unit. Its folio is locked. The store fails if its blocks
 * are not reserved, and during a write-back for which the pages must be stable.
 */
static inline struct hm_access hugemap_store_access(const struct hugemap_inode *hi, size_t npages)
{
	struct hm_access access = HM_ACCESS(.write = true, .cached_only = true, .again = true,
					    .allocated_only = true, .stable = hi->data->stable);

	if (hugemap_of(hi)->opts.page == HUGEMAP_PAGE_AUTO)
		access.npages = npages;
	return access;
}

#endif /* HUGEMAP_DATA_ACCESS_H */
