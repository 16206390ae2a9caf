/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * hugemap mount and umount, and mount.hugemap, which mount(8) runs. The kernel checks the options;
 * the commands print its messages.
 */
#ifndef CLI_MOUNT_H
#define CLI_MOUNT_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "cli.h"

#define MOUNT_MAX_OPTIONS 64

/* --- mount_options.c --- */

/**
 * struct mount_options - the argument of -o
 * @text: a copy of it; @key and @value point into it
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
/* Is an option in the argument of -o? */
bool mount_has_option(const char *list, const char *name);

/* --- mount_check.c: each check returns CLI_OK, or prints the reason and returns CLI_FAILED --- */

int mount_check_root(const struct cli_command *command);
int mount_check_source(const struct cli_command *command, const char *source);
int mount_check_dir(const struct cli_command *command, const char *dir);
int mount_check_module(const struct cli_command *command, bool verbose);
/* Does a pool fit? If memory is fragmented, print that and have the kernel compact it. */
int mount_check_memory(const struct cli_command *command, uint64_t pool, bool base_pages);
uint64_t mount_total_memory(void);
uint64_t mount_default_pool(void);
/* Print which mounts, devices and swap areas use a device. */
void mount_explain_device(const char *source);

/* The state of the module; hugemap doctor reports it too. */
struct mount_module {
	bool loaded;
	bool none; /* this kernel has no modules at all */
	bool installed; /* modprobe would find it */
	bool headers; /* the headers to build it are installed */
	char release[80];
};

void mount_find_module(struct mount_module *module);

/* --- mount_persist.c --- */

/* Print what mounts at every boot: a line for /etc/fstab, or a @unit for systemd. */
int mount_persist(const struct cli_command *command, const char *source, const char *dir,
		  const char *list, bool unit);
/* The best link to a block device below @links, which is /dev/disk; false: there is none. */
bool mount_find_link(const char *links, dev_t dev, char out[PATH_MAX]);

/* --- mount.c --- */

/* mount(8) runs mount.hugemap SOURCE DIR [-sfnv] [-o OPTIONS]. */
int mount_helper(int argc, char **argv);

#endif /* CLI_MOUNT_H */
