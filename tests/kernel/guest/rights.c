// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Owners, modes, ACLs and capabilities: a user who lacks a right in the lower file system
 * lacks it here, and an operation that removes rights there removes them here.
 *
 * vm: page=auto lower=ext4,xfs timeout=180
 */
#include "entry.h"

#include <linux/landlock.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>

#include "hugemap_ioctl.h"

BEHAVIOUR(modes_and_owners_are_those_of_the_lower_file)
{
	struct stat st;

	touch_file("f");
	MUST(chmod("f", 04751));
	MUST(chown("f", 1000, 1001));
	expect_exists("f");
	MUST(stat("f", &st));
	/* chown() clears the set-user-ID bit. */
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
	/* Files in a set-group-ID directory inherit its group. */
	MUST(mkdir("d", 0777));
	MUST(chown("d", 0, 1234));
	MUST(chmod("d", 02777));
	touch_file("d/f");
	MUST(mkdir("d/e", 0755));
	MUST(stat("d/f", &st));
	EXPECT(st.st_gid == 1234, "group %u of a file in a set-group-ID directory, expected 1234",
	       st.st_gid);
	MUST(stat("d/e", &st));
	EXPECT(st.st_gid == 1234 && (st.st_mode & S_ISGID),
	       "group %u mode %o of a directory in a set-group-ID directory", st.st_gid,
	       st.st_mode);
	expect_exists("d/e");
}

static void write_as_other_user(void *arg)
{
	int fd;

	(void)arg;
	become_user(1000, 1000);
	fd = open_file("f", O_RDWR);
	EXPECT(write(fd, "x", 1) == 1, "write: %s", strerror(errno));
}

BEHAVIOUR(write_by_another_user_clears_set_id_bits)
{
	struct stat st;

	touch_file("f");
	MUST(chmod("f", 06777));
	in_child(write_as_other_user, NULL);
	MUST(stat("f", &st));
	EXPECT(!(st.st_mode & (S_ISUID | S_ISGID)), "mode %o after a write by another user",
	       st.st_mode & 07777);
	expect_exists("f");
}

static void change_as_owner(void *arg)
{
	int fd;

	(void)arg;
	become_user(1000, 1000);
	fd = open("truncated", O_WRONLY | O_TRUNC);
	EXPECT(fd >= 0, "open(O_TRUNC) by the owner: %s", strerror(errno));
	MUST(truncate("cut", 10));
	MUST(chown("given", (uid_t)-1, 1000));
	/* removexattr() needs the right, if this kernel checks it: compare with the lower fs. */
	if (removexattr(lower_path("kept too"), "security.capability"))
		EXPECT_ERRNO(removexattr("kept", "security.capability"), EPERM);
}

/* The owner has no right to remove them with removexattr(). */
BEHAVIOUR(change_by_the_owner_removes_capabilities)
{
	static const char *const names[] = { "truncated", "cut", "given", "kept", "kept too" };
	unsigned int i;
	char buf[64];

	for (i = 0; i < COUNT(names); i++) {
		close(make_file(names[i], 1, 5000));
		MUST(chown(names[i], 1000, 1000));
		give_capability(names[i]);
	}
	in_child(change_as_owner, NULL);
	for (i = 0; i < 3; i++)
		EXPECT_ERRNO(getxattr(names[i], "security.capability", buf, sizeof(buf)), ENODATA);
}

static void try_as_other_user(void *arg)
{
	struct stat st;
	int fd;

	(void)arg;
	become_user(1000, 1000);
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
	       "access() and open() disagree");
	fd = open_file("open/mine", O_RDWR | O_CREAT);
	write_pattern(fd, 2, 0, 100);
	MUST(fstat(fd, &st));
	EXPECT(st.st_uid == 1000 && st.st_gid == 1000, "a new file belongs to %u:%u", st.st_uid,
	       st.st_gid);
	/* The directory is sticky, and the file belongs to root. */
	EXPECT_ERRNO(unlink("open/roots"), EPERM);
}

BEHAVIOUR(permissions_are_checked)
{
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
	in_child(try_as_other_user, NULL);
	expect_exists("open/mine");
}

