/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* An operation on the file, a scenario, and the order of operations of each scenario. */
#ifndef BENCH_WORKLOAD_H
#define BENCH_WORKLOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "random.h"

struct worker;

enum op_kind {
	OP_READ, /* read all 64-bit words and add them up */
	OP_WRITE, /* overwrite the whole range */
	OP_UPDATE, /* read the range, and store to the first word of each page */
	OP_CHASE, /* load 8 bytes at a time, at an address that the last load gave */
	OP_CHASE_FAULTS, /* the same, while the program takes and returns memory of its own */
	OP_APPEND, /* write a record of any length after the last one */
};

struct op {
	enum op_kind kind;
	uint64_t offset;
	uint32_t length; /* in bytes; of a chase, the number of loads */
	bool sync; /* then make the worker's data since its last sync durable */
};

/**
 * struct scenario - the operations on the file
 * @name: as in the JSON
 * @title: in words
 * @next: returns the next operation of a worker; false = the worker has finished
 * @init: prepares a worker for @next; may be NULL
 * @op_bytes: size of an operation, the largest if they differ
 * @device_op_bytes: size of an operation of the device; 0 = @op_bytes
 * @sync_bytes: bytes after which a worker makes its data durable; 0 = only at the end
 * @advices: advice that may help plain mmap: a bit for each of enum advice
 * @pages_an_op: the scenario ends after one operation per this many pages of the file, or after a
 *	time limit; 0 = @next ends it
 * @latency: results are in ns per operation, not in MB/s
 * @writes: the operations change the file
 * @fresh: each run writes a new file
 * @tail: the second half of the file is a hole
 * @records: the operations write records of any length
 * @processes: the workers are processes instead of threads
 * @own_files: each process has a file of its own, which has its part of the data; only run on
 *	request
 * @deep: the device gets several operations at a time, as many as are fastest; otherwise it gets
 *	one at a time, as from a program that loads and stores
 * @in_memory: everything is brought into memory before the clock starts
 * @cost: no engine can gain, so only the cost is measured; the file is small
 * @curve: throughput over time is recorded; only run on request
 * @eighth: the cache has an eighth of the size of the file; --pool does not apply
 * @twice: the file is at most twice as large as the memory of a run
 * @quick: --quick includes the scenario
 * @base_pages: the kernel engine also runs with 4 KB pages
 */
struct scenario {
	const char *name;
	const char *title;
	bool (*next)(struct worker *worker, struct op *op);
	void (*init)(struct worker *worker);
	uint32_t op_bytes;
	uint32_t device_op_bytes;
	uint32_t sync_bytes;
	uint32_t advices;
	uint32_t pages_an_op;
	bool latency;
	bool writes;
	bool fresh;
	bool tail;
	bool records;
	bool processes;
	bool own_files;
	bool deep;
	bool in_memory;
	bool cost;
	bool curve;
	bool eighth;
	bool twice;
	bool quick;
	bool base_pages;
};

/* scenario_basic.c. The other files use the first two functions, too. */
uint64_t next_random(struct worker *worker, uint64_t below);
/* Returns whether the worker has done its operations, or its time is over. */
bool next_enough(const struct worker *worker);
bool next_stream_read(struct worker *worker, struct op *op);
bool next_stream_write(struct worker *worker, struct op *op);
bool next_random_read(struct worker *worker, struct op *op);
bool next_mixed(struct worker *worker, struct op *op);
bool next_chase(struct worker *worker, struct op *op);
bool next_chase_faults(struct worker *worker, struct op *op);

/* scenario_log.c */
bool next_log(struct worker *worker, struct op *op);
void init_log_read(struct worker *worker);
bool next_log_read(struct worker *worker, struct op *op);

/* scenario_skew.c: some pages are read more often than others */

void init_zipf(struct worker *worker);
bool next_zipf(struct worker *worker, struct op *op);
bool next_hot_tenth(struct worker *worker, struct op *op);
bool next_hot_limit(struct worker *worker, struct op *op);

/* scenario_load.c: arrays of 4 MB, each from its start to its end */
bool next_load_shuffled(struct worker *worker, struct op *op);
bool next_load_sparse(struct worker *worker, struct op *op);

/* scenario_order.c: regular orders other than one pass from end to end */
bool next_four_streams(struct worker *worker, struct op *op);
bool next_strided(struct worker *worker, struct op *op);
bool next_backward(struct worker *worker, struct op *op);
bool next_scan_twice(struct worker *worker, struct op *op);
void init_scan_random_scan(struct worker *worker);
bool next_scan_random_scan(struct worker *worker, struct op *op);

#endif /* BENCH_WORKLOAD_H */
