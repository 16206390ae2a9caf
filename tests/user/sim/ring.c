// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * io.h's backend for io_uring, simulated: operations are taken up in any order by a few
 * workers, and complete in any order; the polls are edges, as those of a ring are.
 */
#include "os.h"

#include <errno.h>
#include <fcntl.h>

#include "io.h"
#include "linux.h"

#include "alloc.h"

#define WORKERS 2u
#define RING_OPS 256u

struct ring {
	struct io *io;
	struct io_op *staged[RING_OPS]; /* not submitted yet */
	struct io_op *queued[RING_OPS];
	struct io_op *completed[RING_OPS];
	u32 nstaged, nqueued, ncompleted;
	u64 faults_seen;
	bool stop;
	u32 workers;
};

static struct io_op *take_any(struct io_op **ops, u32 *n)
{
	u32 i = sim_below(*n);
	struct io_op *op = ops[i];

	ops[i] = ops[--*n];
	return op;
}

static void *worker(void *arg)
{
	struct ring *ring = arg;

	while (!ring->stop) {
		struct io_op *op;
		struct os_file *file;
		char *buffer;

		sim_yield();
		if (!ring->nqueued)
			continue;
		op = take_any(ring->queued, &ring->nqueued);
		file = file_of(op->fd);
		buffer = op->buffer + op->done;
		if (sim_chance(machine.refuse_percent))
			op->result = sim_chance(50) ? -EINTR : -EAGAIN;
		else if (op->type == IO_ROOM)
			op->result =
				sys_fallocate(op->fd, FALLOC_FL_KEEP_SIZE, op->offset, op->len);
		else if (file_is_direct(op->fd))
			op->result = file_direct(file, buffer, op->len - op->done, op->offset,
						 op->type == IO_WRITE);
		else
			op->result = file_buffered(file, buffer, op->len - op->done, op->offset,
						   op->type == IO_WRITE);
		ring->completed[ring->ncompleted++] = op;
		sim_progress();
	}
	ring->workers--;
	return NULL;
}

static int ring_init(struct io *io, u32 depth)
{
	struct ring *ring;
	u32 i;

	sim_check(depth <= RING_OPS, "a ring of %u operations", depth);
	if (sim_chance(machine.refuse_percent))
		return -EPERM;
	ring = calloc(1, sizeof(*ring));
	ring->io = io;
	io->private = ring;
	ring->workers = WORKERS;
	for (i = 0; i < WORKERS; i++)
		thread_spawn("device", worker, ring);
	return 0;
}

static void ring_queue(struct io *io, struct io_op *op)
{
	struct ring *ring = io->private;

	ring->staged[ring->nstaged++] = op;
}

static void ring_submit(struct io *io)
{
	struct ring *ring = io->private;

	sim_step();
	while (ring->nstaged)
		ring->queued[ring->nqueued++] = ring->staged[--ring->nstaged];
}

static u32 ring_wait(struct io *io, int timeout_ms)
{
	u64 until = clock_now_ms() + (u64)timeout_ms, drained;
	struct ring *ring = io->private;
	u32 events = 0;

	ring_submit(io);
	for (;;) {
		if (ring->faults_seen != userfault_events)
			events |= IO_EVENT_FAULT;
		ring->faults_seen = userfault_events;
		if (descriptor_readable(io->event_fd)) {
			sys_read(io->event_fd, &drained, sizeof(drained));
			events |= IO_EVENT_REQUEST;
		}
		if (events || ring->ncompleted || (timeout_ms >= 0 && clock_now_ms() >= until))
			return events;
		sim_yield();
	}
}

static struct io_op *ring_reap(struct io *io)
{
	struct ring *ring = io->private;

	return ring->ncompleted ? take_any(ring->completed, &ring->ncompleted) : NULL;
}

static void ring_destroy(struct io *io)
{
	struct long_wait wait = { 0 };
	struct ring *ring = io->private;

	ring->stop = true;
	while (ring->workers)
		wait_more(&wait, "the ring's workers");
	free(ring);
}

static void ring_forked(struct io *io)
{
	(void)io;
}

const struct io_backend io_uring_backend = {
	.name = "io_uring",
	.init = ring_init,
	.queue = ring_queue,
	.submit = ring_submit,
	.wait = ring_wait,
	.reap = ring_reap,
	.destroy = ring_destroy,
	.forked = ring_forked,
};
