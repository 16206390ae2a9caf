// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "undo.h"
#include "system.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A process that was just killed may still have files open: repeat this often, every 50 ms. */
#define TRIES 200
#define PAUSE 50000 /* us */

static int undo_remove_entry(const char *path, const struct stat *st, int type, struct FTW *at)
{
	return remove(path);
}

void tree_remove(const char *path)
{
	int tries;

	for (tries = 0; tries < TRIES; tries++) {
		if (!nftw(path, undo_remove_entry, 16, FTW_DEPTH | FTW_PHYS) || errno == ENOENT)
			return;
		usleep(PAUSE);
	}
}

/* Kill the remaining processes of a group. */
static void undo_kill_all(const char *group)
{
	char path[1200];
	FILE *file;
	int pid;

	snprintf(path, sizeof(path), "%s/cgroup.procs", group);
	file = fopen(path, "re");
	if (!file)
		return;
	while (fscanf(file, "%d", &pid) == 1)
		if (pid > 1 && pid != getpid())
			kill(pid, SIGKILL);
	fclose(file);
}

void group_remove(const char *path)
{
	int tries;

	/* A process that has just ended keeps its group busy for a moment. */
	for (tries = 0; rmdir(path) < 0 && errno == EBUSY && tries < 500; tries++) {
		if (tries >= 200)
			undo_kill_all(path);
		usleep(10000);
	}
}

/* A run that was just killed may still be unmounting. */
void module_remove(const char *module)
{
	int i;

	for (i = 0; i < 50 && *module; i++) {
		if (!syscall(SYS_delete_module, module, O_NONBLOCK) || errno == ENOENT)
			break;
		usleep(100000);
	}
}

bool zram_write(int zram, const char *name, const char *value)
{
	char path[96];

	snprintf(path, sizeof(path), "/sys/block/zram%d/%s", zram, name);
	return write_line(path, value);
}

void zram_remove(int zram, const char *dir)
{
	char number[16];
	int i;

	/* EINVAL: not mounted, or not any more. */
	for (i = 0; *dir && i < TRIES && umount2(dir, 0) < 0 && errno == EBUSY; i++)
		usleep(PAUSE);
	if (*dir)
		rmdir(dir);
	for (i = 0; i < TRIES && !zram_write(zram, "reset", "1") && errno == EBUSY; i++)
		usleep(PAUSE);
	snprintf(number, sizeof(number), "%d", zram);
	for (i = 0; i < TRIES && !write_line(ZRAM_CONTROL "hot_remove", number) && errno == EBUSY;
	     i++)
		usleep(PAUSE);
}
