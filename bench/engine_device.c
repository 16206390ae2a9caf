// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The limit of the device: direct I/O (O_DIRECT), with several operations in flight. Each operation
 * in flight has a thread of its own. In scenarios that try for the best number of operations
 * (scenario->deep), the threads do not use the data.
 */
#include "content.h"
#include "engine.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/**
 * struct slot - an operation in flight
 * @dev: the worker that it belongs to
 * @op: the operation
 * @buffer: the source of writes, filled in advance
 * @read_to: the target of reads: @buffer, or memory beside it where the source has to stay
 * @thread: does the operations of this slot; the first slot has the worker's own thread
 */
struct slot {
	struct device_worker *dev;
	struct op op;
	char *buffer;
	char *read_to;
	pthread_t thread;
};

/**
 * struct device_worker - the slots of a worker
 * @worker: see struct worker; @lock guards all of it that operations change
 * @lock: held while an operation is chosen and while it is counted, not during I/O
 * @slots: as many as there are operations in flight
 * @depth: the number of @slots
 */
struct device_worker {
	struct worker *worker;
	pthread_mutex_t lock;
	struct slot *slots;
	unsigned int depth;
};

static int device_fd(const struct run *run)
{
	return (int)(intptr_t)run->private;
}

static void device_open(struct run *run)
{
	struct run_file file;
	int fd;

	run_file(run, run->file, &file);
	fd = open(file.path, (run->scenario->writes ? O_RDWR : O_RDONLY) | O_DIRECT | O_CLOEXEC);
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
	dev->worker = worker;
	pthread_mutex_init(&dev->lock, NULL);
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
		struct slot *slot = &dev->slots[i];

		slot->dev = dev;
		slot->buffer = slot->read_to = buffers + i * piece;
		if (run->scenario->tail)
			slot->read_to += run->op_bytes;
		if (run->op_bytes >= CONTENT_BLOCK)
			content_fill(run->content, slot->buffer, 0, run->op_bytes, 0);
	}
	worker->private = dev;
}

static void device_transfer(struct run *run, const struct slot *slot, bool write)
{
	const struct op *op = &slot->op;
	off_t at = (off_t)(op->offset - run->origin);
	ssize_t n;

	if (write)
		content_restamp(slot->buffer, op->offset, op->length, run->generation);
	n = write ? pwrite(device_fd(run), slot->buffer, op->length, at) :
		    pread(device_fd(run), slot->read_to, op->length, at);
	if (n < 0)
		die(run, "direct I/O: %s", strerror(errno));
	if ((uint64_t)n != op->length)
		die(run, "direct I/O: %zd of %u bytes", n, op->length);
}

static void device_sync(struct run *run, uint64_t offset, uint64_t length)
{
	if (fsync(device_fd(run)) < 0)
		die(run, "fsync: %s", strerror(errno));
}

static bool device_take_op(struct slot *slot)
{
	struct worker *worker = slot->dev->worker;
	bool more;

	pthread_mutex_lock(&slot->dev->lock);
	more = worker->run->scenario->next(worker, &slot->op);
	pthread_mutex_unlock(&slot->dev->lock);
	return more;
}

static void device_count_op(struct slot *slot, uint64_t sum)
{
	struct worker *worker = slot->dev->worker;

	pthread_mutex_lock(&slot->dev->lock);
	worker->sum += sum;
	worker->ops++;
	worker->bytes += slot->op.length;
	pthread_mutex_unlock(&slot->dev->lock);
}

static void *device_do_ops(void *arg)
{
	struct slot *slot = arg;
	struct run *run = slot->dev->worker->run;

	while (device_take_op(slot)) {
		uint64_t sum = 0;

		if (slot->op.kind != OP_WRITE) {
			device_transfer(run, slot, false);
			if (!run->scenario->deep)
				sum = sum_words(slot->read_to, slot->op.length);
		}
		if (slot->op.kind != OP_READ)
			device_transfer(run, slot, true);
		device_count_op(slot, sum);
		if (slot->op.sync)
			device_sync(run, slot->op.offset, slot->op.length);
	}
	return NULL;
}

static void device_pump(struct worker *worker)
{
	struct device_worker *dev = worker->private;
	unsigned int i;

	for (i = 1; i < dev->depth; i++)
		if (pthread_create(&dev->slots[i].thread, NULL, device_do_ops, &dev->slots[i]))
			die(worker->run, "a thread for I/O could not be started");
	device_do_ops(&dev->slots[0]);
	for (i = 1; i < dev->depth; i++)
		pthread_join(dev->slots[i].thread, NULL);
}

static void device_close(struct run *run)
{
	close(device_fd(run));
}

const struct engine engine_device = {
	.name = "device",
	.open = device_open,
	.attach = device_attach,
	.pump = device_pump,
	.sync = device_sync,
	.close = device_close,
};
