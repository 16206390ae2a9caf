// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Random arguments have no effects but errors: the kernel reports nothing, no user gains a
 * right, and the mount still works at the end. Root and ordinary users mount with random
 * options; an ordinary user makes random calls (ioctl, madvise, mremap, fallocate, ...) on
 * mapped files. The seed is printed; SEED=n repeats a run.
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

static uint64_t random_number(void)
{
	uint64_t z = seed += 0x9e3779b97f4a7c15ull;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

static uint64_t random_below(uint64_t n)
{
	return random_number() % n;
}

static bool quick;

static unsigned int scaled(unsigned int n)
{
	return quick ? n / 100 : slow() ? n / 10 : n;
}

/* A number that is likely to be a limit: small, negative, near a power of two, a block. */
static uint64_t edge_number(void)
{
	switch (random_below(6)) {
	case 0:
		return random_below(16);
	case 1:
		return (1ull << random_below(64)) + random_below(3) - 1;
	case 2:
		return 0 - random_below(4096);
	case 3:
		return random_below(64) * HUGE;
	case 4:
		return random_below(64 * HUGE);
	default:
		return random_number();
	}
}

static void random_value(char *out, size_t size)
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

	switch (random_below(4)) {
	case 0:
		snprintf(out, size, "%llu", (unsigned long long)edge_number());
		break;
	case 1: {
		size_t i, n = random_below(size < 40 ? size : 40);

		for (i = 0; i + 1 < n; i++)
			out[i] = (char)(1 + random_below(255));
		out[n ? n - 1 : 0] = 0;
		break;
	}
	default:
		snprintf(out, size, "%s", words[random_below(COUNT(words))]);
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
	unsigned int n = (unsigned int)random_below(5);
	size_t used = 0;

	out[0] = 0;
	while (n-- && used + 128 < size) {
		char value[64];

		random_value(value, sizeof(value));
		used += (size_t)snprintf(out + used, size - used, "%s%s%s%s", used ? "," : "",
					 keys[random_below(COUNT(keys))],
					 random_below(8) ? "=" : "", value);
	}
	/* Mostly a small pool: allocating the default size takes a second. */
	if (random_below(40) && used + 16 < size)
		snprintf(out + used, size - used, "%spool=%lluM", used ? "," : "",
			 8 + 2 * (unsigned long long)random_below(8));
}

static void expect_working(const char *after)
{
	const char *path = path_in(mount_point, "file");
	unsigned char *map;
	int fd;

	EXPECT(!mount(source_dir, mount_point, "hugemap", 0, "pool=16M"), "mount %s: %s", after,
	       strerror(errno));
	fd = make_file(path, 1, 3 * HUGE);
	map = map_shared(fd, 0, 3 * HUGE);
	pattern(map, 2, 0, HUGE);
	read_pattern(after, fd, 2, 0, HUGE);
	MUST(munmap(map, 3 * HUGE));
	close(fd);
	MUST(unlink(path));
	MUST(umount(mount_point));
}

BEHAVIOUR(random_mount_options_lose_no_data)
{
	unsigned int i, n = scaled(10000), mounted = 0;
	char options[1024], path[700];

	require_mount_dirs();
	for (i = 0; i < n; i++) {
		unsigned long flags = random_below(8) ?
					      0 :
					      random_number() & (MS_NOSUID | MS_NODEV | MS_NOEXEC |
								 MS_SYNCHRONOUS | MS_NOATIME);
		int fd;

		random_options(options, sizeof(options));
		if (mount(source_dir, mount_point, "hugemap", flags,
			  random_below(50) ? options : NULL))
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
			read_pattern("read of the lower file after a random mount", fd, i, 0,
				     10000);
			close(fd);
		}
	}
	printf("  (%u of %u mounts succeeded)\n", mounted, n);
	expect_working("after random mounts");
}

