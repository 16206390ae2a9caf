// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * --heap: large anonymous memory lives in a file, so that there can be more of
 * it than DRAM. The file has no name any more when it is used, and is this
 * process's alone; so nobody else can see, or need see, what is in it. What is
 * given back is punched out of the file, and is zero when it is used again.
 */
#include "shim.h"
#include "own.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A part of the file that nobody uses; whole pages. */
struct extent {
	struct extent *next;
	off_t offset;
	off_t length;
};

atomic_bool shim_heap_used;

static struct file *heap;
static int heap_fd = -1;
static off_t heap_end; /* of what was ever used */
static struct extent *extents; /* by offset */
static bool failed;

static int open_file(void)
{
	char path[PATH_MAX];
	struct stat st;
	int fd;

	if (!stat(shim_config.heap, &st) && S_ISDIR(st.st_mode))
		return engine_open(shim_config.heap, O_TMPFILE | O_RDWR | O_CLOEXEC | O_CREAT,
				   0600);
	snprintf(path, sizeof(path), "%s.%d", shim_config.heap, (int)shim_pid);
	fd = engine_open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd >= 0)
		unlink(path);
	return fd;
}

/* shim_lock is held for writing. */
static bool open_heap(void)
{
	struct stat st;

	if (heap || failed)
		return heap;
	heap_fd = open_file();
	if (heap_fd >= 0 && !fstat(heap_fd, &st))
		heap = calloc(1, sizeof(*heap));
	if (!heap) {
		report_say("--heap %s: %s", shim_config.heap, strerror(errno));
		failed = true;
		return false;
	}
	heap->dev = st.st_dev;
	heap->ino = st.st_ino;
	heap->guard_fd = -1;
	heap->heap = true;
	heap->maps = 1; /* ours, so that it stays */
	pthread_mutex_init(&heap->position, NULL);
	heap->next = shim_files;
	shim_files = heap;
	atomic_store(&shim_heap_used, true);
	return true;
}

/* --- room in the file --- */

static off_t take(off_t length)
{
	const off_t mask = (off_t)BLOCK_BYTES - 1;
	struct extent **at, *extent;
	off_t offset;

	/* Whole blocks, so that no two allocations share one. */
	length = (length + mask) & ~mask;
	for (at = &extents; (extent = *at); at = &extent->next) {
		if (extent->length < length)
			continue;
		offset = extent->offset;
		extent->offset += length;
		extent->length -= length;
		if (!extent->length) {
			*at = extent->next;
			free(extent);
		}
		return offset;
	}
	offset = heap_end;
	if (hugemap_truncate(heap_fd, offset + length))
		return -1;
	heap_end = offset + length;
	return offset;
}

static void give(off_t offset, off_t length)
{
	struct extent **at = &extents, *extent, *next;

	while (*at && (*at)->offset + (*at)->length < offset)
		at = &(*at)->next;
	extent = *at;
	if (extent && extent->offset + extent->length == offset) {
		extent->length += length;
		next = extent->next;
		if (next && extent->offset + extent->length == next->offset) {
			extent->length += next->length;
			extent->next = next->next;
			free(next);
		}
		return;
	}
	if (extent && offset + length == extent->offset) {
		extent->offset = offset;
		extent->length += length;
		return;
	}
	extent = malloc(sizeof(*extent));
	if (!extent)
		return; /* the room is lost, not the data of anybody */
	*extent = (struct extent){ *at, offset, length };
	*at = extent;
}

/*
 * A part of a heap mapping was unmapped. Only whole blocks are used again: the
 * rest of one may still be mapped.
 */
void heap_free(off_t offset, off_t length)
{
	const off_t mask = (off_t)BLOCK_BYTES - 1;
	off_t first = (offset + mask) & ~mask, last = (offset + length) & ~mask;

	if (first < last)
		give(first, last - first);
}

/* --- mappings --- */

static bool suits(int prot, int flags)
{
	const int strange = MAP_FIXED | MAP_FIXED_NOREPLACE | MAP_GROWSDOWN | MAP_STACK |
			    MAP_HUGETLB | MAP_LOCKED;

	return prot == (PROT_READ | PROT_WRITE) && (flags & MAP_TYPE) == MAP_PRIVATE &&
	       !(flags & strange);
}

/* shim_lock is held for writing. MAP_FAILED: let it be the kernel's memory. */
void *heap_map_locked(size_t length)
{
	struct hugemap_options options = {
		.size = sizeof(options),
		.page = shim_config.base_pages ? HUGEMAP_PAGE_4K : HUGEMAP_PAGE_2M,
		.engine = HUGEMAP_ENGINE_USER,
	};
	off_t offset, rounded = (off_t)((length + BLOCK_BYTES - 1) & ~(BLOCK_BYTES - 1));
	struct map *map;
	const char *why;
	void *at;

	if (shim_locked_all)
		return MAP_FAILED;
	options.pool = decide_pool(&why);
	if (options.pool && atomic_load(&shim_user_mode) && !failed) {
		/* A call that reads into it could fail, and nothing would help that. */
		report_say("--heap %s: not with --user-mode", shim_config.heap);
		failed = true;
	}
	if (!options.pool || !open_heap())
		return MAP_FAILED;
	offset = take(rounded);
	if (offset < 0)
		return MAP_FAILED;
	at = hugemap_map(heap_fd, offset, length, PROT_READ | PROT_WRITE, HUGEMAP_HANDOVER,
			 &options);
	if (hugemap_error(at)) {
		report_say("--heap: %s", hugemap_reason());
		give(offset, rounded);
		return MAP_FAILED;
	}
	map = map_add(at, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, offset);
	if (!map) {
		hugemap_unmap(at, length);
		give(offset, rounded);
		return MAP_FAILED;
	}
	map->fd = engine_fcntl(heap_fd, F_DUPFD_CLOEXEC, 3);
	map->file = heap;
	heap->maps++;
	map->id = report_map("(heap)", map, RUN_ENGINE, "");
	return at;
}

/**
 * heap_map() - large anonymous memory
 *
 * Return: its address, or MAP_FAILED if it shall be the kernel's.
 */
void *heap_map(size_t length, int prot, int flags)
{
	struct shim_section section;
	void *at;

	if (!suits(prot, flags))
		return MAP_FAILED;
	shim_enter(&section);
	pthread_rwlock_wrlock(&shim_lock);
	at = heap_map_locked(length);
	pthread_rwlock_unlock(&shim_lock);
	shim_leave(&section);
	return at;
}

/* A child has a heap file of its own, if it needs one. */
void heap_child(void)
{
	struct extent *extent;

	while ((extent = extents)) {
		extents = extent->next;
		free(extent);
	}
	if (heap)
		file_put(heap);
	if (heap_fd >= 0)
		engine_close(heap_fd);
	heap = NULL;
	heap_fd = -1;
	heap_end = 0;
	failed = false;
	atomic_store(&shim_heap_used, false);
}

/* After fork() the parent's memory is not the engine's any more: begin anew. */
void heap_aside(void)
{
	if (heap && !aside_file(heap, "the program has called fork()"))
		heap_child();
}
