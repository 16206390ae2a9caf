// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Mount, remount and unmount: invalid options are refused with a message and leave nothing
 * behind, a remount changes only the settings that it names, and an unmount writes back all
 * dirty pages.
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

static void expect_file(const char *how, const char *path, uint64_t seed, size_t len)
{
	int fd = open_file(path, O_RDONLY);
	struct stat st;

	MUST(fstat(fd, &st));
	EXPECT((size_t)st.st_size == len, "%s: %lld bytes, expected %zu", how,
	       (long long)st.st_size, len);
	close(fd);
	read_file_pattern(how, path, seed, 0, len);
}

BEHAVIOUR(invalid_options_and_sources_are_refused_and_leave_nothing_behind)
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
		EXPECT(try_mount(wrong[i], 0) < 0, "mount -o %s succeeded", wrong[i]);
		EXPECT(errno == EINVAL || errno == ENOMEM || errno == ERANGE,
		       "mount -o %s: %s, expected EINVAL", wrong[i], strerror(errno));
		EXPECT(!is_mounted(mount_point), "mount -o %s failed, but something is mounted",
		       wrong[i]);
	}
	/* Valid options still work. */
	must_mount("pool=16M");
	MUST(umount(mount_point));
	EXPECT(mount("/nowhere/at/all", mount_point, "hugemap", 0, "pool=16M") < 0 &&
		       errno == ENOENT,
	       "mount of a missing source: %s", strerror(errno));
	close(open_file(path_in(work_dir, "plain"), O_RDWR | O_CREAT));
	EXPECT(mount(path_in(work_dir, "plain"), mount_point, "hugemap", 0, "pool=16M") < 0,
	       "a plain file was mounted");
	EXPECT(mount("/dev/null", mount_point, "hugemap", 0, "pool=16M") < 0,
	       "/dev/null was mounted");
	EXPECT(mount("none", mount_point, "hugemap", 0, "pool=16M") < 0, "\"none\" was mounted");
	EXPECT(mount("", mount_point, "hugemap", 0, "pool=16M") < 0, "\"\" was mounted");
	EXPECT(!is_mounted(mount_point), "a refused mount left something behind");
}

/* The file system context returns the message to its reader. */
BEHAVIOUR(error_message_names_the_wrong_option)
{
	char message[1024] = "", line[512];
	ssize_t n;
	int fs;

	require_hugemap();
	fs = (int)syscall(SYS_fsopen, "hugemap", 0);
	EXPECT(fs >= 0, "fsopen: %s", strerror(errno));
	EXPECT(syscall(SYS_fsconfig, fs, FSCONFIG_SET_STRING, "dirty_ratio", "4711", 0) < 0 ||
		       (syscall(SYS_fsconfig, fs, FSCONFIG_SET_STRING, "source", lower_dir, 0) ==
				0 &&
			syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0),
	       "dirty_ratio=4711 was accepted");
	while ((n = read(fs, line, sizeof(line) - 1)) > 0) {
		line[n] = 0;
		strncat(message, line, sizeof(message) - strlen(message) - 1);
	}
	EXPECT(strstr(message, "dirty_ratio"), "the message does not name the option: \"%s\"",
	       message);
	close(fs);
}

static void expect_setting(const char *name, const char *wanted)
{
	int fd = open_file(sysfs_path(mount_point, name), O_RDONLY);
	char value[128];
	ssize_t n;

	n = read(fd, value, sizeof(value) - 1);
	EXPECT(n >= 0, "read of %s: %s", name, strerror(errno));
	close(fd);
	value[n] = 0;
	value[strcspn(value, "\n")] = 0;
	EXPECT(!strcmp(value, wanted), "%s is %s, expected %s", name, value, wanted);
}

