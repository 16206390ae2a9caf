// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* The scenarios, and the sums of the data that they must have read. */
#include "scenario.h"
#include "content.h"
#include "engine.h"

#include <stdio.h>
#include <string.h>

#define BIT(n) (1u << (n))
#define FOR_STREAMS (BIT(ADVICE_SEQUENTIAL) | BIT(ADVICE_HUGEPAGE))
#define FOR_RANDOM (BIT(ADVICE_RANDOM) | BIT(ADVICE_HUGEPAGE) | BIT(ADVICE_HUGEPAGE_RANDOM))
#define POPULATE BIT(ADVICE_POPULATE)

const struct scenario scenarios[] = {
	{
		.name = "seq-read",
		.title = "sequential read, cold",
		.next = next_stream_read,
		.advices = FOR_STREAMS | POPULATE,
		.op_bytes = MB,
		.device_op_bytes = 2 * MB,
		.deep = true,
		.quick = true,
	},
	{
		.name = "seq-write",
		.title = "sequential write of a new file, sync included",
		.next = next_stream_write,
		.advices = FOR_STREAMS | POPULATE,
		.op_bytes = MB,
		.device_op_bytes = 2 * MB,
		.writes = true,
		.fresh = true,
		.deep = true,
		.quick = true,
	},
	{
		.name = "rewrite",
		.title = "sequential rewrite of an existing file, sync included",
		.next = next_stream_write,
		.advices = FOR_STREAMS | POPULATE,
		.op_bytes = MB,
		.device_op_bytes = 2 * MB,
		.writes = true,
		.deep = true,
	},
	{
		.name = "rand-4k",
		.title = "random 4 KB reads, cold, cache of 1/8 of the file",
		.next = next_random_read,
		.advices = FOR_RANDOM,
		.pages_an_op = 4,
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
		.advices = FOR_RANDOM | POPULATE,
		.pages_an_op = 512,
		.op_bytes = MB,
		.deep = true,
		.base_pages = true,
	},
	{
		.name = "loads",
		.title = "random 8-byte loads, all in memory",
		.next = next_chase,
		.advices = BIT(ADVICE_HUGEPAGE),
		.op_bytes = MB,
		.latency = true,
		.in_memory = true,
		.quick = true,
	},
	{
		.name = "mixed",
		.title = "random 4 KB reads, 3 in 10 with a store, cache of 1/8 of the file, sync "
			 "included",
		.next = next_mixed,
		.advices = FOR_RANDOM,
		.pages_an_op = 4,
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
		.advices = FOR_STREAMS | POPULATE,
		.op_bytes = 2 * MB,
		.processes = true,
		.writes = true,
		.fresh = true,
		.deep = true,
	},
	{
		.name = "restore",
		.title = "processes read their segments of a file, cold",
		.next = next_stream_read,
		.advices = FOR_STREAMS | POPULATE,
		.op_bytes = 2 * MB,
		.processes = true,
		.deep = true,
	},
	{
		.name = "checkpoint-own",
		.title = "processes write a new file each, and sync it",
		.next = next_stream_write,
		.advices = FOR_STREAMS | POPULATE,
		.op_bytes = 2 * MB,
		.processes = true,
		.own_files = true,
		.writes = true,
		.fresh = true,
		.deep = true,
	},
	{
		.name = "restore-own",
		.title = "processes read a file each, cold",
		.next = next_stream_read,
		.advices = FOR_STREAMS | POPULATE,
		.op_bytes = 2 * MB,
		.processes = true,
		.own_files = true,
		.deep = true,
	},
	{
		.name = "log",
		.title = "records of 1 to 4 KB appended to a new file, a sync every 1 MB",
		.next = next_log,
		.advices = BIT(ADVICE_HUGEPAGE) | POPULATE,
		.op_bytes = 4 * KB,
		.device_op_bytes = MB,
		.sync_bytes = MB,
		.records = true,
		.writes = true,
		.fresh = true,
		.base_pages = true,
	},
	{
		.name = "zipf-4k",
		.title = "4 KB reads, Zipf with 0.99, scrambled, cold, cache of 1/8 of the file",
		.next = next_zipf,
		.init = init_zipf,
		.advices = FOR_RANDOM,
		.pages_an_op = 2,
		.op_bytes = 4 * KB,
		.latency = true,
		.eighth = true,
		.base_pages = true,
	},
	{
		.name = "hot-tenth",
		.title = "random 4 KB reads, 9 in 10 in a tenth of the file, cold, cache of 1/8",
		.next = next_hot_tenth,
		.advices = FOR_RANDOM,
		.pages_an_op = 2,
		.op_bytes = 4 * KB,
		.latency = true,
		.eighth = true,
		.base_pages = true,
	},
	{
		.name = "hot-limit",
		.title = "4 KB reads, 995 in 1000 in a part that just fits in the cache of 1/8",
		.next = next_hot_limit,
		.advices = FOR_RANDOM,
		.pages_an_op = 1,
		.op_bytes = 4 * KB,
		.latency = true,
		.eighth = true,
		.base_pages = true,
	},
	{
		.name = "strided",
		.title = "4 KB of every 256 KB, then another 4 KB, cold, cache of 1/8 of the file",
		.next = next_strided,
		.advices = FOR_RANDOM,
		.pages_an_op = 16,
		.op_bytes = 4 * KB,
		.latency = true,
		.eighth = true,
		.base_pages = true,
	},
	{
		.name = "backward",
		.title = "from the end to the start in steps of 4 KB, cold",
		.next = next_backward,
		.advices = FOR_STREAMS | BIT(ADVICE_HUGEPAGE_RANDOM),
		.pages_an_op = 1,
		.op_bytes = 4 * KB,
		.device_op_bytes = 2 * MB,
		.deep = true,
	},
	{
		.name = "four-streams",
		.title = "each thread reads four parts, 64 KB of each in turn, cold",
		.next = next_four_streams,
		.advices = FOR_STREAMS,
		.op_bytes = 64 * KB,
		.device_op_bytes = MB,
		.deep = true,
	},
	{
		.name = "scan-twice",
		.title = "twice from end to end through twice as much as there is memory, cold",
		.next = next_scan_twice,
		.advices = FOR_STREAMS,
		.op_bytes = MB,
		.device_op_bytes = 2 * MB,
		.deep = true,
		.twice = true,
	},
	{
		.name = "scan-random-scan",
		.title = "half of the file in order, random 4 KB reads, the other half, cold",
		.next = next_scan_random_scan,
		.init = init_scan_random_scan,
		.advices = FOR_STREAMS | BIT(ADVICE_HUGEPAGE_RANDOM),
		.pages_an_op = 64,
		.op_bytes = MB,
	},
	{
		.name = "load-shuffled",
		.title = "arrays of 4 MB in shuffled order, each from its start to its end, cold",
		.next = next_load_shuffled,
		.advices = FOR_STREAMS | FOR_RANDOM | POPULATE,
		.op_bytes = MB,
		.device_op_bytes = 2 * MB,
		.deep = true,
	},
	{
		.name = "load-sparse",
		.title = "every other array of 4 MB, in order, cold",
		.next = next_load_sparse,
		.advices = FOR_STREAMS | FOR_RANDOM | POPULATE,
		.op_bytes = MB,
		.device_op_bytes = 2 * MB,
		.deep = true,
	},
	{
		.name = "log-read",
		.title = "records of 1 to 4 KB appended to a file, beside random 4 KB reads of it, "
			 "sync included",
		.next = next_log_read,
		.init = init_log_read,
		.advices = FOR_STREAMS | FOR_RANDOM,
		.pages_an_op = 1,
		.op_bytes = 4 * KB,
		.device_op_bytes = MB,
		.writes = true,
		.tail = true,
		.records = true,
		.eighth = true,
		.base_pages = true,
	},
	{
		.name = "curve-seq",
		.title = "sequential read, cold: MB/s until memory is full, and after",
		.next = next_stream_read,
		.advices = BIT(ADVICE_SEQUENTIAL),
		.op_bytes = 64 * KB,
		.device_op_bytes = 2 * MB,
		.deep = true,
		.curve = true,
	},
	{
		.name = "curve-rand",
		.title = "random 4 KB reads, cold: MB/s until memory is full, and after",
		.next = next_random_read,
		.advices = BIT(ADVICE_RANDOM),
		.pages_an_op = 1,
		.op_bytes = 4 * KB,
		.curve = true,
		.base_pages = true,
	},
	{
		.name = "cost",
		.title = "8-byte loads from a small file in memory, and memory that comes and goes",
		.next = next_chase_faults,
		.op_bytes = MB,
		.latency = true,
		.in_memory = true,
		.cost = true,
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

static uint64_t worker_edge(const struct run *run, unsigned int index)
{
	uint32_t step = run->scenario->sync_bytes ? run->scenario->sync_bytes : run->op_bytes;

	return run->bytes / step * index / run->threads * step;
}

unsigned int run_files(const struct run *run)
{
	return run->scenario->own_files ? run->threads : 1;
}

void run_file(const struct run *run, unsigned int i, struct run_file *file)
{
	if (!run->scenario->own_files) {
		snprintf(file->path, sizeof(file->path), "%s", run->path);
		file->start = 0;
		file->end = run->bytes;
		return;
	}
	snprintf(file->path, sizeof(file->path), "%s/%u", run->path, i);
	file->start = worker_edge(run, i);
	file->end = worker_edge(run, i + 1);
}

void worker_init(struct worker *worker, const struct run *run, unsigned int index)
{
	*worker = (struct worker){
		.run = (struct run *)run,
		.index = index,
		.start = worker_edge(run, index),
		.end = worker_edge(run, index + 1),
		.random = run->seed + index * 0x632be59bd9b4e019ull,
		.ops_max = run->ops_max / run->threads,
	};
	worker->at = worker->synced = worker->start;
	if (run->scenario->in_memory)
		worker->sum = worker->random; /* the start of the chase */
	if (run->scenario->init)
		run->scenario->init(worker);
}

static uint64_t scenario_expect_read(const struct content *content, const struct op *op)
{
	uint64_t page, end = (op->offset + op->length) / CONTENT_PAGE, sum = 0;

	for (page = op->offset / CONTENT_PAGE; page < end; page++)
		sum += content_page_sum(content, page);
	return sum;
}

static uint64_t scenario_expect_chase(const struct run *run, uint64_t x, uint64_t loads)
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

	run.seconds_max = 0;
	for (i = 0; i < run.threads; i++) {
		struct worker worker;
		struct op op;

		worker_init(&worker, &run, i);
		if (run.scenario->in_memory) {
			sum += scenario_expect_chase(&run, worker.sum, run.result->ops[i]);
			continue;
		}
		worker.ops_max = run.result->ops[i];
		for (; run.scenario->next(&worker, &op); worker.ops++) {
			if (op.kind == OP_READ || op.kind == OP_UPDATE)
				sum += scenario_expect_read(run.content, &op);
			if (op.kind != OP_READ)
				content_written(run.content, op.offset, op.length, run.generation);
		}
	}
	return sum;
}
