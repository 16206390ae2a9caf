// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Descriptors of the engine's own. The program must not close them, nor take
 * their numbers, by accident: they are high, and close() does not know them.
 *
 * And closing one of them must not harm the program: when a process closes any
 * descriptor of a file, POSIX takes away all its record locks on that file. So
 * while the program may have such locks, the engine's descriptors stay open
 * until the program itself closes one of that file.
 */
#include "shim.h"
#include "own.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <linux/userfaultfd.h>

#define FDS 65536
#define FROM_THE_TOP 512
#define HIGHEST 4096u /* fork() copies the table up to the highest descriptor */

static _Atomic unsigned char owned[FDS];
atomic_bool own_any;

/* Files on which the program has used record locks. */
struct locked {
	struct locked *next;
	dev_t dev;
	ino_t ino;
	int *waiting; /* to be closed */
	unsigned int nwaiting, room;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct locked *all_locked;
atomic_bool own_locked;

bool own_is(int fd)
{
	return fd >= 0 && fd < FDS && atomic_load_explicit(&owned[fd], memory_order_relaxed);
}

static struct locked *find(dev_t dev, ino_t ino)
{
	struct locked *at = all_locked;

	while (at && (at->dev != dev || at->ino != ino))
		at = at->next;
	return at;
}

static int close_now(int fd)
{
	if (fd >= 0 && fd < FDS)
		atomic_store(&owned[fd], 0);
	return real->close(fd);
}

/* The program uses record locks on a file. */
void own_locks_used(int fd)
{
	struct locked *at;
	struct stat st;

	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return;
	pthread_mutex_lock(&lock);
	if (!find(st.st_dev, st.st_ino)) {
		at = calloc(1, sizeof(*at));
		if (at) {
			at->dev = st.st_dev;
			at->ino = st.st_ino;
			at->next = all_locked;
			all_locked = at;
			atomic_store(&own_locked, true);
		}
	}
	pthread_mutex_unlock(&lock);
}

/* A child has none of its parent's record locks. */
void own_child(void)
{
	struct locked *at;

	lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	while ((at = all_locked)) {
		all_locked = at->next;
		while (at->nwaiting)
			close_now(at->waiting[--at->nwaiting]);
		free(at->waiting);
		free(at);
	}
	atomic_store(&own_locked, false);
}

/* The program is about to close a descriptor of a file: its locks go anyway. */
void own_close_deferred(dev_t dev, ino_t ino)
{
	struct locked *at;

	if (!atomic_load(&own_locked))
		return;
	pthread_mutex_lock(&lock);
	at = find(dev, ino);
	while (at && at->nwaiting)
		close_now(at->waiting[--at->nwaiting]);
	pthread_mutex_unlock(&lock);
}

/*
 * The rings of the engine's handlers, which liburing has opened by itself: those
 * that were not there before the pool was made. @seen: what was.
 */
void own_rings(bool seen[OWN_RINGS], bool before)
{
	struct dirent *entry;
	DIR *dir = opendir("/proc/self/fd");

	while (dir && (entry = readdir(dir))) {
		char link[32] = "";
		int fd = atoi(entry->d_name);

		if (fd >= OWN_RINGS ||
		    readlinkat(dirfd(dir), entry->d_name, link, sizeof(link) - 1) < 0 ||
		    strcmp(link, "anon_inode:[io_uring]"))
			continue;
		if (before)
			seen[fd] = true;
		else if (!seen[fd])
			atomic_store(&owned[fd], 1);
	}
	if (dir)
		real->closedir(dir);
}

/* --- what the engine calls, by engine-names.txt --- */

static bool keep_open(struct locked *at, int fd)
{
	if (at->nwaiting == at->room) {
		unsigned int room = at->room ? 2 * at->room : 16;
		int *waiting = realloc(at->waiting, room * sizeof(*waiting));

		if (!waiting)
			return false;
		at->waiting = waiting;
		at->room = room;
	}
	at->waiting[at->nwaiting++] = fd;
	return true;
}

int engine_close(int fd)
{
	struct locked *at = NULL;
	bool deferred = false;
	struct stat st;

	if (!atomic_load(&own_locked))
		return close_now(fd);
	pthread_mutex_lock(&lock);
	if (!fstat(fd, &st) && S_ISREG(st.st_mode))
		at = find(st.st_dev, st.st_ino);
	if (at)
		deferred = keep_open(at, fd);
	pthread_mutex_unlock(&lock);
	return deferred ? 0 : close_now(fd);
}

/* Move a new descriptor up, out of the program's way. */
static int adopt(int fd)
{
	struct rlimit limit;
	int from, high;

	if (fd < 0)
		return fd;
	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur > HIGHEST)
		limit.rlim_cur = HIGHEST;
	from = (int)limit.rlim_cur > 2 * FROM_THE_TOP ? (int)limit.rlim_cur - FROM_THE_TOP :
							(int)limit.rlim_cur / 2;
	high = real->fcntl(fd, F_DUPFD_CLOEXEC, from);
	if (high >= 0) {
		engine_close(fd);
		fd = high;
	}
	if (fd < FDS) {
		atomic_store(&owned[fd], 1);
		atomic_store(&own_any, true);
	}
	return fd;
}

