// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * hugemap bench ycsb: the workloads of YCSB on key-value stores. Each run is a process of the
 * program hugemap-ycsb (bench/ycsb/), in a memory group, on a fresh copy of a loaded store.
 */
#include "ycsb.h"
#include "bench.h"
#include "guard.h"
#include "limit.h"
#include "run.h"
#include "undo.h"
#include "ycsb_job.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <jansson.h>

#define FORMAT 1
#define BUFFER_MIN (1 * MB)
#define BUFFER_MAX (64 * MB)
/* A run hung if it takes so much longer than its time: the sync is slow on some disks. */
#define HANG_SECONDS 600

enum mode {
	MODE_PLAIN,
	MODE_STOCK,
	MODE_RANDOM,
	MODE_STEERED,
	MODE_PREAD,
	MODES,
};

static const char *const mode_names[MODES] = {
	[MODE_PLAIN] = "plain",	    [MODE_STOCK] = "plain-128", [MODE_RANDOM] = "random",
	[MODE_STEERED] = "steered", [MODE_PREAD] = "pread",
};

static const char *const store_names[YCSB_STORES] = { "lmdb", "rocksdb" };
static const char *const workload_names[YCSB_CHECK] = { "load", "a", "b", "c", "d", "e", "f" };

enum {
	KEY_DIR = 1,
	KEY_RECORDS,
	KEY_OPERATIONS,
	KEY_VALUE,
	KEY_POOL,
	KEY_WORKLOAD,
	KEY_STORE,
	KEY_MODE,
	KEY_DISTRIBUTION,
	KEY_THREADS,
	KEY_RUNS,
	KEY_SECONDS,
	KEY_JSON,
};

static int ycsb_run(int argc, char **argv);

static const struct cli_option options[] = {
	{ "dir", "DIR", KEY_DIR, "where to make the stores (default: here)" },
	{ "records", "N", KEY_RECORDS, "records in a store (default: 500000)" },
	{ "operations", "N", KEY_OPERATIONS, "operations of a run (default: as many as records)" },
	{ "value", "SIZE", KEY_VALUE, "size of a value (default: 1000)" },
	{ "pool", "SIZE", KEY_POOL, "memory for cached data (default: a third of the data)" },
	{ "workload", "NAME", KEY_WORKLOAD, "only this one; may be given several times" },
	{ "store", "NAME", KEY_STORE, "only this one; may be given several times" },
	{ "mode", "NAME", KEY_MODE, "only this one; may be given several times" },
	{ "distribution", "zipfian|uniform", KEY_DISTRIBUTION, "of the keys (default: zipfian)" },
	{ "threads", "N", KEY_THREADS, "with N threads (default: 1)" },
	{ "runs", "N", KEY_RUNS, "turns (default: 3)" },
	{ "seconds", "SECONDS", KEY_SECONDS, "end a run after this time (default: 10)" },
	{ "json", "FILE", KEY_JSON, "write JSON; '-': to standard output, and nothing else" },
	{},
};

const struct cli_command ycsb_command = {
	.name = "bench ycsb",
	.synopsis = "[OPTION]...",
	.summary = "Run the workloads of YCSB on LMDB and RocksDB, with and without HugeMap.",
	.options = options,
	.notes =
		"Workloads: load a b c d e f\n"
		"Stores:    lmdb rocksdb\n"
		"Modes:     plain plain-128 random steered pread\n\n"
		"Exit status: 0 if all was measured and all answers were right, 1 if not, 2 if the\n"
		"command line is wrong, 130 if interrupted.\n",
	.page = "bench",
	.run = ycsb_run,
};

/**
 * struct ycsb - the settings, and the state of the whole benchmark
 * @job: the settings that all runs have in common
 * @workloads: bit for each of workload_names[]; likewise @stores and @modes
 * @result: see struct run
 * @top: the directory of all stores, removed at the end
 * @program: hugemap-ycsb
 * @store_bytes: size of each loaded store
 * @rows: as in the JSON
 * @errors: as in the JSON
 */
struct ycsb {
	const char *dir, *json;
	struct ycsb_job job;
	uint64_t pool;
	unsigned int workloads, stores, modes, runs;
	struct volume volume;
	struct limits *limits;
	struct result *result;
	char top[PATH_MAX - 64], program[PATH_MAX];
	uint64_t store_bytes[YCSB_STORES];
	time_t start;
	json_t *rows, *errors;
};

/* --- the command line --- */

