// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Owners, modes and access lists: who may not do it below may not do it here, and
 * what takes rights away below takes them away here.
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
#include <sys/xattr.h>

#include "hugemap_ioctl.h"

BEHAVIOUR(modes_and_owners)
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
	become_user(1000, 1000);
	fd = open_file("f", O_RDWR);
	EXPECT(write(fd, "x", 1) == 1, "write: %s", strerror(errno));
}

BEHAVIOUR(setuid_goes)
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

static void give_capability(const char *name)
{
	/* VFS_CAP_REVISION_2, effective: CAP_NET_RAW. */
	const uint32_t caps[5] = { 0x02000001, 1u << 13, 0, 0, 0 };

	if (setxattr(name, "security.capability", caps, sizeof(caps), 0)) {
		EXPECT(errno == EOPNOTSUPP, "setxattr: %s", strerror(errno));
		skip("no extended attributes here");
	}
}

static void change_own(void *arg)
{
	int fd;

	(void)arg;
	become_user(1000, 1000);
	fd = open("truncated", O_WRONLY | O_TRUNC);
	EXPECT(fd >= 0, "open(O_TRUNC) by its owner: %s", strerror(errno));
	MUST(truncate("cut", 10));
	MUST(chown("given", (uid_t)-1, 1000));
	/* But who asks for it has to be allowed, as far as this kernel asks. */
	if (removexattr(lower_path("kept too"), "security.capability"))
		EXPECT_ERRNO(removexattr("kept", "security.capability"), EPERM);
}

/* A file's capabilities go with a change by its owner, who could not remove them. */
BEHAVIOUR(capabilities_go)
{
	static const char *const names[] = { "truncated", "cut", "given", "kept", "kept too" };
	unsigned int i;
	char buf[64];

	for (i = 0; i < COUNT(names); i++) {
		close(make_file(names[i], 1, 5000));
		MUST(chown(names[i], 1000, 1000));
		give_capability(names[i]);
	}
	in_child(change_own, NULL);
	for (i = 0; i < 3; i++)
		EXPECT_ERRNO(getxattr(names[i], "security.capability", buf, sizeof(buf)), ENODATA);
}

static void as_other_user(void *arg)
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

BEHAVIOUR(permissions)
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

	become_user(1000, 1000);
	fd = open_file("f", O_RDWR);
	map = map_shared(fd, 0, HUGE);
	turn_give(turns->to_parent);
	turn_take(turns->to_child);
	pattern(map, 2, 0, HUGE);
	EXPECT(pwrite(fd, "z", 1, HUGE - 1) == 1, "write after chmod: %s", strerror(errno));
	MUST(fsync(fd));
}

BEHAVIOUR(rights_of_open_files)
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
	expect_lower("below, after its rights went", "f", 2, 0, HUGE - 1);
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
	become_user(1000, 1000);
	fd = open_file("f", O_RDONLY);
	read_pattern("read by leave of the ACL", fd, 1, 0, 100);
	EXPECT_ERRNO(open("f", O_RDWR), EACCES);
}

static void acl_stranger(void *arg)
{
	(void)arg;
	become_user(1001, 1001);
	EXPECT_ERRNO(open("f", O_RDONLY), EACCES);
}

BEHAVIOUR(access_lists)
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
	n = getxattr(lower_path("f"), "system.posix_acl_access", &back, sizeof(back));
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

static int set_priority(int fd, int32_t priority)
{
	return ioctl(fd, HUGEMAP_IOC_PRIORITY, &priority);
}

/* As with nice(2): a step back is free, a step forward is an administrator's. */
static void priority_of_a_user(void *arg)
{
	bool high = arg;
	int fd;

	become_user(1000, 1000);
	fd = open_file("f", O_RDWR);
	if (high) /* as it is, which changes nothing */
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

BEHAVIOUR(priorities)
{
	int fd;

	if (!on_hugemap())
		skip("no priorities here");
	MUST(chmod(".", 0755));
	touch_file("readable");
	fd = make_file("f", 1, 100);
	MUST(fchown(fd, 1000, 1000));
	in_child(priority_of_a_user, NULL);
	MUST(set_priority(fd, 1));
	in_child(priority_of_a_user, "high");
}

static unsigned int pages_cached(unsigned char *map, size_t len)
{
	unsigned char present[2 * HUGE / SMALL];
	unsigned int i, n = 0;

	MUST(mincore(map, len, present));
	for (i = 0; i < len / SMALL; i++)
		n += present[i] & 1;
	return n;
}

static void reader_does_not_need_it(void *arg)
{
	int fd;

	(void)arg;
	become_user(1000, 1000);
	fd = open_file("f", O_RDONLY);
	MUST(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED));
}

