// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * A run, in its own process: the engine opens the file, the workers get ready,
 * the clock starts, the workers work, all is made durable, the clock stops.
 */
#include "bench.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define HUGE (2 * MB)

struct team {
	struct run *run;
	pthread_barrier_t ready, go;
	struct worker workers[MAX_THREADS];
};

static struct team team;

void die(struct run *run, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(run->result->error, sizeof(run->result->error), format, args);
	va_end(args);
	_exit(1);
}

void *aligned_space(struct run *run, uint64_t bytes)
{
	char *at = mmap(NULL, bytes + HUGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
			-1, 0);

	if (at == MAP_FAILED)
		die(run, "no address space: %s", strerror(errno));
	return (char *)(((uintptr_t)at + HUGE - 1) & ~(uintptr_t)(HUGE - 1));
}

/* --- workers --- */

static void chase(struct worker *worker, const uint64_t *words, uint32_t loads)
{
	uint64_t n = worker->run->bytes / 8, x = worker->sum;

	while (loads--)
		x = x * CHASE_FACTOR + words[(uint64_t)((unsigned __int128)x * n >> 64)];
	worker->sum = x;
}

static void update(struct worker *worker, const struct op *op)
{
	const struct run *run = worker->run;
	char *to = run->config->engine->store(worker, op->offset, op->length, false);

	content_restamp(to, op->offset, op->length, run->generation);
}

static void do_op(struct worker *worker, const struct op *op, char *source)
{
	const struct run *run = worker->run;
	const struct engine *engine = run->config->engine;

	switch (op->kind) {
	case OP_CHASE:
		chase(worker, engine->load(worker, 0, run->bytes), op->length);
		return;
	case OP_READ:
		worker->sum += sum_words(engine->load(worker, op->offset, op->length), op->length);
		return;
	case OP_UPDATE:
		worker->sum += sum_words(engine->load(worker, op->offset, op->length), op->length);
		update(worker, op);
		break;
	case OP_WRITE:
		content_restamp(source, op->offset, op->length, run->generation);
		memcpy(engine->store(worker, op->offset, op->length, true), source, op->length);
		break;
	}
	if (engine->stored)
		engine->stored(worker, op->offset, op->length);
}

static void work(struct worker *worker)
{
	const struct run *run = worker->run;
	char *source = (char *)run->content->block;
	struct op op;

	if (run->scenario->writes && run->op_bytes >= CONTENT_BLOCK) {
		/* Of its own: the stamps of another worker's blocks differ. */
		source = malloc(run->op_bytes);
		if (!source)
			die(worker->run, "too little memory for the source of the writes");
		content_fill(run->content, source, 0, run->op_bytes, 0);
	}
	pthread_barrier_wait(&team.ready);
	pthread_barrier_wait(&team.go);
	while (run->scenario->next(worker, &op)) {
		do_op(worker, &op, source);
		worker->ops += op.kind == OP_CHASE ? op.length : 1;
		worker->bytes += op.kind == OP_CHASE ? op.length * 8ull : op.length;
	}
}

static void *worker_main(void *arg)
{
	struct worker *worker = arg;
	const struct engine *engine = worker->run->config->engine;

	if (engine->attach)
		engine->attach(worker);
	if (engine->pump) {
		pthread_barrier_wait(&team.ready);
		pthread_barrier_wait(&team.go);
		engine->pump(worker);
	} else {
		work(worker);
	}
	return NULL;
}

static void start_workers(struct run *run, pthread_t threads[MAX_THREADS])
{
	unsigned int i;
	int err;

	team.run = run;
	pthread_barrier_init(&team.ready, NULL, run->threads + 1);
	pthread_barrier_init(&team.go, NULL, run->threads + 1);
	for (i = 0; i < run->threads; i++) {
		worker_init(&team.workers[i], run, i);
		err = pthread_create(&threads[i], NULL, worker_main, &team.workers[i]);
		if (err)
			die(run, "a thread could not be started: %s", strerror(err));
	}
	pthread_barrier_wait(&team.ready);
}

/* --- the clock --- */

struct meter {
	double seconds, user_s, sys_s;
	uint64_t faults;
};

static double seconds_of(const struct timeval *tv)
{
	return (double)tv->tv_sec + (double)tv->tv_usec / 1e6;
}

static struct meter read_meter(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (struct meter){
		.seconds = cli_now(),
		.user_s = seconds_of(&usage.ru_utime),
		.sys_s = seconds_of(&usage.ru_stime),
		.faults = (uint64_t)usage.ru_minflt + (uint64_t)usage.ru_majflt,
	};
}

static void tell(struct run *run, const struct meter *before, const struct meter *after)
{
	struct result *result = run->result;
	unsigned long long peak_kb = 0;
	unsigned int i;

	result->seconds = after->seconds - before->seconds;
	result->user_s = after->user_s - before->user_s;
	result->sys_s = after->sys_s - before->sys_s;
	result->kernel_faults = result->faults = after->faults - before->faults;
	for (i = 0; i < run->threads; i++) {
		result->ops[i] = team.workers[i].ops;
		result->bytes += team.workers[i].bytes;
		result->sum += team.workers[i].sum;
	}
	if (read_field("/proc/self/status", "VmHWM:", &peak_kb))
		result->peak_bytes = peak_kb << 10;
}

/* Bring everything into memory, and see in which pages. */
static void warm_up(struct run *run)
{
	struct worker worker = { .run = run };
	const char *data = run->config->engine->load(&worker, 0, run->bytes);
	uint64_t sum = 0;

	sum = sum_words(data, run->bytes);
	__asm__ volatile("" : : "r"(sum));
	run->result->huge_bytes = smaps_bytes(data, run->bytes, "AnonHugePages:") +
				  smaps_bytes(data, run->bytes, "FilePmdMapped:");
}

void child_main(struct run *run)
{
	const struct engine *engine = run->config->engine;
	pthread_t threads[MAX_THREADS];
	struct meter before, after;
	unsigned int i;

	engine->open(run);
	if (run->scenario->in_memory)
		warm_up(run);
	start_workers(run, threads);
	run->deadline = cli_now() + run->seconds_most;
	before = read_meter();
	pthread_barrier_wait(&team.go);
	for (i = 0; i < run->threads; i++)
		pthread_join(threads[i], NULL);
	if (run->scenario->writes && engine->sync)
		engine->sync(run);
	after = read_meter();
	tell(run, &before, &after);
	if (engine->count)
		engine->count(run);
	engine->close(run);
	run->result->ok = true;
	_exit(0);
}
