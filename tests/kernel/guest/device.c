// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * A remount makes the file of a mounted block device as long as the device has become.
 *
 * vm: lower=none modules=loop timeout=120
 */
#include "common.h"

#include <linux/loop.h>
#include <sys/ioctl.h>

static char mount_point[600], device[64], disk[700];

/* A loop device over @file; it detaches itself after its last use. */
static int make_loop(int file)
{
	int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC), nr, fd;
	struct loop_info64 info = { .lo_flags = LO_FLAGS_AUTOCLEAR };

	if (control < 0)
		skip("no loop devices here: %s", strerror(errno));
	nr = ioctl(control, LOOP_CTL_GET_FREE);
	EXPECT(nr >= 0, "LOOP_CTL_GET_FREE: %s", strerror(errno));
	close(control);
	snprintf(device, sizeof(device), "/dev/loop%d", nr);
	fd = open_file(device, O_RDWR);
	MUST(ioctl(fd, LOOP_SET_FD, file));
	MUST(ioctl(fd, LOOP_SET_STATUS64, &info));
	snprintf(mount_point, sizeof(mount_point), "%s/high", work_dir);
	snprintf(disk, sizeof(disk), "%s/loop%d", mount_point, nr);
	MUST(mkdir(mount_point, 0755));
	return fd;
}

static off_t size_of(int fd)
{
	struct stat st;

	MUST(fstat(fd, &st));
	return st.st_size;
}

static void check_device_that_grows(const char *options, size_t old, size_t size)
{
	int file = make_file("file", 1, old), loop, fd;
	unsigned char *map;

	MUST(fsync(file));
	loop = make_loop(file);
	EXPECT(!mount(device, mount_point, "hugemap", 0, options), "mount: %s", strerror(errno));
	fd = open_file(disk, O_RDWR);
	EXPECT(size_of(fd) == (off_t)old, "the size is %lld, expected %zu", (long long)size_of(fd),
	       old);
	map = map_shared(fd, 0, old);
	pattern(map, 2, 0, old);
	/* The new part of the device contains data; it must show neither zeros nor old bytes. */
	write_pattern(file, 1, old, size - old);
	MUST(fsync(file));
	MUST(ioctl(loop, LOOP_SET_CAPACITY, 0));
	EXPECT(!mount(NULL, mount_point, NULL, MS_REMOUNT, ""), "remount: %s", strerror(errno));
	EXPECT(size_of(fd) == (off_t)size, "the size is %lld, expected %zu", (long long)size_of(fd),
	       size);
	read_pattern("read of the old part", fd, 2, 0, old);
	read_pattern("read of the new part", fd, 1, old, size - old);
	expect_pattern("load by the old mapping", map, 2, 0, old);
	MUST(munmap(map, old));
	map = map_shared(fd, 0, size);
	expect_pattern("load of the new part", map + old, 1, old, size - old);
	pattern(map + old - 5, 3, old - 5, size - old + 5);
	MUST(msync(map, size, MS_SYNC));
	MUST(munmap(map, size));
	/* A device that shrinks does not shorten the file; the bytes that remain are kept. */
	MUST(ftruncate(file, (off_t)old));
	MUST(ioctl(loop, LOOP_SET_CAPACITY, 0));
	EXPECT(!mount(NULL, mount_point, NULL, MS_REMOUNT, ""), "remount: %s", strerror(errno));
	EXPECT(size_of(fd) == (off_t)size, "the size is %lld after the device shrank, expected %zu",
	       (long long)size_of(fd), size);
	close(fd);
	MUST(umount(mount_point));
	MUST(rmdir(mount_point));
	close(loop);
	read_pattern("read of the device", file, 2, 0, old - 5);
	read_pattern("read of the device", file, 3, old - 5, 5);
	close(file);
}

BEHAVIOUR(remount_follows_a_device_that_grows)
{
	static const char *const pages[] = { "pool=32M,page=2M", "pool=32M,page=4K" };
	unsigned int i;

	require_hugemap();
	for (i = 0; i < COUNT(pages); i++) {
		check_device_that_grows(pages[i], 3 * HUGE + 7 * SMALL, 9 * HUGE + SMALL);
		check_device_that_grows(pages[i], 2 * HUGE, 2 * HUGE + 3 * SMALL);
		check_device_that_grows(pages[i], 100 * SMALL, 4 * HUGE);
	}
}

RUN_BEHAVIOURS
