// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Pools: where one can be made and where not, what it is strict about, and that what
 * is mapped through it need not be a file.
 *
 * What a machine does not allow is played by a seccomp filter, in a child.
 */
#include "common.h"

#include <linux/loop.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "uffd.h"

#define SEED 13
#define BOTH (PROT_READ | PROT_WRITE)

/* --- a child with less rights ------------------------------------------------ */

static void no_pool(const struct file *file, const char *reason)
{
	struct hugemap_pool *pool;
	char *addr;

	must(hugemap_pool_create(NULL, &pool) < 0);
	must(strstr(hugemap_reason(), reason));
	/* What needs no pool works as ever. */
	addr = hugemap_map(file->fd, 0, 0, PROT_READ, 0, NULL);
	must(!hugemap_error(addr));
	must((unsigned char)addr[MB(3)] == pattern_byte(SEED, MB(3)));
}

static void become_nobody(void)
{
	must(!setgid(65534) && !setuid(65534));
	must(!prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)); /* or /proc/self is not our own */
}

static void nobody(void *file)
{
	become_nobody();
	forbid(SYS_userfaultfd, 1, 0, EPERM); /* a sysctl may allow it to all */
	no_pool(file, "userfaultfd is not allowed");
}

static void nobody_in_user_mode(void *file)
{
	become_nobody();
	no_pool(file, "only faults from user mode");
}

static void test_userfaultfd_not_allowed(void **state)
{
	struct file file;
	struct stat st;

	if (getuid()) {
		print_message("skipped: only root can become another user\n");
		skip();
	}
	if (!stat("/dev/userfaultfd", &st) && st.st_mode & 0006) {
		print_message("skipped: /dev/userfaultfd is open to all here\n");
		skip();
	}
	file_pattern(&file, MB(7) + 9, SEED);
	assert_int_equal(status_of_child(nobody, &file), 0);
	assert_int_equal(status_of_child(nobody_in_user_mode, &file), 0);
	file_close(&file);
}

static void without_move(void *file)
{
	forbid(SYS_ioctl, 1, (unsigned int)UFFDIO_API, EINVAL);
	no_pool(file, "UFFDIO_MOVE");
}

static void test_a_kernel_without_move(void **state)
{
	struct file file;

	file_pattern(&file, MB(7) + 9, SEED);
	assert_int_equal(status_of_child(without_move, &file), 0);
	file_close(&file);
}

static void use_engine(const struct file *file, enum hugemap_io io, int expected)
{
	struct hugemap_pool_options pool_options = {
		.size = sizeof(pool_options),
		.bytes = MB(16),
		.io = io,
	};
	struct hugemap_options options = { .size = sizeof(options) };
	size_t size = file_length(file);
	char *addr;

	must(hugemap_pool_create(&pool_options, &options.pool) == expected);
	if (expected)
		return;
	addr = hugemap_map(file->fd, 0, 0, PROT_READ | PROT_WRITE, 0, &options);
	must(!hugemap_error(addr));
	must(pattern_differs(addr, SEED, 0, size) == size);
	addr[MB(5)] = (char)pattern_byte(SEED, MB(5));
	must(!hugemap_sync(addr, size, MS_SYNC));
	must(!hugemap_unmap(addr, size));
	must(!hugemap_pool_destroy(options.pool));
}

static void without_uring(void *file)
{
	forbid(SYS_io_uring_setup, 1, 0, EPERM);
	use_engine(file, HUGEMAP_IO_AUTO, 0);
	use_engine(file, HUGEMAP_IO_THREADS, 0);
	use_engine(file, HUGEMAP_IO_URING, -EPERM);
	must(strlen(hugemap_reason()) > 10);
}

static void test_io_uring_not_allowed(void **state)
{
	struct file file;

	file_pattern(&file, MB(20) + 9, SEED);
	assert_int_equal(status_of_child(without_uring, &file), 0);
	file_close(&file);
}

/* --- what else has the file ------------------------------------------------------ */

