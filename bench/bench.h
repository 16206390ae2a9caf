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
 *	scenario.c  the scenarios, and the sums that readers must get; scenario_*.c: the
 *	            order of operations
 *	turns.c     the turns; calibration of the device's depth
 *	run.c       the parent's side of a run; child.c: the child's side
 *	engine_*.c  the engines; mount.c: a mount of the kernel engine
 *	files.c     the files; content.c: their content
 *	fast.c      a device as fast as memory; module.c: modprobe
 *	limit.c     memory groups, read_ahead_kb; guard.c: restores everything, with undo.c
 *	cost.c      the cost for a program that gains nothing; count.c: counts instructions
 *	verdict.c   comparison with the best advice
 *	row.c       medians and paired ratios; table.c, demo.c, json.c: output
 */
#ifndef BENCH_H
#define BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "cli.h"
#include "content.h"
#include "page.h" /* of steer/ */
#include "scenario.h"
#include "system.h"

#define KB 1024ull
#define MB (1024ull * KB)
#define GB (1024ull * MB)

#define LEAST_POOL (8 * MB)
#define MAX_THREADS 64u
#define MAX_RUNS 100u
#define MAX_CONFIGS 24u
#define MAX_THREAD_COUNTS 8u

/* A chase: the next address is in the top of x, x = x * this + what was loaded. */
#define CHASE_FACTOR 0xd1342543de82ef95ull

/* Memory that a process may use beside its cache; the same for all engines. */
#define ALLOWANCE (64 * MB)

/* The page size of a mount of the kernel engine. */
enum hugemap_page {
	HUGEMAP_PAGE_2M,
	HUGEMAP_PAGE_4K,
};

struct limits;
struct run;
struct worker;

/* --- engines ---------------------------------------------------------------- */

enum advice {
	ADVICE_DEFAULT,
	ADVICE_SEQUENTIAL,
	ADVICE_RANDOM,
	ADVICE_HUGEPAGE,
	ADVICE_HUGEPAGE_RANDOM, /* both */
	ADVICE_POPULATE, /* in windows, just ahead */
	ADVICES,
};

extern const char *const advice_names[ADVICES];

/**
 * struct engine - a way to get at the data of a file
 * @name: as in the JSON
 * @apart: child processes do not inherit what the engine does for a mapping: where workers
 *	are processes, each of them opens the file itself
 * @open: before the clock starts; opens run->path
 * @attach: once in each worker, before the clock starts; may be NULL
 * @load: where the data of a range can be read
 * @store: where the data of a range can be written; @whole: all of it will be
 * @stored: it has been written; may be NULL
 * @pump: does the operations of a worker instead of @load and @store, without
 *	looking at the data: the limit of the device; may be NULL
 * @sync: make a range durable; may be NULL
 * @count: its own numbers, into run->result; may be NULL
 * @close: after the clock has stopped
 *
 * A function that fails ends the process by die().
 */
struct engine {
	const char *name;
	bool apart;
	void (*open)(struct run *run);
	void (*attach)(struct worker *worker);
	const void *(*load)(struct worker *worker, uint64_t offset, size_t length);
	void *(*store)(struct worker *worker, uint64_t offset, size_t length, bool whole);
	void (*stored)(struct worker *worker, uint64_t offset, size_t length);
	void (*pump)(struct worker *worker);
	void (*sync)(struct run *run, uint64_t offset, uint64_t length);
	void (*count)(struct run *run);
	void (*close)(struct run *run);
};

extern const struct engine engine_steer;
extern const struct engine engine_kernel;
extern const struct engine engine_linux_mmap;
extern const struct engine engine_linux_rw;
extern const struct engine engine_device;
extern const struct engine engine_memory; /* the "device" of loads: anonymous THP memory */

/* --- runs ------------------------------------------------------------------- */

/**
 * struct config - a way to carry out a scenario
 * @engine: see struct engine
 * @page: of the kernel engine
 * @advice: of Linux mmap
 * @read_ahead_kb: setting of the device; 0 = as found
 * @depth: operations of a worker at the device at a time
 */
struct config {
	const struct engine *engine;
	enum hugemap_page page;
	enum advice advice;
	unsigned int read_ahead_kb;
	unsigned int depth;
};

/**
 * struct steered - what steering did in a run
 * @looks: scans of the page tables
 * @look_ns: processor time of the scans
 * @act_ns: time in the system calls that gave advice
 * @count: calls of each kind, for all mappings
 * @bytes: bytes that these calls covered
 * @pattern: the access pattern that was detected last
 * @why: the last decision, in words
 */
struct steered {
	uint64_t looks, look_ns, act_ns;
	uint64_t count[STEER_ACTS], bytes[STEER_ACTS];
	unsigned int pattern;
	char why[120];
};

