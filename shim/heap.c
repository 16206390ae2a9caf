// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * --heap: large anonymous memory lives in a file of the kernel's, so that there can be
 * more of it than DRAM, and is steered as any mapping.
 *
 * An arena is a range of addresses with a sparse file behind it that has no name, mapped
 * once. Memory is taken from it and given back in granules, by mprotect() and by punching
 * holes: so no descriptor is needed, the place in the file follows from the address, and
 * what is new reads as zero.
 *
 * The file is shared, so a child of fork() must not have it. Before the fork, the arena's
 * shadow, a second and private mapping of the same file, is moved over what is in use:
 * both processes have private memory with the same contents from then on, and nobody
 * stores to that part of the file any more. Children that are made by the bare system
 * call do not have the memory at all (MADV_DONTFORK), rather than share it.
 *
 * Only heap memory meets the lock here. Under it nothing allocates, and no signal
 * arrives: an allocator may call with its own lock held.
 */
#include "heap.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "area.h"
#include "page.h"
#include "steer.h"

#define GRANULE ((size_t)2 << 20)
#define GRANULE_PAGES (GRANULE / PAGE_BYTES)
#define WORDS (GRANULE_PAGES / 64)
#define MOST_BYTES ((size_t)4 << 40)
#define LEAST_BYTES ((size_t)64 << 30)
#define ARENAS 8 /* one for each generation of children that has a heap */
#define RW (PROT_READ | PROT_WRITE)

#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif

enum kind {
	FREE, /* of the arena, not accessible */
	SHARED, /* in use, in the file */
	PRIVATE, /* in use, from before a fork */
	MIXED, /* something else was mapped over a part: /proc/self/maps tells */
	GONE, /* was PRIVATE; not used again */
};

/**
 * struct arena - a file and the addresses it is mapped at
 * @base: where it begins
 * @shadow: the private mapping of the same file
 * @bytes: of addresses, and the length of the file
 * @kind: of each granule; see enum kind
 * @block: of each granule: taken by malloc() of heap_malloc.c, as a whole
 * @live: a bit for each page that is in use
 * @low: no granule below this one is free
 * @top: none from this one on was ever used
 * @shown_dev: of the file, as /proc/self/maps shows it
 * @shown_ino: of the file, as /proc/self/maps shows it
 * @fd: only to tell the watcher which file it is; the program may close it
 * @dev: of the file behind @fd
 * @ino: of the file behind @fd
 */
struct arena {
	char *base;
	char *shadow;
	size_t bytes;
	unsigned char *kind;
	unsigned char *block;
	uint64_t *live;
	size_t low, top;
	uint64_t shown_dev, shown_ino;
	int fd;
	dev_t dev;
	ino_t ino;
};

unsigned int heap_arenas;

static struct arena arenas[ARENAS];
static struct arena *current; /* NULL = the next allocation makes one */
static bool failed;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void enter(sigset_t *old)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, old);
	pthread_mutex_lock(&lock);
}

static void leave(const sigset_t *old)
{
	pthread_mutex_unlock(&lock);
	pthread_sigmask(SIG_SETMASK, old, NULL);
}

static char *round_up(char *addr)
{
	return (char *)(((uintptr_t)addr + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1));
}

/* --- arenas --- */

static int open_file(void)
{
	const char *dir = shim.heap;
	char path[sizeof(shim.heap) + 32];
	struct stat st;
	int fd;

	if (!stat(dir, &st) && S_ISDIR(st.st_mode)) {
		fd = (int)syscall(SYS_openat, AT_FDCWD, dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
		if (fd >= 0 || errno != EOPNOTSUPP)
			return fd;
		snprintf(path, sizeof(path), "%s/heap.%d", dir, (int)getpid());
	} else {
		snprintf(path, sizeof(path), "%s.%d", dir, (int)getpid());
	}
	fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd >= 0)
		unlink(path);
	return fd;
}

/* Where a program does not expect it: many count on the lowest numbers. */
static int open_high(void)
{
	int low = open_file(), fd = low < 0 ? -1 : fcntl(low, F_DUPFD_CLOEXEC, 200);

	if (fd < 0)
		return low;
	syscall(SYS_close, low);
	return fd;
}

