// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Descriptors and mappings of the same file, in one process. */
#include "common.h"

#include <signal.h>
#include <sys/sendfile.h>
#include <sys/time.h>
#include <sys/uio.h>

static void test_a_file_that_is_only_read(void **state)
{
	struct file file;
	char *addr, *tail;
	size_t at;

	file_new(&file, SIZE);
	addr = map_settled(&file);
	for (at = 0; at < SIZE; at++)
		if ((unsigned char)addr[at] != byte_of(at))
			fail_msg("byte %zu is wrong", at);
	tail = mmap(NULL, SIZE - BLOCK - PAGE, PROT_READ, MAP_PRIVATE, file.fd, BLOCK + PAGE);
	assert_int_equal(rung_of(tail), RUN_ENGINE);
	assert_int_equal((unsigned char)tail[77], byte_of(BLOCK + PAGE + 77));
	assert_int_equal(munmap(tail, SIZE - BLOCK - PAGE), 0);
	assert_int_equal(munmap(addr, SIZE), 0);
	assert_int_equal(signal_of_read(addr), SIGSEGV);
	file_end(&file);
}

/* Broken by: leaving any of these calls to the kernel. */
static void test_all_ways_to_write_are_seen(void **state)
{
	struct iovec iov[2] = { { "ab", 2 }, { "cde", 3 } };
	struct file file;
	int append, copy;
	off_t from = 7, to;
	char *addr;

	file_new(&file, SIZE);
	addr = map_live(&file);
	addr[0] = 1; /* cached, so that what the kernel writes would not be seen */
	addr[BLOCK] = 1;
	assert_int_equal(pwrite(file.fd, "one", 3, 100), 3);
	assert_memory_equal(addr + 100, "one", 3);
	assert_int_equal(lseek(file.fd, 200, SEEK_SET), 200);
	assert_int_equal(write(file.fd, "two", 3), 3);
	assert_int_equal(writev(file.fd, iov, 2), 5);
	assert_memory_equal(addr + 200, "twoabcde", 8);
	assert_int_equal(lseek(file.fd, 0, SEEK_CUR), 208);
	assert_int_equal(pwritev(file.fd, iov, 2, 300), 5);
	assert_memory_equal(addr + 300, "abcde", 5);
	assert_int_equal(pwritev2(file.fd, iov, 2, 400, RWF_DSYNC), 5);
	assert_memory_equal(addr + 400, "abcde", 5);
	assert_true(dprintf(file.fd, "%s", "formatted") == 9);
	assert_memory_equal(addr + 208, "formatted", 9);
	append = open(file.path, O_WRONLY | O_APPEND);
	assert_int_equal(write(append, "end", 3), 3);
	assert_memory_equal(addr + SIZE, "end", 3);
	copy = open("/proc/self/exe", O_RDONLY);
	assert_int_equal(lseek(file.fd, BLOCK, SEEK_SET), BLOCK);
	assert_int_equal(sendfile(file.fd, copy, NULL, 4), 4);
	assert_memory_equal(addr + BLOCK, "\177ELF", 4);
	to = BLOCK + 50;
	assert_int_equal(copy_file_range(file.fd, &from, file.fd, &to, 10, 0), 10);
	assert_memory_equal(addr + BLOCK + 50, addr + 7, 10);
	assert_int_equal(rung_of(addr), RUN_ENGINE);
	munmap(addr, SIZE);
	close(append);
	close(copy);
	file_end(&file);
}

