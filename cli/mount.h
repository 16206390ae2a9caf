/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * hugemap mount and umount, and mount.hugemap, which mount(8) calls. The kernel
 * checks options and says what is wrong with them: its sentences are passed on.
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
 * struct mount_options - what -o says
 * @text: a copy of it; the others point into it
 * @key: options for the file system, as they came
 * @value: NULL = an option without a value
 * @count: how many
 * @attr_set: MOUNT_ATTR_* of the mount point
 * @attr_clear: those to take away when mounted already
 * @remount: change what is mounted already
 * @pool: size of the pool in bytes; 0 = not said, or not to be understood
 * @base_pages: page=4K was said
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

/* Returns NULL, or a sentence about what cannot be. May be called again: options add up. */
const char *mount_options_add(struct mount_options *options, const char *text);
void mount_options_free(struct mount_options *options);
/* Is an option in the argument of -o? */
bool mount_has_option(const char *list, const char *name);

/* --- mount_check.c: each returns CLI_OK, or says what is wrong and returns CLI_FAILED --- */

int mount_check_root(const struct cli_command *command);
int mount_check_source(const struct cli_command *command, const char *source);
int mount_check_dir(const struct cli_command *command, const char *dir);
int mount_check_module(const struct cli_command *command, bool verbose);
/* Is there room for a pool? Fragmented memory is told about, and compacted. */
int mount_check_memory(const struct cli_command *command, uint64_t pool, bool base_pages);
uint64_t mount_total_memory(void);
uint64_t mount_default_pool(void);
/* Say who has a device, as far as that can be seen. */
void mount_explain_device(const char *source);

/* What is known of the module, for doctor too. */
struct mount_module {
	bool loaded;
	bool none; /* this kernel has no modules at all */
	bool installed; /* modprobe would find it */
	bool headers; /* it could be built */
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

/* As mount(8) calls it: mount.hugemap SOURCE DIR [-sfnv] [-o OPTIONS]. */
int mount_helper(int argc, char **argv);

#endif /* CLI_MOUNT_H */
