// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * RocksDB: a log-structured merge tree, whose files are read by mmap or by pread. It has no
 * compression, so that a read by mmap needs no copy, and a block cache of its default size (8 MB),
 * so that both ways rely on the page cache. Its own advice for mappings, MADV_RANDOM, is left out
 * unless it is wanted. Writes go to its log, which is synced at the end.
 */
#include "store.h"

#include <stdlib.h>
#include <rocksdb/c.h>

#define BLOOM_BITS 10
#define BACKGROUND_JOBS 2

struct rocks {
	rocksdb_t *db;
	rocksdb_options_t *options;
	rocksdb_readoptions_t *read;
	rocksdb_writeoptions_t *write;
};

struct rocks_session {
	struct rocks *db;
	rocksdb_pinnableslice_t *value; /* of the last get */
};

static void rocks_check(char *error, const char *what)
{
	if (error)
		store_die("RocksDB: %s: %s", what, error);
}

static void *rocks_open(const char *dir, const struct ycsb_job *job)
{
	rocksdb_block_based_table_options_t *table = rocksdb_block_based_options_create();
	struct rocks *db = store_alloc(sizeof(*db));
	char *error = NULL;

	db->options = rocksdb_options_create();
	db->read = rocksdb_readoptions_create();
	db->write = rocksdb_writeoptions_create();
	rocksdb_block_based_options_set_filter_policy(
		table, rocksdb_filterpolicy_create_bloom_full(BLOOM_BITS));
	rocksdb_options_set_block_based_table_factory(db->options, table);
	rocksdb_block_based_options_destroy(table);
	rocksdb_options_set_create_if_missing(db->options, 1);
	rocksdb_options_set_compression(db->options, rocksdb_no_compression);
	rocksdb_options_set_allow_mmap_reads(db->options, !job->pread);
	rocksdb_options_set_advise_random_on_open(db->options, job->random || job->pread);
	rocksdb_options_set_write_buffer_size(db->options, job->buffer);
	rocksdb_options_set_max_background_jobs(db->options, BACKGROUND_JOBS);
	rocksdb_options_set_info_log_level(db->options, 3); /* errors only */
	db->db = rocksdb_open(db->options, dir, &error);
	rocks_check(error, "open");
	return db;
}

static void *rocks_attach(void *db)
{
	struct rocks_session *session = store_alloc(sizeof(*session));

	session->db = db;
	return session;
}

static void rocks_forget(struct rocks_session *session)
{
	if (session->value)
		rocksdb_pinnableslice_destroy(session->value);
	session->value = NULL;
}

static const void *rocks_get(void *arg, const char *key, size_t *bytes)
{
	struct rocks_session *session = arg;
	char *error = NULL;

	rocks_forget(session);
	session->value =
		rocksdb_get_pinned(session->db->db, session->db->read, key, YCSB_KEY_BYTES, &error);
	rocks_check(error, "get");
	return session->value ? rocksdb_pinnableslice_value(session->value, bytes) : NULL;
}

static void rocks_put(void *arg, const char *key, const void *value, size_t bytes)
{
	struct rocks_session *session = arg;
	char *error = NULL;

	rocks_forget(session);
	rocksdb_put(session->db->db, session->db->write, key, YCSB_KEY_BYTES, value, bytes, &error);
	rocks_check(error, "put");
}

static void rocks_scan(void *arg, const char *key, store_visit visit, void *visit_arg)
{
	struct rocks_session *session = arg;
	rocksdb_iterator_t *iterator = rocksdb_create_iterator(session->db->db, session->db->read);
	char *error = NULL;
	size_t bytes;

	rocksdb_iter_seek(iterator, key, YCSB_KEY_BYTES);
	while (rocksdb_iter_valid(iterator)) {
		const char *value = rocksdb_iter_value(iterator, &bytes);

		if (!visit(visit_arg, value, bytes))
			break;
		rocksdb_iter_next(iterator);
	}
	rocksdb_iter_get_error(iterator, &error);
	rocks_check(error, "scan");
	rocksdb_iter_destroy(iterator);
}

static void rocks_detach(void *arg)
{
	rocks_forget(arg);
	free(arg);
}

static void rocks_settle(void *arg)
{
	struct rocks *db = arg;

	rocksdb_compact_range(db->db, NULL, 0, NULL, 0);
}

static void rocks_close(void *arg)
{
	struct rocks *db = arg;
	char *error = NULL;

	rocksdb_flush_wal(db->db, 1, &error);
	rocks_check(error, "sync");
	rocksdb_close(db->db);
	rocksdb_readoptions_destroy(db->read);
	rocksdb_writeoptions_destroy(db->write);
	rocksdb_options_destroy(db->options);
	free(db);
}

const struct store store_rocksdb = {
	.open = rocks_open,
	.attach = rocks_attach,
	.get = rocks_get,
	.put = rocks_put,
	.scan = rocks_scan,
	.detach = rocks_detach,
	.settle = rocks_settle,
	.close = rocks_close,
};
