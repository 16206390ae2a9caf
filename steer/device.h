/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What is set for a device: how far the kernel reads ahead there. */
#ifndef HM_STEER_DEVICE_H
#define HM_STEER_DEVICE_H

#include <stdint.h>

/* read_ahead_kb below a file system, by its st_dev; 0 = not known (overlayfs, btrfs ...). */
uint64_t device_read_ahead_kb(uint64_t dev);

#endif /* HM_STEER_DEVICE_H */
