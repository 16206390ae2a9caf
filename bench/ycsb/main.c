// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * hugemap-ycsb DIR JOB: one run of a workload of YCSB on the store in a directory. `hugemap bench
 * ycsb` starts it, in a memory group and if necessary by `hugemap run`, and reads its JSON. When
 * the clock has stopped, it computes the right answers without a store, for comparison.
 */
#include "client.h"
#include "store.h"
#include "usage.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define MAX_CLIENTS 64u
#define ADVISE_NS 200000000 /* files that appear during the run are advised this much later */

enum side {
	READS,
	WRITES,
	SIDES,
};

static const char *store_dir;
static struct ycsb_job job;
static const struct store *store;

static struct thread {
	struct client client;
	pthread_t id;
	void *db;
	uint64_t digest, expected;
	uint64_t *ns[SIDES]; /* latencies */
	uint64_t n[SIDES];
} threads[MAX_CLIENTS];

static pthread_barrier_t go;
static uint64_t deadline; /* 0 = none */

/* --- one client --- */

struct scan {
	uint64_t *digest;
	unsigned int left;
};

/* Records that other clients insert do not count: only some runs see them. */
static bool main_visit(void *arg, const void *value, size_t bytes)
{
	struct scan *scan = arg;

	if (bytes != job.value)
		store_die("a value has %zu bytes", bytes);
	if (record_index(value) >= job.records)
		return true;
	*scan->digest = digest_add(*scan->digest, record_hash(value, bytes));
	return --scan->left;
}

static void main_read(struct thread *thread, void *session, const struct op *op, const char *key)
{
	const void *value;
	size_t bytes;

	if (op->kind == OP_SCAN) {
		struct scan scan = { .digest = &thread->digest, .left = op->length };

		store->scan(session, key, main_visit, &scan);
		return;
	}
	value = store->get(session, key, &bytes);
	if (!value)
		store_die("record %llu is not there", (unsigned long long)op->index);
	thread->digest = digest_add(thread->digest, record_hash(value, bytes));
}

static void main_do_op(struct thread *thread, void *session, const struct op *op, uint64_t *value)
{
	char key[YCSB_KEY_BYTES + 1];

	record_key(op->index, key);
	if (op->kind != OP_UPDATE && op->kind != OP_INSERT)
		main_read(thread, session, op, key);
	if (op->kind == OP_READ || op->kind == OP_SCAN)
		return;
	record_fill(value, job.value, op->index, op->version);
	store->put(session, key, value, job.value);
}

static void *main_client(void *arg)
{
	struct thread *thread = arg;
	uint64_t *value = store_alloc(job.value), before, after;
	uint64_t ops = job.operations / job.threads;
	void *session = store->attach(thread->db);
	enum side side;
	struct op op;

	pthread_barrier_wait(&go);
	before = usage_now();
	while (thread->client.ops < ops && !(deadline && before >= deadline)) {
		client_next(&thread->client, &op);
		main_do_op(thread, session, &op, value);
		after = usage_now();
		side = op.kind == OP_READ || op.kind == OP_SCAN ? READS : WRITES;
		thread->ns[side][thread->n[side]++] = after - before;
		before = after;
	}
	store->detach(session);
	free(value);
	return NULL;
}

/* --- the files --- */

/* Give the advice MADV_RANDOM for all files of the store that are mapped now. */
static void main_advise(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned long long start, end;
	char line[4096];

	while (maps && fgets(line, sizeof(line), maps))
		if (strstr(line, store_dir) && sscanf(line, "%llx-%llx", &start, &end) == 2)
			madvise((void *)(uintptr_t)start, end - start, MADV_RANDOM);
	if (maps)
		fclose(maps);
}

/* Bring all files of the store into the page cache. */
static void main_warm(void)
{
	DIR *dir = opendir(store_dir);
	static char buffer[1 << 20];
	struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		int fd = openat(dirfd(dir), entry->d_name, O_RDONLY | O_CLOEXEC);

		while (fd >= 0 && read(fd, buffer, sizeof(buffer)) > 0)
			;
		if (fd >= 0)
			close(fd);
	}
	if (dir)
		closedir(dir);
}

/* --- results --- */

static int main_compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void main_print_latency(const char *name, enum side side)
{
	static const double shares[] = { 0.5, 0.95, 0.99, 0.999, 1 };
	static const char *const names[] = { "p50", "p95", "p99", "p999", "max" };
	uint64_t n = 0, at = 0, *all;
	unsigned int i;

	for (i = 0; i < job.threads; i++)
		n += threads[i].n[side];
	all = store_alloc((n + 1) * sizeof(*all));
	for (i = 0; i < job.threads; i++) {
		memcpy(all + at, threads[i].ns[side], threads[i].n[side] * sizeof(*all));
		at += threads[i].n[side];
	}
	qsort(all, n, sizeof(*all), main_compare);
	printf(", \"%s\": ", name);
	for (i = 0; n && i < sizeof(shares) / sizeof(shares[0]); i++)
		printf("%s\"%s\": %.3f", i ? ", " : "{", names[i],
		       (double)all[(uint64_t)(shares[i] * (double)(n - 1))] / 1e3);
	printf(n ? "}" : "null");
	free(all);
}

/* The right digest of each client, by a second pass over its operations without the store. */
static void main_replay(void)
{
	uint64_t *orders = NULL, i;

	if (job.workload == YCSB_E) {
		orders = store_alloc(job.records * sizeof(*orders));
		for (i = 0; i < job.records; i++)
			orders[i] = record_order(i);
		qsort(orders, job.records, sizeof(*orders), main_compare);
	}
	for (i = 0; i < job.threads; i++)
		threads[i].expected =
			client_replay(&job, (unsigned int)i, threads[i].client.ops, orders);
	free(orders);
}

/*
 * The sum over all records that YCSB_LOAD has inserted, as YCSB_CHECK computes it from the store.
 */
static uint64_t main_loaded_sum(void)
{
	uint64_t *value = store_alloc(job.value), sum = 0, i;
	unsigned int number;

	for (number = 0; number < job.threads; number++)
		for (i = 0; i < threads[number].client.own; i++) {
			record_fill(value, job.value, i * job.threads + number, 0);
			sum += record_hash(value, job.value);
		}
	free(value);
	return sum;
}

static void main_print(double seconds, const struct usage_counts *before,
		       const struct usage_counts *after)
{
	uint64_t ops = 0, digest = 0, expected = 0;
	unsigned int i;

	for (i = 0; i < job.threads; i++) {
		ops += threads[i].client.ops;
		digest += threads[i].digest;
		expected += threads[i].expected;
	}
	if (job.workload == YCSB_LOAD)
		digest = expected = main_loaded_sum();
	printf("{\"ops\": %llu, \"seconds\": %.6f, \"digest\": \"%016llx\", "
	       "\"expected\": \"%016llx\", ",
	       (unsigned long long)ops, seconds, (unsigned long long)digest,
	       (unsigned long long)expected);
	usage_print(before, after);
	main_print_latency("read_us", READS);
	main_print_latency("write_us", WRITES);
	printf("}\n");
}

/* --- the run --- */

static void main_join(struct thread *thread)
{
	struct timespec end;

	for (;;) {
		if (job.random)
			main_advise();
		clock_gettime(CLOCK_REALTIME, &end);
		end.tv_sec += (end.tv_nsec + ADVISE_NS) / 1000000000;
		end.tv_nsec = (end.tv_nsec + ADVISE_NS) % 1000000000;
		if (!pthread_timedjoin_np(thread->id, NULL, &end))
			return;
	}
}

static void main_run(void)
{
	struct usage_counts before, after;
	uint64_t start;
	unsigned int i;
	double seconds;
	void *db;

	if (job.warm)
		main_warm();
	db = store->open(store_dir, &job);
	pthread_barrier_init(&go, NULL, job.threads + 1);
	for (i = 0; i < job.threads; i++) {
		uint64_t bytes = job.operations / job.threads * sizeof(uint64_t);

		client_init(&threads[i].client, &job, i);
		threads[i].db = db;
		threads[i].ns[READS] = store_alloc(bytes);
		threads[i].ns[WRITES] = store_alloc(bytes);
		if (pthread_create(&threads[i].id, NULL, main_client, &threads[i]))
			store_die("a thread could not be started");
	}
	if (job.random)
		main_advise();
	usage_read(&before);
	start = usage_now();
	if (job.milliseconds)
		deadline = start + job.milliseconds * 1000000;
	pthread_barrier_wait(&go);
	for (i = 0; i < job.threads; i++)
		main_join(&threads[i]);
	if (job.settle && store->settle)
		store->settle(db);
	store->close(db);
	seconds = (double)(usage_now() - start) / 1e9;
	usage_read(&after);
	if (job.workload != YCSB_LOAD)
		main_replay();
	main_print(seconds, &before, &after);
}

struct totals {
	uint64_t records, sum;
};

static bool main_add_up(void *arg, const void *value, size_t bytes)
{
	struct totals *totals = arg;

	totals->records++;
	totals->sum += record_hash(value, bytes);
	return true;
}

static void main_check(void)
{
	void *db = store->open(store_dir, &job);
	void *session = store->attach(db);
	struct totals totals = {};

	store->scan(session, "user0000000000000000", main_add_up, &totals);
	store->detach(session);
	store->close(db);
	printf("{\"ops\": %llu, \"digest\": \"%016llx\"}\n", (unsigned long long)totals.records,
	       (unsigned long long)totals.sum);
}

int main(int argc, char **argv)
{
	static const struct store *const stores[YCSB_STORES] = { &store_lmdb, &store_rocksdb };

	if (argc != 3 || !ycsb_job_parse(argv[2], &job) || job.threads > MAX_CLIENTS) {
		fputs("hugemap-ycsb is started by `hugemap bench ycsb`\n", stderr);
		return 2;
	}
	store_dir = argv[1];
	store = stores[job.store];
	if (job.workload == YCSB_CHECK)
		main_check();
	else
		main_run();
	return fflush(stdout) ? 1 : 0;
}
