// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * A device that fails. No store is lost silently: the next sync of each open descriptor
 * reports the error, the data stays in memory, and it is written when the device works
 * again. A failed read raises SIGBUS or returns EIO at its own offset and nowhere else.
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

static void make_dm_device(void)
{
	dev = require_device();
	make_mount_dirs();
	dm = dm_create(NAME, (struct dm_line[]){ dm_linear(0, ROOM / SECTOR, dev, 0) }, 1);
}

static void mount_hugemap(const char *what)
{
	if (mount(what, mount_point, "hugemap", 0, mount_options("64M"))) {
		dm_remove(NAME);
		if (errno == ENODEV)
			skip("this kernel has no hugemap");
		FAIL("mount of %s: %s", what, strerror(errno));
	}
}

static void fail_all_writes(void)
{
	dm_change(NAME, (struct dm_line[]){ dm_flakey(0, ROOM / SECTOR, dev, 0, "error_writes") },
		  1);
}

/* Reads and writes of one block fail. */
static void fail_block(uint64_t block)
{
	uint64_t at = block * HUGE / SECTOR, next = at + HUGE / SECTOR;

	dm_change(NAME,
		  (struct dm_line[]){
			  dm_linear(0, at, dev, 0),
			  dm_error(at, HUGE / SECTOR),
			  dm_linear(next, ROOM / SECTOR - next, dev, next),
		  },
		  3);
}

static void repair(void)
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

/* The error of a write that was in flight may be reported by a later sync, but not forever. */
static void sync_until_clean(int fd)
{
	unsigned int errors = 0;

	while (fsync(fd)) {
		EXPECT(errno == EIO, "fsync of a device that works again: %s", strerror(errno));
		EXPECT(++errors < 3, "fsync keeps failing, though the device works again");
	}
}

BEHAVIOUR(each_descriptor_reports_a_write_error_once_and_the_data_is_kept)
{
	int a, b, late;
	unsigned char *map;

	make_dm_device();
	mount_hugemap(dm);
	a = open_file(device_file(), O_RDWR);
	b = open_file(device_file(), O_RDWR);
	map = map_shared(a, 0, 8 * HUGE);
	pattern(map, 1, 0, 8 * HUGE);
	MUST(fsync(a));
	expect_device("device after fsync", 1, 0, 8 * HUGE);
	fail_all_writes();
	pattern(map + HUGE, 2, HUGE, HUGE + 12345);
	write_pattern(a, 3, 5 * HUGE + 77, 5000);
	EXPECT_ERRNO(msync(map, 8 * HUGE, MS_SYNC), EIO);
	/* The sync of one descriptor must not consume the error of the other one. */
	EXPECT_ERRNO(fsync(b), EIO);
	/* The cache keeps the data that could not be written. */
	expect_pattern("load while the device fails", map + HUGE, 2, HUGE, HUGE + 12345);
	read_pattern("read while the device fails", b, 3, 5 * HUGE + 77, 5000);
	expect_pattern("load of clean data", map + 3 * HUGE, 1, 3 * HUGE, HUGE);
	repair();
	sync_until_clean(a);
	sync_until_clean(b);
	/* A descriptor opened after the failure reports nothing. */
	late = open_file(device_file(), O_RDWR);
	EXPECT(!fsync(late), "fsync of a descriptor opened later: %s", strerror(errno));
	MUST(fsync(a));
	expect_device("device after the repair", 2, HUGE, HUGE + 12345);
	expect_device("device after the repair", 3, 5 * HUGE + 77, 5000);
	expect_device("device, unchanged data", 1, 6 * HUGE, 2 * HUGE);
	close(a);
	close(b);
	close(late);
	MUST(munmap(map, 8 * HUGE));
	MUST(umount(mount_point));
	dm_remove(NAME);
}

/*
 * If the size of a device is no multiple of a page, its last bytes are written through the
 * device's own page cache: write-back uses direct I/O for whole pages only.
 */