static void write_after_chmod(void *arg)
{
	struct turns *turns = arg;
	unsigned char *map;
	int fd;

	become_user(1000, 1000);
	fd = open_file("f", O_RDWR);
	map = map_shared(fd, 0, HUGE);
	turn_give(turns->to_parent);
	turn_take(turns->to_child);
	pattern(map, 2, 0, HUGE);
	EXPECT(pwrite(fd, "z", 1, HUGE - 1) == 1, "write after chmod: %s", strerror(errno));
	MUST(fsync(fd));
}

/* A descriptor keeps the rights of its open(). Write-back uses the mounter's credentials. */
BEHAVIOUR(chmod_does_not_affect_open_descriptors)
{
	struct turns turns;
	int fd = make_file("f", 1, HUGE);
	pid_t pid;

	MUST(chmod(".", 0755));
	MUST(fchmod(fd, 0666));
	close(fd);
	turns_init(&turns);
	pid = start_child(write_after_chmod, &turns);
	turn_take(turns.to_parent);
	MUST(chmod("f", 0));
	turn_give(turns.to_child);
	wait_child(pid);
	expect_lower("lower file after chmod(0)", "f", 2, 0, HUGE - 1);
}

/* The format of the xattrs of POSIX ACLs. */
struct acl {
	uint32_t version;
	struct {
		uint16_t tag, perm;
		uint32_t id;
	} entry[5];
};

static void read_as_acl_user(void *arg)
{
	int fd;

	(void)arg;
	become_user(1000, 1000);
	fd = open_file("f", O_RDONLY);
	read_pattern("read by the user of the ACL", fd, 1, 0, 100);
	EXPECT_ERRNO(open("f", O_RDWR), EACCES);
}

static void open_as_other_user(void *arg)
{
	(void)arg;
	become_user(1001, 1001);
	EXPECT_ERRNO(open("f", O_RDONLY), EACCES);
}

BEHAVIOUR(acls_are_stored_and_checked)
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
	       "getxattr returned another ACL, of %zd bytes: %s", n, strerror(errno));
	n = getxattr(lower_path("f"), "system.posix_acl_access", &back, sizeof(back));
	EXPECT(n == (ssize_t)sizeof(acl), "the ACL of the lower file has %zd bytes", n);
	in_child(read_as_acl_user, NULL);
	in_child(open_as_other_user, NULL);
	MUST(stat("f", &st));
	/* stat() shows the mask of the ACL as the rights of the group. */
	EXPECT((st.st_mode & 0777) == 0640, "mode %o with an ACL, expected 640", st.st_mode & 0777);
	MUST(chmod("f", 0600));
	MUST(removexattr("f", "system.posix_acl_access"));
	/* New entries inherit the default ACL of their directory; the umask is ignored. */
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

static int set_priority(int fd, int32_t priority)
{
	return ioctl(fd, HUGEMAP_IOC_PRIORITY, &priority);
}

/* @arg: the priority is 1, not 0. */
static void set_priority_as_user(void *arg)
{
	bool high = arg;
	int fd;

	become_user(1000, 1000);
	fd = open_file("f", O_RDWR);
	if (high)
		MUST(set_priority(fd, 1));
	MUST(set_priority(fd, 0));
	EXPECT_ERRNO(set_priority(fd, 1), EPERM);
	MUST(set_priority(fd, -1));
	EXPECT_ERRNO(set_priority(fd, 1), EPERM);
	MUST(set_priority(fd, 0));
	EXPECT_ERRNO(set_priority(fd, 2), EINVAL);
	fd = open_file("readable", O_RDONLY);
	EXPECT_ERRNO(set_priority(fd, -1), EPERM);
}

/* As with nice(2). An owner may lower a priority, and raise it to 0; above needs CAP_SYS_NICE. */
BEHAVIOUR(users_cannot_raise_priorities)
{
	int fd;

	if (!on_hugemap())
		skip("only hugemap has priorities");
	MUST(chmod(".", 0755));
	touch_file("readable");
	fd = make_file("f", 1, 100);
	MUST(fchown(fd, 1000, 1000));
	in_child(set_priority_as_user, NULL);
	MUST(set_priority(fd, 1));
	in_child(set_priority_as_user, "high");
}

