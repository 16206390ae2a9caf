// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * A mount over an overlayfs, which sets the time of a change when it is written, whatever
 * it is told.
 *
 * vm: lower=none modules=overlay timeout=120
 */
#include "common.h"

#include <linux/fs.h>
#include <sys/ioctl.h>

static char base[600];

static const char *in(const char *name)
{
	static char paths[4][700];
	static unsigned int turn;
	char *path = paths[turn++ % 4];

	snprintf(path, sizeof(paths[0]), "%s/%s", base, name);
	return path;
}

/* @type: of a file system of its own for the layers. */
static void start(const char *type)
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
		skip("no overlay: %s", strerror(errno));
	MUST(mount(in("merged"), in("at"), "hugemap", 0, "pool=64M"));
}

static void end(const char *type)
{
	MUST(umount(in("at")));
	MUST(umount(in("merged")));
	if (type)
		MUST(umount(base));
	remove_tree(base);
}

static time_t changed(const char *name)
{
	struct stat st;

	MUST(stat(in(name), &st));
	return st.st_mtime;
}

BEHAVIOUR(times_of_changes)
{
	const struct timespec old[2] = { { .tv_sec = 1000000000 }, { .tv_sec = 1000000000 } };
	unsigned char *map;
	time_t after;
	int fd;

	start(NULL);
	fd = open_file(in("at/f"), O_RDWR);
	write_pattern(fd, 2, 0, SMALL);
	MUST(fsync(fd));
	MUST(futimens(fd, old));
	EXPECT(changed("at/f") == 1000000000, "the time cannot be set");
	write_pattern(fd, 3, 0, SMALL);
	close(fd);
	after = changed("at/f");
	EXPECT(after > 1000000000, "the file has the time from before it was written");
	sleep(1);
	sync();
	EXPECT(changed("at/f") == after, "the file has changed after it was closed");
	/* The same by way of a mapping. */
	MUST(utimensat(AT_FDCWD, in("at/f"), old, 0));
	fd = open_file(in("at/f"), O_RDWR);
	map = map_shared(fd, 0, 3 * SMALL);
	close(fd);
	pattern(map, 4, 0, SMALL);
	MUST(munmap(map, 3 * SMALL));
	after = changed("at/f");
	EXPECT(after > 1000000000, "the file has the time from before it was stored to");
	sleep(1);
	sync();
	EXPECT(changed("at/f") == after, "the file has changed after it was unmapped");
	fd = open_file(in("merged/f"), O_RDONLY);
	read_pattern("read below", fd, 4, 0, SMALL);
	close(fd);
	end(NULL);
}

/* What was written through an overlay holds nothing of what lies below that. */
BEHAVIOUR(freeze_after_writes)
{
	int fd, dir;

	start(NULL);
	fd = make_file(in("at/g"), 1, HUGE + 100);
	MUST(fsync(fd));
	close(fd);
	dir = open_file(base, O_RDONLY | O_DIRECTORY);
	if (ioctl(dir, FIFREEZE, 0))
		skip("it cannot be frozen: %s", strerror(errno));
	MUST(ioctl(dir, FITHAW, 0));
	close(dir);
	end(NULL);
}

/*
 * An overlay's files promise direct I/O, and refuse it where the layer has none: tmpfs
 * before 6.6.
 */
BEHAVIOUR(layers_without_direct_io)
{
	unsigned char *map;
	int fd;

	start("tmpfs");
	/* Of the lower layer, and of the upper one. */
	fd = open_file(in("at/f"), O_RDONLY);
	read_pattern("read of the lower layer", fd, 1, 0, 3 * SMALL);
	close(fd);
	fd = make_file(in("at/new"), 5, HUGE + 3 * SMALL + 100);
	MUST(fsync(fd));
	map = map_shared(fd, 0, HUGE);
	expect_pattern("mapping of the upper layer", map, 5, 0, HUGE);
	pattern(map, 6, 0, HUGE);
	MUST(msync(map, HUGE, MS_SYNC));
	MUST(munmap(map, HUGE));
	close(fd);
	fd = open_file(in("merged/new"), O_RDONLY);
	read_pattern("read below", fd, 6, 0, HUGE);
	close(fd);
	end("tmpfs");
}

RUN_BEHAVIOURS
