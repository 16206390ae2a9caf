// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Mappings are made, moved and ended: mmap(2) at addresses that huge pages can use. */
#include "lib.h"

#include "steer.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

static void *map_error(int err)
{
	return (void *)(intptr_t)err;
}

static int map_check_fd(int fd, int prot, int flags)
{
	int mode = fcntl(fd, F_GETFL);

	if (mode < 0)
		return lib_fail(-EBADF, "the file descriptor is not open");
	if (mode & O_PATH)
		return lib_fail(-EBADF, "the file descriptor was opened with O_PATH");
	mode &= O_ACCMODE;
	if (mode == O_WRONLY)
		return lib_fail(-EACCES,
				"the file is open for writing only; mapping needs reading");
	if (prot & PROT_WRITE && !(flags & HUGEMAP_PRIVATE) && mode != O_RDWR)
		return lib_fail(-EACCES, "the file is open for reading only; open it O_RDWR");
	return 0;
}

/* The length of a file or a block device in bytes. Return: 0 or -errno. */
static int map_file_size(int fd, uint64_t *bytes)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	*bytes = (uint64_t)st.st_size;
	if (S_ISBLK(st.st_mode) && ioctl(fd, BLKGETSIZE64, bytes) < 0)
		return -errno;
	return 0;
}

static int map_check(int fd, off_t offset, size_t *length, int prot, int flags)
{
	int err = map_check_fd(fd, prot, flags);
	uint64_t size;

	if (err)
		return err;
	if (offset < 0 || offset % (off_t)LIB_PAGE)
		return lib_fail(-EINVAL, "the offset must be a multiple of 4096");
	if (prot != PROT_READ && prot != (PROT_READ | PROT_WRITE))
		return lib_fail(-EINVAL, "prot must be PROT_READ or PROT_READ | PROT_WRITE");
	if (flags & ~HUGEMAP_PRIVATE)
		return lib_fail(-EINVAL, "flags has bits other than HUGEMAP_PRIVATE");
	if (!*length) {
		err = map_file_size(fd, &size);
		if (err)
			return lib_fail(err, "fstat: %s", strerror(-err));
		if (size <= (uint64_t)offset)
			return lib_fail(-EINVAL, "the file ends before the offset: nothing to map");
		*length = size - (uint64_t)offset;
	}
	if (*length > SIZE_MAX / 4 || (uint64_t)offset + *length > (uint64_t)INT64_MAX)
		return lib_fail(-EOVERFLOW, "the range ends beyond the largest possible file");
	return 0;
}

/*
 * Reserve addresses whose distance to @offset is a multiple of 2 MB, so that one page-table
 * entry can map 2 MB of the file. Return: the start, or NULL.
 */
static char *map_reserve(uintptr_t offset, size_t bytes)
{
	char *at = mmap(NULL, bytes + LIB_HUGE_PAGE, PROT_NONE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	size_t skip;

	if (at == MAP_FAILED)
		return NULL;
	skip = (offset - (uintptr_t)at) % LIB_HUGE_PAGE;
	if (skip)
		munmap(at, skip);
	munmap(at + skip + bytes, LIB_HUGE_PAGE - skip);
	return at + skip;
}

static size_t map_whole_pages(size_t length)
{
	return (length + LIB_PAGE - 1) / LIB_PAGE * LIB_PAGE;
}

void *hugemap_map(int fd, off_t offset, size_t length, int prot, int flags)
{
	int err, kind = flags & HUGEMAP_PRIVATE ? MAP_PRIVATE : MAP_SHARED;
	size_t bytes;
	char *at;

	LIB_CALL();
	err = map_check(fd, offset, &length, prot, flags);
	if (err)
		return map_error(err);
	bytes = map_whole_pages(length);
	at = map_reserve((uintptr_t)offset, bytes);
	if (!at)
		return map_error(lib_fail(
			-ENOMEM, "no address space is left for a mapping of %zu MB", bytes >> 20));
	if (mmap(at, bytes, prot, kind | MAP_FIXED, fd, offset) == MAP_FAILED) {
		err = -errno;
		munmap(at, bytes);
		return map_error(lib_fail(err, "mmap: %s", strerror(-err)));
	}
	if (lib_steers())
		steer_mapped(at, bytes, prot, kind, offset);
	return at;
}

int hugemap_unmap(void *addr, size_t length)
{
	struct steer_removal removed = {};
	char *start, *end;
	int err;

	LIB_CALL();
	err = lib_check_range(addr, length, true, &start, &end);
	if (err)
		return err;
	if (lib_steers())
		removed = steer_unmapping(start, (size_t)(end - start));
	if (munmap(start, (size_t)(end - start)) < 0)
		err = -errno;
	steer_unmapped(removed, !err);
	return err ? lib_fail(err, "munmap: %s", strerror(-err)) : 0;
}

/* Under `hugemap run` the preload library's mremap() does what steer_remap() does. */
static char *map_move(char *start, size_t old_bytes, size_t new_bytes, int flags, char *place)
{
	char *at;

	if (lib_steers())
		return steer_remap(start, old_bytes, new_bytes, flags, place);
	at = mremap(start, old_bytes, new_bytes, flags, place);
	return at == MAP_FAILED ? map_error(-errno) : at;
}

/* If mremap() moves the mapping, it does not preserve the alignment, so reserve a place. */
static char *map_move_aligned(char *start, size_t old_bytes, size_t new_bytes)
{
	char *place, *at = map_move(start, old_bytes, new_bytes, 0, NULL);

	if (hugemap_error(at) != -ENOMEM)
		return at;
	place = map_reserve((uintptr_t)start, new_bytes);
	if (!place)
		return map_error(-ENOMEM);
	at = map_move(start, old_bytes, new_bytes, MREMAP_MAYMOVE | MREMAP_FIXED, place);
	if (hugemap_error(at))
		munmap(place, new_bytes);
	return at;
}

void *hugemap_remap(void *addr, size_t old_length, size_t new_length)
{
	char *start, *end, *unused, *new_end, *at;
	int err;

	LIB_CALL();
	err = lib_check_range(addr, old_length, true, &start, &end);
	if (!err)
		err = lib_check_range(addr, new_length, true, &unused, &new_end);
	if (err)
		return map_error(err);
	at = map_move_aligned(start, (size_t)(end - start), (size_t)(new_end - start));
	err = hugemap_error(at);
	if (err)
		return map_error(lib_fail(err, "mremap: %s", strerror(-err)));
	return at;
}
