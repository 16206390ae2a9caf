// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The name space: what is done to names and attributes here is what is found below,
 * and who may not do it there may not do it here.
 *
 * vm: page=2M lower=ext4,xfs timeout=180
 */
#include "common.h"

#include <dirent.h>
#include <linux/fs.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/xattr.h>

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1
#define RENAME_EXCHANGE 2
#define RENAME_WHITEOUT 4
#endif

static void touch_file(const char *name)
{
	close(open_file(name, O_RDWR | O_CREAT));
}

static bool exists(const char *name)
{
	struct stat st, lower;
	bool here = !lstat(name, &st), there = !lstat(below(name), &lower);

	EXPECT(here == there, "%s is %s here but %s below", name, here ? "found" : "missing",
	       there ? "found" : "missing");
	if (here)
		EXPECT(st.st_mode == lower.st_mode && st.st_nlink == lower.st_nlink &&
			       st.st_uid == lower.st_uid && st.st_gid == lower.st_gid &&
			       st.st_size == lower.st_size && st.st_rdev == lower.st_rdev,
		       "%s: mode %o links %lu uid %u gid %u size %lld here, "
		       "%o %lu %u %u %lld below",
		       name, st.st_mode, (unsigned long)st.st_nlink, st.st_uid, st.st_gid,
		       (long long)st.st_size, lower.st_mode, (unsigned long)lower.st_nlink,
		       lower.st_uid, lower.st_gid, (long long)lower.st_size);
	return here;
}

static void expect_exists(const char *name, bool wanted)
{
	EXPECT(exists(name) == wanted, "%s %s", name, wanted ? "is missing" : "is still there");
}

/* What root of the superuser's own may not be used for: another user's rights. */
static void become(uid_t uid, gid_t gid)
{
	MUST(syscall(SYS_setgroups, 0, NULL));
	MUST(setresgid(gid, gid, gid));
	MUST(setresuid(uid, uid, uid));
}

static void create_and_remove(void)
{
	touch_file("f");
	expect_exists("f", true);
	EXPECT_ERRNO(open("f", O_RDWR | O_CREAT | O_EXCL, 0644), EEXIST);
	EXPECT_ERRNO(open("none", O_RDWR), ENOENT);
	EXPECT_ERRNO(open("f/x", O_RDWR), ENOTDIR);
	MUST(mkdir("d", 0700));
	expect_exists("d", true);
	EXPECT_ERRNO(mkdir("d", 0700), EEXIST);
	EXPECT_ERRNO(open("d", O_RDWR), EISDIR);
	touch_file("d/f");
	EXPECT_ERRNO(rmdir("d"), ENOTEMPTY);
	EXPECT_ERRNO(unlink("d"), EISDIR);
	EXPECT_ERRNO(rmdir("f"), ENOTDIR);
	MUST(unlink("d/f"));
	MUST(rmdir("d"));
	expect_exists("d", false);
	MUST(unlink("f"));
	expect_exists("f", false);
	EXPECT_ERRNO(unlink("f"), ENOENT);
	/* The longest name, and one that is too long. */
	{
		char name[300];

		memset(name, 'n', sizeof(name));
		name[255] = 0;
		touch_file(name);
		expect_exists(name, true);
		MUST(unlink(name));
		name[255] = 'n';
		name[256] = 0;
		EXPECT_ERRNO(open(name, O_RDWR | O_CREAT, 0644), ENAMETOOLONG);
	}
}

/* Looked up while missing, then made below: a negative entry must not outlive it. */
static void made_below(void)
{
	int fd;

	expect_exists("later", false);
	fd = open(below("later"), O_RDWR | O_CREAT, 0600);
	EXPECT(fd >= 0, "open below: %s", strerror(errno));
	write_pattern(fd, 1, 0, 5000);
	close(fd);
	expect_exists("later", true);
	fd = open_file("later", O_RDWR);
	read_pattern("read of a file made below", fd, 1, 0, 5000);
	close(fd);
	MUST(unlink(below("later")));
	expect_exists("later", false);
}

static long rename2(const char *from, const char *to, unsigned int flags)
{
	return syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, flags);
}

