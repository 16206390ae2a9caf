// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * A mount whose lower file system is an overlayfs: the time of a file does not change after
 * its last close, write-back leaves no freeze protection behind, and layers without direct
 * I/O work.
 *
 * vm: lower=none modules=overlay timeout=120
 */
#include "common.h"

#include <linux/fs.h>
#include <sys/ioctl.h>

static char base[600];

static const char *in(const char *name)
{
	return path_in(base, name);
}

/* @type: the type of a new file system for the layers; NULL: the one of SCRATCH. */
static void mount_over_overlay(const char *type)
{
	static const char *const dirs[] = { "low", "up", "work", "merged", "at" };
	unsigned int i;
	char options[2000];

	require_hugemap();
	snprintf(base, sizeof(base), "%s/overlaid-%d", getenv("SCRATCH"), (int)getpid());
	MUST(mkdir(base, 0755));
	if (type)
		MUST(mount(type, base, type, 0, NULL));
	for (i = 0; i < COUNT(dirs); i++)
		MUST(mkdir(in(dirs[i]), 0755));
	close(make_file(in("low/f"), 1, 3 * SMALL));
	snprintf(options, sizeof(options), "lowerdir=%s,upperdir=%s,workdir=%s", in("low"),
		 in("up"), in("work"));
	if (mount("overlay", in("merged"), "overlay", 0, options))
		skip("no overlayfs: %s", strerror(errno));
	MUST(mount(in("merged"), in("at"), "hugemap", 0, "pool=64M"));
}

static void unmount_overlay(const char *type)
{
	MUST(umount(in("at")));
	MUST(umount(in("merged")));
	if (type)
		MUST(umount(base));
	remove_tree(base);
}

static time_t mtime_of(const char *name)
{
	struct stat st;

	MUST(stat(in(name), &st));
	return st.st_mtime;
}

/* overlayfs sets the time when data is written, so write-back must not come after the close. */
BEHAVIOUR(time_of_a_file_does_not_change_after_its_last_close)
{
	const struct timespec old[2] = { { .tv_sec = 1000000000 }, { .tv_sec = 1000000000 } };
	unsigned char *map;
	time_t after;
	int fd;

	mount_over_overlay(NULL);
	fd = open_file(in("at/f"), O_RDWR);
	write_pattern(fd, 2, 0, SMALL);
	MUST(fsync(fd));
	MUST(futimens(fd, old));
	EXPECT(mtime_of("at/f") == 1000000000, "futimens did not set the time");
	write_pattern(fd, 3, 0, SMALL);
	close(fd);
	after = mtime_of("at/f");
	EXPECT(after > 1000000000, "the write did not change the time");
	sleep(1);
	sync();
	EXPECT(mtime_of("at/f") == after, "the time changed after the close");
	/* A store to a mapping after close() sets the time at munmap(). */
	MUST(utimensat(AT_FDCWD, in("at/f"), old, 0));
	fd = open_file(in("at/f"), O_RDWR);
	map = map_shared(fd, 0, 3 * SMALL);
	close(fd);
	pattern(map, 4, 0, SMALL);
	MUST(munmap(map, 3 * SMALL));
	after = mtime_of("at/f");
	EXPECT(after > 1000000000, "the store did not change the time");
	sleep(1);
	sync();
	EXPECT(mtime_of("at/f") == after, "the time changed after the munmap");
	fd = open_file(in("merged/f"), O_RDONLY);
	read_pattern("read of the overlay", fd, 4, 0, SMALL);
	close(fd);
	unmount_overlay(NULL);
}

/* FIFREEZE would wait for a freeze protection of the upper layer that write-back leaked. */
BEHAVIOUR(file_system_of_the_layers_can_be_frozen_after_writes)
{
	int fd, dir;

	mount_over_overlay(NULL);
	fd = make_file(in("at/g"), 1, HUGE + 100);
	MUST(fsync(fd));
	close(fd);
	dir = open_file(base, O_RDONLY | O_DIRECTORY);
	if (ioctl(dir, FIFREEZE, 0))
		skip("FIFREEZE: %s", strerror(errno));
	MUST(ioctl(dir, FITHAW, 0));
	close(dir);
	unmount_overlay(NULL);
}

/* Files of an overlay accept O_DIRECT, but their I/O fails on a layer of tmpfs before 6.6. */
BEHAVIOUR(layers_without_direct_io_use_the_page_cache)
{
	unsigned char *map;
	int fd;

	mount_over_overlay("tmpfs");
	fd = open_file(in("at/f"), O_RDONLY);
	read_pattern("read of the lower layer", fd, 1, 0, 3 * SMALL);
	close(fd);
	fd = make_file(in("at/new"), 5, HUGE + 3 * SMALL + 100);
	MUST(fsync(fd));
	map = map_shared(fd, 0, HUGE);
	expect_pattern("load from the upper layer", map, 5, 0, HUGE);
	pattern(map, 6, 0, HUGE);
	MUST(msync(map, HUGE, MS_SYNC));
	MUST(munmap(map, HUGE));
	close(fd);
	fd = open_file(in("merged/new"), O_RDONLY);
	read_pattern("read of the overlay", fd, 6, 0, HUGE);
	close(fd);
	unmount_overlay("tmpfs");
}

RUN_BEHAVIOURS
