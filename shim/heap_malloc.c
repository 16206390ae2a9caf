// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Loaded beside libhugemap-run.so by `hugemap run --heap`: large allocations get
 * a mapping each, by mmap(), which that library serves from the heap file. What
 * malloc() does inside of the C library would not come by there.
 *
 * A large block begins 64 bytes into a page. Whether a pointer is one is looked
 * up only if it is at such a place, so free() of anything else costs one test.
 */
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define EXPORT __attribute__((visibility("default")))
#define PAGE_BYTES ((size_t)4096)
#define SKIP 64u
#define LEAST ((size_t)1 << 20)
#define BOOT_BYTES 8192u

/* All large blocks, in a table that grows. */
struct block {
	char *start; /* of the mapping */
	size_t bytes; /* of the mapping */
	char *user;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct block *blocks;
static size_t nblocks, room;
static size_t threshold = SIZE_MAX;

static void *(*real_malloc)(size_t);
static void *(*real_calloc)(size_t, size_t);
static void *(*real_realloc)(void *, size_t);
static void (*real_free)(void *);
static void *(*real_memalign)(size_t, size_t);
static size_t (*real_usable)(void *);

/* dlsym() itself may allocate. */
static char boot[BOOT_BYTES] __attribute__((aligned(16)));
static size_t booted;
static bool finding;

static void *boot_alloc(size_t size)
{
	size_t at = booted;

	size = (size + 15) & ~(size_t)15;
	if (size > sizeof(boot) - booted)
		return NULL;
	booted += size;
	return boot + at;
}

static bool is_boot(const void *block)
{
	return (const char *)block >= boot && (const char *)block < boot + sizeof(boot);
}

static size_t setting(void)
{
	const char *text = getenv("HUGEMAP_RUN_MIN_SIZE");
	char *end;
	double size = text ? strtod(text, &end) : 0;

	if (size > 0 && (*end == 'k' || *end == 'K'))
		size *= 1 << 10;
	else if (size > 0 && (*end == 'm' || *end == 'M'))
		size *= 1 << 20;
	else if (size > 0 && (*end == 'g' || *end == 'G'))
		size *= 1 << 30;
	if (size <= 0)
		size = 16 << 20;
	return size < LEAST ? LEAST : (size_t)size;
}

static void find(void)
{
	finding = true;
	real_calloc = dlsym(RTLD_NEXT, "calloc");
	real_realloc = dlsym(RTLD_NEXT, "realloc");
	real_free = dlsym(RTLD_NEXT, "free");
	real_memalign = dlsym(RTLD_NEXT, "memalign");
	real_usable = dlsym(RTLD_NEXT, "malloc_usable_size");
	real_malloc = dlsym(RTLD_NEXT, "malloc");
	finding = false;
}

__attribute__((constructor)) static void begin(void)
{
	if (!real_malloc)
		find();
	threshold = setting();
}

/* --- the table --- */

static bool add(char *start, size_t bytes, char *user)
{
	bool added = true;

	pthread_mutex_lock(&lock);
	if (nblocks == room) {
		size_t more = room ? 2 * room : 64;
		struct block *table = real_realloc(blocks, more * sizeof(*table));

		if (table) {
			blocks = table;
			room = more;
		}
	}
	if (nblocks < room)
		blocks[nblocks++] = (struct block){ start, bytes, user };
	else
		added = false;
	pthread_mutex_unlock(&lock);
	return added;
}

static bool look(void *user, struct block *found, bool take)
{
	bool there = false;
	size_t i;

	if ((uintptr_t)user % PAGE_BYTES != SKIP && (uintptr_t)user % PAGE_BYTES)
		return false;
	pthread_mutex_lock(&lock);
	for (i = 0; i < nblocks && !there; i++) {
		if (blocks[i].user != user)
			continue;
		*found = blocks[i];
		there = true;
		if (take)
			blocks[i] = blocks[--nblocks];
	}
	pthread_mutex_unlock(&lock);
	return there;
}

static void before_fork(void)
{
	pthread_mutex_lock(&lock);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&lock);
}

static void register_fork(void)
{
	pthread_atfork(before_fork, after_fork, after_fork);
}

/* --- large blocks --- */