static void renames(void)
{
	int fd = make_file("a", 1, 10000), fd2;
	unsigned char *map = map_shared(fd, 0, 10000);

	pattern(map, 2, 0, 10000);
	MUST(rename("a", "b"));
	expect_exists("a", false);
	expect_exists("b", true);
	MUST(msync(map, 10000, MS_SYNC));
	expect_below("below its new name", "b", 2, 0, 10000);
	fd2 = make_file("c", 3, 100);
	MUST(fsync(fd2));
	close(fd2);
	EXPECT_ERRNO(rename2("b", "c", RENAME_NOREPLACE), EEXIST);
	MUST(rename2("b", "c", RENAME_EXCHANGE));
	expect_below("below after an exchange", "c", 2, 0, 10000);
	expect_below("below after an exchange", "b", 3, 0, 100);
	/* Over a file that is open and mapped: that one lives on, nameless. */
	MUST(rename("b", "c"));
	pattern(map, 4, 0, 10000);
	read_pattern("read of a replaced file", fd, 4, 0, 10000);
	expect_exists("b", false);
	fd = open_file("c", O_RDONLY);
	read_pattern("read of what replaced it", fd, 3, 0, 100);
	MUST(mkdir("d", 0755));
	MUST(mkdir("d/e", 0755));
	EXPECT_ERRNO(rename("d", "d/e/f"), EINVAL);
	EXPECT_ERRNO(rename("d", "c"), ENOTDIR);
	EXPECT_ERRNO(rename("c", "d"), EISDIR);
	MUST(rename("c", "d/e/c"));
	expect_exists("d/e/c", true);
	EXPECT_ERRNO(rename("none", "d"), ENOENT);
	EXPECT_ERRNO(rename2("d", "x", 0x80), EINVAL);
	if (rename2("d/e/c", "d/e/w", RENAME_WHITEOUT))
		EXPECT(errno == EINVAL || errno == EPERM, "RENAME_WHITEOUT: %s", strerror(errno));
}

static void links(void)
{
	char target[100];
	struct stat a, b;
	ssize_t n;
	int fd = make_file("f", 1, 5000);
	int other;

	MUST(link("f", "g"));
	MUST(stat("f", &a));
	MUST(stat("g", &b));
	EXPECT(a.st_ino == b.st_ino && a.st_dev == b.st_dev && a.st_nlink == 2,
	       "two names of one file: inodes %lu and %lu, %lu links", (unsigned long)a.st_ino,
	       (unsigned long)b.st_ino, (unsigned long)a.st_nlink);
	expect_exists("g", true);
	/* One file, so one cache. */
	other = open_file("g", O_RDWR);
	pattern(map_shared(other, 0, 5000), 2, 0, 5000);
	read_pattern("read by the other name", fd, 2, 0, 5000);
	MUST(unlink("f"));
	expect_exists("g", true);
	MUST(fstat(fd, &a));
	EXPECT(a.st_nlink == 1, "%lu links, expected 1", (unsigned long)a.st_nlink);

	MUST(symlink("g", "s"));
	n = readlink("s", target, sizeof(target));
	EXPECT(n == 1 && target[0] == 'g', "readlink gave %zd bytes", n);
	expect_exists("s", true);
	fd = open_file("s", O_RDONLY);
	read_pattern("read through a symbolic link", fd, 2, 0, 5000);
	EXPECT_ERRNO(open("s", O_RDONLY | O_NOFOLLOW), ELOOP);
	MUST(symlink("loop", "loop"));
	EXPECT_ERRNO(open("loop", O_RDONLY), ELOOP);
	MUST(mkdir("d", 0755));
	EXPECT_ERRNO(link("d", "d2"), EPERM);
	MUST(symlink("/proc/self", "out"));
	MUST(stat("out/status", &a));
}

static void special_files(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int sock, fd, client;
	struct stat st;
	char c = 0;

	MUST(mkfifo("fifo", 0640));
	expect_exists("fifo", true);
	fd = open_file("fifo", O_RDWR);
	EXPECT(write(fd, "x", 1) == 1 && read(fd, &c, 1) == 1 && c == 'x',
	       "the fifo does not work");
	if (!mknod("null", S_IFCHR | 0666, makedev(1, 3))) {
		expect_exists("null", true);
		fd = open("null", O_RDWR);
		/* A nodev mount is not our business. */
		EXPECT(fd >= 0 || errno == EACCES, "open of a device node: %s", strerror(errno));
		if (fd >= 0)
			EXPECT(read(fd, &c, 1) == 0, "/dev/null gave something");
		MUST(stat("null", &st));
		EXPECT(st.st_rdev == makedev(1, 3), "the node is device %lx",
		       (unsigned long)st.st_rdev);
	}
	strcpy(address.sun_path, "socket");
	sock = socket(AF_UNIX, SOCK_STREAM, 0);
	MUST(bind(sock, (struct sockaddr *)&address, sizeof(address)));
	expect_exists("socket", true);
	MUST(listen(sock, 1));
	client = socket(AF_UNIX, SOCK_STREAM, 0);
	MUST(connect(client, (struct sockaddr *)&address, sizeof(address)));
	EXPECT_ERRNO(open("socket", O_RDWR), ENXIO);
	MUST(unlink("socket"));
}

