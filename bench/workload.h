/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* An operation on the file, a scenario, and the order of operations of each scenario. */
#ifndef BENCH_WORKLOAD_H
#define BENCH_WORKLOAD_H

#include <stdbool.h>
#include <stdint.h>

struct worker;

enum op_kind {
	OP_READ, /* sum all 64-bit words */
	OP_WRITE, /* overwrite it all */
	OP_UPDATE, /* read it, and store the first word of each page */
	OP_CHASE, /* loads of 8 bytes, each at an address that the last one gave */
	OP_CHASE_FAULTS, /* the same, and memory of its own that comes and goes */
	OP_APPEND, /* write a record of any length, after the last one */
};

struct op {
	enum op_kind kind;
	uint64_t offset;
	uint32_t length; /* bytes; of a chase: loads */
	bool sync; /* then make durable what this worker has written since the last time */
};

/**
 * struct scenario - the operations on the file
 * @name: as in the JSON
 * @title: in words
 * @next: the next operation of a worker; false = it has finished
 * @init: what @next needs, in a worker that is otherwise ready; may be NULL
 * @op_bytes: size of an operation, the largest if they differ
 * @device_op_bytes: for the device, if it likes other pieces; 0 = the same
 * @sync_bytes: a worker makes its data durable each time it has written so much;
 *	0 = all is made durable in the end
 * @advices: of plain mmap, beside none: a bit for each of enum advice that may help
 * @pages_an_op: it ends after one operation for each so many pages of the file, or
 *	after a time; 0 = it ends by itself
 * @latency: reported in ns an operation, not in MB/s
 * @writes: changes the file
 * @fresh: ... which is a new one for every run
 * @tail: ... whose second half is a hole
 * @records: writes records of any length
 * @processes: its workers are processes instead of threads
 * @deep: the device gets several operations at a time; which depth is best is
 *	tried; else it gets one, as a program that loads and stores
 * @in_memory: everything is brought into memory before the clock starts
 * @cost: no engine can gain, so only the cost is measured; the file is small
 * @eighth: the cache is an eighth of the file; --pool does not apply
 * @twice: the file is twice as large as the memory of a run, at most
 * @quick: a part of --quick
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
	bool deep;
	bool in_memory;
	bool cost;
	bool eighth;
	bool twice;
	bool quick;
	bool base_pages;
};

/* Constants of a Zipf distribution over so many pages. */
struct zipf {
	double zeta, eta;
};

/* scenario_basic.c; the first two are for the others, too */
uint64_t next_random(struct worker *worker, uint64_t below);
/* The scenario's number of operations, or its time, is over. */
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

/* scenario_order.c: in an order, but not from end to end */
bool next_four_streams(struct worker *worker, struct op *op);
bool next_strided(struct worker *worker, struct op *op);
bool next_backward(struct worker *worker, struct op *op);
bool next_scan_twice(struct worker *worker, struct op *op);
void init_scan_random_scan(struct worker *worker);
bool next_scan_random_scan(struct worker *worker, struct op *op);

#endif /* BENCH_WORKLOAD_H */
