// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Pages of a mapping in the hands of others: as buffers of direct I/O, of pipes and
 * of other processes, and as the place of locks. Frames must stay where they are as
 * long as somebody holds them, and a fault inside a copy must not wait for itself.
 *
 * vm: page=2M,4K,auto lower=ext4,xfs timeout=180
 */
#include "common.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/uio.h>

static int open_direct(const char *name, int flags)
{
	int fd = open(name, flags | O_DIRECT | O_CLOEXEC, 0644);

	if (fd < 0 && errno == EINVAL)
		skip("no direct I/O here");
	EXPECT(fd >= 0, "open %s: %s", name, strerror(errno));
	return fd;
}

/* A file that is not on the mount under test. */
static const char *outside(void)
{
	static char path[600];
	const char *dir = getenv("SCRATCH");

	snprintf(path, sizeof(path), "%s/outside-%d", dir ? dir : "/var/tmp", (int)getpid());
	return path;
}

BEHAVIOUR(direct_from_mapping)
{
	int fd = make_file("f", 1, 3 * HUGE), other;
	unsigned char *map = map_shared(fd, 0, 3 * HUGE);

	pattern(map + HUGE, 10, HUGE, HUGE);
	other = open_direct(outside(), O_RDWR | O_CREAT | O_TRUNC);
	unlink(outside());
	/* Of a part never touched, and of one that is dirty. */
	EXPECT(pwrite(other, map, 3 * HUGE, 0) == 3 * HUGE, "direct write from a mapping: %s",
	       strerror(errno));
	read_pattern("what was written", other, 1, 0, HUGE);
	read_pattern("what was written", other, 10, HUGE, HUGE);
	read_pattern("what was written", other, 1, 2 * HUGE, HUGE);
}

BEHAVIOUR(direct_into_mapping)
{
	int fd = make_file("f", 2, 3 * HUGE), other;
	unsigned char *map = map_shared(fd, 0, 3 * HUGE);

	other = open_direct(outside(), O_RDWR | O_CREAT | O_TRUNC);
	unlink(outside());
	write_pattern(other, 20, 0, 3 * HUGE);
	MUST(fsync(fd));
	/* Into clean, protected pages: the device's store must make them dirty. */
	EXPECT(pread(other, map + SMALL, 2 * HUGE, SMALL) == 2 * HUGE,
	       "direct read into a mapping: %s", strerror(errno));
	expect_pattern("load of what was read", map + SMALL, 20, SMALL, 2 * HUGE);
	expect_pattern("load before it", map, 2, 0, SMALL);
	read_pattern("read of what was read", fd, 20, SMALL, 2 * HUGE);
	MUST(fsync(fd));
	expect_lower("below", "f", 20, SMALL, 2 * HUGE);
	expect_lower("below, behind it", "f", 2, 2 * HUGE + SMALL, HUGE - SMALL);
}

/* Both files on the mount. */
BEHAVIOUR(direct_between_two)
{
	int a = make_file("a", 3, 2 * HUGE), b = make_file("b", 30, 2 * HUGE), direct;
	unsigned char *map = map_shared(a, 0, 2 * HUGE);

	direct = open_direct("b", O_RDWR);
	EXPECT(pwrite(direct, map, HUGE, 0) == HUGE, "direct write from a mapping: %s",
	       strerror(errno));
	read_pattern("the second file", b, 3, 0, HUGE);
	EXPECT(pread(direct, map, HUGE, HUGE) == HUGE, "direct read into a mapping: %s",
	       strerror(errno));
	expect_pattern("load of what was read", map, 30, HUGE, HUGE);
	MUST(fsync(a));
	MUST(fsync(b));
	expect_lower("the second file below", "b", 3, 0, HUGE);
	expect_lower("the first file below", "a", 3, HUGE, HUGE);
}

/*
 * The buffer is a mapping of the same file, elsewhere in it. The fault comes while
 * the file is locked for the I/O. Linux does it, or refuses with EFAULT; it never
 * hangs and never mixes bytes up.
 */
