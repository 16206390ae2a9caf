// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Tasks, wait queues, workqueues and memory: see task.h. */
#include "world.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct task_struct tasks[SIM_COROUTINES + 1];
unsigned long jiffies;

void kernel_log(const char *format, ...)
{
	char line[160];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	sim_note("%s", line);
}

/* --- kernel threads ---------------------------------------------------------------- */

static void kthread_main(void *arg)
{
	struct task_struct *task = arg;

	task->work(task->arg);
	task->over = true;
}

struct task_struct *kthread_run(int (*work)(void *arg), void *arg, const char *format, ...)
{
	struct task_struct *task = &tasks[sched_spawned()];

	(void)format;
	*task = (struct task_struct){
		.work = work, .arg = arg, .flags = PF_KTHREAD, .fsize_limit = U64_MAX
	};
	sched_spawn("kthread", kthread_main, task);
	return task;
}

void kthread_stop(struct task_struct *task)
{
	WRITE_ONCE(task->should_stop, true);
	while (!task->over) {
		time_passes(HZ);
		sim_yield();
	}
}

/* --- RCU and SRCU ---------------------------------------------------------------- */

static struct rcu_state {
	/* callbacks that wait for the next grace period, and for this one */
	struct rcu_head *first, **last, *batch;
	u64 left[SIM_COROUTINES]; /* at the start of this grace period */
	bool calls;
	bool sleeps; /* SRCU */
} rcu = { .last = &rcu.first }, srcu = { .last = &srcu.first, .sleeps = true };

/* An inode and its data. */
#define CALLBACK_FREES 2u

static u64 rcu_left_by(const struct rcu_state *r, u32 task)
{
	return r->sleeps ? tasks[task].srcu_left : tasks[task].rcu_left;
}

/* Is the task still in a section that it had entered when it had left @left sections? */
static bool rcu_stays(const struct rcu_state *r, u32 task, u64 left)
{
	return (r->sleeps ? tasks[task].in_srcu : tasks[task].in_rcu) &&
	       rcu_left_by(r, task) == left;
}

/* Wait until each task that is in a section now has left it. */
static void rcu_synchronize(const struct rcu_state *r)
{
	u64 left[SIM_COROUTINES];
	u32 i;

	for (i = 0; i < SIM_COROUTINES; i++)
		left[i] = rcu_left_by(r, i);
	for (i = 0; i < SIM_COROUTINES; i++)
		while (rcu_stays(r, i, left[i]))
			sim_yield();
}

static void rcu_call(struct rcu_state *r, struct rcu_head *head,
		     void (*func)(struct rcu_head *head))
{
	head->next = NULL;
	head->func = func;
	*r->last = head;
	r->last = &head->next;
}

static bool rcu_grace_period_over(const struct rcu_state *r)
{
	u32 i;

	for (i = 0; i < SIM_COROUTINES; i++)
		if (rcu_stays(r, i, r->left[i]))
			return false;
	return true;
}

static void rcu_advance(struct rcu_state *r)
{
	struct rcu_head *head;
	u32 i;

	if (r->calls || (r->batch && !rcu_grace_period_over(r)))
		return;
	r->calls = true;
	while ((head = r->batch)) {
		u64 frees = current->frees;

		r->batch = head->next;
		head->func(head);
		/* Linux calls it with bottom halves off, so its work must be bounded. */
		sim_check(current->frees - frees <= CALLBACK_FREES,
			  "a callback of %s has freed %llu objects", r->sleeps ? "SRCU" : "RCU",
			  (unsigned long long)(current->frees - frees));
	}
	r->calls = false;
	r->batch = r->first;
	r->first = NULL;
	r->last = &r->first;
	for (i = 0; i < SIM_COROUTINES; i++)
		r->left[i] = rcu_left_by(r, i);
}

static void rcu_drain(struct rcu_state *r)
{
	while (r->first || r->batch || r->calls) {
		rcu_advance(r);
		sim_yield();
	}
}

void synchronize_rcu(void)
{
	rcu_synchronize(&rcu);
}

void call_rcu(struct rcu_head *head, void (*func)(struct rcu_head *head))
{
	rcu_call(&rcu, head, func);
}

void rcu_barrier(void)
{
	rcu_drain(&rcu);
}

void synchronize_srcu_expedited(struct srcu_struct *unused)
{
	(void)unused;
	sim_check(!current->in_srcu, "a task waits for the end of its own section of SRCU");
	rcu_synchronize(&srcu);
}

void call_srcu(struct srcu_struct *unused, struct rcu_head *head,
	       void (*func)(struct rcu_head *head))
{
	(void)unused;
	rcu_call(&srcu, head, func);
}

void srcu_barrier(struct srcu_struct *unused)
{
	(void)unused;
	rcu_drain(&srcu);
}

void rcu_tick(void)
{
	rcu_advance(&rcu);
	rcu_advance(&srcu);
}

void rcu_forget(void)
{
	rcu = (struct rcu_state){ .last = &rcu.first };
	srcu = (struct rcu_state){ .last = &srcu.first, .sleeps = true };
}

