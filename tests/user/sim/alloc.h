/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What the engine allocates belongs to the simulated process, see process.c. */
#ifndef HM_USER_SIM_ALLOC_H
#define HM_USER_SIM_ALLOC_H

#include <stdlib.h>

void *process_malloc(size_t bytes);
void *process_calloc(size_t n, size_t bytes);
void *process_realloc(void *old, size_t bytes);
void *process_aligned_alloc(size_t align, size_t bytes);
void process_free(void *mem);

#define malloc(bytes) process_malloc(bytes)
#define calloc(n, bytes) process_calloc(n, bytes)
#define realloc(old, bytes) process_realloc(old, bytes)
#define aligned_alloc(align, bytes) process_aligned_alloc(align, bytes)
#define free(mem) process_free(mem)

#endif /* HM_USER_SIM_ALLOC_H */