static unsigned int count_cached(unsigned char *map, size_t len)
{
	unsigned char present[2 * HUGE / SMALL];
	unsigned int i, n = 0;

	MUST(mincore(map, len, present));
	for (i = 0; i < len / SMALL; i++)
		n += present[i] & 1;
	return n;
}

static void advise_dontneed_as_reader(void *arg)
{
	int fd;

	(void)arg;
	become_user(1000, 1000);
	fd = open_file("f", O_RDONLY);
	MUST(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED));
}

BEHAVIOUR(fadvise_dontneed_keeps_mapped_pages)
{
	int fd = make_file("f", 1, 2 * HUGE);
	unsigned char *map = map_shared(fd, 0, 2 * HUGE);
	unsigned int n;

	MUST(chmod(".", 0755));
	MUST(fsync(fd));
	expect_pattern("load", map, 1, 0, 2 * HUGE);
	in_child(advise_dontneed_as_reader, NULL);
	n = count_cached(map, 2 * HUGE);
	EXPECT(n == 2 * HUGE / SMALL, "%u of %lu mapped pages are still cached", n,
	       2 * HUGE / SMALL);
	/* It does evict the half that is not mapped. */
	MUST(munmap(map, HUGE));
	in_child(advise_dontneed_as_reader, NULL);
	EXPECT(count_cached(map + HUGE, HUGE) == HUGE / SMALL,
	       "pages of the mapped half were evicted");
	map = map_shared(fd, 0, HUGE);
	n = count_cached(map, HUGE);
	EXPECT(!n, "%u pages that were not mapped are still cached", n);
}

/* Landlock: this process may use only files below @dir from here on. */
static void confine_to(const char *dir)
{
	struct landlock_ruleset_attr handled = {
		.handled_access_fs = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE |
				     LANDLOCK_ACCESS_FS_READ_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |
				     LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE,
	};
	struct landlock_path_beneath_attr beneath = { .allowed_access = handled.handled_access_fs };
	int rules = (int)syscall(SYS_landlock_create_ruleset, &handled, sizeof(handled), 0);

	if (rules < 0)
		skip("no Landlock in this kernel: %s", strerror(errno));
	beneath.parent_fd = open_file(dir, O_PATH | O_DIRECTORY);
	MUST(syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &beneath, 0));
	MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	MUST(syscall(SYS_landlock_restrict_self, rules, 0));
}

static void use_files_in_sandbox(void *arg)
{
	unsigned char *map;
	struct stat st;
	int fd;

	confine_to(".");
	if (arg)
		become_user(1000, 1000);
	EXPECT_ERRNO(open("/etc/passwd", O_RDONLY), EACCES);
	fd = open("f", O_RDWR);
	EXPECT(fd >= 0, "open of an allowed file: %s", strerror(errno));
	read_pattern("read", fd, 1, 0, HUGE + 5);
	map = map_shared(fd, 0, HUGE + 5);
	pattern(map, 1, 0, HUGE + 5);
	MUST(fsync(fd));
	MUST(fstat(fd, &st));
	MUST(stat("f", &st));
	close(open_file(".", O_RDONLY | O_DIRECTORY));
	fd = make_file("new", 2, 100);
	MUST(fstat(fd, &st));
	EXPECT(st.st_uid == getuid(), "a new file belongs to %u", st.st_uid);
	MUST(unlink("new"));
	fd = open(".", O_RDWR | O_TMPFILE, 0600);
	EXPECT(fd >= 0, "open(O_TMPFILE): %s", strerror(errno));
	MUST(fstat(fd, &st));
	EXPECT(st.st_uid == getuid() && st.st_gid == getgid() && (st.st_mode & 0777) == 0600,
	       "an O_TMPFILE file belongs to %u:%u, mode %o", st.st_uid, st.st_gid, st.st_mode);
	write_pattern(fd, 3, 0, 5000);
	read_pattern("read of an O_TMPFILE file", fd, 3, 0, 5000);
}

