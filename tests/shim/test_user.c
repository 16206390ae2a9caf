// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * --user-mode: another user than root, who may handle only the faults that a
 * program takes in user mode. What system calls read from mappings must be right
 * all the same, though nothing has touched the pages, and the pool is smaller than
 * what is read. "refused" as an argument: the same user without the option.
 */
#include "common.h"

#include <grp.h>
#include <signal.h>
#include <limits.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#define NOBODY 65534
#define LARGE (10 * BLOCK + 5000)
#define MESSAGE 60000

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

/* --- files --- */

static char *map_length(struct file *file, size_t length)
{
	char *addr;

	close(file->fd);
	file->fd = open(file->path, O_RDONLY | O_CLOEXEC);
	assert_true(file->fd >= 0);
	addr = mmap(NULL, length, PROT_READ, MAP_SHARED, file->fd, 0);
	assert_true(addr != MAP_FAILED);
	if (rung_of(addr) != RUN_ENGINE)
		fail_msg("the engine does not serve it: %s", why_of(addr));
	return addr;
}

static char *map_new(struct file *file, size_t size)
{
	file_new(file, size);
	return map_length(file, size);
}

static void map_end(struct file *file, char *addr, size_t size)
{
	assert_int_equal(rung_of(addr), RUN_ENGINE);
	assert_int_equal(munmap(addr, size), 0);
	file_end(file);
}

