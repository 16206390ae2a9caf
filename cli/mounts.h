/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Mounts of the kernel engine, from sysfs. */
#ifndef CLI_MOUNTS_H
#define CLI_MOUNTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define MOUNTS_SYSFS "/sys/fs/hugemap"

/*
 * The counters and current values of a mount. include/hugemap_counters.def describes each;
 * mount_count_names[] has the names of their files in sysfs.
 */
enum mount_count {
#define HUGEMAP_GAUGE(id, name, help) MOUNT_##id,
#define HUGEMAP_CORE(id, name, help) MOUNT_##id,
#define HUGEMAP_MODULE(id, name, help) MOUNT_##id,
#include "hugemap_counters.def"
	MOUNT_COUNTS,
};

extern const char *const mount_count_names[MOUNT_COUNTS];

/* The latencies of a mount, with their names, from the same list. */
enum mount_histogram {
#define HUGEMAP_LATENCY(id, name, help) MOUNT_##id,
#include "hugemap_counters.def"
	MOUNT_HISTOGRAMS,
};

extern const char *const mount_histogram_names[MOUNT_HISTOGRAMS];

/* A distribution of latencies, in nanoseconds. */
struct mount_latency {
	uint64_t count;
	uint64_t p50, p90, p99, p999, max;
};

/**
 * struct mount_numbers - a mount's statistics
 * @pool_bytes: size of its pool
 * @count: see enum mount_count
 * @latency: see enum mount_histogram
 * @mappings: mappings of its files; this and the next three are filled in by users_add_up()
 * @mapped_bytes: length of these mappings
 * @huge_pages: 2 MB pages in page tables
 * @base_pages: 4 KB pages in page tables
 */
struct mount_numbers {
	uint64_t pool_bytes;
	uint64_t count[MOUNT_COUNTS];
	struct mount_latency latency[MOUNT_HISTOGRAMS];
	uint64_t mappings;
	uint64_t mapped_bytes;
	uint64_t huge_pages;
	uint64_t base_pages;
};

#define MOUNT_SETTINGS 12
extern const char *const mount_setting_names[MOUNT_SETTINGS];

/**
 * struct mount - a mount of the kernel engine
 * @dev: st_dev of its files
 * @dir: the mount point; "" = not in this mount name space
 * @source: the directory or device that is mounted; "" = not in this mount name space
 * @setting: the texts in sysfs, in the order of mount_setting_names
 */
struct mount {
	dev_t dev;
	char dir[4096];
	char source[4096];
	char setting[MOUNT_SETTINGS][16];
};

/**
 * mount_open() - find the mount that a file is on
 * @path: any file or directory there
 * @mount: filled in
 *
 * Return: 0; -ENODEV if it is on no mount of HugeMap; or -errno of @path.
 */
int mount_open(const char *path, struct mount *mount);

/* Read the numbers; -ENODEV: the mount is gone, -EPROTO: the module has another version. */
int mount_read(const struct mount *mount, struct mount_numbers *numbers);

/* Call @visit for each mount; returns the number of mounts. */
unsigned int mount_each(void (*visit)(const struct mount *mount, void *arg), void *arg);

#endif /* CLI_MOUNTS_H */