static void test_stores_are_seen_by_all_ways_to_read(void **state)
{
	char bytes[32], more[8];
	struct iovec iov[2] = { { bytes, 3 }, { more, 3 } };
	int pipes[2], copy, direct;
	struct file file;
	off_t from = 1000;
	char *addr;

	file_new(&file, SIZE);
	addr = map_live(&file);
	memcpy(addr + 1000, "stored", 6);
	assert_int_equal(pread(file.fd, bytes, 6, 1000), 6);
	assert_memory_equal(bytes, "stored", 6);
	lseek(file.fd, 1000, SEEK_SET);
	assert_int_equal(read(file.fd, bytes, 2), 2);
	assert_int_equal(readv(file.fd, iov, 2), 6);
	assert_memory_equal(bytes, "ore", 3);
	assert_int_equal(preadv(file.fd, iov, 2, 1000), 6);
	assert_memory_equal(more, "red", 3);
	memset(bytes, 0, sizeof(bytes));
	assert_int_equal(preadv2(file.fd, iov, 2, 1000, 0), 6);
	assert_memory_equal(bytes, "sto", 3);
	direct = open(file.path, O_RDONLY | O_DIRECT);
	assert_int_equal(pread(direct, bytes, 6, 1000), 6);
	assert_memory_equal(bytes, "stored", 6);
	assert_int_equal(pipe(pipes), 0);
	memcpy(addr + 1000, "spliced", 7);
	assert_int_equal(splice(file.fd, &from, pipes[1], NULL, 7, 0), 7);
	assert_int_equal(read(pipes[0], bytes, 7), 7);
	assert_memory_equal(bytes, "spliced", 7);
	memcpy(addr + 1000, "sendfil", 7);
	from = 1000;
	assert_int_equal(sendfile(pipes[1], file.fd, &from, 7), 7);
	assert_int_equal(read(pipes[0], bytes, 7), 7);
	assert_memory_equal(bytes, "sendfil", 7);
	copy = memfd_create("copy", 0);
	memcpy(addr + 1000, "copied", 6);
	from = 1000;
	assert_int_equal(sendfile(copy, file.fd, &from, 6), 6);
	assert_int_equal(pread(copy, bytes, 6, 0), 6);
	assert_memory_equal(bytes, "copied", 6);
	assert_int_equal(rung_of(addr), RUN_ENGINE);
	munmap(addr, SIZE);
	close(copy);
	close(direct);
	close(pipes[0]);
	close(pipes[1]);
	file_end(&file);
}

static void test_the_length_and_holes(void **state)
{
	struct file file;
	char *addr;

	file_new(&file, SIZE);
	addr = map_live(&file);
	addr[3 * BLOCK] = 'x';
	assert_int_equal(ftruncate(file.fd, BLOCK + 100), 0);
	assert_int_equal(signal_of_read(addr + 3 * BLOCK), SIGBUS);
	assert_int_equal(ftruncate(file.fd, SIZE), 0);
	assert_int_equal(addr[3 * BLOCK], 0);
	assert_int_equal(addr[BLOCK + 100], 0);
	assert_int_equal((unsigned char)addr[BLOCK + 99], byte_of(BLOCK + 99));
	assert_int_equal(fallocate(file.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 50, PAGE),
			 0);
	assert_int_equal(addr[50], 0);
	assert_int_equal((unsigned char)addr[49], byte_of(49));
	addr[2 * BLOCK] = 'd';
	assert_int_equal(lseek(file.fd, 2 * BLOCK - PAGE, SEEK_DATA), 2 * BLOCK);
	assert_int_equal(fallocate(file.fd, 0, SIZE, PAGE), 0);
	assert_int_equal(lseek(file.fd, 0, SEEK_END), SIZE + PAGE);
	assert_int_equal(rung_of(addr), RUN_ENGINE);
	assert_int_equal(fallocate(file.fd, FALLOC_FL_ZERO_RANGE, 0, 60), 0);
	assert_int_equal(rung_of(addr), RUN_PLAIN);
	assert_int_equal(addr[20], 0);
	munmap(addr, SIZE);
	file_end(&file);
}

/* Broken by: copying to or from memory that the engine serves under its locks. */
static void test_from_a_mapping_to_itself(void **state)
{
	struct file file;
	char *addr;

	file_new(&file, SIZE);
	addr = map_live(&file);
	assert_int_equal(pread(file.fd, addr + BLOCK, BLOCK, 10), BLOCK);
	assert_int_equal((unsigned char)addr[BLOCK + 5], byte_of(15));
	assert_int_equal(pwrite(file.fd, addr, 3 * BLOCK, BLOCK / 2), 3 * BLOCK);
	assert_int_equal((unsigned char)addr[BLOCK / 2 + 9], byte_of(9));
	assert_int_equal(rung_of(addr), RUN_ENGINE);
	munmap(addr, SIZE);
	file_end(&file);
}

