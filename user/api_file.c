// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The calls of hugemap.h on files. What no pool has mapped is the kernel's alone, and so
 * is the system call.
 */
#include "api.h"
#include "handler.h"
#include "linux.h"
#include "mapping.h"
#include "store.h"

#include <fcntl.h>

/* A descriptor that is open in this mode only may not. */
static bool may(int fd, int only)
{
	int mode = sys_fcntl(fd, F_GETFL, NULL);

	return mode >= 0 && !(mode & O_PATH) && (mode & O_ACCMODE) != only;
}

struct file_id {
	dev_t dev;
	ino_t ino;
};

/*
 * The store of a file, or NULL. What the file is called is kept for another look: the system
 * call that comes in between cannot be taken back. 0, or why it is not known whether it is
 * mapped: then it must be left alone, too.
 */
static int find(int fd, struct file_id *id, struct store **store)
{
	int err = file_identify(fd, &id->dev, &id->ino);

	*store = err ? NULL : store_find(id->dev, id->ino);
	return err ? fail(err, "which file it is cannot be found out") : 0;
}

/*
 * A call may hold the last reference, as another one unmaps: what it then cannot write is
 * lost, and this is the last one to tell.
 */
static ssize_t put(struct store *store, ssize_t result)
{
	int err = store_put(store);

	return err && result >= 0 ? err : result;
}

static bool in_a_mapping(const char *buffer, size_t count)
{
	bool found;
	char *at;

	pthread_mutex_lock(&pools_lock);
	found = find_first((char *)(uintptr_t)buffer, buffer + count, &at);
	pthread_mutex_unlock(&pools_lock);
	return found;
}

ssize_t hugemap_pread(int fd, void *buffer, size_t count, off_t offset)
{
	struct store *store;
	struct file_id id;
	ssize_t n;
	int err;

	CALL_BEGINS();
	if (offset < 0)
		return fail(-EINVAL, "the offset is negative");
	err = find(fd, &id, &store);
	if (err)
		return err;
	if (!store && in_a_mapping(buffer, count))
		return access_plain_read(fd, buffer, count, (u64)offset);
	if (!store)
		return sys_pread(fd, buffer, count, (u64)offset);
	n = may(fd, O_WRONLY) ? access_read(store, buffer, count, (u64)offset) : -EBADF;
	return put(store, n);
}

/* O_SYNC and O_DSYNC: what has been written is to survive a power cut. */
static int make_durable(struct store *store, int fd, u64 offset, u64 count, u64 since)
{
	int flags = sys_fcntl(fd, F_GETFL, NULL), err;

	if (flags < 0 || !(flags & O_DSYNC))
		return 0;
	err = sync_range(store, offset >> HM_PAGE_SHIFT,
			 (offset + count + PAGE_MASK) >> HM_PAGE_SHIFT);
	return err ? err : store_flush(store, since);
}

static ssize_t write_store(struct store *store, int fd, const char *buffer, size_t count,
			   u64 offset)
{
	u64 since = store_flushes(store);
	ssize_t n = access_write(store, buffer, count, offset);
	int err = n > 0 ? make_durable(store, fd, offset, (u64)n, since) : 0;

	return err ? err : n;
}

/*
 * A file that nobody had mapped is the kernel's, but somebody may have mapped it, and read
 * what was there, during a call that has changed it: then it is done once more. Through a
 * mapping that is for reading nothing is written: what is cached is dropped.
 */
static ssize_t write_again(struct store *store, int fd, const char *buffer, size_t count,
			   u64 offset)
{
	int err;

	if (store->writable)
		return write_store(store, fd, buffer, count, offset);
	err = resize_drop_read(store, offset >> HM_PAGE_SHIFT,
			       (offset + count + PAGE_MASK) >> HM_PAGE_SHIFT);
	return err ? err : (ssize_t)count;
}

static ssize_t write_file(int fd, struct file_id id, const void *buffer, size_t count, u64 offset)
{
	int flags = sys_fcntl(fd, F_GETFL, NULL);
	bool append = flags >= 0 && flags & O_APPEND;
	struct store *store;
	ssize_t n;

	n = in_a_mapping(buffer, count) ? access_plain_write(fd, buffer, count, offset, append) :
					  sys_pwrite(fd, buffer, count, offset);
	store = n > 0 ? store_find(id.dev, id.ino) : NULL;
	if (!store)
		return n;
	/* What was appended lies above all that a store made since has read. */
	if (append)
		return put(store, n);
	return put(store, write_again(store, fd, buffer, (size_t)n, offset));
}

ssize_t hugemap_pwrite(int fd, const void *buffer, size_t count, off_t offset)
{
	struct store *store;
	struct file_id id;
	ssize_t n;
	int err;

	CALL_BEGINS();
	if (offset < 0)
		return fail(-EINVAL, "the offset is negative");
	err = find(fd, &id, &store);
	if (err)
		return err;
	if (!store)
		return write_file(fd, id, buffer, count, (u64)offset);
	n = may(fd, O_RDONLY) ? write_store(store, fd, buffer, count, (u64)offset) : -EBADF;
	return put(store, n);
}

int hugemap_truncate(int fd, off_t length)
{
	struct store *store;
	struct file_id id;
	bool again = false;
	int err;

	CALL_BEGINS();
	if (length < 0)
		return fail(-EINVAL, "the length is negative");
	err = find(fd, &id, &store);
	if (err)
		return err;
	if (!store) {
		err = sys_ftruncate(fd, (u64)length);
		store = err ? NULL : store_find(id.dev, id.ino);
		if (!store)
			return err;
		again = true;
	}
	return (int)put(store, resize_truncate(store, fd, (u64)length, again));
}

int hugemap_punch(int fd, off_t offset, off_t length)
{
	struct store *store;
	struct file_id id;
	bool again = false;
	int err;

	CALL_BEGINS();
	if (offset < 0 || length <= 0 || offset > INT64_MAX - length)
		return fail(-EINVAL, "the range is empty or negative");
	err = find(fd, &id, &store);
	if (err)
		return err;
	if (!store) {
		err = sys_fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (u64)offset,
				    (u64)length);
		store = err ? NULL : store_find(id.dev, id.ino);
		if (!store)
			return err;
		again = true;
	}
	return (int)put(store, resize_punch(store, fd, (u64)offset, (u64)length, again));
}

int hugemap_flush(int fd, off_t offset, off_t length)
{
	u64 end = ALL_PAGES;
	struct store *store;
	struct file_id id;
	int err;

	CALL_BEGINS();
	if (offset < 0 || length < 0 || offset > INT64_MAX - length)
		return fail(-EINVAL, "the range is negative");
	err = sys_fcntl(fd, F_GETFL, NULL);
	if (err < 0)
		return fail(-EBADF, "the file descriptor is not open");
	err = find(fd, &id, &store);
	if (err || !store)
		return err;
	if (length)
		end = ((u64)offset + (u64)length + PAGE_MASK) >> HM_PAGE_SHIFT;
	err = store->writable ? sync_range(store, (u64)offset >> HM_PAGE_SHIFT, end) : 0;
	return (int)put(store, err);
}
