// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The length of a file and its holes, durability, and what goes from one
 * descriptor to another inside of the kernel.
 */
#include "live.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <linux/fs.h>

/* --- the length of a file, and holes --- */

SHIM_EXPORT int ftruncate(int fd, off_t length)
{
	atomic_int *passing;
	struct live live;

	passing = live_begin_passing(fd);
	if (passing)
		return (int)live_passed(passing, real->ftruncate(fd, length));
	if (!live_begin(&live, fd))
		return ftruncate(fd, length);
	if (!live_can(&live, O_WRONLY) || length < 0)
		return (int)live_end(&live, -EINVAL);
	return (int)live_end(&live, hugemap_truncate(fd, length));
}

SHIM_EXPORT int ftruncate64(int fd, off_t length) __attribute__((alias("ftruncate")));

SHIM_EXPORT int truncate(const char *path, off_t length)
{
	aside_path(AT_FDCWD, path, "the program has called truncate()");
	return real->truncate(path, length);
}

SHIM_EXPORT int truncate64(const char *path, off_t length) __attribute__((alias("truncate")));

SHIM_EXPORT int fallocate(int fd, int mode, off_t offset, off_t length)
{
	atomic_int *passing;
	struct live live;
	int err;

	passing = live_begin_passing(fd);
	if (passing)
		return (int)live_passed(passing, real->fallocate(fd, mode, offset, length));
	/* What moves bytes about is the kernel's. */
	if (mode & ~(FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE)) {
		aside_fd(fd, "the program has called fallocate() in a way that only the kernel "
			     "knows");
		return real->fallocate(fd, mode, offset, length);
	}
	if (!live_begin(&live, fd))
		return fallocate(fd, mode, offset, length);
	if (!live_can(&live, O_WRONLY))
		return (int)live_end(&live, -EBADF);
	if (offset < 0 || length <= 0 || offset > INT64_MAX - length)
		return (int)live_end(&live, -EINVAL);
	if (mode == (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE))
		return (int)live_end(&live, hugemap_punch(fd, offset, length));
	/* Room is taken without changing a byte; then the file may be longer. */
	err = real->fallocate(fd, mode | FALLOC_FL_KEEP_SIZE, offset, length) < 0 ? -errno : 0;
	if (!err && !(mode & FALLOC_FL_KEEP_SIZE)) {
		struct stat st;

		pthread_mutex_lock(&live.file->position);
		if (!fstat(fd, &st) && st.st_size < offset + length)
			err = hugemap_truncate(fd, offset + length);
		pthread_mutex_unlock(&live.file->position);
	}
	return (int)live_end(&live, err);
}

SHIM_EXPORT int fallocate64(int fd, int mode, off_t offset, off_t length)
	__attribute__((alias("fallocate")));

SHIM_EXPORT int posix_fallocate(int fd, off_t offset, off_t length)
{
	atomic_int *passing;
	int saved = errno, err;

	passing = live_begin_passing(fd);
	if (passing)
		return (int)live_passed(passing, real->posix_fallocate(fd, offset, length));
	err = fallocate(fd, 0, offset, length) < 0 ? errno : 0;
	errno = saved;
	return err;
}

SHIM_EXPORT int posix_fallocate64(int fd, off_t offset, off_t length)
	__attribute__((alias("posix_fallocate")));

/* Holes that were stored to are data. */
SHIM_EXPORT off_t lseek(int fd, off_t offset, int whence)
{
	struct live live;

	if (likely(whence < SEEK_DATA) || !shim_live_fd(fd) || !live_begin(&live, fd))
		return real->lseek(fd, offset, whence);
	live_end(&live, hugemap_flush(fd, 0, 0));
	return real->lseek(fd, offset, whence);
}

SHIM_EXPORT off_t lseek64(int fd, off_t offset, int whence) __attribute__((alias("lseek")));

/* --- durability --- */

/* What the engine has goes to the kernel, before the kernel's own call. */
static bool flushed(int fd, off_t offset, off_t length)
{
	struct live live;

	if (!shim_live_fd(fd) || !live_begin(&live, fd))
		return true;
	return !live_end(&live, hugemap_flush(fd, offset, length));
}

SHIM_EXPORT int fsync(int fd)
{
	return flushed(fd, 0, 0) ? real->fsync(fd) : -1;
}

SHIM_EXPORT int fdatasync(int fd)
{
	return flushed(fd, 0, 0) ? real->fdatasync(fd) : -1;
}

