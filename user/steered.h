/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Mappings without a pool: the kernel's, steered (steered.c).
 *
 * Owns: the list of them.
 * Locks: a lock of its own, and those of store_find() before it.
 */
#ifndef HM_STEERED_H
#define HM_STEERED_H

#include <stdbool.h>
#include <sys/types.h>

#include "hugemap.h"

/*
 * Of the preload library of `hugemap run`, if it is in the process: it sees our calls of
 * mmap() and munmap() as everybody's, and steers.
 */
extern const char hugemap_run_version[] __attribute__((weak, visibility("default")));
void *steered_map(int fd, off_t offset, size_t length, int prot, int flags);
void *steered_remap(char *start, char *end, size_t new_length);
bool steered_covers(const void *addr);
int steered_forget(char *start, char *end);
bool steered_conflicts(dev_t dev, ino_t ino, bool writable);
int steered_unmap(char *start, char *end, bool *found);
int steered_sync(char *start, char *end, int flags);
int steered_advise(char *start, char *end, enum hugemap_advice advice);
int steered_prefetch(char *start, char *end);
int steered_stat(const void *addr, struct hugemap_stat *stat);
void steered_lock(void);
void steered_unlock(void);

#endif /* HM_STEERED_H */
