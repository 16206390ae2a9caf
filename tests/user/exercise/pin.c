// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Pages of a mapping that a device keeps: what it has pinned cannot be moved.
 */
#include "pool.h"

#include <liburing.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

/* By a buffer that io_uring has registered: its pages are pinned until that ends. */
static void read_fixed(struct worker *w, struct io_uring *ring, int fd, unsigned char *addr,
		       uint64_t len)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);
	struct io_uring_cqe *cqe;
	int err;

	fill(w, w->buf, len);
	transferred(w, "direct write of another file", 0, len, pwrite(fd, w->buf, len, 0));
	io_uring_prep_read_fixed(sqe, fd, addr, (unsigned int)len, 0, 0);
	err = io_uring_submit_and_wait(ring, 1);
	if (err < 0 || io_uring_wait_cqe(ring, &cqe))
		fail(w, "io_uring: %s", strerror(-err));
	if (cqe->res != (int)len)
		fail(w, "a read into a registered buffer gave %d of %llu", cqe->res,
		     (unsigned long long)len);
	io_uring_cqe_seen(ring, cqe);
}

void op_pin(struct worker *w)
{
	uint64_t off, len;
	struct kept *kept = pick_part(w, true, &off, &len);
	unsigned int rounds = 1 + (unsigned int)random_below(w, 3), i;
	unsigned char *addr;
	struct io_uring ring;
	struct disturber d;
	struct iovec iov;
	int fd;

	if (!kept)
		return;
	addr = mapped(kept, off);
	iov = (struct iovec){ addr, len };
	note(w, "pin", off, len, rounds);
	if (io_uring_queue_init(2, &ring, 0))
		return; /* it is not allowed here */
	/* The kernel's part of a mapping cannot be pinned for long. */
	if (io_uring_register_buffers(&ring, &iov, 1)) {
		io_uring_queue_exit(&ring);
		return;
	}
	fd = open_other(w);
	for (i = 0; fd >= 0 && i < rounds; i++) {
		disturb_begin(w, &d, kept);
		read_fixed(w, &ring, fd, addr, len);
		disturb_end(&d);
		wrote(w, off, w->buf, len);
		check(w, "load of what is pinned", off, addr, len);
		then_sync(w, kept, off, len);
	}
	if (fd >= 0)
		close(fd);
	io_uring_unregister_buffers(&ring);
	io_uring_queue_exit(&ring);
	check(w, "load of what was pinned", off, addr, len);
}
