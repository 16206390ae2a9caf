/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* hugemap attach: the large mappings of files of a process. */
#ifndef CLI_ATTACH_MAPS_H
#define CLI_ATTACH_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The program's own advice, by the flags in smaps. */
enum {
	HINT_RANDOM = 1 << 0, /* rr */
	HINT_SEQUENTIAL = 1 << 1, /* sr */
	HINT_HUGE = 1 << 2, /* hg */
	HINT_SMALL = 1 << 3, /* nh */
};

/**
 * struct area - a mapping of a file, as in /proc/PID/maps
 * @start, @end: addresses; areas that are adjacent, in the file too, are one
 * @offset: of @start in the file
 * @dev, @ino: the file
 * @writable: stores are permitted
 * @shared: stores reach the file
 * @hints: HINT_*, of any part of it
 * @path: name of the file
 */
struct area {
	uint64_t start, end, offset;
	dev_t dev;
	uint64_t ino;
	bool writable, shared;
	unsigned int hints;
	char *path;
};

/**
 * struct areas - the mappings of a process
 * @list: the mappings, by address
 * @count: number of mappings
 * @room: number of mappings that fit into @list
 * @steered: the process runs under hugemap run
 */
struct areas {
	struct area *list;
	size_t count, room;
	bool steered;
};

/**
 * areas_read() - find the large mappings of files of a process
 * @pid: the process
 * @min_size: bytes; shorter mappings are left out
 * @hints: also find the program's own advice, which takes longer
 * @areas: filled in; undo with areas_free()
 *
 * Return: 0, or -errno: -ESRCH if the process has ended, -EACCES if it may not be inspected.
 */
int areas_read(pid_t pid, uint64_t min_size, bool hints, struct areas *areas);
void areas_free(struct areas *areas);
/* "MADV_RANDOM, MADV_HUGEPAGE" */
const char *hints_text(unsigned int hints, char text[64]);

#endif /* CLI_ATTACH_MAPS_H */
