/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What the process has mapped where, as /proc/self/maps has it. */
#ifndef HM_STEER_AREA_H
#define HM_STEER_AREA_H

#include <stdbool.h>
#include <stdint.h>

/**
 * struct area - a mapping, or what of it is in the range that was asked for
 * @from: where it begins
 * @to: where it ends
 * @prot: as for mmap(2)
 * @shared: MAP_SHARED
 * @offset: of @from in the file
 * @dev: of the file; stat(2) may say something else of the same one
 * @ino: of the file; 0 = none
 * @path: the end of it, if it is longer
 */
struct area {
	char *from, *to;
	int prot;
	bool shared;
	uint64_t offset;
	uint64_t dev, ino;
	char path[160];
};

/*
 * For each mapping in a range, until @visit returns false; they may change meanwhile.
 * Returns 0, or -errno: it cannot be read.
 */
int areas_each(char *from, char *to, bool (*visit)(const struct area *area, void *arg), void *arg);

/* What lies at an address. Returns 0, or -errno; -ENOENT: nothing does. */
int area_at(char *address, struct area *area);

#endif /* HM_STEER_AREA_H */
