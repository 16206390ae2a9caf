/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The areas (VMAs) of this process, read from /proc/self/maps or /proc/self/smaps. */
#ifndef HM_LIB_AREAS_H
#define HM_LIB_AREAS_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/**
 * struct areas - a walk through all areas, by address
 * @file: the open file
 * @pending: @line begins the next area, and areas_next() has not returned it yet
 * @line: the line that was read last
 */
struct areas {
	FILE *file;
	bool pending;
	char line[PATH_MAX + 128];
};

/**
 * struct area - one area
 * @start: its first address
 * @end: the address after its last byte
 * @offset: of @start in the file; bytes
 * @major: device number of the file system, as @minor
 * @minor: see @major
 * @ino: inode number of the file; 0 = no file is mapped there
 * @path: of the file, as the kernel prints it; valid until the next areas_next()
 */
struct area {
	uintptr_t start, end;
	uint64_t offset;
	unsigned int major, minor;
	uint64_t ino;
	const char *path;
};

/* Return: false, with errno set, if the file cannot be opened. */
bool areas_open(struct areas *areas, const char *path);
void areas_close(struct areas *areas);

/* Read lines up to the next area. Return: false at the end. */
bool areas_next(struct areas *areas, struct area *area);

/* In smaps, after areas_next(): the next line about the same area; NULL after the last one. */
const char *areas_next_line(struct areas *areas);

#endif /* HM_LIB_AREAS_H */
