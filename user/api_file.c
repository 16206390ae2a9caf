// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The calls of hugemap.h on files. What no pool has mapped is the kernel's alone, and so
 * is the system call.
 */
#include "api.h"

#include <fcntl.h>
#include <unistd.h>

/* A descriptor that is open in this mode only may not. */
static bool may(int fd, int only)
{
	int mode = fcntl(fd, F_GETFL);

	return mode >= 0 && (mode & O_ACCMODE) != only;
}

ssize_t hugemap_pread(int fd, void *buffer, size_t count, off_t offset)
{
	struct store *store;
	ssize_t n;

	CALL_BEGINS();
	if (offset < 0)
		return fail(-EINVAL, "the offset is negative");
	store = store_find(fd);
	if (!store) {
		n = pread(fd, buffer, count, offset);
		return n < 0 ? -errno : n;
	}
	n = may(fd, O_WRONLY) ? access_read(store, buffer, count, (u64)offset) : -EBADF;
	store_put(store);
	return n;
}

/* O_SYNC and O_DSYNC: what has been written is to survive a power cut. */
static int make_durable(struct store *store, int fd, u64 offset, u64 count)
{
	int flags = fcntl(fd, F_GETFL), err;

	if (flags < 0 || !(flags & O_DSYNC))
		return 0;
	err = sync_range(store, offset >> HM_PAGE_SHIFT,
			 (offset + count + PAGE_MASK) >> HM_PAGE_SHIFT);
	return err || fdatasync(store->fd_buffered) >= 0 ? err : -errno;
}

ssize_t hugemap_pwrite(int fd, const void *buffer, size_t count, off_t offset)
{
	struct store *store;
	ssize_t n;
	int err;

	CALL_BEGINS();
	if (offset < 0)
		return fail(-EINVAL, "the offset is negative");
	store = store_find(fd);
	if (!store) {
		n = pwrite(fd, buffer, count, offset);
		return n < 0 ? -errno : n;
	}
	n = may(fd, O_RDONLY) ? access_write(store, buffer, count, (u64)offset) : -EBADF;
	err = n > 0 ? make_durable(store, fd, (u64)offset, (u64)n) : 0;
	if (err)
		n = err;
	err = store_put(store);
	return n > 0 && err ? err : n;
}

int hugemap_truncate(int fd, off_t length)
{
	struct store *store;
	int err;

	CALL_BEGINS();
	if (length < 0)
		return fail(-EINVAL, "the length is negative");
	store = store_find(fd);
	if (!store)
		return ftruncate(fd, length) < 0 ? -errno : 0;
	err = resize_truncate(store, fd, (u64)length);
	store_put(store);
	return err;
}

int hugemap_punch(int fd, off_t offset, off_t length)
{
	struct store *store;
	int err;

	CALL_BEGINS();
	if (offset < 0 || length <= 0 || offset > INT64_MAX - length)
		return fail(-EINVAL, "the range is empty or negative");
	store = store_find(fd);
	if (!store)
		return fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, length) <
				       0 ?
			       -errno :
			       0;
	err = resize_punch(store, fd, (u64)offset, (u64)length);
	store_put(store);
	return err;
}

int hugemap_flush(int fd, off_t offset, off_t length)
{
	u64 end = ALL_PAGES;
	struct store *store;
	int err;

	CALL_BEGINS();
	if (offset < 0 || length < 0 || offset > INT64_MAX - length)
		return fail(-EINVAL, "the range is negative");
	store = store_find(fd);
	if (!store)
		return 0;
	if (length)
		end = ((u64)offset + (u64)length + PAGE_MASK) >> HM_PAGE_SHIFT;
	err = store->writable ? sync_range(store, (u64)offset >> HM_PAGE_SHIFT, end) : 0;
	store_put(store);
	return err;
}
