// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Names and directories: a change here is made in the lower file system, a change there is
 * visible here, and inotify reports changes.
 *
 * vm: page=auto lower=ext4 timeout=180
 * vm: name=xfs page=auto lower=xfs timeout=180 set=long
 */
#include "entry.h"

#include <dirent.h>
#include <linux/fs.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/un.h>

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1
#define RENAME_EXCHANGE 2
#define RENAME_WHITEOUT 4
#endif

BEHAVIOUR(create_and_remove_change_the_lower_fs)
{
	touch_file("f");
	expect_exists("f");
	EXPECT_ERRNO(open("f", O_RDWR | O_CREAT | O_EXCL, 0644), EEXIST);
	EXPECT_ERRNO(open("none", O_RDWR), ENOENT);
	EXPECT_ERRNO(open("f/x", O_RDWR), ENOTDIR);
	MUST(mkdir("d", 0700));
	expect_exists("d");
	EXPECT_ERRNO(mkdir("d", 0700), EEXIST);
	EXPECT_ERRNO(open("d", O_RDWR), EISDIR);
	touch_file("d/f");
	EXPECT_ERRNO(rmdir("d"), ENOTEMPTY);
	EXPECT_ERRNO(unlink("d"), EISDIR);
	EXPECT_ERRNO(rmdir("f"), ENOTDIR);
	MUST(unlink("d/f"));
	MUST(rmdir("d"));
	expect_missing("d");
	MUST(unlink("f"));
	expect_missing("f");
	EXPECT_ERRNO(unlink("f"), ENOENT);
	/* The longest name, and one that is too long. */
	{
		char name[300];

		memset(name, 'n', sizeof(name));
		name[255] = 0;
		touch_file(name);
		expect_exists(name);
		MUST(unlink(name));
		name[255] = 'n';
		name[256] = 0;
		EXPECT_ERRNO(open(name, O_RDWR | O_CREAT, 0644), ENAMETOOLONG);
	}
}

/* The lookup before leaves a negative dentry here, which must be revalidated. */
BEHAVIOUR(file_created_in_the_lower_fs_is_found)
{
	int fd;

	expect_missing("later");
	fd = open(lower_path("later"), O_RDWR | O_CREAT, 0600);
	EXPECT(fd >= 0, "open in the lower fs: %s", strerror(errno));
	write_pattern(fd, 1, 0, 5000);
	close(fd);
	expect_exists("later");
	fd = open_file("later", O_RDWR);
	read_pattern("read of a file made in the lower fs", fd, 1, 0, 5000);
	close(fd);
	MUST(unlink(lower_path("later")));
	expect_missing("later");
}

/* The dentry here is cached when the lower name is removed or replaced. */
BEHAVIOUR(open_with_o_creat_follows_removal_and_replacement_in_the_lower_fs)
{
	struct stat st;
	int fd = make_file("f", 1, 5000);

	MUST(fsync(fd));
	close(fd);
	MUST(unlink(lower_path("f")));
	fd = make_file("f", 2, 6000);
	MUST(fsync(fd));
	close(fd);
	expect_exists("f");
	expect_lower("new lower file", "f", 2, 0, 6000);

	close(make_file("other", 3, 100));
	sync();
	MUST(rename(lower_path("other"), lower_path("f")));
	fd = open("f", O_WRONLY | O_CREAT | O_APPEND, 0644);
	EXPECT(fd >= 0, "open to append: %s", strerror(errno));
	EXPECT(write(fd, "x", 1) == 1, "append: %s", strerror(errno));
	MUST(fsync(fd));
	close(fd);
	MUST(stat(lower_path("f"), &st));
	EXPECT(st.st_size == 101, "the replacement has %lld bytes, expected 101",
	       (long long)st.st_size);
	expect_lower("replacement", "f", 3, 0, 100);
}

static long rename2(const char *from, const char *to, unsigned int flags)
{
	return syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, flags);
}