static void *large(size_t size, size_t alignment)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	size_t extra = alignment > SKIP ? alignment : SKIP, bytes = size + extra;
	char *start, *user;

	if (bytes < size || bytes > SIZE_MAX / 4)
		return NULL;
	pthread_once(&once, register_fork);
	bytes = (bytes + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1);
	start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (start == MAP_FAILED)
		return NULL;
	user = start + SKIP;
	if (alignment > SKIP)
		user = (char *)(((uintptr_t)start + alignment - 1) & ~(alignment - 1));
	if (add(start, bytes, user))
		return user;
	munmap(start, bytes);
	return NULL;
}

static size_t usable(const struct block *block)
{
	return (size_t)(block->start + block->bytes - block->user);
}

EXPORT void *malloc(size_t size)
{
	void *block;

	if (!real_malloc) {
		if (finding)
			return boot_alloc(size);
		find();
	}
	if (size >= threshold) {
		block = large(size, 0);
		if (block)
			return block;
	}
	return real_malloc(size);
}

EXPORT void *calloc(size_t n, size_t size)
{
	size_t bytes;
	void *block;

	if (!real_calloc || !real_malloc) {
		if (finding)
			return __builtin_mul_overflow(n, size, &bytes) ? NULL : boot_alloc(bytes);
		find();
	}
	if (!__builtin_mul_overflow(n, size, &bytes) && bytes >= threshold) {
		block = large(bytes, 0);
		if (block)
			return block; /* new in the file: zero */
	}
	return real_calloc(n, size);
}

EXPORT void free(void *pointer)
{
	int saved = errno;
	struct block block;

	if (!pointer || is_boot(pointer))
		return;
	if (look(pointer, &block, true))
		munmap(block.start, block.bytes);
	else
		real_free(pointer);
	errno = saved;
}

static void *grow_large(void *pointer, struct block *old, size_t size)
{
	void *block;

	if (!size) {
		free(pointer);
		return NULL;
	}
	if (size <= usable(old) && size >= usable(old) / 2)
		return pointer;
	block = malloc(size);
	if (!block)
		return NULL;
	memcpy(block, pointer, size < usable(old) ? size : usable(old));
	free(pointer);
	return block;
}

EXPORT void *realloc(void *pointer, size_t size)
{
	struct block old;
	size_t had;
	void *block;

	if (!real_malloc)
		find();
	if (!pointer)
		return malloc(size);
	if (is_boot(pointer)) {
		block = malloc(size);
		had = (size_t)(boot + sizeof(boot) - (char *)pointer);
		if (block)
			memcpy(block, pointer, size < had ? size : had);
		return block;
	}
	if (look(pointer, &old, false))
		return grow_large(pointer, &old, size);
	if (size < threshold)
		return real_realloc(pointer, size);
	/* It becomes large. */
	had = real_usable(pointer);
	block = large(size, 0);
	if (!block)
		return real_realloc(pointer, size);
	memcpy(block, pointer, had < size ? had : size);
	real_free(pointer);
	return block;
}

EXPORT void *reallocarray(void *pointer, size_t n, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(n, size, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	return realloc(pointer, bytes);
}

EXPORT void *memalign(size_t alignment, size_t size)
{
	void *block;

	if (!real_malloc)
		find();
	/* More than a page would have to be found at any place by free(). */
	if (size >= threshold && alignment && !(alignment & (alignment - 1))) {
		block = large(size, alignment > SKIP ? PAGE_BYTES : 0);
		if (block && !((uintptr_t)block & (alignment - 1)))
			return block;
		free(block);
	}
	return real_memalign(alignment, size);
}

EXPORT void *aligned_alloc(size_t alignment, size_t size)
{
	return memalign(alignment, size);
}

EXPORT void *valloc(size_t size)
{
	return memalign(PAGE_BYTES, size);
}

EXPORT int posix_memalign(void **block, size_t alignment, size_t size)
{
	int saved = errno;

	int err = 0; /* positive, as this one has it */

	if (alignment % sizeof(void *) || !alignment || alignment & (alignment - 1))
		err = EINVAL;
	else
		*block = memalign(alignment, size);
	if (!err && !*block)
		err = ENOMEM;
	errno = saved;
	return err;
}

EXPORT size_t malloc_usable_size(void *pointer)
{
	struct block block;

	if (!pointer || is_boot(pointer))
		return 0;
	return look(pointer, &block, false) ? usable(&block) : real_usable(pointer);
}