static int temporary(int flags)
{
	const char *dir = getenv("HM_TEST_DIR");
	int fd = open(dir ? dir : "/var/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC | flags, 0600);

	assert_true(fd >= 0);
	return fd;
}

/* Bytes must be those of the file at an offset. */
static void check(const unsigned char *bytes, size_t n, size_t offset)
{
	size_t at;

	for (at = 0; at < n; at++)
		if (bytes[at] != byte_of(offset + at))
			fail_msg("byte %zu of %zu is wrong", at, n);
}

static void check_file(int fd, off_t at, size_t n, size_t offset)
{
	unsigned char *bytes = malloc(n);

	assert_int_equal(pread(fd, bytes, n, at), n);
	check(bytes, n, offset);
	free(bytes);
}

/* --- a thread that reads what is sent --- */

struct reader {
	pthread_t thread;
	int fd;
	unsigned char *bytes;
	size_t want, n;
};

static void *read_all(void *arg)
{
	struct reader *reader = arg;
	ssize_t n = 1;

	while (reader->n < reader->want && n > 0) {
		n = read(reader->fd, reader->bytes + reader->n, reader->want - reader->n);
		reader->n += n > 0 ? (size_t)n : 0;
	}
	return NULL;
}

static void reader_start(struct reader *reader, int fd, size_t want)
{
	*reader = (struct reader){ .fd = fd, .want = want, .bytes = malloc(want) };
	assert_int_equal(pthread_create(&reader->thread, NULL, read_all, reader), 0);
}

static void reader_end(struct reader *reader, size_t offset)
{
	assert_int_equal(pthread_join(reader->thread, NULL), 0);
	assert_int_equal(reader->n, reader->want);
	check(reader->bytes, reader->n, offset);
	free(reader->bytes);
}

/* --- tests --- */

static void test_loads(void **state)
{
	struct file file;
	char *addr;

	file_new(&file, LARGE);
	addr = map_length(&file, LARGE + PAGE);
	check((unsigned char *)addr, LARGE, 0);
	assert_int_equal(signal_of_read(addr + LARGE + PAGE - 1), SIGBUS);
	map_end(&file, addr, LARGE + PAGE);
}

static void test_write_and_pwrite(void **state)
{
	int out = temporary(0);
	struct file file;
	char *addr = map_new(&file, LARGE);

	assert_int_equal(write(out, addr + BLOCK + 77, 100), 100);
	assert_int_equal(write(out, addr + 177, LARGE - 177), LARGE - 177);
	check_file(out, 0, 100, BLOCK + 77);
	check_file(out, 100, LARGE - 177, 177);
	assert_int_equal(lseek(out, 0, SEEK_CUR), LARGE - 77);
	assert_int_equal(pwrite(out, addr, LARGE, 33), LARGE);
	check_file(out, 33, LARGE, 0);
	assert_int_equal(lseek(out, 0, SEEK_CUR), LARGE - 77);
	assert_true(pwrite(out, addr, 10, -1) < 0 && errno == EINVAL);
	assert_int_equal(syscall(SYS_pwrite64, out, addr + 3 * BLOCK, BLOCK, 0), BLOCK);
	check_file(out, 0, BLOCK, 3 * BLOCK);
	close(out);
	map_end(&file, addr, LARGE);
}

/* Direct I/O wants memory that is aligned. */
static void test_direct(void **state)
{
	int out = temporary(O_DIRECT);
	struct file file;
	char *addr = map_new(&file, LARGE);

	assert_int_equal(pwrite(out, addr + 512, 5 * BLOCK, 4096), 5 * BLOCK);
	assert_int_equal(fcntl(out, F_SETFL, 0), 0);
	check_file(out, 4096, 5 * BLOCK, 512);
	close(out);
	map_end(&file, addr, LARGE);
}

/* Buffers of the program's own are between those of the mapping. */
static void test_lists(void **state)
{
	int out = temporary(0);
	unsigned char *own = malloc(BLOCK);
	struct file file;
	char *addr = map_new(&file, LARGE);
	struct iovec iov[4] = {
		{ own, 5000 },
		{ addr + 5000, 6 * BLOCK },
		{ own + 5000, 300000 },
		{ addr + 6 * BLOCK + 305000, 3 * BLOCK },
	};
	const size_t total = 9 * BLOCK + 305000;
	void *nowhere = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	size_t at;

	for (at = 0; at < 5000; at++)
		own[at] = byte_of(at);
	for (at = 0; at < 300000; at++)
		own[5000 + at] = byte_of(6 * BLOCK + 5000 + at);
	assert_int_equal(writev(out, iov, 4), total);
	check_file(out, 0, total, 0);
	assert_int_equal(pwritev(out, iov, 4, 1), total);
	check_file(out, 1, total, 0);
	assert_int_equal(pwritev2(out, iov, 4, 7, 0), total);
	check_file(out, 7, total, 0);
	assert_int_equal(lseek(out, 0, SEEK_CUR), total);
	assert_int_equal(pwritev2(out, iov, 4, -1, 0), total);
	assert_int_equal(lseek(out, 0, SEEK_CUR), 2 * total);
	check_file(out, (off_t)total, total, 0);
	assert_true(writev(out, nowhere, 2) < 0 && errno == EFAULT);
	iov[2].iov_base = nowhere;
	assert_int_equal(pwritev(out, iov, 4, 0), 5000 + 6 * BLOCK);
	free(own);
	close(out);
	map_end(&file, addr, LARGE);
}

static void test_streams_of_bytes(void **state)
{
	struct reader reader;
	int pair[2], pipes[2];
	struct file file;
	char *addr = map_new(&file, LARGE);
	struct iovec iov = { addr, LARGE };
	struct msghdr message = { .msg_iov = &iov, .msg_iovlen = 1 };

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	assert_int_equal(pipe(pipes), 0);
	reader_start(&reader, pair[1], LARGE);
	assert_int_equal(send(pair[0], addr, LARGE, 0), LARGE);
	reader_end(&reader, 0);
	reader_start(&reader, pair[1], BLOCK);
	assert_int_equal(sendto(pair[0], addr + 5, BLOCK, 0, NULL, 0), BLOCK);
	reader_end(&reader, 5);
	reader_start(&reader, pair[1], LARGE);
	assert_int_equal(sendmsg(pair[0], &message, 0), LARGE);
	reader_end(&reader, 0);
	reader_start(&reader, pair[1], LARGE);
	assert_int_equal(syscall(SYS_sendmsg, pair[0], &message, 0), LARGE);
	reader_end(&reader, 0);
	reader_start(&reader, pipes[0], LARGE);
	assert_int_equal(write(pipes[1], addr, LARGE), LARGE);
	reader_end(&reader, 0);
	close(pair[0]);
	close(pair[1]);
	close(pipes[0]);
	close(pipes[1]);
	map_end(&file, addr, LARGE);
}

/* Each is one message, with what goes with it. */
static void test_messages(void **state)
{
	unsigned char *bytes = malloc(7 * MESSAGE);
	struct file file;
	char *addr = map_new(&file, LARGE);
	struct mmsghdr messages[3] = {};
	char control[CMSG_SPACE(sizeof(int))] = "";
	struct iovec iov[3], wide[9], in = { bytes, 2 * MESSAGE };
	struct msghdr got = {
		.msg_iov = &in,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	struct cmsghdr *part;
	int pair[2], i, fd, room = 200000;

	assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair), 0);
	assert_int_equal(send(pair[0], addr + BLOCK - 999, MESSAGE, 0), MESSAGE);
	assert_int_equal(recv(pair[1], bytes, 2 * MESSAGE, 0), MESSAGE);
	check(bytes, MESSAGE, BLOCK - 999);
	for (i = 0; i < 3; i++) {
		iov[i] = (struct iovec){ addr + (size_t)(2 * i + 3) * BLOCK - 7, MESSAGE / 2 };
		messages[i].msg_hdr.msg_iov = &iov[i];
		messages[i].msg_hdr.msg_iovlen = 1;
	}
	messages[1].msg_hdr.msg_control = control;
	messages[1].msg_hdr.msg_controllen = sizeof(control);
	part = CMSG_FIRSTHDR(&messages[1].msg_hdr);
	part->cmsg_level = SOL_SOCKET;
	part->cmsg_type = SCM_RIGHTS;
	part->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(part), &file.fd, sizeof(int));
	assert_int_equal(sendmmsg(pair[0], messages, 3, 0), 3);
	for (i = 0; i < 3; i++) {
		got.msg_controllen = sizeof(control);
		assert_int_equal(messages[i].msg_len, MESSAGE / 2);
		assert_int_equal(recvmsg(pair[1], &got, 0), MESSAGE / 2);
		check(bytes, MESSAGE / 2, (size_t)(2 * i + 3) * BLOCK - 7);
		part = CMSG_FIRSTHDR(&got);
		assert_int_equal(!!part, i == 1);
		if (!part)
			continue;
		memcpy(&fd, CMSG_DATA(part), sizeof(int));
		close(fd);
	}
	/* One message from more blocks than the pool holds, and larger than a copy is. */
	assert_int_equal(setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room)), 0);
	for (i = 0; i < 9; i++)
		wide[i] = (struct iovec){ addr + (size_t)(i + 1) * BLOCK - 5, 2 * MESSAGE / 3 };
	assert_int_equal(writev(pair[0], wide, 9), 6 * MESSAGE);
	assert_int_equal(recv(pair[1], bytes, 7 * MESSAGE, 0), 6 * MESSAGE);
	for (i = 0; i < 9; i++)
		check(bytes + (size_t)i * 2 * MESSAGE / 3, 2 * MESSAGE / 3,
		      (size_t)(i + 1) * BLOCK - 5);
	close(pair[0]);
	close(pair[1]);
	free(bytes);
	map_end(&file, addr, LARGE);
}

