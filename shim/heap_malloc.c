// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Loaded beside libhugemap-run.so by `hugemap run --heap`: large allocations get memory
 * of the heap's file each; what malloc() does inside of the C library would not come by
 * there. All else goes on to the allocator that the program has.
 *
 * A large block begins 64 bytes or more after the start of its memory, and says before
 * itself where that is. Whether a pointer is one follows from its address.
 */
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define EXPORT __attribute__((visibility("default")))
#define PAGE_BYTES ((size_t)4096)
#define LEAST ((size_t)1 << 20)
#define HEADER sizeof(struct header)
#define BOOT_BYTES 8192u

/* Before each large block. */
struct header {
	char *start; /* of the memory */
	size_t bytes; /* of the memory */
	char pad[48];
};

_Static_assert(sizeof(struct header) == 64, "what follows is aligned as malloc() has it");

/* See heap.c; there is none when this library is loaded alone. */
void *hugemap_run_heap_map(size_t length) __attribute__((weak));
bool hugemap_run_heap_has(const void *addr) __attribute__((weak));

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

/* --- large blocks --- */

/* NULL: it is not large, or there is no room; then the allocator has it. */
static void *large(size_t size, size_t alignment)
{
	size_t extra = alignment > HEADER ? alignment : HEADER, bytes = size + extra;
	char *start, *user;

	if (size < LEAST || bytes < size || bytes > SIZE_MAX / 4 || !hugemap_run_heap_map)
		return NULL;
	bytes = (bytes + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1);
	start = hugemap_run_heap_map(bytes);
	if (!start)
		return NULL;
	user = start + HEADER;
	if (alignment > HEADER)
		user = (char *)(((uintptr_t)user + alignment - 1) & ~(alignment - 1));
	*(struct header *)(user - HEADER) = (struct header){ .start = start, .bytes = bytes };
	return user;
}

static struct header *header_of(void *block)
{
	if (!hugemap_run_heap_has || !hugemap_run_heap_has(block))
		return NULL;
	return (struct header *)((char *)block - HEADER);
}

static size_t usable(const struct header *header)
{
	return header->bytes - (size_t)((char *)header + HEADER - header->start);
}

/* --- the functions --- */

EXPORT void *malloc(size_t size)
{
	void *block;

	if (!real_malloc) {
		if (finding)
			return boot_alloc(size);
		find();
	}
	block = large(size, 0);
	return block ? block : real_malloc(size);
}

EXPORT void *calloc(size_t n, size_t size)
{
	size_t bytes;
	void *block = NULL;

	if (!real_malloc) {
		if (finding)
			return __builtin_mul_overflow(n, size, &bytes) ? NULL : boot_alloc(bytes);
		find();
	}
	if (!__builtin_mul_overflow(n, size, &bytes))
		block = large(bytes, 0); /* which reads as zero */
	return block ? block : real_calloc(n, size);
}

EXPORT void free(void *block)
{
	struct header *header;
	int saved = errno;

	if (!block || is_boot(block))
		return;
	header = header_of(block);
	if (header)
		munmap(header->start, header->bytes);
	else
		real_free(block);
	errno = saved;
}

EXPORT void *realloc(void *old, size_t size)
{
	struct header *header;
	size_t had;
	void *block;

	if (!old)
		return malloc(size);
	header = header_of(old);
	if (!header && !is_boot(old) && size < LEAST)
		return real_realloc(old, size);
	if (header && !size) {
		free(old);
		return NULL;
	}
	had = header	   ? usable(header) :
	      is_boot(old) ? (size_t)(boot + sizeof(boot) - (char *)old) :
			     real_usable(old);
	if (header && size <= had && size >= had / 2)
		return old;
	/* What is not large now and then stays where it can grow in place. */
	block = header || is_boot(old) ? malloc(size) : large(size, 0);
	if (!block)
		return header || is_boot(old) ? NULL : real_realloc(old, size);
	memcpy(block, old, size < had ? size : had);
	free(old);
	return block;
}

EXPORT void *reallocarray(void *block, size_t n, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(n, size, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	return realloc(block, bytes);
}

EXPORT void *memalign(size_t alignment, size_t size)
{
	void *block = NULL;

	if (!real_malloc)
		find();
	if (alignment && !(alignment & (alignment - 1)))
		block = large(size, alignment);
	return block ? block : real_memalign(alignment, size);
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
	int saved = errno, err = 0; /* positive, as this one has it */
	void *found = NULL;

	if (alignment % sizeof(void *) || !alignment || alignment & (alignment - 1))
		err = EINVAL;
	else
		found = memalign(alignment, size);
	if (found)
		*block = found;
	else if (!err)
		err = ENOMEM;
	errno = saved;
	return err;
}

EXPORT size_t malloc_usable_size(void *block)
{
	struct header *header;

	if (!block || is_boot(block))
		return 0;
	header = header_of(block);
	return header ? usable(header) : real_usable(block);
}
