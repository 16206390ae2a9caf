/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What a program may ask of a file on a hugemap mount beyond madvise and
 * posix_fadvise. Priorities: units of a file of low priority are evicted first,
 * those of high priority only when nothing else is left (FastMap). Who may write or
 * owns the file sets it; a high one takes CAP_SYS_NICE or CAP_SYS_ADMIN, too.
 */
#ifndef HUGEMAP_IOCTL_H
#define HUGEMAP_IOCTL_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define HUGEMAP_IOC_PRIORITY _IOW(0xb2, 1, __s32) /* -1 low, 0 as the mount, 1 high */

#endif /* HUGEMAP_IOCTL_H */
