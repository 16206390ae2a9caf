/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * A mount at every boot: its line of /etc/fstab, for mount --persist and
 * umount --forget. Both look before they mount or unmount, so that what cannot be
 * is refused while nothing has changed, and again before they write.
 *
 * From the first look on SIGPIPE is ignored: output that nobody reads is an error to be
 * told, and does not end the command between a mount and its line.
 */
#ifndef CLI_MOUNT_PERSIST_H
#define CLI_MOUNT_PERSIST_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "cli.h"

/**
 * struct persist - a mount, and the line for it
 * @command: whose name complaints carry
 * @source: as the line names it
 * @real: where @source leads
 * @dir: the mount point, symbolic links resolved
 * @typed: as it was typed, made absolute: a line may have it so
 * @options: of the line
 * @line: all of it
 */
struct persist {
	const struct cli_command *command;
	char source[PATH_MAX];
	char real[PATH_MAX];
	char dir[PATH_MAX];
	char typed[PATH_MAX];
	char *options;
	char *line;
};

/**
 * persist_prepare() - make a line, and see whether it can be written
 * @persist: filled in; persist_free() it in any case
 * @source: what is mounted, as it was typed; it exists
 * @dir: where; it exists
 * @list: what stood behind -o, or NULL
 * @only_look: nothing will be written
 *
 * Return: CLI_OK, or CLI_FAILED after saying what is in the way.
 */
int persist_prepare(struct persist *persist, const struct cli_command *command, const char *source,
		    const char *dir, const char *list, bool only_look);

/*
 * The name of a device that stays with it, best: of those in by-id and by-path below a
 * directory, /dev/disk. False: there is none.
 */
bool persist_find_name(const char *links, dev_t dev, char out[PATH_MAX]);

/* Show the line, and what it replaces; then write it, unless it shall only be looked. */
int persist_write(const struct persist *persist, bool only_look);
void persist_free(struct persist *persist);

/**
 * forget_prepare() - see whether there is a line, and may be taken away
 * @dir: the mount point as it was typed; it need not exist
 * @found: whether there is a line
 */
int forget_prepare(struct persist *persist, const struct cli_command *command, const char *dir,
		   bool *found);
/* Show the line, and take it away; one that is gone already is no failure. */
int forget_write(const struct persist *persist);

#endif /* CLI_MOUNT_PERSIST_H */
