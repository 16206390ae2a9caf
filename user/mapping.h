/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Mappings with a pool (mapping.c), and what is done to the files behind them by calls:
 * truncate and punch (resize.c), reads and writes (access.c).
 *
 * Owns: the address space of mappings.
 * Locks: takes fork_lock, for reading; unmap_lock and resize_lock, which are held while a sync
 * is waited for; maps_lock, for writing to change the list; block_lock(). None is held where
 * memory of the program's is touched.
 */
#ifndef HM_MAPPING_H
#define HM_MAPPING_H

#include "objects.h"

/* --- mapping.c ------------------------------------------------------------------ */
void *mapping_create(struct pool *pool, int fd, off_t offset, size_t length, int prot,
		     const struct hugemap_options *options);
void mapping_lower_limit(struct mapping *map);
int mapping_unmap(struct pool *pool, char *start, char *end, char **next, int *write_err);
int mapping_check(struct pool *pool, const char *start, const char *end);
void *mapping_again(struct pool *pool, char *start, char *end, size_t length);

/* --- resize.c ------------------------------------------------------------------- */
int resize_truncate(struct store *store, int fd, u64 size, bool again);
int resize_punch(struct store *store, int fd, u64 offset, u64 length, bool again);
void resize_drop_clean(struct store *store, u64 pos, u64 end);
int resize_drop_read(struct store *store, u64 pos, u64 end);

/* --- access.c ------------------------------------------------------------------- */
ssize_t access_read(struct store *store, char *buffer, size_t count, u64 offset);
ssize_t access_plain_read(int fd, char *buffer, size_t count, u64 offset);
ssize_t access_plain_write(int fd, const char *buffer, size_t count, u64 offset, bool append);
ssize_t access_write(struct store *store, const char *buffer, size_t count, u64 offset);

#endif /* HM_MAPPING_H */
