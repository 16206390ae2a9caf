// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* The command line of `hugemap bench ycsb`. */
#include "ycsb_state.h"

#include <string.h>

#define BUFFER_MIN (1 * MB)
#define BUFFER_MAX (64 * MB)

const char *const ycsb_mode_names[MODES] = {
	[MODE_PLAIN] = "plain",	    [MODE_STOCK] = "plain-128", [MODE_RANDOM] = "random",
	[MODE_STEERED] = "steered", [MODE_PREAD] = "pread",
};

const char *const ycsb_store_names[YCSB_STORES] = { "lmdb", "rocksdb" };
const char *const ycsb_workload_names[YCSB_CHECK] = { "load", "a", "b", "c", "d", "e", "f" };

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

const struct cli_option ycsb_options[] = {
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

static void ycsb_set(struct ycsb *ycsb, int key, const char *text)
{
	const struct cli_command *command = ycsb->place.command;

	switch (key) {
	case KEY_DIR:
		ycsb->place.dir = text;
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
		ycsb->workloads |=
			program_choose(command, "workload", ycsb_workload_names, YCSB_CHECK, text);
		break;
	case KEY_STORE:
		ycsb->stores |=
			program_choose(command, "store", ycsb_store_names, YCSB_STORES, text);
		break;
	case KEY_MODE:
		ycsb->modes |= program_choose(command, "mode", ycsb_mode_names, MODES, text);
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
		ycsb->place.json = text;
		break;
	}
}

void ycsb_parse(struct ycsb *ycsb, int argc, char **argv)
{
	struct ycsb_job *job = &ycsb->job;
	struct cli_parser parser;
	int key;

	cli_parse(&parser, ycsb->place.command, argc, argv);
	while ((key = cli_next(&parser)) >= 0)
		ycsb_set(ycsb, key, optarg);
	if (optind < argc)
		cli_usage(ycsb->place.command, "'%s' is not expected here", argv[optind]);
	job->records = job->records / job->threads * job->threads;
	if (!job->operations)
		job->operations = job->records;
	if (!ycsb->workloads)
		ycsb->workloads = ~0u;
	if (!ycsb->stores)
		ycsb->stores = ~0u;
	if (ycsb->modes == 1u << MODE_PREAD && !(ycsb->stores & 1u << YCSB_ROCKSDB))
		cli_usage(ycsb->place.command, "lmdb cannot read by pread");
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
