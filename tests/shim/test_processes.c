// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Other processes: those that open the file, children, and other programs. */
#include "common.h"

#include <aio.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>

/* Broken by: not asking before somebody opens the file. */
static void test_another_process_reads(void **state)
{
	struct helper helper;
	struct file file;
	char *addr;

	file_new(&file, SIZE);
	helper_start(&helper, &file);
	addr = map_live(&file);
	addr[BLOCK] = 'a';
	addr[3 * BLOCK + 9] = 'b';
	assert_int_equal(helper_do(&helper, OPEN_READ, 0), 0);
	assert_int_equal(helper_do(&helper, READ_BYTE, BLOCK), 'a');
	assert_int_equal(helper_do(&helper, READ_BYTE, 3 * BLOCK + 9), 'b');
	assert_int_equal(rung_of(addr), RUN_PLAIN);
	addr[BLOCK] = 'c';
	assert_int_equal(helper_do(&helper, READ_BYTE, BLOCK), 'c');
	munmap(addr, SIZE);
	/* It has it open: the next mapping is not the engine's. */
	addr = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, file.fd, 0);
	assert_int_not_equal(rung_of(addr), RUN_ENGINE);
	addr[BLOCK] = 'd';
	assert_int_equal(helper_do(&helper, READ_BYTE, BLOCK), 'd');
	munmap(addr, SIZE);
	helper_end(&helper);
	addr = map_live(&file);
	munmap(addr, SIZE);
	file_end(&file);
}

/* Broken by: no lease, or one that is given up before the mapping steps down. */
static void test_another_process_writes_what_is_only_read(void **state)
{
	struct helper helper, reader;
	struct file file;
	char *addr;

	file_new(&file, SIZE);
	helper_start(&helper, &file);
	helper_start(&reader, &file);
	addr = map_settled(&file);
	assert_int_equal((unsigned char)addr[BLOCK], byte_of(BLOCK));
	assert_int_equal(helper_do(&reader, OPEN_READ, 0), 0);
	assert_int_equal(rung_of(addr), RUN_ENGINE);
	assert_int_equal(helper_do(&helper, OPEN_WRITE, 0), 0);
	assert_int_equal(rung_of(addr), RUN_ADVISED);
	assert_int_equal(helper_do(&helper, WRITE_BYTE, BLOCK), 0);
	assert_int_equal(addr[BLOCK], 'W');
	munmap(addr, SIZE);
	helper_end(&helper);
	helper_end(&reader);
	file_end(&file);
}

/* Broken by: a child that inherits what its parent's engine has not written. */
static void fork_by(pid_t (*make)(void))
{
	struct file file;
	char *addr;
	pid_t pid;

	file_new(&file, SIZE);
	addr = map_live(&file);
	addr[1] = 'p';
	fflush(NULL);
	pid = make();
	if (!pid) {
		char byte;

		if (addr[1] != 'p' || pread(file.fd, &byte, 1, 1) != 1 || byte != 'p')
			_exit(1);
		addr[2] = 'c';
		if (pwrite(file.fd, "d", 1, 3) != 1)
			_exit(2);
		_exit(0);
	}
	assert_int_equal(end_of(pid), 0);
	assert_memory_equal(addr + 1, "pcd", 3);
	assert_int_equal(rung_of(addr), RUN_PLAIN);
	munmap(addr, SIZE);
	file_end(&file);
}

static void test_fork(void **state)
{
	fork_by(fork);
	fork_by(_Fork);
}

static void test_fork_with_what_is_only_read(void **state)
{
	struct file file;
	char *addr;
	pid_t pid;

	file_new(&file, SIZE);
	addr = map_settled(&file);
	assert_int_equal((unsigned char)addr[1], byte_of(1));
	fflush(NULL);
	pid = fork();
	if (!pid) {
		int fd;

		if ((unsigned char)addr[BLOCK] != byte_of(BLOCK) || rung_of(addr) == RUN_ENGINE)
			_exit(1);
		/* Its parent is in its way only until it has stepped down. */
		fd = open(file.path, O_RDWR);
		if (fd < 0 || pwrite(fd, "n", 1, 5) != 1 || addr[5] != 'n')
			_exit(2);
		_exit(0);
	}
	assert_int_equal(rung_of(addr), RUN_ENGINE);
	assert_int_equal(end_of(pid), 0);
	assert_int_equal(addr[5], 'n');
	munmap(addr, SIZE);
	file_end(&file);
}

extern char **environ;

