// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * I/O by threads with pread and pwrite, for where io_uring is not allowed
 * (containers, hardened kernels).
 */
#include "io.h"
#include "linux.h"
#include "races.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

/* More threads than this do not make a device faster. */
#define MAX_THREADS 16u

struct threads {
	pthread_t thread[MAX_THREADS];
	u32 nthreads;
	int done_fd;
	pthread_mutex_t lock;
	pthread_cond_t work;
	struct io_op *head, *tail; /* to do, in order */
	struct io_op *completed;
	bool stop;
};

static ssize_t write_out(const struct io_op *op)
{
	ssize_t n;

	program_memory_begin();
	n = sys_pwrite(op->fd, op->buffer + op->done, op->len - op->done, op->offset);
	program_memory_end();
	return n;
}

static ssize_t run_op(const struct io_op *op)
{
	ssize_t n;

	do {
		if (op->type == IO_ROOM)
			n = sys_fallocate(op->fd, FALLOC_FL_KEEP_SIZE, op->offset, op->len);
		else if (op->type == IO_READ)
			n = sys_pread(op->fd, op->buffer + op->done, op->len - op->done,
				      op->offset);
		else
			n = write_out(op);
	} while (n == -EINTR);
	return n;
}

static void *worker(void *arg)
{
	struct threads *t = arg;
	uint64_t one = 1;
	ssize_t n;

	pthread_mutex_lock(&t->lock);
	for (;;) {
		struct io_op *op = t->head;

		if (!op) {
			if (t->stop)
				break;
			pthread_cond_wait(&t->work, &t->lock);
			continue;
		}
		t->head = op->next;
		pthread_mutex_unlock(&t->lock);
		op->result = run_op(op);
		pthread_mutex_lock(&t->lock);
		op->next = t->completed;
		t->completed = op;
		n = op->next ? 1 : sys_write(t->done_fd, &one, sizeof(one));
		hm_assert(n > 0 || n == -EAGAIN);
	}
	pthread_mutex_unlock(&t->lock);
	return NULL;
}

static void stop_threads(struct threads *t)
{
	u32 i;

	pthread_mutex_lock(&t->lock);
	t->stop = true;
	pthread_cond_broadcast(&t->work);
	pthread_mutex_unlock(&t->lock);
	for (i = 0; i < t->nthreads; i++)
		pthread_join(t->thread[i], NULL);
	sys_close(t->done_fd);
	pthread_cond_destroy(&t->work);
	pthread_mutex_destroy(&t->lock);
	free(t);
}

static int threads_init(struct io *io, u32 depth)
{
	struct threads *t = calloc(1, sizeof(*t));
	sigset_t all, old;
	int err = 0;

	if (!t)
		return -ENOMEM;
	err = t->done_fd = sys_eventfd();
	if (err < 0) {
		free(t);
		return err;
	}
	err = 0;
	pthread_mutex_init(&t->lock, NULL);
	pthread_cond_init(&t->work, NULL);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	while (!err && t->nthreads < depth && t->nthreads < MAX_THREADS) {
		err = pthread_create(&t->thread[t->nthreads], NULL, worker, t);
		if (!err)
			t->nthreads++;
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (!t->nthreads) {
		stop_threads(t);
		return -err;
	}
	io->private = t;
	return 0;
}

static void threads_queue(struct io *io, struct io_op *op)
{
	struct threads *t = io->private;

	op->next = NULL;
	pthread_mutex_lock(&t->lock);
	if (t->head)
		t->tail->next = op;
	else
		t->head = op;
	t->tail = op;
	pthread_cond_signal(&t->work);
	pthread_mutex_unlock(&t->lock);
}

static void threads_submit(struct io *io)
{
	(void)io; /* queued is submitted */
}

static bool have_completed(struct threads *t)
{
	bool any;

	pthread_mutex_lock(&t->lock);
	any = t->completed;
	pthread_mutex_unlock(&t->lock);
	return any;
}

static u32 threads_wait(struct io *io, int timeout_ms)
{
	struct threads *t = io->private;
	struct pollfd fds[] = {
		{ .fd = io->uffd, .events = POLLIN },
		{ .fd = io->event_fd, .events = POLLIN },
		{ .fd = t->done_fd, .events = POLLIN },
	};
	uint64_t drained;
	u32 events = 0;

	if (have_completed(t))
		timeout_ms = 0;
	if (sys_poll(fds, sizeof(fds) / sizeof(fds[0]), timeout_ms) <= 0)
		return 0;
	if (fds[0].revents)
		events |= IO_EVENT_FAULT;
	if (fds[1].revents && sys_read(io->event_fd, &drained, sizeof(drained)) > 0)
		events |= IO_EVENT_REQUEST;
	if (fds[2].revents)
		sys_read(t->done_fd, &drained, sizeof(drained));
	return events;
}

static struct io_op *threads_reap(struct io *io)
{
	struct threads *t = io->private;
	struct io_op *op;

	pthread_mutex_lock(&t->lock);
	op = t->completed;
	if (op)
		t->completed = op->next;
	pthread_mutex_unlock(&t->lock);
	return op;
}

static void threads_destroy(struct io *io)
{
	stop_threads(io->private);
}

static void threads_forked(struct io *io)
{
	struct threads *t = io->private;

	sys_close(t->done_fd);
}

const struct io_backend io_threads_backend = {
	.name = "threads",
	.init = threads_init,
	.queue = threads_queue,
	.submit = threads_submit,
	.wait = threads_wait,
	.reap = threads_reap,
	.destroy = threads_destroy,
	.forked = threads_forked,
};
