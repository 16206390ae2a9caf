/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Engines, and a run of one of them: what a scenario needs to carry out its operations. The
 * parent fills in struct run, the child adds a struct worker for each thread or process.
 */
#ifndef BENCH_ENGINE_H
#define BENCH_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "curve.h"
#include "page.h" /* of steer/ */
#include "workload.h"

#define KB 1024ull
#define MB (1024ull * KB)
#define GB (1024ull * MB)

#define MAX_THREADS 64u

/*
 * A chase: the high bits of x give the next address, then x = x * CHASE_FACTOR + the loaded word.
 */
#define CHASE_FACTOR 0xd1342543de82ef95ull

/* Memory that a process may use beside its cache; the same for all engines. */
#define ALLOWANCE (64 * MB)

/* The option "page" of a mount of the kernel engine. */
enum hugemap_page {
	HUGEMAP_PAGE_AUTO, /* the default */
	HUGEMAP_PAGE_2M,
	HUGEMAP_PAGE_4K,
	HUGEMAP_PAGES,
};

extern const char *const hugemap_page_names[HUGEMAP_PAGES];

struct content;
struct limits;
struct run;
struct worker;

enum advice {
	ADVICE_DEFAULT,
	ADVICE_SEQUENTIAL,
	ADVICE_RANDOM,
	ADVICE_HUGEPAGE,
	ADVICE_HUGEPAGE_RANDOM, /* both */
	ADVICE_POPULATE, /* MADV_POPULATE in windows just ahead of the position */
	ADVICES,
};

extern const char *const advice_names[ADVICES];

/**
 * struct engine - a way to access the data of a file
 * @name: as in the JSON
 * @apart: child processes do not inherit the state that the engine has for a mapping, so each
 *	worker process opens the file itself
 * @open: opens run->path, before the clock starts
 * @attach: prepares a worker, before the clock starts; may be NULL
 * @load: returns the address at which the data of a range can be read
 * @store: returns the address at which a range can be written; @whole: all of it will be
 *	overwritten
 * @stored: called after the caller has written to that address; may be NULL
 * @pump: does all operations of a worker in place of @load and @store, without use of the data, to
 *	measure the limit of the device; may be NULL
 * @sync: makes a range durable; may be NULL
 * @count: stores the engine's own counts in run->result; may be NULL
 * @close: closes the file, after the clock has stopped
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

/**
 * struct config - a way to carry out a scenario
 * @engine: see struct engine
 * @page: page size of the kernel engine
 * @advice: advice for Linux mmap
 * @read_ahead_kb: setting of the device; 0 = as found
 * @depth: operations that a worker has in flight at the device
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
 * @scans: scans of the page tables
 * @scan_ns: processor time of the scans
 * @advice_ns: time in the system calls that gave advice
 * @count: calls of each kind, for all mappings
 * @bytes: bytes that these calls covered
 * @pattern: the access pattern that was detected last
 * @reason: the last decision, in words
 */
struct steered {
	uint64_t scans, scan_ns, advice_ns;
	uint64_t count[STEER_ACTS], bytes[STEER_ACTS];
	unsigned int pattern;
	char reason[120];
};

/* CPU time of all processes of the machine, as in /proc/stat: in ticks, or as shares of 1. */
struct machine_time {
	double user, system, iowait, idle;
};

/**
 * struct result - the result of a run, in memory shared with the child
 * @ok: the run was completed
 * @error: the error, if it was not
 * @seconds: wall clock, sync included
 * @user_s: CPU, of all threads
 * @sys_s: CPU, of all threads
 * @pool_s: time to make the pool of the kernel engine, before the clock started
 * @machine: shares of the time of all processors during the run
 * @ops: operations done by each worker
 * @bytes: bytes of these operations
 * @sum: of the data that all workers have read
 * @faults: page faults, minor and major, as the kernel counts them
 * @hits: faults that the kernel engine served without I/O
 * @ahead: units that the kernel engine read ahead
 * @ahead_used: units of @ahead that were used
 * @instructions: of all threads, in user space and in the kernel; 0 = unknown
 * @peak_bytes: largest resident set of the process
 * @group_peak_bytes: most memory of its group, page cache included; 0 = unknown
 * @huge_bytes: data mapped by 2 MB pages (in_memory)
 * @left_s: time that the operations after the time limit would have taken
 * @left_bytes: bytes of these operations
 * @steered: see struct steered
 * @curve: throughput over time, if scenario->curve
 * @warm: share of the file that was still in the page cache before the run
 */
