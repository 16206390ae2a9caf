// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * A device that fails. No store is lost silently: each open descriptor hears of it at
 * its next sync, the data stays in memory, and is written when the device is well
 * again. What cannot be read is SIGBUS or EIO there, and nowhere else.
 *
 * vm: lower=none page=2M,4K,auto modules=dm_mod,dm_flakey programs=mkfs.ext4 timeout=240
 */
#include "dm.h"
#include "mounts.h"

#include <linux/fiemap.h>

#define NAME "hugemap-errors"
#define ROOM (96ull << 20)
#define FILES (4 * HUGE)

static const char *dev, *dm;

static void need_dm(void)
{
	dev = getenv("DEV");
	if (!dev)
		skip("DEV is not set");
	make_mount_dirs();
	dm = dm_create(NAME, (struct dm_line[]){ dm_linear(0, ROOM / SECTOR, dev, 0) }, 1);
}

static void mount_here(const char *what)
{
	const char *page = getenv("PAGE");
	char options[64];

	snprintf(options, sizeof(options), "pool=64M,page=%s", page ? page : "2M");
	if (mount(what, mount_point, "hugemap", 0, options)) {
		dm_remove(NAME);
		if (errno == ENODEV)
			skip("this kernel has no hugemap");
		FAIL("mount of %s: %s", what, strerror(errno));
	}
}

static void heal(void)
{
	dm_change(NAME, (struct dm_line[]){ dm_linear(0, ROOM / SECTOR, dev, 0) }, 1);
}

static void expect_device(const char *how, uint64_t seed, uint64_t off, size_t len)
{
	int fd = open(dev, O_RDONLY | O_DIRECT | O_CLOEXEC);
	uint64_t from = off / SMALL * SMALL;
	size_t whole = (off + len - from + SMALL - 1) / SMALL * SMALL;
	unsigned char *buf = buffer(whole);

	EXPECT(fd >= 0, "open %s: %s", dev, strerror(errno));
	EXPECT(pread(fd, buf, whole, (off_t)from) == (ssize_t)whole, "read of %s: %s", dev,
	       strerror(errno));
	expect_pattern(how, buf + (off - from), seed, off, len);
	free(buf);
	close(fd);
}

/* Failed writes may be noticed a little later than they fail, but then no more. */
static void sync_until_well(int fd)
{
	unsigned int errors = 0;

	while (fsync(fd)) {
		EXPECT(errno == EIO, "fsync of a device that is well again: %s", strerror(errno));
		EXPECT(++errors < 3, "fsync fails for ever, though the device is well again");
	}
}

BEHAVIOUR(device_write_errors)
{
	int a, b, late;
	unsigned char *map;

	need_dm();
	mount_here(dm);
	a = open_file(device_file(), O_RDWR);
	b = open_file(device_file(), O_RDWR);
	map = map_shared(a, 0, 8 * HUGE);
	pattern(map, 1, 0, 8 * HUGE);
	MUST(fsync(a));
	expect_device("the device after fsync", 1, 0, 8 * HUGE);
	dm_change(NAME, (struct dm_line[]){ dm_flakey(0, ROOM / SECTOR, dev, 0, "error_writes") },
		  1);
	pattern(map + HUGE, 2, HUGE, HUGE + 12345);
	write_pattern(a, 3, 5 * HUGE + 77, 5000);
	EXPECT_ERRNO(msync(map, 8 * HUGE, MS_SYNC), EIO);
	/* Each descriptor is told, whoever synced first. */
	EXPECT_ERRNO(fsync(b), EIO);
	/* What could not be written is still what the file holds. */
	expect_pattern("load while the device fails", map + HUGE, 2, HUGE, HUGE + 12345);
	read_pattern("read while the device fails", b, 3, 5 * HUGE + 77, 5000);
	expect_pattern("load of the rest", map + 3 * HUGE, 1, 3 * HUGE, HUGE);
	heal();
	sync_until_well(a);
	sync_until_well(b);
	/* Opened after it was all over: no old news. */
	late = open_file(device_file(), O_RDWR);
	EXPECT(!fsync(late), "fsync of a descriptor opened later: %s", strerror(errno));
	MUST(fsync(a));
	expect_device("the device, well again", 2, HUGE, HUGE + 12345);
	expect_device("the device, well again", 3, 5 * HUGE + 77, 5000);
	expect_device("the device, where nothing changed", 1, 6 * HUGE, 2 * HUGE);
	close(a);
	close(b);
	close(late);
	MUST(munmap(map, 8 * HUGE));
	MUST(umount(mount_point));
	dm_remove(NAME);
}

