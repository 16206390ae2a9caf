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
#define HUGEMAP_GAUGE(id, name, help) (#name),
#define HUGEMAP_CORE(id, name, help) (#name),
#define HUGEMAP_MODULE(id, name, help) (#name),
#include "hugemap_counters.def"
};

const char *const mount_histogram_names[MOUNT_HISTOGRAMS] = {
#define HUGEMAP_LATENCY(id, name, help) (#name),
#include "hugemap_counters.def"
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
	for (i = 0; i < MOUNT_HISTOGRAMS; i++) {
		snprintf(file, sizeof(file), "stats/%s", mount_histogram_names[i]);
		if (!mounts_read_latency(dev, file, &numbers->latency[i]))
			return false;
	}
	return true;
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
