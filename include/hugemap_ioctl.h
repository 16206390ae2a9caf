/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What a program may ask of a file on a hugemap mount beyond madvise and
 * posix_fadvise. Priorities: units of a file of low priority are evicted first,
 * those of high priority only when nothing else is left (FastMap). Who may write or
 * owns the file sets it; a high one takes CAP_SYS_NICE or CAP_SYS_ADMIN, too. And what is
 * cached of it, to be looked at.
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
	__u32 pages; /* of the file */
	__u32 huge; /* cached, in units of 2 MB */
	__u32 base; /* cached, in pages of 4 KB */
	__u32 dirty; /* of both, not written yet */
};

/*
 * Which pages of a file are cached, and how: as mincore(2), for who may write the file or owns
 * it (else EPERM), and as it was while it was looked at. Looking changes nothing.
 */
struct hugemap_cached {
	__u64 offset; /* in the file, in bytes; a multiple of 2 MB */
	__u64 cell; /* bytes of the file that a cell tells of: a multiple of 2 MB, 8 TB at most */
	__u64 cells; /* address of a struct hugemap_cell for each */
	__u32 count; /* of them, 65536 at most; when it returns, how many lie in the file */
	__u32 zero;
};

#define HUGEMAP_IOC_CACHED _IOWR(0xb2, 2, struct hugemap_cached)

#endif /* HUGEMAP_IOCTL_H */
