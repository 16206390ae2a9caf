/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The library that `hugemap run` loads before a program: what its files share.
 * Read docs/run.md first: the ladder, and what makes each rung correct.
 *
 *	config.c	settings, from the environment
 *	real.c		the functions that are taken over, as they were
 *	table.c		mappings and the files that they are of; descriptors
 *	decide.c	which rung a new mapping gets, and why
 *	guard.c		other processes: leases, permission events
 *	others.c	who has a file open, or mapped
 *	aside.c		stepping down
 *	calls_*.c	the functions that are taken over
 *	gather.c	--user-mode: what system calls read
 *	own.c		descriptors of the engine's own
 *	report.c	-v, --summary, and what `hugemap stat` reads
 *
 * Two kinds of files are served by the engine:
 *   SETTLED: nobody has it open for writing, and a read lease tells us before
 *	anybody can. Page cache and frames hold the same bytes, so plain calls
 *	need no care at all.
 *   LIVE: this process alone has it open, and permission events tell us before
 *	anybody else can. All calls on its descriptors go through the engine.
 *
 * Locks, outermost first:
 *   shim_lock (rwlock)	tables. Held for reading by calls on LIVE files, for
 *			writing by whatever changes a mapping or steps down.
 *   the engine's own
 * Whoever takes shim_lock blocks signals first (shim_enter()), and the reader of
 * permission events never takes it: the engine opens files with it held, and
 * waits for an answer.
 */
#ifndef SHIM_H
#define SHIM_H

#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "hugemap.h"
#include "real.h"
#include "run.h"

#define SHIM_EXPORT __attribute__((visibility("default")))
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

#define PAGE_BYTES ((size_t)4096)
#define BLOCK_BYTES ((size_t)2 << 20)

enum file_kind {
	FILE_SETTLED,
	FILE_LIVE,
};

/* A file that the engine serves. */
struct file {
	struct file *next;
	dev_t dev;
	ino_t ino;
	enum file_kind kind;
	int guard_fd; /* SETTLED: holds the lease. LIVE: open on it, with O_PATH */
	unsigned int maps; /* mappings of the engine */
	bool heap; /* our own heap file: its memory is private to the process */
	bool random; /* it steps down because of that: huge pages would not help */
	pthread_mutex_t position; /* read() and write() move the position of a descriptor */
};

/* A mapping that is worth remembering: of the engine, or large. */
struct map {
	struct map *next;
	char *start, *end;
	struct file *file; /* NULL unless the engine serves it */
	int fd; /* ours, of the program's open file; -1 unless the engine serves it */
	off_t offset;
	int prot, flags; /* as given to mmap() */
	atomic_int advice; /* to madvise(), for all of it, on the order of access */
	uint32_t id; /* in the report */
};

/* --- state, in table.c --- */
extern pthread_rwlock_t shim_lock;
extern struct map *shim_maps;
extern struct file *shim_files;
extern atomic_uint shim_live; /* LIVE files */
extern _Atomic uintptr_t shim_low, shim_high; /* all maps lie between these */
extern pid_t shim_pid; /* that the tables are of; a child by vfork() has another */

struct shim_section {
	sigset_t signals;
	int cancel;
	int saved_errno;
};

/* No signal handler and no cancellation while locks are held. */
void shim_enter(struct shim_section *section);
void shim_leave(struct shim_section *section);
void shim_lock_child(void);

static inline bool shim_concerns(const void *addr, size_t length)
{
	uintptr_t start = (uintptr_t)addr,
		  high = atomic_load_explicit(&shim_high, memory_order_relaxed);

	return unlikely(start < high &&
			start + length > atomic_load_explicit(&shim_low, memory_order_relaxed));
}

struct map *map_first(const char *start, const char *end, bool engine); /* shim_lock held */
struct map *map_add(char *start, size_t length, int prot, int flags, off_t offset);
void map_cut(char *start, char *end); /* forget this range */
void map_bounds(void);
struct file *file_find(dev_t dev, ino_t ino);
bool same_file(const struct stat *a, const struct stat *b);
bool fd_is_of(int fd, const struct stat *st);
struct file *file_of_fd(int fd); /* shim_lock held; NULL if the engine does not serve it */
void file_live(struct file *file, bool live);
void file_put(struct file *file); /* one mapping less */

/* Is a descriptor one of a LIVE file? False: certainly not. */
bool fd_is_live(int fd);
void fd_forget(int fd); /* the number means something else from now on */
void fd_forget_all(void);