static unsigned int ycsb_choose(const char *option, const char *const *names, unsigned int n,
				const char *name)
{
	unsigned int i;

	for (i = 0; i < n; i++)
		if (!strcmp(names[i], name))
			return 1u << i;
	cli_usage(&ycsb_command, "there is no %s '%s'", option, name);
}

static void ycsb_set(struct ycsb *ycsb, int key, const char *text)
{
	const struct cli_command *command = &ycsb_command;

	switch (key) {
	case KEY_DIR:
		ycsb->dir = text;
		break;
	case KEY_RECORDS:
		ycsb->job.records = cli_number(command, "--records", text, 1000, 1000000000);
		break;
	case KEY_OPERATIONS:
		ycsb->job.operations = cli_number(command, "--operations", text, 1000, 1000000000);
		break;
	case KEY_VALUE:
		ycsb->job.value = cli_size(command, "--value", text) / 8 * 8;
		if (ycsb->job.value < YCSB_VALUE_MIN || ycsb->job.value > YCSB_VALUE_MAX)
			cli_usage(command, "--value must be from %u to %u", YCSB_VALUE_MIN,
				  YCSB_VALUE_MAX);
		break;
	case KEY_POOL:
		ycsb->pool = cli_size(command, "--pool", text);
		if (ycsb->pool < POOL_MIN)
			cli_usage(command, "--pool must be 8M at least");
		break;
	case KEY_WORKLOAD:
		ycsb->workloads |= ycsb_choose("workload", workload_names, YCSB_CHECK, text);
		break;
	case KEY_STORE:
		ycsb->stores |= ycsb_choose("store", store_names, YCSB_STORES, text);
		break;
	case KEY_MODE:
		ycsb->modes |= ycsb_choose("mode", mode_names, MODES, text);
		break;
	case KEY_DISTRIBUTION:
		ycsb->job.uniform = !strcmp(text, "uniform");
		if (!ycsb->job.uniform && strcmp(text, "zipfian"))
			cli_usage(command, "--distribution must be zipfian or uniform, not '%s'",
				  text);
		break;
	case KEY_THREADS:
		ycsb->job.threads =
			(unsigned int)cli_number(command, "--threads", text, 1, MAX_THREADS);
		break;
	case KEY_RUNS:
		ycsb->runs = (unsigned int)cli_number(command, "--runs", text, 1, MAX_RUNS);
		break;
	case KEY_SECONDS:
		ycsb->job.milliseconds =
			(unsigned long long)(cli_seconds(command, "--seconds", text) * 1e3);
		break;
	case KEY_JSON:
		ycsb->json = text;
		break;
	}
}

static void ycsb_parse(struct ycsb *ycsb, int argc, char **argv)
{
	struct ycsb_job *job = &ycsb->job;
	struct cli_parser parser;
	int key;

	cli_parse(&parser, &ycsb_command, argc, argv);
	while ((key = cli_next(&parser)) >= 0)
		ycsb_set(ycsb, key, optarg);
	if (optind < argc)
		cli_usage(&ycsb_command, "'%s' is not expected here", argv[optind]);
	job->records = job->records / job->threads * job->threads;
	if (!job->operations)
		job->operations = job->records;
	if (!ycsb->workloads)
		ycsb->workloads = ~0u;
	if (!ycsb->stores)
		ycsb->stores = ~0u;
	if (ycsb->modes == 1u << MODE_PREAD && !(ycsb->stores & 1u << YCSB_ROCKSDB))
		cli_usage(&ycsb_command, "lmdb cannot read by pread");
	if (!ycsb->pool)
		ycsb->pool = job->records * (job->value + YCSB_KEY_BYTES) / 3;
	if (ycsb->pool < POOL_MIN)
		ycsb->pool = POOL_MIN;
	job->buffer = ycsb->pool / 16;
	if (job->buffer < BUFFER_MIN)
		job->buffer = BUFFER_MIN;
	if (job->buffer > BUFFER_MAX)
		job->buffer = BUFFER_MAX;
}

/* --- messages --- */

static bool ycsb_alone(const struct ycsb *ycsb)
{
	return ycsb->json && !strcmp(ycsb->json, "-");
}

static void ycsb_error(struct ycsb *ycsb, const char *workload, const char *store, const char *mode,
		       const char *what)
{
	if (bench_interrupted())
		return;
	json_array_append_new(ycsb->errors,
			      json_sprintf("%s, %s, %s: %s", workload, store, mode, what));
	cli_fail(&ycsb_command, "%s, %s, %s: %s", workload, store, mode, what);
}

