// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* The operations of each scenario, and what they must have read. */
#include "bench.h"

#include <string.h>

/* Of ten operations of `mixed`, so many change the page. */
#define MIXED_UPDATES 3

/* Records of `log`: at least and at most so long, in steps. */
#define RECORD_LEAST 1024u
#define RECORD_MOST 4096u
#define RECORD_STEP 8u

/* Loads between two looks at whether it is enough. */
#define CHASE_STRETCH 65536u

static uint64_t next_random(struct worker *worker, uint64_t below)
{
	uint64_t x = worker->random += 0x9e3779b97f4a7c15ull;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	x ^= x >> 31;
	return (uint64_t)((unsigned __int128)x * below >> 64);
}

static bool enough(const struct worker *worker)
{
	const struct run *run = worker->run;

	return worker->ops >= worker->ops_most ||
	       (run->seconds_most > 0 && cli_now() >= run->deadline);
}

static bool next_in_order(struct worker *worker, struct op *op, enum op_kind kind)
{
	uint32_t length = worker->run->op_bytes;

	if (worker->at >= worker->end)
		return false;
	*op = (struct op){ .kind = kind, .offset = worker->at, .length = length };
	worker->at += length;
	return true;
}

static bool next_stream_read(struct worker *worker, struct op *op)
{
	return next_in_order(worker, op, OP_READ);
}

static bool next_stream_write(struct worker *worker, struct op *op)
{
	return next_in_order(worker, op, OP_WRITE);
}

static bool next_random_read(struct worker *worker, struct op *op)
{
	uint32_t length = worker->run->op_bytes;

	if (enough(worker))
		return false;
	*op = (struct op){
		.kind = OP_READ,
		.offset = next_random(worker, worker->run->bytes / length) * length,
		.length = length,
	};
	return true;
}

/* Each worker in its own part, so that what is read does not depend on luck. */
static bool next_mixed(struct worker *worker, struct op *op)
{
	uint32_t length = worker->run->op_bytes;

	if (enough(worker))
		return false;
	op->offset = worker->start +
		     next_random(worker, (worker->end - worker->start) / length) * length;
	op->length = length;
	op->kind = next_random(worker, 10) < MIXED_UPDATES ? OP_UPDATE : OP_READ;
	return true;
}

static bool next_chase(struct worker *worker, struct op *op)
{
	if (enough(worker))
		return false;
	*op = (struct op){ .kind = OP_CHASE, .length = CHASE_STRETCH };
	return true;
}

/*
 * Records one after the other. The device, which takes whole sectors only, gets at
 * once what the others make durable at once.
 */
static bool next_log(struct worker *worker, struct op *op)
{
	uint32_t batch = worker->run->scenario->sync_bytes;
	uint32_t left = batch - (uint32_t)(worker->at % batch), length;

	if (worker->at >= worker->end)
		return false;
	*op = (struct op){ .kind = OP_WRITE, .offset = worker->at, .length = batch, .sync = true };
	if (worker->run->op_bytes < batch) {
		length = RECORD_LEAST +
			 (uint32_t)next_random(worker, (RECORD_MOST - RECORD_LEAST) / RECORD_STEP) *
				 RECORD_STEP;
		op->kind = OP_APPEND;
		op->length = length < left ? length : left;
		op->sync = op->length == left;
	}
	worker->at += op->length;
	return true;
}