/**
 * struct result - the result of a run, in memory shared with the child
 * @ok: the run got to its end
 * @error: why not
 * @seconds: wall clock, sync included
 * @user_s: CPU, of all threads
 * @sys_s: CPU, of all threads
 * @pool_s: time to make the pool of the kernel engine, before the clock started
 * @ops: operations done by each worker
 * @bytes: of these
 * @sum: of the data that all workers have read
 * @faults: page faults, minor and major, as the kernel counts them
 * @hits: faults that the kernel engine served without I/O
 * @ahead: units that the kernel engine read ahead
 * @ahead_used: units of @ahead that were used
 * @instructions: of all threads, in user space and in the kernel; 0 = unknown
 * @peak_bytes: largest resident set of the process
 * @group_peak_bytes: most memory of its group, page cache included; 0 = unknown
 * @huge_bytes: data mapped by 2 MB pages (in_memory)
 * @left_s: time that the operations which the clock cut off would have taken
 * @left_bytes: bytes of these operations
 * @steered: see struct steered
 * @warm: share of the file that was still in the page cache before the run
 */
struct result {
	bool ok;
	char error[256];
	double seconds;
	double user_s;
	double sys_s;
	double pool_s;
	uint64_t ops[MAX_THREADS];
	uint64_t bytes;
	uint64_t sum;
	uint64_t faults;
	uint64_t hits;
	uint64_t ahead;
	uint64_t ahead_used;
	uint64_t instructions;
	uint64_t peak_bytes;
	uint64_t group_peak_bytes;
	uint64_t huge_bytes;
	double left_s;
	uint64_t left_bytes;
	struct steered steered;
	double warm;
};

/**
 * struct run - one config of one scenario, once
 * @scenario: see struct scenario
 * @config: see struct config
 * @content: of the file
 * @path: the file
 * @bytes: length of the part of the file that is used
 * @pool_bytes: the pool of the kernel engine
 * @limit_bytes: limit of the memory group, which counts the process's memory and its page
 *	cache; the pool of the kernel engine is charged to no process
 * @threads: workers, which may be processes
 * @op_bytes: the size of an operation here
 * @ops_most: operations of all workers; 0 = the scenario ends by itself
 * @seconds_most: after this time a worker stops (scenarios with random access)
 * @patience: after this time the run counts as hung
 * @seed: of random offsets
 * @generation: of what is written
 * @limits: of memory
 * @result: see struct result
 * @deadline: when @seconds_most is over
 * @private: the engine's
 */
struct run {
	const struct scenario *scenario;
	const struct config *config;
	struct content *content;
	const char *path;
	uint64_t bytes;
	uint64_t pool_bytes;
	uint64_t limit_bytes;
	unsigned int threads;
	uint32_t op_bytes;
	uint64_t ops_most;
	double seconds_most;
	double patience;
	uint64_t seed;
	uint32_t generation;
	struct limits *limits;
	struct result *result;
	double deadline;
	void *private;
};

/* The kernel's counters of a process. */
struct usage {
	double user_s, sys_s;
	uint64_t faults;
	uint64_t peak_bytes;
};

/**
 * struct worker - a thread of a run, or a process
 * @run: see struct run
 * @index: 0 to run->threads - 1
 * @start: start of its part of the file, in scenarios that divide the file; bytes
 * @end: end of its part
 * @at: position of the next operation
 * @step: position in the scenario's own unit
 * @since: when a part of the scenario began
 * @left_s: see struct result
 * @left_bytes: see struct result
 * @zipf: constants of its distribution
 * @random: state of its random numbers
 * @ops: operations done
 * @ops_most: number of operations after which it stops
 * @bytes: of the operations done
 * @sum: of the data that it has read, or the last address of a chase
 * @synced: its writes are durable up to here (scenario->sync_bytes)
 * @before: the kernel's counters when the worker was ready
 * @usage: CPU time, faults and peak of a worker process
 * @counted: what the engine counted in a process that has opened the file itself
 * @private: the engine's
 */
struct worker {
	struct run *run;
	unsigned int index;
	uint64_t start, end, at, step;
	double since, left_s;
	uint64_t left_bytes;
	struct zipf zipf;
	uint64_t random;
	uint64_t ops, ops_most;
	uint64_t bytes;
	uint64_t sum;
	uint64_t synced;
	struct usage before, usage;
	struct result counted;
	void *private;
};

