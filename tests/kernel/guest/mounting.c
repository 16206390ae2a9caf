// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Mounting and unmounting: options that are refused in words and leave nothing
 * behind, changes while mounted, and above all what is stored when the mount goes.
 *
 * vm: lower=none timeout=180
 */
#include "mounts.h"

#include <sys/syscall.h>

#ifndef SYS_fsopen
#define SYS_fsopen 430
#define SYS_fsconfig 431
#define SYS_fsmount 432
#endif
#ifndef FSCONFIG_SET_STRING
#define FSCONFIG_SET_STRING 1
#define FSCONFIG_CMD_CREATE 6
#endif

static bool is_mounted(const char *where)
{
	FILE *file = fopen("/proc/mounts", "r");
	bool found = false;
	char line[4096], at[1024];

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "%*s %1023s", at) == 1 && !strcmp(at, where))
			found = true;
	if (file)
		fclose(file);
	return found;
}

static int try_mount(const char *options, unsigned long flags)
{
	return mount(source_dir, mount_point, "hugemap", flags, options);
}

static void must_mount(const char *options)
{
	EXPECT(!try_mount(options, 0), "mount -o %s: %s", options, strerror(errno));
}

/* What a path in the mount is called. */
static const char *in(const char *dir, const char *name)
{
	static char paths[4][1200];
	static unsigned int turn;
	char *path = paths[turn++ % 4];

	snprintf(path, sizeof(paths[0]), "%s/%s", dir, name);
	return path;
}

static void expect_file(const char *how, const char *path, uint64_t seed, size_t len)
{
	int fd = open_file(path, O_RDONLY);
	struct stat st;

	MUST(fstat(fd, &st));
	EXPECT((size_t)st.st_size == len, "%s: %lld bytes, expected %zu", how,
	       (long long)st.st_size, len);
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	read_pattern(how, fd, seed, 0, len);
	close(fd);
}

BEHAVIOUR(refused_options)
{
	static const char *const wrong[] = {
		"pool=0",
		"pool=1",
		"pool=3G3",
		"pool=-1",
		"pool=",
		"pool=99999999T",
		"pool=18446744073709551615",
		"page=8K",
		"page=",
		"page",
		"pool_min=",
		"pool_min=half",
		"pool_min=-1",
		"pool_min=0%",
		"pool_min=101%",
		"dirty_ratio=0",
		"dirty_ratio=101",
		"dirty_ratio=x",
		"evict_batch=0",
		"promote_interval=9",
		"promote_interval=3600001",
		"promote_batch=0",
		"promote_batch=65537",
		"evict_batch=-4",
		"priority=2",
		"priority=-2",
		"node=4096",
		"node=-7",
		"nonsense=1",
		"nonsense",
		"pool=64M,page=3M",
		"pool=64M,pool=0",
		"readahead=-1",
		"readahead=9999999999999999999999",
	};
	unsigned int i;

	require_mount_dirs();
	for (i = 0; i < COUNT(wrong); i++) {
		errno = 0;
		EXPECT(try_mount(wrong[i], 0) < 0, "mount -o %s was allowed", wrong[i]);
		EXPECT(errno == EINVAL || errno == ENOMEM || errno == ERANGE,
		       "mount -o %s: %s, expected EINVAL", wrong[i], strerror(errno));
		EXPECT(!is_mounted(mount_point), "mount -o %s failed, but something is mounted",
		       wrong[i]);
	}
	/* And after all that it still mounts. */
	must_mount("pool=16M");
	MUST(umount(mount_point));
	EXPECT(mount("/nowhere/at/all", mount_point, "hugemap", 0, "pool=16M") < 0 &&
		       errno == ENOENT,
	       "a source that is missing: %s", strerror(errno));
	close(open_file(in(work_dir, "plain"), O_RDWR | O_CREAT));
	EXPECT(mount(in(work_dir, "plain"), mount_point, "hugemap", 0, "pool=16M") < 0,
	       "a plain file was mounted");
	EXPECT(mount("/dev/null", mount_point, "hugemap", 0, "pool=16M") < 0,
	       "/dev/null was mounted");
	EXPECT(mount("none", mount_point, "hugemap", 0, "pool=16M") < 0, "\"none\" was mounted");
	EXPECT(mount("", mount_point, "hugemap", 0, "pool=16M") < 0, "\"\" was mounted");
	EXPECT(!is_mounted(mount_point), "one of them left something");
}

