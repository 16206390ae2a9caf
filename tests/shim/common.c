// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "common.h"

#include <dirent.h>
#include <signal.h>

static const struct run_page *page;
static pid_t page_pid;

/* Of this process: a child has its own. */
static void find_page(void)
{
	DIR *dir = opendir("/proc/self/fd");
	struct dirent *entry;

	assert_non_null(dir);
	page = NULL;
	while ((entry = readdir(dir))) {
		char link[64] = "";
		const struct run_page *found;
		int fd;

		if (readlinkat(dirfd(dir), entry->d_name, link, sizeof(link) - 1) < 0 ||
		    strncmp(link, "/memfd:" RUN_MEMFD_NAME, strlen("/memfd:" RUN_MEMFD_NAME)))
			continue;
		fd = atoi(entry->d_name);
		found = mmap(NULL, sizeof(*found), PROT_READ, MAP_SHARED, fd, 0);
		if (found != MAP_FAILED && found->pid == (uint32_t)getpid())
			page = found;
	}
	closedir(dir);
	page_pid = getpid();
}

const struct run_map *entry_of(const void *addr)
{
	uint32_t i;

	if (!page || page_pid != getpid())
		find_page();
	for (i = 0; page && i < RUN_MAPS; i++) {
		const struct run_map *map = &page->maps[i];

		if (map->rung != RUN_NONE && !map->ended && (uintptr_t)addr >= map->start &&
		    (uintptr_t)addr < map->start + map->bytes)
			return map;
	}
	return NULL;
}

enum run_rung rung_of(const void *addr)
{
	const struct run_map *map = entry_of(addr);

	return map ? (enum run_rung)map->rung : RUN_NONE;
}

const char *why_of(const void *addr)
{
	const struct run_map *map = entry_of(addr);

	return map ? map->why : "there is no entry";
}

/* --- files --- */

unsigned char byte_of(size_t offset)
{
	return (unsigned char)(offset * 2654435761u >> 13 ^ offset >> 20);
}

void file_new(struct file *file, size_t size)
{
	const char *dir = getenv("HM_TEST_DIR");
	unsigned char *bytes = malloc(size);
	size_t at;

	snprintf(file->path, sizeof(file->path), "%s/hugemap-shim-XXXXXX", dir ? dir : "/var/tmp");
	file->fd = mkostemp(file->path, O_CLOEXEC);
	assert_true(file->fd >= 0);
	for (at = 0; at < size; at++)
		bytes[at] = byte_of(at);
	assert_int_equal(pwrite(file->fd, bytes, size, 0), size);
	free(bytes);
}

void file_end(struct file *file)
{
	close(file->fd);
	unlink(file->path);
}

static char *map(const struct file *file, int prot)
{
	char *addr = mmap(NULL, SIZE, prot, MAP_SHARED, file->fd, 0);

	assert_true(addr != MAP_FAILED);
	if (rung_of(addr) != RUN_ENGINE)
		fail_msg("the engine does not serve it: %s", why_of(addr));
	return addr;
}

char *map_live(const struct file *file)
{
	return map(file, PROT_READ | PROT_WRITE);
}

char *map_settled(struct file *file)
{
	close(file->fd);
	file->fd = open(file->path, O_RDONLY | O_CLOEXEC);
	assert_true(file->fd >= 0);
	return map(file, PROT_READ);
}

/* --- another process --- */

struct message {
	enum order order;
	size_t at;
};

static int carry_out(const struct message *message, const char *path, int *fd)
{
	struct flock lock = {
		.l_type = F_WRLCK,
		.l_whence = SEEK_SET,
		.l_start = (off_t)message->at,
		.l_len = 1,
	};
	unsigned char byte = 'W';

	switch (message->order) {
	case OPEN_READ:
		*fd = open(path, O_RDONLY);
		return *fd < 0 ? -errno : 0;
	case OPEN_WRITE:
		*fd = open(path, O_RDWR);
		return *fd < 0 ? -errno : 0;
	case READ_BYTE:
		return pread(*fd, &byte, 1, (off_t)message->at) == 1 ? byte : -1;
	case WRITE_BYTE:
		return pwrite(*fd, &byte, 1, (off_t)message->at) == 1 ? 0 : -1;
	case TRY_LOCK:
		return fcntl(*fd, F_SETLK, &lock) == 0;
	case CLOSE:
		return close(*fd);
	case QUIT:
		_exit(0);
	}
	return -1;
}

void helper_start(struct helper *helper, const struct file *file)
{
	int to[2], from[2];

	assert_int_equal(pipe2(to, O_CLOEXEC), 0);
	assert_int_equal(pipe2(from, O_CLOEXEC), 0);
	fflush(NULL);
	helper->pid = fork();
	assert_true(helper->pid >= 0);
	if (!helper->pid) {
		struct message message;
		int fd = -1, result;

		close(to[1]);
		close(from[0]);
		close(file->fd);
		if (write(from[1], &fd, sizeof(fd)) != sizeof(fd))
			_exit(1);
		while (read(to[0], &message, sizeof(message)) == sizeof(message)) {
			result = carry_out(&message, file->path, &fd);
			if (write(from[1], &result, sizeof(result)) != sizeof(result))
				break;
		}
		_exit(0);
	}
	close(to[0]);
	close(from[1]);
	helper->to = to[1];
	helper->from = from[0];
	/* It has closed what it has inherited. */
	assert_int_equal(read(from[0], to, sizeof(int)), sizeof(int));
}

int helper_do(struct helper *helper, enum order order, size_t at)
{
	struct message message = { order, at };
	int result = -1;

	assert_int_equal(write(helper->to, &message, sizeof(message)), sizeof(message));
	assert_int_equal(read(helper->from, &result, sizeof(result)), sizeof(result));
	return result;
}

void helper_end(struct helper *helper)
{
	struct message message = { QUIT, 0 };

	assert_int_equal(write(helper->to, &message, sizeof(message)), sizeof(message));
	close(helper->to);
	close(helper->from);
	assert_int_equal(end_of(helper->pid), 0);
}

int end_of(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* --- signals --- */

static sigjmp_buf back;

static void caught(int number)
{
	siglongjmp(back, number);
}

int signal_of_read(const volatile char *addr)
{
	struct sigaction action = { .sa_handler = caught }, old_bus, old_segv;
	int number;

	sigaction(SIGBUS, &action, &old_bus);
	sigaction(SIGSEGV, &action, &old_segv);
	number = sigsetjmp(back, 1);
	if (!number)
		(void)*addr;
	sigaction(SIGBUS, &old_bus, NULL);
	sigaction(SIGSEGV, &old_segv, NULL);
	return number;
}

/* The shim must be there, and the engine work; else all is skipped. */
int run_group(const struct CMUnitTest *tests, size_t n)
{
	struct file file;
	char *addr;

	file_new(&file, SIZE);
	addr = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, file.fd, 0);
	if (addr == MAP_FAILED || rung_of(addr) != RUN_ENGINE) {
		printf("skipped: the engine cannot serve a file that is written to here: %s\n",
		       addr == MAP_FAILED ? strerror(errno) : why_of(addr));
		file_end(&file);
		return 77;
	}
	munmap(addr, SIZE);
	file_end(&file);
	return _cmocka_run_group_tests("tests", tests, n, NULL, NULL);
}
