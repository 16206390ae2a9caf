/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * hugemap bench: HugeMap, Linux mmap, buffered I/O and the device's limit, side
 * by side.
 *
 * A *scenario* says which operations are done on the file, and its *configs*
 * say by whom: an engine with its page size, advice and so on. A *run* is one
 * config of one scenario, in a process of its own. Runs go in *turns*: in each
 * turn every config runs once, so that a ratio compares two runs of the same
 * minute; what is told are medians over the turns. A *row* is what came out for
 * one config.
 *
 *	main.c      options, and the order of things; notes.c: what is told in the end
 *	plan.c      which configs a scenario has
 *	scenario.c  the scenarios, and what they must have read; scenario_*.c: what
 *	            comes next
 *	turns.c     the turns; calibration of the device's depth
 *	run.c       a run, seen from the parent; child.c: seen from the child
 *	engine_*.c  the engines; mount.c: a mount of the kernel engine
 *	files.c     the files; content.c: what is in them
 *	fast.c      a device as fast as memory; module.c: modprobe
 *	limit.c     memory groups, read_ahead_kb; guard.c: all is put back, by undo.c
 *	cost.c      what it costs who gains nothing; count.c: as counted in the run
 *	verdict.c   is it as good as the best advice?
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
#include "hugemap.h"
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

/* Memory beside the pool that a process may use; the same for all engines. */
#define ALLOWANCE (64 * MB)

/* The pages of a mount of the kernel engine. A pool of the library has 2 MB pages. */
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
 * @apart: what it has mapped is of one process, not of its children: where workers
 *	are processes each opens the file by itself, with its share of the pool
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
 * Whatever fails ends the process by die().
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
extern const struct engine engine_pool;
extern const struct engine engine_kernel;
extern const struct engine engine_linux_mmap;
extern const struct engine engine_linux_rw;
extern const struct engine engine_device;
extern const struct engine engine_memory; /* the "device" of loads: anonymous THP memory */

/* --- runs ------------------------------------------------------------------- */

/**
 * struct config - by whom a scenario is done
 * @engine: see struct engine
 * @page: of HugeMap
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
 * struct steered - what the watcher has told of a run
 * @looks: how often it looked
 * @look_ns: what that cost: processor time
 * @act_ns: time in the calls that carried advice out
 * @count: calls of each kind, of all mappings
 * @bytes: ... and over how much
 * @pattern: what it took the mapping to be used for, in the end
 * @why: its last decision, in words
 */
struct steered {
	uint64_t looks, look_ns, act_ns;
	uint64_t count[STEER_ACTS], bytes[STEER_ACTS];
	unsigned int pattern;
	char why[120];
};

/**
 * struct result - what came out of a run; in memory shared with the child
 * @ok: it got to its end
 * @error: if not
 * @seconds: wall clock, sync included
 * @user_s: CPU, of all threads
 * @sys_s: CPU, of all threads
 * @pool_s: to make HugeMap's pool, before the clock started
 * @ops: operations done by each worker
 * @bytes: of these
 * @sum: over the data that was read, all workers
 * @kernel_faults: minor and major, as the kernel counts
 * @faults: HugeMap's own count; of other engines the kernel's
 * @hits: ... that needed no I/O
 * @ahead: units read ahead
 * @ahead_used: ... that were used
 * @instructions: of all threads, the kernel's for them too; 0 = unknown
 * @peak_bytes: most memory that the process had mapped at a time
 * @group_peak_bytes: most memory of its group, page cache included; 0 = unknown
 * @huge_bytes: of the data's memory, what is mapped by 2 MB pages (in_memory)
 * @left_s: what a part of it would have taken besides that time has cut off, as it went
 * @left_bytes: ... and how much that was
 * @steered: of the steered page cache
 * @warm: share of the file that could not be kept out of memory before
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
	uint64_t kernel_faults;
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
 * @bytes: how much of the file is used
 * @pool_bytes: HugeMap's pool
 * @limit_bytes: of the memory that the kernel counts: the process's and its page
 *	cache; the pool of the kernel engine is nobody's and not in it
 * @threads: workers, which may be processes
 * @op_bytes: the size of an operation here
 * @ops_most: operations of all workers; 0 = the scenario ends by itself
 * @seconds_most: after this time a worker stops (scenarios with random access)
 * @patience: after this time the run counts as hung
 * @seed: of random offsets
 * @generation: of what is written
 * @limits: of memory
 * @result: what came out of it
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

/* What the kernel counts of a process. */
struct usage {
	double user_s, sys_s;
	uint64_t faults;
	uint64_t peak_bytes;
};

