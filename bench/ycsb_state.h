/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The parts of `hugemap bench ycsb`: ycsb_options.c reads the command line, ycsb_run.c runs a
 * workload once, ycsb_row.c makes the rows of a table from several runs, and ycsb.c prepares and
 * ends the benchmark.
 */
#ifndef BENCH_YCSB_STATE_H
#define BENCH_YCSB_STATE_H

#include <string.h>
#include <jansson.h>

#include "bench.h"
#include "cli.h"
#include "limit.h"
#include "program.h"
#include "ycsb_job.h"

/* How a store is read. */
enum mode {
	MODE_PLAIN,
	MODE_STOCK,
	MODE_RANDOM,
	MODE_STEERED,
	MODE_PREAD,
	MODES,
};

extern const char *const ycsb_mode_names[MODES];
extern const char *const ycsb_store_names[YCSB_STORES];
extern const char *const ycsb_workload_names[YCSB_CHECK];

/**
 * struct ycsb - the settings, and the state of the whole benchmark
 * @place: see struct program_place
 * @job: the settings that all runs have in common
 * @workloads: bit for each of ycsb_workload_names[]; likewise @stores and @modes
 * @program: hugemap-ycsb
 * @store_bytes: size of each loaded store
 */
struct ycsb {
	struct program_place place;
	struct ycsb_job job;
	uint64_t pool;
	unsigned int workloads, stores, modes, runs;
	char program[PATH_MAX];
	uint64_t store_bytes[YCSB_STORES];
};

/* ycsb_options.c */
extern const struct cli_option ycsb_options[];
void ycsb_parse(struct ycsb *ycsb, int argc, char **argv);

/* ycsb_run.c */

/* Load a store, and check its records. Returns false after an error, which is recorded. */
bool ycsb_make_master(struct ycsb *ycsb, unsigned int store);
/* Is the store read into the page cache before the clock starts? */
bool ycsb_is_warm(const struct ycsb *ycsb, unsigned int workload, unsigned int store);
/*
 * Run a workload once. Returns the JSON of the run; NULL after an error, which is recorded.
 */
json_t *ycsb_run_once(struct ycsb *ycsb, enum mode mode, unsigned int workload, unsigned int store,
		      unsigned int turn);

/* ycsb_row.c: run a workload in all modes in turns, and print and record the rows */
void ycsb_workload(struct ycsb *ycsb, unsigned int workload, unsigned int store);

#endif /* BENCH_YCSB_STATE_H */