/* --- the directories of stores --- */

static void ycsb_path(const struct ycsb *ycsb, const char *name, char path[PATH_MAX])
{
	snprintf(path, PATH_MAX, "%s/%s", ycsb->top, name);
}

/* Drop the files of a store from the page cache; returns their size. */
static uint64_t ycsb_evict(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	uint64_t bytes = 0;
	char name[2 * PATH_MAX];
	struct stat st;

	while (dir && (entry = readdir(dir))) {
		snprintf(name, sizeof(name), "%s/%s", path, entry->d_name);
		if (stat(name, &st) || !S_ISREG(st.st_mode) || !st.st_size)
			continue;
		bytes += (uint64_t)st.st_blocks * 512;
		files_evict(name, (uint64_t)st.st_size);
	}
	if (dir)
		closedir(dir);
	return bytes;
}

/*
 * Provide the store of a run in @path: the loaded one, a copy of it, or an empty directory. Returns
 * false if ycsb->result->error has the reason why not.
 */
static bool ycsb_provide(const struct ycsb *ycsb, unsigned int store, unsigned int workload,
			 char path[PATH_MAX])
{
	char master[PATH_MAX], *error = ycsb->result->error;
	char cp[] = "cp", recursive[] = "-r", reflink[] = "--reflink=auto";
	char *copy[6] = { cp, recursive, reflink, master, path, NULL };

	ycsb_path(ycsb, store_names[store], master);
	if (workload == YCSB_C) {
		snprintf(path, PATH_MAX, "%s", master);
		return true;
	}
	ycsb_path(ycsb, "work", path);
	tree_remove(path);
	if (workload != YCSB_LOAD)
		return !spawn_wait(copy, error, sizeof(ycsb->result->error));
	if (!mkdir(path, 0700))
		return true;
	snprintf(error, sizeof(ycsb->result->error), "mkdir: %s", strerror(errno));
	return false;
}

/* --- a run --- */

/* A job on the store in a directory, by hugemap-ycsb. @out: where it writes its JSON */
struct ycsb_run {
	struct ycsb *ycsb;
	const char *dir;
	struct ycsb_job job;
	enum mode mode;
	int out;
};

static void ycsb_exec(struct run *run)
{
	const struct ycsb_run *mine = run->private;
	char hugemap[] = "/proc/self/exe", name[] = "run", end[] = "--", job[YCSB_JOB_TEXT];
	char *args[] = { hugemap, name, end, mine->ycsb->program, (char *)mine->dir, job, NULL };
	char **argv = mine->mode == MODE_STEERED ? args : args + 3;

	ycsb_job_print(&mine->job, job);
	dup2(mine->out, STDOUT_FILENO);
	run->result->ok = true;
	execv(argv[0], argv);
	die(run, "%s: %s", argv[0], strerror(errno));
}

/* Returns the JSON of the run. NULL: ycsb->result->error has the reason. @limit: 0 = none */
static json_t *ycsb_carry_out(struct ycsb_run *mine, uint64_t limit)
{
	struct ycsb *ycsb = mine->ycsb;
	struct run run = {
		.child = ycsb_exec,
		.private = mine,
		.limit_bytes = limit,
		.read_ahead_kb = mine->mode == MODE_STOCK ? STOCK_READ_AHEAD_KB : 0,
		.timeout_s = HANG_SECONDS + (double)mine->job.milliseconds / 1e3 +
			     (double)mine->job.records / 1e3,
		.limits = ycsb->limits,
		.result = ycsb->result,
	};
	json_t *json = NULL;

	mine->job.pread = mine->mode == MODE_PREAD;
	mine->job.random = mine->mode == MODE_RANDOM;
	mine->out = memfd_create("hugemap-ycsb", MFD_CLOEXEC);
	snprintf(ycsb->result->error, sizeof(ycsb->result->error), "it has no result");
	if (mine->out >= 0 && run_carry_out(&run) && !lseek(mine->out, 0, SEEK_SET))
		json = json_loadfd(mine->out, 0, NULL);
	if (mine->out >= 0)
		close(mine->out);
	return json;
}

static double ycsb_number(const json_t *result, const char *key)
{
	return json_number_value(json_object_get(result, key));
}

static bool ycsb_equal(const json_t *a, const char *key, const json_t *b, const char *other)
{
	return json_equal(json_object_get(a, key), json_object_get(b, other));
}