/* The reason comes in words, through the context that was asked. */
BEHAVIOUR(reasons_in_words)
{
	char words[1024] = "", line[512];
	ssize_t n;
	int fs;

	require_hugemap();
	fs = (int)syscall(SYS_fsopen, "hugemap", 0);
	EXPECT(fs >= 0, "fsopen: %s", strerror(errno));
	EXPECT(syscall(SYS_fsconfig, fs, FSCONFIG_SET_STRING, "dirty_ratio", "4711", 0) < 0 ||
		       (syscall(SYS_fsconfig, fs, FSCONFIG_SET_STRING, "source", lower_dir, 0) ==
				0 &&
			syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0),
	       "dirty_ratio=4711 was allowed");
	while ((n = read(fs, line, sizeof(line) - 1)) > 0) {
		line[n] = 0;
		strncat(words, line, sizeof(words) - strlen(words) - 1);
	}
	EXPECT(strstr(words, "dirty_ratio"), "the reason does not name the option: \"%s\"", words);
	close(fs);
}

static void setting(const char *name, char *value, size_t size)
{
	char path[256];
	struct stat st;
	int fd;
	ssize_t n;

	MUST(stat(mount_point, &st));
	snprintf(path, sizeof(path), "/sys/fs/hugemap/%u:%u/%s", major(st.st_dev), minor(st.st_dev),
		 name);
	fd = open_file(path, O_RDONLY);
	n = read(fd, value, size - 1);
	EXPECT(n >= 0, "read of %s: %s", path, strerror(errno));
	value[n] = 0;
	value[strcspn(value, "\n")] = 0;
	close(fd);
}

static void expect_setting(const char *name, const char *wanted)
{
	char value[128];

	setting(name, value, sizeof(value));
	EXPECT(!strcmp(value, wanted), "%s is %s, expected %s", name, value, wanted);
}

/* With data in the pool, dirty and clean, mapped: none of it is lost. */
BEHAVIOUR(remount)
{
	unsigned char *map;
	int fd;

	require_mount_dirs();
	must_mount("pool=32M,page=2M,dirty_ratio=60");
	expect_setting("dirty_ratio", "60");
	expect_setting("pool_bytes", "33554432");
	fd = make_file(in(mount_point, "f"), 1, 12 * HUGE);
	map = map_shared(fd, 0, 12 * HUGE);
	pattern(map, 2, 0, 12 * HUGE);
	EXPECT(!mount(NULL, mount_point, NULL, MS_REMOUNT, "pool=64M,dirty_ratio=30"),
	       "growing: %s", strerror(errno));
	expect_setting("pool_bytes", "67108864");
	expect_setting("dirty_ratio", "30");
	expect_setting("page", "2M");
	expect_pattern("load after growing", map, 2, 0, 12 * HUGE);
	EXPECT(!mount(NULL, mount_point, NULL, MS_REMOUNT, "pool=8M"), "shrinking: %s",
	       strerror(errno));
	expect_setting("pool_bytes", "8388608");
	expect_pattern("load after shrinking", map, 2, 0, 12 * HUGE);
	pattern(map, 3, 0, 12 * HUGE);
	EXPECT(mount(NULL, mount_point, NULL, MS_REMOUNT, "dirty_ratio=0") < 0,
	       "dirty_ratio=0 was taken");
	expect_setting("dirty_ratio", "30");
	EXPECT(mount(NULL, mount_point, NULL, MS_REMOUNT, "pool=64M,nonsense=1") < 0,
	       "an unknown option was taken");
	expect_setting("pool_bytes", "8388608");
	expect_pattern("load after a refused remount", map, 3, 0, 12 * HUGE);
	MUST(munmap(map, 12 * HUGE));
	close(fd);
	MUST(umount(mount_point));
	expect_file("below after unmount", in(source_dir, "f"), 3, 12 * HUGE);
}

