// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Pages of a mapping that others access: direct I/O, pipes, other processes and futexes. A
 * frame is not reused while it is pinned, changes by a pin holder are written back, and a
 * fault in the buffer of an I/O on the same file does not deadlock.
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

/* A file of another file system, open for direct I/O. */
static int open_direct_outside(void)
{
	const char *dir = getenv("SCRATCH");
	char path[600];
	int fd;

	snprintf(path, sizeof(path), "%s/outside-%d", dir ? dir : "/var/tmp", (int)getpid());
	fd = open_direct(path, O_RDWR | O_CREAT | O_TRUNC);
	unlink(path);
	return fd;
}

BEHAVIOUR(direct_write_from_a_mapping_writes_its_content)
{
	int fd = make_file("f", 1, 3 * HUGE), other;
	unsigned char *map = map_shared(fd, 0, 3 * HUGE);

	pattern(map + HUGE, 10, HUGE, HUGE);
	other = open_direct_outside();
	/* Pages that were never accessed, and dirty ones. */
	EXPECT(pwrite(other, map, 3 * HUGE, 0) == 3 * HUGE, "direct write from a mapping: %s",
	       strerror(errno));
	read_pattern("read of the written file", other, 1, 0, HUGE);
	read_pattern("read of the written file", other, 10, HUGE, HUGE);
	read_pattern("read of the written file", other, 1, 2 * HUGE, HUGE);
}

BEHAVIOUR(direct_read_into_a_mapping_makes_its_pages_dirty)
{
	int fd = make_file("f", 2, 3 * HUGE), other;
	unsigned char *map = map_shared(fd, 0, 3 * HUGE);

	other = open_direct_outside();
	write_pattern(other, 20, 0, 3 * HUGE);
	MUST(fsync(fd));
	/* The pages are clean and write-protected; the pin holder must make them dirty. */
	EXPECT(pread(other, map + SMALL, 2 * HUGE, SMALL) == 2 * HUGE,
	       "direct read into a mapping: %s", strerror(errno));
	expect_pattern("load of the bytes that were read", map + SMALL, 20, SMALL, 2 * HUGE);
	expect_pattern("load before the direct read", map, 2, 0, SMALL);
	read_pattern("read of the bytes that were read", fd, 20, SMALL, 2 * HUGE);
	MUST(fsync(fd));
	expect_lower("lower file", "f", 20, SMALL, 2 * HUGE);
	expect_lower("lower file behind the direct read", "f", 2, 2 * HUGE + SMALL, HUGE - SMALL);
}

BEHAVIOUR(direct_io_between_two_files_of_the_mount_works)
{
	int a = make_file("a", 3, 2 * HUGE), b = make_file("b", 30, 2 * HUGE), direct;
	unsigned char *map = map_shared(a, 0, 2 * HUGE);

	direct = open_direct("b", O_RDWR);
	EXPECT(pwrite(direct, map, HUGE, 0) == HUGE, "direct write from a mapping: %s",
	       strerror(errno));
	read_pattern("read of the second file", b, 3, 0, HUGE);
	EXPECT(pread(direct, map, HUGE, HUGE) == HUGE, "direct read into a mapping: %s",
	       strerror(errno));
	expect_pattern("load of the bytes that were read", map, 30, HUGE, HUGE);
	MUST(fsync(a));
	MUST(fsync(b));
	expect_lower("second lower file", "b", 3, 0, HUGE);
	expect_lower("first lower file", "a", 3, HUGE, HUGE);
}

static void expect_direct_self(const char *what, ssize_t n, ssize_t len)
{
	EXPECT(n == len || (n < 0 && errno == EFAULT), "direct %s itself returned %zd: %s", what, n,
	       strerror(errno));
}

/*
 * The buffer is a mapping of another part of the same file, so a fault in it comes while the
 * file is locked for the I/O. The I/O either works, or fails with EFAULT, as on Linux.
 */
BEHAVIOUR(direct_io_of_a_file_with_its_own_mapping_works_or_fails_with_efault)
{
	int fd = make_file("f", 4, 4 * HUGE), direct;
	unsigned char *map = map_shared(fd, 0, 4 * HUGE);
	ssize_t n;

	direct = open_direct("f", O_RDWR);
	MUST(fsync(fd));
	drop_from_cache(fd, map, 4 * HUGE);
	n = pread(direct, map, HUGE, 2 * HUGE);
	expect_direct_self("read into", n, HUGE);
	if (n == HUGE)
		expect_pattern("load", map, 4, 2 * HUGE, HUGE);
	pattern(map + HUGE, 40, HUGE, HUGE);
	n = pwrite(direct, map + HUGE, HUGE, 3 * HUGE);
	expect_direct_self("write from", n, HUGE);
	if (n == HUGE)
		expect_pattern("load", map + 3 * HUGE, 40, HUGE, HUGE);
	/* The source is not cached, so the fault has to fill it. */
	drop_from_cache(fd, map, 4 * HUGE);
	n = pwrite(direct, map + 2 * HUGE, SMALL, 3 * HUGE);
	expect_direct_self("write from", n, SMALL);
	if (n == SMALL)
		expect_pattern("load", map + 3 * HUGE, 4, 2 * HUGE, SMALL);
}

/* If the ranges overlap, the bytes are unspecified, but the call must end. */
BEHAVIOUR(buffered_io_of_a_file_with_its_own_mapping_works)
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
	expect_pattern("load of bytes from another process", r->map + HUGE / 2, 60, HUGE / 2, HUGE);
}

BEHAVIOUR(process_vm_readv_and_writev_reach_the_file)
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
	expect_lower("lower file after process_vm_writev", "f", 60, HUGE / 2, HUGE);
}

