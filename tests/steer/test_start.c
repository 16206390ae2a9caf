// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Start and end of the monitor thread: under seccomp filters, and before setuid(). */
#include "common.h"

#include "device.h"
#include "memory.h"
#include "uapi.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static bool hold, held;

/*
 * The monitor calls this function in its first look. It keeps the monitor busy until the test
 * clears @hold.
 */
uint64_t memory_for_cache(void)
{
	__atomic_store_n(&held, true, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&hold, __ATOMIC_SEQ_CST))
		nap();
	return SIZE;
}

uint64_t memory_read_again(void)
{
	return 0;
}

/* --- filters --- */

static void filter(struct sock_filter *code, size_t n)
{
	struct sock_fprog program = { .len = (unsigned short)n, .filter = code };

	CHECK(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	CHECK(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
}

/* Install a filter that returns @answer for one system call. */
static void filter_call(unsigned int number, unsigned int answer)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, answer),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};

	filter(code, COUNT(code));
}

static long minor_faults(void)
{
	struct rusage usage;

	CHECK(!getrusage(RUSAGE_SELF, &usage));
	return usage.ru_minflt;
}

/*
 * Under a filter like that of a container, the monitor starts. permit_calls() must not copy the
 * program's memory to test the filter, as then a store to each page would fault afterwards.
 */
static void filter_that_allows(void)
{
	const size_t size = 64 * MB;
	int fd = open_file(O_RDONLY);
	long faults;
	char *memory, *at;
	size_t i;

	memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(memory != MAP_FAILED && !madvise(memory, size, MADV_NOHUGEPAGE));
	memset(memory, 1, size);
	filter_call(0xffff, SECCOMP_RET_ALLOW);
	at = map_file(fd, PROT_READ, MAP_SHARED);
	WAIT_FOR(told_of(at));
	faults = minor_faults();
	for (i = 0; i < size; i += PAGE)
		memory[i]++;
	CHECK(minor_faults() - faults < 1000);
	CHECK(waitpid(-1, NULL, __WALL) == -1 && errno == ECHILD);
	CHECK(prctl(PR_GET_DUMPABLE) == 1);
}

/* Older container runtimes refuse system calls that they do not know. */
static void filter_that_refuses(void)
{
	int fd = open_file(O_RDONLY), before = dup(fd), i, k;
	char *at;

	close(before);
	filter_call(SYS_close_range, SECCOMP_RET_ERRNO | EPERM);
	at = map_file(fd, PROT_READ, MAP_SHARED);
	for (i = 0; i < 2000; i++) {
		k = dup(fd);
		CHECK(k == before);
		close(k);
	}
	WAIT_FOR(threads_now() == 1);
	CHECK(!told_of(at));
}

/* Map the file twice in a child under a filter. The child has no monitor, and ends by itself. */
static void is_not_killed(void (*install)(unsigned int what, unsigned int answer),
			  unsigned int what)
{
	pid_t child = fork();
	int status, fd, i;

	CHECK(child >= 0);
	if (!child) {
		fd = open_file(O_RDONLY);
		install(what, SECCOMP_RET_KILL_PROCESS);
		for (i = 0; i < 2; i++) {
			in_order(map_file(fd, PROT_READ, MAP_SHARED), 8 * MB, false);
			CHECK(threads_now() == 1);
		}
		_exit(0);
	}
	CHECK(waitpid(child, &status, 0) == child);
	if (status)
		fprintf(stderr, "filter for %u: status 0x%x\n", what, (unsigned int)status);
	CHECK(status == 0);
}

/*
 * Steering makes each of these system calls, and the program does not. If a filter kills the
 * process for one of them, the monitor must not start.
 */
