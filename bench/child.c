// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * A run, in its own process. The engine opens the file, the workers get ready, the clock starts,
 * the workers do their operations, the data is made durable, the clock stops. Workers are threads,
 * or in some scenarios processes. A worker process inherits the mapping by fork(), has page tables
 * of its own, and makes its own part of the data durable.
 */
#include "child.h"
#include "cli.h"
#include "content.h"
#include "count.h"
#include "limit.h"
#include "engine.h"
#include "scenario.h"
#include "system.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* In memory that all processes of the run share. */
static struct team {
	pthread_barrier_t ready, go;
	struct worker workers[MAX_THREADS];
	pthread_t threads[MAX_THREADS];
	pid_t pids[MAX_THREADS];
} *team;

/* --- CPU time and faults --- */

static double child_seconds(const struct timeval *tv)
{
	return (double)tv->tv_sec + (double)tv->tv_usec / 1e6;
}

static struct usage child_read_usage(void)
{
	unsigned long long peak_kb = 0;
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	read_field("/proc/self/status", "VmHWM:", &peak_kb);
	return (struct usage){
		.user_s = child_seconds(&usage.ru_utime),
		.sys_s = child_seconds(&usage.ru_stime),
		.faults = (uint64_t)usage.ru_minflt + (uint64_t)usage.ru_majflt,
		.peak_bytes = peak_kb << 10,
	};
}

static struct usage child_usage_since(const struct usage *before)
{
	struct usage now = child_read_usage();

	now.user_s -= before->user_s;
	now.sys_s -= before->sys_s;
	now.faults -= before->faults;
	return now;
}

/* Interrupts count as system time. Time that the host took away is left out. */
static struct machine_time child_read_machine(void)
{
	double user, nice, system, idle, iowait, irq, softirq;
	struct machine_time now = {};
	char line[256];

	if (read_line("/proc/stat", line, sizeof(line)) &&
	    sscanf(line, "cpu %lf %lf %lf %lf %lf %lf %lf", &user, &nice, &system, &idle, &iowait,
		   &irq, &softirq) == 7)
		now = (struct machine_time){
			.user = user + nice,
			.system = system + irq + softirq,
			.iowait = iowait,
			.idle = idle,
		};
	return now;
}

static struct machine_time child_machine_since(const struct machine_time *before)
{
	struct machine_time now = child_read_machine();
	double all;

	now.user -= before->user;
	now.system -= before->system;
	now.iowait -= before->iowait;
	now.idle -= before->idle;
	all = now.user + now.system + now.iowait + now.idle;
	if (!(all > 0))
		return (struct machine_time){}; /* shorter than a tick */
	return (struct machine_time){ now.user / all, now.system / all, now.iowait / all,
				      now.idle / all };
}

/* --- workers --- */

static void child_chase(struct worker *worker, const uint64_t *words, uint32_t loads)
{
	uint64_t n = worker->run->bytes / 8, x = worker->sum;

	while (loads--)
		x = x * CHASE_FACTOR + words[(uint64_t)((unsigned __int128)x * n >> 64)];
	worker->sum = x;
}

static void child_update(struct worker *worker, const struct op *op)
{
	const struct run *run = worker->run;
	char *to = run->config->engine->store(worker, op->offset, op->length, false);

	content_restamp(to, op->offset, op->length, run->generation);
}

static void child_do_op(struct worker *worker, const struct op *op, char *source)
{
	const struct run *run = worker->run;
	const struct engine *engine = run->config->engine;

	switch (op->kind) {
	case OP_CHASE:
	case OP_CHASE_FAULTS:
		if (op->kind == OP_CHASE_FAULTS && !cost_faults())
			die(worker->run, "too little memory");
		child_chase(worker, engine->load(worker, 0, run->bytes), op->length);
		return;
	case OP_READ:
		worker->sum += sum_words(engine->load(worker, op->offset, op->length), op->length);
		return;
	case OP_UPDATE:
		worker->sum += sum_words(engine->load(worker, op->offset, op->length), op->length);
		child_update(worker, op);
		break;
	case OP_WRITE:
		content_restamp(source, op->offset, op->length, run->generation);
		memcpy(engine->store(worker, op->offset, op->length, true), source, op->length);
		break;
	case OP_APPEND:
		if (op->offset % CONTENT_BLOCK == 0)
			content_restamp(source, op->offset, CONTENT_BLOCK, run->generation);
		memcpy(engine->store(worker, op->offset, op->length, true),
		       source + op->offset % CONTENT_BLOCK, op->length);
		break;
	}
	if (engine->stored)
		engine->stored(worker, op->offset, op->length);
	if (op->sync) {
		engine->sync(worker->run, worker->synced, worker->at - worker->synced);
		worker->synced = worker->at;
	}
}

