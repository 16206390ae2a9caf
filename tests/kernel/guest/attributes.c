// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Extended attributes, times, inode flags and statfs(2): what a program sets here is set in
 * the lower file system, and restrictions of the lower file system hold here.
 *
 * vm: page=auto lower=ext4,xfs timeout=180
 */
#include "entry.h"

#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/statvfs.h>
#include <sys/swap.h>

BEHAVIOUR(extended_attributes_are_those_of_the_lower_file)
{
	char buf[70000], list[1000];
	ssize_t n;

	touch_file("f");
	if (setxattr("f", "user.a", "value", 5, 0)) {
		EXPECT(errno == EOPNOTSUPP, "setxattr: %s", strerror(errno));
		skip("no extended attributes here");
	}
	n = getxattr(lower_path("f"), "user.a", buf, sizeof(buf));
	EXPECT(n == 5 && !memcmp(buf, "value", 5), "the lower file's attribute has %zd bytes", n);
	EXPECT_ERRNO(setxattr("f", "user.a", "x", 1, XATTR_CREATE), EEXIST);
	EXPECT_ERRNO(setxattr("f", "user.b", "x", 1, XATTR_REPLACE), ENODATA);
	EXPECT_ERRNO(getxattr("f", "user.a", buf, 2), ERANGE);
	EXPECT(getxattr("f", "user.a", NULL, 0) == 5, "the attribute's length is wrong");
	MUST(setxattr("f", "trusted.t", "\0\1\2", 3, 0));
	MUST(setxattr("f", "security.test", "s", 1, 0));
	n = listxattr("f", list, sizeof(list));
	EXPECT(n > 0 && memmem(list, (size_t)n, "user.a", 7) &&
		       memmem(list, (size_t)n, "trusted.t", 10),
	       "listxattr returned %zd bytes", n);
	EXPECT(n == listxattr(lower_path("f"), buf, sizeof(buf)),
	       "the lower file has other attributes");
	MUST(removexattr("f", "user.a"));
	EXPECT_ERRNO(getxattr("f", "user.a", buf, sizeof(buf)), ENODATA);
	EXPECT_ERRNO(getxattr(lower_path("f"), "user.a", buf, sizeof(buf)), ENODATA);
	EXPECT_ERRNO(setxattr("f", "nonsense.a", "x", 1, 0), EOPNOTSUPP);
	MUST(symlink("f", "s"));
	EXPECT_ERRNO(lsetxattr("s", "user.a", "x", 1, 0), EPERM);
	MUST(mkdir("d", 0755));
	MUST(setxattr("d", "user.d", "dir", 3, 0));
	EXPECT(getxattr(lower_path("d"), "user.d", buf, 10) == 3,
	       "the lower directory has no attribute");
}

/* The lower file system removes capabilities at a write; setcap(8) comes after the stores. */
BEHAVIOUR(write_back_keeps_capabilities)
{
	int fd = make_file("f", 1, HUGE + 5000), other = make_file("g", 2, 100);
	unsigned char *map = map_shared(fd, 0, HUGE);
	char buf[64];

	pattern(map, 3, 0, SMALL);
	give_capability("f");
	give_capability("g");
	MUST(fsync(fd));
	MUST(fsync(other));
	EXPECT(getxattr("f", "security.capability", buf, sizeof(buf)) == sizeof(net_raw_caps),
	       "write-back removed the capabilities");
	EXPECT(getxattr(lower_path("g"), "security.capability", buf, sizeof(buf)) ==
		       sizeof(net_raw_caps),
	       "write-back removed the capabilities of the lower file");
	expect_lower("lower file", "f", 3, 0, SMALL);
	expect_lower("lower file", "f", 1, SMALL, HUGE + 5000 - SMALL);
	/* A write removes them. */
	EXPECT(pwrite(other, "x", 1, 0) == 1, "write: %s", strerror(errno));
	EXPECT_ERRNO(getxattr("g", "security.capability", buf, sizeof(buf)), ENODATA);
	MUST(munmap(map, HUGE));
	close(other);
	close(fd);
}

