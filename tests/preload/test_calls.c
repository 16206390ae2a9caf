// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Each call that the library replaces returns the result of Linux and the same errno. */
#include "common.h"

#include "page.h"

#include <dlfcn.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#define KEPT 77

/* The call succeeds and does not change errno. */
#define KEEPS(call)                              \
	do {                                     \
		errno = KEPT;                    \
		assert_true((long)(call) != -1); \
		assert_int_equal(errno, KEPT);   \
	} while (0)

#define FAILS(call, error)                       \
	do {                                     \
		errno = KEPT;                    \
		assert_true((long)(call) == -1); \
		assert_int_equal(errno, error);  \
	} while (0)

static void keeps_errno(struct file file)
{
	char bytes[64] = {}, *p, *q;
	int fd;

	KEEPS(fd = open(file.path, O_RDONLY | O_CLOEXEC));
	KEEPS(p = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, fd, 0));
	KEEPS(madvise(p, SIZE, MADV_WILLNEED));
	KEEPS(madvise(p, SIZE, MADV_RANDOM));
	KEEPS(madvise(p, SIZE, MADV_NORMAL));
	KEEPS(pread(fd, bytes, sizeof(bytes), 0));
	KEEPS(*(volatile char *)p & 0);
	KEEPS(munmap(p, SIZE));
	KEEPS(close(fd));
	KEEPS(p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, file.fd, 0));
	KEEPS(*p = 1);
	KEEPS(pwrite(file.fd, bytes, sizeof(bytes), 4096));
	KEEPS(msync(p, SIZE, MS_SYNC));
	KEEPS(fsync(file.fd));
	KEEPS(q = mmap(NULL, SIZE, PROT_READ, MAP_PRIVATE, file.fd, 0));
	KEEPS(munmap(q, SIZE));
	KEEPS(p = mremap(p, SIZE, 4 * MB, 0));
	KEEPS(p = mremap(p, 4 * MB, SIZE, MREMAP_MAYMOVE));
	KEEPS(mmap64(p, MB, PROT_READ, MAP_SHARED | MAP_FIXED, file.fd, 0));
	KEEPS(mprotect(p, PAGE, PROT_READ));
	KEEPS(munmap(p, SIZE));
	KEEPS(ftruncate(file.fd, SIZE));
	KEEPS(unshare(0));
	KEEPS(prctl(PR_GET_DUMPABLE));
	KEEPS(syscall(SYS_getpid));
	KEEPS(p = (char *)syscall(SYS_mmap, NULL, PAGE, PROT_READ, MAP_SHARED, file.fd, MB));
	assert_int_equal((unsigned char)*p, byte_of(MB));
	KEEPS(p = (char *)syscall(SYS_mremap, p, PAGE, 2 * PAGE, MREMAP_MAYMOVE, NULL));
	KEEPS(syscall(SYS_madvise, p, PAGE, MADV_RANDOM));
	KEEPS(syscall(SYS_munmap, p, 2 * PAGE));
}

static void success_keeps_errno(void **state)
{
	struct file file;
	pid_t pid;

	file_new(&file, SIZE);
	keeps_errno(file);
	/* Another process has the file open for writing. */
	fflush(NULL);
	pid = fork();
	if (!pid) {
		alarm(30);
		pause();
		_exit(0);
	}
	keeps_errno(file);
	kill(pid, SIGKILL);
	end_of(pid);
	file_end(&file);
}

static void failure_returns_the_errno_of_linux(void **state)
{
	struct file file;
	char *p;

	file_new(&file, SIZE);
	p = map_shared(&file, PROT_READ);
	FAILS(syscall(SYS_munmap, 1, 1), EINVAL);
	FAILS(syscall(SYS_close, -1), EBADF);
	FAILS(syscall(-1), ENOSYS);
	FAILS(syscall(SYS_seccomp, 99, 0, NULL), EINVAL);
	FAILS(mmap(NULL, SIZE, PROT_READ, MAP_SHARED, -1, 0), EBADF);
	FAILS(mmap(NULL, SIZE, PROT_READ, MAP_SHARED, file.fd, 5), EINVAL);
	FAILS(mmap(NULL, 0, PROT_READ, MAP_SHARED, file.fd, 0), EINVAL);
	FAILS(munmap(p + 1, SIZE), EINVAL);
	FAILS(munmap(p, 0), EINVAL);
	FAILS(mremap(p + 1, SIZE, SIZE, 0), EINVAL);
	FAILS(mremap(p, SIZE, 1ul << 46, 0), ENOMEM);
	FAILS(madvise(p, SIZE, 4711), EINVAL);
	FAILS(madvise(p + 1, SIZE, MADV_RANDOM), EINVAL);
	FAILS(unshare(0x10), EINVAL);
	FAILS(setns(-1, 0), EBADF);
	FAILS(prctl(4711, 0, 0, 0, 0), EINVAL);
	FAILS(prctl(PR_SET_NAME, 1), EFAULT);
	munmap(p, SIZE);
	FAILS(madvise(p, SIZE, MADV_RANDOM), ENOMEM);
	file_end(&file);
}

