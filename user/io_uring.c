// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * I/O by io_uring. The handler waits in one place for completions, faults and
 * requests: the last two are multishot polls on the ring.
 */
#include "io.h"
#include "linux.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>
#include <liburing.h>

/* Tags of polls; operations are tagged with their address. */
enum {
	TAG_FAULT = 1,
	TAG_REQUEST = 2,
	TAGS,
};

#define POLLS 3u

struct ring {
	struct io_uring uring;
	u32 events;
	u32 to_poll; /* bit per tag: its poll must be (re)armed */
	struct io_op *completed; /* reaped while waiting, not handed out yet */
	struct io_op *waiting; /* could not be queued: the ring was full */
};

static struct io_uring_sqe *get_sqe(struct ring *ring)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring->uring);

	if (!sqe) {
		io_uring_submit(&ring->uring);
		sqe = io_uring_get_sqe(&ring->uring);
	}
	hm_assert(sqe); /* the ring has room for every operation and poll */
	return sqe;
}

static void arm_polls(struct io *io)
{
	struct ring *ring = io->private;
	const int fds[TAGS] = { -1, io->uffd, io->event_fd };
	u32 tag;

	for (tag = TAG_FAULT; tag < TAGS; tag++) {
		struct io_uring_sqe *sqe;

		if (!(ring->to_poll & (1u << tag)))
			continue;
		ring->to_poll &= ~(1u << tag);
		if (fds[tag] < 0)
			continue;
		sqe = get_sqe(ring);
		io_uring_prep_poll_multishot(sqe, fds[tag], POLLIN);
		sqe->user_data = tag;
	}
}

/* As for all descriptors of ours: not 0, 1 or 2; see linux.c. */
static int keep_streams(struct io_uring *uring)
{
	int fd = uring->ring_fd, high;

	if (fd > STDERR_FILENO)
		return 0;
	high = sys_fcntl(fd, F_DUPFD_CLOEXEC, (void *)(STDERR_FILENO + 1L));
	if (high < 0)
		return high;
	uring->ring_fd = uring->enter_ring_fd = high;
	sys_close(fd);
	return 0;
}

static int uring_init(struct io *io, u32 depth)
{
	const unsigned int flags[] = {
		IORING_SETUP_CLAMP | IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN,
		IORING_SETUP_CLAMP | IORING_SETUP_COOP_TASKRUN,
		IORING_SETUP_CLAMP,
	};
	struct ring *ring = calloc(1, sizeof(*ring));
	int err = -ENOSYS;
	u32 i;

	if (!ring)
		return -ENOMEM;
	for (i = 0; i < sizeof(flags) / sizeof(flags[0]) && err; i++)
		err = io_uring_queue_init(depth + POLLS, &ring->uring, flags[i]);
	if (err) {
		free(ring);
		return err;
	}
	err = keep_streams(&ring->uring);
	if (err) {
		io_uring_queue_exit(&ring->uring);
		free(ring);
		return err;
	}
	io_uring_ring_dontfork(&ring->uring);
	ring->to_poll = 1u << TAG_FAULT | 1u << TAG_REQUEST;
	io->private = ring;
	return 0;
}

static void uring_queue(struct io *io, struct io_op *op)
{
	struct ring *ring = io->private;
	struct io_uring_sqe *sqe = get_sqe(ring);

	if (op->type == IO_ROOM)
		io_uring_prep_fallocate(sqe, op->fd, FALLOC_FL_KEEP_SIZE, op->offset, op->len);
	else if (op->type == IO_READ)
		io_uring_prep_read(sqe, op->fd, op->buffer + op->done,
				   (unsigned int)(op->len - op->done), op->offset);
	else
		io_uring_prep_write(sqe, op->fd, op->buffer + op->done,
				    (unsigned int)(op->len - op->done), op->offset);
	io_uring_sqe_set_data(sqe, op);
}

static void uring_submit(struct io *io)
{
	struct ring *ring = io->private;

	io_uring_submit(&ring->uring);
}

static void poll_done(struct io *io, u32 tag, const struct io_uring_cqe *cqe)
{
	static const u32 event[TAGS] = { 0, IO_EVENT_FAULT, IO_EVENT_REQUEST };
	struct ring *ring = io->private;
	uint64_t drained;

	if (!(cqe->flags & IORING_CQE_F_MORE))
		ring->to_poll |= 1u << tag;
	if (tag == TAG_REQUEST && sys_read(io->event_fd, &drained, sizeof(drained)) < 0)
		return; /* drained already */
	ring->events |= event[tag];
}

/* Sort what has completed into events and operations. */
static void collect(struct io *io)
{
	struct ring *ring = io->private;
	struct io_uring_cqe *cqes[32];
	unsigned int n, i;

	n = io_uring_peek_batch_cqe(&ring->uring, cqes, 32);
	for (i = 0; i < n; i++) {
		const struct io_uring_cqe *cqe = cqes[i];

		if (cqe->user_data < TAGS) {
			poll_done(io, (u32)cqe->user_data, cqe);
		} else {
			struct io_op *op = io_uring_cqe_get_data(cqe);

			op->result = cqe->res;
			op->next = ring->completed;
			ring->completed = op;
		}
	}
	io_uring_cq_advance(&ring->uring, n);
}

/* Look for events without going to sleep, for a moment. True: there are some. */
static bool spin(struct io *io)
{
	struct ring *ring = io->private;
	u64 until;

	if (!io->spin_ns)
		return false;
	until = sys_clock_ns() + io->spin_ns;
	do {
		io_uring_submit_and_get_events(&ring->uring);
		if (io_uring_cq_ready(&ring->uring))
			return true;
		sys_yield(); /* whoever has work to do goes first */
	} while (sys_clock_ns() < until);
	return false;
}

static u32 uring_wait(struct io *io, int timeout_ms)
{
	struct ring *ring = io->private;
	struct __kernel_timespec ts = {
		.tv_sec = timeout_ms / 1000,
		.tv_nsec = timeout_ms % 1000 * 1000000ll,
	};
	struct io_uring_cqe *cqe;
	u32 events;

	arm_polls(io);
	if (ring->completed || timeout_ms == 0 || spin(io))
		io_uring_submit_and_get_events(&ring->uring);
	else
		io_uring_submit_and_wait_timeout(&ring->uring, &cqe, 1, timeout_ms < 0 ? NULL : &ts,
						 NULL);
	collect(io);
	events = ring->events;
	ring->events = 0;
	return events;
}

static struct io_op *uring_reap(struct io *io)
{
	struct ring *ring = io->private;
	struct io_op *op = ring->completed;

	if (op)
		ring->completed = op->next;
	return op;
}

static void uring_destroy(struct io *io)
{
	struct ring *ring = io->private;

	io_uring_queue_exit(&ring->uring);
	free(ring);
}

static void uring_forked(struct io *io)
{
	struct ring *ring = io->private;

	sys_close(ring->uring.ring_fd);
}

const struct io_backend io_uring_backend = {
	.name = "io_uring",
	.init = uring_init,
	.queue = uring_queue,
	.submit = uring_submit,
	.wait = uring_wait,
	.reap = uring_reap,
	.destroy = uring_destroy,
	.forked = uring_forked,
};
