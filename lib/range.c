// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Calls on ranges of addresses: sync, advice, prefetch. */
#include "lib.h"

#include "areas.h"
#include "steer.h"

#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

/* The kernel returns ENOMEM if a part of the range is not mapped. */
static int range_error(const char *what)
{
	return lib_fail(errno == ENOMEM ? -EINVAL : -errno, "%s: %s", what, strerror(errno));
}

int hugemap_sync(void *addr, size_t length, int flags)
{
	char *start, *end;
	int err;

	LIB_CALL();
	err = lib_check_range(addr, length, true, &start, &end);
	if (err)
		return err;
	if (flags & ~(MS_SYNC | MS_ASYNC | MS_INVALIDATE) ||
	    !(flags & MS_SYNC) == !(flags & MS_ASYNC))
		return lib_fail(-EINVAL, "flags must be MS_SYNC or MS_ASYNC");
	return msync(start, (size_t)(end - start), flags) < 0 ? range_error("msync") : 0;
}

int hugemap_advise(void *addr, size_t length, enum hugemap_advice advice)
{
	static const int advices[] = {
		[HUGEMAP_ADVICE_NORMAL] = MADV_NORMAL,
		[HUGEMAP_ADVICE_SEQUENTIAL] = MADV_SEQUENTIAL,
		[HUGEMAP_ADVICE_RANDOM] = MADV_RANDOM,
		[HUGEMAP_ADVICE_WILLNEED] = MADV_WILLNEED,
		/* MADV_DONTNEED would drop the stores of a private mapping. */
		[HUGEMAP_ADVICE_DONTNEED] = MADV_PAGEOUT,
	};
	char *start, *end;
	int err;

	LIB_CALL();
	err = lib_check_range(addr, length, false, &start, &end);
	if (err)
		return err;
	if ((unsigned int)advice > HUGEMAP_ADVICE_DONTNEED)
		return lib_fail(-EINVAL, "the advice is not one of enum hugemap_advice");
	err = madvise(start, (size_t)(end - start), advices[advice]);
	/* If a part of the range is not mapped, the kernel advises the rest and reports ENOMEM. */
	if (err && errno != ENOMEM)
		return range_error("madvise");
	/* WILLNEED and DONTNEED are single actions and not lasting advice. */
	if (advice <= HUGEMAP_ADVICE_RANDOM && lib_steers())
		steer_hint(start, (size_t)(end - start), advices[advice]);
	return err ? range_error("madvise") : 0;
}

/* --- prefetch --------------------------------------------------------------------- */

/* Before Linux 5.14: the kernel copies a byte of each page, and returns errors as results. */
static int range_read_each_page(char *start, const char *end)
{
	char bytes[64];
	struct iovec pages[sizeof(bytes)], to = { .iov_base = bytes };
	ssize_t n;

	madvise(start, (size_t)(end - start), MADV_WILLNEED);
	while (start < end) {
		for (to.iov_len = 0; start < end && to.iov_len < sizeof(bytes); start += LIB_PAGE)
			pages[to.iov_len++] = (struct iovec){ start, 1 };
		n = process_vm_readv(getpid(), &to, 1, pages, to.iov_len, 0);
		if (n != (ssize_t)to.iov_len)
			return n < 0 ? -errno : -EFAULT;
	}
	return 0;
}

static int range_populate(char *start, const char *end)
{
	if (start >= end || !madvise(start, (size_t)(end - start), MADV_POPULATE_READ))
		return 0;
	return errno == EINVAL ? range_read_each_page(start, end) : -errno;
}

/*
 * Return the address at which the file ends; pages behind it raise SIGBUS. Return @end if the file
 * extends beyond it, or if its length is unknown because its name was deleted.
 */
static char *range_end_of_file(const struct area *area, char *end)
{
	struct stat st;
	uint64_t size;

	if (stat(area->path, &st) || !S_ISREG(st.st_mode) || st.st_ino != area->ino)
		return end;
	size = ((uint64_t)st.st_size + LIB_PAGE - 1) / LIB_PAGE * LIB_PAGE;
	size = size > area->offset ? size - area->offset : 0;
	return size < (uintptr_t)end - area->start ? (char *)area->start + size : end;
}

/* A page could not be read. Read up to the end of each file, so that only errors fail. */
static int range_populate_areas(char *start, char *end)
{
	struct areas areas;
	struct area area;
	int err = 0;

	if (!areas_open(&areas, "/proc/self/maps"))
		return -errno;
	while (!err && areas_next(&areas, &area)) {
		char *from = start, *to = end;

		if (area.start >= (uintptr_t)end || area.end <= (uintptr_t)start)
			continue;
		if (area.start > (uintptr_t)from)
			from = (char *)area.start;
		if (area.end < (uintptr_t)to)
			to = (char *)area.end;
		err = range_populate(from, area.ino ? range_end_of_file(&area, to) : to);
	}
	areas_close(&areas);
	return err;
}

int hugemap_prefetch(void *addr, size_t length)
{
	char *start, *end;
	int err;

	LIB_CALL();
	err = lib_check_range(addr, length, false, &start, &end);
	if (err)
		return err;
	err = range_populate(start, end);
	if (err == -EFAULT)
		err = range_populate_areas(start, end);
	if (err == -ENOMEM)
		return lib_fail(-EINVAL, "a part of the range is not mapped");
	return err ? lib_fail(-EIO, "a part of the range cannot be read") : 0;
}
