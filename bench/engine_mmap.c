// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Linux mmap, as a program gets it, or with an advice. The mapping starts at a
 * multiple of 2 MB, so that the kernel can use huge pages where it knows how.
 */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

/* How far ahead a stream populates. */
#define WINDOW (32 * MB)

struct mapped {
	char *at;
	int fd;
};

static void mmap_open(struct run *run)
{
	static const int advices[ADVICES] = {
		[ADVICE_DEFAULT] = MADV_NORMAL,	 [ADVICE_SEQUENTIAL] = MADV_SEQUENTIAL,
		[ADVICE_RANDOM] = MADV_RANDOM,	 [ADVICE_HUGEPAGE] = MADV_HUGEPAGE,
		[ADVICE_POPULATE] = MADV_NORMAL,
	};
	bool writes = run->scenario->writes;
	struct mapped *map = calloc(1, sizeof(*map));
	void *place = aligned_space(run, run->bytes);

	if (!map)
		die(run, "too little memory");
	map->fd = open(run->path, (writes ? O_RDWR : O_RDONLY) | O_CLOEXEC);
	if (map->fd < 0)
		die(run, "%s: %s", run->path, strerror(errno));
	map->at = mmap(place, run->bytes, writes ? PROT_READ | PROT_WRITE : PROT_READ,
		       MAP_SHARED | MAP_FIXED, map->fd, 0);
	if (map->at == MAP_FAILED)
		die(run, "mmap: %s", strerror(errno));
	if (madvise(map->at, run->bytes, advices[run->config->advice]) < 0)
		die(run, "madvise: %s", strerror(errno));
	run->private = map;
}

/* worker->private is how far it has populated. */
static void populate(struct worker *worker, uint64_t offset, size_t length, int advice)
{
	struct run *run = worker->run;
	struct mapped *map = run->private;
	uintptr_t done = (uintptr_t)worker->private;
	uint64_t end = offset + length;

	if (!run->ops_most) { /* a stream */
		if (end <= done)
			return;
		end = offset + WINDOW < worker->end ? offset + WINDOW : worker->end;
		worker->private = (void *)(uintptr_t)end;
	}
	if (madvise(map->at + offset, end - offset, advice) < 0)
		die(run, "MADV_POPULATE: %s", strerror(errno));
}

static const void *mmap_load(struct worker *worker, uint64_t offset, size_t length)
{
	struct mapped *map = worker->run->private;

	if (worker->run->config->advice == ADVICE_POPULATE)
		populate(worker, offset, length, MADV_POPULATE_READ);
	return map->at + offset;
}

static void *mmap_store(struct worker *worker, uint64_t offset, size_t length, bool whole)
{
	struct mapped *map = worker->run->private;

	if (worker->run->config->advice == ADVICE_POPULATE)
		populate(worker, offset, length, MADV_POPULATE_WRITE);
	return map->at + offset;
}

static void mmap_sync(struct run *run)
{
	struct mapped *map = run->private;

	if (msync(map->at, run->bytes, MS_SYNC) < 0)
		die(run, "msync: %s", strerror(errno));
}

static void mmap_close(struct run *run)
{
	struct mapped *map = run->private;

	munmap(map->at, run->bytes);
	close(map->fd);
}

const struct engine engine_linux_mmap = {
	.name = "linux-mmap",
	.open = mmap_open,
	.load = mmap_load,
	.store = mmap_store,
	.sync = mmap_sync,
	.close = mmap_close,
};
