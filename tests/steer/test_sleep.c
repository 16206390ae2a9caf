// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The reader of the ring misses no wake-up, in any order of the steps of all threads. This program
 * contains the code of the ring. Each atomic access there, and each call of the kernel, is a step:
 * a task gives the processor up before it. A run takes one order of the steps. All orders with few
 * preemptions are tried, one after the other, so the result does not depend on time.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <ucontext.h>
#include <cmocka.h>

#include "call.h"
#include "events.h"

static void step(void);
static long model_call(long number, long word_at, long operation, long value);

/* A writer wakes the reader for two events more than a run can leave. */
#undef EVENTS_ASLEEP
#define EVENTS_ASLEEP 1u
#define call(number, a, b, c, d, e, f) ((void)(d), model_call(number, a, b, c))
#define __atomic_load_n(at, order) (step(), __atomic_load_n(at, order))
#define __atomic_store_n(at, value, order) (step(), __atomic_store_n(at, value, order))
#define __atomic_exchange_n(at, value, order) (step(), __atomic_exchange_n(at, value, order))
#define __atomic_add_fetch(at, value, order) (step(), __atomic_add_fetch(at, value, order))
#define __atomic_or_fetch(at, value, order) (step(), __atomic_or_fetch(at, value, order))
#define __atomic_compare_exchange_n(at, expected, value, weak, success, failure) \
	(step(), __atomic_compare_exchange_n(at, expected, value, weak, success, failure))
#include "../../steer/events.c"

#define TASKS 3
#define READER 0
#define WRITER 1
#define STACK (64u << 10)
#define CHOICES 400

/* --- tasks --- */

static struct task {
	ucontext_t context;
	char stack[STACK];
	void (*run)(void);
	bool ended;
	bool asleep; /* in the kernel */
} tasks[TASKS];
static ucontext_t scheduler;
static int current = -1; /* -1: the scheduler runs */

static void step(void)
{
	if (current >= 0)
		swapcontext(&tasks[current].context, &scheduler);
}

static long model_call(long number, long word_at, long operation, long value)
{
	step();
	if (operation == FUTEX_WAKE_PRIVATE) {
		tasks[READER].asleep = false;
	} else if (*(uint32_t *)word_at == (uint32_t)value) {
		tasks[READER].asleep = true;
		step();
		tasks[READER].asleep = false;
	}
	return 0;
}

static void task_begin(void)
{
	tasks[current].run();
	tasks[current].ended = true;
	step();
}

/* --- the orders of the steps --- */

/* The choice at each point of a run where there are several. */
static struct {
	int chosen, options;
} choices[CHOICES];
static int choices_made, choices_known;
/* The most preemptions of a run. A timeout of the reader's sleep is one, too. */
static unsigned int preemptions_most;

static int choose(int options)
{
	if (options == 1)
		return 0;
	assert_true(choices_made < CHOICES);
	if (choices_made == choices_known) {
		choices[choices_known].chosen = 0;
		choices[choices_known++].options = options;
	}
	assert_int_equal(choices[choices_made].options, options);
	return choices[choices_made++].chosen;
}

/* Change the last choice that has another option. Returns false if all runs were made. */
static bool choose_next_run(void)
{
	choices_made = 0;
	while (choices_known) {
		if (++choices[choices_known - 1].chosen < choices[choices_known - 1].options)
			return true;
		choices_known--;
	}
	return false;
}

static bool stopped;
/* The first writer makes no step after the stop: a signal handler stops the monitor in its call. */
static bool writer_is_interrupted;

static bool is_ready(int i)
{
	return tasks[i].run && !tasks[i].ended && !tasks[i].asleep &&
	       !(i == WRITER && writer_is_interrupted && stopped);
}

/* Returns the task that makes the next step; -1 = none can. */
static int choose_task(int last, unsigned int *preemptions)
{
	int options[TASKS], n = 0, i;
	bool ready = false;

	for (i = 0; i < TASKS; i++)
		ready |= is_ready(i);
	if (!ready)
		return -1;
	if (is_ready(last))
		options[n++] = last;
	for (i = 0; i < TASKS; i++)
		if (i != last && is_ready(i) &&
		    (!is_ready(last) || *preemptions < preemptions_most))
			options[n++] = i;
	if (tasks[READER].asleep && *preemptions < preemptions_most)
		options[n++] = READER;
	i = options[choose(n)];
	if ((i != last && is_ready(last)) || tasks[i].asleep)
		++*preemptions;
	return i;
}