/* Does the store hold exactly the records that the run has inserted? */
static bool ycsb_check_load(const struct ycsb_run *loader, const json_t *loaded)
{
	struct ycsb_run run = *loader;
	json_t *found;
	bool ok;

	run.job.workload = YCSB_CHECK;
	run.mode = MODE_PLAIN;
	found = ycsb_carry_out(&run, 0);
	ok = ycsb_equal(found, "ops", loaded, "ops") &&
	     ycsb_equal(found, "digest", loaded, "digest");
	json_decref(found);
	return ok;
}

static bool ycsb_make_master(struct ycsb *ycsb, unsigned int store)
{
	struct ycsb_run run = { .ycsb = ycsb, .job = ycsb->job };
	char path[PATH_MAX];
	json_t *loaded;
	bool ok;

	ycsb_path(ycsb, store_names[store], path);
	run.dir = path;
	run.job.store = store;
	run.job.workload = YCSB_LOAD;
	run.job.operations = run.job.records;
	run.job.milliseconds = 0;
	run.job.settle = true;
	cli_progress("loading %s", store_names[store]);
	loaded = mkdir(path, 0700) ? NULL : ycsb_carry_out(&run, 0);
	ok = loaded && ycsb_check_load(&run, loaded);
	if (!ok)
		ycsb_error(ycsb, "load", store_names[store], "without a limit",
			   loaded ? "the store has other records" : ycsb->result->error);
	json_decref(loaded);
	ycsb->store_bytes[store] = ycsb_evict(path);
	return ok;
}

/* --- rows --- */

struct ycsb_row {
	enum mode mode;
	json_t *runs;
	double ops_s[MAX_RUNS], value;
	unsigned int n;
	bool failed;
};

/* Is the store read into the page cache before the clock starts? */
static bool ycsb_is_warm(const struct ycsb *ycsb, unsigned int workload, unsigned int store)
{
	return workload != YCSB_LOAD && ycsb->store_bytes[store] <= ycsb->pool;
}

static void ycsb_do_run(struct ycsb *ycsb, struct ycsb_row *row, unsigned int workload,
			unsigned int store, unsigned int turn)
{
	const char *name = workload_names[workload], *why = NULL;
	struct ycsb_run run = { .ycsb = ycsb, .job = ycsb->job, .mode = row->mode };
	json_t *result = NULL;
	char path[PATH_MAX];

	cli_progress("%s, %s, turn %u of %u: %s", name, store_names[store], turn + 1, ycsb->runs,
		     mode_names[row->mode]);
	run.dir = path;
	run.job.store = store;
	run.job.workload = workload;
	run.job.seed = turn + 1;
	run.job.warm = ycsb_is_warm(ycsb, workload, store);
	if (workload == YCSB_LOAD)
		run.job.operations = run.job.records;
	if (ycsb_provide(ycsb, store, workload, path)) {
		ycsb_evict(path);
		result = ycsb_carry_out(&run, ycsb->pool + ALLOWANCE);
	}
	if (!result)
		why = ycsb->result->error;
	else if (!ycsb_equal(result, "digest", result, "expected"))
		why = "an answer was wrong";
	else if (workload == YCSB_LOAD && !ycsb_check_load(&run, result))
		why = "the store has other records than were inserted";
	if (why) {
		row->failed = true;
		ycsb_error(ycsb, name, store_names[store], mode_names[row->mode], why);
		json_decref(result);
		return;
	}
	row->ops_s[row->n++] = ycsb_number(result, "ops") / ycsb_number(result, "seconds");
	json_array_append_new(row->runs, result);
}

static double ycsb_ratio(const struct ycsb_row *row, const struct ycsb_row *other)
{
	unsigned int n = row->n < other->n ? row->n : other->n, i;
	double ratios[MAX_RUNS];

	for (i = 0; i < n; i++)
		ratios[i] = row->ops_s[i] / other->ops_s[i];
	return median(ratios, n);
}

static double ycsb_median(const struct ycsb_row *row, const char *object, const char *key)
{
	double values[MAX_RUNS];
	unsigned int i;

	for (i = 0; i < row->n; i++) {
		const json_t *run = json_array_get(row->runs, i);

		values[i] = ycsb_number(object ? json_object_get(run, object) : run, key);
	}
	return median(values, row->n);
}