static void tmpfile_and_unlinked(void)
{
	unsigned char *map;
	char path[64];
	struct stat st;
	int fd = open(".", O_TMPFILE | O_RDWR, 0600);

	if (fd < 0) {
		EXPECT(errno == EOPNOTSUPP || errno == EISDIR, "O_TMPFILE: %s", strerror(errno));
		skip("no O_TMPFILE here");
	}
	MUST(ftruncate(fd, HUGE + 100));
	map = map_shared(fd, 0, HUGE + 100);
	pattern(map, 1, 0, HUGE + 100);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	MUST(linkat(AT_FDCWD, path, AT_FDCWD, "named", AT_SYMLINK_FOLLOW));
	MUST(fsync(fd));
	expect_below("a temporary file that got a name", "named", 1, 0, HUGE + 100);
	/* Unlinked, open and mapped: it lives on. */
	MUST(unlink("named"));
	expect_exists("named", false);
	MUST(fstat(fd, &st));
	EXPECT(!st.st_nlink, "%lu links, expected none", (unsigned long)st.st_nlink);
	pattern(map, 2, 0, HUGE);
	read_pattern("read of an unlinked file", fd, 2, 0, HUGE);
	MUST(fsync(fd));
	close(fd);
	expect_pattern("load of an unlinked and closed file", map, 2, 0, HUGE);
	/* O_EXCL says that it must never get a name. */
	fd = open(".", O_TMPFILE | O_RDWR | O_EXCL, 0600);
	EXPECT(fd >= 0, "O_TMPFILE | O_EXCL: %s", strerror(errno));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	EXPECT_ERRNO(linkat(AT_FDCWD, path, AT_FDCWD, "n2", AT_SYMLINK_FOLLOW), ENOENT);
}

/* Room below comes back when the last user of an unlinked file goes. */
static void unlinked_room(void)
{
	int fd = make_file("f", 1, 8 * HUGE);
	struct statvfs before, after;
	unsigned char *map;
	int tries;

	MUST(fsync(fd));
	map = map_shared(fd, 0, 8 * HUGE);
	pattern(map, 2, 0, 8 * HUGE);
	MUST(statvfs(lower_dir, &before));
	MUST(unlink("f"));
	close(fd);
	MUST(munmap(map, 8 * HUGE));
	for (tries = 0; tries < 100; tries++) {
		sync();
		MUST(statvfs(lower_dir, &after));
		if (after.f_bfree * after.f_bsize >= before.f_bfree * before.f_bsize + 7 * HUGE)
			return;
		usleep(50000);
	}
	FAIL("16 MB were deleted, but %llu bytes are free below, %llu before",
	     (unsigned long long)after.f_bfree * after.f_bsize,
	     (unsigned long long)before.f_bfree * before.f_bsize);
}

static void modes_and_owners(void)
{
	struct stat st;

	touch_file("f");
	MUST(chmod("f", 04751));
	MUST(chown("f", 1000, 1001));
	expect_exists("f", true);
	MUST(stat("f", &st));
	/* chown takes the set-user bit away. */
	EXPECT((st.st_mode & 07777) == 0751 && st.st_uid == 1000 && st.st_gid == 1001,
	       "mode %o uid %u gid %u, expected 751 1000 1001", st.st_mode & 07777, st.st_uid,
	       st.st_gid);
	MUST(symlink("f", "s"));
	MUST(lchown("s", 7, 8));
	MUST(lstat("s", &st));
	EXPECT(st.st_uid == 7 && st.st_gid == 8, "the link has uid %u gid %u", st.st_uid,
	       st.st_gid);
	umask(027);
	close(open("u", O_RDWR | O_CREAT, 0666));
	MUST(stat("u", &st));
	EXPECT((st.st_mode & 07777) == 0640, "mode %o under umask 027, expected 640",
	       st.st_mode & 07777);
	umask(0);
	/* A directory that hands its group down. */
	MUST(mkdir("d", 0777));
	MUST(chown("d", 0, 1234));
	MUST(chmod("d", 02777));
	touch_file("d/f");
	MUST(mkdir("d/e", 0755));
	MUST(stat("d/f", &st));
	EXPECT(st.st_gid == 1234, "group %u in a set-group directory", st.st_gid);
	MUST(stat("d/e", &st));
	EXPECT(st.st_gid == 1234 && (st.st_mode & S_ISGID), "a directory in it: group %u mode %o",
	       st.st_gid, st.st_mode);
	expect_exists("d/e", true);
}

