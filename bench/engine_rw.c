// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Buffered read() and write(), with a buffer of the size of an operation. */
#include "engine.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rw_fd(const struct run *run)
{
	return (int)(intptr_t)run->private;
}

static void rw_open(struct run *run)
{
	struct run_file file;
	int fd;

	run_file(run, run->file, &file);
	fd = open(file.path, (run->scenario->writes ? O_RDWR : O_RDONLY) | O_CLOEXEC);
	if (fd < 0)
		die(run, "%s: %s", file.path, strerror(errno));
	run->private = (void *)(intptr_t)fd;
}

static void rw_attach(struct worker *worker)
{
	uint32_t bytes = worker->run->op_bytes;

	worker->private = aligned_alloc(4 * KB, bytes);
	if (!worker->private)
		die(worker->run, "too little memory for a buffer");
	memset(worker->private, 0, bytes);
}

static const void *rw_load(struct worker *worker, uint64_t offset, size_t length)
{
	char *buffer = worker->private;
	size_t done = 0;

	offset -= worker->run->origin;
	while (done < length) {
		ssize_t n = pread(rw_fd(worker->run), buffer + done, length - done,
				  (off_t)(offset + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			die(worker->run, "read: %s", n ? strerror(errno) : "the file is too short");
		done += (size_t)n;
	}
	return buffer;
}

static void *rw_store(struct worker *worker, uint64_t offset, size_t length, bool whole)
{
	return worker->private; /* an update was loaded into it just before */
}

static void rw_stored(struct worker *worker, uint64_t offset, size_t length)
{
	const char *buffer = worker->private;
	size_t done = 0;

	offset -= worker->run->origin;
	while (done < length) {
		ssize_t n = pwrite(rw_fd(worker->run), buffer + done, length - done,
				   (off_t)(offset + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			die(worker->run, "write: %s", strerror(errno));
		done += (size_t)n;
	}
}

static void rw_sync(struct run *run, uint64_t offset, uint64_t length)
{
	if (fsync(rw_fd(run)) < 0)
		die(run, "fsync: %s", strerror(errno));
}

static void rw_close(struct run *run)
{
	close(rw_fd(run));
}

const struct engine engine_linux_rw = {
	.name = "linux-rw",
	.open = rw_open,
	.attach = rw_attach,
	.load = rw_load,
	.store = rw_store,
	.stored = rw_stored,
	.sync = rw_sync,
	.close = rw_close,
};
