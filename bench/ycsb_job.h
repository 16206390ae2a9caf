/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* A run of hugemap-ycsb, as `hugemap bench ycsb` passes it on: in one word of its command line. */
#ifndef BENCH_YCSB_JOB_H
#define BENCH_YCSB_JOB_H

#include <stdbool.h>

#define YCSB_KEY_BYTES 20u
#define YCSB_VALUE_MIN 16u
#define YCSB_VALUE_MAX 65536u
#define YCSB_JOB_TEXT 512

enum ycsb_store {
	YCSB_LMDB,
	YCSB_ROCKSDB,
	YCSB_STORES,
};

enum ycsb_workload {
	YCSB_LOAD,
	YCSB_A,
	YCSB_B,
	YCSB_C,
	YCSB_D,
	YCSB_E,
	YCSB_F,
	YCSB_CHECK, /* read all records once */
};

/**
 * struct ycsb_job - a run
 * @store: see enum ycsb_store
 * @workload: see enum ycsb_workload
 * @threads: number of clients
 * @seed: of random numbers
 * @uniform: all records are equally likely
 * @pread: RocksDB reads by pread, not by mmap
 * @random: MADV_RANDOM for all files
 * @warm: all files are read into the page cache before the clock starts
 * @settle: RocksDB is compacted at the end
 * @records: number of loaded records, a multiple of @threads; of YCSB_LOAD, those to be loaded
 * @operations: of all clients
 * @value: bytes of a value, a multiple of 8
 * @buffer: bytes of memory for writes that are not yet in the mapped files
 * @milliseconds: time limit; 0 = none
 */
struct ycsb_job {
	unsigned int store, workload, threads, seed;
	unsigned int uniform, pread, random, warm, settle;
	unsigned long long records, operations, value, buffer, milliseconds;
};

void ycsb_job_print(const struct ycsb_job *job, char text[YCSB_JOB_TEXT]);
/* Returns false if the text is no valid job. */
bool ycsb_job_parse(const char *text, struct ycsb_job *job);

#endif /* BENCH_YCSB_JOB_H */
