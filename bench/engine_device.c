// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The limit of the device: O_DIRECT, a number of operations at a time, nobody
 * looks at the data. By io_uring; where that is not allowed, one at a time.
 */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <liburing.h>

/* An operation under way, and the buffer that is its own. */
struct slot {
	struct op op;
	char *buffer;
	char *read_to; /* the same, unless what is written must stay in there */
	bool writing; /* the second half of an update */
};

struct device_worker {
	struct io_uring ring;
	bool has_ring;
	struct slot *slots;
	unsigned int depth;
};

static int fd_of(const struct run *run)
{
	return (int)(intptr_t)run->private;
}

static void device_open(struct run *run)
{
	int fd =
		open(run->path, (run->scenario->writes ? O_RDWR : O_RDONLY) | O_DIRECT | O_CLOEXEC);

	if (fd < 0)
		die(run, "O_DIRECT does not work on this file system: %s", strerror(errno));
	run->private = (void *)(intptr_t)fd;
}

static void device_attach(struct worker *worker)
{
	struct run *run = worker->run;
	struct device_worker *dev = calloc(1, sizeof(*dev));
	size_t piece, bytes;
	unsigned int i;
	char *buffers;

	if (!dev)
		die(run, "too little memory");
	dev->depth = run->config->depth ? run->config->depth : 1;
	dev->slots = calloc(dev->depth, sizeof(*dev->slots));
	piece = run->op_bytes + (run->scenario->tail ? CONTENT_PAGE : 0);
	bytes = piece * dev->depth;
	buffers = mmap(aligned_space(run, bytes), bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	if (!dev->slots || buffers == MAP_FAILED)
		die(run, "too little memory for buffers");
	madvise(buffers, bytes, MADV_HUGEPAGE);
	memset(buffers, 0, bytes);
	for (i = 0; i < dev->depth; i++) {
		dev->slots[i].buffer = buffers + i * piece;
		dev->slots[i].read_to = dev->slots[i].buffer;
		if (run->scenario->tail)
			dev->slots[i].read_to += run->op_bytes;
		if (run->op_bytes >= CONTENT_BLOCK)
			content_fill(run->content, dev->slots[i].buffer, 0, run->op_bytes, 0);
	}
	dev->has_ring = !io_uring_queue_init(dev->depth, &dev->ring,
					     IORING_SETUP_CLAMP | IORING_SETUP_COOP_TASKRUN) ||
			!io_uring_queue_init(dev->depth, &dev->ring, IORING_SETUP_CLAMP);
	worker->private = dev;
}

static void check(struct run *run, int result, uint32_t length)
{
	if (result < 0)
		die(run, "direct I/O: %s", strerror(-result));
	if ((uint32_t)result != length)
		die(run, "direct I/O: %d of %u bytes", result, length);
}

static void prepare(const struct run *run, struct slot *slot)
{
	slot->writing = slot->op.kind == OP_WRITE;
	if (slot->writing)
		content_restamp(slot->buffer, slot->op.offset, slot->op.length, run->generation);
}

static void submit(const struct run *run, struct device_worker *dev, struct slot *slot)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&dev->ring);

	if (slot->writing)
		io_uring_prep_write(sqe, fd_of(run), slot->buffer, slot->op.length,
				    slot->op.offset);
	else
		io_uring_prep_read(sqe, fd_of(run), slot->read_to, slot->op.length,
				   slot->op.offset);
	io_uring_sqe_set_data(sqe, slot);
}

/* The sum is taken only where a single operation is waited for anyway. */
static void completed(struct worker *worker, struct slot *slot)
{
	if (!worker->run->scenario->deep && !slot->writing)
		worker->sum += sum_words(slot->read_to, slot->op.length);
}

/* An update has been read: change it. */
static bool goes_on(const struct run *run, struct slot *slot)
{
	if (slot->op.kind != OP_UPDATE || slot->writing)
		return false;
	content_restamp(slot->buffer, slot->op.offset, slot->op.length, run->generation);
	slot->writing = true;
	return true;
}

static void device_sync(struct run *run, uint64_t offset, uint64_t length)
{
	if (fsync(fd_of(run)) < 0)
		die(run, "fsync: %s", strerror(errno));
}

static void finish(struct worker *worker, struct slot *slot)
{
	worker->ops++;
	worker->bytes += slot->op.length;
	if (slot->op.sync)
		device_sync(worker->run, slot->op.offset, slot->op.length);
}

static void pump_ring(struct worker *worker, struct device_worker *dev)
{
	struct run *run = worker->run;
	unsigned int in_flight = 0, i;
	struct io_uring_cqe *cqe;
	int err;

	for (i = 0; i < dev->depth && run->scenario->next(worker, &dev->slots[i].op); i++) {
		prepare(run, &dev->slots[i]);
		submit(run, dev, &dev->slots[i]);
		in_flight++;
	}
	while (in_flight) {
		err = io_uring_submit_and_wait(&dev->ring, 1);
		if (err < 0 && err != -EINTR)
			die(run, "io_uring: %s", strerror(-err));
		while (!io_uring_peek_cqe(&dev->ring, &cqe)) {
			struct slot *slot = io_uring_cqe_get_data(cqe);

			check(run, cqe->res, slot->op.length);
			io_uring_cqe_seen(&dev->ring, cqe);
			completed(worker, slot);
			if (goes_on(run, slot)) {
				submit(run, dev, slot);
				continue;
			}
			finish(worker, slot);
			if (run->scenario->next(worker, &slot->op)) {
				prepare(run, slot);
				submit(run, dev, slot);
			} else {
				in_flight--;
			}
		}
	}
}

static void transfer(struct run *run, struct slot *slot)
{
	const struct op *op = &slot->op;
	ssize_t n = slot->writing ?
			    pwrite(fd_of(run), slot->buffer, op->length, (off_t)op->offset) :
			    pread(fd_of(run), slot->read_to, op->length, (off_t)op->offset);

	check(run, n < 0 ? -errno : (int)n, op->length);
}

static void pump_alone(struct worker *worker, struct device_worker *dev)
{
	struct run *run = worker->run;
	struct slot *slot = dev->slots;

	while (run->scenario->next(worker, &slot->op)) {
		prepare(run, slot);
		transfer(run, slot);
		completed(worker, slot);
		if (goes_on(run, slot))
			transfer(run, slot);
		finish(worker, slot);
	}
}

static void device_pump(struct worker *worker)
{
	struct device_worker *dev = worker->private;

	if (dev->has_ring)
		pump_ring(worker, dev);
	else
		pump_alone(worker, dev);
}

static void device_close(struct run *run)
{
	close(fd_of(run));
}

const struct engine engine_device = {
	.name = "device",
	.open = device_open,
	.attach = device_attach,
	.pump = device_pump,
	.sync = device_sync,
	.close = device_close,
};