BEHAVIOUR(rename_replaces_exchanges_and_keeps_open_files)
{
	int fd = make_file("a", 1, 10000), fd2;
	unsigned char *map = map_shared(fd, 0, 10000);

	pattern(map, 2, 0, 10000);
	MUST(rename("a", "b"));
	expect_missing("a");
	expect_exists("b");
	MUST(msync(map, 10000, MS_SYNC));
	expect_lower("lower file after a rename", "b", 2, 0, 10000);
	fd2 = make_file("c", 3, 100);
	MUST(fsync(fd2));
	close(fd2);
	EXPECT_ERRNO(rename2("b", "c", RENAME_NOREPLACE), EEXIST);
	MUST(rename2("b", "c", RENAME_EXCHANGE));
	expect_lower("lower file after an exchange", "c", 2, 0, 10000);
	expect_lower("lower file after an exchange", "b", 3, 0, 100);
	/* The replaced file is open and mapped: it remains usable without a name. */
	MUST(rename("b", "c"));
	pattern(map, 4, 0, 10000);
	read_pattern("read of a replaced file", fd, 4, 0, 10000);
	expect_missing("b");
	fd = open_file("c", O_RDONLY);
	read_pattern("read of the replacement", fd, 3, 0, 100);
	MUST(mkdir("d", 0755));
	MUST(mkdir("d/e", 0755));
	EXPECT_ERRNO(rename("d", "d/e/f"), EINVAL);
	EXPECT_ERRNO(rename("d", "c"), ENOTDIR);
	EXPECT_ERRNO(rename("c", "d"), EISDIR);
	MUST(rename("c", "d/e/c"));
	expect_exists("d/e/c");
	EXPECT_ERRNO(rename("none", "d"), ENOENT);
	EXPECT_ERRNO(rename2("d", "x", 0x80), EINVAL);
	if (rename2("d/e/c", "d/e/w", RENAME_WHITEOUT))
		EXPECT(errno == EINVAL || errno == EPERM, "RENAME_WHITEOUT: %s", strerror(errno));
}

static void remove_lower(const char *name)
{
	expect_exists(name);
	MUST(remove(lower_path(name)));
}

/* For each call that creates a name: a cached dentry must not make it fail or succeed. */
BEHAVIOUR(names_removed_in_the_lower_fs_can_be_created_again)
{
	touch_file("f");
	MUST(mkdir("d", 0755));
	remove_lower("d");
	MUST(mkdir("d", 0755));
	remove_lower("d");
	MUST(symlink("f", "d"));
	remove_lower("d");
	MUST(link("f", "d"));
	remove_lower("d");
	MUST(mkfifo("d", 0644));
	remove_lower("d");
	close(open_file("d", O_RDWR | O_CREAT | O_EXCL));
	remove_lower("d");
	MUST(rename2("f", "d", RENAME_NOREPLACE));
	expect_exists("d");
	expect_missing("f");
	/* A name that was created in the lower fs exists here. */
	MUST(mkdir(lower_path("f"), 0755));
	EXPECT_ERRNO(mkdir("f", 0755), EEXIST);
	expect_exists("f");
}

static void look_up_names(void *arg)
{
	const volatile bool *end = arg;
	struct stat st;

	while (!*end) {
		stat("d/e/at", &st);
		stat("d2/e/at", &st);
		stat("f", &st);
	}
}

/*
 * A lookup that runs during a rename or a create here must not take it for a change of the
 * lower file system: it would drop the dentry, and detach the mounts in the directory.
 */
