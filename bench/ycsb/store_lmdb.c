// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * LMDB: a B-tree that is always read through a mapping. Each write is a transaction of its own;
 * a sync follows when the store is closed, as with RocksDB.
 */
#include "store.h"

#include <stdlib.h>
#include <lmdb.h>

#define READERS 128

struct lmdb {
	MDB_env *env;
	MDB_dbi dbi;
};

/* A thread's read transaction is renewed for each operation. */
struct lmdb_session {
	struct lmdb *db;
	MDB_txn *txn;
	bool reading;
};

static void lmdb_check(int err, const char *what)
{
	if (err)
		store_die("LMDB: %s: %s", what, mdb_strerror(err));
}

static void *lmdb_open(const char *dir, const struct ycsb_job *job)
{
	struct lmdb *db = store_alloc(sizeof(*db));
	size_t data = job->records * (job->value + YCSB_KEY_BYTES);
	MDB_txn *txn;

	lmdb_check(mdb_env_create(&db->env), "mdb_env_create");
	/* Leaves are about half full. The map takes only address space. */
	lmdb_check(mdb_env_set_mapsize(db->env, 6 * data + (256u << 20)), "size");
	lmdb_check(mdb_env_set_maxreaders(db->env, READERS), "readers");
	lmdb_check(mdb_env_open(db->env, dir, MDB_NOSYNC | MDB_NOTLS, 0600), "open");
	lmdb_check(mdb_txn_begin(db->env, NULL, 0, &txn), "begin");
	lmdb_check(mdb_dbi_open(txn, NULL, 0, &db->dbi), "dbi");
	lmdb_check(mdb_txn_commit(txn), "commit");
	return db;
}

static void *lmdb_attach(void *db)
{
	struct lmdb_session *session = store_alloc(sizeof(*session));

	session->db = db;
	lmdb_check(mdb_txn_begin(session->db->env, NULL, MDB_RDONLY, &session->txn), "begin");
	session->reading = true;
	return session;
}

/* Old pages are not used again while a transaction reads. */
static void lmdb_end_read(struct lmdb_session *session)
{
	if (session->reading)
		mdb_txn_reset(session->txn);
	session->reading = false;
}

static void lmdb_begin_read(struct lmdb_session *session)
{
	lmdb_end_read(session);
	lmdb_check(mdb_txn_renew(session->txn), "renew");
	session->reading = true;
}

static MDB_val lmdb_key(const char *key)
{
	return (MDB_val){ .mv_size = YCSB_KEY_BYTES, .mv_data = (void *)key };
}

static const void *lmdb_get(void *arg, const char *name, size_t *bytes)
{
	struct lmdb_session *session = arg;
	MDB_val key = lmdb_key(name), value;
	int err;

	lmdb_begin_read(session);
	err = mdb_get(session->txn, session->db->dbi, &key, &value);
	if (err == MDB_NOTFOUND)
		return NULL;
	lmdb_check(err, "get");
	*bytes = value.mv_size;
	return value.mv_data;
}

static void lmdb_put(void *arg, const char *name, const void *data, size_t bytes)
{
	struct lmdb_session *session = arg;
	MDB_val key = lmdb_key(name), value = { .mv_size = bytes, .mv_data = (void *)data };
	MDB_txn *txn;

	lmdb_end_read(session);
	lmdb_check(mdb_txn_begin(session->db->env, NULL, 0, &txn), "begin");
	lmdb_check(mdb_put(txn, session->db->dbi, &key, &value, 0), "put");
	lmdb_check(mdb_txn_commit(txn), "commit");
}

static void lmdb_scan(void *arg, const char *name, store_visit visit, void *visit_arg)
{
	struct lmdb_session *session = arg;
	MDB_val key = lmdb_key(name), value;
	MDB_cursor *cursor;
	int err;

	lmdb_begin_read(session);
	lmdb_check(mdb_cursor_open(session->txn, session->db->dbi, &cursor), "cursor");
	err = mdb_cursor_get(cursor, &key, &value, MDB_SET_RANGE);
	while (!err && visit(visit_arg, value.mv_data, value.mv_size))
		err = mdb_cursor_get(cursor, &key, &value, MDB_NEXT);
	if (err && err != MDB_NOTFOUND)
		lmdb_check(err, "scan");
	mdb_cursor_close(cursor);
}

static void lmdb_detach(void *arg)
{
	struct lmdb_session *session = arg;

	mdb_txn_abort(session->txn);
	free(session);
}

static void lmdb_close(void *arg)
{
	struct lmdb *db = arg;

	lmdb_check(mdb_env_sync(db->env, 1), "sync");
	mdb_env_close(db->env);
	free(db);
}

const struct store store_lmdb = {
	.open = lmdb_open,
	.attach = lmdb_attach,
	.get = lmdb_get,
	.put = lmdb_put,
	.scan = lmdb_scan,
	.detach = lmdb_detach,
	.close = lmdb_close,
};