/* Landlock must check the paths of the mount, not those of the lower file system. */
BEHAVIOUR(landlock_allows_files_of_the_mount)
{
	int fd = make_file("f", 1, HUGE + 5);

	MUST(chmod(".", 0777));
	MUST(fchmod(fd, 0666));
	in_child(use_files_in_sandbox, NULL);
	in_child(use_files_in_sandbox, "another user");
}

/* As root of a new user name space. @arg: an open descriptor of the file. */
static void set_capability_in_userns(void *arg)
{
	char map[64];
	int fd;

	become_user(1000, 1000);
	/* setresuid() made the files of /proc/self belong to root. */
	MUST(prctl(PR_SET_DUMPABLE, 1));
	if (unshare(CLONE_NEWUSER))
		skip("this kernel has no user name spaces: %s", strerror(errno));
	fd = open("/proc/self/uid_map", O_WRONLY);
	snprintf(map, sizeof(map), "0 1000 1");
	EXPECT(fd >= 0 && write(fd, map, strlen(map)) > 0, "uid_map: %s", strerror(errno));
	close(fd);
	fd = open("/proc/self/setgroups", O_WRONLY);
	EXPECT(fd >= 0 && write(fd, "deny", 4) == 4, "setgroups: %s", strerror(errno));
	close(fd);
	fd = open("/proc/self/gid_map", O_WRONLY);
	EXPECT(fd >= 0 && write(fd, map, strlen(map)) > 0, "gid_map: %s", strerror(errno));
	close(fd);
	EXPECT_ERRNO(fsetxattr(*(int *)arg, "security.capability", net_raw_caps,
			       sizeof(net_raw_caps), 0),
		     EPERM);
}

static void chmod_both_files(void *arg)
{
	(void)arg;
	become_user(1000, 1000);
	MUST(chmod("given", 0700));
	EXPECT_ERRNO(chmod("taken", 0700), EPERM);
}

/* The VFS checks the owner of the inode here: it must be revalidated first. */
BEHAVIOUR(chmod_uses_the_owner_of_the_lower_file)
{
	touch_file("given");
	touch_file("taken");
	MUST(chown("taken", 1000, 1000));
	MUST(chown(lower_path("given"), 1000, 1000));
	MUST(chown(lower_path("taken"), 0, 0));
	in_child(chmod_both_files, NULL);
	expect_exists("given");
}

BEHAVIOUR(former_owner_cannot_set_capabilities)
{
	int fd = open_file("f", O_RDWR | O_CREAT);

	MUST(fchown(fd, 1000, 1000));
	MUST(chown(lower_path("f"), 0, 0));
	in_child(set_capability_in_userns, &fd);
	EXPECT(getxattr(lower_path("f"), "security.capability", NULL, 0) < 0,
	       "the lower file has capabilities");
}

static void follow_link_as_other_user(void *arg)
{
	struct stat st;

	(void)arg;
	become_user(1001, 1001);
	MUST(lstat("link", &st));
	EXPECT_ERRNO(stat("link", &st), EACCES);
}

/* With protected_symlinks, links of other users in sticky directories are not followed. */
BEHAVIOUR(sticky_bit_set_in_the_lower_fs_protects_links)
{
	int fd = open_file("/proc/sys/fs/protected_symlinks", O_RDWR);
	char before = '0';

	EXPECT(pread(fd, &before, 1, 0) == 1, "protected_symlinks: %s", strerror(errno));
	MUST(mkdir("d", 0777));
	MUST(chmod("d", 0777));
	MUST(chdir("d"));
	touch_file("f");
	MUST(symlink("f", "link"));
	MUST(lchown("link", 1000, 1000));
	MUST(chmod(lower_path("d"), 01777));
	EXPECT(pwrite(fd, "1", 1, 0) == 1, "protected_symlinks: %s", strerror(errno));
	in_child(follow_link_as_other_user, NULL);
	EXPECT(pwrite(fd, &before, 1, 0) == 1, "protected_symlinks: %s", strerror(errno));
}

RUN_BEHAVIOURS