static void ycsb_print_row(const struct ycsb_row *row, double of_plain, double of_random)
{
	const char *side = ycsb_median(row, "read_us", "p50") > 0 ? "read_us" : "write_us";
	double cpu = ycsb_median(row, NULL, "user_s") + ycsb_median(row, NULL, "sys_s");
	char p50[CLI_TEXT], p99[CLI_TEXT], plain[CLI_TEXT] = "-", random[CLI_TEXT] = "-";

	if (of_plain > 0)
		snprintf(plain, sizeof(plain), "%.2f", of_plain);
	if (of_random > 0)
		snprintf(random, sizeof(random), "%.2f", of_random);
	printf("  %-9s %8.0f %8s %8s %8s %8s %6.1f %8.0f %7.0f\n", mode_names[row->mode],
	       row->value, plain, random, cli_time(p50, 1e3 * ycsb_median(row, side, "p50")),
	       cli_time(p99, 1e3 * ycsb_median(row, side, "p99")),
	       1e6 * cpu / ycsb_median(row, NULL, "ops"), ycsb_median(row, NULL, "faults"),
	       ycsb_median(row, NULL, "read_bytes") / MB);
}

static void ycsb_finish_row(struct ycsb *ycsb, struct ycsb_row *row, const struct ycsb_row *rows,
			    unsigned int workload, unsigned int store)
{
	const struct ycsb_row *plain = &rows[MODE_PLAIN], *random = &rows[MODE_RANDOM];
	double of_plain = ycsb_ratio(row, plain), of_random = ycsb_ratio(row, random);

	json_array_append_new(ycsb->rows,
			      json_pack("{s:s, s:s, s:s, s:f, s:f, s:f, s:b, s:o}", "workload",
					workload_names[workload], "store", store_names[store],
					"mode", mode_names[row->mode], "ops_s", row->value,
					"ratio_plain", of_plain, "ratio_random", of_random, "warm",
					ycsb_is_warm(ycsb, workload, store), "runs", row->runs));
	if (!ycsb_alone(ycsb) && row->n)
		ycsb_print_row(row, of_plain, of_random);
}

static void ycsb_workload(struct ycsb *ycsb, unsigned int workload, unsigned int store)
{
	struct ycsb_row rows[MODES] = {}, *row;
	unsigned int turn, i;

	for (i = 0; i < MODES; i++)
		rows[i] = (struct ycsb_row){ .mode = i, .runs = json_array() };
	for (turn = 0; turn < ycsb->runs; turn++)
		for (i = 0; i < MODES && !bench_interrupted(); i++) {
			row = &rows[turns_order(turn, i, MODES)];
			if (ycsb->modes & 1u << row->mode && !row->failed &&
			    (row->mode != MODE_PREAD || store != YCSB_LMDB))
				ycsb_do_run(ycsb, row, workload, store, turn);
		}
	cli_progress_clear();
	if (!ycsb_alone(ycsb))
		printf("\n%s, %s%s\n  %-9s %8s %8s %8s %8s %8s %6s %8s %7s\n",
		       workload_names[workload], store_names[store],
		       ycsb_is_warm(ycsb, workload, store) ? ", in memory" : "", "", "ops/s",
		       "of plain", "of rand.", "p50", "p99", "CPU us", "faults", "MB read");
	for (i = 0; i < MODES; i++)
		rows[i].value = median(rows[i].ops_s, rows[i].n);
	for (i = 0; i < MODES; i++) {
		if (rows[i].n)
			ycsb_finish_row(ycsb, &rows[i], rows, workload, store);
		else
			json_decref(rows[i].runs);
	}
	fflush(stdout);
}

/* --- all of it --- */