/* The boot parameter proc_mem.force_override may forbid writes to read-only memory. */
static bool allows_writes_to_read_only_memory(int mem)
{
	unsigned char *page = mmap(NULL, SMALL, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	EXPECT(page != MAP_FAILED, "mmap: %s", strerror(errno));
	return pwrite(mem, "x", 1, (off_t)(uintptr_t)page) == 1;
}

BEHAVIOUR(proc_pid_mem_writes_shared_pages_and_copies_private_ones)
{
	int fd = make_file("f", 7, HUGE), mem = open_file("/proc/self/mem", O_RDWR);
	unsigned char *map = map_shared(fd, 0, HUGE);
	unsigned char *ro = map_file(fd, 0, HUGE, PROT_READ, MAP_PRIVATE);
	unsigned char buf[100];

	pattern(buf, 70, 1000, 100);
	MUST(pwrite(mem, buf, 100, (off_t)(uintptr_t)(map + 1000)));
	read_pattern("read after a store by /proc", fd, 70, 1000, 100);
	if (!allows_writes_to_read_only_memory(mem))
		return;
	/* As a debugger sets a breakpoint: the private page is copied. */
	pattern(buf, 71, 2000, 100);
	MUST(pwrite(mem, buf, 100, (off_t)(uintptr_t)(ro + 2000)));
	expect_pattern("load of the private page", ro + 2000, 71, 2000, 100);
	read_pattern("read of the file", fd, 7, 2000, 100);
}

BEHAVIOUR(page_in_a_pipe_keeps_its_content_after_eviction_and_truncate)
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
	expect_pattern("read of the pipe", buf, 8, HUGE - SMALL, sizeof(buf));
	/* The pipe pins a page that ftruncate removes: its frame must not be reused. */
	map = map_shared(fd, 0, HUGE);
	iov.iov_base = map;
	MUST(vmsplice(fds[1], &iov, 1, 0));
	MUST(ftruncate(fd, 0));
	write_pattern(fd, 80, 0, 2 * HUGE);
	MUST(read(fds[0], buf, sizeof(buf)));
	read_pattern("read of the file, written again", fd, 80, 0, 2 * HUGE);
}

BEHAVIOUR(splice_tee_and_sendfile_copy_the_content)
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
	EXPECT(m > 0 && m <= n, "tee returned %zd of %zd: %s", m, n, strerror(errno));
	EXPECT(read(b[0], buf, sizeof(buf)) == m, "read of the copy: %s", strerror(errno));
	expect_pattern("tee", buf, 9, HUGE - 5000, (size_t)m);
	/* Into a file on the mount, at an unaligned offset. */
	out = make_file("g", 90, HUGE + 7);
	off = HUGE - 77;
	EXPECT(splice(a[0], NULL, out, &off, (size_t)n, 0) > 0, "splice into the file: %s",
	       strerror(errno));
	n = off - (HUGE - 77);
	MUST(pread(out, buf, (size_t)n, HUGE - 77));
	expect_pattern("splice into a file", buf, 9, HUGE - 5000, (size_t)n);
	read_pattern("before the splice", out, 90, 0, HUGE - 77);
	off = 2 * HUGE + 100;
	EXPECT(splice(fd, &off, b[1], NULL, 100, 0) == 0, "splice at the end returned bytes");
	MUST(ftruncate(out, 0));
	MUST(lseek(out, 0, SEEK_SET));
	for (off = 0; off < (loff_t)(2 * HUGE + 100);) {
		n = sendfile(out, fd, &off, 2 * HUGE + 100 - (size_t)off);
		EXPECT(n > 0, "sendfile returned %zd: %s", n, strerror(errno));
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

/* The kernel finds a shared futex by inode and page offset, from either mapping. */
BEHAVIOUR(futex_in_a_mapping_works_across_processes)
{
	int fd = open_file("f", O_RDWR | O_CREAT);
	uint32_t *word;
	pid_t pid;

	MUST(ftruncate(fd, 2 * HUGE));
	word = (uint32_t *)(map_shared(fd, HUGE, HUGE) + 64);
	*word = 0;
	pid = start_child(futex_child, NULL);
	/* The sync write-protects the page while the child may wait. */
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

/* The kernel writes to the mapping when the owner of a robust mutex dies. */
BEHAVIOUR(robust_mutex_in_a_mapping_reports_a_dead_owner)
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
	EXPECT(error == EOWNERDEAD,
	       "pthread_mutex_lock after its owner died: %d (%s), expected EOWNERDEAD", error,
	       strerror(error));
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

/* Each sync write-protects the page that the processes store to. */
BEHAVIOUR(no_increment_is_lost_beside_syncs)
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
		read_pattern("direct read after a direct write", fd, i, off, HUGE / 2);
	}
	return NULL;
}

BEHAVIOUR(direct_writes_and_stores_to_the_same_blocks_do_not_mix)
{
	int fd = make_file("f", 11, 4 * HUGE);
	unsigned char *map = map_shared(fd, 0, 4 * HUGE);
	pthread_t thread;
	unsigned int i;

	close(open_direct("f", O_RDWR));
	MUST(-pthread_create(&thread, NULL, direct_thread, NULL));
	/* This thread stores to the first half of each block, the other writes to the second. */
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
 * The lower file system reads a hole by a copy of zeros to the buffer, under its lock of the
 * file. The copy faults; if the fault reserved space in the same file, it would wait for this
 * lock, which its own task holds.
 */
BEHAVIOUR(direct_read_of_a_hole_into_a_mapping_of_the_file_does_not_deadlock)
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