BEHAVIOUR(direct_self)
{
	int fd = make_file("f", 4, 4 * HUGE), direct;
	unsigned char *map = map_shared(fd, 0, 4 * HUGE);
	ssize_t n;

	direct = open_direct("f", O_RDWR);
	MUST(fsync(fd));
	drop_from_cache(fd, map, 4 * HUGE);
	n = pread(direct, map, HUGE, 2 * HUGE);
	EXPECT(n == HUGE || (n < 0 && errno == EFAULT), "direct read into itself gave %zd: %s", n,
	       strerror(errno));
	if (n == HUGE)
		expect_pattern("load", map, 4, 2 * HUGE, HUGE);
	pattern(map + HUGE, 40, HUGE, HUGE);
	n = pwrite(direct, map + HUGE, HUGE, 3 * HUGE);
	EXPECT(n == HUGE || (n < 0 && errno == EFAULT), "direct write from itself gave %zd: %s", n,
	       strerror(errno));
	if (n == HUGE)
		expect_pattern("load", map + 3 * HUGE, 40, HUGE, HUGE);
	/* never touched, so that the fault has to read */
	drop_from_cache(fd, map, 4 * HUGE);
	n = pwrite(direct, map + 2 * HUGE, SMALL, 3 * HUGE);
	EXPECT(n == SMALL || (n < 0 && errno == EFAULT), "direct write from itself gave %zd: %s", n,
	       strerror(errno));
	if (n == SMALL)
		expect_pattern("load", map + 3 * HUGE, 4, 2 * HUGE, SMALL);
}

/* The same with read(2) and write(2), overlapping too: any mix of both, no hang. */
BEHAVIOUR(buffered_self)
{
	int fd = make_file("f", 5, 4 * HUGE);
	unsigned char *map = map_shared(fd, 0, 4 * HUGE);

	MUST(fsync(fd));
	drop_from_cache(fd, map, 4 * HUGE);
	EXPECT(pwrite(fd, map + 2 * HUGE + 5, HUGE, 7) == HUGE, "write from itself: %s",
	       strerror(errno));
	expect_pattern("load", map + 7 + 3, 5, 2 * HUGE + 8, HUGE - 3);
	drop_from_cache(fd, map, 4 * HUGE);
	EXPECT(pread(fd, map + 3 * HUGE, HUGE, HUGE + 8) == HUGE, "read into itself: %s",
	       strerror(errno));
	expect_pattern("load", map + 3 * HUGE + 8, 5, HUGE + 16, HUGE - 16);
	MUST(pwrite(fd, map, 2 * HUGE, 100));
	MUST(pread(fd, map + 50, 2 * HUGE, 0));
	MUST(fsync(fd));
}

struct remote {
	struct turns turns;
	unsigned char *map;
};

static void remote_target(void *arg)
{
	struct remote *r = arg;

	turn_take(r->turns.to_child);
	expect_pattern("load of what another process put here", r->map + HUGE / 2, 60, HUGE / 2,
		       HUGE);
}

BEHAVIOUR(process_vm)
{
	struct remote r;
	int fd = make_file("f", 6, 2 * HUGE);
	unsigned char *buf = buffer(HUGE);
	struct iovec local = { buf, HUGE }, remote;
	pid_t pid;

	r.map = map_shared(fd, 0, 2 * HUGE);
	remote.iov_base = r.map + HUGE / 2;
	remote.iov_len = HUGE;
	turns_init(&r.turns);
	pid = start_child(remote_target, &r);
	EXPECT(process_vm_readv(pid, &local, 1, &remote, 1, 0) == HUGE, "process_vm_readv: %s",
	       strerror(errno));
	expect_pattern("process_vm_readv", buf, 6, HUGE / 2, HUGE);
	pattern(buf, 60, HUGE / 2, HUGE);
	EXPECT(process_vm_writev(pid, &local, 1, &remote, 1, 0) == HUGE, "process_vm_writev: %s",
	       strerror(errno));
	turn_give(r.turns.to_child);
	wait_child(pid);
	read_pattern("read after process_vm_writev", fd, 60, HUGE / 2, HUGE);
	MUST(fsync(fd));
	expect_lower("below after process_vm_writev", "f", 60, HUGE / 2, HUGE);
}