/* What is stored through a pool, a mapping without one would not see. */
static void test_with_a_pool_or_without(void **state)
{
	struct hugemap_pool *pool = pool_new(MB(16));
	struct hugemap_options options = { .size = sizeof(options), .pool = pool };
	struct file file;
	char *a, *b;

	file_pattern(&file, MB(6), SEED);
	a = map_file(&file, pool, BOTH);
	b = hugemap_map(file.fd, 0, 0, PROT_READ, 0, NULL);
	assert_int_equal(hugemap_error(b), -EBUSY);
	assert_non_null(strstr(hugemap_reason(), "pool"));
	b = hugemap_map(file.fd, 0, 0, BOTH, HUGEMAP_PRIVATE, NULL);
	assert_int_equal(hugemap_error(b), -EBUSY);
	ok(hugemap_unmap(a, MB(6)));
	/* Of two that only read, each may have its way. */
	a = map_file(&file, pool, PROT_READ);
	b = hugemap_map(file.fd, 0, 0, PROT_READ, 0, NULL);
	ok(hugemap_error(b));
	assert_int_equal(pattern_differs(b, SEED, 0, MB(6)), MB(6));
	assert_int_equal(hugemap_error(hugemap_map(file.fd, 0, 0, BOTH, 0, NULL)), -EBUSY);
	ok(hugemap_unmap(a, MB(6)));
	assert_int_equal(hugemap_error(hugemap_map(file.fd, 0, 0, BOTH, 0, &options)), -EBUSY);
	ok(hugemap_unmap(b, MB(6)));
	a = map_file(&file, pool, BOTH);
	ok(hugemap_unmap(a, MB(6)));
	assert_int_equal(hugemap_error(hugemap_map(file.fd, 0, 0, BOTH, HUGEMAP_PRIVATE, &options)),
			 -EOPNOTSUPP);
	file_close(&file);
	pool_free(pool);
}

/* A mapping without a pool may go by munmap(2): its addresses and its file are free then. */
static void test_a_pool_where_a_plain_mapping_was(void **state)
{
	struct hugemap_pool *pool = pool_new(MB(16));
	struct file plain, pooled;
	char *at, *addr = NULL;
	int tries;
	char byte;

	file_pattern(&plain, MB(6), SEED);
	file_pattern(&pooled, MB(6), SEED);
	/* The kernel takes the same addresses again, most of the time. */
	for (tries = 0; tries < 20; tries++) {
		at = hugemap_map(plain.fd, 0, 0, BOTH, 0, NULL);
		ok(hugemap_error(at));
		assert_int_equal(munmap(at, MB(6)), 0);
		addr = map_file(&pooled, pool, BOTH);
		if (addr < at + MB(6) && at < addr + MB(6))
			break;
		ok(hugemap_unmap(addr, MB(6)));
	}
	assert_true(tries < 20);
	assert_int_equal(stat_of(addr).engine, HUGEMAP_ENGINE_POOL);
	assert_int_equal(stat_of(addr + MB(5)).engine, HUGEMAP_ENGINE_POOL);
	addr[9] = 's';
	ok(hugemap_sync(addr, MB(6), MS_SYNC));
	assert_int_equal(pread(pooled.fd, &byte, 1, 9), 1);
	assert_int_equal(byte, 's');
	ok(hugemap_unmap(addr, MB(6)));
	at = hugemap_map(plain.fd, 0, 0, BOTH, 0, NULL);
	ok(hugemap_error(at));
	assert_int_equal(munmap(at, MB(6)), 0);
	addr = map_file(&plain, pool, BOTH);
	ok(hugemap_unmap(addr, MB(6)));
	file_close(&plain);
	file_close(&pooled);
	pool_free(pool);
}

/* Does somebody hold a lock on the file, who would not let this one in? */
static bool is_locked(const struct file *file, short kind)
{
	struct flock lock = { .l_type = kind, .l_whence = SEEK_SET };
	int fd = open(file->path, O_RDWR);
	bool locked = fcntl(fd, F_OFD_SETLK, &lock) < 0;

	if (locked)
		assert_int_equal(errno, EAGAIN);
	close(fd);
	return locked;
}