/*
 * The last bytes of a device that is no multiple of a page go by its own page cache. They are
 * there after any sync, and what cannot be written is kept, and told to each descriptor.
 */
BEHAVIOUR(last_bytes_of_a_device)
{
	uint64_t sectors = (8 * HUGE + 2 * SMALL) / SECTOR + 3, size = sectors * SECTOR;
	uint64_t from = size - SMALL - 3 * SECTOR;
	int a, b;

	need_dm();
	dm_change(NAME, (struct dm_line[]){ dm_linear(0, sectors, dev, 0) }, 1);
	mount_here(dm);
	a = open_file(device_file(), O_RDWR);
	b = open_file(device_file(), O_RDWR);
	write_pattern(a, 1, from, size - from);
	MUST(syncfs(a));
	expect_device("the device after syncfs", 1, from, size - from);
	dm_change(NAME, (struct dm_line[]){ dm_flakey(0, sectors, dev, 0, "error_writes") }, 1);
	write_pattern(a, 2, size - 100, 100);
	EXPECT_ERRNO(fsync(a), EIO);
	EXPECT_ERRNO(fsync(b), EIO);
	read_pattern("read while the device fails", b, 2, size - 100, 100);
	dm_change(NAME, (struct dm_line[]){ dm_linear(0, sectors, dev, 0) }, 1);
	sync_until_well(a);
	sync_until_well(b);
	expect_device("the device, well again", 1, from, size - 100 - from);
	expect_device("its end, well again", 2, size - 100, 100);
	close(a);
	close(b);
	MUST(umount(mount_point));
	dm_remove(NAME);
}

/* The unmount cannot refuse. It must end, and what it could write is there. */
BEHAVIOUR(unmount_of_failing)
{
	unsigned char *map;
	int fd;

	need_dm();
	mount_here(dm);
	fd = open_file(device_file(), O_RDWR);
	map = map_shared(fd, 0, 4 * HUGE);
	pattern(map, 1, 0, 4 * HUGE);
	MUST(fsync(fd));
	/* One block of four fails. */
	dm_change(NAME,
		  (struct dm_line[]){
			  dm_linear(0, HUGE / SECTOR, dev, 0),
			  dm_error(HUGE / SECTOR, HUGE / SECTOR),
			  dm_linear(2 * HUGE / SECTOR, (ROOM - 2 * HUGE) / SECTOR, dev,
				    2 * HUGE / SECTOR),
		  },
		  3);
	pattern(map, 2, 0, 4 * HUGE);
	EXPECT_ERRNO(fsync(fd), EIO);
	close(fd);
	MUST(munmap(map, 4 * HUGE));
	MUST(umount(mount_point));
	heal();
	expect_device("before what failed", 2, 0, HUGE);
	expect_device("behind what failed", 2, 2 * HUGE, 2 * HUGE);
	dm_remove(NAME);
}

