// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "client.h"
#include "store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GOLDEN 0x9e3779b97f4a7c15ull

/* The shares of the operations, in percent; the rest are reads. */
static const struct mix {
	unsigned int update, insert, scan, read_modify_write;
	bool latest; /* mostly reads of the newest records */
} mixes[] = {
	[YCSB_LOAD] = { .insert = 100 },
	[YCSB_A] = { .update = 50 },
	[YCSB_B] = { .update = 5 },
	[YCSB_C] = {},
	[YCSB_D] = { .insert = 5, .latest = true },
	[YCSB_E] = { .insert = 5, .scan = 95 },
	[YCSB_F] = { .read_modify_write = 50 },
};

/* --- operations --- */

void client_init(struct client *client, const struct ycsb_job *job, unsigned int number)
{
	*client = (struct client){
		.job = job,
		.number = number,
		.random = random_mix((uint64_t)job->seed + number + 1),
	};
	if (job->workload == YCSB_LOAD)
		return;
	client->own = job->records / job->threads;
	zipf_init(&client->zipf, client->own);
}

static uint64_t client_choose(struct client *client, bool latest)
{
	uint64_t loaded = client->zipf.n, at;

	if (latest)
		at = client->own - 1 - zipf_rank(&client->zipf, &client->random);
	else if (client->job->uniform)
		at = random_below(&client->random, loaded);
	else
		at = zipf_scramble(zipf_rank(&client->zipf, &client->random), loaded);
	return at * client->job->threads + client->number;
}

void client_next(struct client *client, struct op *op)
{
	const struct mix *mix = &mixes[client->job->workload];
	uint64_t percent = random_below(&client->random, 100);

	client->ops++;
	*op = (struct op){ .kind = OP_READ };
	if (percent < mix->insert) {
		op->kind = OP_INSERT;
		op->index = client->own++ * client->job->threads + client->number;
		return;
	}
	percent -= mix->insert;
	op->index = client_choose(client, mix->latest);
	if (percent < mix->scan) {
		op->kind = OP_SCAN;
		op->length = 1 + (unsigned int)random_below(&client->random, SCAN_MAX);
	} else if (percent < mix->update + mix->read_modify_write) {
		op->kind = mix->update ? OP_UPDATE : OP_READ_MODIFY_WRITE;
		op->version = (uint32_t)client->ops;
	}
}

/* --- records --- */

uint64_t record_order(uint64_t index)
{
	return random_mix(index + 1);
}

/* The inverse of random_mix(). */
uint64_t record_of_order(uint64_t x)
{
	x = (x ^ x >> 31 ^ x >> 62) * 0x319642b2d24d8ec3ull;
	x = (x ^ x >> 27 ^ x >> 54) * 0x96de1b173f119089ull;
	return (x ^ x >> 30 ^ x >> 60) - 1;
}

void record_key(uint64_t index, char key[YCSB_KEY_BYTES + 1])
{
	snprintf(key, YCSB_KEY_BYTES + 1, "user%016llx", (unsigned long long)record_order(index));
}

void record_fill(uint64_t *value, size_t bytes, uint64_t index, uint32_t version)
{
	uint64_t x = random_mix(index * GOLDEN + version);
	size_t i;

	value[0] = index;
	value[1] = version;
	for (i = 2; i < bytes / 8; i++)
		value[i] = x = (x ^ x >> 29) * 0xbf58476d1ce4e5b9ull + GOLDEN;
}

uint64_t record_hash(const void *value, size_t bytes)
{
	uint64_t hash = bytes, word;
	size_t i;

	for (i = 0; i + 8 <= bytes; i += 8) {
		memcpy(&word, (const char *)value + i, 8); /* it may be at any address */
		hash = digest_add(hash, word);
	}
	return hash;
}

uint64_t record_index(const void *value)
{
	uint64_t index;

	memcpy(&index, value, sizeof(index));
	return index;
}

uint64_t digest_add(uint64_t digest, uint64_t hash)
{
	return ((digest << 23 | digest >> 41) ^ hash) * GOLDEN;
}

/* --- the right answers --- */

static uint64_t replay_scan(const struct ycsb_job *job, const struct op *op, const uint64_t *orders,
			    uint64_t *value, uint64_t digest)
{
	uint64_t order = record_order(op->index), low = 0, high = job->records, i;

	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		if (orders[middle] < order)
			low = middle + 1;
		else
			high = middle;
	}
	for (i = low; i < job->records && i < low + op->length; i++) {
		record_fill(value, job->value, record_of_order(orders[i]), 0);
		digest = digest_add(digest, record_hash(value, job->value));
	}
	return digest;
}

uint64_t client_replay(const struct ycsb_job *job, unsigned int number, uint64_t ops,
		       const uint64_t *orders)
{
	uint64_t *value = store_alloc(job->value), digest = 0, i;
	struct client client;
	uint32_t *versions; /* of the client's own records */

	client_init(&client, job, number);
	versions = store_alloc((client.own + ops) * sizeof(*versions));
	for (i = 0; i < ops; i++) {
		uint64_t own;
		struct op op;

		client_next(&client, &op);
		own = op.index / job->threads;
		if (op.kind == OP_SCAN)
			digest = replay_scan(job, &op, orders, value, digest);
		if (op.kind == OP_READ || op.kind == OP_READ_MODIFY_WRITE) {
			record_fill(value, job->value, op.index, versions[own]);
			digest = digest_add(digest, record_hash(value, job->value));
		}
		if (op.version)
			versions[own] = op.version;
	}
	free(versions);
	free(value);
	return digest;
}
