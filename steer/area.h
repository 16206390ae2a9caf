/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The areas (VMAs) of this process, as /proc/self/maps lists them. */
#ifndef HM_STEER_AREA_H
#define HM_STEER_AREA_H

#include "reader.h"

/**
 * struct area - a line of /proc/self/maps
 * @start: the first address
 * @end: the address after the last one
 * @offset: of @start in the file
 * @dev: of the file; 0 for anonymous memory
 * @ino: of the file; 0 for anonymous memory
 * @path: the last part of it, if it is longer
 */
struct area {
	uint64_t start, end, offset, dev, ino;
	char path[160];
};

/* Read the areas one by one, in the order of their addresses. */
bool area_open(struct reader *reader);
bool area_next(struct reader *reader, struct area *area);

/* Find the first area that ends after an address. Returns false if there is none. */
bool area_find(uint64_t address, struct area *area);

#endif /* HM_STEER_AREA_H */
