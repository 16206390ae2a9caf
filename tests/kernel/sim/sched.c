// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "sched.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#define STACK_BYTES (128u << 10)
#define PATIENCE 4000000u /* steps without progress */
#define LONGEST_STALL 30000u /* steps */
#define LATE_YIELDS 2000u /* how long a starved coroutine sleeps at most */
#define NOTES 120u
#define NOTE_BYTES 120u

struct coroutine {
	const char *name;
	void (*work)(void *arg);
	void *arg;
	void *stack_pointer;
	char *stack;
	const void *key; /* the key that wakes it; NULL: the coroutine is not about to sleep */
	bool asleep, ended;
	void *fake_stack;
};

static struct coroutine coroutines[SIM_COROUTINES], *current;
static struct coroutine *stalled; /* preempted for long */
static struct coroutine *starved;
static u64 finished; /* operations of the other coroutines */
static u32 sleeps, sleeps_max;
static bool in_order; /* grant locks in the order of the calls */
static u64 stalled_until;
static u32 ncoroutines, nrunnable, every, stalls, cpus, countdown;
static struct coroutine *runnable[SIM_COROUTINES];
static void *main_stack_pointer;
#if defined(__SANITIZE_ADDRESS__)
static void *main_fake_stack;
#endif
static u64 state, steps, last_progress, stop_at;
static bool stopping;

u64 sim_seed;
bool sim_verbose;
const char *sim_replay = "";

static char notes[NOTES][NOTE_BYTES];
static u32 nnotes;

u64 sim_random(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state * 0x2545f4914f6cdd1dull >> 11;
}

void sched_seed(u64 seed)
{
	sim_seed = seed;
	state = seed * 0x9e3779b97f4a7c15ull + 0x1234567;
	nnotes = 0;
	steps = 0;
}

void sim_note(const char *format, ...)
{
	char *line = notes[nnotes++ % NOTES];
	int n = snprintf(line, NOTE_BYTES, "%10llu %-10s ", (unsigned long long)steps,
			 current ? current->name : "main");
	va_list args;

	va_start(args, format);
	vsnprintf(line + n, NOTE_BYTES - (size_t)n, format, args);
	va_end(args);
}

void sim_print_notes(void)
{
	u32 i = nnotes > NOTES ? nnotes - NOTES : 0;

	fprintf(stderr, "--- the last events (step, task, event) ---\n");
	for (; i < nnotes; i++)
		fprintf(stderr, "%s\n", notes[i % NOTES]);
}

_Noreturn void sim_fail(const char *file, int line, const char *format, ...)
{
	va_list args;

	sim_print_notes();
	fprintf(stderr, "seed %llu, step %llu, %s: ", (unsigned long long)sim_seed,
		(unsigned long long)steps, current ? current->name : "main");
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, " (%s:%d)\nreplay it: %s --seed %llu --verbose\n", file, line, sim_replay,
		(unsigned long long)sim_seed);
	fflush(NULL);
	_Exit(1);
}

/* --- switching ------------------------------------------------------------------ */

static void first_on_stack(void);

static void body(void)
{
	first_on_stack();
	current->work(current->arg);
	current->ended = true;
	sim_progress();
	for (;;)
		sim_yield();
}

#if defined(__x86_64__)

/* Save the callee-saved registers on the old stack and switch to the new one. */
void sim_switch(void **from, void *to);
__asm__(".text\n.globl sim_switch\n.type sim_switch, @function\nsim_switch:\n"
	"	push %rbp\n	push %rbx\n	push %r12\n	push %r13\n"
	"	push %r14\n	push %r15\n	mov %rsp, (%rdi)\n	mov %rsi, %rsp\n"
	"	pop %r15\n	pop %r14\n	pop %r13\n	pop %r12\n"
	"	pop %rbx\n	pop %rbp\n	ret\n"
	".size sim_switch, . - sim_switch\n");

static void prepare(struct coroutine *c)
{
	void **sp = (void **)(c->stack + STACK_BYTES);

	*--sp = NULL; /* return address of body(), which never returns */
	*--sp = (void *)body;
	sp -= 6;
	memset(sp, 0, 6 * sizeof(*sp));
	c->stack_pointer = sp;
}

#else

#include <ucontext.h>

static void sim_switch(void **from, void *to)
{
	ucontext_t here;

	*from = &here;
	swapcontext(&here, to);
}