static int spawn_and_look(const char *path, size_t at, char expected)
{
	char command[512];
	char *argv[4] = { "sh", "-c", command };
	pid_t pid;

	snprintf(command, sizeof(command),
		 "[ \"$(dd if=%s bs=1 skip=%zu count=1 2>/dev/null)\" = %c ]", path, at, expected);
	assert_int_equal(posix_spawn(&pid, "/bin/sh", NULL, NULL, argv, environ), 0);
	return end_of(pid);
}

/* Programs that a child executes do not have the file, unless they open it. */
static void test_other_programs(void **state)
{
	struct file file;
	char *addr;
	pid_t pid;

	file_new(&file, SIZE);
	addr = map_live(&file);
	addr[BLOCK] = 'e';
	assert_int_equal(system("true"), 0);
	pid = vfork();
	if (!pid) {
		execl("/bin/true", "true", NULL);
		_exit(1);
	}
	assert_int_equal(end_of(pid), 0);
	assert_int_equal(rung_of(addr), RUN_ENGINE);
	assert_int_equal(spawn_and_look(file.path, BLOCK, 'e'), 0);
	assert_int_equal(rung_of(addr), RUN_PLAIN);
	munmap(addr, SIZE);
	/* A descriptor that another program gets. */
	addr = map_live(&file);
	fcntl(file.fd, F_SETFD, 0);
	assert_int_equal(system("true"), 0);
	assert_int_equal(rung_of(addr), RUN_PLAIN);
	munmap(addr, SIZE);
	file_end(&file);
}

/* A thread whose child by vfork() has the file, and waits before it executes a program. */
struct vforker {
	struct file *file;
	bool copy; /* its descriptor is a copy that it has made itself */
	int ready[2], go[2];
	int end; /* of the program: 0 if it has read a 'v' */
};

#define COPY 9 /* shells know no others than those of one digit */

static void *vfork_and_wait(void *arg)
{
	struct vforker *v = arg;
	char command[128], byte = 'r';
	pid_t pid;

	snprintf(command, sizeof(command),
		 "[ \"$(dd bs=1 skip=%zu count=1 <&%d 2>/dev/null)\" = v ]", BLOCK,
		 v->copy ? COPY : v->file->fd);
	pid = vfork();
	if (!pid) {
		if (v->copy)
			dup2(v->file->fd, COPY);
		if (write(v->ready[1], &byte, 1) == 1 && read(v->go[0], &byte, 1) == 1)
			execl("/bin/sh", "sh", "-c", command, NULL);
		_exit(127);
	}
	v->end = end_of(pid);
	return NULL;
}

/* Broken by: serving a file that a child has, because it shares our memory still. */
static void test_a_file_is_mapped_before_a_child_executes(void **state)
{
	struct file file;
	int copy;

	for (copy = 0; copy < 2; copy++) {
		struct vforker v = { .file = &file, .copy = copy };
		pthread_t thread;
		char byte, *addr;

		file_new(&file, SIZE);
		if (!copy)
			fcntl(file.fd, F_SETFD, 0);
		assert_int_equal(pipe2(v.ready, O_CLOEXEC), 0);
		assert_int_equal(pipe2(v.go, O_CLOEXEC), 0);
		assert_int_equal(pthread_create(&thread, NULL, vfork_and_wait, &v), 0);
		assert_int_equal(read(v.ready[0], &byte, 1), 1);
		addr = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, file.fd, 0);
		assert_ptr_not_equal(addr, MAP_FAILED);
		addr[BLOCK] = 'v';
		assert_int_equal(write(v.go[1], "g", 1), 1);
		pthread_join(thread, NULL);
		assert_int_equal(v.end, 0);
		assert_int_not_equal(rung_of(addr), RUN_ENGINE);
		munmap(addr, SIZE);
		/* Once the child is gone, it can be served. */
		addr = map_live(&file);
		munmap(addr, SIZE);
		close(v.ready[0]);
		close(v.ready[1]);
		close(v.go[0]);
		close(v.go[1]);
		file_end(&file);
	}
}

/* Broken by: executing another program, or dying, before all is written. */
static void test_the_end_of_a_process(void **state)
{
	enum {
		EXEC,
		KILL,
		LEAVE,
		RETURN,
		WAYS
	};
	static const int statuses[WAYS] = { 0, 128 + SIGKILL, 0, 0 };
	char command[512];
	struct file file;
	int way;

	for (way = 0; way < WAYS; way++) {
		char byte;
		pid_t pid;
		size_t i;
		int fd;

		file_new(&file, SIZE);
		close(file.fd);
		fflush(NULL);
		pid = fork();
		if (!pid) {
			char *addr;

			file.fd = open(file.path, O_RDWR | O_CLOEXEC);
			addr = map_live(&file);
			for (i = 0; i < SIZE; i += PAGE)
				addr[i] = (char)('A' + way);
			snprintf(command, sizeof(command),
				 "[ \"$(dd if=%s bs=1 skip=%zu count=1 2>/dev/null)\" = A ]",
				 file.path, 3 * BLOCK);
			if (way == EXEC)
				execlp("sh", "sh", "-c", command, NULL);
			else if (way == KILL)
				kill(getpid(), SIGKILL);
			else if (way == LEAVE)
				_exit(0);
			exit(0);
		}
		assert_int_equal(end_of(pid), statuses[way]);
		/* Whoever opens it now finds all of it. */
		fd = open(file.path, O_RDONLY);
		for (i = 0; i < SIZE; i += PAGE)
			if (pread(fd, &byte, 1, (off_t)i) != 1 || byte != 'A' + way)
				fail_msg("way %d: byte %zu is %d", way, i, byte);
		close(fd);
		unlink(file.path);
	}
}