/* The pool contains mapped pages, dirty and clean. */
BEHAVIOUR(remount_resizes_the_pool_and_loses_no_data)
{
	unsigned char *map;
	int fd;

	require_mount_dirs();
	must_mount("pool=32M,page=2M,dirty_ratio=60");
	expect_setting("dirty_ratio", "60");
	expect_setting("pool_bytes", "33554432");
	fd = make_file(path_in(mount_point, "f"), 1, 12 * HUGE);
	map = map_shared(fd, 0, 12 * HUGE);
	pattern(map, 2, 0, 12 * HUGE);
	EXPECT(!mount(NULL, mount_point, NULL, MS_REMOUNT, "pool=64M,dirty_ratio=30"),
	       "remount with a larger pool: %s", strerror(errno));
	expect_setting("pool_bytes", "67108864");
	expect_setting("dirty_ratio", "30");
	expect_setting("page", "2M");
	expect_pattern("load after growing", map, 2, 0, 12 * HUGE);
	EXPECT(!mount(NULL, mount_point, NULL, MS_REMOUNT, "pool=8M"),
	       "remount with a smaller pool: %s", strerror(errno));
	expect_setting("pool_bytes", "8388608");
	expect_pattern("load after shrinking", map, 2, 0, 12 * HUGE);
	pattern(map, 3, 0, 12 * HUGE);
	EXPECT(mount(NULL, mount_point, NULL, MS_REMOUNT, "dirty_ratio=0") < 0,
	       "dirty_ratio=0 was accepted");
	expect_setting("dirty_ratio", "30");
	EXPECT(mount(NULL, mount_point, NULL, MS_REMOUNT, "pool=64M,nonsense=1") < 0,
	       "an unknown option was accepted");
	expect_setting("pool_bytes", "8388608");
	expect_pattern("load after a refused remount", map, 3, 0, 12 * HUGE);
	MUST(munmap(map, 12 * HUGE));
	close(fd);
	MUST(umount(mount_point));
	expect_file("lower file after unmount", path_in(source_dir, "f"), 3, 12 * HUGE);
}

/*
 * fspick(2) reads the settings at its start. A remount between fspick and the reconfiguration
 * changes other settings, which the reconfiguration must not revert.
 */
BEHAVIOUR(concurrent_remounts_change_only_the_settings_that_they_name)
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

BEHAVIOUR(read_only_mount_refuses_changes_and_a_remount_writes_dirty_pages)
{
	unsigned char *map;
	int fd;

	require_mount_dirs();
	close(make_file(path_in(source_dir, "f"), 1, HUGE + 5));
	EXPECT(!try_mount("pool=16M", MS_RDONLY), "mount: %s", strerror(errno));
	fd = open_file(path_in(mount_point, "f"), O_RDONLY);
	map = map_file(fd, 0, HUGE + 5, PROT_READ, MAP_SHARED);
	expect_pattern("load from a read-only mount", map, 1, 0, HUGE + 5);
	EXPECT_ERRNO(open(path_in(mount_point, "f"), O_RDWR), EROFS);
	EXPECT_ERRNO(open(path_in(mount_point, "g"), O_RDWR | O_CREAT, 0644), EROFS);
	EXPECT_ERRNO(truncate(path_in(mount_point, "f"), 0), EROFS);
	EXPECT_ERRNO(unlink(path_in(mount_point, "f")), EROFS);
	EXPECT_ERRNO(chmod(path_in(mount_point, "f"), 0600), EROFS);
	EXPECT_ERRNO(mkdir(path_in(mount_point, "d"), 0755), EROFS);
	MUST(mount(NULL, mount_point, NULL, MS_REMOUNT, ""));
	close(fd);
	MUST(munmap(map, HUGE + 5));
	fd = open_file(path_in(mount_point, "f"), O_RDWR);
	map = map_shared(fd, 0, HUGE + 5);
	pattern(map, 2, 0, HUGE + 5);
	/* An open writer prevents a remount to read-only. */
	EXPECT_ERRNO(mount(NULL, mount_point, NULL, MS_REMOUNT | MS_RDONLY, ""), EBUSY);
	MUST(munmap(map, HUGE + 5));
	close(fd);
	MUST(mount(NULL, mount_point, NULL, MS_REMOUNT | MS_RDONLY, ""));
	/* The remount has written back all dirty pages. */
	expect_file("lower file after a read-only remount", path_in(source_dir, "f"), 2, HUGE + 5);
	MUST(umount(mount_point));
}