BEHAVIOUR(write_errors_in_the_last_partial_page_of_a_device_are_reported)
{
	uint64_t sectors = (8 * HUGE + 2 * SMALL) / SECTOR + 3, size = sectors * SECTOR;
	uint64_t from = size - SMALL - 3 * SECTOR;
	int a, b;

	make_dm_device();
	dm_change(NAME, (struct dm_line[]){ dm_linear(0, sectors, dev, 0) }, 1);
	mount_hugemap(dm);
	a = open_file(device_file(), O_RDWR);
	b = open_file(device_file(), O_RDWR);
	write_pattern(a, 1, from, size - from);
	MUST(syncfs(a));
	expect_device("device after syncfs", 1, from, size - from);
	dm_change(NAME, (struct dm_line[]){ dm_flakey(0, sectors, dev, 0, "error_writes") }, 1);
	write_pattern(a, 2, size - 100, 100);
	EXPECT_ERRNO(fsync(a), EIO);
	EXPECT_ERRNO(fsync(b), EIO);
	read_pattern("read while the device fails", b, 2, size - 100, 100);
	dm_change(NAME, (struct dm_line[]){ dm_linear(0, sectors, dev, 0) }, 1);
	sync_until_clean(a);
	sync_until_clean(b);
	expect_device("device after the repair", 1, from, size - 100 - from);
	expect_device("end of the device after the repair", 2, size - 100, 100);
	close(a);
	close(b);
	MUST(umount(mount_point));
	dm_remove(NAME);
}

/* An unmount cannot report an error. */
BEHAVIOUR(unmount_of_a_failing_device_ends_and_writes_what_it_can)
{
	unsigned char *map;
	int fd;

	make_dm_device();
	mount_hugemap(dm);
	fd = open_file(device_file(), O_RDWR);
	map = map_shared(fd, 0, 4 * HUGE);
	pattern(map, 1, 0, 4 * HUGE);
	MUST(fsync(fd));
	fail_block(1);
	pattern(map, 2, 0, 4 * HUGE);
	EXPECT_ERRNO(fsync(fd), EIO);
	close(fd);
	MUST(munmap(map, 4 * HUGE));
	MUST(umount(mount_point));
	repair();
	expect_device("device before the failed block", 2, 0, HUGE);
	expect_device("device behind the failed block", 2, 2 * HUGE, 2 * HUGE);
	dm_remove(NAME);
}

BEHAVIOUR(read_error_raises_sigbus_or_returns_eio_only_where_it_is)
{
	unsigned char *map, *buf = buffer(HUGE);
	int fd, raw, sig;
	ssize_t n;

	make_dm_device();
	catch_signals();
	raw = open_file(dev, O_RDWR | O_DIRECT);
	write_pattern(raw, 4, 0, 8 * HUGE);
	close(raw);
	mount_hugemap(dm);
	fd = open_file(device_file(), O_RDWR);
	map = map_shared(fd, 0, 8 * HUGE);
	fail_block(3);
	expect_sigbus_of_load(map + 3 * HUGE + 5000, "in an unreadable block");
	n = pread(fd, buf, 1000, 3 * HUGE + 5000);
	EXPECT(n < 0 && errno == EIO, "read of an unreadable block returned %zd: %s", n,
	       strerror(errno));
	/* A read that reaches into the block is short or fails; it never returns other bytes. */
	n = pread(fd, buf, HUGE, 2 * HUGE + HUGE / 2);
	EXPECT((n < 0 && errno == EIO) || (n >= 0 && n <= (ssize_t)(HUGE / 2)),
	       "read into the unreadable block returned %zd", n);
	if (n > 0)
		expect_pattern("read into the unreadable block", buf, 4, 2 * HUGE + HUGE / 2,
			       (size_t)n);
	expect_pattern("load before the unreadable block", map, 4, 0, 3 * HUGE);
	expect_pattern("load behind the unreadable block", map + 4 * HUGE, 4, 4 * HUGE, 4 * HUGE);
	/* A store fails, too: it changes one byte and needs the rest of the page. */
	sig = signal_of_store(map + 3 * HUGE + 5000);
	EXPECT(sig == SIGBUS, "a store into an unreadable block raised signal %d", sig);
	/* No data was lost, so a sync has no error to report. */
	EXPECT(!fsync(fd), "fsync after a read error: %s", strerror(errno));
	repair();
	EXPECT(!signal_of_load(map + 3 * HUGE + 5000), "SIGBUS, though the device works again");
	expect_pattern("load after the repair", map + 3 * HUGE, 4, 3 * HUGE, HUGE);
	close(fd);
	MUST(munmap(map, 8 * HUGE));
	MUST(umount(mount_point));
	dm_remove(NAME);
}

