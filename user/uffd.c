// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "uffd.h"

#include "cache.h"
#include "linux.h"
#include "pagemap.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

#define FEATURES (UFFD_FEATURE_MOVE | UFFD_FEATURE_POISON | UFFD_FEATURE_PAGEFAULT_FLAG_WP)

/*
 * A page is pinned for the time of an I/O, or held by a passer-by: be patient,
 * but not for ever.
 */
#define MOVE_RETRIES 64

static int open_any(struct uffd_caps *caps)
{
	int flags = O_CLOEXEC | O_NONBLOCK;
	int dev, fd;

	dev = sys_open("/dev/userfaultfd", O_RDWR);
	if (dev >= 0) {
		fd = sys_ioctl(dev, USERFAULTFD_IOC_NEW, (void *)(uintptr_t)flags);
		sys_close(dev);
		if (fd >= 0) {
			caps->from_device = true;
			return fd;
		}
	}
	fd = sys_userfaultfd(flags);
	if (fd == -EPERM) {
		fd = sys_userfaultfd(flags | UFFD_USER_MODE_ONLY);
		caps->user_mode_only = fd >= 0;
	}
	return fd;
}

int uffd_open(struct uffd_caps *caps)
{
	struct uffdio_api api = { .api = UFFD_API, .features = FEATURES };
	int fd;

	*caps = (struct uffd_caps){ .why = "" };
	fd = open_any(caps);
	if (fd < 0) {
		caps->err = fd;
		caps->why = fd == -ENOSYS ? "this kernel is built without userfaultfd" :
					    "userfaultfd is not allowed here";
		return fd;
	}
	if (caps->user_mode_only) {
		sys_close(fd);
		caps->err = -EPERM;
		caps->why = "only faults from user mode may be handled here, so system calls on "
			    "the mapping would fail";
		return caps->err;
	}
	if (sys_ioctl(fd, UFFDIO_API, &api)) {
		sys_close(fd);
		caps->err = -EOPNOTSUPP;
		caps->why = "this kernel has no UFFDIO_MOVE (it came with Linux 6.8)";
		return caps->err;
	}
	return fd;
}

static int do_register(int uffd, void *addr, size_t len, __u64 mode)
{
	struct uffdio_register reg = {
		.range = { .start = (uintptr_t)addr, .len = len },
		.mode = mode,
	};

	return sys_ioctl(uffd, UFFDIO_REGISTER, &reg);
}

int uffd_register(int uffd, void *addr, size_t len)
{
	return do_register(uffd, addr, len, UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_WP);
}

int uffd_register_quiet(int uffd, void *addr, size_t len)
{
	return do_register(uffd, addr, len, UFFDIO_REGISTER_MODE_WP);
}

int uffd_unregister(int uffd, void *addr, size_t len)
{
	struct uffdio_range range = { .start = (uintptr_t)addr, .len = len };

	return sys_ioctl(uffd, UFFDIO_UNREGISTER, &range);
}

enum page_is {
	PAGE_IS_UNKNOWN,
	PAGE_IS_ABSENT,
	PAGE_IS_THERE, /* in memory, or swapped out */
};

static enum page_is look_at(int pagemap, const char *at)
{
	u64 entry;

	if (sys_pread(pagemap, &entry, sizeof(entry), pagemap_offset(at)) != (ssize_t)sizeof(entry))
		return PAGE_IS_UNKNOWN;
	return pagemap_all_there(&entry, 1) ? PAGE_IS_THERE : PAGE_IS_ABSENT;
}

/*
 * How many bytes were moved although the kernel reports an error? Linux 6.18
 * says EBUSY, and EEXIST when asked again, for a page that it has moved, if
 * another thread splits the huge page that it comes from at that moment. Such
 * a page is not where it was and is where it should be.
 */
static size_t moved_anyway(int pagemap, char *dst, char *src, size_t len)
{
	size_t at = 0;

	while (at < len && look_at(pagemap, src + at) == PAGE_IS_ABSENT &&
	       look_at(pagemap, dst + at) == PAGE_IS_THERE)
		at += HM_PAGE_SIZE;
	return at;
}

int uffd_move(int uffd, int pagemap, void *dst, void *src, size_t len, bool wake, size_t *moved)
{
	int retries = 0, err;
	size_t more;

	*moved = 0;
	while (*moved < len) {
		struct uffdio_move move = {
			.dst = (uintptr_t)dst + *moved,
			.src = (uintptr_t)src + *moved,
			.len = len - *moved,
			.mode = wake ? 0 : UFFDIO_MOVE_MODE_DONTWAKE,
		};

		err = sys_ioctl(uffd, UFFDIO_MOVE, &move);
		if (!err) {
			*moved += move.move > 0 ? (size_t)move.move : move.len;
			continue;
		}
		if (move.move > 0) {
			*moved += (size_t)move.move;
			continue;
		}
		more = moved_anyway(pagemap, (char *)dst + *moved, (char *)src + *moved,
				    len - *moved);
		*moved += more;
		if (more) {
			if (wake)
				uffd_wake(uffd, (char *)dst + *moved - more, more);
			continue;
		}
		if (err != -EAGAIN && err != -EBUSY)
			return err;
		if (++retries > MOVE_RETRIES)
			return -EBUSY;
		sys_yield();
	}
	return 0;
}

static int write_protect(int uffd, void *addr, size_t len, __u64 mode)
{
	struct uffdio_writeprotect wp = {
		.range = { .start = (uintptr_t)addr, .len = len },
		.mode = mode,
	};
	int err;

	do {
		err = sys_ioctl(uffd, UFFDIO_WRITEPROTECT, &wp);
	} while (err == -EAGAIN);
	return err;
}

int uffd_protect(int uffd, void *addr, size_t len)
{
	return write_protect(uffd, addr, len, UFFDIO_WRITEPROTECT_MODE_WP);
}

int uffd_unprotect(int uffd, void *addr, size_t len)
{
	return write_protect(uffd, addr, len, 0);
}

int uffd_wake(int uffd, void *addr, size_t len)
{
	struct uffdio_range range = { .start = (uintptr_t)addr, .len = len };

	return sys_ioctl(uffd, UFFDIO_WAKE, &range);
}

int uffd_poison(int uffd, void *addr, size_t len)
{
	struct uffdio_poison poison = {
		.range = { .start = (uintptr_t)addr, .len = len },
	};
	int err;

	do {
		err = sys_ioctl(uffd, UFFDIO_POISON, &poison);
	} while (err == -EAGAIN);
	return err;
}

int uffd_watches(int uffd, void *addr, size_t len)
{
	return write_protect(uffd, addr, len, UFFDIO_WRITEPROTECT_MODE_DONTWAKE);
}

/* A page of zeros can be had where none is: who has one, or is not watched, says so. */
int uffd_watches_page(int uffd, void *page)
{
	struct uffdio_zeropage zero = {
		.range = { .start = (uintptr_t)page, .len = HM_PAGE_SIZE },
		.mode = UFFDIO_ZEROPAGE_MODE_DONTWAKE,
	};
	int err;

	do {
		err = sys_ioctl(uffd, UFFDIO_ZEROPAGE, &zero);
	} while (err == -EAGAIN);
	if (!err)
		sys_madvise(page, HM_PAGE_SIZE, MADV_DONTNEED);
	return err == -EEXIST ? 0 : err ? err : -ENODATA;
}
