/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * hugemap bench: HugeMap, Linux mmap, buffered I/O and the device's limit, side
 * by side.
 *
 * A *scenario* is a sequence of operations on the file. A *config* is a way to carry it
 * out: an engine with its page size, advice and so on. A *run* is one config of one
 * scenario, in a process of its own. Runs go in *turns*: in each turn every config runs
 * once, so that a ratio compares two runs of the same minute. Results are medians over the
 * turns. A *row* is the result of one config.
 *
 *	main.c      options, and the order of work; notes.c: notes and errors for the end
 *	plan.c      the configs of a scenario
 *	workload.h  what an operation and a scenario are
 *	scenario.c  the scenarios, and the sums that readers must get; scenario_*.c: the
 *	            order of operations; random.c: random numbers
 *	engine.h    what an engine and a run are
 *	turns.c     the turns; calibration of the device's depth
 *	run.c       the parent's side of a run; child.c: the child's side
 *	engine_*.c  the engines; kernel_mount.c: a mount of the kernel engine
 *	files.c     the files; content.c: their content
 *	fast.c      a device as fast as memory
 *	limit.c     memory groups, read_ahead_kb; guard.c: restores everything, with undo.c
 *	program.c   runs of other programs; ycsb*.c: hugemap bench ycsb; graph.c,
 *	            direct.c, cached.c: hugemap bench graph, direct and cached
 *	cost.c      the cost for a program that gains nothing; count.c: counts instructions
 *	verdict.c   comparison with the best advice
 *	row.c       medians and paired ratios; table.c, demo.c, json.c: output
 */
#ifndef BENCH_H
#define BENCH_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "cli.h"
#include "content.h"
#include "engine.h"
#include "scenario.h"
#include "system.h"

#define EXIT_INTERRUPTED 130
#define POOL_MIN (8 * MB)
#define MAX_RUNS 100u
#define MAX_CONFIGS 24u
#define MAX_THREAD_COUNTS 8u

/**
 * struct settings - the options, with defaults filled in
 */
struct settings {
	bool quick, demo, keep, fast;
	bool size_given;
	const char *json, *report;
	const char *file; /* a file of the user's, which is never written to */
	uint64_t size, pool;
	unsigned int runs;
	unsigned int threads[MAX_THREAD_COUNTS], nthreads;
	uint32_t scenarios; /* bit for each of scenarios[] */
	uint32_t engines; /* bit for each of engine_list[] */
	uint32_t pages; /* bit for each of enum hugemap_page */
};

/**
 * struct row - the result of one config
 * @config: a copy, with the depth that was used
 * @scenario: see struct scenario
 * @threads: number of workers, which are threads or processes
 * @pool_bytes: the pool of the kernel engine; the memory limit of the others follows from it
 * @limited: the runs had a memory limit
 * @read_ahead_kb: of the device, during the runs
 * @results: the result of each turn
 * @nresults: number of @results
 * @failed: the error of the run after which no more runs were made; "" = no run failed
 * @value: the median, in MB/s or in ns per operation
 * @low: the smallest value
 * @high: the largest value
 * @ratio_device: performance relative to the device row; 0 in rows that are not HugeMap's
 * @ratio_best_linux: ... to the best Linux mmap row, with read_ahead_kb as found
 * @ratio_default_linux: ... to Linux mmap without advice, with read_ahead_kb as found
 * @ratio_read_ahead: the same to Linux mmap without advice, with read_ahead_kb at 128 for both
 * @best_linux: this is the best Linux mmap row
 */
struct row {
	struct config config;
	const struct scenario *scenario;
	unsigned int threads;
	uint64_t pool_bytes;
	bool limited;
	unsigned int read_ahead_kb;
	struct result results[MAX_RUNS];
	unsigned int nresults;
	char failed[256];
	double value, low, high;
	double ratio_device;
	double ratio_best_linux;
	double ratio_default_linux;
	double ratio_read_ahead;
	bool best_linux;
};

/* The rows of one scenario with one number of threads: a table. */
struct group {
	const struct scenario *scenario;
	unsigned int threads;
	struct row *rows;
	unsigned int nrows;
	struct group *next;
};