/**
 * struct worker - a thread of a run, or a process
 * @run: see struct run
 * @index: 0 to run->threads - 1
 * @start: its part of the file, in scenarios that divide it; bytes
 * @end: the end of that
 * @at: where it has got to
 * @step: the same, in operations or as the scenario likes
 * @since: when a part of the scenario began
 * @left_s: see struct result
 * @left_bytes: see struct result
 * @zipf: constants of its distribution
 * @random: state of its random numbers
 * @ops: operations done
 * @ops_most: after so many it stops
 * @bytes: of the operations done
 * @sum: over what it has read, or the last address of a chase
 * @synced: up to here what it has written is durable (scenario->sync_bytes)
 * @before: what the kernel had counted when it was ready
 * @usage: of a process: its CPU time and faults during the run, and its peak
 * @counted: the engine's numbers of a process apart
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

/* --- engine_mmap.c: plain mmap, for both engines of the kernel --- */

/**
 * struct file_map - run->private of those engines
 * @at: the mapping
 * @fd: the file
 * @mount: of the kernel engine: the mount that it is on
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

/* --- what is to be done, and what came out ------------------------------------ */

/**
 * struct settings - what the user asked for, completed
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
 * struct row - what came out for one config
 * @config: a copy, with the depth that was used
 * @scenario: see struct scenario
 * @threads: workers, which may be processes
 * @pool_bytes: of HugeMap; the limit of others is derived from it
 * @limited: a memory group was in force
 * @read_ahead_kb: of the device, during the runs
 * @results: of each turn
 * @nresults: how many turns
 * @failed: why there is nothing more; "" = all is well
 * @value: MB/s or ns an operation: the median
 * @low: the least of it
 * @high: the most
 * @ratio_device: how much better than the device row; only of HugeMap, else 0
 * @ratio_best_linux: ... than the best Linux mmap row, read_ahead_kb as found
 * @ratio_default_linux: ... than Linux mmap without advice, as found
 * @ratio_read_ahead: ... than Linux mmap without advice with read_ahead_kb at 128
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
	struct result *shared; /* where children put what came out */
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
	const char *pool_reason; /* why the pool engine cannot work here; NULL = it can */
	const char *kernel_reason; /* the same of the kernel engine */
};

/* --- plan.c --- */
unsigned int plan_configs(const struct bench *bench, const struct scenario *scenario,
			  unsigned int threads, struct config configs[MAX_CONFIGS]);
bool config_is_hugemap(const struct config *config);
/* After so many seconds a run of single operations ends. */
double run_seconds_most(const struct bench *bench);
/* "Linux mmap, MADV_HUGEPAGE" */
const char *config_title(const struct config *config, const struct scenario *scenario, char *text,
			 size_t size);

/* --- engine_pool.c --- */
/* Why the pool engine cannot work here, in words; NULL = it works. */
const char *pool_works_not(struct result *shared);

/* --- mount.c --- */

/**
 * bench_mount() - mount a directory through the kernel engine, where nobody sees it
 * @dir: the directory
 * @page: of the mount
 * @pool_bytes: of the mount
 * @why: what went wrong, in words
 * @size: bytes of @why
 *
 * The mount is at no place in the tree of files: its files are opened relative to
 * the descriptor that is returned, and when that and they are closed, by whatever
 * ends the process, it is unmounted.
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
/* HugeMap as a program gets it: steered; where that is not measured, the better engine. */
const struct row *group_hugemap(const struct group *group);

/* --- table.c, demo.c, json.c, report.c --- */
void table_intro(const struct bench *bench);
void table_print(const struct bench *bench, const struct group *group);
void table_notes(const struct bench *bench);
void demo_print(const struct bench *bench);
int json_write(const struct bench *bench, const char *path);
/* 0; or -1 and has said why, as @command. *@charts: matplotlib was there to draw them. */
int report_write(const struct cli_command *command, struct bench *bench, const char *path,
		 bool *charts);

/* --- notes.c --- */
void bench_note(struct bench *bench, const char *format, ...) __attribute__((format(printf, 2, 3)));
void bench_error(struct bench *bench, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
bool bench_interrupted(void);
void bench_interrupt(int signal); /* a handler of signals */
/* Of an operation that takes a while: say how far it is, return false to stop. */
bool bench_going_on(struct bench *bench, const char *what, double share);

#endif /* BENCH_H */