/* A store or write by somebody else takes set-user bits away, as on Linux. */
static void kill_setuid(void *arg)
{
	int fd;

	(void)arg;
	become(1000, 1000);
	fd = open_file("f", O_RDWR);
	EXPECT(write(fd, "x", 1) == 1, "write: %s", strerror(errno));
}

static void setuid_goes(void)
{
	struct stat st;

	touch_file("f");
	MUST(chmod("f", 06777));
	in_child(kill_setuid, NULL);
	MUST(stat("f", &st));
	EXPECT(!(st.st_mode & (S_ISUID | S_ISGID)), "mode %o after a write by another user",
	       st.st_mode & 07777);
	expect_exists("f", true);
}

static void as_other_user(void *arg)
{
	struct stat st;
	int fd;

	(void)arg;
	become(1000, 1000);
	EXPECT_ERRNO(open("secret", O_RDONLY), EACCES);
	EXPECT_ERRNO(open("readable", O_RDWR), EACCES);
	fd = open_file("readable", O_RDONLY);
	read_pattern("read by another user", fd, 1, 0, 5000);
	EXPECT_ERRNO((long)mmap(NULL, SMALL, PROT_WRITE, MAP_SHARED, fd, 0), EACCES);
	EXPECT_ERRNO(truncate("readable", 0), EACCES);
	EXPECT_ERRNO(chmod("readable", 0777), EPERM);
	EXPECT_ERRNO(chown("readable", 1000, 1000), EPERM);
	EXPECT_ERRNO(unlink("readable"), EACCES);
	EXPECT_ERRNO(open("new", O_RDWR | O_CREAT, 0644), EACCES);
	EXPECT_ERRNO(mkdir("newdir", 0755), EACCES);
	EXPECT_ERRNO(rename("readable", "elsewhere"), EACCES);
	EXPECT_ERRNO(link("secret", "l"), EPERM);
	EXPECT_ERRNO(open("closed/f", O_RDONLY), EACCES);
	EXPECT_ERRNO(setxattr("readable", "user.x", "y", 1, 0), EACCES);
	EXPECT_ERRNO(setxattr("readable", "trusted.x", "y", 1, 0), EPERM);
	EXPECT_ERRNO(mknod("open/node", S_IFCHR | 0666, makedev(1, 3)), EPERM);
	EXPECT_ERRNO(utimes("readable", (struct timeval[2]){ { 1, 0 }, { 2, 0 } }), EPERM);
	EXPECT(access("readable", R_OK) == 0 && access("readable", W_OK) < 0,
	       "access(2) does not say what open(2) does");
	/* What it makes is its own. */
	fd = open_file("open/mine", O_RDWR | O_CREAT);
	write_pattern(fd, 2, 0, 100);
	MUST(fstat(fd, &st));
	EXPECT(st.st_uid == 1000 && st.st_gid == 1000, "a new file belongs to %u:%u", st.st_uid,
	       st.st_gid);
	/* Sticky: not what is another's. */
	EXPECT_ERRNO(unlink("open/roots"), EPERM);
}

static void permissions(void)
{
	/* The directories above must let another user through. */
	MUST(chmod(".", 0755));
	close(make_file("secret", 1, 100));
	MUST(chmod("secret", 0600));
	close(make_file("readable", 1, 5000));
	MUST(chmod("readable", 0644));
	MUST(mkdir("closed", 0700));
	touch_file("closed/f");
	MUST(mkdir("open", 0777));
	MUST(chmod("open", 01777));
	touch_file("open/roots");
	in_child(as_other_user, NULL);
	expect_exists("open/mine", true);
}