struct bench {
	struct settings settings;
	struct volume volume;
	struct limits *limits;
	struct result *shared; /* shared memory, in which children store their result */
	struct content *read_content; /* content of the file that runs only read */
	struct content *write_content;
	uint64_t file_size; /* of the user's own file */
	char read_path[4200];
	char write_path[4200];
	char own_dir[4200]; /* of the files that processes have of their own */
	double device_mb_s; /* a first estimate of the device's speed */
	time_t date; /* of the start */
	double started, deadline;
	unsigned int runs_done, runs_planned;
	uint32_t generation;
	struct group *groups;
	char notes[24][256];
	unsigned int nnotes;
	char errors[24][256];
	unsigned int nerrors;
	const char *kernel_reason; /* why the kernel engine cannot work here; NULL = it can */
};

/* --- plan.c --- */
extern const struct engine *const engine_list[];
extern const unsigned int nengines;
unsigned int plan_configs(const struct bench *bench, const struct scenario *scenario,
			  struct config configs[MAX_CONFIGS]);
bool config_is_hugemap(const struct config *config);
/* Seconds after which a run of single operations ends. */
double bench_run_seconds(const struct bench *bench);
/* "Linux mmap, MADV_HUGEPAGE" */
const char *config_title(const struct config *config, const struct scenario *scenario, char *text,
			 size_t size);

/* --- turns.c --- */
void turns_run(struct bench *bench, const struct scenario *scenario, unsigned int threads);
/* The @i-th of @n in a turn. Each turn starts with another one; every second goes backwards. */
unsigned int turns_order(unsigned int turn, unsigned int i, unsigned int n);

/* --- files.c --- */
int files_prepare(struct bench *bench);
void files_measure(struct bench *bench);
bool files_create_read(struct bench *bench);
bool files_create_write(struct bench *bench, uint64_t bytes, bool fresh);
bool files_cut_tail(struct bench *bench, uint64_t bytes);
double files_evict(const char *path, uint64_t bytes);
bool files_create_own(struct bench *bench, const struct run *run);
double files_evict_run(const struct run *run);
bool files_verify(struct bench *bench, const struct run *run, char *what, size_t size);
/*
 * Find a program or script of the benchmark, "bench/report.py": beside the command in the build
 * directory, or where it is installed.
 */
bool files_find_helper(const char *built, char path[PATH_MAX]);

/* --- row.c --- */
double result_value(const struct scenario *scenario, const struct result *result);
double median(const double *values, unsigned int n);
void rows_sum_up(struct row *rows, unsigned int n);
/* The median of a field of the results over all turns. */
#define ROW_MEDIAN(row, field)                                          \
	({                                                              \
		double values_[MAX_RUNS];                               \
		unsigned int i_;                                        \
                                                                        \
		for (i_ = 0; i_ < (row)->nresults; i_++)                \
			values_[i_] = (double)(row)->results[i_].field; \
		median(values_, (row)->nresults);                       \
	})
double row_peak_mb(const struct row *row);
/* The number of operations of all workers in a run: the median over the turns. */
double row_ops(const struct row *row);
const struct row *group_default_linux(const struct group *group);
const struct row *group_best_linux(const struct group *group);
const struct row *group_of_engine(const struct group *group, const char *name);
/* HugeMap's row: steering, or the kernel engine if steering was not measured. */
const struct row *group_hugemap(const struct group *group);

/* --- table.c, demo.c, json.c, report.c --- */
void table_intro(const struct bench *bench);
void table_print(const struct bench *bench, const struct group *group);
void table_notes(const struct bench *bench);
void demo_print(const struct bench *bench);
/* The part of the JSON that all benchmarks have. */
struct json_t *json_head(const char *program, int format, time_t start, const struct volume *volume,
			 const struct limits *limits);
/* Write JSON to a file, or to standard output ("-"), and drop it; returns 0 or -errno. */
int json_save(struct json_t *json, const char *path);
int json_write(const struct bench *bench, const char *path);
/* Returns 0, or -1 after an error message of @command. *@charts: matplotlib could draw charts. */
int report_write(const struct cli_command *command, struct bench *bench, const char *path,
		 bool *charts);

/* --- notes.c --- */
void bench_note(struct bench *bench, const char *format, ...) __attribute__((format(printf, 2, 3)));
void bench_error(struct bench *bench, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
bool bench_interrupted(void);
/* Make SIGINT, SIGTERM and SIGHUP interrupt the benchmark. */
void bench_catch_signals(void);
/* Show the progress of a long operation; false: it has to stop. */
bool bench_progress(struct bench *bench, const char *what, double share);

#endif /* BENCH_H */