/* A kernel can be told to let only tracers write read-only memory, or nobody. */
static bool read_only_can_be_written(int mem)
{
	unsigned char *page = mmap(NULL, SMALL, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	EXPECT(page != MAP_FAILED, "mmap: %s", strerror(errno));
	return pwrite(mem, "x", 1, (off_t)(uintptr_t)page) == 1;
}

/* /proc/PID/mem writes by force, as debuggers do. */
BEHAVIOUR(proc_mem)
{
	int fd = make_file("f", 7, HUGE), mem = open_file("/proc/self/mem", O_RDWR);
	unsigned char *map = map_shared(fd, 0, HUGE);
	unsigned char *ro = map_file(fd, 0, HUGE, PROT_READ, MAP_PRIVATE);
	unsigned char buf[100];

	pattern(buf, 70, 1000, 100);
	MUST(pwrite(mem, buf, 100, (off_t)(uintptr_t)(map + 1000)));
	read_pattern("read after a store by /proc", fd, 70, 1000, 100);
	if (!read_only_can_be_written(mem))
		return;
	/* A private page is copied, as a breakpoint is set. */
	pattern(buf, 71, 2000, 100);
	MUST(pwrite(mem, buf, 100, (off_t)(uintptr_t)(ro + 2000)));
	expect_pattern("the private page", ro + 2000, 71, 2000, 100);
	read_pattern("the file behind it", fd, 7, 2000, 100);
}

/* A pipe holds the pages of the mapping while the cache wants them back. */
BEHAVIOUR(vmsplice_pages)
{
	int fd = make_file("f", 8, 2 * HUGE), fds[2];
	unsigned char *map = map_shared(fd, 0, 2 * HUGE), buf[3 * SMALL];
	struct iovec iov = { map + HUGE - SMALL, 3 * SMALL };

	MUST(pipe(fds));
	EXPECT(vmsplice(fds[1], &iov, 1, 0) == 3 * SMALL, "vmsplice: %s", strerror(errno));
	MUST(munmap(map, 2 * HUGE));
	MUST(fsync(fd));
	MUST(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED));
	EXPECT(read(fds[0], buf, sizeof(buf)) == sizeof(buf), "read of the pipe: %s",
	       strerror(errno));
	expect_pattern("what the pipe held", buf, 8, HUGE - SMALL, sizeof(buf));
	/* The file is gone while a pipe holds its pages: no frame may be given to another. */
	map = map_shared(fd, 0, HUGE);
	iov.iov_base = map;
	MUST(vmsplice(fds[1], &iov, 1, 0));
	MUST(ftruncate(fd, 0));
	write_pattern(fd, 80, 0, 2 * HUGE);
	MUST(read(fds[0], buf, sizeof(buf)));
	read_pattern("the file, written anew", fd, 80, 0, 2 * HUGE);
}