/* A descriptor keeps the rights that it was opened with; write-back has the mounter's. */
static void late_writer(void *arg)
{
	struct turns *turns = arg;
	unsigned char *map;
	int fd;

	become(1000, 1000);
	fd = open_file("f", O_RDWR);
	map = map_shared(fd, 0, HUGE);
	turn_give(turns->to_parent);
	turn_take(turns->to_child);
	pattern(map, 2, 0, HUGE);
	EXPECT(pwrite(fd, "z", 1, HUGE - 1) == 1, "write after chmod: %s", strerror(errno));
	MUST(fsync(fd));
}

static void rights_of_open_files(void)
{
	struct turns turns;
	int fd = make_file("f", 1, HUGE);
	pid_t pid;

	MUST(chmod(".", 0755));
	MUST(fchmod(fd, 0666));
	close(fd);
	turns_init(&turns);
	pid = start_child(late_writer, &turns);
	turn_take(turns.to_parent);
	MUST(chmod("f", 0));
	turn_give(turns.to_child);
	wait_child(pid);
	expect_below("below, after its rights went", "f", 2, 0, HUGE - 1);
}

static void attributes(void)
{
	char buf[70000], list[1000];
	ssize_t n;

	touch_file("f");
	if (setxattr("f", "user.a", "value", 5, 0)) {
		EXPECT(errno == EOPNOTSUPP, "setxattr: %s", strerror(errno));
		skip("no extended attributes here");
	}
	n = getxattr(below("f"), "user.a", buf, sizeof(buf));
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
	EXPECT(n == listxattr(below("f"), buf, sizeof(buf)), "other attributes below");
	MUST(removexattr("f", "user.a"));
	EXPECT_ERRNO(getxattr("f", "user.a", buf, sizeof(buf)), ENODATA);
	EXPECT_ERRNO(getxattr(below("f"), "user.a", buf, sizeof(buf)), ENODATA);
	EXPECT_ERRNO(setxattr("f", "nonsense.a", "x", 1, 0), EOPNOTSUPP);
	MUST(symlink("f", "s"));
	EXPECT_ERRNO(lsetxattr("s", "user.a", "x", 1, 0), EPERM);
	MUST(mkdir("d", 0755));
	MUST(setxattr("d", "user.d", "dir", 3, 0));
	EXPECT(getxattr(below("d"), "user.d", buf, 10) == 3, "no attribute of the directory below");
}

/* POSIX ACLs in their on-wire form: a version, then tag, permissions and id each. */
struct acl {
	uint32_t version;
	struct {
		uint16_t tag, perm;
		uint32_t id;
	} entry[5];
};

static void acl_reader(void *arg)
{
	int fd;

	(void)arg;
	become(1000, 1000);
	fd = open_file("f", O_RDONLY);
	read_pattern("read by leave of the ACL", fd, 1, 0, 100);
	EXPECT_ERRNO(open("f", O_RDWR), EACCES);
}

static void acl_stranger(void *arg)
{
	(void)arg;
	become(1001, 1001);
	EXPECT_ERRNO(open("f", O_RDONLY), EACCES);
}

static void access_lists(void)
{
	struct acl acl = {
		2,
		{
			{ 0x01, 6, ~0u },
			{ 0x02, 4, 1000 },
			{ 0x04, 0, ~0u },
			{ 0x10, 4, ~0u },
			{ 0x20, 0, ~0u },
		},
	}, back;
	struct stat st;
	ssize_t n;

	MUST(chmod(".", 0755));
	close(make_file("f", 1, 100));
	if (setxattr("f", "system.posix_acl_access", &acl, sizeof(acl), 0)) {
		EXPECT(errno == EOPNOTSUPP, "setting an ACL: %s", strerror(errno));
		skip("no ACLs here");
	}
	n = getxattr("f", "system.posix_acl_access", &back, sizeof(back));
	EXPECT(n == (ssize_t)sizeof(acl) && !memcmp(&acl, &back, sizeof(acl)),
	       "another ACL came back, of %zd bytes: %s", n, strerror(errno));
	n = getxattr(below("f"), "system.posix_acl_access", &back, sizeof(back));
	EXPECT(n == (ssize_t)sizeof(acl), "the ACL below has %zd bytes", n);
	in_child(acl_reader, NULL);
	in_child(acl_stranger, NULL);
	MUST(stat("f", &st));
	/* The mask shows as the group's rights. */
	EXPECT((st.st_mode & 0777) == 0640, "mode %o with an ACL, expected 640", st.st_mode & 0777);
	MUST(chmod("f", 0600));
	MUST(removexattr("f", "system.posix_acl_access"));
	/* A directory's default goes to what is made in it, in place of the umask. */
	MUST(mkdir("d", 0777));
	MUST(setxattr("d", "system.posix_acl_default", &acl, sizeof(acl), 0));
	touch_file("d/f");
	MUST(mkdir("d/e", 0777));
	n = getxattr("d/f", "system.posix_acl_access", &back, sizeof(back));
	EXPECT(n == (ssize_t)sizeof(acl), "a new file has an ACL of %zd bytes: %s", n,
	       strerror(errno));
	n = getxattr("d/e", "system.posix_acl_default", &back, sizeof(back));
	EXPECT(n == (ssize_t)sizeof(acl), "a new directory has a default ACL of %zd bytes: %s", n,
	       strerror(errno));
	acl.version = 9;
	EXPECT_ERRNO(setxattr("f", "system.posix_acl_access", &acl, sizeof(acl), 0), EOPNOTSUPP);
}

