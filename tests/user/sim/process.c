// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The process: what it allocates, its threads (coroutines), its locks and its clock. When
 * the power fails, all of that is gone without a word.
 */
#include "os.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <string.h>

#include "linux.h"

#include "alloc.h"

#undef malloc
#undef calloc
#undef realloc
#undef aligned_alloc
#undef free

#define MAX_THREADS SIM_COROUTINES
#define PATIENCE_STEPS 1000000u
#define PATIENCE_MS 60000u

/* --- memory ------------------------------------------------------------------------ */

struct block {
	struct block *next, *prev;
	size_t bytes;
	bool freed;
};

static struct block blocks = { &blocks, &blocks, 0, false };

/* Of what is freed the first bytes are remembered as zeros, until the power fails. */
void *process_aligned_alloc(size_t align, size_t bytes)
{
	size_t head = (sizeof(struct block) + 63) & ~(size_t)63;
	struct block *block = aligned_alloc(64, (head + bytes + 63) & ~(size_t)63);

	sim_check(align <= 64, "an alignment of %zu", align);
	*block = (struct block){ blocks.next, &blocks, bytes, false };
	blocks.next->prev = block;
	blocks.next = block;
	memset((char *)block + head, 0x5a, bytes);
	return (char *)block + head;
}

static struct block *block_of_mem(const void *mem)
{
	return (struct block *)((char *)(uintptr_t)mem - ((sizeof(struct block) + 63) & ~63ul));
}

void *process_malloc(size_t bytes)
{
	return process_aligned_alloc(64, bytes);
}

void *process_calloc(size_t n, size_t bytes)
{
	void *mem = process_malloc(n * bytes);

	memset(mem, 0, n * bytes);
	return mem;
}

void process_free(void *mem)
{
	struct block *block = mem ? block_of_mem(mem) : NULL;

	if (!mem)
		return;
	sim_check(!block->freed, "memory is freed twice");
#ifdef __SANITIZE_ADDRESS__
	block->next->prev = block->prev;
	block->prev->next = block->next;
	free(block);
#else
	/* Kept, so that who uses it still is found out: nothing there is true any more. */
	block->freed = true;
	memset(mem, 0, block->bytes);
#endif
}

void *process_realloc(void *old, size_t bytes)
{
	void *mem = process_malloc(bytes);

	if (old) {
		size_t had = block_of_mem(old)->bytes;

		memcpy(mem, old, had < bytes ? had : bytes);
		process_free(old);
	}
	return mem;
}

/* --- locks that are held ------------------------------------------------------------ */

#define MOST_HELD 6u

static struct {
	const void *lock, *caller;
} locks[SIM_COROUTINES][MOST_HELD];
static u32 held[SIM_COROUTINES];

static void hold(const void *lock, const void *caller)
{
	u32 *n = &held[sched_self()];

	sim_check(*n < MOST_HELD, "too many locks at a time");
	locks[sched_self()][*n].lock = lock;
	locks[sched_self()][*n].caller = caller;
	++*n;
}

static void let_go(const void *lock)
{
	u32 *n = &held[sched_self()], i;

	for (i = 0; i < *n && locks[sched_self()][i].lock != lock; i++)
		;
	sim_check(i < *n, "a lock of somebody else's is released");
	locks[sched_self()][i] = locks[sched_self()][--*n];
}

u32 thread_locks_held(void)
{
	return held[sched_self()];
}

/* For who looks why a wait does not end: addr2line knows the places. */
static void note_locks(void)
{
	u32 i, k;

	for (i = 0; i < SIM_COROUTINES; i++)
		for (k = 0; k < held[i]; k++)
			sim_note("coroutine %u has lock %p, taken at %p", i, locks[i][k].lock,
				 locks[i][k].caller);
}

/* --- waiting ------------------------------------------------------------------------ */

/*
 * Time goes by leaps, and a thread may be stalled: who waits has waited for too long only
 * if both the clock and the steps of the others say so.
 */
void wait_check(struct long_wait *wait, const char *what)
{
	if (!wait->since_steps) {
		wait->since_steps = sched_steps();
		wait->since_ms = clock_now_ms();
	}
	if (sched_steps() - wait->since_steps < PATIENCE_STEPS ||
	    clock_now_ms() - wait->since_ms < PATIENCE_MS)
		return;
	note_locks();
	sim_fail(__FILE__, __LINE__, "nobody ends the wait for %s", what);
}

void wait_more(struct long_wait *wait, const char *what)
{
	wait_check(wait, what);
	sim_yield();
}

/* --- threads ------------------------------------------------------------------------ */

struct thread {
	bool used, ended, detached;
	void *(*work)(void *arg);
	void *arg;
};

static struct thread threads[MAX_THREADS];

