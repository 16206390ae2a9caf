// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The kernel engine: like engine_mmap.c without any advice, on a mount over the directory of the
 * file. The mount and its pool are made before the clock starts. The pool is empty when the clock
 * starts.
 */
#include "cli.h"
#include "engine.h"
#include "kernel_mount.h"
#include "mounts.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static void kernel_open(struct run *run)
{
	char *dir = strdup(run->path), why[160];
	double start = cli_now();
	int mount;

	if (!dir)
		die(run, "too little memory");
	*strrchr(dir, '/') = '\0';
	mount = bench_mount(*dir ? dir : "/", run->config->page, run->pool_bytes, why, sizeof(why));
	if (mount < 0)
		die(run, "it could not be mounted: %s", why);
	run->result->pool_s = cli_now() - start;
	free(dir);
	file_map_open(run, mount, NULL);
}

/* The module counts hits and read-ahead for the mount as a whole. */
static void kernel_count(struct run *run)
{
	const struct file_map *map = run->private;
	struct result *result = run->result;
	struct mount_numbers numbers;
	struct mount mount;
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", map->fd);
	if (mount_open(path, &mount) || mount_read(&mount, &numbers))
		return; /* sysfs is not mounted */
	result->hits = numbers.count[MOUNT_HITS];
	result->ahead = numbers.count[MOUNT_AHEAD];
	result->ahead_used = numbers.count[MOUNT_AHEAD_USED];
}

const struct engine engine_kernel = {
	.name = "hugemap-kernel",
	.open = kernel_open,
	.load = file_map_load,
	.store = file_map_store,
	.sync = file_map_sync,
	.count = kernel_count,
	.close = file_map_close,
};
