// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The monitor thread beside a file of a FUSE server that counts its requests, and may leave some
 * of them unanswered.
 */
#include "common.h"

#include "device.h"
#include "fuse.h"
#include "wrap.h"

#include <linux/fuse.h>
#include <poll.h>
#include <sys/prctl.h>

static bool fuse_skipped(const char *path)
{
	if (!path)
		fprintf(stderr, "skipped: FUSE cannot be mounted here\n");
	return !path;
}

/*
 * If the monitor copied the table of descriptors, the kernel would send FLUSH for each descriptor
 * that the monitor then closes. So the monitor does not start while a low descriptor is that of a
 * FUSE file.
 */
static void fuse_is_not_flushed(void)
{
	const char *path = fuse_begin();
	int fd = open_file(O_RDONLY), other;
	char *at;

	if (fuse_skipped(path))
		return;
	other = open(path, O_WRONLY | O_CLOEXEC);
	CHECK(other >= 0 && write(other, "a", 1) == 1);
	at = map_file(fd, PROT_READ, MAP_SHARED);
	in_order(at, 8 * MB, false);
	CHECK(threads_now() == 1 && !fuse_count(FUSE_FLUSH));
	CHECK(!fuse_count(FUSE_STATFS) && write(other, "b", 1) == 1);
	unmap_file(at);
	/* This FLUSH is that of the program's close(). */
	CHECK(!close(other) && fuse_count(FUSE_FLUSH) == 1);
	at = map_file(fd, PROT_READ, MAP_SHARED);
	WAIT_FOR(told_of(at));
	CHECK(fuse_count(FUSE_FLUSH) == 1);
	fuse_end();
}

/*
 * If the monitor closed copies of the descriptors, it would wait for the answer to the first FLUSH.
 * Meanwhile its copy of a pipe would stay open, and the other side would wait for the end of it.
 */
static void unanswered_flush_keeps_no_pipe_open(void)
{
	const char *path = fuse_begin();
	int fd = open_file(O_RDONLY), other, end, pipe_fds[2], i;
	struct pollfd reader = { .events = POLLIN };

	if (fuse_skipped(path))
		return;
	CHECK(!pipe2(pipe_fds, O_CLOEXEC));
	reader.fd = pipe_fds[0];
	other = open(path, O_WRONLY | O_CLOEXEC);
	end = fcntl(pipe_fds[1], F_DUPFD_CLOEXEC, other + 1);
	CHECK(other >= 0 && end > other && end < 64 && !close(pipe_fds[1]));
	fuse_hang(FUSE_FLUSH);
	map_file(fd, PROT_READ, MAP_SHARED);
	for (i = 0; i < 50; i++)
		nap();
	CHECK(!close(end));
	CHECK(poll(&reader, 1, WAIT_S * 1000) == 1 && reader.revents == POLLHUP);
	fuse_end();
}

/*
 * Map the file of the FUSE server. Its descriptor is 100 or more, as only one below 64 prevents the
 * monitor from starting.
 */
static char *map_fuse_file(const char *path)
{
	int low = open(path, O_RDONLY | O_CLOEXEC), fd = fcntl(low, F_DUPFD_CLOEXEC, 100);
	char *at;

	CHECK(low >= 0 && fd >= 100 && !close(low));
	at = mmap(NULL, FUSE_FILE_SIZE, PROT_READ, MAP_SHARED, fd, 0);
	CHECK(at != MAP_FAILED);
	return at;
}

/*
 * The monitor does not steer a FUSE file, so the server gets no request that the program did not
 * cause.
 */
static void fuse_is_not_steered(void)
{
	const char *path = fuse_begin();
	unsigned int flushes, stats, i;
	volatile char *at;

	if (fuse_skipped(path))
		return;
	at = map_fuse_file(path);
	flushes = fuse_count(FUSE_FLUSH);
	stats = fuse_count(FUSE_GETATTR);
	fuse_hang(FUSE_FLUSH);
	fuse_hang(FUSE_GETATTR);
	fuse_hang(FUSE_STATFS);
	for (i = 0; i < 3; i++) {
		steer_mapped((void *)at, FUSE_FILE_SIZE, PROT_READ, MAP_SHARED, 0);
		WAIT_FOR(threads_now() == 1);
		CHECK(!at[i * MB]);
	}
	CHECK(steer_own_page() && !told_of((void *)at));
	CHECK(fuse_count(FUSE_FLUSH) == flushes && fuse_count(FUSE_GETATTR) == stats);
	CHECK(!fuse_count(FUSE_STATFS));
	fuse_end();
}