static void filter_that_kills(void)
{
	static const unsigned int calls[] = {
		SYS_close_range, SYS_capset,	    SYS_memfd_create,	   SYS_sched_setscheduler,
		SYS_pread64,	 SYS_statx,	    SYS_name_to_handle_at, SYS_getrusage,
		SYS_ioctl,	 SYS_ftruncate,	    SYS_readlinkat,	   SYS_tgkill,
		SYS_futex,	 SYS_clock_gettime, SYS_pidfd_getfd,
	};
	static const unsigned int advice[] = {
		MADV_NORMAL,	 MADV_RANDOM,	     MADV_WILLNEED, MADV_HUGEPAGE,
		MADV_NOHUGEPAGE, MADV_POPULATE_READ, MADV_DONTFORK, MADV_DONTNEED_LOCKED,
	};
	size_t i;

	for (i = 0; i < COUNT(calls); i++)
		is_not_killed(filter_call, calls[i]);
	for (i = 0; i < COUNT(advice); i++)
		is_not_killed(filter_advice, advice[i]);
}

/* A kernel without huge pages refuses both kinds of advice for them. */
static void without_huge_pages(void)
{
	int fd = open_file(O_RDONLY), round;
	uint64_t page = 1;
	volatile char *at;

	filter_advice(MADV_HUGEPAGE, SECCOMP_RET_ERRNO | EINVAL);
	filter_advice(MADV_NOHUGEPAGE, SECCOMP_RET_ERRNO | EINVAL);
	forget_cached(fd);
	at = map_file(fd, PROT_READ, MAP_SHARED);
	for (round = 0; round < 4000 && !has_pattern((void *)at, STEER_RANDOM); round++) {
		page = page * 6364136223846793005u + 1442695040888963407u;
		CHECK(at[(page >> 33) % (SIZE / PAGE) * PAGE]);
		nap();
	}
	CHECK(has_pattern((void *)at, STEER_RANDOM) && has_flag((void *)at, " rr"));
	/* The advice for a stream splits the kernel's area of the mapping. */
	for (round = 0; round < 50 && told_of((void *)at)->count[STEER_ACT_HUGE] == 0; round++) {
		CHECK(!madvise((void *)at, SIZE, MADV_DONTNEED));
		for (page = 32 * MB; page < 64 * MB; page += PAGE) {
			CHECK(at[page]);
			if (page % MB == 0)
				nap();
		}
	}
	CHECK(!has_flag((void *)at, " hg"));
	CHECK((intptr_t)steer_remap((void *)at, SIZE, SIZE + MB, MREMAP_MAYMOVE, NULL) > 0);
}

/* --- page size --- */

/* A kernel with larger base pages refuses an address that is no multiple of their size. */
static void large_base_pages_are_refused(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 0xffff, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	int fd = open_file(O_RDONLY);

	filter(code, COUNT(code));
	map_file(fd, PROT_READ, MAP_SHARED);
	CHECK(threads_now() == 1 && !steer_own_page());
}

/* --- devices --- */

static uint64_t device_of(const char *path)
{
	struct stat st;

	CHECK(!stat(path, &st));
	return st.st_dev;
}

/*
 * device_is_local() sends no request to a file system. The device of an overlayfs mount has the
 * read-ahead setting of the lower device.
 */
static void devices_are_found(void)
{
	char top[] = "/var/tmp/hugemap-overlay-XXXXXX", options[200];
	uint64_t below;

	CHECK(!device_is_local(device_of("/proc")));
	CHECK(device_read_ahead_kb(~0ull) == 128 && !device_is_local(~0ull));
	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL)) {
		fprintf(stderr, "skipped: nothing can be mounted here\n");
		return;
	}
	CHECK(mkdtemp(top));
	below = device_of(top);
	snprintf(options, sizeof(options), "lowerdir=%s:/usr", top);
	if (!mount("test", top, "overlay", 0, options)) {
		CHECK(device_of(top) != below && device_is_local(device_of(top)));
		CHECK(device_read_ahead_kb(device_of(top)) ==
		      device_read_ahead_kb(device_of("/usr")));
		CHECK(!umount(top));
	}
	CHECK(!mount("test", top, "tmpfs", 0, NULL) && !device_is_local(device_of(top)));
	CHECK(!umount(top) && !rmdir(top));
}

/* --- leaving --- */

static bool is_alone;

static void *get_alone(void *unused)
{
	(void)unused;
	steer_alone();
	__atomic_store_n(&is_alone, true, __ATOMIC_SEQ_CST);
	return NULL;
}

/*
 * steer_alone() waits until the monitor has ended, however long that takes. During this time no new
 * mapping starts the monitor again.
 */
