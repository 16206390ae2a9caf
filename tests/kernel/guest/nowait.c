// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * A read with RWF_NOWAIT returns cached bytes; if the first page is not cached, it fails with
 * EAGAIN. A write with RWF_NOWAIT is not supported.
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

BEHAVIOUR(nowait_read_returns_cached_bytes_or_eagain)
{
	int fd = make_file("f", 1, 3 * HUGE), direct;
	unsigned char *buf = buffer(HUGE);
	ssize_t n;

	if (!on_hugemap())
		skip("other file systems may have the file cached");
	MUST(fsync(fd));
	MUST(posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM));
	MUST(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED));
	EXPECT_ERRNO(read_now(fd, buf, HUGE, 0), EAGAIN);
	EXPECT_ERRNO(read_now(fd, buf, 1, HUGE + 5), EAGAIN);
	read_pattern("read", fd, 1, HUGE + 100, 50);
	n = read_now(fd, buf, 50, HUGE + 100);
	EXPECT(n == 50, "a read of cached bytes returned %zd: %s", n, strerror(errno));
	expect_pattern("read with RWF_NOWAIT", buf, 1, HUGE + 100, 50);
	/* A range that is half cached gives a short read. */
	read_pattern("read", fd, 1, 2 * HUGE - SMALL, SMALL);
	n = read_now(fd, buf, 2 * SMALL, 2 * HUGE - SMALL);
	EXPECT(n == (ssize_t)SMALL, "a read of half cached bytes returned %zd: %s", n,
	       strerror(errno));
	expect_pattern("read with RWF_NOWAIT", buf, 1, 2 * HUGE - SMALL, SMALL);
	EXPECT_ERRNO(read_now(fd, buf, SMALL, 2 * HUGE), EAGAIN);
	EXPECT(read_now(fd, buf, 1, 3 * HUGE) == 0, "a read at the end returned bytes");
	EXPECT_ERRNO(write_now(fd, buf, 1, HUGE + 100), EOPNOTSUPP);
	direct = open("f", O_RDONLY | O_DIRECT | O_CLOEXEC);
	if (direct >= 0)
		EXPECT_ERRNO(read_now(direct, buf, SMALL, 0), EAGAIN);
	read_pattern("read of the file", fd, 1, 0, 3 * HUGE);
}

RUN_BEHAVIOURS
