/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The file that is mapped at an address, as /proc/self/maps shows it. */
#ifndef HM_STEER_AREA_H
#define HM_STEER_AREA_H

#include <stdint.h>

/**
 * struct area - the file of a mapping
 * @dev: its device; stat(2) may return another one, on btrfs for example
 * @ino: its inode; 0 for anonymous memory
 * @path: its path; only the end of a path that is longer
 */
struct area {
	uint64_t dev, ino;
	char path[160];
};

/* Returns 0, -ENOENT if nothing is mapped at @address, or the -errno of open(2). */
int area_at(uint64_t address, struct area *area);

#endif /* HM_STEER_AREA_H */
