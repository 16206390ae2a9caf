/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* A key-value store. A function that fails ends the process by store_die(). */
#ifndef YCSB_STORE_H
#define YCSB_STORE_H

#include <stdbool.h>
#include <stddef.h>

#include "ycsb_job.h"

/* Called for each record of a scan. Returns false to end the scan. */
typedef bool (*store_visit)(void *arg, const void *value, size_t bytes);

/**
 * struct store - a store
 * @open: opens the store in an existing directory, or makes it
 * @attach: prepares a thread
 * @get: returns the address of a value, which is valid until the next call of this thread;
 *	NULL = there is no such key
 * @put: writes a record, new or not
 * @scan: visits the records in the order of their keys, from a key on
 * @detach: ends the use by a thread
 * @settle: brings a loaded store into the state in which it stays while it is only read
 * @close: makes all data durable, and closes the store
 */
struct store {
	void *(*open)(const char *dir, const struct ycsb_job *job);
	void *(*attach)(void *db);
	const void *(*get)(void *session, const char *key, size_t *bytes);
	void (*put)(void *session, const char *key, const void *value, size_t bytes);
	void (*scan)(void *session, const char *key, store_visit visit, void *arg);
	void (*detach)(void *session);
	void (*settle)(void *db);
	void (*close)(void *db);
};

extern const struct store store_lmdb;
extern const struct store store_rocksdb;

_Noreturn void store_die(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Returns zeroed memory. */
void *store_alloc(size_t bytes);

#endif /* YCSB_STORE_H */