BEHAVIOUR(own_changes_beside_lookups_keep_dentries_and_mounts)
{
	volatile bool *end =
		mmap(NULL, SMALL, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	char path[64], target[1024];
	struct statfs fs;
	unsigned int i;
	pid_t pid;
	ssize_t n;
	int fd;

	MUST(mkdir("d", 0755));
	MUST(mkdir("d/e", 0755));
	MUST(mkdir("d/e/at", 0755));
	MUST(mount("tmpfs", "d/e/at", "tmpfs", 0, NULL));
	pid = start_child(look_up_names, (void *)end);
	for (i = 0; i < 5000; i++) {
		MUST(rename("d", "d2"));
		MUST(rename("d2", "d"));
		fd = open_file("f", O_RDWR | O_CREAT | O_EXCL);
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		n = readlink(path, target, sizeof(target) - 1);
		EXPECT(n > 2 && target[n - 1] == 'f', "the path of a new file is %.*s", (int)n,
		       target);
		close(fd);
		MUST(unlink("f"));
	}
	*end = true;
	wait_child(pid);
	MUST(statfs("d/e/at", &fs));
	EXPECT((unsigned int)fs.f_type == 0x01021994, "the mount in the directory is gone");
}

BEHAVIOUR(hard_links_share_one_cache_and_symbolic_links_resolve)
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
	expect_exists("g");
	/* Both names share the cached pages. */
	other = open_file("g", O_RDWR);
	pattern(map_shared(other, 0, 5000), 2, 0, 5000);
	read_pattern("read by the other name", fd, 2, 0, 5000);
	MUST(unlink("f"));
	expect_exists("g");
	MUST(fstat(fd, &a));
	EXPECT(a.st_nlink == 1, "%lu links, expected 1", (unsigned long)a.st_nlink);

	MUST(symlink("g", "s"));
	n = readlink("s", target, sizeof(target));
	EXPECT(n == 1 && target[0] == 'g', "readlink returned %zd bytes", n);
	expect_exists("s");
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

BEHAVIOUR(fifos_devices_and_sockets_work)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int sock, fd, client;
	struct stat st;
	char c = 0;

	MUST(mkfifo("fifo", 0640));
	expect_exists("fifo");
	fd = open_file("fifo", O_RDWR);
	EXPECT(write(fd, "x", 1) == 1 && read(fd, &c, 1) == 1 && c == 'x',
	       "the fifo does not work");
	if (!mknod("null", S_IFCHR | 0666, makedev(1, 3))) {
		expect_exists("null");
		fd = open("null", O_RDWR);
		/* The lower mount may have the option nodev. */
		EXPECT(fd >= 0 || errno == EACCES, "open of a device node: %s", strerror(errno));
		if (fd >= 0)
			EXPECT(read(fd, &c, 1) == 0, "/dev/null is not empty");
		MUST(stat("null", &st));
		EXPECT(st.st_rdev == makedev(1, 3), "the node is device %lx",
		       (unsigned long)st.st_rdev);
	}
	strcpy(address.sun_path, "socket");
	sock = socket(AF_UNIX, SOCK_STREAM, 0);
	MUST(bind(sock, (struct sockaddr *)&address, sizeof(address)));
	expect_exists("socket");
	MUST(listen(sock, 1));
	client = socket(AF_UNIX, SOCK_STREAM, 0);
	MUST(connect(client, (struct sockaddr *)&address, sizeof(address)));
	EXPECT_ERRNO(open("socket", O_RDWR), ENXIO);
	MUST(unlink("socket"));
}

BEHAVIOUR(o_tmpfile_can_be_linked_and_unlinked_files_remain_usable)
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
	expect_lower("lower file of a temporary file with a name", "named", 1, 0, HUGE + 100);
	/* Unlinked while open and mapped, the file remains usable. */
	MUST(unlink("named"));
	expect_missing("named");
	MUST(fstat(fd, &st));
	EXPECT(!st.st_nlink, "%lu links, expected none", (unsigned long)st.st_nlink);
	pattern(map, 2, 0, HUGE);
	read_pattern("read of an unlinked file", fd, 2, 0, HUGE);
	MUST(fsync(fd));
	close(fd);
	expect_pattern("load of an unlinked and closed file", map, 2, 0, HUGE);
	/* O_EXCL forbids a later name. */
	fd = open(".", O_TMPFILE | O_RDWR | O_EXCL, 0600);
	EXPECT(fd >= 0, "O_TMPFILE | O_EXCL: %s", strerror(errno));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	EXPECT_ERRNO(linkat(AT_FDCWD, path, AT_FDCWD, "n2", AT_SYMLINK_FOLLOW), ENOENT);
}

