// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Stepping down: what the engine served is the kernel's from now on, at the same
 * addresses. The engine writes what is dirty and puts a mapping of the file in
 * the place of its own; that is then replaced by what the program had asked for,
 * with the program's own open file, so that mprotect() and /proc agree with it.
 */
#include "shim.h"
#include "own.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

/* The kernel's mapping, as the program had asked for it. Return: the rung that it is on. */
static enum run_rung replace(struct map *map, bool heap)
{
	size_t bytes = (size_t)(map->end - map->start);
	int type = heap ? MAP_PRIVATE : map->flags & MAP_TYPE;
	int advice = atomic_load(&map->advice);
	void *at;

	at = real->mmap(map->start, bytes, map->prot,
			(type == MAP_PRIVATE ? MAP_PRIVATE : MAP_SHARED) | MAP_FIXED |
				(heap ? MAP_NORESERVE : 0),
			map->fd, map->offset);
	if (at == MAP_FAILED) {
		/* The engine's replacement shows the same bytes. */
		report_say("%p: the mapping could not be made the program's own: %s", map->start,
			   strerror(errno));
		return RUN_PLAIN;
	}
	if (advice != MADV_NORMAL)
		real->madvise(at, bytes, advice);
	/* See map_kernel(). */
	if (map->prot & PROT_WRITE || advice == MADV_RANDOM || shim_config.base_pages ||
	    map->file->random)
		return RUN_PLAIN;
	real->madvise(at, bytes, MADV_HUGEPAGE);
	return RUN_ADVISED;
}

static void hand_over(struct map *map, const char *why)
{
	struct file *file = map->file;

	report_rung(map->id, replace(map, file->heap), why);
	engine_close(map->fd);
	map->fd = -1;
	map->file = NULL;
	file_put(file);
}

/**
 * aside_file() - all mappings of a file step down
 *
 * shim_lock is held for writing. Return: 0, or the errno of a write that failed:
 * then the engine keeps them, since it alone has the data.
 */
int aside_file(struct file *file, const char *why)
{
	struct map *map, *of_file = NULL;
	unsigned int left = file->maps;
	int err;

	for (map = shim_maps; map; map = map->next)
		if (map->file == file) {
			report_count(map);
			of_file = map;
		}
	if (!of_file)
		return 0;
	err = hugemap_step_aside(of_file->fd, why);
	if (err) {
		report_say("a file stays with the engine: %s", hugemap_reason());
		return err;
	}
	for (map = shim_maps; map && left; map = map->next)
		if (map->file == file) {
			left--;
			hand_over(map, why); /* the last one ends the file */
		}
	return 0;
}

void aside_random(struct file *file)
{
	if (file->heap)
		return; /* its frames cannot be had elsewhere */
	file->random = true;
	if (aside_file(file, "random access to more than the pool holds: the kernel is faster"))
		file->random = false;
}

void aside_range(char *start, char *end, const char *why)
{
	struct map *map;

	while ((map = map_first(start, end, true)))
		if (aside_file(map->file, why))
			return;
}

static void all_live(const char *why)
{
	struct file *file = shim_files;

	while (file) {
		struct file *next = file->next;

		if (file->kind == FILE_LIVE)
			aside_file(file, why);
		file = next;
	}
}

void aside_live(const char *why, bool heap)
{
	struct shim_section section;

	if (!atomic_load(&shim_live) && !(heap && atomic_load(&shim_heap_used)))
		return;
	shim_enter(&section);
	pthread_rwlock_wrlock(&shim_lock);
	all_live(why);
	if (heap)
		heap_aside();
	pthread_rwlock_unlock(&shim_lock);
	shim_leave(&section);
}

void aside_fd(int fd, const char *why)
{
	struct shim_section section;
	struct file *file;

	shim_enter(&section);
	pthread_rwlock_wrlock(&shim_lock);
	file = file_of_fd(fd);
	if (file)
		aside_file(file, why);
	pthread_rwlock_unlock(&shim_lock);
	shim_leave(&section);
}

void aside_path(int dirfd, const char *path, const char *why)
{
	struct shim_section section;
	struct file *file;
	struct stat st;

	if (!atomic_load(&shim_live) || !path || fstatat(dirfd, path, &st, 0) < 0)
		return;
	shim_enter(&section);
	pthread_rwlock_wrlock(&shim_lock);
	file = file_find(st.st_dev, st.st_ino);
	if (file && file->kind == FILE_LIVE)
		aside_file(file, why);
	pthread_rwlock_unlock(&shim_lock);
	shim_leave(&section);
}

/* I/O of a kind that does not come by here: no file may depend on being seen. */
void unseen_io(const char *what)
{
	struct shim_section section;

	if (!atomic_load(&shim_unseen))
		atomic_store(&shim_unseen, what);
	aside_live(what, false);
	if (!atomic_load(&shim_user_mode))
		return;
	/* Nor what it is given from mappings, which the kernel could not read. */
	shim_enter(&section);
	pthread_rwlock_wrlock(&shim_lock);
	aside_range(NULL, (char *)UINTPTR_MAX, what);
	pthread_rwlock_unlock(&shim_lock);
	shim_leave(&section);
}

/*
 * In a child by fork(), where nothing but this thread runs. The engine has put
 * the kernel's mapping there already, of a descriptor of its own.
 */
void aside_in_child(void)
{
	struct map *map;
	struct file *file;

	guard_child();
	for (map = shim_maps; map; map = map->next) {
		if (!map->file)
			continue;
		file = map->file;
		report_rung(map->id, replace(map, file->heap),
			    "a child of the process that mapped it");
		engine_close(map->fd);
		map->fd = -1;
		map->file = NULL;
		file_put(file);
	}
	heap_child();
}