/*
 * A dm table in which the data of one file fails, but not the metadata of its file system:
 * after an error of metadata, ext4 would stay read-only.
 */
static unsigned int table_with_failing_file(const char *path, struct dm_line *lines,
					    unsigned int max)
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
	/* Sort the extents by their place on the device. */
	for (i = 0; i < map.head.fm_mapped_extents; i++)
		for (j = i + 1; j < map.head.fm_mapped_extents; j++)
			if (map.extents[j].fe_physical < map.extents[i].fe_physical) {
				struct fiemap_extent swap = map.extents[i];

				map.extents[i] = map.extents[j];
				map.extents[j] = swap;
			}
	for (i = 0; i < map.head.fm_mapped_extents && n + 3 < max; i++) {
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
	make_file_system("mkfs.ext4 -q -F %s", dm);
	MUST(mount(dm, source_dir, "ext4", 0, NULL));
}

BEHAVIOUR(write_error_of_one_file_does_not_affect_another)
{
	struct dm_line lines[80];
	const char *bad, *good, *path;
	unsigned char *map, *other;
	unsigned int n, i;
	int a, b, c;

	make_dm_device();
	make_ext4();
	mount_hugemap(source_dir);
	bad = path_in(mount_point, "bad");
	good = path_in(mount_point, "good");
	path = path_in(source_dir, "bad");
	a = make_file(bad, 1, FILES + 333);
	c = make_file(good, 1, FILES);
	MUST(fsync(a));
	MUST(fsync(c));
	n = table_with_failing_file(path, lines, COUNT(lines));
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
	/* Write-back retries the failing file; this must not hang or fail the other file. */
	for (i = 0; i < 5; i++) {
		pattern(other, 4 + i, 0, FILES);
		EXPECT(!msync(other, FILES, MS_SYNC), "msync of another file: %s", strerror(errno));
		pattern(map, 2, 0, FILES + 333);
	}
	repair();
	sync_until_clean(a);
	sync_until_clean(b);
	MUST(fsync(c));
	close(a);
	close(b);
	close(c);
	MUST(munmap(map, FILES + 333));
	MUST(munmap(other, FILES));
	MUST(umount(mount_point));
	read_file_pattern("lower file after the repair", path, 2, 0, FILES + 333);
	MUST(umount(source_dir));
	dm_remove(NAME);
}

/*
 * The last partial page of a file is written through the page cache of the lower file
 * system, which marks a page clean even if its write failed.
 */
BEHAVIOUR(syncfs_reports_write_errors_in_the_last_partial_page_of_a_file)
{
	unsigned char bytes[333];
	struct dm_line lines[80];
	const char *name, *path;
	int a, b;

	make_dm_device();
	make_ext4();
	mount_hugemap(source_dir);
	name = path_in(mount_point, "f");
	path = path_in(source_dir, "f");
	a = make_file(name, 1, FILES + sizeof(bytes));
	b = open_file(name, O_RDONLY);
	MUST(syncfs(a));
	MUST(syncfs(b));
	dm_change(NAME, lines, table_with_failing_file(path, lines, COUNT(lines)));
	pattern(bytes, 2, FILES, sizeof(bytes));
	EXPECT(pwrite(a, bytes, sizeof(bytes), FILES) == sizeof(bytes), "write: %s",
	       strerror(errno));
	/* Each descriptor reports the error once. */
	EXPECT_ERRNO(syncfs(a), EIO);
	EXPECT_ERRNO(syncfs(b), EIO);
	repair();
	write_pattern(a, 3, FILES, sizeof(bytes));
	EXPECT(!syncfs(a), "syncfs after the repair: %s", strerror(errno));
	EXPECT(!syncfs(b), "syncfs after the repair: %s", strerror(errno));
	close(a);
	close(b);
	MUST(umount(mount_point));
	read_file_pattern("lower file", path, 1, 0, FILES);
	read_file_pattern("end of the lower file", path, 3, FILES, sizeof(bytes));
	MUST(umount(source_dir));
	dm_remove(NAME);
}

