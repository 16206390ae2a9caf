// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Reading and writing by descriptors. Those of LIVE files go through the engine;
 * all others pass, and those that write are counted while they do.
 */
#include "gather.h"
#include "live.h"
#include "names.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#ifndef RWF_APPEND
#define RWF_APPEND 0x10
#endif
#ifndef RWF_NOAPPEND
#define RWF_NOAPPEND 0x20
#endif

/* By the kernel, a byte of each page: device memory cannot be faulted in, but copied. */
static bool can_be_copied(char *at, char *end, bool write)
{
	bool can = true;
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return false;
	for (; can && at < end; at += PAGE_BYTES)
		can = real->write(ends[1], at, 1) == 1 &&
		      real->read(ends[0], write ? at : (char[1]){}, 1) == 1;
	real->close(ends[0]);
	real->close(ends[1]);
	return can;
}

/* Is the memory there? A fault in the engine, with its locks held, must not be. */
static bool there(const void *buffer, size_t count, bool write)
{
	char *start = (char *)((uintptr_t)buffer & ~(PAGE_BYTES - 1));
	char *end = (char *)(((uintptr_t)buffer + count + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1));

	if (!count)
		return true;
	if (!real->madvise(start, (size_t)(end - start),
			   write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ))
		return true;
	if (errno == EINVAL)
		return can_be_copied(start, end, write);
	return errno == EAGAIN || errno == EINTR;
}

/* Memory that the engine itself serves cannot be copied to under its locks. */
static bool of_engine(const void *buffer, size_t count)
{
	return shim_concerns(buffer, count) &&
	       map_first(buffer, (const char *)buffer + count, true);
}

static ssize_t bounce(struct live *live, char *buffer, size_t count, off_t offset, bool write)
{
	char *copy = malloc(count < BOUNCE_BYTES ? count : BOUNCE_BYTES);
	size_t done = 0;
	ssize_t n = 0;

	if (!copy)
		return -ENOMEM;
	while (done < count) {
		size_t part = count - done < BOUNCE_BYTES ? count - done : BOUNCE_BYTES;

		if (write) {
			memcpy(copy, buffer + done, part);
			n = hugemap_pwrite(live->fd, copy, part, offset + (off_t)done);
		} else {
			n = hugemap_pread(live->fd, copy, part, offset + (off_t)done);
			if (n > 0)
				memcpy(buffer + done, copy, (size_t)n);
		}
		if (n <= 0)
			break;
		done += (size_t)n;
		if ((size_t)n < part)
			break;
	}
	free(copy);
	return done ? (ssize_t)done : n;
}

static ssize_t one(struct live *live, const struct iovec *iov, off_t offset, bool write)
{
	if (!iov->iov_len)
		return 0;
	if (!there(iov->iov_base, iov->iov_len, !write))
		return -EFAULT;
	if (of_engine(iov->iov_base, iov->iov_len))
		return bounce(live, iov->iov_base, iov->iov_len, offset, write);
	if (write)
		return hugemap_pwrite(live->fd, iov->iov_base, iov->iov_len, offset);
	return hugemap_pread(live->fd, iov->iov_base, iov->iov_len, offset);
}

static ssize_t all(struct live *live, const struct iovec *iov, int n, off_t offset, bool write)
{
	ssize_t done = 0, got;
	int i;

	if (n < 0 || n > IOV_MAX)
		return -EINVAL;
	if (n && !there(iov, (size_t)n * sizeof(*iov), false))
		return -EFAULT;
	for (i = 0; i < n; i++) {
		got = one(live, &iov[i], offset + done, write);
		if (got < 0)
			return done ? done : got;
		done += got;
		if ((size_t)got < iov[i].iov_len)
			break;
	}
	return done;
}

/* What was written shall be durable, if the file was opened so. */
static ssize_t made_durable(struct live *live, ssize_t result, int flags)
{
	int err;

	if (result <= 0 || !(live->mode & O_DSYNC || flags & (RWF_DSYNC | RWF_SYNC)))
		return result;
	err = hugemap_flush(live->fd, 0, 0);
	if (!err && real->fdatasync(live->fd) < 0)
		err = -errno;
	return err ? err : result;
}

static bool appends(const struct live *live, int flags)
{
	return (live->mode & O_APPEND && !(flags & RWF_NOAPPEND)) || flags & RWF_APPEND;
}

static ssize_t write_at(struct live *live, const struct iovec *iov, int n, off_t offset, int flags)
{
	struct stat st;
	ssize_t result;
	bool append = appends(live, flags);

	if (append) {
		pthread_mutex_lock(&live->file->position);
		if (fstat(live->fd, &st) < 0)
			offset = -1;
		else
			offset = st.st_size;
	}
	result = offset < 0 ? -EINVAL : all(live, iov, n, offset, true);
	if (append)
		pthread_mutex_unlock(&live->file->position);
	return made_durable(live, result, flags);
}