/* --- the program --- */

static enum sleep sleep_kind;
static unsigned int put, taken; /* events that end SLEEP_UNTIL_EVENT */

/* The loop of the monitor. */
static void reader(void)
{
	struct event event;
	uint32_t seen;

	for (;;) {
		seen = events_word();
		step();
		if (stopped)
			return;
		while (event_take(&event))
			taken += event.kind == EVENT_HINT;
		events_done();
		events_sleep(seen, 1000000, sleep_kind);
	}
}

static void put_one(void)
{
	put++;
	event_put(&(struct event){ .kind = EVENT_HINT });
}

static void put_two(void)
{
	put_one();
	put_one();
}

static void unmap_two(void)
{
	event_put(&(struct event){ .kind = EVENT_UNMAPPING });
	event_put(&(struct event){ .kind = EVENT_UNMAPPING });
}

static void stop(void)
{
	step();
	stopped = true;
	events_wake();
}

static void begin_run(void)
{
	int i;

	events_clear();
	assert_true(events_begin());
	stopped = false;
	put = taken = 0;
	for (i = 0; i < TASKS; i++) {
		tasks[i].ended = tasks[i].asleep = false;
		assert_false(getcontext(&tasks[i].context));
		tasks[i].context.uc_stack.ss_sp = tasks[i].stack;
		tasks[i].context.uc_stack.ss_size = STACK;
		makecontext(&tasks[i].context, task_begin, 0);
	}
}

/* Let a task make a step. */
static void resume(int task)
{
	current = task;
	swapcontext(&scheduler, &tasks[task].context);
	current = -1;
}

static void run_once(void)
{
	unsigned int preemptions = 0;
	int task = READER;

	begin_run();
	while ((task = choose_task(task, &preemptions)) >= 0)
		resume(task);
}

/* All orders of the steps of a reader and two other tasks. The reader must not sleep at the end. */
static void try_all(enum sleep kind, void (*first)(void), void (*second)(void))
{
	unsigned long runs = 0;

	tasks[READER].run = reader;
	tasks[WRITER].run = first;
	tasks[2].run = second;
	sleep_kind = kind;
	preemptions_most = second ? 2 : 4;
	choices_known = choices_made = 0;
	do {
		run_once();
		runs++;
		if (tasks[READER].ended)
			continue;
		assert_false(stopped);
		assert_true(events_backlog() <= EVENTS_ASLEEP);
		assert_true(kind == SLEEP_WITH_EVENTS || put == taken);
	} while (choose_next_run());
	printf("%lu orders\n", runs);
	assert_true(runs > 1000);
}

static void event_ends_the_sleep(void **state)
{
	try_all(SLEEP_UNTIL_EVENT, put_two, NULL);
	try_all(SLEEP_UNTIL_EVENT, put_one, put_one);
	try_all(SLEEP_UNTIL_EVENT, put_one, unmap_two);
}

static void many_events_end_the_sleep(void **state)
{
	try_all(SLEEP_WITH_EVENTS, put_two, put_one);
	try_all(SLEEP_WITH_EVENTS, unmap_two, put_one);
}

static void stop_ends_the_sleep(void **state)
{
	try_all(SLEEP_UNTIL_EVENT, put_one, stop);
	try_all(SLEEP_UNTIL_EVENT, unmap_two, stop);
	try_all(SLEEP_WITH_EVENTS, put_two, stop);
}

static void handler_ends_the_sleep(void **state)
{
	writer_is_interrupted = true;
	try_all(SLEEP_UNTIL_EVENT, put_one, stop);
	try_all(SLEEP_WITH_EVENTS, put_two, stop);
	writer_is_interrupted = false;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(event_ends_the_sleep),
		cmocka_unit_test(many_events_end_the_sleep),
		cmocka_unit_test(stop_ends_the_sleep),
		cmocka_unit_test(handler_ends_the_sleep),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