/* Each worker has its own source buffer for writes, because the stamp of each page is different. */
static char *child_make_source(struct worker *worker)
{
	struct run *run = worker->run;
	uint32_t bytes = run->scenario->records ? CONTENT_BLOCK : run->op_bytes;
	char *source;

	if (!run->scenario->writes || bytes < CONTENT_BLOCK)
		return (char *)run->content->block;
	source = malloc(bytes);
	if (!source)
		die(run, "too little memory for the source of the writes");
	content_fill(run->content, source, 0, bytes, 0);
	return source;
}

static void child_wait_for_start(struct worker *worker)
{
	worker->before = child_read_usage();
	pthread_barrier_wait(&team->ready);
	pthread_barrier_wait(&team->go);
}

static void child_work(struct worker *worker)
{
	const struct run *run = worker->run;
	char *source = child_make_source(worker);
	struct op op;

	child_wait_for_start(worker);
	while (run->scenario->next(worker, &op)) {
		child_do_op(worker, &op, source);
		worker->ops += run->scenario->in_memory ? op.length : 1;
		/* The sampler reads both fields meanwhile. */
		__atomic_store_n(&worker->bytes,
				 worker->bytes +
					 (run->scenario->in_memory ? op.length * 8ull : op.length),
				 __ATOMIC_RELAXED);
	}
	__atomic_store_n(&worker->done, true, __ATOMIC_RELAXED);
}

static void *child_worker_main(void *arg)
{
	struct worker *worker = arg;
	const struct engine *engine = worker->run->config->engine;

	if (engine->attach)
		engine->attach(worker);
	if (engine->pump) {
		child_wait_for_start(worker);
		engine->pump(worker);
	} else {
		child_work(worker);
	}
	return NULL;
}

static bool child_in_processes(const struct run *run)
{
	return run->scenario->processes && run->threads > 1;
}

/*
 * Returns whether each worker process opens the file itself, and the process of the run does not.
 */
static bool child_is_apart(const struct run *run)
{
	bool own = run->scenario->own_files && run->config->engine != &engine_kernel;

	return child_in_processes(run) && (own || run->config->engine->apart);
}

_Noreturn static void child_process_main(struct worker *worker)
{
	struct run *run = worker->run; /* a copy: memory of this process */
	const struct engine *engine = run->config->engine;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGCHLD, SIG_DFL);
	if (child_is_apart(run)) {
		if (run->scenario->own_files) {
			run->file = worker->index;
			run->origin = worker->start;
		}
		engine->open(run);
	}
	child_worker_main(worker);
	if (run->scenario->writes)
		engine->sync(run, worker->start, worker->end - worker->start);
	worker->usage = child_usage_since(&worker->before);
	if (child_is_apart(run)) {
		struct result *shared = run->result;

		run->result = &worker->counted;
		if (engine->count)
			engine->count(run);
		run->result = shared;
		engine->close(run);
	}
	_exit(0);
}

/*
 * A worker process that ends early would leave the others waiting at a barrier. So the run
 * ends as well, with the same status or signal, which its parent reports.
 */
static void child_on_worker_end(int signal_number, siginfo_t *info, void *context)
{
	if (info->si_code == CLD_EXITED && info->si_status)
		_exit(info->si_status);
	if (info->si_code == CLD_KILLED || info->si_code == CLD_DUMPED) {
		signal(info->si_status, SIG_DFL);
		kill(getpid(), info->si_status);
	}
}

static void child_start_worker(struct run *run, unsigned int i)
{
	struct worker *worker = &team->workers[i];
	int err = 0;
	pid_t pid;

	worker_init(worker, run, i);
	if (!child_in_processes(run)) {
		err = pthread_create(&team->threads[i], NULL, child_worker_main, worker);
	} else {
		pid = fork();
		if (pid == 0)
			child_process_main(worker);
		err = pid < 0 ? errno : 0;
		team->pids[i] = pid; /* in shared memory: the child must not write its 0 */
	}
	if (err)
		die(run, "a %s could not be started: %s", scenario_workers(run->scenario, 1),
		    strerror(err));
}

