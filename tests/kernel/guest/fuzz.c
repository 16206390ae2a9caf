// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Nonsense. Mounts with random options, as root and as somebody who may not mount;
 * random ioctls, advice, moves and sizes of mapped files by an ordinary user. Nothing
 * may come of it but errors: no report of the kernel, no right gained, the mount alive
 * at the end. The seed is printed; SEED=n repeats it.
 *
 * vm: name=quick args=quick lower=none timeout=300
 * vm: name=long lower=none set=long timeout=3600
 */
#include "mounts.h"

#include <sched.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#include "../../../include/hugemap_ioctl.h"

#ifndef SYS_fsopen
#define SYS_fsopen 430
#define SYS_fsconfig 431
#define SYS_fsmount 432
#endif

static uint64_t seed = 1;

static uint64_t any(void)
{
	uint64_t z = seed += 0x9e3779b97f4a7c15ull;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

static uint64_t below_n(uint64_t n)
{
	return any() % n;
}

static bool quick;

static unsigned int rounds(unsigned int n)
{
	return quick ? n / 25 : slow() ? n / 10 : n;
}

/* Small, huge, near a power of two, negative, anything. */
static uint64_t number(void)
{
	switch (below_n(6)) {
	case 0:
		return below_n(16);
	case 1:
		return (1ull << below_n(64)) + below_n(3) - 1;
	case 2:
		return 0 - below_n(4096);
	case 3:
		return below_n(64) * HUGE;
	case 4:
		return below_n(64 * HUGE);
	default:
		return any();
	}
}

static void word(char *out, size_t size)
{
	static const char *const words[] = {
		"",
		"0",
		"1",
		"-1",
		"2M",
		"4K",
		"auto",
		"on",
		"off",
		"yes",
		"16M",
		"8M",
		"64M",
		"1T",
		"99P",
		"0x10",
		"010",
		"1e3",
		"75",
		"100",
		"101",
		"4294967295",
		"4294967296",
		"18446744073709551615",
		"18446744073709551616",
		"9223372036854775807",
		"%s%n",
		"/",
		"../..",
		"none",
		"\xff\xfe",
		" 16M",
		"16M ",
		"16MM",
		"1K",
		"2097151",
		"8388608",
		"8388609",
	};

	switch (below_n(4)) {
	case 0:
		snprintf(out, size, "%llu", (unsigned long long)number());
		break;
	case 1: {
		size_t i, n = below_n(size < 40 ? size : 40);

		for (i = 0; i + 1 < n; i++)
			out[i] = (char)(1 + below_n(255));
		out[n ? n - 1 : 0] = 0;
		break;
	}
	default:
		snprintf(out, size, "%s", words[below_n(COUNT(words))]);
	}
}

static const char *const keys[] = {
	"pool",
	"page",
	"dirty_ratio",
	"evict_batch",
	"readahead",
	"priority",
	"node",
	"vfs_read_optimization",
	"vfs_write_optimization",
	"source",
	"ro",
	"rw",
	"sync",
	"lazytime",
	"context",
	"POOL",
	"pool ",
	"",
	"noexec",
};

static void random_options(char *out, size_t size)
{
	unsigned int n = (unsigned int)below_n(5);
	size_t used = 0;

	out[0] = 0;
	while (n-- && used + 128 < size) {
		char value[64];

		word(value, sizeof(value));
		used += (size_t)snprintf(out + used, size - used, "%s%s%s%s", used ? "," : "",
					 keys[below_n(COUNT(keys))], below_n(8) ? "=" : "", value);
	}
	/* Mostly a small pool: one of a quarter of the memory takes a second to fill. */
	if (below_n(40) && used + 16 < size)
		snprintf(out + used, size - used, "%spool=%lluM", used ? "," : "",
			 8 + 2 * (unsigned long long)below_n(8));
}

static void expect_alive(const char *after)
{
	char path[700];
	unsigned char *map;
	int fd;

	EXPECT(!mount(source_dir, mount_point, "hugemap", 0, "pool=16M"),
	       "%s, it does not mount any more: %s", after, strerror(errno));
	snprintf(path, sizeof(path), "%s/alive", mount_point);
	fd = make_file(path, 1, 3 * HUGE);
	map = map_shared(fd, 0, 3 * HUGE);
	pattern(map, 2, 0, HUGE);
	read_pattern(after, fd, 2, 0, HUGE);
	MUST(munmap(map, 3 * HUGE));
	close(fd);
	MUST(unlink(path));
	MUST(umount(mount_point));
}

BEHAVIOUR(mounts_by_root)
{
	unsigned int i, n = rounds(10000), mounted = 0;
	char options[1024], path[700];

	require_mount_dirs();
	for (i = 0; i < n; i++) {
		unsigned long flags = below_n(8) ? 0 :
						   any() & (MS_NOSUID | MS_NODEV | MS_NOEXEC |
							    MS_SYNCHRONOUS | MS_NOATIME);
		int fd;

		random_options(options, sizeof(options));
		if (mount(source_dir, mount_point, "hugemap", flags, below_n(50) ? options : NULL))
			continue;
		mounted++;
		snprintf(path, sizeof(path), "%s/f%u", mount_point, i % 16);
		fd = open(path, O_RDWR | O_CREAT, 0644);
		if (fd >= 0) {
			write_pattern(fd, i, 0, 10000);
			read_pattern("read in a random mount", fd, i, 0, 10000);
			if (i % 2) {
				random_options(options, sizeof(options));
				mount(NULL, mount_point, NULL, MS_REMOUNT, options);
				read_pattern("read after a random remount", fd, i, 0, 10000);
			}
			close(fd);
		}
		EXPECT(!umount(mount_point), "umount: %s", strerror(errno));
		snprintf(path, sizeof(path), "%s/f%u", source_dir, i % 16);
		if (fd >= 0) {
			fd = open_file(path, O_RDONLY);
			read_pattern("read below after a random mount", fd, i, 0, 10000);
			close(fd);
		}
	}
	printf("  (%u of %u could be mounted)\n", mounted, n);
	expect_alive("after random mounts");
}

BEHAVIOUR(contexts_by_root)
{
	unsigned int i, j, n = rounds(5000);
	char value[64], said[512];

	require_mount_dirs();
	for (i = 0; i < n; i++) {
		int fs = (int)syscall(SYS_fsopen, "hugemap", below_n(2)), fd;

		EXPECT(fs >= 0, "fsopen: %s", strerror(errno));
		for (j = 0; j < below_n(8); j++) {
			unsigned int command = (unsigned int)below_n(10);

			/* Most of them wrong for the key; 6 and 7 create and reconfigure. */
			word(value, sizeof(value));
			syscall(SYS_fsconfig, fs, command, keys[below_n(COUNT(keys))],
				below_n(4) ? value : NULL,
				command == 2 ? below_n(64) :
				command == 5 ? below_n(8) :
					       (uint64_t)0);
		}
		if (!below_n(3)) {
			syscall(SYS_fsconfig, fs, 1, "source", source_dir, 0);
			syscall(SYS_fsconfig, fs, 1, "pool", "8M", 0);
			syscall(SYS_fsconfig, fs, 6, NULL, NULL, 0);
			fd = (int)syscall(SYS_fsmount, fs, 0, 0);
			if (fd >= 0)
				close(fd);
		}
		while (read(fs, said, sizeof(said)) > 0)
			;
		close(fs);
	}
	expect_alive("after random contexts");
}

static void try_as_nobody(void *arg)
{
	unsigned int i, n = rounds(2000);
	char options[1024];

	MUST(chmod(source_dir, 0777)); /* so that it is not that which is refused */
	become_user(1000, 1000);
	/* Root in a user namespace of one's own is nobody here. */
	if (arg && unshare(CLONE_NEWUSER | CLONE_NEWNS))
		skip("no user namespaces here");
	for (i = 0; i < n; i++) {
		random_options(options, sizeof(options));
		EXPECT(mount(source_dir, mount_point, "hugemap", 0, options) < 0,
		       "an ordinary user mounted hugemap%s", arg ? " in a namespace" : "");
		/* In a namespace of one's own, the options are read before the rights. */
		EXPECT(errno == EPERM || (arg && errno == EINVAL),
		       "an ordinary user's mount%s: %s, expected EPERM",
		       arg ? " in a namespace" : "", strerror(errno));
	}
	EXPECT_ERRNO(mount(source_dir, mount_point, "hugemap", 0, "pool=16M"), EPERM);
	i = (unsigned int)syscall(SYS_fsopen, "hugemap", 0);
	if ((int)i >= 0) {
		syscall(SYS_fsconfig, i, 1, "source", source_dir, 0);
		EXPECT(syscall(SYS_fsconfig, i, 6, NULL, NULL, 0) < 0,
		       "an ordinary user made a hugemap super block%s",
		       arg ? " in a namespace" : "");
	}
}

BEHAVIOUR(mounts_by_nobody)
{
	require_mount_dirs();
	in_child(try_as_nobody, NULL);
	expect_alive("after mounts by an ordinary user");
}

BEHAVIOUR(mounts_in_namespace)
{
	require_mount_dirs();
	in_child(try_as_nobody, source_dir);
	expect_alive("after mounts in a user namespace");
}

#define SPACE (256ul * HUGE / 2)

/* One call with random arguments, on addresses of @space only. */
static void random_call(int fd, unsigned char *space, unsigned char **map, size_t *len)
{
	unsigned char *at = below_n(4) ? *map + below_n(*len / SMALL + 1) * SMALL :
					 space + below_n(SPACE);
	size_t room = (size_t)(space + SPACE - at), n = number();
	int32_t priority;

	if (n > room)
		n = below_n(room + 1);
	switch (below_n(16)) {
	case 0:
	case 1:
		/* Not those that take memory away from its owner for good. */
		madvise(at, n, (int)below_n(26));
		break;
	case 2:
		madvise(at, n, (int)number());
		break;
	case 3:
		posix_fadvise(fd, (off_t)number(), (off_t)number(), (int)below_n(10));
		break;
	case 4:
		fallocate(fd, (int)below_n(256), (off_t)below_n(40 * HUGE),
			  (off_t)below_n(40 * HUGE));
		break;
	case 5:
		fallocate(fd, (int)number(), (off_t)number(), (off_t)number());
		break;
	case 6:
		priority = (int32_t)number();
		ioctl(fd, HUGEMAP_IOC_PRIORITY, below_n(4) ? (void *)&priority : (void *)number());
		break;
	case 7:
		/* Its neighbours, and whatever is below. */
		ioctl(fd,
		      below_n(2) ? _IOC(below_n(4), 0xb2, below_n(8), below_n(64)) :
				   (unsigned long)(uint32_t)any(),
		      below_n(2) ? (void *)space : (void *)number());
		break;
	case 8: {
		size_t want = (1 + below_n(40 * HUGE / SMALL)) * SMALL;
		unsigned char *to = space + below_n((SPACE - want) / SMALL) * SMALL;
		unsigned char *moved;

		/* The old place becomes a hole, which the reservation must fill again. */
		moved = mremap(*map, *len, want, MREMAP_MAYMOVE | MREMAP_FIXED, to);
		if (moved != MAP_FAILED) {
			*map = moved;
			*len = want;
		}
		break;
	}
	case 9:
		mprotect(at, n, (int)below_n(8));
		break;
	case 10:
		msync(at, n, (int)below_n(8));
		break;
	case 11:
		(void)!ftruncate(fd, (off_t)(below_n(8) ? below_n(40 * HUGE) :
							  number() % (1ull << 40)));
		break;
	case 12:
		sync_file_range(fd, (off_t)number(), (off_t)number(), (unsigned int)below_n(16));
		break;
	case 13:
		(void)!pread(fd, at, n % (4 * HUGE), (off_t)number());
		break;
	case 14:
		(void)!pwrite(fd, at, n % (4 * HUGE), (off_t)(number() % (40 * HUGE)));
		break;
	default:
		signal_of_access(*map + below_n(*len), below_n(2));
	}
}

static void fuzzer(void *arg)
{
	unsigned int i, n = rounds(10000);
	unsigned char *space, *map = NULL;
	size_t len = 20 * HUGE;
	char path[700];
	int fd;

	seed += *(unsigned int *)arg * 1000003ull;
	become_user(1000, 1000);
	catch_signals();
	signal(SIGIO, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	/* Two of them on one file. */
	snprintf(path, sizeof(path), "%s/open/file%u", mount_point, *(unsigned int *)arg / 2);
	fd = open(path, O_RDWR | O_CREAT, 0666);
	EXPECT(fd >= 0, "open %s: %s", path, strerror(errno));
	space = map_file(-1, 0, SPACE + HUGE, PROT_NONE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
	space = (unsigned char *)(((uintptr_t)space + HUGE - 1) / HUGE * HUGE);
	for (i = 0; i < n; i++) {
		/* Everything anew now and then: most of it may be a hole by then. */
		if (i % 200 == 0) {
			EXPECT(mmap(space, SPACE, PROT_NONE,
				    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
				    0) == space,
			       "the reservation: %s", strerror(errno));
			len = (1 + below_n(30 * HUGE / SMALL)) * SMALL;
			map = mmap(space + below_n(512) * SMALL, len, PROT_READ | PROT_WRITE,
				   MAP_FIXED | (below_n(5) ? MAP_SHARED : MAP_PRIVATE), fd,
				   (off_t)(below_n(512) * SMALL));
			EXPECT(map != MAP_FAILED, "mmap: %s", strerror(errno));
		}
		random_call(fd, space, &map, &len);
	}
	EXPECT(getuid() == 1000 && geteuid() == 1000 && getegid() == 1000,
	       "an ordinary user became %u:%u", geteuid(), getegid());
	snprintf(path, sizeof(path), "%s/secret", mount_point);
	EXPECT_ERRNO(open(path, O_RDONLY), EACCES);
	/* Nobody left it in a state that a new file cannot be used in. */
	snprintf(path, sizeof(path), "%s/open/new%u", mount_point, *(unsigned int *)arg);
	fd = make_file(path, 3, 100000);
	read_pattern("read after random calls", fd, 3, 0, 100000);
}

BEHAVIOUR(calls_by_nobody)
{
	unsigned int who[4], i;
	pid_t pids[4];
	char path[700];
	struct stat st;
	int fd;

	make_mount_dirs();
	MUST(chmod(mnt_dir, 0755) && errno != EPERM && errno != EROFS ? -1 : 0);
	if (mount(source_dir, mount_point, "hugemap", 0, "pool=32M")) {
		EXPECT(errno == ENODEV, "mount: %s", strerror(errno));
		MUST(mount(source_dir, mount_point, NULL, MS_BIND, NULL));
	}
	snprintf(path, sizeof(path), "%s/open", mount_point);
	MUST(mkdir(path, 0777));
	MUST(chmod(path, 0777));
	snprintf(path, sizeof(path), "%s/secret", mount_point);
	fd = make_file(path, 1, 2 * HUGE);
	MUST(fchmod(fd, 0600));
	for (i = 0; i < COUNT(pids); i++) {
		who[i] = i;
		pids[i] = start_child(fuzzer, &who[i]);
	}
	for (i = 0; i < COUNT(pids); i++)
		wait_child(pids[i]);
	/* What was none of theirs is as it was. */
	read_pattern("the file of another user", fd, 1, 0, 2 * HUGE);
	MUST(fstat(fd, &st));
	EXPECT(st.st_size == (off_t)(2 * HUGE) && st.st_uid == 0 && (st.st_mode & 07777) == 0600,
	       "the file of another user has %lld bytes, owner %u, mode %o", (long long)st.st_size,
	       st.st_uid, st.st_mode & 07777);
	MUST(fsync(fd));
	close(fd);
	MUST(umount(mount_point));
	snprintf(path, sizeof(path), "%s/secret", source_dir);
	fd = open_file(path, O_RDONLY);
	read_pattern("the file of another user, below", fd, 1, 0, 2 * HUGE);
	close(fd);
}

int main(int argc, char **argv)
{
	if (getenv("SEED"))
		seed = strtoull(getenv("SEED"), NULL, 0);
	printf("  (seed %llu)\n", (unsigned long long)seed);
	if (argc > 1 && !strcmp(argv[1], "quick")) {
		quick = true;
		argc--;
		argv++;
	}
	return run_behaviours(argc, argv);
}
