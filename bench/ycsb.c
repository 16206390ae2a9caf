// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* hugemap bench ycsb: the workloads of YCSB on key-value stores. */
#include "ycsb.h"
#include "ycsb_state.h"

#include <string.h>

static int ycsb_main(int argc, char **argv);

const struct cli_command ycsb_command = {
	.name = "bench ycsb",
	.synopsis = "[OPTION]...",
	.summary = "Run the workloads of YCSB on LMDB and RocksDB, with and without HugeMap.",
	.options = ycsb_options,
	.notes = "Workloads: load a b c d e f\n"
		 "Stores:    lmdb rocksdb\n"
		 "Modes:     plain plain-128 random steered pread\n\n"
		 "Exit status: 0 if all was measured and all answers were right, 1 if not, 2 if\n"
		 "the command line is wrong, 130 if interrupted.\n",
	.page = "bench",
	.run = ycsb_main,
};

static int ycsb_prepare(struct ycsb *ycsb)
{
	int status;

	if (!files_find_helper("bench/ycsb/hugemap-ycsb", ycsb->program))
		return cli_fail(&ycsb_command,
				"hugemap-ycsb is not there: it is built if LMDB and RocksDB are "
				"found (apt-get install liblmdb-dev librocksdb-dev, then build "
				"again)");
	status = program_begin(&ycsb->place);
	if (status != CLI_OK)
		return status;
	ycsb->modes = program_modes(&ycsb->place, ycsb->modes, 1u << MODE_PLAIN | 1u << MODE_PREAD,
				    1u << MODE_STOCK);
	if (!ycsb->modes)
		cli_usage(&ycsb_command,
			  "read_ahead_kb is %u, or cannot be changed: leave "
			  "plain-128 out",
			  limits_read_ahead(ycsb->place.limits));
	return CLI_OK;
}

static json_t *ycsb_settings(const struct ycsb *ycsb)
{
	const struct ycsb_job *job = &ycsb->job;

	return json_pack("{s:I, s:I, s:I, s:I, s:i, s:s, s:f}", "records", (json_int_t)job->records,
			 "operations", (json_int_t)job->operations, "value_bytes",
			 (json_int_t)job->value, "pool_bytes", (json_int_t)ycsb->pool, "threads",
			 job->threads, "distribution", job->uniform ? "uniform" : "zipfian",
			 "seconds", (double)job->milliseconds / 1e3);
}

static int ycsb_measure(struct ycsb *ycsb)
{
	const struct ycsb_job *job = &ycsb->job;
	char pool[CLI_TEXT];
	unsigned int store, workload;

	if (!program_is_alone(&ycsb->place))
		printf("hugemap bench ycsb: %llu records of %llu bytes, %s keys, %u thread%s\n"
		       "in %s (%s)\n"
		       "Memory: %s of cache and %llu MB beside it for every run.\n"
		       "Medians of %u turn%s. A run ends after all operations, or after %.1f s.\n",
		       job->records, job->value, job->uniform ? "uniform" : "zipfian", job->threads,
		       job->threads == 1 ? "" : "s", ycsb->place.volume.dir,
		       ycsb->place.volume.type, cli_bytes(pool, (double)ycsb->pool), ALLOWANCE / MB,
		       ycsb->runs, ycsb->runs == 1 ? "" : "s", (double)job->milliseconds / 1e3);
	for (store = 0; store < YCSB_STORES; store++) {
		if (!(ycsb->stores & 1u << store) || !ycsb_make_master(ycsb, store))
			continue;
		for (workload = 0; workload < YCSB_CHECK && !bench_interrupted(); workload++)
			if (ycsb->workloads & 1u << workload)
				ycsb_workload(ycsb, workload, store);
	}
	return program_finish(&ycsb->place, ycsb_settings(ycsb));
}

static int ycsb_main(int argc, char **argv)
{
	struct ycsb ycsb = {
		.place = { .command = &ycsb_command, .dir = "." },
		.job = { .records = 500000, .value = 1000, .threads = 1, .milliseconds = 10000 },
		.runs = 3,
	};
	int status;

	ycsb_parse(&ycsb, argc, argv);
	status = ycsb_prepare(&ycsb);
	if (status == CLI_OK)
		status = ycsb_measure(&ycsb);
	program_end(&ycsb.place);
	return status;
}
