// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Find the processes that map files of a mount, from /proc/PID/maps and smaps. */
#include "users.h"
#include "cli.h"
#include "mounts.h"
#include "system.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

/* Parse the first line of a mapping; false: it is another line. */
static bool users_parse_area(char *line, uint64_t *length, dev_t *dev, const char **path)
{
	unsigned int maj, min;
	uint64_t from, to;
	int at = 0;

	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %*x %x:%x %*u %n", &from, &to, &maj, &min,
		   &at) != 4 ||
	    !at)
		return false;
	line[strcspn(line, "\n")] = '\0';
	*length = to - from;
	*dev = makedev(maj, min);
	*path = line + at;
	return true;
}

static bool users_has_device(dev_t dev, const dev_t *devs, size_t ndevs)
{
	size_t i;

	for (i = 0; i < ndevs; i++)
		if (devs[i] == dev)
			return true;
	return false;
}

/* True if a process maps a file of these devices. Reading maps is faster than reading smaps. */
static int users_maps_any(pid_t pid, const dev_t *devs, size_t ndevs)
{
	uint64_t length;
	const char *file;
	char path[64], *line = NULL;
	size_t room = 0;
	bool found = false;
	FILE *maps;
	dev_t dev;
	int err;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	maps = fopen(path, "re");
	if (!maps)
		return -errno;
	while (!found && getline(&line, &room, maps) > 0)
		found = users_parse_area(line, &length, &dev, &file) &&
			users_has_device(dev, devs, ndevs);
	/* Some kernels check the right to read the file only at the first read. */
	err = !found && ferror(maps) ? -errno : 0;
	free(line);
	fclose(maps);
	return err ? err : found;
}

/* Find or add the entry of a file. The current process has the last entries of the list. */
static struct user *users_entry(struct users *users, const struct user *who, const char *path)
{
	struct user *user;
	size_t i;

	for (i = users->count; i && users->list[i - 1].pid == who->pid; i--) {
		user = &users->list[i - 1];
		if (user->dev == who->dev && !strcmp(user->path, path))
			return user;
	}
	user = cli_grow(users->list, users->count, &users->room, sizeof(*user));
	if (!user)
		return NULL;
	users->list = user;
	user = &users->list[users->count];
	*user = *who;
	user->path = strdup(path);
	if (!user->path)
		return NULL;
	users->count++;
	return user;
}

static void users_add_process(pid_t pid, const dev_t *devs, size_t ndevs, struct users *users)
{
	struct user *user = NULL, who = { .pid = pid };
	char path[64], *line = NULL;
	uint64_t length, kb;
	const char *file;
	size_t room = 0;
	FILE *smaps;

	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	read_line(path, who.name, sizeof(who.name));
	snprintf(path, sizeof(path), "/proc/%d/smaps", pid);
	smaps = fopen(path, "re");
	if (!smaps)
		return;
	while (getline(&line, &room, smaps) > 0) {
		if (users_parse_area(line, &length, &who.dev, &file)) {
			user = users_has_device(who.dev, devs, ndevs) ?
				       users_entry(users, &who, file) :
				       NULL;
			if (user) {
				user->mappings++;
				user->mapped_bytes += length;
			}
		} else if (user && sscanf(line, "Rss: %" SCNu64, &kb) == 1) {
			user->resident_bytes += kb << 10;
		} else if (user && sscanf(line, "Anonymous: %" SCNu64, &kb) == 1) {
			user->resident_bytes -= kb << 10;
		} else if (user && sscanf(line, "FilePmdMapped: %" SCNu64, &kb) == 1) {
			user->huge_bytes += kb << 10;
		}
	}
	free(line);
	fclose(smaps);
}

void users_find(const dev_t *devs, size_t ndevs, struct users *users)
{
	struct dirent *entry;
	DIR *dir;

	*users = (struct users){};
	dir = ndevs ? opendir("/proc") : NULL;
	while (dir && (entry = readdir(dir))) {
		pid_t pid = (pid_t)atoi(entry->d_name);
		int any;

		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		any = users_maps_any(pid, devs, ndevs);
		if (any > 0)
			users_add_process(pid, devs, ndevs, users);
		else if (any == -EACCES || any == -EPERM)
			users->denied++;
	}
	if (dir)
		closedir(dir);
}

void users_free(struct users *users)
{
	size_t i;

	for (i = 0; i < users->count; i++)
		free(users->list[i].path);
	free(users->list);
	*users = (struct users){};
}

void users_add_up(const struct users *users, dev_t dev, struct mount_numbers *numbers)
{
	uint64_t huge = 0, resident = 0;
	size_t i;

	numbers->mappings = numbers->mapped_bytes = 0;
	for (i = 0; i < users->count; i++) {
		const struct user *user = &users->list[i];

		if (user->dev != dev)
			continue;
		numbers->mappings += user->mappings;
		numbers->mapped_bytes += user->mapped_bytes;
		resident += user->resident_bytes;
		huge += user->huge_bytes;
	}
	numbers->huge_pages = huge >> 21;
	numbers->base_pages = (resident > huge ? resident - huge : 0) >> 12;
}
