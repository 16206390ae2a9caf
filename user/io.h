/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Asynchronous I/O for one handler thread: io_uring, or threads where io_uring
 * is not allowed. An operation reads or writes one block of a file, or what is left of
 * it. The handler also waits here for its two other sources of work: the userfaultfd
 * and its event fd.
 */
#ifndef HM_IO_H
#define HM_IO_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cache.h"

struct io;
struct handler;
struct store;
struct sync_request;

#define IO_MOST_TRIES 1000u

enum io_type {
	IO_READ,
	IO_WRITE,
	IO_ROOM, /* fallocate(): no buffer */
};

struct io_op {
	/* what is asked of the backend: from .done on */
	enum io_type type;
	int fd;
	char *buffer;
	size_t len, done; /* bytes */
	u64 offset; /* in the file, of what is asked; see io_queue() */
	/* what the backend answers: bytes, or a negative errno */
	ssize_t result;
	u32 tries; /* so many were interrupted */

	/* the engine's: see fill.c and write.c */
	struct store *store;
	u64 pgoff; /* of the block */
	u32 frame;
	u64 map_id;
	uintptr_t demand_addr; /* a fault there waits for it; 0: none */
	bool demand_write;
	bool background;
	bool pinned; /* written from where it is mapped, and dirty still */
	bool lost; /* the program has zapped it */
	struct sync_request *sync;
	u64 start_ns;

	struct io_op *next; /* free list, or the backend's queue */
};

enum {
	IO_EVENT_FAULT = 1 << 0, /* the userfaultfd can be read */
	IO_EVENT_REQUEST = 1 << 1, /* the event fd was signalled (and drained) */
};

/**
 * struct io_backend - one way to do I/O
 * @name: for people
 * @init: make it work for a handler; 0 or a negative errno
 * @queue: take an operation; it may be submitted later, with the next wait
 * @submit: start what is queued, now
 * @wait: submit what is queued; wait for events or completions, at most
 *	@timeout_ms (-1: for ever); returns IO_EVENT_* bits
 * @reap: the next completed operation, or NULL
 * @destroy: nothing is in flight
 * @forked: in a child, which shares the parent's: close its descriptors
 */
struct io_backend {
	const char *name;
	int (*init)(struct io *io, u32 depth);
	void (*queue)(struct io *io, struct io_op *op);
	void (*submit)(struct io *io);
	u32 (*wait)(struct io *io, int timeout_ms);
	struct io_op *(*reap)(struct io *io);
	void (*destroy)(struct io *io);
	void (*forked)(struct io *io);
};

struct io {
	const struct io_backend *backend;
	void *private;
	int uffd, event_fd;
	u32 depth;
	u64 spin_ns; /* @wait looks for this long before it sleeps */
	struct io_op *ops; /* depth of them */
	struct io_op *free;
	u32 nfree;
};

extern const struct io_backend io_uring_backend;
extern const struct io_backend io_threads_backend;

/**
 * io_create() - I/O for a handler
 * @which: enum hugemap_io
 * @depth: operations in flight at most
 *
 * Return: 0 or a negative errno.
 */
int io_create(struct io *io, int which, u32 depth, int uffd, int event_fd);
void io_destroy(struct io *io);

/* A free operation, or NULL if more than depth - @spare are in use. */
struct io_op *io_take(struct io *io, u32 spare);
void io_give(struct io *io, struct io_op *op);

/* Give an operation to the backend: what is not done of it yet. */
static inline void io_queue(struct io *io, struct io_op *op)
{
	op->offset = (op->pgoff << HM_PAGE_SHIFT) + op->done;
	io->backend->queue(io, op);
}

/*
 * A worker of the kernel's was interrupted: true, and it is asked once more. (A server may say
 * so for reasons of its own, and for ever.)
 */
static inline bool io_again(struct io *io, struct io_op *op)
{
	if ((op->result != -EINTR && op->result != -EAGAIN) || ++op->tries > IO_MOST_TRIES)
		return false;
	io_queue(io, op);
	return true;
}

int io_error(ssize_t result);

/*
 * For tests: if set, it sees each result before the engine does and may change
 * it. Never set by the library.
 */
typedef ssize_t io_inject_fn(const struct io_op *op, ssize_t result);
extern io_inject_fn *_Atomic io_inject;

#endif /* HM_IO_H */