static void test_vmsplice_and_other_processes(void **state)
{
	unsigned char *bytes = malloc(LARGE);
	struct file file;
	char *addr = map_new(&file, LARGE);
	struct iovec iov = { addr + 9 * BLOCK, 5 * PAGE };
	struct iovec from = { addr + 100, LARGE - 100 };
	struct iovec to[2] = { { bytes, 7777 }, { bytes + 7777, LARGE - 7877 } };
	int pipes[2];

	assert_int_equal(pipe(pipes), 0);
	assert_int_equal(vmsplice(pipes[1], &iov, 1, 0), 5 * PAGE);
	assert_int_equal(read(pipes[0], bytes, 5 * PAGE), 5 * PAGE);
	check(bytes, 5 * PAGE, 9 * BLOCK);
	assert_int_equal(process_vm_writev(getpid(), &from, 1, to, 2, 0), LARGE - 100);
	check(bytes, LARGE - 100, 100);
	close(pipes[0]);
	close(pipes[1]);
	free(bytes);
	map_end(&file, addr, LARGE);
}

/* What ends a call for other reasons still does, and is told. */
static void test_short_counts(void **state)
{
	const size_t whole = (LARGE + PAGE - 1) & ~(PAGE - 1);
	unsigned char *bytes = malloc(BLOCK), zeros[PAGE] = { 0 };
	int out = temporary(0), pipes[2];
	struct file file;
	char *addr;
	ssize_t n;

	file_new(&file, LARGE);
	addr = map_length(&file, LARGE + 3 * PAGE);
	/* The last page is whole, and zero behind the end of the file: as a copy ... */
	assert_int_equal(pwrite(out, addr + 1, whole + PAGE, 0), whole - 1);
	check_file(out, 0, LARGE - 1, 1);
	assert_int_equal(pread(out, bytes, whole - LARGE, LARGE - 1), whole - LARGE);
	assert_memory_equal(bytes, zeros, whole - LARGE);
	assert_int_equal(pipe2(pipes, O_NONBLOCK), 0);
	n = write(pipes[1], addr + 5 * BLOCK, BLOCK);
	assert_int_equal(n, fcntl(pipes[1], F_GETPIPE_SZ));
	assert_int_equal(read(pipes[0], bytes, (size_t)n), n);
	check(bytes, (size_t)n, 5 * BLOCK);
	/* ... and as it is. */
	assert_int_equal(write(out, addr + whole - 2 * PAGE, 4 * PAGE), 2 * PAGE);
	check_file(out, 0, LARGE - (whole - 2 * PAGE), whole - 2 * PAGE);
	assert_int_equal(pread(out, bytes, whole - LARGE, LARGE - (off_t)(whole - 2 * PAGE)),
			 whole - LARGE);
	assert_memory_equal(bytes, zeros, whole - LARGE);
	assert_true(write(out, addr + whole, PAGE) < 0 && errno == EFAULT);
	assert_true(write(-1, addr, PAGE) < 0 && errno == EBADF);
	assert_int_equal(write(out, addr + 3, 0), 0);
	close(out);
	close(pipes[0]);
	close(pipes[1]);
	free(bytes);
	map_end(&file, addr, LARGE + 3 * PAGE);
}