static void map_in_child(void *arg)
{
	const struct file *file = arg;
	struct hugemap_options options = { .size = sizeof(options) };
	char *addr;

	must(!hugemap_pool_create(
		&(struct hugemap_pool_options){ .size = sizeof(struct hugemap_pool_options),
						.bytes = MB(8) },
		&options.pool));
	addr = hugemap_map(file->fd, 0, 0, BOTH, 0, &options);
	must(hugemap_error(addr) == -EBUSY);
	must(strstr(hugemap_reason(), "locked"));
	addr = hugemap_map(file->fd, 0, 0, PROT_READ, 0, &options);
	if (!hugemap_error(addr))
		_exit(2);
	must(hugemap_error(addr) == -EBUSY);
}

/* Broken by: a map that does not look at the lock, or does not take one. */
static void test_the_file_is_locked(void **state)
{
	struct hugemap_pool *pool = pool_new(MB(16));
	struct hugemap_options options = { .size = sizeof(options), .pool = pool };
	struct flock lock = { .l_type = F_RDLCK, .l_whence = SEEK_SET };
	struct file file;
	char *addr;
	int other;

	file_pattern(&file, MB(5), SEED);
	addr = map_file(&file, pool, BOTH);
	assert_true(is_locked(&file, F_RDLCK));
	assert_int_equal(status_of_child(map_in_child, &file), 0);
	ok(hugemap_unmap(addr, MB(5)));
	assert_false(is_locked(&file, F_WRLCK));
	/* Who only reads shares it with others who do. */
	addr = map_file(&file, pool, PROT_READ);
	assert_false(is_locked(&file, F_RDLCK));
	assert_true(is_locked(&file, F_WRLCK));
	assert_int_equal(status_of_child(map_in_child, &file), 2);
	/* ... and has no right to change it. */
	assert_int_equal(hugemap_error(hugemap_map(file.fd, 0, 0, BOTH, 0, &options)), -EBUSY);
	assert_int_equal(hugemap_pwrite(file.fd, "x", 1, 0), -EBUSY);
	assert_int_equal(hugemap_truncate(file.fd, 0), -EBUSY);
	assert_int_equal(hugemap_punch(file.fd, 0, MB(2)), -EBUSY);
	assert_int_equal(pattern_differs(addr, SEED, 0, MB(5)), MB(5));
	ok(hugemap_unmap(addr, MB(5)));
	/* Somebody else's lock, be it of another program. */
	other = open(file.path, O_RDWR);
	assert_int_equal(fcntl(other, F_OFD_SETLK, &lock), 0);
	assert_int_equal(hugemap_error(hugemap_map(file.fd, 0, 0, BOTH, 0, &options)), -EBUSY);
	addr = map_file(&file, pool, PROT_READ);
	ok(hugemap_unmap(addr, MB(5)));
	close(other);
	addr = map_file(&file, pool, BOTH);
	ok(hugemap_unmap(addr, MB(5)));
	file_close(&file);
	pool_free(pool);
}

static void lock_in_child(void *arg)
{
	const struct file *file = arg;
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	must(!fcntl(file->fd, F_GETLK, &lock));
	_exit(lock.l_type == F_UNLCK ? 0 : 2);
}

/* A map that is refused leaves the program its own record lock. */
static void test_a_record_lock_stays(void **state)
{
	struct hugemap_pool *pool = pool_new(MB(16));
	struct hugemap_options options = { .size = sizeof(options), .pool = pool };
	static const short kinds[] = { F_WRLCK, F_RDLCK };
	struct file file;
	char *addr;
	size_t i;

	file_pattern(&file, MB(4), SEED);
	for (i = 0; i < 2; i++) {
		struct flock lock = { .l_type = kinds[i], .l_whence = SEEK_SET, .l_len = 1 };

		assert_int_equal(fcntl(file.fd, F_SETLK, &lock), 0);
		addr = hugemap_map(file.fd, 0, 0, BOTH, 0, &options);
		assert_int_equal(hugemap_error(addr), -EBUSY);
		addr = hugemap_map(file.fd, 0, 0, PROT_READ, 0, &options);
		assert_int_equal(hugemap_error(addr), -EBUSY);
		assert_int_equal(status_of_child(lock_in_child, &file), 2);
		lock.l_type = F_UNLCK;
		assert_int_equal(fcntl(file.fd, F_SETLK, &lock), 0);
	}
	addr = map_file(&file, pool, BOTH);
	ok(hugemap_unmap(addr, MB(4)));
	file_close(&file);
	pool_free(pool);
}

