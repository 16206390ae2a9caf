/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Mounts of the kernel engine, as mountinfo and sysfs show them, and the
 * processes that use files there. Used by stat, top, mount and umount.
 */
#ifndef CLI_MOUNTS_H
#define CLI_MOUNTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "hugemap.h"

#define MOUNTS_SYSFS "/sys/fs/hugemap"

/* --- mountinfo.c --- */

/**
 * struct mount_point - a line of /proc/self/mountinfo
 * @id: of the mount
 * @parent: of the mount that it is on
 * @dev: st_dev of the files there
 * @dir: where it is
 * @type: of the file system
 * @source: what is mounted
 */
struct mount_point {
	int id;
	int parent;
	dev_t dev;
	char dir[4096];
	char type[32];
	char source[4096];
};

/* Until @visit returns false; false: /proc/self/mountinfo cannot be read. */
bool mount_points(bool (*visit)(const struct mount_point *point, void *arg), void *arg);
/* The last one mounted at a directory, by its absolute name. */
bool mount_point_at(const char *dir, struct mount_point *point);
/*
 * The mount of HugeMap at a directory, by any name of it. If there is none, @point->dir is
 * the directory's absolute name; "" = there is no directory either, and errno says why.
 */
bool mount_of_hugemap(const char *name, struct mount_point *point);
/* One of a device. */
bool mount_point_of(dev_t dev, struct mount_point *point);

/* --- mounts.c --- */

/* What a mount counts beyond a pool of a process; the names are those of sysfs. */
enum mount_count {
	MOUNT_GHOSTS,
	MOUNT_READ_IOS,
	MOUNT_WRITE_IOS,
	MOUNT_HUGE_MAPPED,
	MOUNT_BASE_MAPPED,
	MOUNT_UPGRADES,
	MOUNT_CLEANED,
	MOUNT_UNMAPS,
	MOUNT_COPIED_IN,
	MOUNT_COPIED_OUT,
	MOUNT_PINNED,
	MOUNT_SYNCS,
	MOUNT_HELD,
	MOUNT_HUGE,
	MOUNT_PROMOTED,
	MOUNT_DEMOTED,
	MOUNT_PARTS,
	MOUNT_REFUSED,
	MOUNT_REFUSED_COLD,
	MOUNT_REFUSED_STORED,
	MOUNT_REFUSED_HOLES,
	MOUNT_REFUSED_BUSY,
	MOUNT_REFUSED_NO_FRAME,
	MOUNT_REFUSED_PINNED,
	MOUNT_REFUSED_FAILED,
	MOUNT_COUNTS,
};

extern const char *const mount_count_names[MOUNT_COUNTS];

/**
 * struct mount_numbers - a mount's statistics
 * @stat: as of a process; mapped_bytes, huge_pages and base_pages are for
 *	users_add_up() to fill in
 * @io_in_flight: I/O operations under way
 * @count: see enum mount_count
 */
struct mount_numbers {
	struct hugemap_stat stat;
	uint64_t io_in_flight;
	uint64_t count[MOUNT_COUNTS];
};

#define MOUNT_SETTINGS 13
extern const char *const mount_setting_names[MOUNT_SETTINGS];

/**
 * struct mount - a mount of the kernel engine
 * @dev: st_dev of its files
 * @dir: where it is mounted; "" = not in this mount namespace
 * @source: what is below; "" as well
 * @setting: as sysfs has them, in the order of mount_setting_names
 */
struct mount {
	dev_t dev;
	char dir[4096];
	char source[4096];
	char setting[MOUNT_SETTINGS][16];
};

/**
 * mount_open() - the mount that a file is on
 * @path: any file or directory there
 * @mount: filled in
 *
 * Return: 0; -ENODEV if it is on no mount of HugeMap; or -errno of @path.
 */
int mount_open(const char *path, struct mount *mount);

/* Its numbers; -ENODEV: it is unmounted, -EPROTO: another version's. */
int mount_read(const struct mount *mount, struct mount_numbers *numbers);

/* For each mount; returns how many there are. */
unsigned int mount_each(void (*visit)(const struct mount *mount, void *arg), void *arg);

/* --- users.c --- */

/**
 * struct user - a file of a mount that a process has mapped
 * @pid: the process
 * @name: as ps shows it
 * @dev: of the mount
 * @path: of the file
 * @mappings: how often it is mapped
 * @mapped_bytes: length of these mappings
 * @resident_bytes: in its page tables, copies of its own not counted
 * @huge_bytes: ... of these in 2 MB pages
 */
struct user {
	pid_t pid;
	char name[32];
	dev_t dev;
	char *path;
	uint64_t mappings;
	uint64_t mapped_bytes;
	uint64_t resident_bytes;
	uint64_t huge_bytes;
};

/**
 * struct users - all of them, by process and file
 * @closed: processes that may not be looked into
 */
struct users {
	struct user *list;
	size_t count;
	size_t room;
	unsigned int closed;
};

/* Look for files of some devices; out of memory: what was found so far. */
void users_find(const dev_t *devs, size_t ndevs, struct users *users);
void users_free(struct users *users);
/* Sum up those of a mount; returns the number of mappings. */
uint64_t users_add_up(const struct users *users, dev_t dev, struct hugemap_stat *stat);

#endif /* CLI_MOUNTS_H */