static void test_stdio(void **state)
{
	FILE *stream = fdopen(temporary(0), "w+");
	struct file file;
	char *addr = map_new(&file, LARGE);

	assert_non_null(stream);
	assert_int_equal(fwrite(addr, 1000, LARGE / 1000, stream), LARGE / 1000);
	assert_int_equal(fwrite(addr + 5, 1, 3 * BLOCK, stream), 3 * BLOCK);
	assert_int_equal(fwrite(addr, 0, 9, stream), 0);
	assert_int_equal(fflush(stream), 0);
	check_file(fileno(stream), 0, LARGE / 1000 * 1000, 0);
	check_file(fileno(stream), LARGE / 1000 * 1000, 3 * BLOCK, 5);
	fclose(stream);
	/* A failure is told. */
	stream = fopen("/dev/full", "w");
	assert_int_not_equal(fwrite(addr, BLOCK, 1, stream), 1);
	assert_true(ferror(stream));
	fclose(stream);
	map_end(&file, addr, LARGE);
}

/* A file that is one long string, of which nothing is in the pool. */
static void test_text(void **state)
{
	FILE *stream = fdopen(temporary(0), "w+");
	int out = temporary(0), saved;
	char *text = malloc(LARGE), *again = malloc(LARGE + 1), *addr;
	struct file file;

	memset(text, 'x', LARGE - 1);
	text[LARGE - 1] = '\0';
	text[3 * BLOCK] = 'y';
	file_new(&file, PAGE);
	assert_int_equal(pwrite(file.fd, text, LARGE, 0), LARGE);
	addr = map_length(&file, LARGE);
	assert_true(fputs(addr, stream) >= 0);
	assert_int_equal(fflush(stream), 0);
	assert_int_equal(pread(fileno(stream), again, LARGE + 1, 0), LARGE - 1);
	assert_memory_equal(again, text, LARGE - 1);
	assert_true(dprintf(out, "%s", addr) == (int)LARGE - 1);
	assert_int_equal(pread(out, again, LARGE + 1, 0), LARGE - 1);
	assert_memory_equal(again, text, LARGE - 1);
	assert_int_equal(ftruncate(out, 0), 0);
	assert_int_equal(lseek(out, 0, SEEK_SET), 0);
	fflush(stdout);
	saved = dup(STDOUT_FILENO);
	dup2(out, STDOUT_FILENO);
	puts(addr);
	fflush(stdout);
	dup2(saved, STDOUT_FILENO);
	close(saved);
	assert_int_equal(pread(out, again, LARGE + 1, 0), LARGE);
	assert_memory_equal(again, text, LARGE - 1);
	assert_int_equal(again[LARGE - 1], '\n');
	fclose(stream);
	close(out);
	free(text);
	free(again);
	map_end(&file, addr, LARGE);
}