static void prepare(struct coroutine *c)
{
	static ucontext_t contexts[SIM_COROUTINES];
	ucontext_t *context = &contexts[c - coroutines];

	getcontext(context);
	context->uc_stack.ss_sp = c->stack;
	context->uc_stack.ss_size = STACK_BYTES;
	context->uc_link = NULL;
	makecontext(context, body, 0);
	c->stack_pointer = context;
}

#endif

#if defined(__SANITIZE_ADDRESS__)

static const void *main_bottom;
static size_t main_bytes;

/* AddressSanitizer must know the next stack before a switch, and the previous one after it. */
static void leave_stack(struct coroutine *from, struct coroutine *to)
{
	__sanitizer_start_switch_fiber(from ? &from->fake_stack : &main_fake_stack,
				       to ? to->stack : main_bottom, to ? STACK_BYTES : main_bytes);
}

static void enter_stack(struct coroutine *c)
{
	const void *bottom;
	size_t bytes;

	__sanitizer_finish_switch_fiber(c ? c->fake_stack : main_fake_stack, &bottom, &bytes);
}

static void first_on_stack(void)
{
	const void *bottom;
	size_t bytes;

	__sanitizer_finish_switch_fiber(NULL, &bottom, &bytes);
	if (!main_bottom) {
		main_bottom = bottom;
		main_bytes = bytes;
	}
}

static void clean_stack(char *stack)
{
	/* An abandoned coroutine leaves its frames poisoned. */
	__asan_unpoison_memory_region(stack, STACK_BYTES);
}

#else

static void leave_stack(struct coroutine *from, struct coroutine *to)
{
}

static void enter_stack(struct coroutine *c)
{
}

static void first_on_stack(void)
{
}

static void clean_stack(char *stack)
{
}

#endif

static void switch_to(struct coroutine *to)
{
	struct coroutine *from = current;

	current = to;
	leave_stack(from, to);
	sim_switch(from ? &from->stack_pointer : &main_stack_pointer,
		   to ? to->stack_pointer : main_stack_pointer);
	enter_stack(from);
}

static void list_runnable(void)
{
	u32 i;

	nrunnable = 0;
	for (i = 0; i < ncoroutines; i++) {
		struct coroutine *c = &coroutines[i];

		if (!c->asleep && !c->ended && c != stalled)
			runnable[nrunnable++] = c;
	}
}

static void set_countdown(void)
{
	countdown = every <= 1 ? 1 : 1 + sim_lower(2 * every - 1);
}

/*
 * Sometimes stop a coroutine for long at an arbitrary step, like a thread whose CPU is
 * preempted by the host. The other coroutines make much progress in this time.
 */
static void stall(void)
{
	if (stalled && steps >= stalled_until) {
		stalled = NULL;
		list_runnable();
	} else if (stalls && !stalled && nrunnable > 1 && !sim_lower(stalls)) {
		stalled = current;
		stalled_until = steps + 1 + sim_lower(LONGEST_STALL >> sim_lower(8));
		list_runnable();
	}
}

static void turn(void)
{
	struct coroutine *to;

	set_countdown();
	if (steps - last_progress > PATIENCE)
		sim_fail(__FILE__, __LINE__, "no progress for %u steps: a livelock", PATIENCE);
	if (stopping || steps >= stop_at) {
		switch_to(NULL);
		return;
	}
	stall();
	if (!nrunnable && stalled) {
		stalled = NULL; /* only the stalled one is runnable */
		list_runnable();
	}
	if (!nrunnable) {
		u32 i, sleeping = 0;

		for (i = 0; i < ncoroutines; i++)
			sleeping += !coroutines[i].ended;
		sim_check(!sleeping, "deadlock: %u coroutines sleep and none can run", sleeping);
		switch_to(NULL);
		return;
	}
	to = runnable[sim_lower(nrunnable)];
	if (to != current)
		switch_to(to);
}

void sim_yield(void)
{
	if (!current)
		return;
	steps++;
	turn();
}

void sim_step(void)
{
	if (!current)
		return;
	steps++;
	if (--countdown == 0)
		turn();
}

u32 sim_cpu(void)
{
	return current ? (u32)(current - coroutines) % cpus : 0;
}

/* --- for the simulator ------------------------------------------------------------ */

void sched_start(u32 switch_every, u32 stall_every, u32 ncpus)
{
	ncoroutines = 0;
	nrunnable = 0;
	every = switch_every;
	stalls = stall_every;
	stalled = NULL;
	starved = NULL;
	in_order = false;
	cpus = ncpus;
	stopping = false;
	last_progress = steps;
	set_countdown();
}

/* Reuse a coroutine that has ended. */
static struct coroutine *new_coroutine(void)
{
	u32 i;

