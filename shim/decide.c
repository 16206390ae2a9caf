// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Which rung a new mapping gets, and why not a better one. Whatever is not known
 * to be right is the kernel's.
 */
#include "shim.h"
#include "for_run.h"
#include "own.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <linux/userfaultfd.h>

#define HUGEMAP_SUPER_MAGIC 0x48554745
#define NR_CACHESTAT 451

bool shim_locked_all;
atomic_bool shim_user_mode;
const char *_Atomic shim_unseen;

static struct hugemap_pool *pool;
static char no_pool[160];

/* Rings that the program has, perhaps from a library that was linked statically. */
static void unseen_before(void)
{
	if (!atomic_load(&shim_unseen))
		atomic_store(&shim_unseen, "the program uses io_uring, which is not seen");
}

/* Would --user-mode do, where no pool can be made without? */
static bool user_mode_would_do(void)
{
	int fd = (int)real->syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);

	if (fd >= 0)
		real->close(fd);
	return fd >= 0;
}

/* All faults, if they may be handled; else those from user mode, if that is wanted. */
static int make_pool(struct hugemap_pool_options *options)
{
	int err = hugemap_pool_create(options, &pool);

	if (err == -EPERM && shim_config.user_mode) {
		options->user_mode = true;
		err = hugemap_pool_create(options, &pool);
		atomic_store(&shim_user_mode, !err);
	}
	if (!err)
		return 0;
	pool = NULL;
	if (err == -EPERM && !shim_config.user_mode && user_mode_would_do())
		snprintf(no_pool, sizeof(no_pool),
			 "only faults from user mode may be handled here: hugemap run --user-mode "
			 "would do with them");
	else
		snprintf(no_pool, sizeof(no_pool), "%s",
			 *hugemap_reason() ? hugemap_reason() : "no pool could be made");
	return err;
}

/* The pool of this process, made for the first mapping. */
struct hugemap_pool *decide_pool(const char **why)
{
	struct hugemap_pool_options options = {
		.size = sizeof(options),
		.bytes = shim_config.pool_bytes,
	};

	if (!pool && !*no_pool) {
		static bool rings[OWN_RINGS];
		int i;

		memset(rings, 0, sizeof(rings));
		own_rings(rings, true);
		for (i = 0; i < OWN_RINGS; i++)
			if (rings[i] && !own_is(i))
				unseen_before();
		if (!make_pool(&options)) {
			own_rings(rings, false);
			atomic_store(&hugemap_files_are_guarded, true);
			if (!shim_config.base_pages && !shim_config.random)
				atomic_store(&hugemap_stray_tell, guard_random);
			fork_take_over();
		}
	}
	*why = no_pool;
	return pool;
}

void decide_child(void)
{
	pool = NULL;
	atomic_store(&shim_user_mode, false);
	no_pool[0] = '\0';
}

/* A new mapping, as the program asks for it. */
struct wish {
	void *addr;
	size_t length;
	int prot, flags, fd;
	off_t offset;
	struct stat st;
	char path[PATH_MAX];
};

static void find_path(struct wish *wish)
{
	char link[32];
	ssize_t n;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", wish->fd);
	n = readlink(link, wish->path, sizeof(wish->path) - 1);
	wish->path[n < 0 ? 0 : n] = '\0';
}

/* What the mapping is asked to be that the engine is not, or NULL. */
static const char *refuse_kind(const struct wish *wish)
{
	int type = wish->flags & MAP_TYPE;

	if (wish->flags & (MAP_FIXED | MAP_FIXED_NOREPLACE))
		return "it was asked for at a fixed address";
	if (wish->prot & PROT_EXEC)
		return "it is executable";
	if (wish->prot == PROT_NONE || wish->prot & ~(PROT_READ | PROT_WRITE))
		return "it cannot be read";
	if (type == MAP_PRIVATE && wish->prot & PROT_WRITE)
		return "it is private and writable";
	if (type != MAP_PRIVATE && type != MAP_SHARED && type != MAP_SHARED_VALIDATE)
		return "it is of an unknown type";
	if (wish->flags & (MAP_LOCKED | MAP_HUGETLB | MAP_GROWSDOWN | MAP_SYNC
#ifdef MAP_32BIT
			   | MAP_32BIT
#endif
			   ))
		return "it was asked for with flags that the engine does not know";
	if (shim_config.readonly_only && wish->prot & PROT_WRITE)
		return "--readonly-only: it is writable";
	return NULL;
}

static const char *refuse_place(const struct wish *wish, bool *mount)
{
	struct statfs fs;

	*mount = false;
	if (fstatfs(wish->fd, &fs) < 0)
		return "its file system is not known";
	if (fs_is_local((unsigned long)fs.f_type))
		return NULL;
	switch ((unsigned long)fs.f_type) {
	case HUGEMAP_SUPER_MAGIC:
		*mount = true;
		return "";
	case TMPFS_MAGIC:
		return "its file system is in memory";
	default:
		return "its file system may change it without being seen";
	}
}

/*
 * Does the page cache hold an eighth of it? What was used before is likely to be all
 * that will be: a third of its file of classes is enough for a Java program.
 */
