/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Device-mapper devices for tests, by the ioctls that dmsetup(8) uses.
 */
#ifndef TESTS_KERNEL_DM_H
#define TESTS_KERNEL_DM_H

#include "common.h"

#include <linux/dm-ioctl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>

#define SECTOR 512ull

/* One line of a table. */
struct dm_line {
	uint64_t start, length; /* sectors */
	const char *target;
	char params[256];
};

struct dm_request {
	struct dm_ioctl head;
	char data[16384];
};

static inline int dm_control(void)
{
	static int fd = -1;

	if (fd < 0)
		fd = open("/dev/mapper/control", O_RDWR | O_CLOEXEC);
	if (fd < 0)
		skip("no device mapper: %s", strerror(errno));
	return fd;
}

static inline struct dm_request *dm_request(const char *name)
{
	static struct dm_request request;

	memset(&request, 0, sizeof(request));
	request.head.version[0] = DM_VERSION_MAJOR;
	request.head.data_size = sizeof(request);
	request.head.data_start = sizeof(request.head);
	snprintf(request.head.name, sizeof(request.head.name), "%s", name);
	return &request;
}

static inline void dm_suspend(const char *name, bool suspend)
{
	struct dm_request *r = dm_request(name);

	/* Do not freeze and flush the file system on the device: the device may be failing. */
	r->head.flags = suspend ? DM_SUSPEND_FLAG | DM_SKIP_LOCKFS_FLAG | DM_NOFLUSH_FLAG : 0;
	EXPECT(!ioctl(dm_control(), DM_DEV_SUSPEND, r), "dm: %s %s: %s",
	       suspend ? "suspend" : "resume", name, strerror(errno));
}

static inline void dm_load(const char *name, const struct dm_line *lines, unsigned int n)
{
	struct dm_request *r = dm_request(name);
	char *at = r->data;
	unsigned int i;

	for (i = 0; i < n; i++) {
		struct dm_target_spec spec = {
			.sector_start = lines[i].start,
			.length = lines[i].length,
		};
		size_t len = (sizeof(spec) + strlen(lines[i].params) + 1 + 7) / 8 * 8;

		snprintf(spec.target_type, sizeof(spec.target_type), "%s", lines[i].target);
		spec.next = (uint32_t)len;
		EXPECT(at + len <= r->data + sizeof(r->data), "the dm table is too long");
		memcpy(at, &spec, sizeof(spec));
		strcpy(at + sizeof(spec), lines[i].params);
		at += len;
	}
	r->head.target_count = n;
	if (ioctl(dm_control(), DM_TABLE_LOAD, r)) {
		if (errno == EINVAL)
			skip("this kernel has no dm target %s", lines[0].target);
		FAIL("dm: load of %s: %s", name, strerror(errno));
	}
}

static inline void dm_remove(const char *name)
{
	unsigned int tries;

	/* A probe, or the completion of the last I/O, may keep it open for a moment. */
	for (tries = 0; tries < 100; tries++) {
		if (!ioctl(dm_control(), DM_DEV_REMOVE, dm_request(name)) || errno != EBUSY)
			break;
		usleep(50000);
	}
}

/* Returns the path of the new device. */
static inline const char *dm_create(const char *name, const struct dm_line *lines, unsigned int n)
{
	static char paths[4][64];
	static unsigned int turn;
	char *path = paths[turn++ % 4];
	struct dm_request *r;
	struct stat st;

	dm_remove(name);
	r = dm_request(name);
	EXPECT(!ioctl(dm_control(), DM_DEV_CREATE, r), "dm: create %s: %s", name, strerror(errno));
	snprintf(path, sizeof(paths[0]), "/dev/dm-%u", minor(r->head.dev));
	dm_load(name, lines, n);
	dm_suspend(name, false);
	EXPECT(!stat(path, &st), "%s: %s", path, strerror(errno));
	return path;
}

/* Replaces the table of a device that is in use. */
static inline void dm_change(const char *name, const struct dm_line *lines, unsigned int n)
{
	dm_load(name, lines, n);
	dm_suspend(name, true);
	dm_suspend(name, false);
}

static inline void dm_message(const char *name, const char *text)
{
	struct dm_request *r = dm_request(name);
	struct dm_target_msg *message = (struct dm_target_msg *)r->data;

	message->sector = 0;
	strcpy(message->message, text);
	EXPECT(!ioctl(dm_control(), DM_TARGET_MSG, r), "dm: message to %s: %s", name,
	       strerror(errno));
}

static inline uint64_t device_size(const char *path)
{
	int fd = open_file(path, O_RDONLY);
	uint64_t size = 0;

	MUST(ioctl(fd, BLKGETSIZE64, &size));
	close(fd);
	return size;
}

static inline struct dm_line dm_linear(uint64_t start, uint64_t length, const char *device,
				       uint64_t at)
{
	struct dm_line line = { start, length, "linear", "" };

	snprintf(line.params, sizeof(line.params), "%s %llu", device, (unsigned long long)at);
	return line;
}

static inline struct dm_line dm_error(uint64_t start, uint64_t length)
{
	return (struct dm_line){ start, length, "error", "" };
}

/* The target is always in its failing interval: writes fail or are dropped, reads work. */
static inline struct dm_line dm_flakey(uint64_t start, uint64_t length, const char *device,
				       uint64_t at, const char *feature)
{
	struct dm_line line = { start, length, "flakey", "" };

	snprintf(line.params, sizeof(line.params), "%s %llu 0 3600 1 %s", device,
		 (unsigned long long)at, feature);
	return line;
}

#endif /* TESTS_KERNEL_DM_H */