/* The last, partial block is the kernel's, and so is what the file grows by. */
static void test_the_tail_is_the_kernels(void **state)
{
	struct hugemap_pool *pool = pool_new(MB(16));
	struct file file;
	char *addr, byte;

	file_pattern(&file, BLOCK + 3 * PAGE + 5, SEED);
	addr = map_range(&file, 0, 4 * BLOCK, pool, BOTH);
	addr[BLOCK + PAGE] = 't';
	assert_int_equal(pread(file.fd, &byte, 1, BLOCK + PAGE), 1);
	assert_int_equal(byte, 't');
	addr[BLOCK - 1] = 'p'; /* the pool's: not to be seen before a sync */
	assert_int_equal(pread(file.fd, &byte, 1, BLOCK - 1), 1);
	assert_int_equal((unsigned char)byte, pattern_byte(SEED, BLOCK - 1));
	assert_int_equal(hugemap_pread(file.fd, &byte, 1, BLOCK - 1), 1);
	assert_int_equal(byte, 'p');
	ok(hugemap_truncate(file.fd, 3 * BLOCK));
	addr[2 * BLOCK + 7] = 'g';
	assert_int_equal(hugemap_pread(file.fd, &byte, 1, 2 * BLOCK + 7), 1);
	assert_int_equal(byte, 'g');
	ok(hugemap_prefetch(addr, 4 * BLOCK));
	ok(hugemap_sync(addr, 4 * BLOCK, MS_SYNC));
	assert_int_equal(pread(file.fd, &byte, 1, BLOCK - 1), 1);
	assert_int_equal(byte, 'p');
	/* Across the limit, by calls. */
	assert_int_equal(hugemap_pwrite(file.fd, "across", 6, BLOCK - 3), 6);
	assert_memory_equal(addr + BLOCK - 3, "across", 6);
	ok(hugemap_unmap(addr, 4 * BLOCK));
	/* Mapped anew, it is the pool's. */
	addr = map_file(&file, pool, BOTH);
	assert_memory_equal(addr + BLOCK - 3, "across", 6);
	assert_int_equal(addr[2 * BLOCK + 7], 'g');
	assert_true(stat_of(addr).huge_pages == 3);
	ok(hugemap_unmap(addr, 3 * BLOCK));
	file_close(&file);
	pool_free(pool);
}

static void store_and_die(void *arg)
{
	struct hugemap_options options = { .size = sizeof(options) };
	const struct file *file = arg;
	char *addr;

	must(!hugemap_pool_create(
		&(struct hugemap_pool_options){ .size = sizeof(struct hugemap_pool_options),
						.bytes = MB(8),
						.dirty_expire_ms = 3600000 },
		&options.pool));
	addr = hugemap_map(file->fd, 0, 0, BOTH, 0, &options);
	must(!hugemap_error(addr));
	addr[5] = 's';
	must(!hugemap_sync(addr, MB(4), MS_SYNC));
	addr[MB(2)] = 'n';
	kill(getpid(), SIGKILL);
}

/* What is synced survives the program; what is not is lost with it. */
static void test_a_program_that_is_killed(void **state)
{
	unsigned char *now;
	struct file file;
	size_t n;

	file_pattern(&file, MB(4), SEED);
	assert_int_equal(status_of_child(store_and_die, &file), 128 + SIGKILL);
	now = file_read(&file, &n);
	assert_int_equal(now[5], 's');
	assert_int_equal(now[MB(2)], pattern_byte(SEED, MB(2)));
	free(now);
	assert_false(is_locked(&file, F_WRLCK));
	file_close(&file);
}

static void use_in_child(void *arg)
{
	char **both = arg, *pooled = both[0], *plain = both[1];
	struct hugemap_options options = { .size = sizeof(options),
					   .pool = (struct hugemap_pool *)both[2] };

	must(plain[5] == 'p');
	must(hugemap_unmap(pooled, PAGE) == -EINVAL);
	must(hugemap_pool_destroy(options.pool) == -EINVAL);
	must(hugemap_error(hugemap_map(open("/proc/self/exe", O_RDONLY), 0, 0, PROT_READ, 0,
				       &options)) == -EINVAL);
#ifndef __SANITIZE_THREAD__ /* it does not follow threads of a child */
	pool_free(pool_new(MB(8)));
#endif
	must(*(volatile char *)pooled == 5); /* not reached */
}

