/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * /proc/self/pagemap: is a page there? Unlike mincore(), it tells a page that was
 * swapped out from one that is gone. See pagemap in the kernel's admin guide.
 */
#ifndef HM_PAGEMAP_H
#define HM_PAGEMAP_H

#include "cache.h"

#define PAGEMAP_PRESENT (1ull << 63)
#define PAGEMAP_SWAPPED (1ull << 62)

/* Where the entry of an address is; one of 8 bytes for each page. */
static inline u64 pagemap_offset(const char *addr)
{
	return (u64)((uintptr_t)addr >> HM_PAGE_SHIFT) * 8;
}

static inline bool pagemap_all_there(const u64 *entries, u32 n)
{
	u32 i;

	for (i = 0; i < n; i++)
		if (!(entries[i] & (PAGEMAP_PRESENT | PAGEMAP_SWAPPED)))
			return false;
	return true;
}

#endif /* HM_PAGEMAP_H */
