/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The operations of YCSB's workloads, and the records. Each client, which is a thread, updates and
 * reads records of its own only, so its answers depend only on its seed and the number of its
 * operations. A second pass over the operations can therefore compute the right answers.
 */
#ifndef YCSB_CLIENT_H
#define YCSB_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "random.h"
#include "ycsb_job.h"

#define SCAN_MAX 100u

enum op_kind {
	OP_READ,
	OP_UPDATE,
	OP_INSERT,
	OP_SCAN,
	OP_READ_MODIFY_WRITE,
};

/**
 * struct op - an operation
 * @kind: see enum op_kind
 * @index: number of the record
 * @version: of the value to be written; 0 = a new record's
 * @length: number of records of a scan
 */
struct op {
	enum op_kind kind;
	uint64_t index;
	uint32_t version;
	unsigned int length;
};

/**
 * struct client - the position of a client in its operations
 * @job: see struct ycsb_job
 * @number: 0 to threads - 1; record i belongs to the client i % threads
 * @own: number of its records
 * @ops: operations so far
 * @random: state of its random numbers
 * @zipf: its distribution over its loaded records
 */
struct client {
	const struct ycsb_job *job;
	unsigned int number;
	uint64_t own, ops;
	uint64_t random;
	struct zipf zipf;
};

void client_init(struct client *client, const struct ycsb_job *job, unsigned int number);
void client_next(struct client *client, struct op *op);

/* --- records --- */
void record_key(uint64_t index, char key[YCSB_KEY_BYTES + 1]);
/* Keys are sorted by this number; record_of_order() finds the record again. */
uint64_t record_order(uint64_t index);
uint64_t record_of_order(uint64_t order);
void record_fill(uint64_t *value, size_t bytes, uint64_t index, uint32_t version);
uint64_t record_hash(const void *value, size_t bytes);
/* The record to which a value belongs. */
uint64_t record_index(const void *value);
uint64_t digest_add(uint64_t digest, uint64_t hash);

/*
 * Compute the digest of the answers to the first @ops operations of a client, without a store.
 * @orders: of all loaded records, sorted; only for scans
 */
uint64_t client_replay(const struct ycsb_job *job, unsigned int number, uint64_t ops,
		       const uint64_t *orders);

#endif /* YCSB_CLIENT_H */
