// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * What is known of a file beside its bytes and its rights: extended attributes, times,
 * flags, and the facts of its file system. What is set here is found below.
 *
 * vm: page=auto lower=ext4,xfs timeout=180
 */
#include "entry.h"

#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/statvfs.h>
#include <sys/swap.h>
#include <sys/xattr.h>

BEHAVIOUR(attributes)
{
	char buf[70000], list[1000];
	ssize_t n;

	touch_file("f");
	if (setxattr("f", "user.a", "value", 5, 0)) {
		EXPECT(errno == EOPNOTSUPP, "setxattr: %s", strerror(errno));
		skip("no extended attributes here");
	}
	n = getxattr(lower_path("f"), "user.a", buf, sizeof(buf));
	EXPECT(n == 5 && !memcmp(buf, "value", 5), "the attribute below has %zd bytes", n);
	EXPECT_ERRNO(setxattr("f", "user.a", "x", 1, XATTR_CREATE), EEXIST);
	EXPECT_ERRNO(setxattr("f", "user.b", "x", 1, XATTR_REPLACE), ENODATA);
	EXPECT_ERRNO(getxattr("f", "user.a", buf, 2), ERANGE);
	EXPECT(getxattr("f", "user.a", NULL, 0) == 5, "the attribute's length is wrong");
	MUST(setxattr("f", "trusted.t", "\0\1\2", 3, 0));
	MUST(setxattr("f", "security.test", "s", 1, 0));
	n = listxattr("f", list, sizeof(list));
	EXPECT(n > 0 && memmem(list, (size_t)n, "user.a", 7) &&
		       memmem(list, (size_t)n, "trusted.t", 10),
	       "listxattr gave %zd bytes", n);
	EXPECT(n == listxattr(lower_path("f"), buf, sizeof(buf)), "other attributes below");
	MUST(removexattr("f", "user.a"));
	EXPECT_ERRNO(getxattr("f", "user.a", buf, sizeof(buf)), ENODATA);
	EXPECT_ERRNO(getxattr(lower_path("f"), "user.a", buf, sizeof(buf)), ENODATA);
	EXPECT_ERRNO(setxattr("f", "nonsense.a", "x", 1, 0), EOPNOTSUPP);
	MUST(symlink("f", "s"));
	EXPECT_ERRNO(lsetxattr("s", "user.a", "x", 1, 0), EPERM);
	MUST(mkdir("d", 0755));
	MUST(setxattr("d", "user.d", "dir", 3, 0));
	EXPECT(getxattr(lower_path("d"), "user.d", buf, 10) == 3,
	       "no attribute of the directory below");
}

/* setcap(8) on what was just written: it is still set when all of it is below. */
BEHAVIOUR(capabilities_after_stores)
{
	/* VFS_CAP_REVISION_2, effective: CAP_NET_RAW. */
	const uint32_t caps[5] = { 0x02000001, 1u << 13, 0, 0, 0 };
	int fd = make_file("f", 1, HUGE + 5000), other = make_file("g", 2, 100);
	unsigned char *map = map_shared(fd, 0, HUGE);
	char buf[64];

	pattern(map, 3, 0, SMALL);
	if (setxattr("f", "security.capability", caps, sizeof(caps), 0)) {
		EXPECT(errno == EOPNOTSUPP, "setxattr: %s", strerror(errno));
		skip("no extended attributes here");
	}
	MUST(setxattr("g", "security.capability", caps, sizeof(caps), 0));
	MUST(fsync(fd));
	MUST(fsync(other));
	EXPECT(getxattr("f", "security.capability", buf, sizeof(buf)) == sizeof(caps),
	       "write-back has taken the capabilities away");
	EXPECT(getxattr(lower_path("g"), "security.capability", buf, sizeof(buf)) == sizeof(caps),
	       "write-back has taken the capabilities away, below");
	expect_lower("below", "f", 3, 0, SMALL);
	expect_lower("below", "f", 1, SMALL, HUGE + 5000 - SMALL);
	/* Who writes takes them away. */
	EXPECT(pwrite(other, "x", 1, 0) == 1, "write: %s", strerror(errno));
	EXPECT_ERRNO(getxattr("g", "security.capability", buf, sizeof(buf)), ENODATA);
	MUST(munmap(map, HUGE));
	close(other);
	close(fd);
}