/* As long as the file system allows; and it must be able to give room back. */
static bool size_file(struct arena *arena)
{
	for (arena->bytes = MOST_BYTES; ftruncate(arena->fd, (off_t)arena->bytes);
	     arena->bytes /= 2)
		if (errno != EFBIG || arena->bytes <= LEAST_BYTES)
			return false;
	return !syscall(SYS_fallocate, arena->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
			(off_t)PAGE_BYTES);
}

static void *take_memory(size_t bytes)
{
	void *at = raw_mmap(NULL, bytes, RW, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return at == MAP_FAILED ? NULL : at;
}

static bool map_file(struct arena *arena)
{
	size_t granules = arena->bytes / GRANULE, spare = arena->bytes + GRANULE;
	char *at = raw_mmap(NULL, spare, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
			    0);

	if (at == MAP_FAILED)
		return false;
	arena->base = (char *)(((uintptr_t)at + GRANULE - 1) & ~(GRANULE - 1));
	raw_munmap(at, (size_t)(arena->base - at));
	raw_munmap(arena->base + arena->bytes, (size_t)(at + spare - arena->base) - arena->bytes);
	arena->shadow =
		raw_mmap(NULL, arena->bytes, PROT_NONE, MAP_PRIVATE | MAP_NORESERVE, arena->fd, 0);
	arena->kind = take_memory(2 * granules);
	arena->block = arena->kind + granules;
	arena->live = take_memory(granules * WORDS * sizeof(*arena->live));
	return arena->shadow != MAP_FAILED && arena->kind && arena->live &&
	       raw_mmap(arena->base, arena->bytes, PROT_NONE,
			MAP_SHARED | MAP_FIXED | MAP_NORESERVE, arena->fd, 0) != MAP_FAILED &&
	       !raw_madvise(arena->base, arena->bytes, MADV_DONTFORK) &&
	       !raw_madvise(arena->shadow, arena->bytes, MADV_DONTFORK);
}

static bool make_arena(struct arena *arena)
{
	struct area area;
	struct stat st;
	int err;

	arena->fd = open_high();
	if (arena->fd < 0)
		return false;
	if (!fstat(arena->fd, &st) && size_file(arena) && map_file(arena)) {
		arena->dev = st.st_dev;
		arena->ino = st.st_ino;
		err = area_at(arena->base, &area);
		if (!err) {
			arena->shown_dev = area.dev;
			arena->shown_ino = area.ino;
			return true;
		}
		errno = -err;
	}
	syscall(SYS_close, arena->fd);
	return false;
}

static struct arena *the_arena(void)
{
	struct arena *arena = &arenas[heap_arenas];

	if (current || failed)
		return current;
	if (heap_arenas == ARENAS || !make_arena(arena)) {
		if (heap_arenas < ARENAS)
			report_say("--heap %s: %s", shim.heap, strerror(errno));
		failed = true;
		return NULL;
	}
	__atomic_store_n(&heap_arenas, heap_arenas + 1, __ATOMIC_RELEASE);
	current = arena;
	return arena;
}

static struct arena *arena_of(const char *addr)
{
	unsigned int i, n = __atomic_load_n(&heap_arenas, __ATOMIC_ACQUIRE);

	for (i = 0; i < n; i++)
		if (addr >= arenas[i].base && addr < arenas[i].base + arenas[i].bytes)
			return &arenas[i];
	return NULL;
}

/* Without the lock: what the caller uses does not change under it. */
bool heap_owns(const void *addr)
{
	const struct arena *arena = arena_of(addr);
	enum kind kind = FREE;

	if (arena)
		kind = (enum kind)arena->kind[(size_t)((const char *)addr - arena->base) / GRANULE];
	return kind != FREE && kind != GONE;
}

/* --- pieces --- */

/* Pages of one kind, one after the other; @arena is NULL where there is none. */
struct piece {
	struct arena *arena;
	enum kind kind;
	char *from, *to;
};

/* The first piece of a range. */
static struct piece piece_at(char *from, char *to)
{
	struct piece piece = { .arena = arena_of(from), .from = from, .to = to };
	struct arena *arena = piece.arena;
	size_t granule;

	if (!arena)
		return piece;
	granule = (size_t)(from - arena->base) / GRANULE;
	piece.kind = (enum kind)arena->kind[granule];
	while (arena->base + ++granule * GRANULE < to)
		if (granule == arena->bytes / GRANULE || arena->kind[granule] != piece.kind) {
			piece.to = arena->base + granule * GRANULE;
			break;
		}
	return piece;
}

/* Marks pages as in use or not; granules without any change their kind to @empty. */
static void set_live(const struct piece *piece, bool live, enum kind empty)
{
	struct arena *arena = piece->arena;
	size_t page = (size_t)(piece->from - arena->base) / PAGE_BYTES;
	size_t end = (size_t)(piece->to - arena->base) / PAGE_BYTES;

	while (page < end) {
		size_t granule = page / GRANULE_PAGES, word, i;
		uint64_t any = 0;

		for (; page < end && page / GRANULE_PAGES == granule; page++) {
			if (live)
				arena->live[page / 64] |= 1ull << page % 64;
			else
				arena->live[page / 64] &= ~(1ull << page % 64);
		}
		for (i = 0, word = granule * WORDS; i < WORDS; i++)
			any |= arena->live[word + i];
		if (any)
			continue;
		arena->kind[granule] = (unsigned char)empty;
		if (empty == FREE && granule < arena->low)
			arena->low = granule;
	}
}

static size_t length_of(const struct piece *piece)
{
	return (size_t)(piece->to - piece->from);
}

/* Give the file's room back: what is there reads as zero. */
static int punch(const struct piece *piece)
{
	return raw_madvise(piece->from, length_of(piece), MADV_REMOVE);
}

static int put_anonymous(char *from, size_t length, int prot)
{
	return raw_mmap(from, length, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE,
			-1, 0) == MAP_FAILED ?
		       -1 :
		       0;
}

/* --- memory comes and goes --- */

static char *take(struct arena *arena, size_t granules, bool block)
{
	size_t all = arena->bytes / GRANULE, first = arena->low, n;

	while (first + granules <= all) {
		for (n = 0; n < granules && arena->kind[first + n] == FREE; n++)
			;
		if (n == granules)
			break;
		first += n + 1;
	}
	if (first + granules > all)
		return NULL;
	memset(arena->kind + first, SHARED, granules);
	memset(arena->block + first, block, granules);
	if (first == arena->low)
		arena->low = first + granules;
	if (first + granules > arena->top)
		arena->top = first + granules;
	return arena->base + first * GRANULE;
}

static int unmap_piece(const struct piece *piece)
{
	size_t length = length_of(piece);

	/* In a child, somebody else's memory may be where nothing of the arena is. */
	if (!piece->arena || piece->kind == MIXED ||
	    (piece->kind == FREE && piece->arena != current))
		return raw_munmap(piece->from, length);
	if (piece->kind == PRIVATE) {
		/* Not unmapped: nobody else's memory shall ever be there. */
		set_live(piece, false, GONE);
		return put_anonymous(piece->from, length, PROT_NONE);
	}
	if (piece->kind == SHARED) {
		/* What the program has protected is no less to be given back. */
		if (mprotect(piece->from, length, RW))
			return -1;
		if (punch(piece))
			memset(piece->from, 0, length);
		if (mprotect(piece->from, length, PROT_NONE))
			return -1;
		set_live(piece, false, FREE);
	}
	return 0;
}

/* The watcher asks for the file, if it is still there. */
static void announce(struct arena *arena, char *at, size_t length, bool block)
{
	const struct steer_page *page = steer_page();
	struct stat st;
	int saved = errno;

	/* Whoever makes a thread allocates, and an allocator may be in the middle of it. */
	if (!block && !(page && page->running && page->pid == (uint32_t)getpid()))
		return;
	if (!fstat(arena->fd, &st) && st.st_dev == arena->dev && st.st_ino == arena->ino)
		steer_mapped(at, length, RW, MAP_SHARED, arena->fd, at - arena->base);
	errno = saved;
}

void *heap_map(size_t length, bool block)
{
	size_t granules = length / GRANULE + !!(length % GRANULE);
	struct piece piece = { .kind = SHARED };
	int saved = errno;
	sigset_t signals;

	enter(&signals);
	piece.arena = the_arena();
	if (piece.arena)
		piece.from = take(piece.arena, granules, block);
	if (piece.from) {
		piece.to = round_up(piece.from + length);
		set_live(&piece, true, SHARED);
		if (mprotect(piece.from, length, RW)) {
			set_live(&piece, false, FREE);
			piece.from = NULL;
		}
	}
	leave(&signals);
	if (piece.from)
		announce(piece.arena, piece.from, length, block);
	errno = saved;
	return piece.from;
}

static int each_piece(char *addr, size_t length, int (*visit)(const struct piece *piece))
{
	char *end = round_up(addr + length);
	int saved = errno, result = 0;
	sigset_t signals;

	enter(&signals);
	while (addr < end && !result) {
		struct piece piece = piece_at(addr, end);

		result = visit(&piece);
		addr = piece.to;
	}
	leave(&signals);
	if (!result)
		errno = saved;
	return result;
}

int heap_unmap(char *addr, size_t length)
{
	if ((uintptr_t)addr % PAGE_BYTES || !length) {
		errno = EINVAL;
		return -1;
	}
	return each_piece(addr, length, unmap_piece);
}

/* --- advice that takes contents away --- */

static bool is_heap(const struct area *area, const struct arena *arena)
{
	return area->ino == arena->shown_ino && area->dev == arena->shown_dev &&
	       area->offset == (uint64_t)(area->from - arena->base);
}

static bool clear_line(const struct area *area, void *arg)
{
	const struct arena *arena = arg;
	size_t length = (size_t)(area->to - area->from);

	if (!is_heap(area, arena))
		raw_madvise(area->from, length, MADV_DONTNEED);
	else if (area->shared)
		raw_madvise(area->from, length, MADV_REMOVE);
	else
		put_anonymous(area->from, length, area->prot);
	return true;
}

static int clear_piece(const struct piece *piece)
{
	switch (piece->arena ? piece->kind : FREE) {
	case SHARED:
		return punch(piece);
	case PRIVATE:
		return put_anonymous(piece->from, length_of(piece), RW);
	case MIXED:
		areas_each(piece->from, piece->to, clear_line, piece->arena);
		return 0;
	default:
		return raw_madvise(piece->from, length_of(piece), MADV_DONTNEED);
	}
}

int heap_advise(char *addr, size_t length, int advice)
{
	switch (advice) {
	case MADV_DONTNEED:
	case MADV_DONTNEED_LOCKED:
	case MADV_FREE:
		if ((uintptr_t)addr % PAGE_BYTES) {
			errno = EINVAL;
			return -1;
		}
		return each_piece(addr, length, clear_piece);
	case MADV_DONTFORK:
	case MADV_DOFORK:
		return 0; /* what a child has is decided when there is one */
	default:
		return raw_madvise(addr, length, advice);
	}
}

/* --- mapped over, moved --- */

static void set_mixed(const struct piece *piece)
{
	size_t first = (size_t)(piece->from - piece->arena->base) / GRANULE;
	size_t last = (size_t)(piece->to - 1 - piece->arena->base) / GRANULE;

	memset(piece->arena->kind + first, MIXED, last - first + 1);
}

/* New anonymous memory in the place of heap memory: that need not leave the file. */
static void renew(const struct piece *piece, int prot)
{
	if (piece->arena && piece->kind == SHARED && !punch(piece) &&
	    !mprotect(piece->from, length_of(piece), prot)) {
		set_live(piece, true, SHARED);
		return;
	}
	if (piece->arena && piece->kind != PRIVATE)
		set_mixed(piece);
	put_anonymous(piece->from, length_of(piece), prot);
}

bool heap_over(char *addr, size_t length, int prot, int flags)
{
	const int kind = MAP_ANONYMOUS | MAP_TYPE | MAP_LOCKED | MAP_HUGETLB | MAP_GROWSDOWN;
	bool anonymous = (flags & kind) == (MAP_ANONYMOUS | MAP_PRIVATE);
	char *end = round_up(addr + length);
	int saved = errno;
	sigset_t signals;

	if (!heap_has(addr) || (uintptr_t)addr % PAGE_BYTES || !length)
		return false;
	enter(&signals);
	while (addr < end) {
		struct piece piece = piece_at(addr, end);

		if (anonymous)
			renew(&piece, prot);
		else if (piece.arena)
			set_mixed(&piece);
		addr = piece.to;
	}
	leave(&signals);
	errno = saved;
	return anonymous;
}

void *heap_remap(char *old, size_t old_length, size_t length, int flags, void *new)
{
	char *end = round_up(old + length), *at;

	if (!length || !old_length || (uintptr_t)old % PAGE_BYTES) {
		errno = EINVAL;
		return MAP_FAILED;
	}
	if (!(flags & (MREMAP_FIXED | MREMAP_DONTUNMAP)) && end <= round_up(old + old_length)) {
		if (end < round_up(old + old_length))
			heap_unmap(end, (size_t)(round_up(old + old_length) - end));
		return old;
	}
	if (!(flags & MREMAP_MAYMOVE)) {
		errno = ENOMEM;
		return MAP_FAILED;
	}
	at = mmap(new, length, RW,
		  MAP_PRIVATE | MAP_ANONYMOUS | (flags & MREMAP_FIXED ? MAP_FIXED : 0), -1, 0);
	if (at == MAP_FAILED)
		return at;
	memcpy(at, old, old_length < length ? old_length : length);
	if (flags & MREMAP_DONTUNMAP)
		heap_advise(old, old_length, MADV_DONTNEED);
	else
		munmap(old, old_length);
	return at;
}

/* --- fork --- */

/* Memory of the file becomes private, part by part; free granules stay as they are. */
static bool make_private(const struct area *area, void *arg)
{
	const struct arena *arena = arg;
	char *from = area->from;

	while (area->shared && is_heap(area, arena) && from < area->to) {
		struct piece piece = piece_at(from, area->to);
		char *shadow = arena->shadow + (from - arena->base);
		size_t length = length_of(&piece);

		from = piece.to;
		if (piece.kind != SHARED && piece.kind != MIXED)
			continue;
		steer_unmapping(piece.from, length);
		if (mprotect(shadow, length, area->prot) ||
		    raw_madvise(shadow, length, MADV_DOFORK) ||
		    raw_mremap(shadow, length, length, MREMAP_MAYMOVE | MREMAP_FIXED, piece.from) ==
			    MAP_FAILED)
			report_say("--heap: a child of fork() does not have %zu MB of it: %s",
				   length >> 20, strerror(errno));
	}
	return true;
}

static void before_fork(void)
{
	int saved = errno;
	sigset_t signals;
	size_t i;

	enter(&signals);
	if (current)
		areas_each(current->base, current->base + current->bytes, make_private, current);
	for (i = 0; current && i < current->top; i++)
		if (current->kind[i] == SHARED)
			current->kind[i] = PRIVATE;
	leave(&signals);
	errno = saved;
}

/* What it has inherited is its own; new memory has a file of its own. */
static void in_child(void)
{
	struct stat st;

	pthread_mutex_init(&lock, NULL);
	failed = false;
	if (!current)
		return;
	if (!fstat(current->fd, &st) && st.st_dev == current->dev && st.st_ino == current->ino)
		close(current->fd);
	current = NULL;
}

void heap_open(void)
{
	pthread_atfork(before_fork, NULL, in_child);
}

/* --- for libhugemap-heap.so --- */

SHIM_EXPORT void *hugemap_run_heap_map(size_t length)
{
	if (!shim.on || !heap_suits(length, RW, MAP_PRIVATE | MAP_ANONYMOUS))
		return NULL;
	return heap_map(length, true);
}

SHIM_EXPORT bool hugemap_run_heap_has(const void *addr)
{
	const struct arena *arena = arena_of(addr);

	/* An allocator may have its own memory in an arena. */
	return arena && arena->block[(size_t)((const char *)addr - arena->base) / GRANULE] &&
	       heap_owns(addr);
}
