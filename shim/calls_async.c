// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Asynchronous I/O: what is submitted there does not come by here. Once a program
 * begins with it, no file may depend on its calls being seen.
 */
#include "shim.h"
#include "names.h"

#include <aio.h>
#include <errno.h>

#define UNSEEN_AIO "the program uses aio, which is not seen"
#define UNSEEN_URING "the program uses io_uring, which is not seen"

SHIM_EXPORT int aio_read(struct aiocb *control)
{
	unseen_io(UNSEEN_AIO);
	return real->aio_read(control);
}

SHIM_EXPORT int aio_read64(struct aiocb64 *control)
{
	return aio_read((struct aiocb *)control);
}

SHIM_EXPORT int aio_write(struct aiocb *control)
{
	unseen_io(UNSEEN_AIO);
	return real->aio_write(control);
}

SHIM_EXPORT int aio_write64(struct aiocb64 *control)
{
	return aio_write((struct aiocb *)control);
}

SHIM_EXPORT int lio_listio(int mode, struct aiocb *const *list, int n, struct sigevent *event)
{
	unseen_io(UNSEEN_AIO);
	return real->lio_listio(mode, list, n, event);
}

SHIM_EXPORT int lio_listio64(int mode, struct aiocb64 *const *list, int n, struct sigevent *event)
{
	return lio_listio(mode, (struct aiocb *const *)list, n, event);
}

SHIM_EXPORT int io_setup(int n, void *context)
{
	unseen_io(UNSEEN_AIO);
	if (!real->io_setup)
		return -ENOSYS;
	return real->io_setup(n, context);
}

SHIM_EXPORT int io_uring_queue_init(unsigned int entries, void *ring, unsigned int flags)
{
	unseen_io(UNSEEN_URING);
	if (!real->io_uring_queue_init)
		return -ENOSYS;
	return real->io_uring_queue_init(entries, ring, flags);
}

SHIM_EXPORT int io_uring_queue_init_params(unsigned int entries, void *ring, void *params)
{
	unseen_io(UNSEEN_URING);
	if (!real->io_uring_queue_init_params)
		return -ENOSYS;
	return real->io_uring_queue_init_params(entries, ring, params);
}

SHIM_EXPORT int io_uring_queue_init_mem(unsigned int entries, void *ring, void *params,
					void *memory, size_t length)
{
	unseen_io(UNSEEN_URING);
	if (!real->io_uring_queue_init_mem)
		return -ENOSYS;
	return real->io_uring_queue_init_mem(entries, ring, params, memory, length);
}