static void alone_waits(void)
{
	int fd = open_file(O_RDONLY), i;
	pthread_t thread;

	hold = true;
	in_order(map_file(fd, PROT_READ, MAP_SHARED), MB, false);
	WAIT_FOR(__atomic_load_n(&held, __ATOMIC_SEQ_CST));
	CHECK(!pthread_create(&thread, NULL, get_alone, NULL));
	for (i = 0; i < 300; i++) {
		CHECK(!__atomic_load_n(&is_alone, __ATOMIC_SEQ_CST));
		nap();
	}
	map_file(fd, PROT_READ, MAP_SHARED);
	__atomic_store_n(&hold, false, __ATOMIC_SEQ_CST);
	CHECK(!pthread_join(thread, NULL));
	WAIT_FOR(threads_now() == 1); /* Linux counts the joined thread a little longer */
	map_file(fd, PROT_READ, MAP_SHARED);
	CHECK(threads_now() == 1);
	steer_alone_end();
	map_file(fd, PROT_READ, MAP_SHARED);
	WAIT_FOR(threads_now() == 2);
}

static int filtered; /* 1 = yes, -1 = the call has failed */

static void *filter_alone(void *unused)
{
	(void)unused;
	steer_never();
	__atomic_store_n(&filtered, filter_all_threads() ? 1 : -1, __ATOMIC_SEQ_CST);
	return NULL;
}

/* A device hangs, and the monitor waits for it: the filter comes when the device goes on. */
static void filter_waits(void)
{
	int fd = open_file(O_RDONLY), i;
	pthread_t thread;

	hold = true;
	in_order(map_file(fd, PROT_READ, MAP_SHARED), MB, false);
	WAIT_FOR(__atomic_load_n(&held, __ATOMIC_SEQ_CST));
	CHECK(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	CHECK(!pthread_create(&thread, NULL, filter_alone, NULL));
	for (i = 0; i < 300; i++) {
		CHECK(!__atomic_load_n(&filtered, __ATOMIC_SEQ_CST));
		nap();
	}
	__atomic_store_n(&hold, false, __ATOMIC_SEQ_CST);
	CHECK(!pthread_join(thread, NULL));
	CHECK(__atomic_load_n(&filtered, __ATOMIC_SEQ_CST) == 1);
	WAIT_FOR(threads_now() == 1);
	in_order(map_file(fd, PROT_READ, MAP_SHARED), MB, false);
	CHECK(threads_now() == 1);
}

/*
 * The handler of pthread_atfork(3) does not run in children of a raw clone or fork. They have
 * neither the monitor nor its memory.
 */
static void raw_children(void)
{
	int fd = open_file(O_RDONLY), status, i;
	char *at = map_file(fd, PROT_READ, MAP_SHARED);
	pid_t child;

	WAIT_FOR(told_of(at));
	for (i = 0; i < 2; i++) {
		child = i ? (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) : _Fork();
		if (!child) {
			CHECK(!steer_own_page() && threads_now() == 1);
			steer_alone();
			steer_alone_end();
			unmap_file(at);
			map_file(fd, PROT_READ, MAP_SHARED);
			CHECK(threads_now() == 1);
			_exit(0);
		}
		CHECK(waitpid(child, &status, 0) == child && status == 0);
	}
	CHECK(told_of(at));
}

RUN(filter_that_allows)
RUN(filter_that_refuses)
RUN(filter_that_kills)
RUN(without_huge_pages)
RUN(large_base_pages_are_refused)
RUN(devices_are_found)
RUN(alone_waits)
RUN(filter_waits)
RUN(raw_children)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(filter_that_allows_test),
		cmocka_unit_test(filter_that_refuses_test),
		cmocka_unit_test(filter_that_kills_test),
		cmocka_unit_test(without_huge_pages_test),
		cmocka_unit_test(large_base_pages_are_refused_test),
		cmocka_unit_test(devices_are_found_test),
		cmocka_unit_test(alone_waits_test),
		cmocka_unit_test(filter_waits_test),
		cmocka_unit_test(raw_children_test),
	};

	return cmocka_run_group_tests(tests, new_group, end_group);
}
