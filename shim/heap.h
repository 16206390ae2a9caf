/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Large anonymous memory in a file: see heap.c. */
#ifndef SHIM_HEAP_H
#define SHIM_HEAP_H

#include "shim.h"

/* Before the program begins: what has to be registered. */
void heap_open(void);

extern unsigned int heap_arenas;
bool heap_owns(const void *addr);

/* Does an address belong to heap memory that is in use? */
static inline bool heap_has(const void *addr)
{
	return __atomic_load_n(&heap_arenas, __ATOMIC_ACQUIRE) && heap_owns(addr);
}

#ifndef MAP_32BIT
#define MAP_32BIT 0 /* where there is none */
#endif

/* Is it memory that may live in the heap's file? */
static inline bool heap_suits(size_t length, int prot, int flags)
{
	const int strange = MAP_FIXED_NOREPLACE | MAP_GROWSDOWN | MAP_STACK | MAP_HUGETLB |
			    MAP_LOCKED | MAP_32BIT;

	return *shim.heap && length >= shim.least && flags & MAP_ANONYMOUS &&
	       (flags & MAP_TYPE) == MAP_PRIVATE && !(flags & strange) &&
	       prot == (PROT_READ | PROT_WRITE);
}

/**
 * heap_map() - large anonymous memory
 * @length: bytes
 * @block: it is for a malloc() of ours, not for an allocator that is in the middle of
 *	something: so a thread may be made, which allocates
 *
 * Return: memory that reads as zero; NULL if it shall be the kernel's.
 */
void *heap_map(size_t length, bool block);

/* As munmap(2), mremap(2) and madvise(2), for what begins where heap_has() says so. */
int heap_unmap(char *addr, size_t length);
void *heap_remap(char *old, size_t old_length, size_t length, int flags, void *new);
int heap_advise(char *addr, size_t length, int advice);

/**
 * heap_over() - something is about to be mapped over heap memory
 *
 * Return: true if it is new anonymous memory, and is there now.
 */
bool heap_over(char *addr, size_t length, int prot, int flags);

/* For libhugemap-heap.so: a block, and whether there is one; see heap_malloc.c. */
void *hugemap_run_heap_map(size_t length);
bool hugemap_run_heap_has(const void *addr);

#endif /* SHIM_HEAP_H */