BEHAVIOUR(read_errors)
{
	unsigned char *map, *buf = buffer(HUGE);
	int fd, raw, sig;
	ssize_t n;

	need_dm();
	catch_signals();
	raw = open_file(dev, O_RDWR | O_DIRECT);
	write_pattern(raw, 4, 0, 8 * HUGE);
	close(raw);
	mount_here(dm);
	fd = open_file(device_file(), O_RDWR);
	map = map_shared(fd, 0, 8 * HUGE);
	dm_change(NAME,
		  (struct dm_line[]){
			  dm_linear(0, 3 * HUGE / SECTOR, dev, 0),
			  dm_error(3 * HUGE / SECTOR, HUGE / SECTOR),
			  dm_linear(4 * HUGE / SECTOR, (ROOM - 4 * HUGE) / SECTOR, dev,
				    4 * HUGE / SECTOR),
		  },
		  3);
	expect_sigbus_of_load(map + 3 * HUGE + 5000, "from what cannot be read");
	n = pread(fd, buf, 1000, 3 * HUGE + 5000);
	EXPECT(n < 0 && errno == EIO, "read of what cannot be read gave %zd: %s", n,
	       strerror(errno));
	/* A read across the border gives what there is, or an error; never other bytes. */
	n = pread(fd, buf, HUGE, 2 * HUGE + HUGE / 2);
	EXPECT((n < 0 && errno == EIO) || (n >= 0 && n <= (ssize_t)(HUGE / 2)),
	       "read across the border gave %zd", n);
	if (n > 0)
		expect_pattern("read across the border", buf, 4, 2 * HUGE + HUGE / 2, (size_t)n);
	expect_pattern("load before it", map, 4, 0, 3 * HUGE);
	expect_pattern("load behind it", map + 4 * HUGE, 4, 4 * HUGE, 4 * HUGE);
	/* A store there needs the rest of the block, so it fails too, or covers it all. */
	sig = signal_of_store(map + 3 * HUGE + 5000);
	EXPECT(sig == SIGBUS, "a store into what cannot be read gave signal %d", sig);
	/* No error to report: nothing was lost. */
	EXPECT(!fsync(fd), "fsync after a read error: %s", strerror(errno));
	heal();
	EXPECT(!signal_of_load(map + 3 * HUGE + 5000), "SIGBUS, though the device is well again");
	expect_pattern("load when it is well again", map + 3 * HUGE, 4, 3 * HUGE, HUGE);
	close(fd);
	MUST(munmap(map, 8 * HUGE));
	MUST(umount(mount_point));
	dm_remove(NAME);
}

/*
 * A table in which the data of one file fails but not the metadata of the file system
 * around it, which would go read-only for good.
 */
static unsigned int table_around(const char *path, struct dm_line *lines, unsigned int most)
{
	struct {
		struct fiemap head;
		struct fiemap_extent extents[32];
	} map = {
		.head = { .fm_length = ~0ull, .fm_flags = FIEMAP_FLAG_SYNC, .fm_extent_count = 32 }
	};
	uint64_t at = 0, end = ROOM / SECTOR;
	unsigned int i, j, n = 0;
	int fd = open_file(path, O_RDONLY);

	MUST(ioctl(fd, FS_IOC_FIEMAP, &map));
	close(fd);
	EXPECT(map.head.fm_mapped_extents && map.head.fm_mapped_extents < 32, "%u extents",
	       map.head.fm_mapped_extents);
	/* By place on the device, not in the file. */
	for (i = 0; i < map.head.fm_mapped_extents; i++)
		for (j = i + 1; j < map.head.fm_mapped_extents; j++)
			if (map.extents[j].fe_physical < map.extents[i].fe_physical) {
				struct fiemap_extent swap = map.extents[i];

				map.extents[i] = map.extents[j];
				map.extents[j] = swap;
			}
	for (i = 0; i < map.head.fm_mapped_extents && n + 3 < most; i++) {
		uint64_t from = map.extents[i].fe_physical / SECTOR;
		uint64_t len = map.extents[i].fe_length / SECTOR;

		if (from > at)
			lines[n++] = dm_linear(at, from - at, dev, at);
		lines[n++] = dm_error(from, len);
		at = from + len;
	}
	if (at < end)
		lines[n++] = dm_linear(at, end - at, dev, at);
	return n;
}