SHIM_EXPORT int sync_file_range(int fd, off_t offset, off_t length, unsigned int flags)
{
	bool valid = offset >= 0 && length >= 0 && offset <= INT64_MAX - length;

	if (valid && !flushed(fd, offset, length))
		return -1;
	return real->sync_file_range(fd, offset, length, flags);
}

static void flush_all(void)
{
	struct shim_section section;
	struct map *map;

	if (!atomic_load(&shim_live))
		return;
	shim_enter(&section);
	pthread_rwlock_rdlock(&shim_lock);
	for (map = shim_maps; map; map = map->next)
		if (map->file && map->file->kind == FILE_LIVE)
			hugemap_flush(map->fd, 0, 0);
	pthread_rwlock_unlock(&shim_lock);
	shim_leave(&section);
}

SHIM_EXPORT int syncfs(int fd)
{
	flush_all();
	return real->syncfs(fd);
}

SHIM_EXPORT void sync(void)
{
	flush_all();
	real->sync();
}

SHIM_EXPORT int posix_fadvise(int fd, off_t offset, off_t length, int advice)
{
	return real->posix_fadvise(fd, offset, length, advice);
}

/* --- from one descriptor to another, inside the kernel --- */

/* Copy to a LIVE file, which the kernel must not do for us. */
static ssize_t copy_to(int from, off_t *from_at, int to, off_t *to_at, size_t count)
{
	char *buffer = malloc(BOUNCE_BYTES);
	ssize_t done = 0, n = 0, put;

	if (!buffer)
		return -1;
	while ((size_t)done < count) {
		size_t part = count - (size_t)done < BOUNCE_BYTES ? count - (size_t)done :
								    BOUNCE_BYTES;

		n = from_at ? pread(from, buffer, part, *from_at) : read(from, buffer, part);
		if (n <= 0)
			break;
		put = to_at ? pwrite(to, buffer, (size_t)n, *to_at) : write(to, buffer, (size_t)n);
		if (put < 0) {
			n = -1;
			break;
		}
		if (from_at)
			*from_at += put;
		else if (put < n)
			real->lseek(from, put - n, SEEK_CUR);
		if (to_at)
			*to_at += put;
		done += put;
		if (put < n || (size_t)n < part)
			break;
	}
	free(buffer);
	return done ? done : n;
}

SHIM_EXPORT ssize_t sendfile(int to, int from, off_t *offset, size_t count)
{
	atomic_int *passing;

	passing = live_begin_passing(to);
	if (passing)
		return live_passed(passing, flushed(from, 0, 0) ?
						    real->sendfile(to, from, offset, count) :
						    (ssize_t)-1);
	return copy_to(from, offset, to, NULL, count);
}

SHIM_EXPORT ssize_t sendfile64(int to, int from, off_t *offset, size_t count)
	__attribute__((alias("sendfile")));

SHIM_EXPORT ssize_t copy_file_range(int from, off_t *from_at, int to, off_t *to_at, size_t count,
				    unsigned int flags)
{
	atomic_int *passing;

	passing = live_begin_passing(to);
	if (passing)
		return live_passed(passing, flushed(from, 0, 0) ?
						    real->copy_file_range(from, from_at, to, to_at,
									  count, flags) :
						    (ssize_t)-1);
	return copy_to(from, from_at, to, to_at, count);
}

SHIM_EXPORT ssize_t splice(int from, off_t *from_at, int to, off_t *to_at, size_t count,
			   unsigned int flags)
{
	atomic_int *passing;

	passing = live_begin_passing(to);
	if (passing)
		return live_passed(passing,
				   flushed(from, 0, 0) ?
					   real->splice(from, from_at, to, to_at, count, flags) :
					   (ssize_t)-1);
	return copy_to(from, from_at, to, to_at, count);
}

SHIM_EXPORT int ioctl(int fd, unsigned long request, ...)
{
	va_list args;
	void *arg;

	va_start(args, request);
	arg = va_arg(args, void *);
	va_end(args);
	if (unlikely(atomic_load(&shim_live))) {
		if (request == FICLONE)
			aside_fd((int)(intptr_t)arg, "the program clones the file");
		else if (request == FICLONERANGE && arg)
			aside_fd((int)((struct file_clone_range *)arg)->src_fd,
				 "the program clones the file");
		if (request == FICLONE || request == FICLONERANGE || request == FIDEDUPERANGE ||
		    (fd_is_live(fd) && _IOC_TYPE(request) != 'T'))
			aside_fd(fd, "the program has called ioctl() on the file");
	}
	return real->ioctl(fd, request, arg);
}