/* Who takes long to change one setting does not put the others back. */
BEHAVIOUR(two_remounts)
{
	int fd;

	make_mount_dirs();
	must_mount("pool=32M,dirty_ratio=60,evict_batch=8");
	expect_setting("page", "auto");
	fd = (int)syscall(SYS_fspick, AT_FDCWD, mount_point, FSPICK_CLOEXEC);
	EXPECT(fd >= 0, "fspick: %s", strerror(errno));
	MUST(syscall(SYS_fsconfig, fd, FSCONFIG_SET_STRING, "evict_batch", "4", 0));
	MUST(mount(NULL, mount_point, NULL, MS_REMOUNT, "pool=64M,dirty_ratio=30"));
	MUST(syscall(SYS_fsconfig, fd, FSCONFIG_CMD_RECONFIGURE, NULL, NULL, 0));
	close(fd);
	expect_setting("evict_batch", "4");
	expect_setting("dirty_ratio", "30");
	expect_setting("pool_bytes", "67108864");
	MUST(umount(mount_point));
}

BEHAVIOUR(read_only)
{
	unsigned char *map;
	int fd;

	require_mount_dirs();
	close(make_file(in(source_dir, "f"), 1, HUGE + 5));
	EXPECT(!try_mount("pool=16M", MS_RDONLY), "mount: %s", strerror(errno));
	fd = open_file(in(mount_point, "f"), O_RDONLY);
	map = map_file(fd, 0, HUGE + 5, PROT_READ, MAP_SHARED);
	expect_pattern("load from a read-only mount", map, 1, 0, HUGE + 5);
	EXPECT_ERRNO(open(in(mount_point, "f"), O_RDWR), EROFS);
	EXPECT_ERRNO(open(in(mount_point, "g"), O_RDWR | O_CREAT, 0644), EROFS);
	EXPECT_ERRNO(truncate(in(mount_point, "f"), 0), EROFS);
	EXPECT_ERRNO(unlink(in(mount_point, "f")), EROFS);
	EXPECT_ERRNO(chmod(in(mount_point, "f"), 0600), EROFS);
	EXPECT_ERRNO(mkdir(in(mount_point, "d"), 0755), EROFS);
	MUST(mount(NULL, mount_point, NULL, MS_REMOUNT, ""));
	close(fd);
	MUST(munmap(map, HUGE + 5));
	fd = open_file(in(mount_point, "f"), O_RDWR);
	map = map_shared(fd, 0, HUGE + 5);
	pattern(map, 2, 0, HUGE + 5);
	/* A writer keeps it from going back. */
	EXPECT_ERRNO(mount(NULL, mount_point, NULL, MS_REMOUNT | MS_RDONLY, ""), EBUSY);
	MUST(munmap(map, HUGE + 5));
	close(fd);
	MUST(mount(NULL, mount_point, NULL, MS_REMOUNT | MS_RDONLY, ""));
	/* Read-only, everything is where it belongs. */
	expect_file("below after a read-only remount", in(source_dir, "f"), 2, HUGE + 5);
	MUST(umount(mount_point));
}

