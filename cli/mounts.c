// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Mounts of the kernel engine, from /sys/fs/hugemap/MAJOR:MINOR/. */
#include "mounts.h"
#include "mountinfo.h"
#include "system.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

const char *const mount_count_names[MOUNT_COUNTS] = {
	[MOUNT_FREE_BYTES] = "free_bytes",
	[MOUNT_RESIDENT_BYTES] = "resident_bytes",
	[MOUNT_DIRTY_BYTES] = "dirty_bytes",
	[MOUNT_FAULTS] = "faults",
	[MOUNT_HITS] = "hits",
	[MOUNT_FILLS] = "fills",
	[MOUNT_ZERO_FILLS] = "zero_fills",
	[MOUNT_DIRTIED] = "dirtied",
	[MOUNT_AHEAD] = "ahead",
	[MOUNT_AHEAD_USED] = "ahead_used",
	[MOUNT_AHEAD_WASTED] = "ahead_wasted",
	[MOUNT_EVICTIONS] = "evictions",
	[MOUNT_REACTIVATED] = "reactivated",
	[MOUNT_READ_BYTES] = "read_bytes",
	[MOUNT_WRITTEN_BYTES] = "written_bytes",
	[MOUNT_READ_ERRORS] = "read_errors",
	[MOUNT_WRITE_ERRORS] = "write_errors",
	[MOUNT_IO_IN_FLIGHT] = "io_in_flight",
	[MOUNT_GHOSTS] = "ghosts",
	[MOUNT_READ_IOS] = "read_ios",
	[MOUNT_WRITE_IOS] = "write_ios",
	[MOUNT_HUGE_MAPPED] = "huge_mapped",
	[MOUNT_BASE_MAPPED] = "base_mapped",
	[MOUNT_UPGRADES] = "upgrades",
	[MOUNT_CLEANED] = "cleaned",
	[MOUNT_UNMAPS] = "unmaps",
	[MOUNT_COPIED_IN_BYTES] = "copied_in_bytes",
	[MOUNT_COPIED_OUT_BYTES] = "copied_out_bytes",
	[MOUNT_PINNED] = "pinned",
	[MOUNT_SYNCS] = "syncs",
	[MOUNT_MEMORY_BYTES] = "memory_bytes",
	[MOUNT_HUGE_BYTES] = "huge_bytes",
	[MOUNT_PROMOTED] = "promoted",
	[MOUNT_PARTIAL_WRITEBACKS] = "partial_writebacks",
	[MOUNT_NOT_PROMOTED] = "not_promoted",
	[MOUNT_NOT_PROMOTED_COLD] = "not_promoted_cold",
	[MOUNT_NOT_PROMOTED_DIRTY] = "not_promoted_dirty",
	[MOUNT_NOT_PROMOTED_NEEDS_ALLOC] = "not_promoted_needs_alloc",
	[MOUNT_NOT_PROMOTED_BUSY] = "not_promoted_busy",
	[MOUNT_NOT_PROMOTED_NO_FRAME] = "not_promoted_no_frame",
	[MOUNT_NOT_PROMOTED_PINNED] = "not_promoted_pinned",
	[MOUNT_NOT_PROMOTED_FAILED] = "not_promoted_failed",
};

const char *const mount_setting_names[MOUNT_SETTINGS] = {
	"page",		  "node",	    "dirty_ratio",	     "evict_batch",
	"readahead_kb",	  "priority",	    "vfs_read_optimization", "vfs_write_optimization",
	"pool_min_bytes", "util_threshold", "promote_interval_ms",   "promote_batch",
};

/* Tests set another directory. */
static const char *mounts_sysfs(void)
{
	const char *other = secure_getenv("HUGEMAP_SYSFS");

	return other ? other : MOUNTS_SYSFS;
}

static void mounts_path(char *path, size_t size, dev_t dev, const char *file)
{
	snprintf(path, size, "%s/%u:%u/%s", mounts_sysfs(), major(dev), minor(dev), file);
}

static bool mounts_read_number(dev_t dev, const char *file, uint64_t *value)
{
	unsigned long long number;
	char path[512];

	mounts_path(path, sizeof(path), dev, file);
	if (!read_field(path, "", &number))
		return false;
	*value = number;
	return true;
}

static bool mounts_read_latency(dev_t dev, const char *file, struct mount_latency *latency)
{
	char path[512], line[256];

	mounts_path(path, sizeof(path), dev, file);
	return read_line(path, line, sizeof(line)) &&
	       sscanf(line, "%" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64,
		      &latency->count, &latency->p50, &latency->p90, &latency->p99, &latency->p999,
		      &latency->max) == 6;
}

static bool mounts_exists(dev_t dev)
{
	char path[512];

	mounts_path(path, sizeof(path), dev, "");
	return !access(path, F_OK);
}

static void mounts_describe(dev_t dev, struct mount *mount)
{
	struct mount_point point;
	char path[512];
	size_t i;

	*mount = (struct mount){ .dev = dev };
	for (i = 0; i < MOUNT_SETTINGS; i++) {
		mounts_path(path, sizeof(path), dev, mount_setting_names[i]);
		read_line(path, mount->setting[i], sizeof(mount->setting[i]));
	}
	if (!mount_point_of(dev, &point))
		return;
	memcpy(mount->dir, point.dir, sizeof(mount->dir));
	memcpy(mount->source, point.source, sizeof(mount->source));
}

int mount_open(const char *path, struct mount *mount)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return -errno;
	if (!mounts_exists(st.st_dev))
		return -ENODEV;
	mounts_describe(st.st_dev, mount);
	return 0;
}

static bool mounts_read_all(dev_t dev, struct mount_numbers *numbers)
{
	char file[64];
	size_t i;

	if (!mounts_read_number(dev, "pool_bytes", &numbers->pool_bytes))
		return false;
	for (i = 0; i < MOUNT_COUNTS; i++) {
		snprintf(file, sizeof(file), "stats/%s", mount_count_names[i]);
		if (!mounts_read_number(dev, file, &numbers->count[i]))
			return false;
	}
	return mounts_read_latency(dev, "stats/fault_ns", &numbers->fault_ns) &&
	       mounts_read_latency(dev, "stats/read_ns", &numbers->read_ns) &&
	       mounts_read_latency(dev, "stats/write_ns", &numbers->write_ns);
}

int mount_read(const struct mount *mount, struct mount_numbers *numbers)
{
	*numbers = (struct mount_numbers){};
	if (mounts_read_all(mount->dev, numbers))
		return 0;
	return mounts_exists(mount->dev) ? -EPROTO : -ENODEV;
}

unsigned int mount_each(void (*visit)(const struct mount *mount, void *arg), void *arg)
{
	DIR *dir = opendir(mounts_sysfs());
	struct mount *mount = malloc(sizeof(*mount));
	struct dirent *entry;
	unsigned int count = 0;

	while (dir && mount && (entry = readdir(dir))) {
		unsigned int maj, min;

		if (sscanf(entry->d_name, "%u:%u", &maj, &min) != 2)
			continue;
		mounts_describe(makedev(maj, min), mount);
		visit(mount, arg);
		count++;
	}
	free(mount);
	if (dir)
		closedir(dir);
	return count;
}
