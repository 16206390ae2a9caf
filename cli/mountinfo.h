/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The mount points of this mount name space, from /proc/self/mountinfo. */
#ifndef CLI_MOUNTINFO_H
#define CLI_MOUNTINFO_H

#include <stdbool.h>
#include <sys/types.h>

/**
 * struct mount_point - a line of /proc/self/mountinfo
 * @id: number of the mount
 * @parent: number of the mount that it is on
 * @dev: st_dev of the files there
 * @dir: the mount point
 * @type: type of the file system
 * @source: the directory or device that is mounted
 */
struct mount_point {
	int id;
	int parent;
	dev_t dev;
	char dir[4096];
	char type[32];
	char source[4096];
};

/* Call @visit for each, until it returns false; false: /proc/self/mountinfo cannot be read. */
bool mount_points(bool (*visit)(const struct mount_point *point, void *arg), void *arg);
/* Find the topmost mount at a directory, which is given by its absolute name. */
bool mount_point_at(const char *dir, struct mount_point *point);
/*
 * Find the mount of HugeMap at a directory, which is given by any name. If there is none,
 * @point->dir is the directory's absolute name; "" = there is no such directory, and errno has the
 * reason.
 */
bool mount_of_hugemap(const char *name, struct mount_point *point);
/* Find the mount of a device. */
bool mount_point_of(dev_t dev, struct mount_point *point);

#endif /* CLI_MOUNTINFO_H */