static void timespec_before(struct timespec then, struct timespec now, const char *what)
{
	EXPECT(now.tv_sec > then.tv_sec ||
		       (now.tv_sec == then.tv_sec && now.tv_nsec > then.tv_nsec),
	       "%s did not change the time: %lld.%09ld before, %lld.%09ld after", what,
	       (long long)then.tv_sec, then.tv_nsec, (long long)now.tv_sec, now.tv_nsec);
}

BEHAVIOUR(times)
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
	       "times that were set are %lld and %lld.%09ld", (long long)st.st_atim.tv_sec,
	       (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
	MUST(stat(lower_path("f"), &lower));
	EXPECT(lower.st_mtim.tv_sec == 2000000, "below, the file is of %lld",
	       (long long)lower.st_mtim.tv_sec);
	/* What was stored before is written now, and is not newer. */
	MUST(fsync(fd));
	MUST(stat(lower_path("f"), &lower));
	EXPECT(lower.st_mtim.tv_sec == 2000000, "below, when it is written, the file is of %lld",
	       (long long)lower.st_mtim.tv_sec);
	/* Small file systems know seconds only. */
	usleep(1100000);
	EXPECT(pwrite(fd, "x", 1, 5) == 1, "write: %s", strerror(errno));
	MUST(stat("f", &lower));
	timespec_before(st.st_mtim, lower.st_mtim, "a write");
	timespec_before(st.st_ctim, lower.st_ctim, "a write");
	MUST(utimensat(AT_FDCWD, "f", set, 0));
	MUST(stat("f", &st));
	map[100] = 1;
	MUST(msync(map, HUGE, MS_SYNC));
	MUST(stat("f", &lower));
	timespec_before(st.st_mtim, lower.st_mtim, "a store and msync");
	MUST(fsync(fd));
	MUST(stat(lower_path("f"), &lower));
	timespec_before(st.st_mtim, lower.st_mtim, "a store and fsync, below,");
	/* Loads and reads do not. */
	MUST(utimensat(AT_FDCWD, "f", set, 0));
	(void)*(volatile unsigned char *)(map + 5);
	EXPECT(pread(fd, &byte, 1, 0) == 1, "read: %s", strerror(errno));
	MUST(stat("f", &st));
	EXPECT(st.st_mtim.tv_sec == 2000000, "a load changed the time");
	MUST(ftruncate(fd, 5));
	MUST(stat("f", &lower));
	timespec_before(st.st_mtim, lower.st_mtim, "a truncate");
}

BEHAVIOUR(file_system_facts)
{
	struct statvfs here, there;
	struct statfs fs;
	struct stat st, root;

	MUST(statvfs(".", &here));
	MUST(statvfs(work_lower, &there));
	EXPECT(here.f_blocks * here.f_frsize == there.f_blocks * there.f_frsize &&
		       here.f_namemax == there.f_namemax,
	       "%llu bytes here, %llu below; names of %lu and %lu",
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

/* Flags of files that the file system below keeps. */
BEHAVIOUR(file_flags)
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

/* Sets one flag of the file below, or clears it. False: that cannot be done there. */
static bool flag_below(const char *name, int flag, bool set)
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

/* Somebody changes them below, while the file is known, and open, here. */
BEHAVIOUR(file_flags_below)
{
	int fd = make_file("f", 1, 3 * SMALL), other;

	MUST(fsync(fd));
	if (!flag_below("f", FS_APPEND_FL, true))
		skip("no file flags here");
	EXPECT_ERRNO(ftruncate(fd, 0), EPERM);
	EXPECT_ERRNO(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, SMALL), EPERM);
	EXPECT_ERRNO(open("f", O_RDWR), EPERM);
	other = open_file("f", O_WRONLY | O_APPEND);
	EXPECT(write(other, "x", 1) == 1, "append: %s", strerror(errno));
	close(other);
	EXPECT(flag_below("f", FS_APPEND_FL, false), "the flag stays");
	close(open_file("f", O_RDWR));
	MUST(ftruncate(fd, 2 * SMALL));
	EXPECT(flag_below("f", FS_IMMUTABLE_FL, true), "no such flag: %s", strerror(errno));
	EXPECT_ERRNO(pwrite(fd, "x", 1, 0), EPERM);
	EXPECT_ERRNO(fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, SMALL), EPERM);
	EXPECT_ERRNO(open("f", O_RDWR), EPERM);
	EXPECT_ERRNO(unlink("f"), EPERM);
	EXPECT(flag_below("f", FS_IMMUTABLE_FL, false), "the flag stays");
	close(open_file("f", O_RDWR));
	read_pattern("read after all that was refused", fd, 1, 0, 2 * SMALL);
	MUST(fsync(fd));
}

