/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What is mapped where, as /proc/self/maps has it. */
#ifndef SHIM_MAPS_H
#define SHIM_MAPS_H

#include <stdbool.h>
#include <stdint.h>

struct maps_file {
	uint64_t dev, ino;
};

/**
 * struct maps_line - a mapping, or what of it is in the range that was asked for
 * @from: where it begins
 * @to: where it ends
 * @prot: as for mmap(2)
 * @shared: MAP_SHARED
 * @offset: of @from in the file
 * @file: which file; compare with others from here, not with stat(2)
 */
struct maps_line {
	char *from, *to;
	int prot;
	bool shared;
	uint64_t offset;
	struct maps_file file;
};

/* For each mapping in a range, until @visit returns false; they may change meanwhile. */
void maps_each(char *from, char *to, bool (*visit)(const struct maps_line *line, void *arg),
	       void *arg);

#endif /* SHIM_MAPS_H */