static bool is_cached(const struct wish *wish)
{
	struct {
		uint64_t offset, length;
	} range = { .offset = (uint64_t)wish->offset, .length = wish->length };
	struct {
		uint64_t cached, dirty, writeback, evicted, recently;
	} found = {};
	uint64_t there = (uint64_t)(wish->st.st_size - wish->offset);

	if (shim_config.cached)
		return false;
	if (there > wish->length)
		there = wish->length;
	if (real->syscall(NR_CACHESTAT, wish->fd, &range, &found, 0) < 0)
		return false;
	return found.cached * PAGE_BYTES > there / 8;
}

/* Has a stdio stream of this program the file open? What they do is not seen. */
static bool has_stream(const struct stat *st)
{
	static FILE *(*begin)(void), *(*end)(void), *(*next)(FILE *);
	static void (*lock)(void), (*unlock)(void);
	bool found = false;
	FILE *at;

	if (!begin) {
		end = (FILE * (*)(void)) dlsym(RTLD_DEFAULT, "_IO_iter_end");
		next = (FILE * (*)(FILE *)) dlsym(RTLD_DEFAULT, "_IO_iter_next");
		lock = (void (*)(void))dlsym(RTLD_DEFAULT, "_IO_list_lock");
		unlock = (void (*)(void))dlsym(RTLD_DEFAULT, "_IO_list_unlock");
		begin = (FILE * (*)(void)) dlsym(RTLD_DEFAULT, "_IO_iter_begin");
	}
	if (!begin || !end || !next || !lock || !unlock)
		return true;
	lock();
	for (at = begin(); !found && at != end(); at = next(at)) {
		int fd = fileno_unlocked(at);

		found = fd >= 0 && fd_is_of(fd, st);
	}
	unlock();
	return found;
}

static struct file *file_new(const struct stat *st)
{
	struct file *file = calloc(1, sizeof(*file));

	if (!file)
		return NULL;
	file->dev = st->st_dev;
	file->ino = st->st_ino;
	file->kind = FILE_SETTLED;
	file->guard_fd = -1;
	file->maps = 1; /* the one that is being made */
	pthread_mutex_init(&file->position, NULL);
	file->next = shim_files;
	shim_files = file;
	return file;
}

/* Make sure of other processes, and of what is not seen in this one. */
static bool make_safe(struct wish *wish, struct file *file, const char **why)
{
	int mode = real->fcntl(wish->fd, F_GETFL);
	const char *unseen = atomic_load(&shim_unseen);
	bool user_mode = atomic_load(&shim_user_mode);

	if (user_mode && unseen) {
		*why = unseen;
		return false;
	}
	*why = "--user-mode: the program may write to the file";
	if (!(wish->prot & PROT_WRITE) && (mode & O_ACCMODE) == O_RDONLY &&
	    guard_settle(file, wish->fd, why))
		return true;
	if (user_mode)
		return false;
	if (unseen) {
		*why = unseen;
		return false;
	}
	if (has_stream(&wish->st)) {
		*why = "the program has a stdio stream of the file, whose calls are not seen";
		return false;
	}
	return guard_live(file, wish->fd, &wish->st, why);
}

/* The engine's mapping; or MAP_FAILED and why not. shim_lock is held for writing. */
static void *map_engine(struct wish *wish, const char **why)
{
	struct hugemap_options options = {
		.size = sizeof(options),
		.page = shim_config.base_pages ? HUGEMAP_PAGE_4K : HUGEMAP_PAGE_2M,
		.engine = HUGEMAP_ENGINE_USER,
	};
	struct file *file = file_find(wish->st.st_dev, wish->st.st_ino);
	static char reason[160];
	struct map *map;
	void *at;

	options.pool = decide_pool(why);
	if (!options.pool)
		return MAP_FAILED;
	if (file && file->kind == FILE_SETTLED && wish->prot & PROT_WRITE) {
		*why = "the file has been mapped for reading, and is mapped for writing now";
		return MAP_FAILED;
	}
	if (file) {
		file->maps++;
	} else {
		file = file_new(&wish->st);
		if (!file || !make_safe(wish, file, why))
			goto fail;
	}
	/* What can be written can be read, on all machines that the engine knows. */
	at = hugemap_map(wish->fd, wish->offset, wish->length, wish->prot | PROT_READ,
			 HUGEMAP_HANDOVER, &options);
	if (hugemap_error(at)) {
		snprintf(reason, sizeof(reason), "%s",
			 *hugemap_reason() ? hugemap_reason() : strerror(-hugemap_error(at)));
		*why = reason;
		goto fail;
	}
	map = map_add(at, wish->length, wish->prot, wish->flags, wish->offset);
	if (map) {
		map->fd = engine_fcntl(wish->fd, F_DUPFD_CLOEXEC, 3);
		map->file = file;
		map->id = report_map(wish->path, map, RUN_ENGINE, "");
		if (map->fd >= 0)
			return at;
	}
	hugemap_unmap(at, wish->length); /* while the file is guarded still */
	if (map) {
		map_cut(at, map->end); /* and the file with it */
		file = NULL;
	}
	*why = "there are too many open files, or too little memory";
fail:
	if (file)
		file_put(file);
	return MAP_FAILED;
}

