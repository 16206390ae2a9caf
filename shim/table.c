// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The tables: mappings, the files that the engine serves, and what is known of
 * descriptors. A descriptor is looked up by fstat() once; that is kept
 * until its number is closed or taken again, and until another file becomes LIVE.
 */
#include "shim.h"
#include "own.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FDS 65536
#define DRAIN_TRIES 1000
#define DRAIN_PAUSE_NS 50000

enum {
	FD_OTHER = 1,
	FD_LIVE = 2
};

pthread_rwlock_t shim_lock = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
struct map *shim_maps;
struct file *shim_files;
atomic_uint shim_live;
_Atomic uintptr_t shim_low = UINTPTR_MAX, shim_high;
pid_t shim_pid;

/* (generation << 2) | FD_*; an older generation means nothing. */
static _Atomic uint32_t fd_known[FDS];
static _Atomic uint32_t generation = 1;

struct passing shim_passing[PASSING_SHARDS];
__thread unsigned int shim_shard __attribute__((tls_model("initial-exec")));

void shim_enter(struct shim_section *section)
{
	sigset_t all;

	section->saved_errno = errno;
	sigfillset(&all);
	/* Those that a fault raises are not to be held back. */
	sigdelset(&all, SIGSEGV);
	sigdelset(&all, SIGBUS);
	sigdelset(&all, SIGILL);
	sigdelset(&all, SIGFPE);
	sigdelset(&all, SIGTRAP);
	pthread_sigmask(SIG_BLOCK, &all, &section->signals);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &section->cancel);
}

void shim_leave(struct shim_section *section)
{
	pthread_setcancelstate(section->cancel, NULL);
	pthread_sigmask(SIG_SETMASK, &section->signals, NULL);
	errno = section->saved_errno;
}

/* A lock that was taken before fork() is its parent's thread's: begin anew. */
void shim_lock_child(void)
{
	shim_lock = (pthread_rwlock_t)PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
}

/* --- mappings --- */

void map_bounds(void)
{
	uintptr_t low = UINTPTR_MAX, high = 0;
	struct map *map;

	for (map = shim_maps; map; map = map->next) {
		if ((uintptr_t)map->start < low)
			low = (uintptr_t)map->start;
		if ((uintptr_t)map->end > high)
			high = (uintptr_t)map->end;
	}
	atomic_store(&shim_low, low);
	atomic_store(&shim_high, high);
}

/* The first one, by address, that overlaps with a range. */
struct map *map_first(const char *start, const char *end, bool engine)
{
	struct map *map, *first = NULL;

	for (map = shim_maps; map; map = map->next)
		if (map->start < end && map->end > start && (!engine || map->file) &&
		    (!first || map->start < first->start))
			first = map;
	return first;
}

struct map *map_add(char *start, size_t length, int prot, int flags, off_t offset)
{
	struct map *map = calloc(1, sizeof(*map));

	if (!map)
		return NULL;
	map->start = start;
	map->end = start + ((length + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1));
	map->prot = prot;
	map->flags = flags;
	map->offset = offset;
	map->fd = -1;
	map->next = shim_maps;
	shim_maps = map;
	map_bounds();
	return map;
}

static void map_free(struct map **at)
{
	struct map *map = *at;

	*at = map->next;
	report_end(map);
	if (map->fd >= 0)
		engine_close(map->fd);
	if (map->file)
		file_put(map->file);
	free(map);
}

/* A range in the middle of a mapping is gone: its second half is one of its own. */
static void split(struct map *map, char *end)
{
	struct map *rest = calloc(1, sizeof(*rest));

	if (!rest)
		abort(); /* nothing can be undone any more */
	*rest = *map;
	rest->start = end;
	rest->offset += end - map->start;
	if (rest->fd >= 0)
		rest->fd = engine_fcntl(map->fd, F_DUPFD_CLOEXEC, 3);
	if (rest->file)
		rest->file->maps++;
	rest->id = 0;
	map->next = rest;
}