BEHAVIOUR(splice_tee_sendfile)
{
	int fd = make_file("f", 9, 2 * HUGE + 100), a[2], b[2], out;
	unsigned char buf[16384];
	loff_t off = HUGE - 5000;
	ssize_t n, m;

	MUST(pipe(a));
	MUST(pipe(b));
	n = splice(fd, &off, a[1], NULL, 10000, 0);
	EXPECT(n > 0, "splice: %s", strerror(errno));
	m = tee(a[0], b[1], (size_t)n, 0);
	EXPECT(m > 0 && m <= n, "tee gave %zd of %zd: %s", m, n, strerror(errno));
	EXPECT(read(b[0], buf, sizeof(buf)) == m, "read of the copy: %s", strerror(errno));
	expect_pattern("tee", buf, 9, HUGE - 5000, (size_t)m);
	/* Into a file on the mount, at an odd offset. */
	out = make_file("g", 90, HUGE + 7);
	off = HUGE - 77;
	EXPECT(splice(a[0], NULL, out, &off, (size_t)n, 0) > 0, "splice into the file: %s",
	       strerror(errno));
	n = off - (HUGE - 77);
	MUST(pread(out, buf, (size_t)n, HUGE - 77));
	expect_pattern("splice into a file", buf, 9, HUGE - 5000, (size_t)n);
	read_pattern("before the splice", out, 90, 0, HUGE - 77);
	/* Past the end of the file: nothing. */
	off = 2 * HUGE + 100;
	EXPECT(splice(fd, &off, b[1], NULL, 100, 0) == 0, "splice at the end gave something");
	MUST(ftruncate(out, 0));
	MUST(lseek(out, 0, SEEK_SET));
	for (off = 0; off < (loff_t)(2 * HUGE + 100);) {
		n = sendfile(out, fd, &off, 2 * HUGE + 100 - (size_t)off);
		EXPECT(n > 0, "sendfile gave %zd: %s", n, strerror(errno));
	}
	read_pattern("sendfile", out, 9, 0, 2 * HUGE + 100);
}

static int futex(uint32_t *word, int op, uint32_t value)
{
	return (int)syscall(SYS_futex, word, op, value, NULL, NULL, 0);
}

static void futex_child(void *arg)
{
	int fd = open_file("f", O_RDWR);
	uint32_t *word = (uint32_t *)(map_shared(fd, 0, 2 * HUGE) + HUGE + 64);

	(void)arg;
	while (__atomic_load_n(word, __ATOMIC_ACQUIRE) != 1)
		futex(word, FUTEX_WAIT, 0);
	__atomic_store_n(word, 2, __ATOMIC_RELEASE);
	futex(word, FUTEX_WAKE, 1);
}

/* Found by file and offset: both must compute the same key from their own mapping. */
BEHAVIOUR(futex_across_processes)
{
	int fd = open_file("f", O_RDWR | O_CREAT);
	uint32_t *word;
	pid_t pid;

	MUST(ftruncate(fd, 2 * HUGE));
	word = (uint32_t *)(map_shared(fd, HUGE, HUGE) + 64);
	*word = 0;
	pid = start_child(futex_child, NULL);
	/* Frames may move or be protected while somebody waits in one. */
	MUST(fsync(fd));
	__atomic_store_n(word, 1, __ATOMIC_RELEASE);
	while (__atomic_load_n(word, __ATOMIC_ACQUIRE) == 1) {
		futex(word, FUTEX_WAKE, 1);
		futex(word, FUTEX_WAIT, 1);
	}
	EXPECT(*word == 2, "the futex word is %u, expected 2", *word);
	wait_child(pid);
}

static void dying_owner(void *arg)
{
	MUST(-pthread_mutex_lock(arg));
	_exit(0);
}

/* The kernel itself writes into the mapping when the owner of a lock dies. */
BEHAVIOUR(robust_mutex)
{
	int fd = open_file("f", O_RDWR | O_CREAT), error;
	pthread_mutexattr_t attr;
	pthread_mutex_t *mutex;
	unsigned char *map;

	MUST(ftruncate(fd, 2 * HUGE));
	map = map_shared(fd, 0, 2 * HUGE);
	mutex = (pthread_mutex_t *)(map + HUGE + 128);
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	MUST(-pthread_mutex_init(mutex, &attr));
	MUST(fsync(fd));
	in_child(dying_owner, mutex);
	error = pthread_mutex_lock(mutex);
	EXPECT(error == EOWNERDEAD, "lock after its owner died gave %d (%s), expected EOWNERDEAD",
	       error, strerror(error));
	MUST(-pthread_mutex_consistent(mutex));
	MUST(-pthread_mutex_unlock(mutex));
	MUST(-pthread_mutex_lock(mutex));
	MUST(-pthread_mutex_unlock(mutex));
}

struct counter {
	pthread_mutex_t mutex;
	uint64_t plain, atomic;
};

