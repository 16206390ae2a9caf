/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The files and devices behind mappings (store.c).
 *
 * Owns: the stores of a pool, their descriptors, the locks on their files, and the nodes of
 * the core's index.
 * Locks: takes pools_lock and maps_lock; store_put() waits for a sync before that.
 */
#ifndef HM_STORE_H
#define HM_STORE_H

#include "objects.h"

int store_get(struct pool *pool, int fd, bool writable, struct store **store);
struct store *store_find(dev_t dev, ino_t ino); /* of any pool, with a reference */
int store_put(struct store *store);
int store_check_writable(const struct store *store);
int file_identify(int fd, dev_t *dev, ino_t *ino);
int file_size(int fd, u64 *bytes);
int store_file_size(const struct store *store, u64 *bytes);
u64 store_flushes(struct store *store);
int store_flush(struct store *store, u64 since);
int store_add_node(struct store *store, u64 pgoff, enum hm_node_kind kind);

/* Room in the file system; the block lock is held. */
bool store_lacks_room(struct store *store, u64 pgoff);
int store_takes_room(struct store *store, u64 pgoff, int err);

#endif /* HM_STORE_H */