static void posix_madvise_returns_its_error(void **state)
{
	struct file file;
	char *p;

	file_new(&file, SIZE);
	p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE, file.fd, 0);
	assert_true(p != MAP_FAILED);
	p[5000] = 'x';
	errno = KEPT;
	assert_int_equal(posix_madvise(p, SIZE, POSIX_MADV_RANDOM), 0);
	assert_int_equal(posix_madvise(p, SIZE, 4711), EINVAL);
	assert_int_equal(posix_madvise(p + 1, SIZE, POSIX_MADV_NORMAL), EINVAL);
	/* MADV_DONTNEED would discard the store. */
	assert_int_equal(posix_madvise(p, SIZE, POSIX_MADV_DONTNEED), 0);
	assert_int_equal(errno, KEPT);
	assert_int_equal(p[5000], 'x');
	munmap(p, SIZE);
	file_end(&file);
}

static void mapping_over_a_mapping_replaces_it(void **state)
{
	struct file file;
	char *p, *a;

	file_new(&file, SIZE);
	p = map_shared(&file, PROT_READ | PROT_WRITE);
	assert_true(wait_for_watchers(1));
	a = mmap(p + 2 * MB, 2 * MB, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	assert_ptr_equal(a, p + 2 * MB);
	assert_int_equal(a[0], 0);
	a[0] = 'a';
	assert_int_equal((unsigned char)p[2 * MB - 1], byte_of(2 * MB - 1));
	a = mmap(p + 4 * MB, 2 * MB, PROT_READ, MAP_SHARED | MAP_FIXED, file.fd, MB);
	assert_ptr_equal(a, p + 4 * MB);
	assert_int_equal((unsigned char)a[7], byte_of(MB + 7));
	FAILS(mmap(p + 6 * MB, MB, PROT_READ, MAP_SHARED | MAP_FIXED_NOREPLACE, file.fd, 0),
	      EEXIST);
	munmap(p, SIZE);
	p = map_shared(&file, PROT_READ);
	assert_int_equal((unsigned char)p[2 * MB], byte_of(2 * MB));
	munmap(p, SIZE);
	file_end(&file);
}

static void moved_mapping_keeps_its_bytes(void **state)
{
	struct file file;
	char *p, *q, *to;

	file_new(&file, SIZE);
	p = map_shared(&file, PROT_READ | PROT_WRITE);
	to = mmap(NULL, 16 * MB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	p[MB] = 'm';
	q = mremap(p, SIZE, SIZE, MREMAP_MAYMOVE | MREMAP_FIXED, to);
	assert_ptr_equal(q, to);
	assert_int_equal(q[MB], 'm');
	assert_int_equal((unsigned char)q[SIZE - 1], byte_of(SIZE - 1));
	q = mremap(q, SIZE, 3 * MB, 0);
	assert_ptr_equal(q, to);
	q = mremap(q, 3 * MB, SIZE, MREMAP_MAYMOVE);
	assert_true(q != MAP_FAILED);
	assert_int_equal((unsigned char)q[SIZE - 1], byte_of(SIZE - 1));
	munmap(q, SIZE);
	munmap(to, 16 * MB);
	file_end(&file);
}

/* The number of VMAs of a mapping. */
static int areas_of(const char *at, size_t length)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned long start, end;
	char line[512];
	int n = 0;

	assert_non_null(maps);
	while (fgets(line, sizeof(line), maps))
		if (sscanf(line, "%lx-%lx", &start, &end) == 2)
			n += start < (unsigned long)(at + length) && end > (unsigned long)at;
	fclose(maps);
	return n;
}

/* The monitor thread advises the range ahead of a stream, which splits the mapping. */
static void mapping_with_advice_of_the_monitor_can_move(void **state)
{
	const size_t length = 64 * MB;
	struct file file;
	char *p, *q;
	size_t i, n;

	file_new(&file, length);
	p = mmap(NULL, length, PROT_READ, MAP_SHARED, file.fd, 0);
	assert_true(p != MAP_FAILED);
	for (n = 0; n < 2000 && areas_of(p, length) < 2; n++) {
		if (n % 20 == 0)
			madvise(p, length, MADV_DONTNEED);
		for (i = n % 20 * (MB / 8); i < (n % 20 + 1) * (MB / 8); i += PAGE)
			assert_int_equal((unsigned char)p[i], byte_of(i));
		usleep(1000);
	}
	assert_true(areas_of(p, length) >= 2);
	q = mremap(p, length, 2 * length, MREMAP_MAYMOVE);
	assert_true(q != MAP_FAILED);
	assert_int_equal((unsigned char)q[length - 1], byte_of(length - 1));
	munmap(q, 2 * length);
	FAILS(mremap(q, 0, 0, 0), EINVAL);
	FAILS(mremap(q, SIZE, MB, 0), EFAULT);
	file_end(&file);
}

/* If the program has split the mapping by its own advice, mremap() fails as in Linux. */
static void mapping_with_advice_of_the_program_cannot_move(void **state)
{
	char *p = mmap(NULL, SIZE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(p != MAP_FAILED);
	assert_int_equal(madvise(p, SIZE / 2, MADV_HUGEPAGE), 0);
	FAILS(mremap(p, SIZE, 2 * SIZE, MREMAP_MAYMOVE), EFAULT);
	assert_int_equal(areas_of(p, SIZE), 2);
	munmap(p, SIZE);
}

static bool is_hinted(const char *at)
{
	const struct steer_page *(*run_page)(void);
	const struct steer_page *page;
	size_t i;

	*(void **)&run_page = dlsym(RTLD_DEFAULT, "hugemap_run_page");
	page = run_page ? run_page() : NULL;
	for (i = 0; page && i < STEER_PAGE_MAPS; i++)
		if (page->maps[i].id && !page->maps[i].ended &&
		    page->maps[i].start == (uintptr_t)at)
			return page->maps[i].pattern == STEER_HINTED;
	return false;
}

/* The kernel advises both parts of a range with a hole, and reports an error. */
static void hint_for_a_range_with_a_hole_counts(void **state)
{
	struct file file;
	size_t n;
	char *p;

	file_new(&file, SIZE);
	p = map_shared(&file, PROT_READ);
	munmap(p + 6 * MB, PAGE);
	FAILS(madvise(p, SIZE, MADV_RANDOM), ENOMEM);
	for (n = 0; n < 10000 && !is_hinted(p); n++)
		usleep(1000);
	assert_true(is_hinted(p));
	munmap(p, SIZE);
	file_end(&file);
}

static long switches(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_nvcsw;
}

static long faults(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_minflt + usage.ru_majflt;
}

/*
 * write() to a mapped file neither waits for another thread nor unmaps pages.
 */
static void small_writes_do_not_wait(void **state)
{
	const size_t pages = SIZE / PAGE;
	long before, before_faults;
	uint64_t value = 42, seen;
	struct file file;
	size_t i;
	char *p;

	file_new(&file, SIZE);
	p = map_shared(&file, PROT_READ | PROT_WRITE);
	for (i = 0; i < pages; i++)
		p[i * PAGE] = 1;
	before = switches();
	before_faults = faults();
	for (i = 0; i < pages; i++)
		assert_int_equal(pwrite(file.fd, &value, 8, (off_t)(i * PAGE + 1024)), 8);
	assert_in_range(switches() - before, 0, pages / 16);
	assert_in_range(faults() - before_faults, 0, pages / 16);
	for (i = 0; i < pages; i++) {
		memcpy(&seen, p + i * PAGE + 1024, 8);
		assert_int_equal(seen, 42);
		assert_int_equal(p[i * PAGE], 1);
	}
	munmap(p, SIZE);
	file_end(&file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(success_keeps_errno),
		cmocka_unit_test(failure_returns_the_errno_of_linux),
		cmocka_unit_test(posix_madvise_returns_its_error),
		cmocka_unit_test(mapping_over_a_mapping_replaces_it),
		cmocka_unit_test(moved_mapping_keeps_its_bytes),
		cmocka_unit_test(mapping_with_advice_of_the_monitor_can_move),
		cmocka_unit_test(mapping_with_advice_of_the_program_cannot_move),
		cmocka_unit_test(hint_for_a_range_with_a_hole_counts),
		cmocka_unit_test(small_writes_do_not_wait),
	};

	return RUN(tests);
}