static void expect_later(struct timespec then, struct timespec now, const char *what)
{
	EXPECT(now.tv_sec > then.tv_sec ||
		       (now.tv_sec == then.tv_sec && now.tv_nsec > then.tv_nsec),
	       "%s did not change the time: %lld.%09ld before, %lld.%09ld after", what,
	       (long long)then.tv_sec, then.tv_nsec, (long long)now.tv_sec, now.tv_nsec);
}

BEHAVIOUR(writes_and_stores_change_the_times_but_loads_and_reads_do_not)
{
	struct timespec set[2] = { { 1000000, 111 }, { 2000000, 222 } };
	int fd = make_file("f", 1, HUGE);
	unsigned char *map = map_shared(fd, 0, HUGE);
	struct stat st, lower;
	char byte;

	MUST(utimensat(AT_FDCWD, "f", set, 0));
	MUST(stat("f", &st));
	EXPECT(st.st_atim.tv_sec == 1000000 && st.st_mtim.tv_sec == 2000000 &&
		       st.st_mtim.tv_nsec / 1000 == 0,
	       "times set by utimensat are %lld and %lld.%09ld", (long long)st.st_atim.tv_sec,
	       (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
	MUST(stat(lower_path("f"), &lower));
	EXPECT(lower.st_mtim.tv_sec == 2000000, "the lower file's time is %lld",
	       (long long)lower.st_mtim.tv_sec);
	/* Write-back of earlier writes keeps the time that utimensat has set. */
	MUST(fsync(fd));
	MUST(stat(lower_path("f"), &lower));
	EXPECT(lower.st_mtim.tv_sec == 2000000, "after write-back, the lower file's time is %lld",
	       (long long)lower.st_mtim.tv_sec);
	/* Small ext4 file systems have a resolution of one second. */
	usleep(1100000);
	EXPECT(pwrite(fd, "x", 1, 5) == 1, "write: %s", strerror(errno));
	MUST(stat("f", &lower));
	expect_later(st.st_mtim, lower.st_mtim, "a write");
	expect_later(st.st_ctim, lower.st_ctim, "a write");
	MUST(utimensat(AT_FDCWD, "f", set, 0));
	MUST(stat("f", &st));
	map[100] = 1;
	MUST(msync(map, HUGE, MS_SYNC));
	MUST(stat("f", &lower));
	expect_later(st.st_mtim, lower.st_mtim, "a store and msync");
	MUST(fsync(fd));
	MUST(stat(lower_path("f"), &lower));
	expect_later(st.st_mtim, lower.st_mtim, "a store and fsync, in the lower file,");
	MUST(utimensat(AT_FDCWD, "f", set, 0));
	(void)*(volatile unsigned char *)(map + 5);
	EXPECT(pread(fd, &byte, 1, 0) == 1, "read: %s", strerror(errno));
	MUST(stat("f", &st));
	EXPECT(st.st_mtim.tv_sec == 2000000, "a load or a read changed the time");
	MUST(ftruncate(fd, 5));
	MUST(stat("f", &lower));
	expect_later(st.st_mtim, lower.st_mtim, "a truncate");
}

BEHAVIOUR(statfs_reports_the_lower_file_system)
{
	struct statvfs here, there;
	struct statfs fs;
	struct stat st, root;

	MUST(statvfs(".", &here));
	MUST(statvfs(work_lower, &there));
	EXPECT(here.f_blocks * here.f_frsize == there.f_blocks * there.f_frsize &&
		       here.f_namemax == there.f_namemax,
	       "%llu bytes, and %llu in the lower fs; names of up to %lu and %lu bytes",
	       (unsigned long long)here.f_blocks * here.f_frsize,
	       (unsigned long long)there.f_blocks * there.f_frsize, here.f_namemax,
	       there.f_namemax);
	MUST(statfs(".", &fs));
	touch_file("f");
	MUST(stat("f", &st));
	MUST(stat(".", &root));
	EXPECT(st.st_dev == root.st_dev, "the device numbers of a file and its directory differ");
	EXPECT(pathconf(".", _PC_NAME_MAX) >= 255 ||
		       pathconf(".", _PC_NAME_MAX) == (long)fs.f_namelen,
	       "the longest name is %ld", pathconf(".", _PC_NAME_MAX));
}

BEHAVIOUR(append_only_flag_is_enforced)
{
	int fd = make_file("f", 1, 100), flags = 0;

	if (ioctl(fd, FS_IOC_GETFLAGS, &flags)) {
		EXPECT(errno == ENOTTY || errno == EOPNOTSUPP, "FS_IOC_GETFLAGS: %s",
		       strerror(errno));
		skip("no file flags here");
	}
	flags |= FS_APPEND_FL;
	if (ioctl(fd, FS_IOC_SETFLAGS, &flags))
		skip("file flags cannot be set here: %s", strerror(errno));
	EXPECT_ERRNO(open("f", O_RDWR), EPERM);
	EXPECT_ERRNO(unlink("f"), EPERM);
	EXPECT_ERRNO(truncate("f", 0), EPERM);
	flags &= ~FS_APPEND_FL;
	MUST(ioctl(fd, FS_IOC_SETFLAGS, &flags));
	MUST(truncate("f", 0));
}

/* Sets or clears a flag of the lower file. Returns whether its file system allows that. */
static bool set_lower_flag(const char *name, int flag, bool set)
{
	int fd = open(lower_path(name), O_RDONLY | O_CLOEXEC), flags = 0;
	bool done;

	EXPECT(fd >= 0, "open %s: %s", lower_path(name), strerror(errno));
	done = !ioctl(fd, FS_IOC_GETFLAGS, &flags);
	flags = set ? flags | flag : flags & ~flag;
	done = done && !ioctl(fd, FS_IOC_SETFLAGS, &flags);
	close(fd);
	return done;
}

/* The inode is cached and a descriptor is open when the flag of the lower file changes. */
BEHAVIOUR(flags_set_on_the_lower_file_are_enforced)
{
	int fd = make_file("f", 1, 3 * SMALL), other;

	MUST(fsync(fd));
	if (!set_lower_flag("f", FS_APPEND_FL, true))
		skip("no file flags here");
	EXPECT_ERRNO(ftruncate(fd, 0), EPERM);
	EXPECT_ERRNO(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, SMALL), EPERM);
	EXPECT_ERRNO(open("f", O_RDWR), EPERM);
	other = open_file("f", O_WRONLY | O_APPEND);
	EXPECT(write(other, "x", 1) == 1, "append: %s", strerror(errno));
	close(other);
	EXPECT(set_lower_flag("f", FS_APPEND_FL, false), "the flag cannot be cleared");
	close(open_file("f", O_RDWR));
	MUST(ftruncate(fd, 2 * SMALL));
	EXPECT(set_lower_flag("f", FS_IMMUTABLE_FL, true), "no immutable flag: %s",
	       strerror(errno));
	EXPECT_ERRNO(pwrite(fd, "x", 1, 0), EPERM);
	EXPECT_ERRNO(fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, SMALL), EPERM);
	EXPECT_ERRNO(open("f", O_RDWR), EPERM);
	EXPECT_ERRNO(unlink("f"), EPERM);
	EXPECT(set_lower_flag("f", FS_IMMUTABLE_FL, false), "the flag cannot be cleared");
	close(open_file("f", O_RDWR));
	read_pattern("read after the refused changes", fd, 1, 0, 2 * SMALL);
	MUST(fsync(fd));
}