static void test_errors_are_the_kernels(void **state)
{
	struct file file;
	char *volatile bad = (char *)8;
	int reading;
	char *addr, byte;

	file_new(&file, SIZE);
	addr = map_live(&file);
	reading = open(file.path, O_RDONLY);
	errno = 0;
	assert_int_equal(pwrite(reading, "x", 1, 0), -1);
	assert_int_equal(errno, EBADF);
	assert_int_equal(pread(file.fd, bad, 100, 0), -1);
	assert_int_equal(errno, EFAULT);
	assert_int_equal(pwrite(file.fd, bad, 100, 0), -1);
	assert_int_equal(errno, EFAULT);
	addr[0] = 'x'; /* from now on the engine does the copying */
	bad = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_int_equal(pwrite(file.fd, bad, 100, 0), 100);
	assert_int_equal(pread(file.fd, bad, 100, 0), -1);
	assert_int_equal(errno, EFAULT);
	assert_int_equal(mprotect(bad, PAGE, PROT_NONE), 0);
	assert_int_equal(pwrite(file.fd, bad, 100, 0), -1);
	assert_int_equal(errno, EFAULT);
	munmap(bad, PAGE);
	assert_int_equal(pread(file.fd, &byte, 1, -5), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ftruncate(file.fd, -1), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(pread(file.fd, &byte, 1, 100 * BLOCK), 0);
	assert_int_equal(msync(addr + 1, PAGE, MS_SYNC), -1);
	assert_int_equal(errno, EINVAL);
	munmap(addr, SIZE);
	close(reading);
	file_end(&file);
}

/* Broken by: not looking for streams, or not at the opening of one. */
static void test_streams_of_the_c_library(void **state)
{
	struct file file;
	FILE *stream;
	char *addr;

	file_new(&file, SIZE);
	addr = map_live(&file);
	addr[5] = 'a';
	stream = fopen(file.path, "r+");
	assert_int_equal(rung_of(addr), RUN_PLAIN);
	fseek(stream, 5, SEEK_SET);
	assert_int_equal(fgetc(stream), 'a');
	fseek(stream, 7, SEEK_SET);
	fputc('b', stream);
	fflush(stream);
	assert_int_equal(addr[7], 'b');
	munmap(addr, SIZE);
	addr = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, file.fd, 0);
	assert_int_not_equal(rung_of(addr), RUN_ENGINE);
	munmap(addr, SIZE);
	fclose(stream);
	addr = map_live(&file);
	munmap(addr, SIZE);
	file_end(&file);
}

/* Broken by: forgetting what a number meant before it was closed. */
static void test_descriptors_come_and_go(void **state)
{
	struct file file, other;
	int copies[3], i;
	char *addr;

	file_new(&file, SIZE);
	file_new(&other, SIZE);
	addr = map_live(&file);
	addr[0] = 0;
	/* The number is known as another file's, then it is this one's. */
	copies[0] = dup(other.fd);
	assert_int_equal(pwrite(copies[0], "0", 1, 0), 1);
	assert_int_equal(dup2(file.fd, copies[0]), copies[0]);
	copies[1] = fcntl(file.fd, F_DUPFD, 30);
	copies[2] = dup3(file.fd, 60, O_CLOEXEC);
	for (i = 0; i < 3; i++) {
		char text[2] = { (char)('a' + i), 0 };

		assert_int_equal(pwrite(copies[i], text, 1, 0), 1);
		assert_int_equal(addr[0], text[0]);
	}
	close(copies[0]);
	assert_int_equal(open(other.path, O_RDWR), copies[0]);
	assert_int_equal(pwrite(copies[0], "o", 1, 0), 1);
	assert_int_equal(addr[0], 'c');
	close(file.fd); /* the mapping stays */
	addr[9] = 'z';
	assert_int_equal(pread(copies[1], &copies[0], 1, 9), 1);
	assert_int_equal(*(char *)&copies[0], 'z');
	assert_int_equal(rung_of(addr), RUN_ENGINE);
	munmap(addr, SIZE);
	for (i = 1; i < 3; i++)
		close(copies[i]);
	file_end(&file);
	file_end(&other);
}

