/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * userfaultfd, as the engine uses it. Thin: each function is one ioctl (or a
 * short retry loop around it) and returns 0 or a negative errno.
 */
#ifndef HM_UFFD_H
#define HM_UFFD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <linux/userfaultfd.h>

/* Debian 12's headers (Linux 6.1) lack what came with 6.6 and 6.8. */
#ifndef UFFD_FEATURE_WP_ASYNC
#define UFFD_FEATURE_WP_ASYNC (1 << 15)
#endif
#ifndef UFFD_FEATURE_POISON
#define UFFD_FEATURE_POISON (1 << 14)
#endif
#ifndef UFFD_FEATURE_MOVE
#define UFFD_FEATURE_MOVE (1 << 16)
#endif

#ifndef UFFDIO_POISON
#define _UFFDIO_POISON (0x08)
struct uffdio_poison {
	struct uffdio_range range;
	__u64 mode;
	__s64 updated;
};
#define UFFDIO_POISON _IOWR(UFFDIO, _UFFDIO_POISON, struct uffdio_poison)
#endif

#ifndef UFFDIO_MOVE
#define _UFFDIO_MOVE (0x05)
struct uffdio_move {
	__u64 dst;
	__u64 src;
	__u64 len;
#define UFFDIO_MOVE_MODE_DONTWAKE ((__u64)1 << 0)
#define UFFDIO_MOVE_MODE_ALLOW_SRC_HOLES ((__u64)1 << 1)
	__u64 mode;
	__s64 move;
};
#define UFFDIO_MOVE _IOWR(UFFDIO, _UFFDIO_MOVE, struct uffdio_move)
#endif

#ifndef USERFAULTFD_IOC_NEW
#define USERFAULTFD_IOC 0xAA
#define USERFAULTFD_IOC_NEW _IO(USERFAULTFD_IOC, 0x00)
#endif

/**
 * struct uffd_caps - what this machine allows
 * @err: 0, or the negative errno that says why the engine cannot work here
 * @why: that, in words
 * @user_mode_only: faults from inside system calls cannot be served
 * @from_device: opened through /dev/userfaultfd
 */
struct uffd_caps {
	int err;
	const char *why;
	bool user_mode_only;
	bool from_device;
};

/**
 * uffd_open() - open a userfaultfd with every feature that the engine needs
 * @caps: filled in, also on failure
 *
 * Return: a non-blocking, close-on-exec file descriptor, or caps->err.
 */
int uffd_open(struct uffd_caps *caps);

/* Watch a range for missing pages and for stores to protected ones. */
int uffd_register(int uffd, void *addr, size_t len);
/* Only take part in moves: a touch of an empty page is the kernel's business. */
int uffd_register_quiet(int uffd, void *addr, size_t len);
int uffd_unregister(int uffd, void *addr, size_t len);

/*
 * Is a range watched, still? A program may have unmapped it with munmap(2), and something
 * else may be there now.
 *
 * uffd_watches(): a range of which nothing counts; 0 or -ENOENT
 * uffd_watches_page(): of a page, which stays as it is; 0, -ENOENT, or -ENODATA: it is
 *	watched, and nothing is there
 */
int uffd_watches(int uffd, void *addr, size_t len);
int uffd_watches_page(int uffd, void *page);

/*
 * Move pages without a copy. -EEXIST: something is at dst; -ENOENT: nothing is
 * at src, or dst is not registered; -EBUSY: a page is pinned; part of the range
 * may have moved: *moved tells. Waiters at dst are woken if @wake. @pagemap: see pagemap.h.
 */
int uffd_move(int uffd, int pagemap, void *dst, void *src, size_t len, bool wake, size_t *moved);

/* Write-protect, or allow stores again; the latter wakes waiters. */
int uffd_protect(int uffd, void *addr, size_t len);
int uffd_unprotect(int uffd, void *addr, size_t len);

int uffd_wake(int uffd, void *addr, size_t len);

/* From now on touching the range raises SIGBUS, until MADV_DONTNEED. */
int uffd_poison(int uffd, void *addr, size_t len);

#endif /* HM_UFFD_H */