/* Nothing is synced: the unmount itself writes. */
BEHAVIOUR(unmount_writes)
{
	static const char *const pages[] = { "2M", "4K" };
	unsigned int i, j;

	require_mount_dirs();
	for (i = 0; i < 2; i++) {
		char options[64];

		snprintf(options, sizeof(options), "pool=24M,page=%s", pages[i]);
		must_mount(options);
		for (j = 0; j < 20; j++) {
			size_t len = j * 1234567 % (3 * HUGE) + 1;
			char name[16];
			unsigned char *map;
			int fd;

			snprintf(name, sizeof(name), "f%u", j);
			fd = make_file(in(mount_point, name), j, len);
			map = map_shared(fd, 0, len);
			pattern(map, 100 + j, 0, len);
			MUST(munmap(map, len));
			close(fd);
		}
		MUST(umount(mount_point));
		for (j = 0; j < 20; j++) {
			char name[16];

			snprintf(name, sizeof(name), "f%u", j);
			expect_file("below after unmount", in(source_dir, name), 100 + j,
				    j * 1234567 % (3 * HUGE) + 1);
		}
		must_mount(options);
		for (j = 0; j < 20; j++) {
			char name[16];

			snprintf(name, sizeof(name), "f%u", j);
			expect_file("after mounting again", in(mount_point, name), 100 + j,
				    j * 1234567 % (3 * HUGE) + 1);
		}
		MUST(umount(mount_point));
	}
}

struct load {
	struct turns turns;
};

static void loader(void *arg)
{
	struct load *load = arg;
	int fd = open_file(in(mount_point, "f"), O_RDWR | O_CREAT);
	unsigned char *map;
	uint64_t round;

	MUST(ftruncate(fd, 12 * HUGE));
	map = map_shared(fd, 0, 12 * HUGE);
	close(fd);
	for (round = 0;; round++) {
		pattern(map, round, 0, 12 * HUGE);
		if (!round)
			turn_give(load->turns.to_parent);
	}
}

BEHAVIOUR(unmount_under_load)
{
	unsigned long last;
	struct load load;
	unsigned int i;
	int status, fd;
	pid_t pid;
	unsigned char *map, *want = buffer(SMALL);

	require_mount_dirs();
	must_mount("pool=16M");
	turns_init(&load.turns);
	pid = start_child(loader, &load);
	turn_take(load.turns.to_parent);
	for (i = 0; i < 50; i++)
		EXPECT_ERRNO(umount(mount_point), EBUSY);
	/* A module in use stays. */
	EXPECT(syscall(SYS_delete_module, "hugemap", O_NONBLOCK) < 0 &&
		       (errno == EWOULDBLOCK || errno == EBUSY || errno == ENOENT ||
			errno == ENOSYS),
	       "the module was removed while mounted: %s", strerror(errno));
	MUST(kill(pid, SIGKILL));
	MUST(waitpid(pid, &status, 0));
	/* What it had stored when it died, by a look through the mount. */
	fd = open_file(in(mount_point, "f"), O_RDONLY);
	map = map_file(fd, 0, 12 * HUGE, PROT_READ, MAP_SHARED);
	memcpy(&last, map, sizeof(last));
	close(fd);
	fd = open_file(in(work_dir, "copy"), O_RDWR | O_CREAT);
	EXPECT(write(fd, map, 12 * HUGE) == 12 * HUGE, "write of a copy: %s", strerror(errno));
	MUST(munmap(map, 12 * HUGE));
	MUST(umount(mount_point));
	map = map_file(fd, 0, 12 * HUGE, PROT_READ, MAP_SHARED);
	close(fd);
	fd = open_file(in(source_dir, "f"), O_RDONLY);
	for (i = 0; i < 12 * HUGE / SMALL; i++) {
		EXPECT(pread(fd, want, SMALL, (off_t)(i * SMALL)) == SMALL, "read below: %s",
		       strerror(errno));
		EXPECT(!memcmp(want, map + i * SMALL, SMALL),
		       "page %u below is not what was last seen in the mount", i);
	}
}

