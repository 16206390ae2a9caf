// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Machines that do not allow everything: without userfaultfd, UFFDIO_MOVE or
 * io_uring the mapping works all the same, and says how. And what is mapped
 * need not be a file: block devices.
 *
 * What a machine does not allow is played by a seccomp filter, in a child.
 */
#include "common.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/loop.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "uffd.h"

#define SEED 13

/* --- a child with less rights ------------------------------------------------ */

static void check(bool good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "in the child: not true: %s (%s)\n", what, hugemap_reason());
	_exit(1);
}

#define must(cond) check((cond), #cond)

static void in_child(void (*work)(const struct file *file), const struct file *file)
{
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		work(file);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* From now on a system call (with this second argument, if not 0) fails. */
static void forbid(unsigned int nr, unsigned int arg1, int err)
{
	const unsigned int arg1_at = offsetof(struct seccomp_data, args[1]);
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, arg1_at),
		BPF_JUMP(BPF_JMP | (arg1 ? BPF_JEQ : BPF_JGE) | BPF_K, arg1, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned int)err),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(code) / sizeof(code[0]), code };

	must(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	must(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
}

/* The mapping is the kernel's, says why, and does all that it should. */
static void use_kernel_mapping(const struct file *file, const char *reason)
{
	struct hugemap_options options = { .size = sizeof(options) };
	struct hugemap_stat stat = { .size = sizeof(stat) };
	size_t size = file_length(file);
	char *addr = hugemap_map(file->fd, 0, 0, PROT_READ | PROT_WRITE, 0, NULL);
	char byte;

	must(!hugemap_error(addr));
	must(strstr(hugemap_reason(), reason));
	must(!hugemap_stat(addr, &stat));
	must(stat.engine == HUGEMAP_ENGINE_MMAP);
	must(strstr(stat.reason, reason));
	must(stat.mapped_bytes >= size);
	must(pattern_differs(addr, SEED, 0, size) == size);
	addr[MB(3)] = 'k';
	must(!hugemap_sync(addr, size, MS_SYNC));
	must(!hugemap_sync(addr, size, MS_ASYNC));
	must(!hugemap_advise(addr, size, HUGEMAP_ADVICE_SEQUENTIAL));
	must(!hugemap_advise(addr, size, HUGEMAP_ADVICE_PRIORITY_HIGH));
	must(!hugemap_prefetch(addr, size));
	must(hugemap_pread(file->fd, &byte, 1, MB(3)) == 1 && byte == 'k');
	must(hugemap_pwrite(file->fd, "w", 1, MB(3)) == 1 && addr[MB(3)] == 'w');
	must(!hugemap_unmap(addr + BLOCK, BLOCK));
	must(signal_of_read(addr + BLOCK, NULL) == SIGSEGV);
	must(!hugemap_unmap(addr, size));
	must(pwrite(file->fd, &(char){ (char)pattern_byte(SEED, MB(3)) }, 1, MB(3)) == 1);
	/* Who orders the engine is told that it cannot be had. */
	options.engine = HUGEMAP_ENGINE_USER;
	addr = hugemap_map(file->fd, 0, 0, PROT_READ, 0, &options);
	must(hugemap_error(addr));
	must(strstr(hugemap_reason(), reason));
}

static void nobody(const struct file *file)
{
	must(!setgid(65534) && !setuid(65534));
	forbid(SYS_userfaultfd, 0, EPERM); /* a sysctl may allow it to all */
	use_kernel_mapping(file, "userfaultfd");
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
	in_child(nobody, &file);
	file_close(&file);
}

/* --- only faults from user mode ---------------------------------------------- */

/* Become a user who may have a descriptor for faults from user mode only. */
static void become_nobody(void)
{
	must(!setgid(65534) && !setuid(65534));
	must(!prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)); /* or /proc/self is not our own */
}

static void user_mode_forbidden(const struct file *file)
{
	struct hugemap_pool_options pool_options = { .size = sizeof(pool_options) };
	struct hugemap_pool *pool;

	become_nobody();
	must(hugemap_pool_create(&pool_options, &pool) == -EPERM);
	must(strstr(hugemap_reason(), "only faults from user mode"));
	use_kernel_mapping(file, "only faults from user mode");
}

