// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Reads that must not wait: they give what is cached, or say that it would take a wait.
 *
 * vm: page=2M,4K,auto lower=ext4
 */
#include "common.h"

#include <sys/uio.h>

static ssize_t read_now(int fd, void *buf, size_t len, off_t off)
{
	struct iovec iov = { buf, len };

	return preadv2(fd, &iov, 1, off, RWF_NOWAIT);
}

static ssize_t write_now(int fd, void *buf, size_t len, off_t off)
{
	struct iovec iov = { buf, len };

	return pwritev2(fd, &iov, 1, off, RWF_NOWAIT);
}

BEHAVIOUR(cached_or_not)
{
	int fd = make_file("f", 1, 3 * HUGE), direct;
	unsigned char *buf = buffer(HUGE);
	ssize_t n;

	if (!on_hugemap())
		skip("how much of it is cached is not known here");
	MUST(fsync(fd));
	MUST(posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM));
	MUST(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED));
	EXPECT_ERRNO(read_now(fd, buf, HUGE, 0), EAGAIN);
	EXPECT_ERRNO(read_now(fd, buf, 1, HUGE + 5), EAGAIN);
	read_pattern("read", fd, 1, HUGE + 100, 50);
	n = read_now(fd, buf, 50, HUGE + 100);
	EXPECT(n == 50, "a read of what is cached gave %zd: %s", n, strerror(errno));
	expect_pattern("read at once", buf, 1, HUGE + 100, 50);
	/* Up to where it is cached, and no further. */
	read_pattern("read", fd, 1, 2 * HUGE - SMALL, SMALL);
	n = read_now(fd, buf, 2 * SMALL, 2 * HUGE - SMALL);
	EXPECT(n == (ssize_t)SMALL, "a read of which half is cached gave %zd: %s", n,
	       strerror(errno));
	expect_pattern("read at once", buf, 1, 2 * HUGE - SMALL, SMALL);
	EXPECT_ERRNO(read_now(fd, buf, SMALL, 2 * HUGE), EAGAIN);
	EXPECT(read_now(fd, buf, 1, 3 * HUGE) == 0, "a read at the end gave something");
	EXPECT_ERRNO(write_now(fd, buf, 1, HUGE + 100), EOPNOTSUPP);
	direct = open("f", O_RDONLY | O_DIRECT | O_CLOEXEC);
	if (direct >= 0)
		EXPECT_ERRNO(read_now(direct, buf, SMALL, 0), EAGAIN);
	read_pattern("read of all", fd, 1, 0, 3 * HUGE);
}

RUN_BEHAVIOURS