/* Broken by: closing any descriptor of the file. */
static void test_record_locks_stay(void **state)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 10 };
	struct helper helper;
	struct file file;
	char *addr;

	file_new(&file, SIZE);
	helper_start(&helper, &file);
	assert_int_equal(fcntl(file.fd, F_SETLK, &lock), 0);
	addr = map_live(&file);
	addr[1] = 'l';
	munmap(addr, SIZE);
	assert_int_equal(helper_do(&helper, OPEN_WRITE, 0), 0);
	assert_int_equal(helper_do(&helper, READ_BYTE, 1), 'l');
	assert_int_equal(helper_do(&helper, TRY_LOCK, 3), 0);
	assert_int_equal(helper_do(&helper, TRY_LOCK, 300), 1);
	helper_do(&helper, CLOSE, 0);
	addr = map_live(&file);
	assert_int_equal(helper_do(&helper, OPEN_WRITE, 0), 0); /* it steps down */
	assert_int_equal(helper_do(&helper, TRY_LOCK, 3), 0);
	lock.l_type = F_UNLCK;
	assert_int_equal(fcntl(file.fd, F_SETLK, &lock), 0);
	assert_int_equal(helper_do(&helper, TRY_LOCK, 3), 1);
	munmap(addr, SIZE);
	helper_end(&helper);
	file_end(&file);
}

static void test_a_descriptor_is_sent_away(void **state)
{
	char control[CMSG_SPACE(sizeof(int))] = {}, byte = 'x';
	struct iovec iov = { &byte, 1 };
	struct msghdr message = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	struct cmsghdr *part = CMSG_FIRSTHDR(&message);
	struct file file;
	int sockets[2];
	char *addr;

	file_new(&file, SIZE);
	addr = map_live(&file);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
	part->cmsg_level = SOL_SOCKET;
	part->cmsg_type = SCM_RIGHTS;
	part->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(part), &file.fd, sizeof(int));
	assert_int_equal(sendmsg(sockets[0], &message, 0), 1);
	assert_int_equal(rung_of(addr), RUN_PLAIN);
	munmap(addr, SIZE);
	close(sockets[0]);
	close(sockets[1]);
	file_end(&file);
}

/* The last one: from then on nothing that is written to is the engine's. */
static void test_asynchronous_io_is_not_seen(void **state)
{
	char byte;
	struct aiocb control = { .aio_buf = &byte, .aio_nbytes = 1, .aio_offset = 4 };
	const struct aiocb *list[] = { &control };
	struct file file;
	char *addr;

	file_new(&file, SIZE);
	addr = map_live(&file);
	addr[4] = 'i';
	control.aio_fildes = file.fd;
	assert_int_equal(aio_read(&control), 0);
	while (aio_error(&control) == EINPROGRESS)
		aio_suspend(list, 1, NULL);
	assert_int_equal(aio_return(&control), 1);
	assert_int_equal(byte, 'i');
	assert_int_equal(rung_of(addr), RUN_PLAIN);
	munmap(addr, SIZE);
	addr = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, file.fd, 0);
	assert_int_not_equal(rung_of(addr), RUN_ENGINE);
	munmap(addr, SIZE);
	addr = map_settled(&file); /* one that is only read is */
	munmap(addr, SIZE);
	file_end(&file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_another_process_reads),
		cmocka_unit_test(test_another_process_writes_what_is_only_read),
		cmocka_unit_test(test_fork),
		cmocka_unit_test(test_fork_with_what_is_only_read),
		cmocka_unit_test(test_other_programs),
		cmocka_unit_test(test_a_file_is_mapped_before_a_child_executes),
		cmocka_unit_test(test_the_end_of_a_process),
		cmocka_unit_test(test_record_locks_stay),
		cmocka_unit_test(test_a_descriptor_is_sent_away),
		cmocka_unit_test(test_asynchronous_io_is_not_seen),
	};

	return RUN(tests);
}