static const char *numbered(const char *dir, unsigned int i)
{
	char name[16];

	snprintf(name, sizeof(name), "f%u", i);
	return path_in(dir, name);
}

static size_t numbered_len(unsigned int i)
{
	return i * 1234567 % (3 * HUGE) + 1;
}

static void expect_numbered_files(const char *how, const char *dir)
{
	unsigned int i;

	for (i = 0; i < 20; i++)
		expect_file(how, numbered(dir, i), 100 + i, numbered_len(i));
}

BEHAVIOUR(unmount_writes_back_dirty_pages)
{
	static const char *const options[] = { "pool=24M,page=2M", "pool=24M,page=4K" };
	unsigned int i, j;

	require_mount_dirs();
	for (i = 0; i < COUNT(options); i++) {
		must_mount(options[i]);
		for (j = 0; j < 20; j++) {
			size_t len = numbered_len(j);
			int fd = make_file(numbered(mount_point, j), j, len);
			unsigned char *map = map_shared(fd, 0, len);

			pattern(map, 100 + j, 0, len);
			MUST(munmap(map, len));
			close(fd);
		}
		MUST(umount(mount_point));
		expect_numbered_files("lower file after unmount", source_dir);
		must_mount(options[i]);
		expect_numbered_files("file after mounting again", mount_point);
		MUST(umount(mount_point));
	}
}

static void storer(void *arg)
{
	struct turns *turns = arg;
	int fd = open_file(path_in(mount_point, "f"), O_RDWR | O_CREAT);
	unsigned char *map;
	uint64_t round;

	MUST(ftruncate(fd, 12 * HUGE));
	map = map_shared(fd, 0, 12 * HUGE);
	close(fd);
	for (round = 0;; round++) {
		pattern(map, round, 0, 12 * HUGE);
		if (!round)
			turn_give(turns->to_parent);
	}
}

/* The page cache of the mount is the reference for what the killed process had stored. */
BEHAVIOUR(busy_unmount_fails_and_unmount_writes_the_stores_of_a_killed_process)
{
	struct turns turns;
	unsigned int i;
	int status, fd;
	pid_t pid;
	unsigned char *map, *want = buffer(SMALL);

	require_mount_dirs();
	must_mount("pool=16M");
	turns_init(&turns);
	pid = start_child(storer, &turns);
	turn_take(turns.to_parent);
	for (i = 0; i < 50; i++)
		EXPECT_ERRNO(umount(mount_point), EBUSY);
	/* A module in use cannot be removed. */
	EXPECT(syscall(SYS_delete_module, "hugemap", O_NONBLOCK) < 0 &&
		       (errno == EWOULDBLOCK || errno == EBUSY || errno == ENOENT ||
			errno == ENOSYS),
	       "the module was removed while mounted: %s", strerror(errno));
	MUST(kill(pid, SIGKILL));
	MUST(waitpid(pid, &status, 0));
	/* Copy what the process had stored when it was killed. */
	fd = open_file(path_in(mount_point, "f"), O_RDONLY);
	map = map_file(fd, 0, 12 * HUGE, PROT_READ, MAP_SHARED);
	close(fd);
	fd = open_file(path_in(work_dir, "copy"), O_RDWR | O_CREAT);
	EXPECT(write(fd, map, 12 * HUGE) == 12 * HUGE, "write of a copy: %s", strerror(errno));
	MUST(munmap(map, 12 * HUGE));
	MUST(umount(mount_point));
	map = map_file(fd, 0, 12 * HUGE, PROT_READ, MAP_SHARED);
	close(fd);
	fd = open_file(path_in(source_dir, "f"), O_RDONLY);
	for (i = 0; i < 12 * HUGE / SMALL; i++) {
		EXPECT(pread(fd, want, SMALL, (off_t)(i * SMALL)) == SMALL,
		       "read of the lower file: %s", strerror(errno));
		EXPECT(!memcmp(want, map + i * SMALL, SMALL),
		       "page %u of the lower file differs from the mount's", i);
	}
}

