// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The limit of scenarios whose data is in memory: a copy of the file in anonymous memory with 2 MB
 * pages.
 */
#include "engine.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void memory_open(struct run *run)
{
	char *at = mmap(aligned_space(run, run->bytes), run->bytes, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	int fd = open(run->path, O_RDONLY | O_CLOEXEC);
	uint64_t done = 0;

	if (at == MAP_FAILED)
		die(run, "mmap: %s", strerror(errno));
	if (fd < 0)
		die(run, "%s: %s", run->path, strerror(errno));
	madvise(at, run->bytes, MADV_HUGEPAGE);
	while (done < run->bytes) {
		/* Read small pieces and drop them from the page cache, which needs memory, too. */
		ssize_t n = pread(fd, at + done,
				  8 * MB < run->bytes - done ? 8 * MB : run->bytes - done,
				  (off_t)done);

		if (n <= 0)
			die(run, "read: %s", n ? strerror(errno) : "the file is too short");
		posix_fadvise(fd, (off_t)done, n, POSIX_FADV_DONTNEED);
		done += (uint64_t)n;
	}
	close(fd);
	run->private = at;
}

static const void *memory_load(struct worker *worker, uint64_t offset, size_t length)
{
	return (char *)worker->run->private + offset;
}

static void memory_close(struct run *run)
{
	munmap(run->private, run->bytes);
}

const struct engine engine_memory = {
	.name = "device",
	.open = memory_open,
	.load = memory_load,
	.close = memory_close,
};