void hm_read_begin(void)
{
	rcu_read_lock();
}

void hm_read_end(void)
{
	rcu_read_unlock();
}

/* A task that yields to fills while it has a claim stops the fills that wait for this claim. */
static void window_check_claim(const char *text)
{
	if (!strcmp(text, "overwrite: claimed, not dropped"))
		current->overwrites = true;
	else if (!strcmp(text, "overwrite: written, claimed"))
		current->overwrites = false;
	else if (!strcmp(text, "change: stores go first"))
		sim_check(!current->overwrites, "an overwrite yields while it has a claim");
}

void window_pass(u32 number, const char *text)
{
	u32 pause;

	sim_step();
	window_check_claim(text);
	if (w.play && w.play->at_race_point)
		w.play->at_race_point(text);
	if (number % RACE_POINTS != w.s.race_point || !sim_chance(w.s.race_percent))
		return;
	for (pause = sim_lower(sim_chance(20) ? 1500 : 200); pause; pause--)
		sim_yield();
}

/* Only plays use the race points of kernel/cache/. */
void sim_core_race_point(void)
{
	if (w.play && w.play->at_race_point)
		w.play->at_race_point(CORE_RACE_POINT);
}

/* --- time and waiting ------------------------------------------------------------------ */

/*
 * Some waits last as long as the engine's timeout for a slow disk, and the clock advances
 * independently of steps. A task has slept for too long only if both limits are exceeded.
 */
#define LONG_SLEEP 400000u /* steps */
#define LONG_WAIT (60 * HZ)

static struct waiter {
	wait_queue_head_t *wait;
	unsigned long deadline, since; /* jiffies */
	u64 since_steps;
	bool idle, asleep;
} waiters[SIM_COROUTINES];

static void wake_one(u32 i)
{
	/* Each task has its own key: others must not be woken spuriously. */
	sim_wake(&waiters[i]);
}

static void check_patience(u32 i)
{
	sim_check(!waiters[i].asleep || time_before(jiffies, waiters[i].since + LONG_WAIT) ||
			  sched_steps() - waiters[i].since_steps < LONG_SLEEP,
		  "%s %u was not woken for %llu steps and %lu seconds", sched_name(i), i,
		  (unsigned long long)(sched_steps() - waiters[i].since_steps),
		  (jiffies - waiters[i].since) / HZ);
}

void wait_prepare(wait_queue_head_t *wait)
{
	u32 self = sched_self();

	waiters[self] = (struct waiter){ .wait = wait };
	sim_prepare(&waiters[self]);
	sim_step();
}

void wait_sleep(unsigned long deadline, bool idle)
{
	struct waiter *self = &waiters[sched_self()];

	self->deadline = deadline;
	self->idle = idle;
	self->since = jiffies;
	self->since_steps = sched_steps();
	self->asleep = true;
	sim_sleep();
	sim_slept();
}

void wait_done(void)
{
	waiters[sched_self()] = (struct waiter){ 0 };
	sim_prepare(NULL);
}

bool wq_has_sleeper(wait_queue_head_t *wait)
{
	u32 i;

	sim_step();
	for (i = 0; i < SIM_COROUTINES; i++)
		if (waiters[i].wait == wait)
			return true;
	return false;
}

void wake_up_all(wait_queue_head_t *wait)
{
	u32 i;

	sim_step();
	for (i = 0; i < SIM_COROUTINES; i++)
		if (waiters[i].wait == wait)
			wake_one(i);
}

void time_passes(unsigned long more)
{
	u32 i;

	jiffies += more;
	for (i = 0; i < SIM_COROUTINES; i++) {
		if (waiters[i].wait &&
		    (waiters[i].idle ||
		     (waiters[i].deadline && !time_before(jiffies, waiters[i].deadline))))
			wake_one(i);
		else
			check_patience(i);
	}
}

/* Send a fatal signal. */
void task_kill(struct task_struct *task)
{
	task->killed = true;
	if (waiters[task - tasks].wait)
		wake_one((u32)(task - tasks));
}

void tasks_forget(void)
{
	u32 i;

	memset(waiters, 0, sizeof(waiters));
	memset(tasks, 0, sizeof(tasks));
	for (i = 0; i <= SIM_COROUTINES; i++)
		tasks[i].fsize_limit = U64_MAX;
}

void schedule_timeout_uninterruptible(long timeout)
{
	unsigned long until = jiffies + (unsigned long)timeout;

	while (time_before(jiffies, until))
		sim_yield();
}

void schedule_timeout_killable(long timeout)
{
	unsigned long until = jiffies + (unsigned long)timeout;

	while (time_before(jiffies, until) && !fatal_signal_pending(current))
		sim_yield();
}

bool down_read_trylock(struct rw_semaphore *s)
{
	sim_step();
	if (s->lock.writer || s->lock.waiting || s->lock.head != s->lock.tail)
		return false;
	s->lock.readers++;
	return true;
}

bool down_write_trylock(struct rw_semaphore *s)
{
	sim_step();
	if (s->lock.writer || s->lock.readers || s->lock.head != s->lock.tail)
		return false;
	s->lock.writer = true;
	return true;
}