struct result {
	bool ok;
	char error[256];
	double seconds;
	double user_s;
	double sys_s;
	double pool_s;
	struct machine_time machine;
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
	struct curve curve;
	double warm;
};

/**
 * struct run - one config of one scenario, once
 * @child: what its process does: child_main(), or the start of another program
 * @scenario: see struct scenario
 * @config: see struct config
 * @content: of the file
 * @path: the file, or with scenario->own_files the directory of the files
 * @file: of these files, the one that an engine other than hugemap-kernel opens
 * @origin: the offset in the data of the first byte of that file
 * @bytes: length of the part of the data that is used
 * @pool_bytes: the pool of the kernel engine
 * @limit_bytes: limit of the memory group, which counts the process's memory and its page
 *	cache; 0 = no group; the pool of the kernel engine is charged to no process
 * @swap: the memory of the group may be swapped
 * @read_ahead_kb: of the device during the run; 0 = as found
 * @threads: workers, which may be processes
 * @op_bytes: the size of an operation here
 * @ops_max: operations of all workers; 0 = the scenario ends by itself
 * @seconds_max: seconds after which a worker stops (scenarios with random access)
 * @timeout_s: seconds after which the run counts as hung
 * @seed: of random offsets
 * @generation: of the data that the run writes
 * @limits: of memory
 * @result: see struct result
 * @deadline: time at which @seconds_max ends
 * @private: private data of the engine
 */
struct run {
	void (*child)(struct run *run);
	const struct scenario *scenario;
	const struct config *config;
	struct content *content;
	const char *path;
	unsigned int file;
	uint64_t origin;
	uint64_t bytes;
	uint64_t pool_bytes;
	uint64_t limit_bytes;
	bool swap;
	unsigned int read_ahead_kb;
	unsigned int threads;
	uint32_t op_bytes;
	uint64_t ops_max;
	double seconds_max;
	double timeout_s;
	uint64_t seed;
	uint32_t generation;
	struct limits *limits;
	struct result *result;
	double deadline;
	void *private;
};

/* A file of a run, and the part of the data that it has. */
struct run_file {
	char path[4300];
	uint64_t start, end;
};

/* scenario.c: the number of files of a run, and the file @i. */
unsigned int run_files(const struct run *run);
void run_file(const struct run *run, unsigned int i, struct run_file *file);

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
 * @since: time at which a part of the scenario began
 * @left_s: see struct result
 * @left_bytes: see struct result
 * @zipf: its distribution
 * @random: state of its random numbers
 * @ops: operations done
 * @done: it has finished
 * @ops_max: number of operations after which it stops
 * @bytes: of the operations done
 * @sum: of the data that it has read, or the last address of a chase
 * @synced: its writes are durable up to here (scenario->sync_bytes)
 * @before: the kernel's counters when the worker was ready
 * @usage: CPU time, faults and peak of a worker process
 * @counted: counts of the engine in a process that has opened the file itself
 * @private: private data of the engine
 */
struct worker {
	struct run *run;
	unsigned int index;
	uint64_t start, end, at, step;
	double since, left_s;
	uint64_t left_bytes;
	struct zipf zipf;
	uint64_t random;
	uint64_t ops, ops_max;
	bool done;
	uint64_t bytes;
	uint64_t sum;
	uint64_t synced;
	struct usage before, usage;
	struct result counted;
	void *private;
};

/* --- engine.c --- */

/* In the child: report an error in words, and end the process. */
_Noreturn void die(struct run *run, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Reserve address space for @bytes that starts at a multiple of 2 MB. */
void *aligned_space(struct run *run, uint64_t bytes);

/* --- engine_mmap.c: plain mmap, for three engines --- */

/**
 * struct file_map - run->private of these engines
 * @at: the address of offset 0 of the data
 * @fd: the file
 * @mount: the mount of the kernel engine; -1 = another engine
 */
struct file_map {
	char *at;
	int fd;
	int mount;
};

/*
 * Make run->private, and map the file of the run. @mount: map all files of the run, on this mount
 * of the directory that has run->path; -1 = none. @advices: of madvise(2), until an MADV_NORMAL;
 * NULL = none.
 */
struct file_map *file_map_open(struct run *run, int mount, const int *advices);
const void *file_map_load(struct worker *worker, uint64_t offset, size_t length);
void *file_map_store(struct worker *worker, uint64_t offset, size_t length, bool whole);
void file_map_sync(struct run *run, uint64_t offset, uint64_t length);
void file_map_close(struct run *run);

#endif /* BENCH_ENGINE_H */