BEHAVIOUR(space_of_an_unlinked_file_is_freed_after_its_last_use)
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
	FAIL("16 MB were deleted, but %llu bytes are free in the lower fs, %llu before",
	     (unsigned long long)after.f_bfree * after.f_bsize,
	     (unsigned long long)before.f_bfree * before.f_bsize);
}

BEHAVIOUR(readdir_lists_each_entry_once_and_seekdir_works)
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
		EXPECT(i < COUNT(seen) && !seen[i], "readdir returned %s twice", entry->d_name);
		EXPECT(entry->d_type == DT_REG || entry->d_type == DT_UNKNOWN, "%s has type %d",
		       entry->d_name, entry->d_type);
		seen[i] = 1;
		if (++n == 2500)
			middle = telldir(dir);
		else if (n == 2501)
			strcpy(at_middle, entry->d_name);
	}
	EXPECT(n == COUNT(seen), "readdir returned %u files, expected %zu", n, COUNT(seen));
	seekdir(dir, middle);
	entry = readdir(dir);
	EXPECT(entry && !strcmp(entry->d_name, at_middle),
	       "after seekdir, readdir returned %s, expected %s", entry ? entry->d_name : "nothing",
	       at_middle);
	rewinddir(dir);
	for (n = 0; readdir(dir); n++)
		;
	EXPECT(n == COUNT(seen) + 2, "%u entries after rewinddir, expected %zu", n,
	       COUNT(seen) + 2);
	/* Entries can be removed while the directory is read. */
	rewinddir(dir);
	for (n = 0; (entry = readdir(dir));)
		if (!strncmp(entry->d_name, "file-", 5)) {
			MUST(unlink(entry->d_name));
			n++;
		}
	closedir(dir);
	EXPECT(n == COUNT(seen), "%u files were removed, expected %zu", n, COUNT(seen));
}

BEHAVIOUR(inode_numbers_agree_and_survive_dropped_caches)
{
	struct dirent *entry;
	struct stat before, after;
	DIR *dir = opendir(".");

	touch_file("f");
	MUST(stat("f", &before));
	while ((entry = readdir(dir)) && strcmp(entry->d_name, "f"))
		;
	EXPECT(entry && entry->d_ino == before.st_ino, "readdir reports inode %lu, stat %lu",
	       entry ? (unsigned long)entry->d_ino : 0, (unsigned long)before.st_ino);
	closedir(dir);
	drop_caches("2");
	MUST(stat("f", &after));
	EXPECT(before.st_ino == after.st_ino, "inode %lu became %lu", (unsigned long)before.st_ino,
	       (unsigned long)after.st_ino);
}

static unsigned int count_events(int fd, uint32_t mask)
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

BEHAVIOUR(inotify_reports_each_change)
{
	int in = inotify_init1(IN_NONBLOCK), fd;

	MUST(inotify_add_watch(in, ".", IN_ALL_EVENTS));
	fd = make_file("f", 1, 100);
	EXPECT(count_events(in, IN_CREATE) == 1, "no event for a new file");
	write_pattern(fd, 1, 0, 10);
	EXPECT(count_events(in, IN_MODIFY) == 1, "no event for a write");
	MUST(ftruncate(fd, 5));
	EXPECT(count_events(in, IN_MODIFY) == 1, "no event for a truncate");
	close(fd);
	EXPECT(count_events(in, IN_CLOSE_WRITE) == 1, "no event for a close");
	MUST(chmod("f", 0600));
	EXPECT(count_events(in, IN_ATTRIB) == 1, "no event for a chmod");
	MUST(rename("f", "g"));
	EXPECT(count_events(in, IN_MOVED_FROM | IN_MOVED_TO) == 2, "no events for a rename");
	MUST(unlink("g"));
	EXPECT(count_events(in, IN_DELETE) == 1, "no event for an unlink");
}

RUN_BEHAVIOURS