static inline bool shim_live_fd(int fd)
{
	if (likely(!atomic_load(&shim_live)))
		return false;
	return fd_is_live(fd);
}

/*
 * Calls that write and are left to the kernel are counted, so that a file can
 * become LIVE only when none of them is under way.
 */
#define PASSING_SHARDS 16u
struct passing {
	_Alignas(64) atomic_int n;
};
extern struct passing shim_passing[PASSING_SHARDS];
extern __thread unsigned int shim_shard;
unsigned int shim_shard_new(void);
bool shim_none_passing(void); /* waits a little; false: somebody still is */

static inline atomic_int *shim_pass(void)
{
	unsigned int shard = shim_shard;
	atomic_int *n;

	if (unlikely(!shard))
		shard = shim_shard_new();
	n = &shim_passing[shard % PASSING_SHARDS].n;
	atomic_fetch_add(n, 1);
	return n;
}

static inline void shim_passed(atomic_int *n)
{
	atomic_fetch_sub_explicit(n, 1, memory_order_release);
}

/* --- config.c --- */
struct config {
	bool off; /* the program is left alone */
	bool verbose, summary;
	bool readonly_only;
	bool cached; /* also files that the page cache holds already */
	bool random; /* also random access to more than the pool holds */
	bool user_mode; /* also where system calls may not fault */
	bool base_pages;
	uint64_t min_size;
	uint64_t pool_bytes; /* 0: the library's default */
	const char *include, *exclude; /* globs, with colons; NULL: all, none */
	const char *heap;
};

extern struct config shim_config;
void config_read(void);
bool config_wants(const char *path);

/* --- decide.c --- */
void *decide_map(void *addr, size_t length, int prot, int flags, int fd, off_t offset);
struct hugemap_pool *decide_pool(const char **why);
void decide_child(void);
extern atomic_bool shim_user_mode; /* system calls fail on pages that are not mapped */
extern bool shim_locked_all; /* mlockall(): the engine cannot be used */
extern const char *_Atomic shim_unseen; /* I/O that is not seen is used, in words; or NULL */

/* --- calls_process.c --- */
bool child_may_get(const struct stat *st);

/* --- guard.c --- */
bool guard_settle(struct file *file, int fd, const char **why);
bool guard_live(struct file *file, int fd, const struct stat *st, const char **why);
void guard_drop(struct file *file);
void guard_child(void);
void guard_random(void *addr); /* a mapping is to step down; returns at once */

/* --- others.c --- */
bool others_use(const struct stat *st); /* is it open, or mapped, in another process? */
bool others_map(const char *pid, const struct stat *st); /* "self", too */

/* --- aside.c --- */
int aside_file(struct file *file, const char *why); /* shim_lock held for writing */
void aside_random(struct file *file); /* the same */
void aside_live(const char *why, bool heap); /* all LIVE files; takes shim_lock */
void aside_fd(int fd, const char *why); /* if it is of a file of the engine; takes shim_lock */
void aside_path(int dirfd, const char *path, const char *why);
void aside_range(char *start, char *end, const char *why); /* shim_lock held for writing */
void aside_in_child(void);
void unseen_io(const char *what);

/* --- calls_fork.c --- */
void fork_take_over(void);

/* --- own.c --- */
bool own_is(int fd);
void own_close_deferred(dev_t dev, ino_t ino);
void own_locks_used(int fd);
void own_child(void);
#define OWN_RINGS 4096
void own_rings(bool seen[OWN_RINGS], bool before);
extern atomic_bool own_any; /* there is any */
extern atomic_bool own_locked; /* the program has used record locks */

/* --- heap.c --- */
extern atomic_bool shim_heap_used;
void *heap_map(size_t length, int prot, int flags);
void *heap_map_locked(size_t length); /* shim_lock held for writing */
void heap_free(off_t offset, off_t length);
void heap_aside(void); /* shim_lock held for writing */
void heap_child(void);

/* --- report.c --- */
void report_open(void);
void report_child(void);
uint32_t report_map(const char *path, const struct map *map, enum run_rung rung, const char *why);
void report_rung(uint32_t id, enum run_rung rung, const char *why);
void report_place(const struct map *map); /* it has moved, or changed its length */
void report_end(const struct map *map);
void report_count(const struct map *map);
void report_at_exit(void);
void report_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif /* SHIM_H */