BEHAVIOUR(random_file_system_contexts_do_no_harm)
{
	unsigned int i, j, n = scaled(5000);
	char value[64], message[512];

	require_mount_dirs();
	for (i = 0; i < n; i++) {
		int fs = (int)syscall(SYS_fsopen, "hugemap", random_below(2)), fd;

		EXPECT(fs >= 0, "fsopen: %s", strerror(errno));
		for (j = 0; j < random_below(8); j++) {
			unsigned int command = (unsigned int)random_below(10);

			/* Most commands do not suit the key; 6 creates, 7 reconfigures. */
			random_value(value, sizeof(value));
			syscall(SYS_fsconfig, fs, command, keys[random_below(COUNT(keys))],
				random_below(4) ? value : NULL,
				command == 2 ? random_below(64) :
				command == 5 ? random_below(8) :
					       (uint64_t)0);
		}
		if (!random_below(3)) {
			syscall(SYS_fsconfig, fs, 1, "source", source_dir, 0);
			syscall(SYS_fsconfig, fs, 1, "pool", "8M", 0);
			syscall(SYS_fsconfig, fs, 6, NULL, NULL, 0);
			fd = (int)syscall(SYS_fsmount, fs, 0, 0);
			if (fd >= 0)
				close(fd);
		}
		while (read(fs, message, sizeof(message)) > 0)
			;
		close(fs);
	}
	expect_working("after random contexts");
}

/* @arg: in a user namespace of the user's own. */
static void try_mounts_as_user(void *arg)
{
	unsigned int i, n = scaled(2000);
	char options[1024];

	MUST(chmod(source_dir, 0777)); /* so that only the missing right can refuse */
	become_user(1000, 1000);
	if (arg && unshare(CLONE_NEWUSER | CLONE_NEWNS))
		skip("no user namespaces here");
	for (i = 0; i < n; i++) {
		random_options(options, sizeof(options));
		EXPECT(mount(source_dir, mount_point, "hugemap", 0, options) < 0,
		       "an ordinary user mounted hugemap%s", arg ? " in a namespace" : "");
		/* In a user namespace, options are parsed before rights are checked. */
		EXPECT(errno == EPERM || (arg && errno == EINVAL),
		       "an ordinary user's mount%s: %s, expected EPERM",
		       arg ? " in a namespace" : "", strerror(errno));
	}
	EXPECT_ERRNO(mount(source_dir, mount_point, "hugemap", 0, "pool=16M"), EPERM);
	i = (unsigned int)syscall(SYS_fsopen, "hugemap", 0);
	if ((int)i >= 0) {
		syscall(SYS_fsconfig, i, 1, "source", source_dir, 0);
		EXPECT(syscall(SYS_fsconfig, i, 6, NULL, NULL, 0) < 0,
		       "an ordinary user created a hugemap super block%s",
		       arg ? " in a namespace" : "");
	}
}

BEHAVIOUR(ordinary_user_cannot_mount)
{
	require_mount_dirs();
	in_child(try_mounts_as_user, NULL);
	expect_working("after mounts by an ordinary user");
}

BEHAVIOUR(root_of_a_user_namespace_cannot_mount)
{
	require_mount_dirs();
	in_child(try_mounts_as_user, source_dir);
	expect_working("after mounts in a user namespace");
}

#define SPACE (256ul * HUGE / 2)

/* A system call with random arguments, on addresses of @space only. */
static void random_call(int fd, unsigned char *space, unsigned char **map, size_t *len)
{
	unsigned char *at = random_below(4) ? *map + random_below(*len / SMALL + 1) * SMALL :
					      space + random_below(SPACE);
	size_t room = (size_t)(space + SPACE - at), n = edge_number();
	int32_t priority;

	if (n > room)
		n = random_below(room + 1);
	switch (random_below(16)) {
	case 0:
	case 1:
		/* Known advice, without MADV_HWPOISON, which takes memory away for good. */
		madvise(at, n, (int)random_below(26));
		break;
	case 2:
		madvise(at, n, (int)edge_number());
		break;
	case 3:
		posix_fadvise(fd, (off_t)edge_number(), (off_t)edge_number(),
			      (int)random_below(10));
		break;
	case 4:
		fallocate(fd, (int)random_below(256), (off_t)random_below(40 * HUGE),
			  (off_t)random_below(40 * HUGE));
		break;
	case 5:
		fallocate(fd, (int)edge_number(), (off_t)edge_number(), (off_t)edge_number());
		break;
	case 6:
		priority = (int32_t)edge_number();
		ioctl(fd, HUGEMAP_IOC_PRIORITY,
		      random_below(4) ? (void *)&priority : (void *)edge_number());
		break;
	case 7:
		/* Ioctls with numbers near the module's own, and any others. */
		ioctl(fd,
		      random_below(2) ?
			      _IOC(random_below(4), 0xb2, random_below(8), random_below(64)) :
			      (unsigned long)(uint32_t)random_number(),
		      random_below(2) ? (void *)space : (void *)edge_number());
		break;
	case 8: {
		size_t want = (1 + random_below(40 * HUGE / SMALL)) * SMALL;
		unsigned char *to = space + random_below((SPACE - want) / SMALL) * SMALL;
		unsigned char *moved;

		/* The old place becomes a gap until fuzzer() reserves @space again. */
		moved = mremap(*map, *len, want, MREMAP_MAYMOVE | MREMAP_FIXED, to);
		if (moved != MAP_FAILED) {
			*map = moved;
			*len = want;
		}
		break;
	}
	case 9:
		mprotect(at, n, (int)random_below(8));
		break;
	case 10:
		msync(at, n, (int)random_below(8));
		break;
	case 11:
		(void)!ftruncate(fd, (off_t)(random_below(8) ? random_below(40 * HUGE) :
							       edge_number() % (1ull << 40)));
		break;
	case 12:
		sync_file_range(fd, (off_t)edge_number(), (off_t)edge_number(),
				(unsigned int)random_below(16));
		break;
	case 13:
		(void)!pread(fd, at, n % (4 * HUGE), (off_t)edge_number());
		break;
	case 14:
		(void)!pwrite(fd, at, n % (4 * HUGE), (off_t)(edge_number() % (40 * HUGE)));
		break;
	default:
		signal_of_access(*map + random_below(*len), random_below(2));
	}
}