void map_cut(char *start, char *end)
{
	struct map **at = &shim_maps, *map;

	while ((map = *at)) {
		if (map->start >= end || map->end <= start) {
			at = &map->next;
		} else if (start <= map->start && end >= map->end) {
			map_free(at);
		} else if (start > map->start) {
			if (end < map->end)
				split(map, end);
			map->end = start;
			report_place(map);
			at = &map->next;
		} else {
			map->offset += end - map->start;
			map->start = end;
			report_place(map);
			at = &map->next;
		}
	}
	map_bounds();
}

/* --- files --- */

struct file *file_find(dev_t dev, ino_t ino)
{
	struct file *file = shim_files;

	while (file && (file->dev != dev || file->ino != ino))
		file = file->next;
	return file;
}

bool same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

bool fd_is_of(int fd, const struct stat *st)
{
	struct stat other;

	return !fstat(fd, &other) && same_file(&other, st);
}

struct file *file_of_fd(int fd)
{
	struct stat st;

	if (!shim_files || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return NULL;
	return file_find(st.st_dev, st.st_ino);
}

void file_live(struct file *file, bool live)
{
	enum file_kind kind = live ? FILE_LIVE : FILE_SETTLED;

	if (file->kind == kind)
		return;
	file->kind = kind;
	if (live)
		atomic_fetch_add(&shim_live, 1);
	/* What was another file's, or nothing, may be this one's. */
	atomic_fetch_add(&generation, 1);
	if (!live)
		atomic_fetch_sub(&shim_live, 1);
}

void file_put(struct file *file)
{
	struct file **at;

	if (--file->maps)
		return;
	for (at = &shim_files; *at != file; at = &(*at)->next)
		;
	*at = file->next;
	guard_drop(file);
	file_live(file, false);
	pthread_mutex_destroy(&file->position);
	free(file);
}

/* --- descriptors --- */

void fd_forget(int fd)
{
	if (fd >= 0 && fd < FDS)
		atomic_store_explicit(&fd_known[fd], 0, memory_order_relaxed);
}

void fd_forget_all(void)
{
	atomic_fetch_add(&generation, 1);
}

static bool look(int fd)
{
	int saved = errno;
	struct stat st;
	struct file *file = NULL;
	struct shim_section section;

	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || real->fcntl(fd, F_GETFL) & O_PATH) {
		errno = saved;
		return false;
	}
	shim_enter(&section);
	pthread_rwlock_rdlock(&shim_lock);
	file = file_find(st.st_dev, st.st_ino);
	if (file && file->kind != FILE_LIVE)
		file = NULL;
	pthread_rwlock_unlock(&shim_lock);
	section.saved_errno = saved;
	shim_leave(&section);
	return file;
}

bool fd_is_live(int fd)
{
	uint32_t now = atomic_load(&generation), known;
	bool live;

	if (fd < 0)
		return false;
	if (fd >= FDS)
		return look(fd);
	known = atomic_load_explicit(&fd_known[fd], memory_order_relaxed);
	if (likely(known >> 2 == (now & 0x3fffffff)))
		return (known & 3) == FD_LIVE;
	live = look(fd);
	atomic_store(&fd_known[fd], now << 2 | (live ? FD_LIVE : FD_OTHER));
	return live;
}

/* --- calls under way --- */

unsigned int shim_shard_new(void)
{
	static atomic_uint last;

	shim_shard = atomic_fetch_add(&last, 1) + 1;
	return shim_shard;
}

/*
 * Each shard has been empty at some moment after the file became LIVE: whoever
 * comes later has seen that it is.
 */
bool shim_none_passing(void)
{
	const struct timespec pause = { .tv_nsec = DRAIN_PAUSE_NS };
	unsigned int shard, tries = 0;

	for (shard = 0; shard < PASSING_SHARDS; shard++) {
		while (atomic_load(&shim_passing[shard].n)) {
			if (++tries > DRAIN_TRIES)
				return false;
			nanosleep(&pause, NULL);
		}
	}
	return true;
}