static void test_populate(void **state)
{
	struct file file;
	char *addr = map_new(&file, LARGE);

	assert_int_equal(madvise(addr + BLOCK, BLOCK, MADV_POPULATE_READ), 0);
	check((unsigned char *)addr + BLOCK, BLOCK, BLOCK);
	munmap(addr, LARGE);
	addr = mmap(NULL, LARGE + 3 * PAGE, PROT_READ, MAP_SHARED | MAP_POPULATE, file.fd, 0);
	assert_int_equal(rung_of(addr), RUN_ENGINE);
	assert_true(madvise(addr + BLOCK, 9 * BLOCK + 4 * PAGE, MADV_POPULATE_READ) < 0);
	assert_int_equal(errno, EFAULT);
	check((unsigned char *)addr, LARGE, 0);
	map_end(&file, addr, LARGE + 3 * PAGE);
}

/* --- others that use the mapping meanwhile --- */

struct toucher {
	pthread_t thread;
	const volatile unsigned char *addr;
	unsigned int seed;
	atomic_bool *stop;
	bool wrong;
};

static void *touch_about(void *arg)
{
	struct toucher *toucher = arg;

	while (!atomic_load(toucher->stop)) {
		size_t at = (size_t)rand_r(&toucher->seed) % LARGE;

		toucher->wrong |= toucher->addr[at] != byte_of(at);
	}
	return NULL;
}

/* Pages go at any moment: also those that were just brought in for a call. */
static void test_beside_other_threads(void **state)
{
	struct toucher touchers[2];
	int out = temporary(0), i;
	atomic_bool stop = false;
	struct file file;
	char *addr = map_new(&file, LARGE);

	for (i = 0; i < 2; i++) {
		touchers[i] = (struct toucher){
			.addr = (unsigned char *)addr,
			.seed = (unsigned int)i,
			.stop = &stop,
		};
		assert_int_equal(
			pthread_create(&touchers[i].thread, NULL, touch_about, &touchers[i]), 0);
	}
	for (i = 0; i < 40; i++) {
		size_t from = (size_t)i * 500009 % (8 * BLOCK), n = (size_t)(i % 4 + 1) * 511111;

		assert_int_equal(pwrite(out, addr + from, n, 0), n);
		check_file(out, 0, n, from);
	}
	atomic_store(&stop, true);
	for (i = 0; i < 2; i++) {
		pthread_join(touchers[i].thread, NULL);
		assert_false(touchers[i].wrong);
	}
	close(out);
	map_end(&file, addr, LARGE);
}

/* --- what is the kernel's --- */

