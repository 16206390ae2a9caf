// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* The real Linux behind linux.h. */
#include "linux.h"

#include "uffd.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* What the C library answers, as the kernel does; errno is the program's. */
#define result_of(call)                                     \
	({                                                  \
		int saved_ = errno;                         \
		__typeof__(call) result_ = (call);          \
                                                            \
		if (result_ == -1)                          \
			result_ = (__typeof__(call))-errno; \
		errno = saved_;                             \
		result_;                                    \
	})

/*
 * A program that has closed its standard streams still writes to descriptor 2: into a file
 * of its own, if that is the number that we get.
 */
static int no_stream(int fd)
{
	int high;

	if (fd < 0 || fd > STDERR_FILENO)
		return fd;
	high = result_of(fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
	(void)result_of(close(fd));
	return high;
}

/* --- files ------------------------------------------------------------------------- */

int sys_open(const char *path, int flags)
{
	return no_stream(result_of(open(path, flags | O_CLOEXEC)));
}

void sys_close(int fd)
{
	(void)result_of(close(fd));
}

int sys_replace(int fd, int by)
{
	return result_of(dup3(by, fd, O_CLOEXEC));
}

ssize_t sys_read(int fd, void *buffer, size_t count)
{
	return result_of(read(fd, buffer, count));
}

ssize_t sys_write(int fd, const void *buffer, size_t count)
{
	return result_of(write(fd, buffer, count));
}

ssize_t sys_pread(int fd, void *buffer, size_t count, uint64_t offset)
{
	return result_of(pread(fd, buffer, count, (off_t)offset));
}

ssize_t sys_pwrite(int fd, const void *buffer, size_t count, uint64_t offset)
{
	return result_of(pwrite(fd, buffer, count, (off_t)offset));
}

int64_t sys_lseek(int fd, uint64_t offset, int whence)
{
	return result_of(lseek(fd, (off_t)offset, whence));
}

int sys_fstat(int fd, struct stat *st)
{
	return result_of(fstat(fd, st));
}

int sys_statx(int fd, unsigned int mask, struct statx *stx)
{
	return result_of(statx(fd, "", AT_EMPTY_PATH, mask, stx));
}

int sys_fcntl(int fd, int command, void *arg)
{
	return result_of(fcntl(fd, command, arg));
}

int sys_ioctl(int fd, unsigned long request, void *arg)
{
	int got = result_of(ioctl(fd, request, arg));

	return request == USERFAULTFD_IOC_NEW ? no_stream(got) : got;
}

int sys_ftruncate(int fd, uint64_t size)
{
	return result_of(ftruncate(fd, (off_t)size));
}

int sys_fallocate(int fd, int mode, uint64_t offset, uint64_t length)
{
	return result_of(fallocate(fd, mode, (off_t)offset, (off_t)length));
}

int sys_fdatasync(int fd)
{
	return result_of(fdatasync(fd));
}

int sys_memfd_create(const char *name)
{
	return no_stream(result_of(memfd_create(name, MFD_CLOEXEC)));
}

/* --- memory ------------------------------------------------------------------------ */

void *sys_mmap(void *at, size_t length, int prot, int flags, int fd, uint64_t offset)
{
	int saved = errno;
	void *got = mmap(at, length, prot, flags, fd, (off_t)offset);

	if (got == MAP_FAILED)
		got = (void *)(intptr_t)-errno;
	errno = saved;
	return got;
}

int sys_munmap(void *at, size_t length)
{
	return result_of(munmap(at, length));
}

int sys_madvise(void *at, size_t length, int advice)
{
	return result_of(madvise(at, length, advice));
}

int sys_mprotect(void *at, size_t length, int prot)
{
	return result_of(mprotect(at, length, prot));
}

int sys_munlock(const void *at, size_t length)
{
	return result_of(munlock(at, length));
}

int sys_mincore(void *at, size_t length, unsigned char *present)
{
	return result_of(mincore(at, length, present));
}

/* --- events, time ------------------------------------------------------------------ */

int sys_userfaultfd(int flags)
{
	return no_stream((int)result_of(syscall(SYS_userfaultfd, flags)));
}

int sys_eventfd(void)
{
	return no_stream(result_of(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)));
}

int sys_poll(struct pollfd *fds, unsigned int n, int timeout_ms)
{
	return result_of(poll(fds, n, timeout_ms));
}

uint64_t sys_clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

void sys_sleep_ns(uint32_t ns)
{
	const struct timespec pause = { .tv_nsec = ns };

	(void)result_of(nanosleep(&pause, NULL));
}

void sys_yield(void)
{
	sched_yield();
}

/* --- the machine and this process -------------------------------------------------- */

int sys_pid(void)
{
	return getpid();
}

unsigned int sys_cpus(void)
{
	long n = sysconf(_SC_NPROCESSORS_ONLN);

	return n < 1 ? 1 : (unsigned int)n;
}

static uint64_t read_number(const char *path, const char *after)
{
	FILE *file = fopen(path, "re");
	char line[256];
	uint64_t value = ~0ull;

	if (!file)
		return value;
	while (fgets(line, sizeof(line), file)) {
		if (strncmp(line, after, strlen(after)))
			continue;
		if (sscanf(line + strlen(after), "%" SCNu64, &value) != 1)
			value = ~0ull; /* "max" */
		break;
	}
	fclose(file);
	return value;
}

/* In one group: what it has of files, and used last long ago, makes room for others. */
static uint64_t room_here(const char *path, const char *limit_name, const char *usage_name,
			  const char *cache_name)
{
	char name[1200];
	uint64_t limit, usage, cache;

	snprintf(name, sizeof(name), "%s/%s", path, limit_name);
	limit = read_number(name, "");
	snprintf(name, sizeof(name), "%s/%s", path, usage_name);
	usage = read_number(name, "");
	snprintf(name, sizeof(name), "%s/memory.stat", path);
	cache = read_number(name, cache_name);
	if (limit == ~0ull || usage == ~0ull)
		return ~0ull;
	if (cache != ~0ull)
		usage -= cache < usage ? cache : usage;
	return limit > usage ? limit - usage : 0;
}

/* What the control group of this process, and those that it is in, may still use. */
static uint64_t group_room(const char *controller, const char *root, const char *limit_name,
			   const char *usage_name, const char *cache_name)
{
	FILE *file = fopen("/proc/self/cgroup", "re");
	char line[512], path[1024];
	uint64_t room = ~0ull, here;

	if (!file)
		return room;
	while (fgets(line, sizeof(line), file)) {
		char *names = strchr(line, ':');
		char *group = names ? strchr(names + 1, ':') : NULL;

		if (!group)
			continue;
		*group++ = '\0';
		group[strcspn(group, "\n")] = '\0';
		if (strcmp(names + 1, controller))
			continue;
		snprintf(path, sizeof(path), "%s%s", root, group);
		while (strlen(path) >= strlen(root)) {
			here = room_here(path, limit_name, usage_name, cache_name);
			room = here < room ? here : room;
			*strrchr(path, '/') = '\0';
		}
	}
	fclose(file);
	return room;
}

uint64_t sys_memory_available(void)
{
	int saved = errno;
	uint64_t available = read_number("/proc/meminfo", "MemAvailable:"), room;

	available = available == ~0ull ? 1ull << 30 : available * 1024;
	room = group_room("", "/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file");
	if (room < available)
		available = room;
	room = group_room("memory", "/sys/fs/cgroup/memory", "memory.limit_in_bytes",
			  "memory.usage_in_bytes", "total_inactive_file");
	errno = saved;
	return room < available ? room : available;
}
