// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The ring of events has many writers and one reader. No writer waits, and each lost event is
 * reported.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <sched.h>
#include <time.h>
#include <cmocka.h>

#include "events.h"

#define WRITERS 4
#define EACH 20000

static void new_ring(void)
{
	events_clear();
	assert_true(events_begin());
}

static bool put(uint64_t start)
{
	struct event event = { .kind = EVENT_HINT, .start = start, .bytes = ~start };

	return event_put(&event);
}

static void order_is_kept(void **state)
{
	struct event event;
	uint64_t i;

	new_ring();
	assert_false(event_take(&event));
	for (i = 1; i <= 1000; i++) {
		assert_true(put(i));
		assert_true(events_pending());
		assert_true(events_waiting());
		assert_true(event_take(&event));
		assert_int_equal(event.start, i);
		assert_false(events_waiting());
		assert_true(events_pending());
		events_done();
		assert_false(events_pending());
	}
	assert_false(events_lost());
}

static void event_without_room_is_reported_as_lost(void **state)
{
	struct event event;
	uint64_t i, room = 0;

	new_ring();
	while (put(room + 1))
		room++;
	assert_int_equal(room, 1024);
	assert_false(event_put(&(struct event){ .kind = EVENT_MOVED }));
	assert_int_equal(events_lost(), EVENTS_LOST | EVENTS_LOST_MOVE);
	assert_false(event_put(&(struct event){ .kind = EVENT_MOVING }));
	assert_int_equal(events_lost(), EVENTS_LOST);
	for (i = 1; i <= room; i++) {
		assert_true(event_take(&event));
		assert_int_equal(event.start, i);
	}
	assert_false(event_take(&event));
	assert_int_equal(events_lost(), EVENTS_LOST_HINT);
	assert_false(events_lost());
	assert_true(put(7));
}

/* An older event must not end a hint that was lost after it. */
static void lost_hint_follows_older_events(void **state)
{
	struct event event;
	uint64_t i;

	new_ring();
	for (i = 0; put(i); i++)
		;
	for (; i; i--) {
		assert_true(events_waiting());
		assert_false(events_lost());
		assert_true(event_take(&event));
	}
	/* The ring is empty, and the monitor must give no advice before it knows of the hint. */
	assert_true(events_waiting());
	/* Newer events may come before the report. */
	assert_true(put(1));
	assert_int_equal(events_lost(), EVENTS_LOST_HINT);
	assert_true(event_take(&event));
	assert_false(events_waiting() || events_lost());
}

static uint64_t lost_by[WRITERS];

static void *writer(void *arg)
{
	uint64_t who = (uint64_t)(uintptr_t)arg, i;

	for (i = 0; i < EACH; i++)
		if (!put(who << 32 | i))
			__atomic_add_fetch(&lost_by[who], 1, __ATOMIC_RELAXED);
	return NULL;
}

static void concurrent_writers_lose_no_event_silently(void **state)
{
	uint64_t next[WRITERS] = {}, taken = 0, lost = 0, i;
	pthread_t thread[WRITERS];
	struct event event;
	bool told = false;

	new_ring();
	for (i = 0; i < WRITERS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, writer, (void *)(uintptr_t)i), 0);
	for (;;) {
		uint64_t who, number;

		told |= events_lost();
		if (!event_take(&event)) {
			for (i = 0, lost = 0; i < WRITERS; i++)
				lost += __atomic_load_n(&lost_by[i], __ATOMIC_RELAXED);
			if (taken + lost == WRITERS * EACH)
				break;
			sched_yield();
			continue;
		}
		/* Each event is complete, and the events of each writer are in order. */
		assert_true(event.bytes == ~event.start);
		who = event.start >> 32;
		number = event.start & 0xffffffff;
		assert_true(who < WRITERS && number >= next[who] && number < EACH);
		next[who] = number + 1;
		taken++;
	}
	for (i = 0; i < WRITERS; i++)
		pthread_join(thread[i], NULL);
	told |= events_lost();
	assert_true(taken > 0);
	assert_true(told == (lost > 0));
}

static uint32_t seen;
static enum sleep sleep_kind;
static bool awake;

static void *sleeper(void *arg)
{
	events_sleep(seen, 1000000000000u, sleep_kind);
	__atomic_store_n(&awake, true, __ATOMIC_SEQ_CST);
	return NULL;
}

/* A reader that saw a word before goes to sleep. Returns its thread. */
static pthread_t sleep_after(uint32_t word, enum sleep kind)
{
	const struct timespec pause = { .tv_nsec = 20000000 };
	pthread_t thread;

	seen = word;
	sleep_kind = kind;
	awake = false;
	assert_int_equal(pthread_create(&thread, NULL, sleeper, NULL), 0);
	nanosleep(&pause, NULL);
	return thread;
}

static pthread_t let_sleep(enum sleep kind)
{
	return sleep_after(events_word(), kind);
}

static bool is_awake(void)
{
	const struct timespec pause = { .tv_nsec = 20000000 };

	nanosleep(&pause, NULL);
	return __atomic_load_n(&awake, __ATOMIC_SEQ_CST);
}

/* Returns whether a reader that saw a word before does not sleep. */
static bool is_awake_after(uint32_t word, enum sleep kind)
{
	pthread_t thread = sleep_after(word, kind);
	bool found = is_awake();

	events_wake();
	pthread_join(thread, NULL);
	return found;
}

/* A wake-up costs the program's thread microseconds. */
static void reader_sleeps_with_events(void **state)
{
	const struct event gone = { .kind = EVENT_UNMAPPING };
	pthread_t thread;
	uint64_t i;

	new_ring();
	thread = let_sleep(SLEEP_WITH_EVENTS);
	assert_true(put(1) && event_put(&gone));
	assert_false(is_awake());
	for (i = 2; i < EVENTS_ASLEEP; i++)
		assert_true(put(i));
	assert_false(is_awake());
	assert_true(put(i));
	pthread_join(thread, NULL);
	new_ring();
	thread = let_sleep(SLEEP_UNTIL_EVENT);
	assert_true(event_put(&gone));
	assert_false(is_awake());
	assert_true(put(1));
	pthread_join(thread, NULL);
}

/* Events come between the reader's look at the ring and its sleep. */
static void reader_goes_to_sleep_with_events(void **state)
{
	uint32_t i, before = events_word();

	new_ring();
	assert_true(put(1));
	assert_false(is_awake_after(before, SLEEP_WITH_EVENTS));
	before = events_word();
	assert_true(put(2));
	assert_true(is_awake_after(before, SLEEP_UNTIL_EVENT));
	before = events_word();
	events_wake();
	assert_true(is_awake_after(before, SLEEP_WITH_EVENTS));
	before = events_word();
	for (i = 2; i <= EVENTS_ASLEEP; i++)
		assert_true(put(i));
	assert_true(is_awake_after(before, SLEEP_WITH_EVENTS));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(order_is_kept),
		cmocka_unit_test(event_without_room_is_reported_as_lost),
		cmocka_unit_test(lost_hint_follows_older_events),
		cmocka_unit_test(concurrent_writers_lose_no_event_silently),
		cmocka_unit_test(reader_sleeps_with_events),
		cmocka_unit_test(reader_goes_to_sleep_with_events),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