int engine_open(const char *path, int flags, ...)
{
	mode_t mode = 0;
	va_list args;

	if (flags & O_CREAT) {
		va_start(args, flags);
		mode = va_arg(args, mode_t);
		va_end(args);
	}
	return adopt(real->open(path, flags, mode));
}

int engine_fcntl(int fd, int command, ...)
{
	va_list args;
	void *arg;

	va_start(args, command);
	arg = va_arg(args, void *);
	va_end(args);
	if (command == F_DUPFD_CLOEXEC)
		return adopt(real->fcntl(fd, command, arg));
	return real->fcntl(fd, command, arg);
}

int engine_eventfd(unsigned int value, int flags)
{
	return adopt(eventfd(value, flags));
}

int engine_inotify_init1(int flags)
{
	return adopt(inotify_init1(flags));
}

int engine_memfd_create(const char *name, unsigned int flags)
{
	return adopt(memfd_create(name, flags));
}

int engine_ioctl(int fd, unsigned long request, ...)
{
	va_list args;
	void *arg;
	int result;

	va_start(args, request);
	arg = va_arg(args, void *);
	va_end(args);
	result = real->ioctl(fd, request, arg);
	return request == USERFAULTFD_IOC_NEW ? adopt(result) : result;
}

long engine_syscall(long number, ...)
{
	long a[6], result;
	va_list args;
	int i;

	va_start(args, number);
	for (i = 0; i < 6; i++)
		a[i] = va_arg(args, long);
	va_end(args);
	result = real->syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
	return number == SYS_userfaultfd ? adopt((int)result) : result;
}

/* The others as they are. */
void *engine_mmap(void *addr, size_t length, int prot, int flags, int fd, off_t offset)
{
	return real->mmap(addr, length, prot, flags, fd, offset);
}

int engine_munmap(void *addr, size_t length)
{
	return real->munmap(addr, length);
}

int engine_mprotect(void *addr, size_t length, int prot)
{
	return real->mprotect(addr, length, prot);
}

int engine_madvise(void *addr, size_t length, int advice)
{
	return real->madvise(addr, length, advice);
}

int engine_msync(void *addr, size_t length, int flags)
{
	return real->msync(addr, length, flags);
}

int engine_mincore(void *addr, size_t length, unsigned char *present)
{
	return real->mincore(addr, length, present);
}

ssize_t engine_read(int fd, void *buffer, size_t count)
{
	return real->read(fd, buffer, count);
}

ssize_t engine_write(int fd, const void *buffer, size_t count)
{
	return real->write(fd, buffer, count);
}

ssize_t engine_pread(int fd, void *buffer, size_t count, off_t offset)
{
	return real->pread(fd, buffer, count, offset);
}

ssize_t engine_pwrite(int fd, const void *buffer, size_t count, off_t offset)
{
	return real->pwrite(fd, buffer, count, offset);
}

ssize_t engine_preadv(int fd, const struct iovec *iov, int n, off_t offset)
{
	return real->preadv(fd, iov, n, offset);
}

ssize_t engine_pwritev(int fd, const struct iovec *iov, int n, off_t offset)
{
	return real->pwritev(fd, iov, n, offset);
}

off_t engine_lseek(int fd, off_t offset, int whence)
{
	return real->lseek(fd, offset, whence);
}

int engine_ftruncate(int fd, off_t length)
{
	return real->ftruncate(fd, length);
}

int engine_fallocate(int fd, int mode, off_t offset, off_t length)
{
	return real->fallocate(fd, mode, offset, length);
}

int engine_fdatasync(int fd)
{
	return real->fdatasync(fd);
}

int engine_dup3(int from, int to, int flags)
{
	return real->dup3(from, to, flags);
}

FILE *engine_fopen(const char *path, const char *mode)
{
	return real->fopen(path, mode);
}

int engine_fclose(FILE *file)
{
	return real->fclose(file);
}

int engine_closedir(void *dir)
{
	return real->closedir(dir);
}

int engine_clone(int (*run)(void *), void *stack, int flags, void *arg, void *ptid, void *tls,
		 void *ctid)
{
	return real->clone(run, stack, flags, arg, ptid, tls, ctid);
}
