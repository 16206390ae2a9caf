// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "common.h"

#include <dirent.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static char path[300];

int new_group(void **state)
{
	const char *dir = getenv("HM_TEST_DIR") ?: "/var/tmp";
	unsigned char *block = malloc(MB);
	size_t i;
	int fd;

	snprintf(path, sizeof(path), "%s/hugemap-steer-XXXXXX", dir);
	fd = mkstemp(path);
	if (fd < 0 || !block)
		return -1;
	for (i = 0; i < SIZE / MB; i++) {
		memset(block, (int)i + 1, MB);
		if (write(fd, block, MB) != (ssize_t)MB)
			return -1;
	}
	free(block);
	return fsync(fd) || close(fd);
}

int end_group(void **state)
{
	return unlink(path);
}

int open_file(int flags)
{
	int fd = open(path, flags | O_CLOEXEC);

	CHECK(fd >= 0);
	return fd;
}

unsigned char byte_of(size_t offset)
{
	return (unsigned char)(offset / MB + 1);
}

void forget_cached(int fd)
{
	CHECK(!fdatasync(fd) && !posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED));
}

void *map_file(int fd, int prot, int flags)
{
	char *at = mmap(NULL, SIZE, prot, flags, fd, 0);

	CHECK(at != MAP_FAILED);
	steer_mapped(at, SIZE, prot, flags, 0);
	return at;
}

void unmap_file(void *at)
{
	steer_unmapping(at, SIZE);
	CHECK(!munmap(at, SIZE));
}

void in_order(volatile char *at, size_t size, bool store)
{
	size_t i;

	for (i = 0; i < size; i += PAGE) {
		if (store)
			at[i] = (char)byte_of(i);
		else
			CHECK((unsigned char)at[i] == byte_of(i));
		if (i % MB == 0)
			nap();
	}
}

void filter_advice(unsigned int advice, unsigned int answer)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, advice, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, answer),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { .len = sizeof(code) / sizeof(*code), .filter = code };

	CHECK(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	CHECK(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
}

bool filter_all_threads(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getrusage, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	struct sock_fprog program = { .len = sizeof(code) / sizeof(*code), .filter = code };

	return !syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
}

void nap(void)
{
	const struct timespec time = { .tv_nsec = 1000000 };

	nanosleep(&time, NULL);
}

int threads_now(void)
{
	DIR *dir = opendir("/proc/self/task");
	int n = -2; /* . and .. */

	CHECK(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

bool has_flag(const void *at, const char *flag)
{
	FILE *file = fopen("/proc/self/smaps", "re");
	bool here = false, found = false;
	unsigned long start, end;
	char line[512];

	CHECK(file);
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
			here = start <= (unsigned long)at && (unsigned long)at < end;
		else if (here && !strncmp(line, "VmFlags:", 8))
			found = strstr(line, flag);
	}
	fclose(file);
	return found;
}

const struct steer_map *told_of(const void *at)
{
	const struct steer_page *page = steer_own_page();
	uint32_t i;

	for (i = 0; page && i < STEER_PAGE_MAPS; i++)
		if (page->maps[i].id && !page->maps[i].ended &&
		    page->maps[i].start == (uintptr_t)at)
			return &page->maps[i];
	return NULL;
}

bool has_pattern(const void *at, unsigned int pattern)
{
	const struct steer_map *told = told_of(at);

	return told && told->pattern == pattern;
}

void in_child(void (*test)(void))
{
	pid_t child = fork();
	int status = 0;

	assert_true(child >= 0);
	if (!child) {
		alarm(300);
		steer_configure(&(struct steer_settings){ .least = 16 * MB });
		test();
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}