/* chattr +i stops new stores; earlier ones, dirty at that time, reach the lower file. */
BEHAVIOUR(immutable_file_keeps_earlier_stores_and_takes_no_new_ones)
{
	int fd = make_file("f", 1, HUGE), flags = 0, stored, other, written, synced, lower;
	unsigned char *map, byte;

	MUST(fsync(fd));
	map = map_shared(fd, 0, HUGE);
	/* An append and stores that are not written back yet. */
	write_pattern(fd, 1, HUGE, 5000);
	pattern(map, 2, 0, 3 * SMALL);
	MUST(ioctl(fd, FS_IOC_GETFLAGS, &flags));
	flags |= FS_IMMUTABLE_FL;
	if (ioctl(fd, FS_IOC_SETFLAGS, &flags))
		skip("file flags cannot be set here: %s", strerror(errno));
	catch_signals();
	stored = signal_of_store(map);
	other = signal_of_store(map + HUGE / 2);
	written = pwrite(fd, "x", 1, 0) < 0 ? errno : 0;
	synced = fsync(fd) ? errno : 0;
	lower = open(lower_path("f"), O_RDONLY | O_CLOEXEC);
	byte = pread(lower, &byte, 1, HUGE + 4999) == 1;
	/* Clear the flag before a check can fail: an immutable file cannot be removed. */
	flags &= ~FS_IMMUTABLE_FL;
	MUST(ioctl(fd, FS_IOC_SETFLAGS, &flags));
	close(lower);
	EXPECT(stored == SIGBUS && other == SIGBUS,
	       "stores into an immutable file raised signals %d and %d, expected SIGBUS", stored,
	       other);
	EXPECT(written == EPERM, "a write returned %s, expected EPERM", strerror(written));
	EXPECT(!synced, "fsync of an immutable file: %s", strerror(synced));
	EXPECT(byte, "the appended bytes are not in the lower file");
	expect_lower("lower file", "f", 2, 0, 3 * SMALL);
	expect_lower("lower file", "f", 1, 3 * SMALL, HUGE + 5000 - 3 * SMALL);
	EXPECT(!signal_of_store(map), "a store after chattr -i raised a signal");
	MUST(munmap(map, HUGE));
	close(fd);
}