static void child_start_workers(struct run *run)
{
	struct sigaction action = { .sa_sigaction = child_on_worker_end,
				    .sa_flags = SA_SIGINFO | SA_RESTART };
	pthread_barrierattr_t shared;
	unsigned int i;

	team = mmap(NULL, sizeof(*team), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (team == MAP_FAILED)
		die(run, "too little memory");
	pthread_barrierattr_init(&shared);
	pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(&team->ready, &shared, run->threads + 1);
	pthread_barrier_init(&team->go, &shared, run->threads + 1);
	if (child_in_processes(run))
		sigaction(SIGCHLD, &action, NULL);
	for (i = 0; i < run->threads; i++)
		child_start_worker(run, i);
	pthread_barrier_wait(&team->ready);
}

static void child_wait_for_workers(struct run *run)
{
	unsigned int i;
	int status;

	for (i = 0; i < run->threads; i++) {
		if (!child_in_processes(run))
			pthread_join(team->threads[i], NULL);
		else if (waitpid(team->pids[i], &status, 0) < 0 || status)
			_exit(1); /* the worker has set run->result->error */
	}
}

/* Add the counts of an engine in a worker process to those of the run. */
static void child_add_counted(struct result *result, const struct result *counted)
{
	unsigned int act;

	result->steered.scans += counted->steered.scans;
	result->steered.scan_ns += counted->steered.scan_ns;
	result->steered.advice_ns += counted->steered.advice_ns;
	for (act = 0; act < STEER_ACTS; act++) {
		result->steered.count[act] += counted->steered.count[act];
		result->steered.bytes[act] += counted->steered.bytes[act];
	}
	result->steered.pattern = counted->steered.pattern;
	memcpy(result->steered.reason, counted->steered.reason, sizeof(result->steered.reason));
}

static void child_fill_result(struct run *run, double seconds, const struct usage *usage)
{
	struct result *result = run->result;
	unsigned int i;

	result->seconds = seconds;
	result->user_s = usage->user_s;
	result->sys_s = usage->sys_s;
	result->faults = usage->faults;
	result->peak_bytes = usage->peak_bytes;
	for (i = 0; i < run->threads; i++) {
		const struct worker *worker = &team->workers[i];

		result->ops[i] = worker->ops;
		result->bytes += worker->bytes;
		result->sum += worker->sum;
		result->left_bytes += worker->left_bytes;
		if (worker->left_s > result->left_s)
			result->left_s = worker->left_s;
		result->user_s += worker->usage.user_s;
		result->sys_s += worker->usage.sys_s;
		result->faults += worker->usage.faults;
		if (worker->usage.peak_bytes > result->peak_bytes)
			result->peak_bytes = worker->usage.peak_bytes;
	}
	if (child_is_apart(run))
		for (i = 0; i < run->threads; i++)
			child_add_counted(result, &team->workers[i].counted);
}

/* --- throughput over time --- */

/* Record the progress of all workers until one has finished. */
static void *child_sample(void *arg)
{
	struct run *run = arg;
	uint64_t full = run->limit_bytes - run->limit_bytes / 64;
	double start = cli_now();
	unsigned int i, steps = 0;

	for (;;) {
		uint64_t bytes = 0;

		for (i = 0; i < run->threads; i++) {
			const struct worker *worker = &team->workers[i];

			if (__atomic_load_n(&worker->done, __ATOMIC_RELAXED))
				return NULL;
			bytes += __atomic_load_n(&worker->bytes, __ATOMIC_RELAXED);
		}
		if (steps++)
			curve_add(&run->result->curve, bytes, limits_peak(run->limits) >= full);
		cli_sleep(start + steps * CURVE_STEP_S - cli_now());
	}
}

/* Bring all data into memory, and find how much of it is mapped by 2 MB pages. */
static void child_warm_up(struct run *run)
{
	struct worker worker = { .run = run };
	const char *data = run->config->engine->load(&worker, 0, run->bytes);
	uint64_t sum = 0;
	int i;

	/* Twice: in the first pass read-ahead may evict data that was read before. */
	for (i = 0; i < 2; i++) {
		sum += sum_words(data, run->bytes);
		__asm__ volatile("" : : "r"(sum) : "memory");
	}
	run->result->huge_bytes = smaps_bytes(data, run->bytes, "AnonHugePages:") +
				  smaps_bytes(data, run->bytes, "FilePmdMapped:");
}

void child_main(struct run *run)
{
	const struct engine *engine = run->config->engine;
	struct machine_time machine;
	struct usage before, usage;
	pthread_t sampler;
	double start, seconds;
	int counter = counter_open();
	uint64_t counted;

	if (!child_is_apart(run))
		engine->open(run);
	if (run->scenario->in_memory)
		child_warm_up(run);
	child_start_workers(run);
	run->deadline = cli_now() + run->seconds_max;
	before = child_read_usage();
	machine = child_read_machine();
	counted = counter_read(counter);
	start = cli_now();
	pthread_barrier_wait(&team->go);
	if (run->scenario->curve && pthread_create(&sampler, NULL, child_sample, run))
		die(run, "a thread could not be started");
	child_wait_for_workers(run);
	if (run->scenario->curve)
		pthread_join(sampler, NULL);
	if (run->scenario->writes && !child_in_processes(run))
		engine->sync(run, 0, run->bytes);
	seconds = cli_now() - start;
	usage = child_usage_since(&before);
	run->result->machine = child_machine_since(&machine);
	run->result->instructions = counter_read(counter) - counted;
	child_fill_result(run, seconds, &usage);
	if (!child_is_apart(run)) {
		if (engine->count)
			engine->count(run);
		engine->close(run);
	}
	run->result->ok = true;
	_exit(0);
}