/* All that needs no system call on the mapping; and what prepares one. */
static void user_mode_allowed(const struct file *file)
{
	struct hugemap_pool_options pool_options = {
		.size = sizeof(pool_options),
		.bytes = MB(8),
		.user_mode = true,
	};
	struct hugemap_options options = {
		.size = sizeof(options),
		.engine = HUGEMAP_ENGINE_USER,
	};
	size_t size = file_length(file), p;
	int copy = open("/var/tmp", O_TMPFILE | O_RDWR, 0600);
	char *addr, *bytes = malloc(size);

	become_nobody();
	must(copy >= 0 && bytes);
	must(!hugemap_pool_create(&pool_options, &options.pool));
	for (p = 0; p < 2; p++) {
		options.page = (enum hugemap_page)p;
		addr = hugemap_map(file->fd, 0, 0, PROT_READ | PROT_WRITE, 0, &options);
		must(!hugemap_error(addr));
		/* Nothing has touched it. */
		must(pwrite(copy, addr + MB(3), 4096, 0) == -1 && errno == EFAULT);
		must(!hugemap_prefetch(addr + MB(3), MB(1)));
		must(pwrite(copy, addr + MB(3), MB(1), 0) == (ssize_t)MB(1));
		must(pread(copy, bytes, MB(1), 0) == (ssize_t)MB(1));
		must(pattern_differs(bytes, SEED, MB(3), MB(1)) == MB(1));
		/* More than the pool holds, written back on the way. */
		must(pattern_differs(addr, SEED, 0, size) == size);
		pattern_fill(addr, SEED + 1, 0, size);
		must(!hugemap_sync(addr, size, MS_SYNC));
		must(pread(file->fd, bytes, size, 0) == (ssize_t)size);
		must(pattern_differs(bytes, SEED + 1, 0, size) == size);
		must(!hugemap_prefetch(addr, size));
		must(signal_of_read(addr + ((size + 4095) & ~4095ul), NULL) == SIGBUS);
		must(!hugemap_prefetch(addr, MB(1)));
		must(hugemap_pwrite(file->fd, "w", 1, MB(5)) == 1 && addr[MB(5)] == 'w');
		pattern_fill(addr, SEED, 0, size);
		must(!hugemap_unmap(addr, size));
		must(pread(file->fd, bytes, size, 0) == (ssize_t)size);
		must(pattern_differs(bytes, SEED, 0, size) == size);
	}
	must(!hugemap_pool_destroy(options.pool));
}

static bool only_user_mode(void)
{
	struct uffd_caps caps;
	int fd;

	if (setgid(65534) || setuid(65534))
		return false;
	fd = uffd_open(&caps, true);
	return fd >= 0 && caps.user_mode_only;
}

static void test_faults_from_user_mode_only(void **state)
{
	struct file file;
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid)
		_exit(only_user_mode() ? 0 : 77);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WEXITSTATUS(status) == 77) {
		print_message("skipped: another user may handle all faults here, or none\n");
		skip();
	}
	file_pattern(&file, MB(19) + 9, SEED);
	if (!getuid())
		assert_int_equal(fchown(file.fd, 65534, 65534), 0);
	in_child(user_mode_forbidden, &file);
	in_child(user_mode_allowed, &file);
	file_close(&file);
}

static void without_move(const struct file *file)
{
	forbid(SYS_ioctl, (unsigned int)UFFDIO_API, EINVAL);
	use_kernel_mapping(file, "UFFDIO_MOVE");
}

static void test_a_kernel_without_move(void **state)
{
	struct file file;

	file_pattern(&file, MB(7) + 9, SEED);
	in_child(without_move, &file);
	file_close(&file);
}

