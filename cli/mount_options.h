/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The argument of -o: flags of the mount point, and options for the file system. */
#ifndef CLI_MOUNT_OPTIONS_H
#define CLI_MOUNT_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MOUNT_MAX_OPTIONS 64

/**
 * struct mount_options - the argument of -o
 * @text: a copy; @key and @value point into it
 * @key: options for the file system, in their order
 * @value: NULL = an option without a value
 * @count: number of options for the file system
 * @attr_set: MOUNT_ATTR_* of the mount point
 * @attr_clear: MOUNT_ATTR_* that a remount removes
 * @remount: change an existing mount
 * @pool: size of the pool in bytes; 0 = not given, or not a size
 * @has_pool: pool= is given
 * @base_pages: page=4K is given
 */
struct mount_options {
	char *text;
	const char *key[MOUNT_MAX_OPTIONS];
	const char *value[MOUNT_MAX_OPTIONS];
	size_t count;
	uint64_t attr_set;
	uint64_t attr_clear;
	bool remount;
	uint64_t pool;
	bool has_pool;
	bool base_pages;
};

/* Parse @text, once. Returns NULL, or a sentence with the reason why it cannot be parsed. */
const char *mount_options_add(struct mount_options *options, const char *text);
void mount_options_free(struct mount_options *options);
/* True if an option is in the argument of -o. */
bool mount_has_option(const char *list, const char *name);

#endif /* CLI_MOUNT_OPTIONS_H */
