/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* hugemap top: which pages of a file are cached, as a strip of signs. */
#ifndef CLI_TOP_STRIP_H
#define CLI_TOP_STRIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "hugemap_ioctl.h"

/* Upper bounds: cells per file (more than any terminal is wide), and files. */
#define TOP_CELLS 512
#define TOP_STRIPS 64

/**
 * struct top_strip - the cached parts of a file
 * @path: its name
 * @dev: the mount
 * @bytes: its length
 * @count: number of @cells
 * @cells: from its beginning to its end
 */
struct top_strip {
	char *path;
	dev_t dev;
	uint64_t bytes;
	size_t count;
	struct hugemap_cell cells[TOP_CELLS];
};

struct top_strips {
	struct top_strip *list;
	size_t count;
	size_t room;
};

/**
 * top_strips_add() - read the strip of a file, unless the list has it already
 * @strips: the list
 * @path: the file
 * @dev: the mount that it has to be on; 0 = any
 *
 * Return: 0, or a negative errno: -ENOTTY: the file is on no mount of HugeMap, -EPERM: the user
 * may not see which pages are cached.
 */
int top_strips_add(struct top_strips *strips, const char *path, dev_t dev);
void top_strips_free(struct top_strips *strips);

/**
 * top_strip_text() - a strip as text: a sign for each cell, or for several cells
 * @to: the text; @size bytes
 * @strip: see struct top_strip
 * @width: the largest number of signs
 * @unicode: use blocks and shades; else signs of ASCII
 *
 * Return: the number of signs.
 */
unsigned int top_strip_text(char *to, size_t size, const struct top_strip *strip,
			    unsigned int width, bool unicode);
/* The sums over a strip, in bytes. */
void top_strip_sum(const struct top_strip *strip, uint64_t *huge, uint64_t *base, uint64_t *dirty);

/* The meaning of the signs; [1]: of those that are not ASCII. */
extern const char *const top_strip_legend[2];

#endif /* CLI_TOP_STRIP_H */