/* At the position of the descriptor, which moves. */
static ssize_t at_position(struct live *live, const struct iovec *iov, int n, bool write, int flags)
{
	off_t position;
	struct stat st;
	ssize_t result;

	pthread_mutex_lock(&live->file->position);
	if (write && appends(live, flags))
		position = fstat(live->fd, &st) < 0 ? -1 : st.st_size;
	else
		position = real->lseek(live->fd, 0, SEEK_CUR);
	result = position < 0 ? -errno : all(live, iov, n, position, write);
	if (result > 0)
		real->lseek(live->fd, position + result, SEEK_SET);
	pthread_mutex_unlock(&live->file->position);
	return write ? made_durable(live, result, flags) : result;
}

/* --- read --- */

SHIM_EXPORT ssize_t read(int fd, void *buffer, size_t count)
{
	struct iovec iov = { buffer, count };
	struct live live;

	if (!shim_live_fd(fd) || !live_begin(&live, fd))
		return real->read(fd, buffer, count);
	if (!live_can(&live, O_RDONLY))
		return live_end(&live, -EBADF);
	return live_end(&live, at_position(&live, &iov, 1, false, 0));
}

SHIM_EXPORT ssize_t readv(int fd, const struct iovec *iov, int n)
{
	struct live live;

	if (!shim_live_fd(fd) || !live_begin(&live, fd))
		return real->readv(fd, iov, n);
	if (!live_can(&live, O_RDONLY))
		return live_end(&live, -EBADF);
	return live_end(&live, at_position(&live, iov, n, false, 0));
}

SHIM_EXPORT ssize_t pread(int fd, void *buffer, size_t count, off_t offset)
{
	struct iovec iov = { buffer, count };
	struct live live;

	if (!shim_live_fd(fd) || !live_begin(&live, fd))
		return real->pread(fd, buffer, count, offset);
	if (!live_can(&live, O_RDONLY))
		return live_end(&live, -EBADF);
	return live_end(&live, offset < 0 ? -EINVAL : all(&live, &iov, 1, offset, false));
}

SHIM_EXPORT ssize_t pread64(int fd, void *buffer, size_t count, off_t offset)
	__attribute__((alias("pread")));

SHIM_EXPORT ssize_t preadv(int fd, const struct iovec *iov, int n, off_t offset)
{
	struct live live;

	if (!shim_live_fd(fd) || !live_begin(&live, fd))
		return real->preadv(fd, iov, n, offset);
	if (!live_can(&live, O_RDONLY))
		return live_end(&live, -EBADF);
	return live_end(&live, offset < 0 ? -EINVAL : all(&live, iov, n, offset, false));
}

SHIM_EXPORT ssize_t preadv64(int fd, const struct iovec *iov, int n, off_t offset)
	__attribute__((alias("preadv")));

SHIM_EXPORT ssize_t preadv2(int fd, const struct iovec *iov, int n, off_t offset, int flags)
{
	struct live live;

	if (!shim_live_fd(fd) || !live_begin(&live, fd))
		return real->preadv2(fd, iov, n, offset, flags);
	if (!live_can(&live, O_RDONLY))
		return live_end(&live, -EBADF);
	if (flags & RWF_NOWAIT)
		return live_end(&live, -EAGAIN); /* the engine may have to wait */
	if (offset == -1)
		return live_end(&live, at_position(&live, iov, n, false, 0));
	return live_end(&live, offset < 0 ? -EINVAL : all(&live, iov, n, offset, false));
}

SHIM_EXPORT ssize_t preadv64v2(int fd, const struct iovec *iov, int n, off_t offset, int flags)
	__attribute__((alias("preadv2")));

SHIM_EXPORT ssize_t __read_chk(int fd, void *buffer, size_t count, size_t room)
{
	if (count > room)
		__chk_fail();
	return read(fd, buffer, count);
}

SHIM_EXPORT ssize_t __pread_chk(int fd, void *buffer, size_t count, off_t offset, size_t room)
{
	if (count > room)
		__chk_fail();
	return pread(fd, buffer, count, offset);
}

SHIM_EXPORT ssize_t __pread64_chk(int fd, void *buffer, size_t count, off_t offset, size_t room)
	__attribute__((alias("__pread_chk")));
SHIM_EXPORT ssize_t __read(int fd, void *buffer, size_t count) __attribute__((alias("read")));
SHIM_EXPORT ssize_t __pread64(int fd, void *buffer, size_t count, off_t offset)
	__attribute__((alias("pread")));

/* --- write --- */