static void make_ext4(void)
{
	char command[256];

	snprintf(command, sizeof(command), "mkfs.ext4 -q -F %s >/dev/null 2>&1", dm);
	if (system(command))
		skip("mkfs.ext4 does not work");
	MUST(mount(dm, source_dir, "ext4", 0, NULL));
}

/* Over a file system: one file's data fails, the other file never hears of it. */
BEHAVIOUR(file_write_errors)
{
	struct dm_line lines[80];
	char bad[700], good[700], path[700];
	unsigned char *map, *other;
	unsigned int n, i;
	int a, b, c;

	need_dm();
	make_ext4();
	mount_here(source_dir);
	snprintf(bad, sizeof(bad), "%s/bad", mount_point);
	snprintf(good, sizeof(good), "%s/good", mount_point);
	a = make_file(bad, 1, FILES + 333);
	c = make_file(good, 1, FILES);
	MUST(fsync(a));
	MUST(fsync(c));
	snprintf(path, sizeof(path), "%s/bad", source_dir);
	n = table_around(path, lines, COUNT(lines));
	b = open_file(bad, O_RDWR);
	dm_change(NAME, lines, n);
	map = map_shared(a, 0, FILES + 333);
	other = map_shared(c, 0, FILES);
	pattern(map, 2, 0, FILES + 333);
	pattern(other, 3, 0, FILES);
	EXPECT(!fsync(c), "fsync of another file: %s", strerror(errno));
	EXPECT_ERRNO(fsync(a), EIO);
	EXPECT_ERRNO(fsync(b), EIO);
	expect_pattern("load while the device fails", map, 2, 0, FILES + 333);
	/* It is tried again now and then; that neither hangs nor takes the others along. */
	for (i = 0; i < 5; i++) {
		pattern(other, 4 + i, 0, FILES);
		EXPECT(!msync(other, FILES, MS_SYNC), "msync of another file: %s", strerror(errno));
		pattern(map, 2, 0, FILES + 333);
	}
	heal();
	sync_until_well(a);
	sync_until_well(b);
	MUST(fsync(c));
	close(a);
	close(b);
	close(c);
	MUST(munmap(map, FILES + 333));
	MUST(munmap(other, FILES));
	MUST(umount(mount_point));
	a = open_file(path, O_RDONLY);
	posix_fadvise(a, 0, 0, POSIX_FADV_DONTNEED);
	read_pattern("the file below, the device being well again", a, 2, 0, FILES + 333);
	close(a);
	MUST(umount(source_dir));
	dm_remove(NAME);
}

/* The last bytes of a file go by the page cache below, which forgets what it cannot write. */
BEHAVIOUR(last_bytes_of_a_file)
{
	unsigned char bytes[333];
	struct dm_line lines[80];
	char name[700], path[700];
	int a, b;

	need_dm();
	make_ext4();
	mount_here(source_dir);
	snprintf(name, sizeof(name), "%s/f", mount_point);
	a = make_file(name, 1, FILES + sizeof(bytes));
	b = open_file(name, O_RDONLY);
	MUST(syncfs(a));
	MUST(syncfs(b));
	snprintf(path, sizeof(path), "%s/f", source_dir);
	dm_change(NAME, lines, table_around(path, lines, COUNT(lines)));
	pattern(bytes, 2, FILES, sizeof(bytes));
	EXPECT(pwrite(a, bytes, sizeof(bytes), FILES) == sizeof(bytes), "write: %s",
	       strerror(errno));
	/* Each descriptor is told, whoever asked first, and none of them twice. */
	EXPECT_ERRNO(syncfs(a), EIO);
	EXPECT_ERRNO(syncfs(b), EIO);
	heal();
	write_pattern(a, 3, FILES, sizeof(bytes));
	EXPECT(!syncfs(a), "syncfs, the device being well again: %s", strerror(errno));
	EXPECT(!syncfs(b), "syncfs, the device being well again: %s", strerror(errno));
	close(a);
	close(b);
	MUST(umount(mount_point));
	a = open_file(path, O_RDONLY);
	posix_fadvise(a, 0, 0, POSIX_FADV_DONTNEED);
	read_pattern("the file below", a, 1, 0, FILES);
	read_pattern("its last bytes", a, 3, FILES, sizeof(bytes));
	close(a);
	MUST(umount(source_dir));
	dm_remove(NAME);
}

