/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The device below a file system. No function here makes a request to the file system. */
#ifndef HM_STEER_DEVICE_H
#define HM_STEER_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#define DEVICE_READ_AHEAD_KB 128u

/* read_ahead_kb of a file system; DEVICE_READ_AHEAD_KB if it is not known. */
uint64_t device_read_ahead_kb(uint64_t dev);

/*
 * Returns whether the file system is on a disk of this machine: with a block device, btrfs, or
 * overlayfs whose layers are on disks. FUSE, network file systems, file systems in memory and
 * hugemap are not local, nor is any file system that this mount name space does not show. An
 * overlayfs whose main layer it does not show is local.
 */
bool device_is_local(uint64_t dev);

#endif /* HM_STEER_DEVICE_H */
