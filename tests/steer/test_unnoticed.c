// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* The monitor thread has no effect on the program, on the file and on other processes. */
#include "common.h"

#include <dirent.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/single_threaded.h>
#include <sys/syscall.h>
#include <sys/time.h>

static int descriptors_now(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = -3; /* "." and "..", and the descriptor of the directory */

	CHECK(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

/* If a mapping is only read, no advice changes the file. */
static void file_is_left_alone(void)
{
	int fd = open_file(O_RDWR);
	struct stat before, after;
	char *at;

	CHECK(!fsync(fd) && !fstat(fd, &before));
	at = map_file(fd, PROT_READ | PROT_WRITE, MAP_SHARED);
	IN_ORDER_UNTIL(at, false, has_pattern(at, STEER_STREAM));
	CHECK(!munmap(at, SIZE) && !fstat(fd, &after));
	CHECK(before.st_blocks == after.st_blocks && before.st_size == after.st_size);
	CHECK(!memcmp(&before.st_mtim, &after.st_mtim, sizeof(before.st_mtim)));
	CHECK(!memcmp(&before.st_ctim, &after.st_ctim, sizeof(before.st_ctim)));
}

static void comes_and_goes(void)
{
	int fd = open_file(O_RDONLY), before = descriptors_now();
	char *at, *small;

	CHECK(threads_now() == 1);
	small = mmap(NULL, MB, PROT_READ, MAP_SHARED, fd, 0);
	steer_mapped(small, MB, PROT_READ, MAP_SHARED, 0);
	CHECK(threads_now() == 1);
	at = map_file(fd, PROT_READ, MAP_SHARED);
	WAIT_FOR(threads_now() == 2 && told_of(at));
	CHECK(descriptors_now() == before);
	steer_unmapping(at, SIZE);
	CHECK(!munmap(at, SIZE));
	WAIT_FOR(threads_now() == 1);
	at = map_file(fd, PROT_READ, MAP_SHARED);
	WAIT_FOR(threads_now() == 2);
}

static void alone(void)
{
	int fd = open_file(O_RDONLY);
	char *at = map_file(fd, PROT_READ, MAP_SHARED);

	IN_ORDER_UNTIL(at, false, has_flag(at + SIZE - PAGE, " hg"));
	steer_alone();
	CHECK(threads_now() == 1);
	/* The monitor has taken back its advice, because it cannot do so later. */
	CHECK(!has_flag(at + SIZE - PAGE, " hg"));
	/* The kernel refuses this call to a process with several threads. */
	CHECK(!unshare(CLONE_THREAD | CLONE_SIGHAND | CLONE_VM));
	/* A mapping by another thread does not restart the monitor before steer_alone_end(). */
	map_file(fd, PROT_READ, MAP_SHARED);
	CHECK(threads_now() == 1);
	steer_alone_end();
	map_file(fd, PROT_READ, MAP_SHARED);
	WAIT_FOR(threads_now() == 2);
	steer_never();
	map_file(fd, PROT_READ, MAP_SHARED);
	CHECK(threads_now() == 1);
}

static volatile sig_atomic_t got, got_by;

static void on_signal(int number)
{
	got++;
	got_by = (sig_atomic_t)syscall(SYS_gettid);
}

/* The program's thread receives each signal for the process, even one that it blocks. */
static void signals(void)
{
	int fd = open_file(O_RDONLY), i;
	char *at = map_file(fd, PROT_READ, MAP_SHARED);
	sigset_t all, before;

	WAIT_FOR(told_of(at));
	signal(SIGUSR1, on_signal);
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &before);
	for (i = 0; i < 100; i++) {
		kill(getpid(), SIGUSR1);
		nap();
	}
	CHECK(!got);
	sigprocmask(SIG_SETMASK, &before, NULL);
	CHECK(got == 1 && got_by == getpid());
}

/*
 * A lock of flock(2) ends with the last descriptor and the last part of a mapping, and not later.
 */
static void locks_go_with(size_t first)
{
	int fd, other, i;
	char *at;

	for (i = 0; i < 50; i++) {
		fd = open_file(O_RDWR);
		CHECK(!flock(fd, LOCK_EX));
		at = map_file(fd, PROT_READ | PROT_WRITE, MAP_SHARED);
		close(fd);
		steer_unmapping(at, first);
		CHECK(!munmap(at, first));
		if (first < SIZE) {
			steer_unmapping(at + first, SIZE - first);
			CHECK(!munmap(at + first, SIZE - first));
		}
		other = open_file(O_RDWR);
		CHECK(!flock(other, LOCK_EX | LOCK_NB));
		close(other);
	}
}

static void locks_go(void)
{
	locks_go_with(SIZE);
}

static void locks_go_in_parts(void)
{
	locks_go_with(64 * MB);
}

/*
 * A process loses its record locks when it closes any descriptor of the file. The descriptors of
 * the monitor do not count.
 */
static void record_locks_stay(void)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	int fd = open_file(O_RDWR), status, i;
	pid_t child;
	char *at;

	CHECK(!fcntl(fd, F_SETLK, &lock));
	for (i = 0; i < 10; i++) {
		at = map_file(fd, PROT_READ | PROT_WRITE, MAP_SHARED);
		WAIT_FOR(told_of(at));
		steer_unmapping(at, SIZE);
		CHECK(!munmap(at, SIZE));
	}
	child = fork();
	if (!child) {
		lock.l_type = F_WRLCK;
		_exit(fcntl(fd, F_GETLK, &lock) || lock.l_type == F_UNLCK);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void fork_goes_on(void)
{
	int fd = open_file(O_RDWR), status, i;
	char *at = map_file(fd, PROT_READ | PROT_WRITE, MAP_SHARED);
	pid_t child;

	IN_ORDER_UNTIL(at, false, has_flag(at + SIZE - PAGE, " hg"));
	for (i = 0; i < 20; i++) {
		child = fork();
		if (!child) {
			/*
			 * The child has no monitor that could take advice back, so it has no
			 * advice.
			 */
			CHECK(threads_now() == 1 && !has_flag(at + SIZE - PAGE, " hg"));
			in_order(at, 8 * MB, false);
			at[SIZE - 1 - i] = 'x';
			at = map_file(fd, PROT_READ, MAP_SHARED);
			WAIT_FOR(threads_now() == 2 && told_of(at));
			_exit(0);
		}
		CHECK(waitpid(child, &status, 0) == child && status == 0);
		CHECK(at[SIZE - 1 - i] == 'x');
		at[SIZE - 1 - i] = (char)byte_of(SIZE - 1 - i);
	}
	CHECK(threads_now() == 2 && has_flag(at + SIZE - PAGE, " hg"));
}

/* The program makes a hole in its address space. The monitor must not map memory there. */
static void holes_stay_empty(void)
{
	const size_t hole = 64 << 10;
	int fd = open_file(O_RDONLY), i, k;
	char *at, *file;
	size_t n;

	/* Fill the small holes that exist already. */
	for (i = 0; i < 2000; i++)
		CHECK(mmap(NULL, hole, PROT_NONE | (i & 1 ? PROT_READ : 0),
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
	for (i = 0; i < 100; i++) {
		at = mmap(NULL, hole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		file = mmap(NULL, 48 * MB, PROT_READ, MAP_SHARED, fd, 0);
		steer_mapped(file, 48 * MB, PROT_READ, MAP_SHARED, 0);
		CHECK(!munmap(at, hole));
		for (k = 0; k < i * 100; k++)
			__asm__ volatile("" ::: "memory");
		CHECK(mmap(at, hole, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == at);
		for (n = 0; n < 48 * MB; n += MB)
			CHECK(file[n]);
		nap();
		for (n = 0; n < hole; n++)
			CHECK(!at[n]);
		steer_unmapping(file, 48 * MB);
		CHECK(!munmap(file, 48 * MB) && !munmap(at, hole));
	}
}

/*
 * The program has a hole in its address space before it maps its first file. Later it maps the hole
 * again. Memory of the monitor must not lie there: it would be replaced, and the program would end.
 */
static void hole_of_the_program_stays_empty(void)
{
	const size_t hole = SIZE / 2;
	int fd = open_file(O_RDONLY), i;
	char *at, *file;
	size_t n;

	at = mmap(NULL, 3 * hole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	CHECK(at != MAP_FAILED && !munmap(at + hole, hole));
	for (i = 0; i < 20; i++) {
		/* The file is larger than the hole. */
		file = map_file(fd, PROT_READ, MAP_SHARED);
		WAIT_FOR(told_of(file));
		CHECK(mmap(at + hole, hole, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == at + hole);
		in_order(file, 8 * MB, false);
		unmap_file(file);
		for (n = 0; n < hole; n += PAGE)
			CHECK(!at[hole + n]);
		CHECK(!munmap(at + hole, hole));
	}
	CHECK(threads_now() <= 2);
}

static int handler_fd;

static void map_in_handler(int number)
{
	void *at = mmap(NULL, 32 * MB, PROT_READ, MAP_SHARED, handler_fd, 0);
	int saved = errno;

	steer_mapped(at, 32 * MB, PROT_READ, MAP_SHARED, 0);
	steer_unmapping(at, 32 * MB);
	munmap(at, 32 * MB);
	errno = saved;
	got++;
}

/* A signal handler may interrupt an allocator, so no call of steering may use one. */
static void handlers_may_map(void)
{
	const struct itimerval often = { { 0, 3000 }, { 0, 3000 } }, off = {};
	size_t i;

	handler_fd = open_file(O_RDONLY);
	signal(SIGALRM, map_in_handler);
	CHECK(!setitimer(ITIMER_REAL, &often, NULL));
	for (i = 0; got < 200; i++)
		free(malloc(i * 37 % 5000));
	CHECK(!setitimer(ITIMER_REAL, &off, NULL));
}

/* The number of lines of /proc/self/maps that contain a word. */
static int areas_with(const char *word)
{
	FILE *file = fopen("/proc/self/maps", "re");
	char line[512];
	int n = 0;

	CHECK(file);
	while (fgets(line, sizeof(line), file))
		n += !!strstr(line, word);
	fclose(file);
	return n;
}

static void nothing_piles_up(void)
{
	int fd = open_file(O_RDONLY), i;
	char *at;

	for (i = 0; i < 10; i++) {
		at = map_file(fd, PROT_READ, MAP_SHARED);
		WAIT_FOR(threads_now() == 2);
		steer_unmapping(at, SIZE);
		CHECK(!munmap(at, SIZE));
		WAIT_FOR(threads_now() == 1);
	}
	CHECK(areas_with(STEER_MEMFD_NAME) <= 1);
}

/* The C library still treats the program as single-threaded. */
static void program_stays_as_it_was(void)
{
	int fd = open_file(O_RDONLY);
	char *at = map_file(fd, PROT_READ, MAP_SHARED);

	WAIT_FOR(told_of(at) && threads_now() == 2);
	CHECK(__libc_single_threaded);
}

/* If no thread can be created, mappings work as without steering. */
static void no_room_for_a_thread(void)
{
	const struct rlimit one = { 1, 1 };
	int fd = open_file(O_RDONLY), i;

	CHECK(!setrlimit(RLIMIT_NPROC, &one) && !setresuid(54321, 54321, 54321));
	errno = 77;
	for (i = 0; i < 3; i++)
		map_file(fd, PROT_READ, MAP_SHARED);
	CHECK(errno == 77 && threads_now() == 1);
}

static void errno_stays(void)
{
	int fd = open_file(O_RDONLY), i;
	char *at;

	errno = 77;
	for (i = 0; i < 20; i++) {
		at = map_file(fd, PROT_READ, MAP_SHARED);
		steer_hint(at, SIZE, MADV_NORMAL);
		CHECK(steer_remap(at, SIZE, SIZE, 0, NULL) == at);
		steer_unmapping(at, SIZE);
		CHECK(errno == 77);
		CHECK(!munmap(at, SIZE));
	}
	steer_alone();
	CHECK(errno == 77);
}

static void *end_soon(void *unused)
{
	nap();
	syscall(SYS_exit, 0);
	return NULL;
}

/* Both threads of the program end by the system call exit. The process then ends, too. */
static void ends_with_the_last(void)
{
	int fd = open_file(O_RDONLY);
	char *at = map_file(fd, PROT_READ, MAP_SHARED);
	pthread_t thread;

	WAIT_FOR(told_of(at));
	CHECK(!pthread_create(&thread, NULL, end_soon, NULL));
	syscall(SYS_exit, 0);
}

/*
 * Other memory may have replaced a mapping before the monitor advises it. The advice must not
 * change that memory.
 */
static void mappings_that_change(void)
{
	int fd = open_file(O_RDONLY), i;
	size_t n;

	for (i = 0; i < 60; i++) {
		char *at = map_file(fd, PROT_READ, MAP_SHARED);

		in_order(at, 12 * MB, false);
		/* Replace the mapping by a call that the monitor does not see. */
		CHECK(mmap(at, SIZE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == at);
		for (n = 0; n < 16 * MB; n += PAGE)
			at[n] = (char)i;
		for (n = 0; n < 16 * MB; n += PAGE)
			CHECK(at[n] == (char)i);
		steer_unmapping(at, SIZE);
		CHECK(!munmap(at, SIZE));
	}
}

static void shorter_files(void)
{
	int fd = open_file(O_RDWR);
	char *at;

	at = map_file(fd, PROT_READ | PROT_WRITE, MAP_SHARED);
	in_order(at, SIZE / 2, false);
	CHECK(!ftruncate(fd, 50 * MB));
	in_order(at, 50 * MB, false);
	WAIT_FOR(told_of(at));
	steer_unmapping(at, SIZE);
	CHECK(!munmap(at, SIZE) && !ftruncate(fd, SIZE));
	/* Restore the contents for the following tests. */
	at = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	in_order(at, SIZE, true);
}

/* Install a filter that kills the process for a call that only the monitor makes. */
static void filtered(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pidfd_getfd, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { .len = 4, .filter = code };
	int fd = open_file(O_RDONLY), i;
	char *at;

	CHECK(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	CHECK(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
	for (i = 0; i < 3; i++) {
		at = map_file(fd, PROT_READ, MAP_SHARED);
		in_order(at, SIZE, false);
	}
	WAIT_FOR(threads_now() == 1);
}

RUN(file_is_left_alone)
RUN(comes_and_goes)
RUN(alone)
RUN(signals)
RUN(locks_go)
RUN(record_locks_stay)
RUN(fork_goes_on)
RUN(ends_with_the_last)
RUN(holes_stay_empty)
RUN(hole_of_the_program_stays_empty)
RUN(handlers_may_map)
RUN(nothing_piles_up)
RUN(program_stays_as_it_was)
RUN(no_room_for_a_thread)
RUN(locks_go_in_parts)
RUN(errno_stays)
RUN(mappings_that_change)
RUN(shorter_files)
RUN(filtered)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(file_is_left_alone_test),
		cmocka_unit_test(comes_and_goes_test),
		cmocka_unit_test(alone_test),
		cmocka_unit_test(signals_test),
		cmocka_unit_test(locks_go_test),
		cmocka_unit_test(record_locks_stay_test),
		cmocka_unit_test(fork_goes_on_test),
		cmocka_unit_test(ends_with_the_last_test),
		cmocka_unit_test(holes_stay_empty_test),
		cmocka_unit_test(hole_of_the_program_stays_empty_test),
		cmocka_unit_test(handlers_may_map_test),
		cmocka_unit_test(nothing_piles_up_test),
		cmocka_unit_test(program_stays_as_it_was_test),
		cmocka_unit_test(no_room_for_a_thread_test),
		cmocka_unit_test(locks_go_in_parts_test),
		cmocka_unit_test(errno_stays_test),
		cmocka_unit_test(mappings_that_change_test),
		cmocka_unit_test(shorter_files_test),
		cmocka_unit_test(filtered_test),
	};

	return cmocka_run_group_tests(tests, new_group, end_group);
}