const struct scenario scenarios[] = {
	{
		.name = "seq-read",
		.title = "sequential read, cold",
		.next = next_stream_read,
		.op_bytes = MB,
		.device_op_bytes = 2 * MB,
		.stream = true,
		.deep = true,
		.quick = true,
	},
	{
		.name = "seq-write",
		.title = "sequential write of a new file, sync included",
		.next = next_stream_write,
		.op_bytes = MB,
		.device_op_bytes = 2 * MB,
		.stream = true,
		.writes = true,
		.fresh = true,
		.deep = true,
		.quick = true,
	},
	{
		.name = "rewrite",
		.title = "sequential rewrite of an existing file, sync included",
		.next = next_stream_write,
		.op_bytes = MB,
		.device_op_bytes = 2 * MB,
		.stream = true,
		.writes = true,
		.deep = true,
	},
	{
		.name = "rand-4k",
		.title = "random 4 KB reads, cold, pool of 1/8 of the file",
		.next = next_random_read,
		.op_bytes = 4 * KB,
		.latency = true,
		.eighth = true,
		.quick = true,
		.base_pages = true,
	},
	{
		.name = "rand-1m",
		.title = "random 1 MB reads, cold",
		.next = next_random_read,
		.op_bytes = MB,
		.deep = true,
		.base_pages = true,
	},
	{
		.name = "loads",
		.title = "random 8-byte loads, all in memory",
		.next = next_chase,
		.op_bytes = MB,
		.latency = true,
		.in_memory = true,
		.quick = true,
	},
	{
		.name = "mixed",
		.title = "random 4 KB reads, 3 in 10 with a store, pool of 1/8 of the file, sync "
			 "included",
		.next = next_mixed,
		.op_bytes = 4 * KB,
		.latency = true,
		.writes = true,
		.eighth = true,
		.base_pages = true,
	},
	{
		.name = "checkpoint",
		.title = "processes write their segments of a new file, each syncs its own",
		.next = next_stream_write,
		.op_bytes = 2 * MB,
		.stream = true,
		.processes = true,
		.writes = true,
		.fresh = true,
		.deep = true,
	},
	{
		.name = "restore",
		.title = "processes read their segments of a file, cold",
		.next = next_stream_read,
		.op_bytes = 2 * MB,
		.stream = true,
		.processes = true,
		.deep = true,
	},
	{
		.name = "log",
		.title = "records of 1 to 4 KB appended to a new file, a sync every 1 MB",
		.next = next_log,
		.op_bytes = RECORD_MOST,
		.device_op_bytes = MB,
		.sync_bytes = MB,
		.stream = true,
		.writes = true,
		.fresh = true,
		.base_pages = true,
	},
};

const unsigned int nscenarios = sizeof(scenarios) / sizeof(scenarios[0]);

const struct scenario *scenario_find(const char *name)
{
	unsigned int i;

	for (i = 0; i < nscenarios; i++)
		if (!strcmp(scenarios[i].name, name))
			return &scenarios[i];
	return NULL;
}

const char *scenario_workers(const struct scenario *scenario, unsigned int n)
{
	if (scenario->processes)
		return n == 1 ? "process" : "processes";
	return n == 1 ? "thread" : "threads";
}

void worker_init(struct worker *worker, const struct run *run, unsigned int index)
{
	uint32_t step = run->scenario->sync_bytes ? run->scenario->sync_bytes : run->op_bytes;
	uint64_t pieces = run->bytes / step;

	*worker = (struct worker){
		.run = (struct run *)run,
		.index = index,
		.start = pieces * index / run->threads * step,
		.end = pieces * (index + 1) / run->threads * step,
		.random = run->seed + index * 0x632be59bd9b4e019ull,
		.ops_most = run->ops_most / run->threads,
	};
	worker->at = worker->synced = worker->start;
	if (run->scenario->in_memory)
		worker->sum = worker->random; /* where the chase starts */
}

static uint64_t expect_read(const struct content *content, const struct op *op)
{
	uint64_t page, end = (op->offset + op->length) / CONTENT_PAGE, sum = 0;

	for (page = op->offset / CONTENT_PAGE; page < end; page++)
		sum += content_page_sum(content, page);
	return sum;
}

static uint64_t expect_chase(const struct run *run, uint64_t x, uint64_t loads)
{
	uint64_t words = run->bytes / 8;

	while (loads--)
		x = x * CHASE_FACTOR +
		    content_word(run->content, (uint64_t)((unsigned __int128)x * words >> 64));
	return x;
}

uint64_t scenario_expect(const struct run *given)
{
	struct run run = *given;
	uint64_t sum = 0;
	unsigned int i;

	run.seconds_most = 0;
	for (i = 0; i < run.threads; i++) {
		struct worker worker;
		struct op op;

		worker_init(&worker, &run, i);
		if (run.scenario->in_memory) {
			sum += expect_chase(&run, worker.sum, run.result->ops[i]);
			continue;
		}
		worker.ops_most = run.result->ops[i];
		for (; run.scenario->next(&worker, &op); worker.ops++) {
			if (op.kind == OP_READ || op.kind == OP_UPDATE)
				sum += expect_read(run.content, &op);
			if (op.kind != OP_READ)
				content_written(run.content, op.offset, op.length, run.generation);
		}
	}
	return sum;
}
