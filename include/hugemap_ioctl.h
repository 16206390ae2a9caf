/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Requests on a file of a hugemap mount beyond madvise and posix_fadvise.
 *
 * HUGEMAP_IOC_PRIORITY sets the priority of a file. Units of a file of low priority are evicted
 * first, those of high priority only when nothing else is left (FastMap). The caller must own the
 * file or have opened it for writing. A high priority takes CAP_SYS_NICE or CAP_SYS_ADMIN, too.
 *
 * HUGEMAP_IOC_CACHED reports which pages of the file are cached.
 */
#ifndef HUGEMAP_IOCTL_H
#define HUGEMAP_IOCTL_H

#include <linux/ioctl.h>
#include <linux/types.h>

/* statfs(2) and statmount(2) report this type for a hugemap mount: "HUGE" in ASCII. */
#define HUGEMAP_SUPER_MAGIC 0x48554745

#define HUGEMAP_IOC_PRIORITY _IOW(0xb2, 1, __s32) /* -1 low, 0 as the mount, 1 high */

/* How a part of a file is cached, in pages of 4 KB. */
struct hugemap_cell {
	__u32 pages; /* pages of the file in this cell */
	__u32 huge; /* cached, in units of 2 MB */
	__u32 base; /* cached, in pages of 4 KB */
	__u32 dirty; /* of both, not written yet */
};

/*
 * Which pages of a file are cached, and how. As with mincore(2), the caller must own the file or
 * have the right to write it (else EPERM), and the cells show the state at the time of the call.
 * The call counts as no access.
 */
struct hugemap_cached {
	__u64 offset; /* in the file, in bytes; a multiple of 2 MB */
	__u64 cell; /* bytes of the file that a cell covers: a multiple of 2 MB, 8 TB at most */
	__u64 cells; /* address of an array of struct hugemap_cell */
	__u32 count; /* in: cells in the array, 65536 at most; out: cells that lie in the file */
	__u32 zero;
};

#define HUGEMAP_IOC_CACHED _IOWR(0xb2, 2, struct hugemap_cached)

#endif /* HUGEMAP_IOCTL_H */