/* Detached while in use: it goes on working, and writes when it ends. */
BEHAVIOUR(lazy_unmount)
{
	unsigned char *map;
	int fd, tries;

	require_mount_dirs();
	must_mount("pool=16M");
	fd = make_file(in(mount_point, "f"), 1, 3 * HUGE);
	map = map_shared(fd, 0, 3 * HUGE);
	MUST(umount2(mount_point, MNT_DETACH));
	EXPECT(!is_mounted(mount_point), "it is still mounted");
	pattern(map, 2, 0, 3 * HUGE);
	MUST(fsync(fd));
	expect_file("below after fsync in a detached mount", in(source_dir, "f"), 2, 3 * HUGE);
	pattern(map, 3, 0, 3 * HUGE);
	MUST(munmap(map, 3 * HUGE));
	MUST(close(fd));
	/* The last user is gone. Its end is not ours to wait for but in turns. */
	for (tries = 0; tries < 200; tries++) {
		unsigned char first[8], want[8];

		fd = open_file(in(source_dir, "f"), O_RDONLY);
		pattern(want, 3, 3 * HUGE - 8, 8);
		if (pread(fd, first, 8, 3 * HUGE - 8) == 8 && !memcmp(first, want, 8))
			break;
		close(fd);
		usleep(50000);
	}
	expect_file("below after a detached mount ended", in(source_dir, "f"), 3, 3 * HUGE);
}

/* Two mounts of one directory have two caches: refused, or they agree. */
BEHAVIOUR(mounted_twice)
{
	char second[600];
	int a, b;

	require_mount_dirs();
	snprintf(second, sizeof(second), "%s/second", work_dir);
	MUST(mkdir(second, 0755));
	must_mount("pool=16M");
	if (mount(source_dir, second, "hugemap", 0, "pool=16M")) {
		EXPECT(errno == EBUSY, "a second mount: %s, expected EBUSY", strerror(errno));
		MUST(umount(mount_point));
		return;
	}
	a = make_file(in(mount_point, "f"), 1, HUGE);
	b = open_file(in(second, "f"), O_RDWR);
	read_pattern("read by the second mount", b, 1, 0, HUGE);
	write_pattern(b, 2, 0, HUGE);
	read_pattern("read by the first mount", a, 2, 0, HUGE);
	close(a);
	close(b);
	MUST(umount(second));
	MUST(umount(mount_point));
}

/* One on the other: refused, or it works. */
BEHAVIOUR(stacked)
{
	unsigned char *map;
	char top[600];
	int fd;

	require_mount_dirs();
	snprintf(top, sizeof(top), "%s/top", work_dir);
	MUST(mkdir(top, 0755));
	must_mount("pool=16M");
	if (mount(mount_point, top, "hugemap", 0, "pool=16M")) {
		EXPECT(errno == EINVAL || errno == ELOOP || errno == EBUSY || errno == EOPNOTSUPP,
		       "a mount on a mount: %s", strerror(errno));
	} else {
		fd = make_file(in(top, "f"), 1, 2 * HUGE + 7);
		map = map_shared(fd, 0, 2 * HUGE + 7);
		pattern(map, 2, 0, 2 * HUGE + 7);
		MUST(munmap(map, 2 * HUGE + 7));
		close(fd);
		MUST(umount(top));
	}
	MUST(umount(mount_point));
}

/* A bind mount, and a file system below that moves: the mount keeps what it has. */
BEHAVIOUR(below_is_renamed)
{
	int fd;

	require_mount_dirs();
	must_mount("pool=16M");
	fd = make_file(in(mount_point, "f"), 1, HUGE);
	MUST(rename(source_dir, in(work_lower, "moved")));
	write_pattern(fd, 2, 0, HUGE);
	MUST(fsync(fd));
	close(fd);
	fd = make_file(in(mount_point, "g"), 3, 100);
	close(fd);
	MUST(umount(mount_point));
	expect_file("below, moved", in(work_lower, "moved/f"), 2, HUGE);
	expect_file("below, moved", in(work_lower, "moved/g"), 3, 100);
}

RUN_BEHAVIOURS