static void use_without_streams(void *arg)
{
	struct file *file = arg;
	struct hugemap_options options = { .size = sizeof(options) };
	int fd;

	for (fd = 0; fd <= 2; fd++)
		close(fd);
	must(!hugemap_pool_create(
		&(struct hugemap_pool_options){ .size = sizeof(struct hugemap_pool_options),
						.bytes = MB(8) },
		&options.pool));
	must(!hugemap_error(hugemap_map(file->fd, 0, 0, BOTH, 0, &options)));
	for (fd = 0; fd <= 2; fd++)
		must(fcntl(fd, F_GETFD) < 0);
}

/* Broken by: descriptors as they come. What the program writes to stderr is in its file. */
static void test_no_descriptor_is_a_standard_stream(void **state)
{
	struct file file;

	file_pattern(&file, MB(4), SEED);
	assert_int_equal(status_of_child(use_without_streams, &file), 0);
	file_close(&file);
}

/* A child has nothing there, and what it can do wrong does no harm to its parent. */
static void test_children_do_not_have_it(void **state)
{
	struct hugemap_pool *pool = pool_new(MB(16));
	struct file file, other;
	char *both[3];

	both[2] = (char *)pool;
	file_pattern(&file, MB(6), SEED);
	file_pattern(&other, MB(6), SEED);
	both[0] = map_file(&file, pool, BOTH);
	both[1] = hugemap_map(other.fd, 0, 0, BOTH, 0, NULL);
	memset(both[0], 'p', MB(5));
	both[1][5] = 'p';
	assert_int_equal(status_of_child(use_in_child, both), 128 + SIGSEGV);
	both[0][MB(5)] = 'q';
	assert_int_equal(both[0][MB(5) - 1], 'p');
	ok(hugemap_sync(both[0], MB(6), MS_SYNC));
	ok(hugemap_unmap(both[0], MB(6)));
	ok(hugemap_unmap(both[1], MB(6)));
	file_close(&file);
	file_close(&other);
	pool_free(pool);
}

/* --- calls ------------------------------------------------------------------------- */

static char *map_with(const struct file *file, struct hugemap_pool *pool)
{
	return map_file(file, pool, BOTH);
}

/* Is an address in a mapping of a pool? */
static bool is_ours(const void *addr)
{
	struct hugemap_map_stat stat = { .size = sizeof(stat) };

	return !hugemap_map_stat(addr, &stat);
}

static void test_a_flush_shows_stores_to_others(void **state)
{
	struct hugemap_pool *pool = pool_new(MB(16));
	struct file file;
	char *addr, byte;

	file_pattern(&file, 3 * BLOCK, SEED);
	addr = map_with(&file, pool);
	addr[100] = 'a';
	addr[2 * BLOCK + 1] = 'b';
	ok(hugemap_flush(file.fd, 100, 1));
	assert_int_equal(pread(file.fd, &byte, 1, 100), 1);
	assert_int_equal(byte, 'a');
	ok(hugemap_flush(file.fd, 0, 0));
	assert_int_equal(pread(file.fd, &byte, 1, 2 * BLOCK + 1), 1);
	assert_int_equal(byte, 'b');
	assert_int_equal(hugemap_flush(file.fd, -1, 0), -EINVAL);
	ok(hugemap_unmap(addr, 3 * BLOCK));
	pool_free(pool);
	file_close(&file);
}