static void store_all(void *arg)
{
	pattern(arg, 7, 0, 44 * HUGE);
}

/*
 * A program stores more than the pool can hold, and the device accepts no write. A store
 * either waits and can be killed, or raises SIGBUS; it continues when the device works again.
 */
BEHAVIOUR(store_into_a_pool_full_of_dirty_pages_waits_killably_or_raises_sigbus)
{
	unsigned char *map;
	int fd, status, tries;
	pid_t pid;

	make_dm_device();
	mount_hugemap(dm);
	fd = open_file(device_file(), O_RDWR);
	map = map_shared(fd, 0, 44 * HUGE);
	pattern(map, 1, 0, HUGE);
	MUST(fsync(fd));
	fail_all_writes();
	pid = start_child(store_all, map);
	for (tries = 0; tries < 40 && waitpid(pid, &status, WNOHANG) == 0; tries++)
		usleep(50000);
	if (tries == 40) {
		MUST(kill(pid, SIGKILL));
		MUST(waitpid(pid, &status, 0));
	} else {
		EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS,
		       "the child that fills the pool with dirty pages ended with %#x", status);
	}
	pid = start_child(store_all, map);
	usleep(300000);
	repair();
	MUST(waitpid(pid, &status, 0));
	EXPECT(!status || (WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS),
	       "the child whose store waited ended with %#x", status);
	/* Write back the dirty pages, so that there are frames again. */
	sync_until_clean(fd);
	store_all(map);
	sync_until_clean(fd);
	expect_device("device after a full pool", 7, 0, 44 * HUGE);
	close(fd);
	MUST(munmap(map, 44 * HUGE));
	MUST(umount(mount_point));
	dm_remove(NAME);
}

/* All reads and writes fail from some time on, as if the device had been pulled out. */
BEHAVIOUR(mount_of_a_device_that_is_gone_can_be_unmounted)
{
	unsigned char *map;
	int fd, sig;

	make_dm_device();
	catch_signals();
	mount_hugemap(dm);
	fd = open_file(device_file(), O_RDWR);
	map = map_shared(fd, 0, 32 * HUGE);
	pattern(map, 1, 0, 4 * HUGE);
	dm_change(NAME, (struct dm_line[]){ dm_error(0, ROOM / SECTOR) }, 1);
	pattern(map, 2, 0, 2 * HUGE);
	EXPECT_ERRNO(fsync(fd), EIO);
	expect_pattern("load of cached data", map, 2, 0, 2 * HUGE);
	sig = signal_of_load(map + 20 * HUGE);
	EXPECT(sig == SIGBUS, "a load from a device that is gone raised signal %d", sig);
	EXPECT_ERRNO(msync(map, 32 * HUGE, MS_SYNC), EIO);
	close(fd);
	MUST(munmap(map, 32 * HUGE));
	/* The dirty data is lost, but the unmount must work. */
	MUST(umount(mount_point));
	dm_remove(NAME);
}

int main(int argc, char **argv)
{
	int result = run_behaviours(argc, argv);
	int control = open("/dev/mapper/control", O_RDWR | O_CLOEXEC);

	/* A failed behaviour leaves its device. */
	if (control >= 0) {
		close(control);
		dm_remove(NAME);
	}
	return result;
}
