// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Descriptors that come, go and change their meaning; and streams, which read and
 * write inside of the C library.
 */
#include "shim.h"
#include "gather.h"
#include "names.h"
#include "own.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>

/* --- open --- */

/* A file that the engine serves is about to lose what is in it. */
static void before_open(int dirfd, const char *path, int flags)
{
	if (unlikely(flags & O_TRUNC && atomic_load(&shim_live)))
		aside_path(dirfd, path, "the program has opened the file with O_TRUNC");
}

static int opened(int fd)
{
	fd_forget(fd);
	return fd;
}

static bool wants_mode(int flags)
{
	return flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE;
}

SHIM_EXPORT int open(const char *path, int flags, ...)
{
	mode_t mode = 0;
	va_list args;

	if (wants_mode(flags)) {
		va_start(args, flags);
		mode = va_arg(args, mode_t);
		va_end(args);
	}
	before_open(AT_FDCWD, path, flags);
	return opened(real->open(path, flags, mode));
}

SHIM_EXPORT int open64(const char *path, int flags, ...) __attribute__((alias("open")));

SHIM_EXPORT int openat(int dirfd, const char *path, int flags, ...)
{
	mode_t mode = 0;
	va_list args;

	if (wants_mode(flags)) {
		va_start(args, flags);
		mode = va_arg(args, mode_t);
		va_end(args);
	}
	before_open(dirfd, path, flags);
	return opened(real->openat(dirfd, path, flags, mode));
}

SHIM_EXPORT int openat64(int dirfd, const char *path, int flags, ...)
	__attribute__((alias("openat")));