	for (i = 0; i < ncoroutines; i++)
		if (coroutines[i].ended && &coroutines[i] != current)
			return &coroutines[i];
	sim_check(ncoroutines < SIM_COROUTINES, "too many coroutines");
	return &coroutines[ncoroutines++];
}

void sched_spawn(const char *name, void (*work)(void *arg), void *arg)
{
	struct coroutine *c = new_coroutine();
	char *stack = c->stack;

	if (!stack)
		stack = aligned_alloc(4096, STACK_BYTES);
	*c = (struct coroutine){ .name = name, .work = work, .arg = arg, .stack = stack };
	clean_stack(stack);
	prepare(c);
}

void sched_run(u64 n)
{
	stop_at = steps + n;
	list_runnable();
	if (nrunnable)
		switch_to(runnable[sim_lower(nrunnable)]);
	current = NULL;
}

void sched_stop(void)
{
	stopping = true;
	for (;;)
		sim_yield();
}

void sched_switch(u32 number)
{
	struct coroutine *to = number < SIM_COROUTINES ? &coroutines[number] : NULL;

	if (to != current)
		switch_to(to);
}

u64 sched_steps(void)
{
	return steps;
}

u32 sched_self(void)
{
	return current ? (u32)(current - coroutines) : SIM_COROUTINES;
}

u32 sched_spawned(void)
{
	return ncoroutines;
}

const char *sched_name(u32 number)
{
	return coroutines[number].name;
}

void sim_progress(void)
{
	last_progress = steps;
	list_runnable();
}

u64 sched_quiet(void)
{
	return steps - last_progress;
}

void sim_prepare(const void *key)
{
	current->key = key;
}

void sim_sleep(void)
{
	if (!current->key)
		return;
	current->asleep = true;
	list_runnable();
	while (current->asleep)
		sim_yield();
}

void sim_wake(const void *key)
{
	u32 i;

	for (i = 0; i < ncoroutines; i++) {
		struct coroutine *c = &coroutines[i];

		if (c->key == key) {
			c->key = NULL;
			c->asleep = false;
		}
	}
	list_runnable();
}

void sched_grant_in_order(void)
{
	in_order = true;
}

void sched_starve(u32 max)
{
	starved = current;
	sleeps = 0;
	sleeps_max = max;
}

u32 sched_sleeps(void)
{
	return sleeps;
}

void sched_finished(void)
{
	finished++;
}

void sim_slept(void)
{
	u64 before = finished;
	u32 left;

	if (!current || current != starved)
		return;
	if (++sleeps > sleeps_max)
		sched_stop();
	for (left = LATE_YIELDS; left && finished == before; left--)
		sim_yield();
}

/* Wait for the turn of the caller, if locks are granted in order, and until @free is true. */
#define WAIT_FOR_LOCK(lock, free)                                          \
	do {                                                               \
		u32 ticket_ = in_order ? (lock)->tail++ : 0;               \
		bool slept_ = false;                                       \
		while (!(free) || (in_order && (lock)->head != ticket_)) { \
			slept_ = true;                                     \
			sim_yield();                                       \
		}                                                          \
		if (in_order)                                              \
			(lock)->head++;                                    \
		slept = slept_;                                            \
	} while (0)

void sim_lock(struct sim_lock *lock)
{
	bool slept;

	sim_step();
	WAIT_FOR_LOCK(lock, !lock->held);
	lock->held = true;
	if (slept)
		sim_slept();
}

void sim_unlock(struct sim_lock *lock)
{
	sim_check(lock->held, "a lock that is not held is released");
	lock->held = false;
	sim_step();
}

void sim_read_lock(struct sim_rwlock *lock)
{
	bool slept;

	sim_step();
	WAIT_FOR_LOCK(lock, !lock->writer && (in_order || !lock->waiting));
	lock->readers++;
	if (slept)
		sim_slept();
}

void sim_read_unlock(struct sim_rwlock *lock)
{
	sim_check(lock->readers, "a lock that is not held is released");
	lock->readers--;
	sim_step();
}

void sim_write_lock(struct sim_rwlock *lock)
{
	bool slept;

	sim_step();
	lock->waiting++;
	WAIT_FOR_LOCK(lock, !lock->writer && !lock->readers);
	lock->waiting--;
	lock->writer = true;
	if (slept)
		sim_slept();
}

void sim_write_unlock(struct sim_rwlock *lock)
{
	sim_check(lock->writer, "a lock that is not held is released");
	lock->writer = false;
	sim_step();
}