/* Broken by: a close() that knows the engine's descriptors. */
static void test_closing_everything_harms_nobody(void **state)
{
	struct file file;
	int fd, gate[2];
	pid_t pid;

	file_new(&file, SIZE);
	assert_int_equal(pipe(gate), 0);
	fflush(NULL);
	pid = fork();
	if (!pid) {
		char *addr;

		/* Only its own: what is open elsewhere is not served. */
		close(gate[1]);
		if (read(gate[0], &fd, 1) < 0)
			_exit(2);
		addr = map_live(&file);
		for (fd = 3; fd < 5000; fd++)
			close(fd);
		close_range(3, ~0u, 0);
		addr[3 * BLOCK] = 'k';
		_exit(addr[2 * BLOCK] == (char)byte_of(2 * BLOCK) ? 0 : 1);
	}
	close(file.fd);
	close(gate[0]);
	close(gate[1]);
	assert_int_equal(end_of(pid), 0);
	file.fd = open(file.path, O_RDWR | O_CLOEXEC);
	assert_int_equal(pread(file.fd, &fd, 1, 3 * BLOCK), 1);
	assert_int_equal(*(char *)&fd, 'k');
	file_end(&file);
}

/* Broken by: asking for a lease only, which an inherited descriptor does not stop. */
static void test_an_inherited_descriptor_is_another_user(void **state)
{
	struct file file;
	pid_t pid;
	char byte;

	file_new(&file, SIZE);
	fflush(NULL);
	pid = fork();
	if (!pid) {
		char *addr = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, file.fd, 0);

		addr[3 * BLOCK] = 'k';
		_exit(rung_of(addr) == RUN_ENGINE);
	}
	assert_int_equal(end_of(pid), 0);
	/* What it has stored is there as soon as it has ended. */
	assert_int_equal(pread(file.fd, &byte, 1, 3 * BLOCK), 1);
	assert_int_equal(byte, 'k');
	file_end(&file);
}

static struct file *signalled;
static volatile sig_atomic_t alarms;

static void on_alarm(int number)
{
	char byte;

	if (pwrite(signalled->fd, "s", 1, 123) == 1 && pread(signalled->fd, &byte, 1, 123) == 1)
		alarms++;
}

/* Broken by: locks that a signal handler would want again. */
static void test_calls_in_signal_handlers(void **state)
{
	const struct itimerval often = { { 0, 300 }, { 0, 300 } }, never = {};
	struct sigaction action = { .sa_handler = on_alarm, .sa_flags = SA_RESTART };
	struct file file;
	char *addr;
	size_t i;

	file_new(&file, SIZE);
	addr = map_live(&file);
	signalled = &file;
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	for (i = 0; alarms < 200 && i < 2000000; i++) {
		assert_int_equal(pwrite(file.fd, &i, 8, (off_t)(i % 1000 * PAGE)), 8);
		addr[i % SIZE] = 1;
	}
	setitimer(ITIMER_REAL, &never, NULL);
	assert_true(alarms >= 200);
	munmap(addr, SIZE);
	file_end(&file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_file_that_is_only_read),
		cmocka_unit_test(test_all_ways_to_write_are_seen),
		cmocka_unit_test(test_stores_are_seen_by_all_ways_to_read),
		cmocka_unit_test(test_the_length_and_holes),
		cmocka_unit_test(test_from_a_mapping_to_itself),
		cmocka_unit_test(test_errors_are_the_kernels),
		cmocka_unit_test(test_streams_of_the_c_library),
		cmocka_unit_test(test_descriptors_come_and_go),
		cmocka_unit_test(test_closing_everything_harms_nobody),
		cmocka_unit_test(test_an_inherited_descriptor_is_another_user),
		cmocka_unit_test(test_calls_in_signal_handlers),
	};

	return RUN(tests);
}