static int make_swap_file(const char *name, uint32_t pages)
{
	unsigned char *page = buffer(SMALL);
	const uint32_t head[3] = { 1, pages - 1, 0 }; /* version, last page, bad pages */
	int fd = make_file(name, 1, pages * SMALL);

	memset(page, 0, SMALL);
	memcpy(page + 1024, head, sizeof(head));
	memcpy(page + SMALL - 10, "SWAPSPACE2", 10);
	EXPECT(pwrite(fd, page, SMALL, 0) == SMALL, "write: %s", strerror(errno));
	MUST(fchmod(fd, 0600));
	MUST(fsync(fd));
	free(page);
	return fd;
}

/* The kernel swaps to the blocks of the lower file, past its file system. */
BEHAVIOUR(file_whose_lower_file_is_a_swap_file_cannot_change)
{
	int fd = make_swap_file("s", 4 * HUGE / SMALL), punched, written, cut, mapped, stored;
	unsigned char *map = map_shared(fd, 0, SMALL), *late;

	catch_signals();
	if (swapon(lower_path("s"), 0))
		skip("swapon on the lower file: %s", strerror(errno));
	punched = fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, HUGE, HUGE) ? errno : 0;
	written = pwrite(fd, "x", 1, HUGE) == 1 ? 0 : errno;
	cut = ftruncate(fd, HUGE) ? errno : 0;
	late = mmap(NULL, SMALL, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	mapped = late == MAP_FAILED ? errno : 0;
	stored = signal_of_store(map);
	MUST(swapoff(lower_path("s")));
	EXPECT(punched == ETXTBSY, "punch: %s, expected ETXTBSY", strerror(punched));
	EXPECT(written == ETXTBSY, "write: %s, expected ETXTBSY", strerror(written));
	EXPECT(cut == ETXTBSY, "ftruncate: %s, expected ETXTBSY", strerror(cut));
	EXPECT(mapped == ETXTBSY, "mmap: %s, expected ETXTBSY", strerror(mapped));
	EXPECT(stored == SIGBUS, "a store raised signal %d, expected SIGBUS", stored);
	expect_zero("read of a swap file", map, 0, 1024);
	MUST(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, HUGE, HUGE));
	EXPECT(pwrite(fd, "x", 1, HUGE) == 1, "write after swapoff: %s", strerror(errno));
	EXPECT(!signal_of_store(map), "a store after swapoff raised a signal");
	MUST(ftruncate(fd, HUGE));
}

RUN_BEHAVIOURS