static void store_all(void *arg)
{
	pattern(arg, 7, 0, 44 * HUGE);
}

/*
 * More dirty than the pool has room for, and the device takes none of it. A store
 * waits, killably, or fails with SIGBUS; a waiting one goes on when the device is
 * well again.
 */
BEHAVIOUR(pool_full_of_dirty)
{
	unsigned char *map;
	int fd, status, tries;
	pid_t pid;

	need_dm();
	mount_here(dm);
	fd = open_file(device_file(), O_RDWR);
	map = map_shared(fd, 0, 44 * HUGE);
	pattern(map, 1, 0, HUGE);
	MUST(fsync(fd));
	dm_change(NAME, (struct dm_line[]){ dm_flakey(0, ROOM / SECTOR, dev, 0, "error_writes") },
		  1);
	pid = start_child(store_all, map);
	for (tries = 0; tries < 40 && waitpid(pid, &status, WNOHANG) == 0; tries++)
		usleep(50000);
	if (tries == 40) {
		MUST(kill(pid, SIGKILL));
		MUST(waitpid(pid, &status, 0));
	} else {
		EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS,
		       "storing more than the pool holds to a device that fails ended with %#x",
		       status);
	}
	pid = start_child(store_all, map);
	usleep(300000);
	heal();
	MUST(waitpid(pid, &status, 0));
	EXPECT(!status || (WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS),
	       "the store that waited ended with %#x", status);
	/* What is dirty goes first; then there is room again. */
	sync_until_well(fd);
	store_all(map);
	sync_until_well(fd);
	expect_device("the device after a full pool", 7, 0, 44 * HUGE);
	close(fd);
	MUST(munmap(map, 44 * HUGE));
	MUST(umount(mount_point));
	dm_remove(NAME);
}

/* Everything fails at once and for ever, as if it had been pulled out. */
BEHAVIOUR(device_gone)
{
	unsigned char *map;
	int fd, sig;

	need_dm();
	catch_signals();
	mount_here(dm);
	fd = open_file(device_file(), O_RDWR);
	map = map_shared(fd, 0, 32 * HUGE);
	pattern(map, 1, 0, 4 * HUGE);
	dm_change(NAME, (struct dm_line[]){ dm_error(0, ROOM / SECTOR) }, 1);
	pattern(map, 2, 0, 2 * HUGE);
	EXPECT_ERRNO(fsync(fd), EIO);
	expect_pattern("load of what is in memory", map, 2, 0, 2 * HUGE);
	sig = signal_of_load(map + 20 * HUGE);
	EXPECT(sig == SIGBUS, "a load from a device that is gone gave signal %d", sig);
	EXPECT_ERRNO(msync(map, 32 * HUGE, MS_SYNC), EIO);
	close(fd);
	MUST(munmap(map, 32 * HUGE));
	/* Nothing can be saved any more, but the mount can go. */
	MUST(umount(mount_point));
	dm_remove(NAME);
}

int main(int argc, char **argv)
{
	int result = run_behaviours(argc, argv);
	int control = open("/dev/mapper/control", O_RDWR | O_CLOEXEC);

	/* What a behaviour that failed has left. */
	if (control >= 0) {
		close(control);
		dm_remove(NAME);
	}
	return result;
}