/* Carry out a run; returns false if it failed: result->error says how. */
bool run_carry_out(struct run *run);
/* The child's side of it. */
_Noreturn void child_main(struct run *run);
/* In the child: give up, with a sentence. */
_Noreturn void die(struct run *run, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Address space for @bytes that starts at a multiple of 2 MB. */
void *aligned_space(struct run *run, uint64_t bytes);

/* --- engine_mmap.c: plain mmap, for three engines --- */

/**
 * struct file_map - run->private of these engines
 * @at: the mapping
 * @fd: the file
 * @mount: the mount of the kernel engine; -1 = another engine
 */
struct file_map {
	char *at;
	int fd;
	int mount;
};

/* @advices: of madvise(2), until an MADV_NORMAL; NULL = none */
void file_map_open(struct run *run, struct file_map *map, const int *advices);
const void *file_map_load(struct worker *worker, uint64_t offset, size_t length);
void *file_map_store(struct worker *worker, uint64_t offset, size_t length, bool whole);
void file_map_sync(struct run *run, uint64_t offset, uint64_t length);
void file_map_close(struct run *run);

/* --- settings and results ------------------------------------------------------ */

/**
 * struct settings - the options, with defaults filled in
 */
struct settings {
	bool quick, demo, keep, fast;
	bool size_given;
	const char *json, *report;
	const char *file; /* the user's own: never written to */
	uint64_t size, pool;
	unsigned int runs;
	unsigned int threads[MAX_THREAD_COUNTS], nthreads;
	uint32_t scenarios; /* bit for each of scenarios[] */
	uint32_t engines; /* bit for each of engine_list[] */
	uint32_t pages; /* bit for each of enum hugemap_page */
};

extern const struct engine *const engine_list[];
extern const unsigned int nengines;

/**
 * struct row - the result of one config
 * @config: a copy, with the depth that was used
 * @scenario: see struct scenario
 * @threads: workers, which may be processes
 * @pool_bytes: the pool of the kernel engine; the memory limit of the others follows from it
 * @limited: a memory group was in force
 * @read_ahead_kb: of the device, during the runs
 * @results: one of each turn
 * @nresults: number of @results
 * @failed: why there are no more results; "" = no run failed
 * @value: MB/s or ns an operation: the median
 * @low: the smallest value
 * @high: the largest value
 * @ratio_device: performance relative to the device row; 0 in rows that are not HugeMap's
 * @ratio_best_linux: ... to the best Linux mmap row, with read_ahead_kb as found
 * @ratio_default_linux: ... to Linux mmap without advice, with read_ahead_kb as found
 * @ratio_read_ahead: ... to Linux mmap without advice, with read_ahead_kb at 128
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
	struct result *shared; /* where children put their result */
	struct content *read_content; /* of the file that is only read */
	struct content *write_content;
	char read_path[4200];
	char write_path[4200];
	double device_mb_s; /* a first guess */
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
unsigned int plan_configs(const struct bench *bench, const struct scenario *scenario,
			  struct config configs[MAX_CONFIGS]);
bool config_is_hugemap(const struct config *config);
/* The time after which a run of single operations ends; seconds. */
double run_seconds_most(const struct bench *bench);
/* "Linux mmap, MADV_HUGEPAGE" */
const char *config_title(const struct config *config, const struct scenario *scenario, char *text,
			 size_t size);

/* --- mount.c --- */

/**
 * bench_mount() - mount a directory through the kernel engine, out of sight
 * @dir: the directory
 * @page: of the mount
 * @pool_bytes: of the mount
 * @why: filled in with the error, in words
 * @size: bytes of @why
 *
 * The mount has no mount point: its files are opened relative to the returned descriptor.
 * The kernel unmounts it when that descriptor and the files are closed, however the process
 * ends.
 *
 * Return: the descriptor, or -1.
 */
int bench_mount(const char *dir, enum hugemap_page page, uint64_t pool_bytes, char *why,
		size_t size);
/* Why the kernel engine cannot work here, in words; NULL = it works. Loads the module. */
const char *kernel_works_not(struct result *shared, const struct volume *volume);

/* --- turns.c --- */
void turns_run(struct bench *bench, const struct scenario *scenario, unsigned int threads);

/* --- files.c --- */
int files_prepare(struct bench *bench);
void files_measure(struct bench *bench);
bool files_create_read(struct bench *bench);
bool files_create_write(struct bench *bench, uint64_t bytes, bool fresh);
bool files_cut_tail(struct bench *bench, uint64_t bytes);
double files_evict(const char *path, uint64_t bytes);
bool files_verify(struct bench *bench, uint64_t bytes, char *what, size_t size);

/* --- row.c --- */
double result_value(const struct scenario *scenario, const struct result *result);
double median(const double *values, unsigned int n);
void rows_sum_up(struct row *rows, unsigned int n);
/* The medians of a field over the turns. */
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
/* Operations of a run, of all workers: the median. */
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
int json_write(const struct bench *bench, const char *path);
/* 0; or -1 after an error message of @command. *@charts: matplotlib could draw charts. */
int report_write(const struct cli_command *command, struct bench *bench, const char *path,
		 bool *charts);

/* --- notes.c --- */
void bench_note(struct bench *bench, const char *format, ...) __attribute__((format(printf, 2, 3)));
void bench_error(struct bench *bench, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
bool bench_interrupted(void);
void bench_interrupt(int signal); /* a handler of signals */
/* Show the progress of a long operation; false: it has to stop. */
bool bench_going_on(struct bench *bench, const char *what, double share);

#endif /* BENCH_H */