static void read_directory(void)
{
	unsigned char seen[5000] = { 0 };
	struct dirent *entry;
	long middle = -1;
	char name[300], at_middle[300] = "";
	unsigned int i, n = 0;
	DIR *dir;

	for (i = 0; i < COUNT(seen); i++) {
		snprintf(name, sizeof(name), "file-%u", i);
		touch_file(name);
	}
	dir = opendir(".");
	while ((entry = readdir(dir))) {
		if (sscanf(entry->d_name, "file-%u", &i) != 1)
			continue;
		EXPECT(i < COUNT(seen) && !seen[i], "%s came twice", entry->d_name);
		EXPECT(entry->d_type == DT_REG || entry->d_type == DT_UNKNOWN, "%s has type %d",
		       entry->d_name, entry->d_type);
		seen[i] = 1;
		if (++n == 2500)
			middle = telldir(dir);
		else if (n == 2501)
			strcpy(at_middle, entry->d_name);
	}
	EXPECT(n == COUNT(seen), "readdir gave %u files, expected %zu", n, COUNT(seen));
	seekdir(dir, middle);
	entry = readdir(dir);
	EXPECT(entry && !strcmp(entry->d_name, at_middle), "after seekdir comes %s, expected %s",
	       entry ? entry->d_name : "nothing", at_middle);
	rewinddir(dir);
	for (n = 0; readdir(dir); n++)
		;
	EXPECT(n == COUNT(seen) + 2, "%u entries after rewinddir, expected %zu", n,
	       COUNT(seen) + 2);
	/* What is removed while it is read is removed once. */
	rewinddir(dir);
	for (n = 0; (entry = readdir(dir));)
		if (!strncmp(entry->d_name, "file-", 5)) {
			MUST(unlink(entry->d_name));
			n++;
		}
	closedir(dir);
	EXPECT(n == COUNT(seen), "%u files were removed, expected %zu", n, COUNT(seen));
}

/* Inode numbers: the same in stat, in readdir and after the caches are dropped. */
static void inode_numbers(void)
{
	struct dirent *entry;
	struct stat before, after;
	DIR *dir = opendir(".");
	FILE *drop;

	touch_file("f");
	MUST(stat("f", &before));
	while ((entry = readdir(dir)) && strcmp(entry->d_name, "f"))
		;
	EXPECT(entry && entry->d_ino == before.st_ino, "readdir says inode %lu, stat %lu",
	       entry ? (unsigned long)entry->d_ino : 0, (unsigned long)before.st_ino);
	closedir(dir);
	drop = fopen("/proc/sys/vm/drop_caches", "w");
	if (drop) {
		fputs("2", drop);
		fclose(drop);
	}
	MUST(stat("f", &after));
	EXPECT(before.st_ino == after.st_ino, "inode %lu became %lu", (unsigned long)before.st_ino,
	       (unsigned long)after.st_ino);
}

static void timespec_before(struct timespec then, struct timespec now, const char *what)
{
	EXPECT(now.tv_sec > then.tv_sec ||
		       (now.tv_sec == then.tv_sec && now.tv_nsec > then.tv_nsec),
	       "%s did not change the time: %lld.%09ld before, %lld.%09ld after", what,
	       (long long)then.tv_sec, then.tv_nsec, (long long)now.tv_sec, now.tv_nsec);
}

