// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Linux mmap, without advice or with one kind of advice. The mapping starts at a multiple of 2 MB,
 * so that the kernel can use huge pages if the file system supports them.
 */
#include "engine.h"
#include "uapi.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The distance ahead of a stream up to which pages are populated. */
#define POPULATE_AHEAD (32 * MB)

/* Map a file of the run at its place in the data. */
static void file_map_one(struct run *run, struct file_map *map, unsigned int i)
{
	bool writes = run->scenario->writes;
	struct run_file file;
	const char *name = file.path;

	run_file(run, i, &file);
	if (map->mount >= 0) /* relative to the directory of the mount */
		name += strrchr(run->path, '/') - run->path + 1;
	map->fd = openat(map->mount, name, (writes ? O_RDWR : O_RDONLY) | O_CLOEXEC);
	if (map->fd < 0)
		die(run, "%s%s: %s", name, map->mount >= 0 ? " on its mount" : "", strerror(errno));
	if (mmap(map->at + file.start, file.end - file.start,
		 writes ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED | MAP_FIXED, map->fd,
		 0) == MAP_FAILED)
		die(run, "mmap: %s", strerror(errno));
}

struct file_map *file_map_open(struct run *run, int mount, const int *advices)
{
	unsigned int i = mount >= 0 ? 0 : run->file, end = mount >= 0 ? run_files(run) : i + 1;
	struct file_map *map = calloc(1, sizeof(*map));

	if (!map)
		die(run, "too little memory");
	*map = (struct file_map){ .at = aligned_space(run, run->bytes), .fd = -1, .mount = mount };
	for (; i < end; i++) {
		if (map->fd >= 0)
			close(map->fd);
		file_map_one(run, map, i);
	}
	for (; advices && *advices != MADV_NORMAL; advices++)
		if (madvise(map->at, run->bytes, *advices) < 0)
			die(run, "madvise: %s", strerror(errno));
	run->private = map;
	return map;
}

static void mmap_open(struct run *run)
{
	static const int advices[ADVICES][3] = {
		[ADVICE_SEQUENTIAL] = { MADV_SEQUENTIAL },
		[ADVICE_RANDOM] = { MADV_RANDOM },
		[ADVICE_HUGEPAGE] = { MADV_HUGEPAGE },
		[ADVICE_HUGEPAGE_RANDOM] = { MADV_HUGEPAGE, MADV_RANDOM },
	};

	file_map_open(run, -1, advices[run->config->advice]);
}

/* worker->private is the offset up to which the worker has populated pages. */
static void mmap_populate(struct worker *worker, uint64_t offset, size_t length, int advice)
{
	struct run *run = worker->run;
	struct file_map *map = run->private;
	uintptr_t done = (uintptr_t)worker->private;
	uint64_t end = offset + length;

	if (!run->ops_max) { /* a stream */
		if (end <= done)
			return;
		end = offset + POPULATE_AHEAD < worker->end ? offset + POPULATE_AHEAD : worker->end;
		worker->private = (void *)(uintptr_t)end;
	}
	if (madvise(map->at + offset, end - offset, advice) < 0)
		die(run, "MADV_POPULATE: %s", strerror(errno));
}

const void *file_map_load(struct worker *worker, uint64_t offset, size_t length)
{
	struct file_map *map = worker->run->private;

	if (worker->run->config->advice == ADVICE_POPULATE)
		mmap_populate(worker, offset, length, MADV_POPULATE_READ);
	return map->at + offset;
}

void *file_map_store(struct worker *worker, uint64_t offset, size_t length, bool whole)
{
	struct file_map *map = worker->run->private;

	if (worker->run->config->advice == ADVICE_POPULATE)
		mmap_populate(worker, offset, length, MADV_POPULATE_WRITE);
	return map->at + offset;
}

void file_map_sync(struct run *run, uint64_t offset, uint64_t length)
{
	struct file_map *map = run->private;

	if (msync(map->at + offset, length, MS_SYNC) < 0)
		die(run, "msync: %s", strerror(errno));
}

void file_map_close(struct run *run)
{
	struct file_map *map = run->private;

	munmap(map->at, run->bytes);
	close(map->fd);
	if (map->mount >= 0)
		close(map->mount);
}

const struct engine engine_linux_mmap = {
	.name = "linux-mmap",
	.open = mmap_open,
	.load = file_map_load,
	.store = file_map_store,
	.sync = file_map_sync,
	.close = file_map_close,
};