/* What was stored before chattr +i is kept, and nothing is stored after it. */
BEHAVIOUR(immutable_after_stores)
{
	int fd = make_file("f", 1, HUGE), flags = 0, stored, other, written, synced, below_it;
	unsigned char *map, byte;

	MUST(fsync(fd));
	map = map_shared(fd, 0, HUGE);
	/* Appended, and stored to a mapping: not yet below. */
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
	below_it = open(lower_path("f"), O_RDONLY | O_CLOEXEC);
	byte = pread(below_it, &byte, 1, HUGE + 4999) == 1;
	/* Nobody could remove it. */
	flags &= ~FS_IMMUTABLE_FL;
	MUST(ioctl(fd, FS_IOC_SETFLAGS, &flags));
	close(below_it);
	EXPECT(stored == SIGBUS && other == SIGBUS,
	       "stores into an immutable file gave signals %d and %d, expected SIGBUS", stored,
	       other);
	EXPECT(written == EPERM, "a write gave %s, expected EPERM", strerror(written));
	EXPECT(!synced, "fsync of an immutable file: %s", strerror(synced));
	EXPECT(byte, "what was appended is not below");
	expect_lower("below", "f", 2, 0, 3 * SMALL);
	expect_lower("below", "f", 1, 3 * SMALL, HUGE + 5000 - 3 * SMALL);
	EXPECT(!signal_of_store(map), "no store after chattr -i");
	MUST(munmap(map, HUGE));
	close(fd);
}

/* A file of this size that swapon(2) takes. */
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

/* The kernel swaps to the file below: its blocks must stay where they are. */
BEHAVIOUR(swap_file_below)
{
	int fd = make_swap_file("s", 4 * HUGE / SMALL), punched, written, cut, mapped, stored;
	unsigned char *map = map_shared(fd, 0, SMALL), *late;

	catch_signals();
	if (swapon(lower_path("s"), 0))
		skip("no swap file here: %s", strerror(errno));
	punched = fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, HUGE, HUGE) ? errno : 0;
	written = pwrite(fd, "x", 1, HUGE) == 1 ? 0 : errno;
	cut = ftruncate(fd, HUGE) ? errno : 0;
	late = mmap(NULL, SMALL, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	mapped = late == MAP_FAILED ? errno : 0;
	stored = signal_of_store(map);
	MUST(swapoff(lower_path("s")));
	EXPECT(punched == ETXTBSY, "punch gave %s, expected ETXTBSY", strerror(punched));
	EXPECT(written == ETXTBSY, "write gave %s, expected ETXTBSY", strerror(written));
	EXPECT(cut == ETXTBSY, "ftruncate gave %s, expected ETXTBSY", strerror(cut));
	EXPECT(mapped == ETXTBSY, "mmap gave %s, expected ETXTBSY", strerror(mapped));
	EXPECT(stored == SIGBUS, "a store gave signal %d, expected SIGBUS", stored);
	expect_zero("read of a swap file", map, 0, 1024);
	MUST(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, HUGE, HUGE));
	EXPECT(pwrite(fd, "x", 1, HUGE) == 1, "write after swapoff: %s", strerror(errno));
	EXPECT(!signal_of_store(map), "no store after swapoff");
	MUST(ftruncate(fd, HUGE));
}

RUN_BEHAVIOURS