BEHAVIOUR(lazily_unmounted_mount_works_until_its_last_use_and_then_writes_back)
{
	unsigned char *map;
	int fd, tries;

	require_mount_dirs();
	must_mount("pool=16M");
	fd = make_file(path_in(mount_point, "f"), 1, 3 * HUGE);
	map = map_shared(fd, 0, 3 * HUGE);
	MUST(umount2(mount_point, MNT_DETACH));
	EXPECT(!is_mounted(mount_point), "the mount is still in /proc/mounts");
	pattern(map, 2, 0, 3 * HUGE);
	MUST(fsync(fd));
	expect_file("lower file after fsync in a detached mount", path_in(source_dir, "f"), 2,
		    3 * HUGE);
	pattern(map, 3, 0, 3 * HUGE);
	MUST(munmap(map, 3 * HUGE));
	MUST(close(fd));
	/* The last use has ended. The kernel unmounts asynchronously, so poll. */
	for (tries = 0; tries < 200; tries++) {
		unsigned char first[8], want[8];

		fd = open_file(path_in(source_dir, "f"), O_RDONLY);
		pattern(want, 3, 3 * HUGE - 8, 8);
		if (pread(fd, first, 8, 3 * HUGE - 8) == 8 && !memcmp(first, want, 8))
			break;
		close(fd);
		usleep(50000);
	}
	expect_file("lower file after the end of a detached mount", path_in(source_dir, "f"), 3,
		    3 * HUGE);
}

/* Two mounts of one directory would have two caches. */
BEHAVIOUR(second_mount_of_a_directory_is_refused_or_agrees)
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
	a = make_file(path_in(mount_point, "f"), 1, HUGE);
	b = open_file(path_in(second, "f"), O_RDWR);
	read_pattern("read by the second mount", b, 1, 0, HUGE);
	write_pattern(b, 2, 0, HUGE);
	read_pattern("read by the first mount", a, 2, 0, HUGE);
	close(a);
	close(b);
	MUST(umount(second));
	MUST(umount(mount_point));
}

BEHAVIOUR(mount_on_a_mount_of_hugemap_is_refused_or_works)
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
		fd = make_file(path_in(top, "f"), 1, 2 * HUGE + 7);
		map = map_shared(fd, 0, 2 * HUGE + 7);
		pattern(map, 2, 0, 2 * HUGE + 7);
		MUST(munmap(map, 2 * HUGE + 7));
		close(fd);
		MUST(umount(top));
	}
	MUST(umount(mount_point));
}

BEHAVIOUR(mount_keeps_its_lower_directory_when_that_is_renamed)
{
	int fd;

	require_mount_dirs();
	must_mount("pool=16M");
	fd = make_file(path_in(mount_point, "f"), 1, HUGE);
	MUST(rename(source_dir, path_in(work_lower, "moved")));
	write_pattern(fd, 2, 0, HUGE);
	MUST(fsync(fd));
	close(fd);
	fd = make_file(path_in(mount_point, "g"), 3, 100);
	close(fd);
	MUST(umount(mount_point));
	expect_file("file in the renamed directory", path_in(work_lower, "moved/f"), 2, HUGE);
	expect_file("new file in the renamed directory", path_in(work_lower, "moved/g"), 3, 100);
}

RUN_BEHAVIOURS