static int ycsb_prepare(struct ycsb *ycsb)
{
	int err = volume_find(ycsb->dir, &ycsb->volume);

	if (err)
		cli_usage(&ycsb_command, "%s: %s", ycsb->dir, strerror(-err));
	if (!files_find_helper("bench/ycsb/hugemap-ycsb", ycsb->program))
		return cli_fail(&ycsb_command,
				"hugemap-ycsb is not there: it is built if LMDB and RocksDB are "
				"found (apt-get install liblmdb-dev librocksdb-dev, then build "
				"again)");
	/* The kernel engine ignores advice and read_ahead_kb. */
	if (!ycsb->modes)
		ycsb->modes = strcmp(ycsb->volume.type, "hugemap") ?
				      ~0u :
				      1u << MODE_PLAIN | 1u << MODE_PREAD;
	limits_lock(&ycsb->volume);
	limits_prepare();
	ycsb->result = mmap(NULL, sizeof(*ycsb->result), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (ycsb->result == MAP_FAILED || !guard_start())
		return cli_fail(&ycsb_command, "too little memory");
	bench_catch_signals();
	ycsb->limits = limits_create(&ycsb->volume);
	if (!ycsb->limits)
		return cli_fail(&ycsb_command, "too little memory");
	if (!limits_try_stock(ycsb->limits))
		ycsb->modes &= ~(1u << MODE_STOCK);
	if (!ycsb->modes)
		cli_usage(&ycsb_command,
			  "read_ahead_kb is %u, or cannot be changed: leave "
			  "plain-128 out",
			  limits_read_ahead(ycsb->limits));
	if (!limits_work(ycsb->limits))
		cli_fail(&ycsb_command, "%s", limits_why(ycsb->limits));
	if (snprintf(ycsb->top, sizeof(ycsb->top), "%s/hugemap-ycsb.%d", ycsb->volume.dir,
		     getpid()) >= (int)sizeof(ycsb->top))
		return cli_fail(&ycsb_command, "%s: the name is too long", ycsb->dir);
	guard_tree(ycsb->top);
	if (mkdir(ycsb->top, 0700))
		return cli_fail(&ycsb_command, "%s: %s", ycsb->top, strerror(errno));
	return CLI_OK;
}

static int ycsb_write_json(struct ycsb *ycsb)
{
	const struct ycsb_job *job = &ycsb->job;
	json_t *json =
		json_head("hugemap bench ycsb", FORMAT, ycsb->start, &ycsb->volume, ycsb->limits);
	int err;

	json_object_set_new(json, "settings",
			    json_pack("{s:I, s:I, s:I, s:I, s:i, s:s, s:f}", "records",
				      (json_int_t)job->records, "operations",
				      (json_int_t)job->operations, "value_bytes",
				      (json_int_t)job->value, "pool_bytes", (json_int_t)ycsb->pool,
				      "threads", job->threads, "distribution",
				      job->uniform ? "uniform" : "zipfian", "seconds",
				      (double)job->milliseconds / 1e3));
	json_object_set(json, "rows", ycsb->rows);
	json_object_set(json, "errors", ycsb->errors);
	err = json_save(json, ycsb->json);
	return err ? cli_fail(&ycsb_command, "--json %s: %s", ycsb->json, strerror(-err)) : CLI_OK;
}

static int ycsb_measure(struct ycsb *ycsb)
{
	const struct ycsb_job *job = &ycsb->job;
	char pool[CLI_TEXT];
	unsigned int store, workload;

	if (!ycsb_alone(ycsb))
		printf("hugemap bench ycsb: %llu records of %llu bytes, %s keys, %u thread%s\n"
		       "in %s (%s)\n"
		       "Memory: %s of cache and %llu MB beside it for every run.\n"
		       "Medians of %u turn%s. A run ends after all operations, or after %.1f s.\n",
		       job->records, job->value, job->uniform ? "uniform" : "zipfian", job->threads,
		       job->threads == 1 ? "" : "s", ycsb->volume.dir, ycsb->volume.type,
		       cli_bytes(pool, (double)ycsb->pool), ALLOWANCE / MB, ycsb->runs,
		       ycsb->runs == 1 ? "" : "s", (double)job->milliseconds / 1e3);
	for (store = 0; store < YCSB_STORES; store++) {
		if (!(ycsb->stores & 1u << store) || !ycsb_make_master(ycsb, store))
			continue;
		for (workload = 0; workload < YCSB_CHECK && !bench_interrupted(); workload++)
			if (ycsb->workloads & 1u << workload)
				ycsb_workload(ycsb, workload, store);
	}
	cli_progress_clear();
	if (bench_interrupted()) {
		cli_fail(&ycsb_command, "interrupted; files are removed");
		return EXIT_INTERRUPTED;
	}
	if (ycsb->json && ycsb_write_json(ycsb))
		return CLI_FAILED;
	return json_array_size(ycsb->errors) ? CLI_FAILED : CLI_OK;
}

static int ycsb_run(int argc, char **argv)
{
	struct ycsb ycsb = {
		.dir = ".",
		.job = { .records = 500000, .value = 1000, .threads = 1, .milliseconds = 10000 },
		.runs = 3,
		.start = time(NULL),
		.rows = json_array(),
		.errors = json_array(),
	};
	int status;

	ycsb_parse(&ycsb, argc, argv);
	status = ycsb_prepare(&ycsb);
	if (status == CLI_OK)
		status = ycsb_measure(&ycsb);
	if (ycsb.top[0])
		tree_remove(ycsb.top);
	limits_destroy(ycsb.limits);
	json_decref(ycsb.rows);
	json_decref(ycsb.errors);
	return status;
}