static void use_engine(const struct file *file, enum hugemap_io io, int expected)
{
	struct hugemap_pool_options pool_options = {
		.size = sizeof(pool_options),
		.bytes = MB(16),
		.io = io,
	};
	struct hugemap_options options = {
		.size = sizeof(options),
		.engine = HUGEMAP_ENGINE_USER,
	};
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

static void without_uring(const struct file *file)
{
	forbid(SYS_io_uring_setup, 0, EPERM);
	use_engine(file, HUGEMAP_IO_AUTO, 0);
	use_engine(file, HUGEMAP_IO_THREADS, 0);
	use_engine(file, HUGEMAP_IO_URING, -EPERM);
	must(strlen(hugemap_reason()) > 10);
}

static void test_io_uring_not_allowed(void **state)
{
	struct file file;

	file_pattern(&file, MB(20) + 9, SEED);
	in_child(without_uring, &file);
	file_close(&file);
}

/* --- the kernel's mapping, asked for ------------------------------------------- */

static void test_ordered_engines(void **state)
{
	struct hugemap_options options = {
		.size = sizeof(options),
		.engine = HUGEMAP_ENGINE_MMAP,
	};
	struct file file;
	char *addr;

	file_pattern(&file, MB(5), SEED);
	addr = hugemap_map(file.fd, 0, 0, PROT_READ | PROT_WRITE, 0, &options);
	ok(hugemap_error(addr));
	assert_int_equal(stat_of(addr).engine, HUGEMAP_ENGINE_MMAP);
	assert_int_equal(((uintptr_t)addr) % BLOCK, 0);
	ok(hugemap_unmap(addr, MB(5)));

	/* Copy on write is the kernel's: stores stay here. */
	options.engine = HUGEMAP_ENGINE_AUTO;
	addr = hugemap_map(file.fd, MB(1), 0, PROT_READ | PROT_WRITE, HUGEMAP_PRIVATE, &options);
	ok(hugemap_error(addr));
	assert_int_equal(stat_of(addr).engine, HUGEMAP_ENGINE_MMAP);
	assert_non_null(strstr(stat_of(addr).reason, "private"));
	addr[5] = 'x';
	ok(hugemap_sync(addr, MB(4), MS_SYNC));
	ok(hugemap_unmap(addr, MB(4)));
	addr = hugemap_map(file.fd, 0, 0, PROT_READ, 0, &options);
	ok(hugemap_error(addr));
	assert_int_equal(pattern_differs(addr, SEED, 0, MB(5)), MB(5));
	ok(hugemap_unmap(addr, MB(5)));
	file_close(&file);
}

/* A private copy begins with what is stored by then, written or not. */
static void test_a_private_copy_of_a_mapped_file(void **state)
{
	struct hugemap_pool *pool = pool_new(MB(16));
	struct file file;
	char *addr, *copy;

	file_pattern(&file, MB(5) + 100, SEED);
	addr = map_file(&file, pool, HUGEMAP_PAGE_2M, PROT_READ | PROT_WRITE);
	pattern_fill(addr, SEED + 1, 0, MB(5) + 100);
	copy = hugemap_map(file.fd, 0, 0, PROT_READ | PROT_WRITE, HUGEMAP_PRIVATE, NULL);
	ok(hugemap_error(copy));
	assert_int_equal(pattern_differs(copy, SEED + 1, 0, MB(5) + 100), MB(5) + 100);
	assert_int_equal(stat_of(addr).engine, HUGEMAP_ENGINE_USER);
	copy[MB(3)] = 'c';
	addr[MB(3)] = 'a';
	assert_int_equal(copy[MB(3)], 'c');
	assert_int_equal(addr[MB(3)], 'a');
	ok(hugemap_unmap(copy, MB(5) + 100));
	ok(hugemap_unmap(addr, MB(5) + 100));
	file_close(&file);
	pool_free(pool);
}

/* Two engines in one process would each cache the file. */
static void test_one_engine_for_a_file(void **state)
{
	struct hugemap_pool *pool = pool_new(MB(16));
	struct hugemap_options kernel = { .size = sizeof(kernel), .engine = HUGEMAP_ENGINE_MMAP };
	struct hugemap_options user = { .size = sizeof(user), .pool = pool };
	struct file file;
	char *a, *b, *c;

	file_pattern(&file, MB(5), SEED);
	a = map_file(&file, pool, HUGEMAP_PAGE_2M, PROT_READ | PROT_WRITE);
	a[MB(1)] = 'a';
	/* The kernel's, by order: what the engine had becomes the kernel's, too. */
	b = hugemap_map(file.fd, 0, 0, PROT_READ, 0, &kernel);
	ok(hugemap_error(b));
	assert_int_equal(b[MB(1)], 'a');
	a[MB(2)] = 'A';
	assert_int_equal(b[MB(2)], 'A');
	assert_int_equal(stat_of(a).engine, HUGEMAP_ENGINE_MMAP);
	/* ... and so does what comes later. */
	c = hugemap_map(file.fd, 0, 0, PROT_READ | PROT_WRITE, 0, &user);
	ok(hugemap_error(c));
	assert_non_null(strstr(hugemap_reason(), "the kernel serves another mapping"));
	assert_int_equal(stat_of(c).engine, HUGEMAP_ENGINE_MMAP);
	c[MB(3)] = 'C';
	assert_int_equal(b[MB(3)], 'C');
	user.engine = HUGEMAP_ENGINE_USER;
	assert_int_equal(hugemap_error(hugemap_map(file.fd, 0, 0, PROT_READ, 0, &user)), -ETXTBSY);
	ok(hugemap_unmap(a, MB(5)));
	ok(hugemap_unmap(c, MB(5)));
	/* The kernel's reads only now: others may read through the engine, not write. */
	a = hugemap_map(file.fd, 0, 0, PROT_READ, 0, &user);
	ok(hugemap_error(a));
	assert_int_equal(a[MB(3)], 'C');
	assert_int_equal(
		hugemap_error(hugemap_map(file.fd, 0, 0, PROT_READ | PROT_WRITE, 0, &user)),
		-ETXTBSY);
	ok(hugemap_unmap(b, MB(5)));
	b = hugemap_map(file.fd, 0, 0, PROT_READ | PROT_WRITE, 0, &user);
	ok(hugemap_error(b));
	ok(hugemap_unmap(b, MB(5)));
	ok(hugemap_unmap(a, MB(5)));
	file_close(&file);
	pool_free(pool);
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
			.page = (enum hugemap_page)p,
			.engine = HUGEMAP_ENGINE_USER,
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
		cmocka_unit_test(test_faults_from_user_mode_only),
		cmocka_unit_test(test_a_kernel_without_move),
		cmocka_unit_test(test_io_uring_not_allowed),
		cmocka_unit_test(test_ordered_engines),
		cmocka_unit_test(test_a_private_copy_of_a_mapped_file),
		cmocka_unit_test(test_one_engine_for_a_file),
		cmocka_unit_test(test_block_devices),
	};

	return RUN(tests);
}