SHIM_EXPORT ssize_t write(int fd, const void *buffer, size_t count)
{
	atomic_int *passing;
	struct iovec iov = { (void *)buffer, count };
	struct live live;

	if (gather_needed(buffer, count))
		return user_write(fd, buffer, count);
	passing = live_begin_passing(fd);
	if (passing)
		return live_passed(passing, real->write(fd, buffer, count));
	if (!live_begin(&live, fd))
		return write(fd, buffer, count);
	if (!live_can(&live, O_WRONLY))
		return live_end(&live, -EBADF);
	return live_end(&live, at_position(&live, &iov, 1, true, 0));
}

SHIM_EXPORT ssize_t writev(int fd, const struct iovec *iov, int n)
{
	atomic_int *passing;
	struct live live;

	if (gather_on())
		return user_writev(fd, iov, n);
	passing = live_begin_passing(fd);
	if (passing)
		return live_passed(passing, real->writev(fd, iov, n));
	if (!live_begin(&live, fd))
		return writev(fd, iov, n);
	if (!live_can(&live, O_WRONLY))
		return live_end(&live, -EBADF);
	return live_end(&live, at_position(&live, iov, n, true, 0));
}

SHIM_EXPORT ssize_t pwrite(int fd, const void *buffer, size_t count, off_t offset)
{
	atomic_int *passing;
	struct iovec iov = { (void *)buffer, count };
	struct live live;

	if (gather_needed(buffer, count))
		return user_pwrite(fd, buffer, count, offset);
	passing = live_begin_passing(fd);
	if (passing)
		return live_passed(passing, real->pwrite(fd, buffer, count, offset));
	if (!live_begin(&live, fd))
		return pwrite(fd, buffer, count, offset);
	if (!live_can(&live, O_WRONLY))
		return live_end(&live, -EBADF);
	return live_end(&live, offset < 0 ? -EINVAL : write_at(&live, &iov, 1, offset, 0));
}

SHIM_EXPORT ssize_t pwrite64(int fd, const void *buffer, size_t count, off_t offset)
	__attribute__((alias("pwrite")));
SHIM_EXPORT ssize_t __write(int fd, const void *buffer, size_t count)
	__attribute__((alias("write")));
SHIM_EXPORT ssize_t __pwrite64(int fd, const void *buffer, size_t count, off_t offset)
	__attribute__((alias("pwrite")));

SHIM_EXPORT ssize_t pwritev(int fd, const struct iovec *iov, int n, off_t offset)
{
	atomic_int *passing;
	struct live live;

	if (gather_on())
		return user_pwritev(fd, iov, n, offset);
	passing = live_begin_passing(fd);
	if (passing)
		return live_passed(passing, real->pwritev(fd, iov, n, offset));
	if (!live_begin(&live, fd))
		return pwritev(fd, iov, n, offset);
	if (!live_can(&live, O_WRONLY))
		return live_end(&live, -EBADF);
	return live_end(&live, offset < 0 ? -EINVAL : write_at(&live, iov, n, offset, 0));
}

SHIM_EXPORT ssize_t pwritev64(int fd, const struct iovec *iov, int n, off_t offset)
	__attribute__((alias("pwritev")));

SHIM_EXPORT ssize_t pwritev2(int fd, const struct iovec *iov, int n, off_t offset, int flags)
{
	atomic_int *passing;
	struct live live;

	if (gather_on())
		return user_pwritev2(fd, iov, n, offset, flags);
	passing = live_begin_passing(fd);
	if (passing)
		return live_passed(passing, real->pwritev2(fd, iov, n, offset, flags));
	if (!live_begin(&live, fd))
		return pwritev2(fd, iov, n, offset, flags);
	if (!live_can(&live, O_WRONLY))
		return live_end(&live, -EBADF);
	if (flags & RWF_NOWAIT)
		return live_end(&live, -EAGAIN);
	if (offset == -1)
		return live_end(&live, at_position(&live, iov, n, true, flags));
	return live_end(&live, offset < 0 ? -EINVAL : write_at(&live, iov, n, offset, flags));
}

SHIM_EXPORT ssize_t pwritev64v2(int fd, const struct iovec *iov, int n, off_t offset, int flags)
	__attribute__((alias("pwritev2")));

SHIM_EXPORT int vdprintf(int fd, const char *format, va_list args)
{
	ssize_t n, done;
	char *text;
	int length;

	if (!shim_live_fd(fd) && !gather_on())
		return real->vdprintf(fd, format, args);
	length = vasprintf(&text, format, args);
	if (length < 0)
		return -1;
	for (done = 0; done < length; done += n) {
		n = write(fd, text + done, (size_t)(length - done));
		if (n <= 0)
			break;
	}
	free(text);
	return done < length ? -1 : length;
}

SHIM_EXPORT int dprintf(int fd, const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vdprintf(fd, format, args);
	va_end(args);
	return n;
}
