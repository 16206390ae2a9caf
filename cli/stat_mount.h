/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* hugemap stat: numbers of mounts. */
#ifndef CLI_STAT_MOUNT_H
#define CLI_STAT_MOUNT_H

#include <stdbool.h>

/* Print the numbers of a mount @count times; 0 or a negative errno. */
int stat_mount_watch(const char *path, double interval, unsigned long long count, bool json);
/* Print a line for each mount; returns the number of mounts. */
unsigned int stat_mount_list(void);
struct json_t;
/* The same as a JSON array. */
struct json_t *stat_mount_list_json(void);

#endif /* CLI_STAT_MOUNT_H */
