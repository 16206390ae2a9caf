// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* What both ways of doing I/O share: the operations, taken once. */
#include "io.h"

#include <errno.h>
#include <stdlib.h>

#include "hugemap.h"

io_inject_fn *_Atomic io_inject;

static int try_backend(struct io *io, const struct io_backend *backend, u32 depth)
{
	io->backend = backend;
	return backend->init(io, depth);
}

int io_create(struct io *io, int which, u32 depth, int uffd, int event_fd)
{
	int err = -EINVAL;
	u32 i;

	*io = (struct io){
		.uffd = uffd,
		.event_fd = event_fd,
		.depth = depth,
	};
	io->ops = calloc(depth, sizeof(*io->ops));
	if (!io->ops)
		return -ENOMEM;
	if (which != HUGEMAP_IO_THREADS)
		err = try_backend(io, &io_uring_backend, depth);
	if (err && which != HUGEMAP_IO_URING)
		err = try_backend(io, &io_threads_backend, depth);
	if (err) {
		free(io->ops);
		return err;
	}
	for (i = 0; i < depth; i++)
		io_give(io, &io->ops[i]);
	return 0;
}

void io_destroy(struct io *io)
{
	hm_assert(io->nfree == io->depth);
	io->backend->destroy(io);
	free(io->ops);
}

struct io_op *io_take(struct io *io, u32 spare)
{
	struct io_op *op = io->free;

	if (io->nfree <= spare)
		return NULL;
	io->free = op->next;
	io->nfree--;
	return op;
}

void io_give(struct io *io, struct io_op *op)
{
	op->next = io->free;
	io->free = op;
	io->nfree++;
	hm_assert(io->nfree <= io->depth);
}

/*
 * Of a write, or a flush, that failed, for those who are told: some errno mean to them that
 * nothing has changed, or that they may ask again.
 */
int io_error(ssize_t result)
{
	switch (result) {
	case 0:
	case -EAGAIN:
	case -EBUSY:
	case -EINVAL:
	case -ENOMEM:
		return -EIO;
	default:
		return (int)result;
	}
}
