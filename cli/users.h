/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The processes that map files of a mount of the kernel engine. */
#ifndef CLI_USERS_H
#define CLI_USERS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct mount_numbers;

/**
 * struct user - a file of a mount that a process has mapped
 * @pid: the process
 * @name: as ps shows it
 * @dev: of the mount
 * @path: of the file
 * @mappings: number of mappings
 * @mapped_bytes: length of these mappings
 * @resident_bytes: bytes in page tables, without private copies
 * @huge_bytes: bytes in page tables by 2 MB pages
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
 * struct users - a list of struct user, sorted by process
 * @list: the list
 * @count: number of entries
 * @room: number of entries that fit
 * @denied: number of processes whose mappings may not be read
 */
struct users {
	struct user *list;
	size_t count;
	size_t room;
	unsigned int denied;
};

/* Find the mapped files of some devices. If memory is short, the list is incomplete. */
void users_find(const dev_t *devs, size_t ndevs, struct users *users);
void users_free(struct users *users);
/* Fill in the four numbers about mappings, for one mount. */
void users_add_up(const struct users *users, dev_t dev, struct mount_numbers *numbers);

#endif /* CLI_USERS_H */