static void count_child(void *arg)
{
	int fd = open_file("f", O_RDWR);
	struct counter *c = (struct counter *)(map_shared(fd, 0, 2 * HUGE) + HUGE);
	unsigned int i;

	for (i = 0; i < 20000; i++) {
		MUST(-pthread_mutex_lock(&c->mutex));
		c->plain++;
		MUST(-pthread_mutex_unlock(&c->mutex));
		__atomic_fetch_add(&c->atomic, 1, __ATOMIC_RELAXED);
		if (i % 500 == 0)
			MUST(arg ? fsync(fd) : fdatasync(fd));
	}
}

/* No increment is lost while each of them syncs, that is, protects the page anew. */
BEHAVIOUR(counters_during_sync)
{
	int fd = open_file("f", O_RDWR | O_CREAT);
	pthread_mutexattr_t attr;
	struct counter *c;
	unsigned int i;
	pid_t pids[3];

	MUST(ftruncate(fd, 2 * HUGE));
	c = (struct counter *)(map_shared(fd, 0, 2 * HUGE) + HUGE);
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	MUST(-pthread_mutex_init(&c->mutex, &attr));
	for (i = 0; i < COUNT(pids); i++)
		pids[i] = start_child(count_child, i ? c : NULL);
	for (i = 0; i < COUNT(pids); i++)
		wait_child(pids[i]);
	EXPECT(c->plain == 60000 && c->atomic == 60000,
	       "the counters are %llu and %llu, expected 60000", (unsigned long long)c->plain,
	       (unsigned long long)c->atomic);
}

/* Threads load and store while others read and write the same file directly. */
static void *direct_thread(void *arg)
{
	int fd = open_file("f", O_RDWR | O_DIRECT);
	unsigned char *buf = buffer(HUGE);
	unsigned int i;

	(void)arg;
	for (i = 0; i < 100; i++) {
		uint64_t off = (i * 13 % 4) * HUGE + HUGE / 2;

		pattern(buf, i, off, HUGE / 2);
		EXPECT(pwrite(fd, buf, HUGE / 2, (off_t)off) == HUGE / 2, "direct write: %s",
		       strerror(errno));
		read_pattern("direct read of one's own direct write", fd, i, off, HUGE / 2);
	}
	return NULL;
}

BEHAVIOUR(direct_beside_stores)
{
	int fd = make_file("f", 11, 4 * HUGE);
	unsigned char *map = map_shared(fd, 0, 4 * HUGE);
	pthread_t thread;
	unsigned int i;

	close(open_direct("f", O_RDWR));
	MUST(-pthread_create(&thread, NULL, direct_thread, NULL));
	/* The first half of each block is ours, the second is the other thread's. */
	for (i = 0; i < 400; i++) {
		uint64_t off = i % 4 * HUGE + (uint64_t)i * 991 % (HUGE / 2 - 500);

		pattern(map + off, 1000 + i, off, 500);
		if (i % 16 == 0)
			MUST(fdatasync(fd));
		expect_pattern("load beside direct writes", map + off, 1000 + i, off, 500);
	}
	MUST(-pthread_join(thread, NULL));
}

/*
 * What is a hole is not read but zeroed, by a copy to the buffer, while the file system
 * below has its lock on the file: a fault there, which asks for room in that file, would
 * wait for itself.
 */
BEHAVIOUR(direct_hole_into_mapping)
{
	int fd = open_file("f", O_RDWR | O_CREAT | O_TRUNC), direct;
	unsigned char *map;

	MUST(ftruncate(fd, 4 * HUGE));
	map = map_shared(fd, 0, 4 * HUGE);
	direct = open_direct("f", O_RDWR);
	map[3 * HUGE] = 'x';
	EXPECT(pread(direct, map + 2 * HUGE, HUGE, 0) == HUGE, "direct read of a hole: %s",
	       strerror(errno));
	EXPECT(pread(direct, map + 3 * HUGE, HUGE, HUGE) == HUGE, "direct read of a hole: %s",
	       strerror(errno));
	expect_zero("load after a direct read of a hole", map, 0, 4 * HUGE);
	MUST(fdatasync(fd));
}

RUN_BEHAVIOURS
