/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * For tests that mount by themselves: @source_dir is mounted at @mount_point, both in
 * directories of the behaviour's own.
 */
#ifndef TESTS_KERNEL_MOUNTS_H
#define TESTS_KERNEL_MOUNTS_H

#include "common.h"

#include <dirent.h>

static char source_dir[600], mount_point[600];

static inline void make_mount_dirs(void)
{
	snprintf(source_dir, sizeof(source_dir), "%s/source", work_lower);
	snprintf(mount_point, sizeof(mount_point), "%s/mount", work_dir);
	/* If nothing is mounted at MNT, work_lower is work_dir, which exists. */
	MUST(mkdir(work_lower, 0755) < 0 && errno != EEXIST ? -1 : 0);
	MUST(mkdir(source_dir, 0755));
	MUST(mkdir(mount_point, 0755));
}

/* For behaviours that Linux itself cannot show. */
static inline void require_mount_dirs(void)
{
	require_hugemap();
	make_mount_dirs();
}

/* The block device that the test may overwrite. */
static inline const char *require_device(void)
{
	const char *dev = getenv("DEV");

	if (!dev)
		skip("DEV is not set");
	return dev;
}

/* Runs a command like "mkfs.ext4 -q DEVICE". */
static inline void make_file_system(const char *format, ...) __attribute__((format(printf, 1, 2)));
static inline void make_file_system(const char *format, ...)
{
	char command[1400];
	va_list ap;
	int n;

	va_start(ap, format);
	n = vsnprintf(command, sizeof(command), format, ap);
	va_end(ap);
	snprintf(command + n, sizeof(command) - (size_t)n, " >/dev/null 2>&1");
	if (system(command))
		skip("this command fails: %s", command);
}

/* Mount options for a pool of this size, with the page size of the run. */
static inline const char *mount_options(const char *pool)
{
	const char *page = getenv("PAGE");
	static char options[64];

	snprintf(options, sizeof(options), "pool=%s,page=%s", pool, page ? page : "2M");
	return options;
}

/* On a kernel without hugemap, a bind mount shows what the lower file system does. */
static inline void mount_hugemap_or_bind(const char *options)
{
	if (mount(source_dir, mount_point, "hugemap", 0, options)) {
		EXPECT(errno == ENODEV, "mount -t hugemap -o %s: %s", options, strerror(errno));
		MUST(mount(source_dir, mount_point, NULL, MS_BIND, NULL));
	}
}

/* The path of the only file in a mount of a block device. */
static inline const char *device_file(void)
{
	static char path[1200];
	struct dirent *entry;
	DIR *dir = opendir(mount_point);

	EXPECT(dir, "opendir: %s", strerror(errno));
	while ((entry = readdir(dir)) && entry->d_name[0] == '.')
		;
	EXPECT(entry, "the mount of a device contains no file");
	snprintf(path, sizeof(path), "%s/%s", mount_point, entry->d_name);
	closedir(dir);
	return path;
}

#endif /* TESTS_KERNEL_MOUNTS_H */