static void test_a_mapping_grows_and_shrinks(void **state)
{
	struct hugemap_pool *pool = pool_new(MB(16));
	char *addr, *longer;
	struct file file;
	size_t size;

	file_pattern(&file, 4 * BLOCK, SEED);
	addr = map_with(&file, pool);
	ok(hugemap_unmap(addr + BLOCK, 3 * BLOCK));
	addr[9] = 'x';
	assert_int_equal(hugemap_error(hugemap_remap(addr + PAGE, PAGE, BLOCK)), -EINVAL);
	assert_int_equal(hugemap_error(hugemap_remap(addr, BLOCK, 0)), -EINVAL);
	longer = hugemap_remap(addr, BLOCK, 4 * BLOCK);
	ok(hugemap_error(longer));
	assert_int_equal(longer[9], 'x');
	assert_int_equal((unsigned char)longer[3 * BLOCK + 3], pattern_byte(SEED, 3 * BLOCK + 3));
	assert_false(is_ours(addr));
	longer[3 * BLOCK] = 'y';
	assert_int_equal(hugemap_error(hugemap_remap(longer, 4 * BLOCK, 3 * PAGE)), -EINVAL);
	assert_int_equal(longer[3 * BLOCK], 'y');
	assert_int_equal(hugemap_error(hugemap_remap(longer + BLOCK, BLOCK, BLOCK)), -EINVAL);
	assert_int_equal(hugemap_error(hugemap_remap(longer, 3 * BLOCK, 2 * BLOCK)), -EINVAL);
	assert_int_equal(hugemap_sync(longer, BLOCK, 0), -EINVAL);
	assert_int_equal(hugemap_flush(-1, 0, 0), -EBADF);
	assert_int_equal(longer[3 * BLOCK], 'y');
	assert_ptr_equal(hugemap_remap(longer, 4 * BLOCK, BLOCK), longer);
	assert_false(is_ours(longer + BLOCK));
	assert_int_equal(longer[9], 'x');
	ok(hugemap_unmap(longer, BLOCK));
	longer = (char *)file_read(&file, &size);
	assert_int_equal(longer[9], 'x');
	assert_int_equal(longer[3 * BLOCK], 'y');
	free(longer);
	pool_free(pool);
	file_close(&file);
}

/* Broken by: asking the kernel by the caller's descriptor. */
static void test_descriptors_that_append_or_are_direct(void **state)
{
	struct hugemap_pool *pool = pool_new(MB(16));
	struct file file;
	int append, direct, path;
	char *addr, bytes[10];

	file_pattern(&file, 2 * BLOCK, SEED);
	append = open(file.path, O_WRONLY | O_APPEND);
	direct = open(file.path, O_RDWR | O_DIRECT);
	assert_true(append >= 0 && direct >= 0);
	addr = map_with(&file, pool);
	assert_int_equal(hugemap_pwrite(append, "here", 4, 77), 4);
	assert_int_equal(file_length(&file), 2 * BLOCK);
	assert_memory_equal(addr + 77, "here", 4);
	assert_int_equal(hugemap_pread(direct, bytes, 3, BLOCK + 5), 3);
	assert_int_equal((unsigned char)bytes[0], pattern_byte(SEED, BLOCK + 5));
	assert_int_equal(hugemap_pwrite(direct, "odd", 3, BLOCK + 9), 3);
	assert_memory_equal(addr + BLOCK + 9, "odd", 3);
	assert_int_equal(hugemap_pread(append, bytes, 3, 0), -EBADF);
	path = open(file.path, O_PATH);
	assert_true(path >= 0);
	assert_int_equal(hugemap_pread(path, bytes, 3, 0), -EBADF);
	assert_int_equal(hugemap_pwrite(path, bytes, 3, 0), -EBADF);
	close(path);
	ok(hugemap_unmap(addr, 2 * BLOCK));
	close(append);
	close(direct);
	pool_free(pool);
	file_close(&file);
}

static void test_a_mapping_counts_its_own_faults(void **state)
{
	struct hugemap_map_stat stat = { .size = sizeof(stat) }, other = stat, wrong = {};
	struct hugemap_pool *pool = pool_new(MB(32));
	struct file file, second;
	char *addr, *untouched;

	file_pattern(&file, 4 * BLOCK, SEED);
	file_pattern(&second, BLOCK, SEED);
	addr = map_with(&file, pool);
	untouched = map_with(&second, pool);
	*(volatile char *)addr;
	addr[0] = 1;
	/* The last fault is counted after its thread is woken. */
	eventually(!hugemap_map_stat(addr, &stat) && stat.faults >= 2);
	assert_int_equal(stat.bytes, 4 * BLOCK);
	assert_true(stat.hits >= 1 && stat.hits < stat.faults);
	assert_true(stat.wait_ns > 0);
	ok(hugemap_map_stat(untouched, &other));
	assert_int_equal(other.faults, 0);
	assert_int_equal(hugemap_map_stat(addr, &wrong), -EINVAL);
	assert_int_equal(hugemap_map_stat(&stat, &stat), -EINVAL);
	ok(hugemap_unmap(addr, 4 * BLOCK));
	ok(hugemap_unmap(untouched, BLOCK));
	pool_free(pool);
	file_close(&file);
	file_close(&second);
}