static void test_what_is_written_to_is_the_kernels(void **state)
{
	int out = temporary(0);
	struct file file;
	char *addr;

	file_new(&file, SIZE);
	addr = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, file.fd, 0);
	assert_true(addr != MAP_FAILED);
	assert_int_not_equal(rung_of(addr), RUN_ENGINE);
	assert_non_null(strstr(why_of(addr), "--user-mode"));
	munmap(addr, SIZE);
	addr = map_settled(&file);
	close(file.fd);
	file.fd = open(file.path, O_RDWR | O_CLOEXEC); /* the lease ends here */
	assert_true(file.fd >= 0);
	assert_int_not_equal(rung_of(addr), RUN_ENGINE);
	assert_int_equal(write(out, addr, SIZE), SIZE);
	check_file(out, 0, SIZE, 0);
	munmap(addr, SIZE);
	close(out);
	file_end(&file);
}

/* The last test: it is not forgotten. */
static void test_io_uring_is_not_seen(void **state)
{
	int out = temporary(0);
	struct file file;
	char *addr = map_new(&file, LARGE), *other;

	assert_true(syscall(SYS_io_uring_setup, 0, NULL) < 0);
	assert_int_not_equal(rung_of(addr), RUN_ENGINE);
	assert_non_null(strstr(why_of(addr), "io_uring"));
	assert_int_equal(write(out, addr, LARGE), LARGE);
	check_file(out, 0, LARGE, 0);
	other = mmap(NULL, LARGE, PROT_READ, MAP_SHARED, file.fd, 0);
	assert_int_not_equal(rung_of(other), RUN_ENGINE);
	munmap(addr, LARGE);
	munmap(other, LARGE);
	close(out);
	file_end(&file);
}

/* Without the option: the kernel's, and it is said what would help. */
static void test_refused(void **state)
{
	int out = temporary(0);
	struct file file;
	char *addr;

	file_new(&file, SIZE);
	close(file.fd);
	file.fd = open(file.path, O_RDONLY | O_CLOEXEC);
	addr = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, file.fd, 0);
	assert_true(addr != MAP_FAILED);
	assert_int_not_equal(rung_of(addr), RUN_ENGINE);
	assert_non_null(strstr(why_of(addr), "--user-mode"));
	assert_int_equal(write(out, addr, SIZE), SIZE);
	check_file(out, 0, SIZE, 0);
	munmap(addr, SIZE);
	close(out);
	file_end(&file);
}

/* --- who we are --- */

/* Why the tests say nothing here, or NULL. */
static const char *unsuited(void)
{
	const char *dir = getenv("HM_TEST_DIR");
	int fd;

	if (access(dir ? dir : "/var/tmp", W_OK | X_OK))
		return "this user may not make files where tests put theirs";
	fd = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
	if (fd >= 0)
		return "/dev/userfaultfd is open to this user";
	fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	if (fd >= 0)
		return "this user may handle all faults";
	fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
	if (fd < 0)
		return "this user may not handle faults at all";
	close(fd);
	return NULL;
}

static void become_nobody(void)
{
	if (geteuid())
		return;
	if (setgroups(0, NULL) || setresgid(NOBODY, NOBODY, NOBODY) ||
	    setresuid(NOBODY, NOBODY, NOBODY) || prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)) {
		perror("another user");
		exit(1);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_loads),
		cmocka_unit_test(test_write_and_pwrite),
		cmocka_unit_test(test_direct),
		cmocka_unit_test(test_lists),
		cmocka_unit_test(test_streams_of_bytes),
		cmocka_unit_test(test_messages),
		cmocka_unit_test(test_vmsplice_and_other_processes),
		cmocka_unit_test(test_short_counts),
		cmocka_unit_test(test_stdio),
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_populate),
		cmocka_unit_test(test_beside_other_threads),
		cmocka_unit_test(test_what_is_written_to_is_the_kernels),
		cmocka_unit_test(test_io_uring_is_not_seen),
	};
	const struct CMUnitTest refused[] = { cmocka_unit_test(test_refused) };
	const char *why;

	become_nobody();
	why = unsuited();
	if (why) {
		printf("skipped: %s\n", why);
		return 77;
	}
	if (getenv("HM_TEST_ONLY"))
		cmocka_set_test_filter(getenv("HM_TEST_ONLY"));
	if (argc > 1 && !strcmp(argv[1], "refused"))
		return cmocka_run_group_tests(refused, NULL, NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
