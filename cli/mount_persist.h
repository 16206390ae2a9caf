/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* hugemap mount --persist: a mount at every boot. */
#ifndef CLI_MOUNT_PERSIST_H
#define CLI_MOUNT_PERSIST_H

#include <limits.h>
#include <sys/types.h>

#include "cli.h"

/* Print a line for /etc/fstab that mounts at every boot, or a @unit for systemd. */
int mount_persist(const struct cli_command *command, const char *source, const char *dir,
		  const char *list, bool unit);
/* Find the best link to a block device below @links (/dev/disk); false: there is none. */
bool mount_find_link(const char *links, dev_t dev, char out[PATH_MAX]);

#endif /* CLI_MOUNT_PERSIST_H */