static void times(void)
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
	MUST(stat(below("f"), &lower));
	EXPECT(lower.st_mtim.tv_sec == 2000000, "below, the file is of %lld",
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
	MUST(stat(below("f"), &lower));
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

static void appender(void *arg)
{
	int fd = open_file("log", O_WRONLY | O_APPEND), i;
	char record[128];
	char who = *(char *)arg;

	memset(record, who, sizeof(record));
	record[127] = '\n';
	for (i = 0; i < 1000; i++)
		EXPECT(write(fd, record, sizeof(record)) == sizeof(record), "append: %s",
		       strerror(errno));
}

static void append_by_many(void)
{
	char names[4] = "abcd", record[128];
	unsigned int count[4] = { 0 }, i, j;
	pid_t pids[4];
	struct stat st;
	int fd = open_file("log", O_RDWR | O_CREAT);

	for (i = 0; i < 4; i++)
		pids[i] = start_child(appender, &names[i]);
	for (i = 0; i < 4; i++)
		wait_child(pids[i]);
	MUST(fstat(fd, &st));
	EXPECT(st.st_size == 4000 * 128, "the log has %lld bytes, expected %d",
	       (long long)st.st_size, 4000 * 128);
	for (i = 0; i < 4000; i++) {
		MUST(pread(fd, record, sizeof(record), (off_t)(i * sizeof(record))));
		for (j = 0; j < 127; j++)
			EXPECT(record[j] == record[0], "record %u is mixed", i);
		EXPECT(record[0] >= 'a' && record[0] <= 'd' && record[127] == '\n',
		       "record %u is damaged", i);
		count[record[0] - 'a']++;
	}
	for (i = 0; i < 4; i++)
		EXPECT(count[i] == 1000, "%u records of %c, expected 1000", count[i], names[i]);
}

static unsigned int events_of(int fd, uint32_t mask)
{
	char buf[4096] __attribute__((aligned(8)));
	unsigned int seen = 0;
	ssize_t n, at;

	while ((n = read(fd, buf, sizeof(buf))) > 0) {
		for (at = 0; at < n;) {
			struct inotify_event *event = (struct inotify_event *)(buf + at);

			seen += !!(event->mask & mask);
			at += (ssize_t)sizeof(*event) + event->len;
		}
	}
	return seen;
}

static void notify_events(void)
{
	int in = inotify_init1(IN_NONBLOCK), fd;

	MUST(inotify_add_watch(in, ".", IN_ALL_EVENTS));
	fd = make_file("f", 1, 100);
	EXPECT(events_of(in, IN_CREATE) == 1, "no event for a new file");
	write_pattern(fd, 1, 0, 10);
	EXPECT(events_of(in, IN_MODIFY) == 1, "no event for a write");
	MUST(ftruncate(fd, 5));
	EXPECT(events_of(in, IN_MODIFY) == 1, "no event for a truncate");
	close(fd);
	EXPECT(events_of(in, IN_CLOSE_WRITE) == 1, "no event for a close");
	MUST(chmod("f", 0600));
	EXPECT(events_of(in, IN_ATTRIB) == 1, "no event for a chmod");
	MUST(rename("f", "g"));
	EXPECT(events_of(in, IN_MOVED_FROM | IN_MOVED_TO) == 2, "no events for a rename");
	MUST(unlink("g"));
	EXPECT(events_of(in, IN_DELETE) == 1, "no event for an unlink");
}

static void file_system_facts(void)
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
static void file_flags(void)
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

static const struct behaviour all[] = {
	{ "create_and_remove", create_and_remove },
	{ "made_below", made_below },
	{ "renames", renames },
	{ "links", links },
	{ "special_files", special_files },
	{ "tmpfile_and_unlinked", tmpfile_and_unlinked },
	{ "unlinked_room", unlinked_room },
	{ "modes_and_owners", modes_and_owners },
	{ "setuid_goes", setuid_goes },
	{ "permissions", permissions },
	{ "rights_of_open_files", rights_of_open_files },
	{ "attributes", attributes },
	{ "access_lists", access_lists },
	{ "read_directory", read_directory },
	{ "inode_numbers", inode_numbers },
	{ "times", times },
	{ "append_by_many", append_by_many },
	{ "notify_events", notify_events },
	{ "file_system_facts", file_system_facts },
	{ "file_flags", file_flags },
};

int main(int argc, char **argv)
{
	return run_all(argc, argv, all, COUNT(all));
}