static void thread_main(void *arg)
{
	struct thread *thread = arg;

	held[sched_self()] = 0;
	thread->work(thread->arg);
	sim_check(!held[sched_self()], "a thread ends with a lock");
	thread->ended = true;
	if (thread->detached)
		thread->used = false;
}

static u32 start(const char *name, void *(*work)(void *arg), void *arg, bool detached)
{
	u32 i;

	for (i = 0; i < MAX_THREADS && threads[i].used; i++)
		;
	sim_check(i < MAX_THREADS, "too many threads");
	threads[i] = (struct thread){ true, false, detached, work, arg };
	sched_spawn(name, thread_main, &threads[i]);
	sim_progress();
	return i;
}

int thread_create(pthread_t *thread, void *(*work)(void *), void *arg)
{
	bool refused = sim_chance(machine.refuse_percent);

	if (!refused)
		*thread = start("thread", work, arg, false);
	return refused ? EAGAIN : 0;
}

void thread_spawn(const char *name, void *(*work)(void *arg), void *arg)
{
	start(name, work, arg, true);
}

void thread_join(pthread_t thread)
{
	struct long_wait wait = { 0 };

	while (!threads[thread].ended)
		wait_more(&wait, "the end of a thread");
	threads[thread].used = false;
}

void thread_lock(struct sim_lock *lock)
{
	struct long_wait wait = { 0 };

	sim_step();
	while (lock->held)
		wait_more(&wait, "a lock");
	lock->held = true;
	hold(lock, __builtin_return_address(0));
}

void thread_unlock(struct sim_lock *lock)
{
	let_go(lock);
	sim_unlock(lock);
}

void thread_read_lock(struct sim_rwlock *lock)
{
	struct long_wait wait = { 0 };

	sim_step();
	while (lock->writer || lock->waiting)
		wait_more(&wait, "a lock, to read");
	lock->readers++;
	hold(lock, __builtin_return_address(0));
}

/* Held for writing by a fork() only, of which there are none: now and then it is busy. */
bool thread_try_read_lock(struct sim_rwlock *lock)
{
	sim_step();
	if (sim_chance(10))
		return false;
	thread_read_lock(lock);
	return true;
}

void thread_write_lock(struct sim_rwlock *lock)
{
	struct long_wait wait = { 0 };

	sim_step();
	lock->waiting++;
	while (lock->writer || lock->readers)
		wait_more(&wait, "a lock, to write");
	lock->waiting--;
	lock->writer = true;
	hold(lock, __builtin_return_address(0));
}

void thread_rw_unlock(struct sim_rwlock *lock)
{
	let_go(lock);
	if (lock->writer)
		sim_write_unlock(lock);
	else
		sim_read_unlock(lock);
}

/* The first word of a condition counts its signals; any of them may wake all. */
void thread_wait(pthread_cond_t *cond, struct sim_lock *lock)
{
	u64 *signals = (u64 *)cond, before = *signals;

	thread_unlock(lock);
	while (*signals == before && sim_below(1000))
		sim_yield(); /* for ever, if nothing is to be done */
	thread_lock(lock);
}

void thread_signal(pthread_cond_t *cond)
{
	sim_step();
	++*(u64 *)cond;
}

int thread_sem_wait(sem_t *sem)
{
	u64 *count = (u64 *)sem;

	sim_step();
	while (!*count)
		sim_yield(); /* for ever, if nothing is to be done */
	--*count;
	return 0;
}

void thread_sem_post(sem_t *sem)
{
	sim_step();
	++*(u64 *)sem;
}

/* --- time ---------------------------------------------------------------------------- */

static u64 now_ns;

u64 clock_now_ms(void)
{
	return now_ns / 1000000;
}

void clock_passes(u32 ms)
{
	now_ns += (u64)ms * 1000000;
}

uint64_t sys_clock_ns(void)
{
	sim_step();
	now_ns += 200;
	return now_ns;
}

void sys_sleep_ns(uint32_t ns)
{
	u64 until = now_ns + ns;

	do {
		sim_yield();
	} while (now_ns < until);
}

void sys_yield(void)
{
	sim_yield();
}

void clock_main(void *arg)
{
	(void)arg;
	for (;;) {
		u32 pause = 1 + sim_below(100);

		while (pause--)
			sim_yield();
		now_ns += (u64)sim_below(1000) * machine.tick_ms * 1000 + 1000;
	}
}

/* --- the machine --------------------------------------------------------------------- */

int sys_pid(void)
{
	return 1;
}

unsigned int sys_cpus(void)
{
	return 4;
}

uint64_t sys_memory_available(void)
{
	return 1ull << 40;
}

void process_new(void)
{
	struct block *block, *next;

	for (block = blocks.next; block != &blocks; block = next) {
		next = block->next;
		free(block);
	}
	blocks.next = blocks.prev = &blocks;
	memset(threads, 0, sizeof(threads));
	memset(held, 0, sizeof(held));
	now_ns = 1000000000;
}