static uint64_t memory_half(void)
{
	long pages = sysconf(_SC_AVPHYS_PAGES);

	return pages > 0 ? (uint64_t)pages * PAGE_BYTES / 2 : 0;
}

/* Addresses that lie to the file as the offset does, modulo 2 MB. */
static void *map_aligned(const struct wish *wish)
{
	size_t bytes = (wish->length + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1), skip;
	char *place = real->mmap(NULL, bytes + BLOCK_BYTES, PROT_NONE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	void *at;

	if (place == MAP_FAILED)
		return MAP_FAILED;
	skip = ((uintptr_t)wish->offset - (uintptr_t)place) & (BLOCK_BYTES - 1);
	at = real->mmap(place + skip, wish->length, wish->prot, wish->flags | MAP_FIXED, wish->fd,
			wish->offset);
	if (at == MAP_FAILED) {
		real->munmap(place, bytes + BLOCK_BYTES);
		return at;
	}
	if (skip)
		real->munmap(place, skip);
	if (skip < BLOCK_BYTES)
		real->munmap(place + skip + bytes, BLOCK_BYTES - skip);
	real->madvise(at, bytes, MADV_HUGEPAGE);
	return at;
}

/*
 * The kernel's mmap. Huge pages are read whole: not for what memory cannot hold. And not
 * for what is stored to: each page becomes dirty by a fault of its own all the same, and
 * to write a few of them is more work in a large folio.
 */
static void *map_kernel(const struct wish *wish, enum run_rung *rung)
{
	bool plain = wish->addr || wish->flags & (MAP_FIXED | MAP_FIXED_NOREPLACE) ||
		     wish->prot & (PROT_EXEC | PROT_WRITE) || !(wish->prot & PROT_READ) ||
		     wish->length > memory_half() || wish->length < BLOCK_BYTES;
	void *at = MAP_FAILED;

	if (*rung == RUN_MOUNT)
		plain = true;
	if (!plain)
		at = map_aligned(wish);
	if (at == MAP_FAILED)
		plain = true;
	if (plain)
		at = real->mmap(wish->addr, wish->length, wish->prot, wish->flags, wish->fd,
				wish->offset);
	if (*rung != RUN_MOUNT)
		*rung = plain ? RUN_PLAIN : RUN_ADVISED;
	return at;
}

static const char *refuse(struct wish *wish, enum run_rung *rung)
{
	const char *why = refuse_kind(wish), *place;
	bool mount;

	place = refuse_place(wish, &mount);
	if (mount) {
		*rung = RUN_MOUNT;
		return "";
	}
	if (why)
		return why;
	if ((uint64_t)wish->st.st_size < shim_config.min_size || wish->st.st_size <= wish->offset)
		return "the file is small";
	if (!config_wants(wish->path))
		return "--include or --exclude leaves it out";
	if (place)
		return place;
	if (shim_locked_all)
		return "the program has called mlockall()";
	if (is_cached(wish))
		return "the page cache holds a part of it already";
	return NULL;
}

/**
 * decide_map() - a mapping of a file
 *
 * Return: as mmap().
 */
void *decide_map(void *addr, size_t length, int prot, int flags, int fd, off_t offset)
{
	struct wish wish = { addr, length, prot, flags, fd, offset, {}, "" };
	enum run_rung rung = RUN_PLAIN;
	struct shim_section section;
	const char *why = NULL;
	void *at = MAP_FAILED;
	struct file *file;
	struct map *map;

	if (!length || offset < 0 || offset & (off_t)(PAGE_BYTES - 1) || length > SIZE_MAX / 4 ||
	    fstat(fd, &wish.st) < 0 || !S_ISREG(wish.st.st_mode))
		return real->mmap(addr, length, prot, flags, fd, offset);
	shim_enter(&section);
	find_path(&wish);
	why = refuse(&wish, &rung);
	pthread_rwlock_wrlock(&shim_lock);
	if (flags & MAP_FIXED)
		aside_range(addr, (char *)addr + length, "a part of it was mapped over");
	if (!why)
		at = map_engine(&wish, &why);
	if (at == MAP_FAILED) {
		/* Two views of a file that is written to must be the kernel's both. */
		file = file_find(wish.st.st_dev, wish.st.st_ino);
		if (file && (file->kind == FILE_LIVE || prot & PROT_WRITE))
			aside_file(file, why);
		at = map_kernel(&wish, &rung);
		section.saved_errno = errno;
		if (at != MAP_FAILED) {
			map_cut(at, (char *)at + length);
			map = map_add(at, length, prot, flags, offset);
			if (map)
				map->id = report_map(wish.path, map, rung, why);
		}
	}
	pthread_rwlock_unlock(&shim_lock);
	shim_leave(&section);
	if (at != MAP_FAILED && flags & MAP_POPULATE)
		hugemap_prefetch(at, length);
	return at;
}