static void fuzzer(void *arg)
{
	unsigned int i, n = scaled(10000);
	unsigned char *space, *map = NULL;
	size_t len = 20 * HUGE;
	char path[700];
	int fd;

	seed += *(unsigned int *)arg * 1000003ull; /* the number of the process */
	become_user(1000, 1000);
	catch_signals();
	signal(SIGIO, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	/* Two processes share a file. */
	snprintf(path, sizeof(path), "%s/open/file%u", mount_point, *(unsigned int *)arg / 2);
	fd = open(path, O_RDWR | O_CREAT, 0666);
	EXPECT(fd >= 0, "open %s: %s", path, strerror(errno));
	space = reserve_aligned(SPACE);
	for (i = 0; i < n; i++) {
		/* Reserve @space again every 200 calls: most of it may have become gaps. */
		if (i % 200 == 0) {
			EXPECT(mmap(space, SPACE, PROT_NONE,
				    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
				    0) == space,
			       "the reservation: %s", strerror(errno));
			len = (1 + random_below(30 * HUGE / SMALL)) * SMALL;
			map = mmap(space + random_below(512) * SMALL, len, PROT_READ | PROT_WRITE,
				   MAP_FIXED | (random_below(5) ? MAP_SHARED : MAP_PRIVATE), fd,
				   (off_t)(random_below(512) * SMALL));
			EXPECT(map != MAP_FAILED, "mmap: %s", strerror(errno));
		}
		random_call(fd, space, &map, &len);
	}
	EXPECT(getuid() == 1000 && geteuid() == 1000 && getegid() == 1000,
	       "an ordinary user became %u:%u", geteuid(), getegid());
	EXPECT_ERRNO(open(path_in(mount_point, "secret"), O_RDONLY), EACCES);
	/* A new file can be used. */
	snprintf(path, sizeof(path), "%s/open/new%u", mount_point, *(unsigned int *)arg);
	fd = make_file(path, 3, 100000);
	read_pattern("read after random calls", fd, 3, 0, 100000);
}

BEHAVIOUR(random_calls_of_an_ordinary_user_do_no_harm)
{
	struct stat st;
	int fd;

	make_mount_dirs();
	MUST(chmod(mnt_dir, 0755) && errno != EPERM && errno != EROFS ? -1 : 0);
	mount_hugemap_or_bind("pool=32M");
	MUST(mkdir(path_in(mount_point, "open"), 0777));
	MUST(chmod(path_in(mount_point, "open"), 0777));
	fd = make_file(path_in(mount_point, "secret"), 1, 2 * HUGE);
	MUST(fchmod(fd, 0600));
	in_children(4, fuzzer);
	/* The file of another user is unchanged. */
	read_pattern("read of another user's file", fd, 1, 0, 2 * HUGE);
	MUST(fstat(fd, &st));
	EXPECT(st.st_size == (off_t)(2 * HUGE) && st.st_uid == 0 && (st.st_mode & 07777) == 0600,
	       "the file of another user has %lld bytes, owner %u, mode %o", (long long)st.st_size,
	       st.st_uid, st.st_mode & 07777);
	MUST(fsync(fd));
	close(fd);
	MUST(umount(mount_point));
	read_file_pattern("lower file of another user", path_in(source_dir, "secret"), 1, 0,
			  2 * HUGE);
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