bool mutex_trylock(struct mutex *m)
{
	sim_step();
	if (m->lock.held || m->lock.head != m->lock.tail)
		return false;
	m->lock.held = true;
	return true;
}

/* --- works -------------------------------------------------------------------------------- */

#define MAX_QUEUES 6u

static struct workqueue_struct queues[MAX_QUEUES];
static wait_queue_head_t works_wait;
static u32 nqueues;

void works_forget(void)
{
	nqueues = 0;
}

struct workqueue_struct *alloc_workqueue(const char *name, u32 flags, int active)
{
	struct workqueue_struct *wq = &queues[nqueues++];

	(void)name, (void)flags, (void)active;
	sim_check(nqueues <= MAX_QUEUES, "too many workqueues");
	wq->first = NULL;
	wq->last = &wq->first;
	wq->running = 0;
	return wq;
}

bool queue_work(struct workqueue_struct *wq, struct work_struct *work)
{
	sim_step();
	if (work->queued)
		return false;
	work->queued = true;
	work->next = NULL;
	*wq->last = work;
	wq->last = &work->next;
	wake_up_all(&works_wait);
	return true;
}

void flush_workqueue(struct workqueue_struct *wq)
{
	while (wq->first || wq->running)
		sim_yield();
}

/*
 * Each queue has two workers, or one for the frees, so works of a queue run concurrently, and no
 * queue waits for another one. (Linux creates more workers when some block.)
 */
void worker_main(void *arg)
{
	struct workqueue_struct *wq = &queues[(uintptr_t)arg % MAX_QUEUES];

	current->flags = PF_KTHREAD | PF_WQ_WORKER;
	for (;;) {
		struct work_struct *work;

		wait_event_freezable(works_wait, wq->first);
		work = wq->first;
		if (!work)
			continue;
		wq->first = work->next;
		if (!wq->first)
			wq->last = &wq->first;
		work->queued = false;
		wq->running++;
		sim_progress();
		work->func(work); /* may free it */
		wq->running--;
	}
}

/* --- memory ---------------------------------------------------------------------------------- */

struct block {
	struct block *next, *prev;
	size_t bytes;
	u64 alive;
} __attribute__((aligned(64)));

#define ALIVE 0xa11ce5a11ce5ull

static struct block blocks = { &blocks, &blocks, 0, 0 };

void *sim_alloc(size_t bytes, gfp_t gfp)
{
	struct block *block;

	sim_step();
	memory_pressure(gfp);
	if (gfp & GFP_NOWAIT && sim_chance(10))
		return NULL;
	if (w.running && sim_chance(w.s.alloc_error_percent))
		return NULL;
	block = aligned_alloc(64, (sizeof(*block) + bytes + 63) & ~(size_t)63);
	memset(block + 1, 0, bytes);
	block->bytes = bytes;
	block->alive = ALIVE;
	block->next = &blocks;
	block->prev = blocks.prev;
	blocks.prev->next = block;
	blocks.prev = block;
	return block + 1;
}

void sim_free(const void *mem)
{
	struct block *block;

	if (!mem)
		return;
	block = (struct block *)mem - 1;
	sim_check(block->alive == ALIVE, "memory was freed twice or never allocated");
	block->alive = 0;
	block->next->prev = block->prev;
	block->prev->next = block->next;
	memset(block + 1, 0xdb, block->bytes);
	free(block);
	current->frees++;
	sim_step();
}

void sim_free_all(void)
{
	while (blocks.next != &blocks)
		sim_free(blocks.next + 1);
}

u32 sim_allocated(void)
{
	const struct block *block;
	u32 n = 0;

	for (block = blocks.next; block != &blocks; block = block->next)
		n++;
	return n;
}

struct kmem_cache *kmem_cache_create(const char *name, size_t bytes, u32 align, u32 flags,
				     void (*ctor)(void *))
{
	struct kmem_cache *cache = sim_alloc(sizeof(*cache), 0);

	(void)name, (void)align, (void)flags, (void)ctor;
	cache->bytes = bytes;
	return cache;
}

void kmem_cache_destroy(struct kmem_cache *cache)
{
	sim_free(cache);
}

static mempool_t *new_pool(size_t bytes)
{
	mempool_t *pool = sim_alloc(sizeof(*pool), 0);

	pool->bytes = bytes;
	return pool;
}

mempool_t *mempool_create_kmalloc_pool(int n, size_t bytes)
{
	(void)n;
	return new_pool(bytes);
}

mempool_t *mempool_create_slab_pool(int n, struct kmem_cache *cache)
{
	(void)n;
	return new_pool(cache->bytes);
}

void mempool_destroy(mempool_t *pool)
{
	sim_free(pool);
}

void *mempool_alloc(mempool_t *pool, gfp_t gfp)
{
	void *mem;

	while (!(mem = sim_alloc(pool->bytes, gfp)))
		if (gfp & GFP_NOWAIT)
			return NULL;
	return mem;
}

u32 num_online_cpus(void)
{
	return w.s.cpus;
}