/* --- block devices --------------------------------------------------------------- */

/* A loop device over a file, or -1. */
static int loop_open(const struct file *file, char *path, size_t path_bytes)
{
	int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC), device, number;
	unsigned int tries;

	for (tries = 0; control >= 0 && tries < 10; tries++) {
		number = ioctl(control, LOOP_CTL_GET_FREE);
		if (number < 0)
			break;
		snprintf(path, path_bytes, "/dev/loop%d", number);
		device = open(path, O_RDWR | O_CLOEXEC);
		if (device < 0)
			break;
		if (!ioctl(device, LOOP_SET_FD, file->fd)) {
			struct loop_info64 info = { .lo_flags = LO_FLAGS_AUTOCLEAR };

			/* It goes when nobody uses it any more, tests that fail included. */
			ioctl(device, LOOP_SET_STATUS64, &info);
			close(control);
			return device;
		}
		close(device);
	}
	if (control >= 0)
		close(control);
	return -1;
}

static void test_block_devices(void **state)
{
	/* Not a multiple of 4096: the device's last sector is half a page. */
	size_t size = MB(9) + 4096 + 512, p, n;

	for (p = 0; p < 2; p++) {
		struct hugemap_pool *pool = pool_new(MB(8));
		struct hugemap_options options = {
			.size = sizeof(options),
			.pool = pool,
		};
		unsigned char *now;
		struct file file;
		char path[32], *addr;
		int device;

		file_pattern(&file, size, SEED);
		device = loop_open(&file, path, sizeof(path));
		if (device < 0) {
			file_close(&file);
			pool_free(pool);
			print_message("skipped: loop devices are not allowed here\n");
			skip();
		}
		addr = hugemap_map(device, 0, MB(12), PROT_READ | PROT_WRITE, 0, &options);
		ok(hugemap_error(addr));
		assert_int_equal(pattern_differs(addr, SEED, 0, size), size);
		/* past the end of the device, in its last page: zeros */
		assert_int_equal(addr[size], 0);
		assert_int_equal(signal_of_read(addr + MB(10), NULL), SIGBUS);
		pattern_fill(addr, SEED + 1, 0, size);
		addr[size + 1] = 'z'; /* goes nowhere */
		ok(hugemap_sync(addr, size, MS_SYNC));
		ok(hugemap_unmap(addr, MB(12)));
		close(device);
		now = file_read(&file, &n);
		assert_int_equal(n, size);
		assert_int_equal(pattern_differs(now, SEED + 1, 0, n), n);
		free(now);
		file_close(&file);
		pool_free(pool);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_userfaultfd_not_allowed),
		cmocka_unit_test(test_a_kernel_without_move),
		cmocka_unit_test(test_io_uring_not_allowed),
		cmocka_unit_test(test_with_a_pool_or_without),
		cmocka_unit_test(test_a_pool_where_a_plain_mapping_was),
		cmocka_unit_test(test_the_file_is_locked),
		cmocka_unit_test(test_a_record_lock_stays),
		cmocka_unit_test(test_the_tail_is_the_kernels),
		cmocka_unit_test(test_a_program_that_is_killed),
		cmocka_unit_test(test_children_do_not_have_it),
		cmocka_unit_test(test_no_descriptor_is_a_standard_stream),
		cmocka_unit_test(test_a_flush_shows_stores_to_others),
		cmocka_unit_test(test_a_mapping_grows_and_shrinks),
		cmocka_unit_test(test_descriptors_that_append_or_are_direct),
		cmocka_unit_test(test_a_mapping_counts_its_own_faults),
		cmocka_unit_test(test_block_devices),
	};

	return RUN(tests);
}