/* While the FUSE server hangs, neither the monitor nor steer_alone() waits for it. */
static void hung_server_holds_nothing(void)
{
	const char *path = fuse_begin();
	char *at;

	if (fuse_skipped(path))
		return;
	at = map_fuse_file(path);
	fuse_hang(FUSE_READ);
	steer_mapped(at, FUSE_FILE_SIZE, PROT_READ, MAP_SHARED, 0);
	steer_alone();
	CHECK(threads_now() == 1 && !seteuid(54321));
	steer_alone_end();
	CHECK(!seteuid(0));
	fuse_end();
}

static bool fuse_is_local;

/* The linker replaces device_is_local() with this function. */
bool __wrap_device_is_local(uint64_t dev)
{
	return fuse_is_local || __real_device_is_local(dev);
}

/* Make page faults that read from the disk, so that the monitor does not take all for cached. */
static void read_a_page(int fd)
{
	static volatile char *at;
	static size_t offset;

	if (!at) {
		forget_cached(fd);
		at = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, fd, 0);
		CHECK(at != MAP_FAILED && !madvise((void *)at, SIZE, MADV_RANDOM));
	}
	(void)at[offset];
	offset = (offset + 16 * PAGE) % SIZE;
}

/*
 * The FUSE server takes the place of a disk that hangs: the monitor steers its file. The program
 * touches cached pages at a constant distance, and the monitor requests the pages ahead of them,
 * which are not cached. Returns NULL without FUSE.
 */
static char *map_hung_device(void)
{
	const size_t cached = 16 * MB;
	const char *path = fuse_begin();
	int fd = open_file(O_RDONLY), round;
	volatile char *at;
	size_t i;

	if (fuse_skipped(path))
		return NULL;
	fuse_is_local = true;
	at = map_fuse_file(path);
	for (i = 0; i < cached; i += PAGE)
		CHECK(!at[i]);
	fuse_hang(FUSE_READ);
	alarm(60);
	CHECK(!madvise((void *)at, FUSE_FILE_SIZE, MADV_DONTNEED));
	steer_mapped((void *)at, FUSE_FILE_SIZE, PROT_READ, MAP_SHARED, 0);
	WAIT_FOR(told_of((void *)at));
	for (round = 0; round < 50 && !told_of((void *)at)->count[STEER_ACT_AHEAD]; round++) {
		CHECK(!madvise((void *)at, FUSE_FILE_SIZE, MADV_DONTNEED));
		for (i = 0; i < cached; i += 64 * PAGE) {
			CHECK(!at[i]);
			read_a_page(fd);
			nap();
		}
	}
	CHECK(told_of((void *)at)->count[STEER_ACT_AHEAD]);
	return (char *)at;
}

/* An unmapping by the program does not wait for a device that hangs. */
static void hung_device_delays_no_unmapping(void)
{
	char *at = map_hung_device();

	if (!at)
		return;
	steer_unmapping(at, FUSE_FILE_SIZE);
	CHECK(!munmap(at, FUSE_FILE_SIZE));
	WAIT_FOR(threads_now() == 1);
	fuse_end();
}

/* When setuid() returns, no thread of the process has the former user. */
static void user_changes_beside_a_hung_device(void)
{
	if (!map_hung_device())
		return;
	steer_alone();
	CHECK(!seteuid(54321) && threads_now() == 1);
	steer_alone_end();
	CHECK(!seteuid(0));
	fuse_end();
}

/* A filter for all threads does not reach the monitor, whose calls would end the process. */
static void filter_comes_beside_a_hung_device(void)
{
	char *at = map_hung_device();

	if (!at)
		return;
	steer_never();
	CHECK(threads_now() == 1);
	CHECK(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) && filter_all_threads());
	steer_mapped(at, FUSE_FILE_SIZE, PROT_READ, MAP_SHARED, 0);
	CHECK(!at[MB] && threads_now() == 1);
	fuse_end();
}

RUN(fuse_is_not_flushed)
RUN(fuse_is_not_steered)
RUN(unanswered_flush_keeps_no_pipe_open)
RUN(hung_server_holds_nothing)
RUN(hung_device_delays_no_unmapping)
RUN(user_changes_beside_a_hung_device)
RUN(filter_comes_beside_a_hung_device)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fuse_is_not_flushed_test),
		cmocka_unit_test(fuse_is_not_steered_test),
		cmocka_unit_test(unanswered_flush_keeps_no_pipe_open_test),
		cmocka_unit_test(hung_server_holds_nothing_test),
		cmocka_unit_test(hung_device_delays_no_unmapping_test),
		cmocka_unit_test(user_changes_beside_a_hung_device_test),
		cmocka_unit_test(filter_comes_beside_a_hung_device_test),
	};

	return cmocka_run_group_tests(tests, new_group, end_group);
}