SHIM_EXPORT int creat(const char *path, mode_t mode)
{
	return open(path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

SHIM_EXPORT int creat64(const char *path, mode_t mode) __attribute__((alias("creat")));

SHIM_EXPORT int __open_2(const char *path, int flags)
{
	return open(path, flags);
}

SHIM_EXPORT int __open64_2(const char *path, int flags) __attribute__((alias("__open_2")));

SHIM_EXPORT int __openat_2(int dirfd, const char *path, int flags)
{
	return openat(dirfd, path, flags);
}

SHIM_EXPORT int __openat64_2(int dirfd, const char *path, int flags)
	__attribute__((alias("__openat_2")));

/* --- close --- */

/* Before a descriptor goes: record locks go with it, so ours may go as well. */
static void before_close(int fd)
{
	struct stat st;

	fd_forget(fd);
	if (unlikely(atomic_load_explicit(&own_locked, memory_order_relaxed)) && !fstat(fd, &st))
		own_close_deferred(st.st_dev, st.st_ino);
}

SHIM_EXPORT int close(int fd)
{
	if (unlikely(own_is(fd))) {
		errno = EBADF;
		return -1;
	}
	before_close(fd);
	return real->close(fd);
}

SHIM_EXPORT int __close(int fd) __attribute__((alias("close")));

/* Around what is ours. */
SHIM_EXPORT int close_range(unsigned int first, unsigned int last, int flags)
{
	unsigned int fd, from = first;

	fd_forget_all();
	if (!atomic_load(&own_any) || flags || first > last)
		return real->close_range(first, last, flags);
	for (fd = first; fd <= last && fd < 65536; fd++) {
		if (!own_is((int)fd))
			continue;
		if (from < fd)
			real->close_range(from, fd - 1, 0);
		from = fd + 1;
	}
	return from <= last ? real->close_range(from, last, 0) : 0;
}

SHIM_EXPORT void closefrom(int first)
{
	close_range(first < 0 ? 0 : (unsigned int)first, ~0u, 0);
}

SHIM_EXPORT int fclose(FILE *file)
{
	int fd = fileno(file);

	if (fd >= 0)
		before_close(fd);
	return real->fclose(file);
}

SHIM_EXPORT int closedir(DIR *dir)
{
	fd_forget_all();
	return real->closedir(dir);
}

/* --- dup --- */

/* Another process, which shares our memory until it executes a program, will have it. */
static void before_passing_on(int fd)
{
	if (unlikely(shim_live_fd(fd)) && getpid() != shim_pid)
		aside_fd(fd, "a child of the program has the file open");
}

SHIM_EXPORT int dup(int fd)
{
	before_passing_on(fd);
	return opened(real->dup(fd));
}

SHIM_EXPORT int dup2(int fd, int to)
{
	if (unlikely(own_is(to))) {
		errno = EBUSY;
		return -1;
	}
	before_passing_on(fd);
	if (fd != to)
		before_close(to);
	return opened(real->dup2(fd, to));
}

SHIM_EXPORT int dup3(int fd, int to, int flags)
{
	if (unlikely(own_is(to))) {
		errno = EBUSY;
		return -1;
	}
	before_passing_on(fd);
	before_close(to);
	return opened(real->dup3(fd, to, flags));
}

SHIM_EXPORT int fcntl(int fd, int command, ...)
{
	va_list args;
	void *arg;
	int result;

	va_start(args, command);
	arg = va_arg(args, void *);
	va_end(args);
	switch (command) {
	case F_SETLK:
	case F_SETLKW:
		own_locks_used(fd);
		break;
	case F_SETFD:
		if (!((intptr_t)arg & FD_CLOEXEC))
			before_passing_on(fd);
		break;
	case F_DUPFD:
	case F_DUPFD_CLOEXEC:
		before_passing_on(fd);
		result = real->fcntl(fd, command, arg);
		return opened(result);
	}
	return real->fcntl(fd, command, arg);
}

SHIM_EXPORT int fcntl64(int fd, int command, ...) __attribute__((alias("fcntl")));

SHIM_EXPORT int lockf(int fd, int command, off_t length)
{
	own_locks_used(fd);
	return real->lockf(fd, command, length);
}

SHIM_EXPORT int lockf64(int fd, int command, off_t length) __attribute__((alias("lockf")));

/* A descriptor that is sent is somebody else's too. */
SHIM_EXPORT ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
	const struct cmsghdr *part;

	if (unlikely(atomic_load(&shim_live)) && message && message->msg_control) {
		for (part = CMSG_FIRSTHDR(message); part;
		     part = CMSG_NXTHDR((struct msghdr *)message, (struct cmsghdr *)part)) {
			size_t n = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int), i;

			if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
				continue;
			for (i = 0; i < n; i++) {
				int sent;

				memcpy(&sent, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
				aside_fd(sent, "the program has sent a descriptor of the file");
			}
		}
	}
	if (gather_on())
		return user_sendmsg(fd, message, flags);
	return real->sendmsg(fd, message, flags);
}

/* --- streams, which read and write inside of the C library --- */

static FILE *opened_stream(FILE *file)
{
	if (!file)
		return NULL;
	fd_forget(fileno(file));
	if (unlikely(atomic_load(&shim_live)) && fileno(file) >= 0)
		aside_fd(fileno(file), "the program has a stdio stream of the file, whose calls "
				       "are not seen");
	return file;
}

static void before_stream(const char *path, const char *mode)
{
	if (unlikely(atomic_load(&shim_live)) && mode && mode[0] == 'w')
		aside_path(AT_FDCWD, path, "the program has opened the file with O_TRUNC");
}

SHIM_EXPORT FILE *fopen(const char *path, const char *mode)
{
	before_stream(path, mode);
	return opened_stream(real->fopen(path, mode));
}

SHIM_EXPORT FILE *fopen64(const char *path, const char *mode) __attribute__((alias("fopen")));

SHIM_EXPORT FILE *fdopen(int fd, const char *mode)
{
	return opened_stream(real->fdopen(fd, mode));
}

SHIM_EXPORT FILE *freopen(const char *path, const char *mode, FILE *file)
{
	before_stream(path, mode);
	before_close(fileno(file));
	return opened_stream(real->freopen(path, mode, file));
}

SHIM_EXPORT FILE *freopen64(const char *path, const char *mode, FILE *file)
	__attribute__((alias("freopen")));