/* What one program has mapped, another one's advice does not take away. */
BEHAVIOUR(advice_of_others)
{
	int fd = make_file("f", 1, 2 * HUGE);
	unsigned char *map = map_shared(fd, 0, 2 * HUGE);
	unsigned int n;

	MUST(chmod(".", 0755));
	MUST(fsync(fd));
	expect_pattern("load", map, 1, 0, 2 * HUGE);
	in_child(reader_does_not_need_it, NULL);
	n = pages_cached(map, 2 * HUGE);
	EXPECT(n == 2 * HUGE / SMALL, "%u pages of %lu that are mapped are still cached", n,
	       2 * HUGE / SMALL);
	/* Of the half that nobody has mapped any more, it does. */
	MUST(munmap(map, HUGE));
	in_child(reader_does_not_need_it, NULL);
	EXPECT(pages_cached(map + HUGE, HUGE) == HUGE / SMALL, "the other half is gone, too");
	map = map_shared(fd, 0, HUGE);
	n = pages_cached(map, HUGE);
	EXPECT(!n, "%u pages that nobody has mapped stay cached", n);
}

/* From here on this process may use files below one directory, and no others. */
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

static void in_sandbox(void *arg)
{
	unsigned char *map;
	struct stat st;
	int fd;

	confine_to(".");
	if (arg)
		become_user(1000, 1000);
	EXPECT_ERRNO(open("/etc/passwd", O_RDONLY), EACCES);
	fd = open("f", O_RDWR);
	EXPECT(fd >= 0, "open of a file that is allowed: %s", strerror(errno));
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
	EXPECT(fd >= 0, "a file without a name: %s", strerror(errno));
	MUST(fstat(fd, &st));
	EXPECT(st.st_uid == getuid() && st.st_gid == getgid() && (st.st_mode & 0777) == 0600,
	       "a file without a name belongs to %u:%u, mode %o", st.st_uid, st.st_gid, st.st_mode);
	write_pattern(fd, 3, 0, 5000);
	read_pattern("read of a file without a name", fd, 3, 0, 5000);
}

/* Programs that confine themselves by paths: they see those of the mount only. */
BEHAVIOUR(sandboxes)
{
	int fd = make_file("f", 1, HUGE + 5);

	MUST(chmod(".", 0777));
	MUST(fchmod(fd, 0666));
	in_child(in_sandbox, NULL);
	in_child(in_sandbox, "another user");
}

/* As root of a name space of his own, by a file that he has had open. */
static void late_capability(void *arg)
{
	const uint32_t caps[5] = { 0x02000001, 1u << 13, 0, 0, 0 };
	char map[64];
	int fd;

	become_user(1000, 1000);
	/* So that what is his below /proc is his. */
	MUST(prctl(PR_SET_DUMPABLE, 1));
	if (unshare(CLONE_NEWUSER))
		skip("no user name spaces here: %s", strerror(errno));
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
	EXPECT_ERRNO(fsetxattr(*(int *)arg, "security.capability", caps, sizeof(caps), 0), EPERM);
}

static void of_another_owner(void *arg)
{
	(void)arg;
	become_user(1000, 1000);
	MUST(chmod("his", 0700));
	EXPECT_ERRNO(chmod("was his", 0700), EPERM);
}

/* The VFS asks who owns a file here, and it has been given to somebody below. */
BEHAVIOUR(owners_below)
{
	touch_file("his");
	touch_file("was his");
	MUST(chown("was his", 1000, 1000));
	MUST(chown(lower_path("his"), 1000, 1000));
	MUST(chown(lower_path("was his"), 0, 0));
	in_child(of_another_owner, NULL);
	expect_exists("his", true);
}

BEHAVIOUR(capability_below)
{
	int fd = open_file("f", O_RDWR | O_CREAT);

	MUST(fchown(fd, 1000, 1000));
	MUST(chown(lower_path("f"), 0, 0));
	in_child(late_capability, &fd);
	EXPECT(getxattr(lower_path("f"), "security.capability", NULL, 0) < 0,
	       "it has capabilities");
}

static void follow_link(void *arg)
{
	struct stat st;

	(void)arg;
	become_user(1001, 1001);
	MUST(lstat("link", &st));
	EXPECT_ERRNO(stat("link", &st), EACCES);
}

/* A directory has become sticky below: who is in it already follows no links of others. */
BEHAVIOUR(sticky_below)
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
	in_child(follow_link, NULL);
	EXPECT(pwrite(fd, &before, 1, 0) == 1, "protected_symlinks: %s", strerror(errno));
}

RUN_BEHAVIOURS
