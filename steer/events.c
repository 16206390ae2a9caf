// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * A bounded ring of many writers and one reader: each slot has a number that says whose
 * turn it is. A writer takes its turn by one compare-and-swap and never waits for
 * another; the reader stops at a slot that is not written yet.
 */
#include "events.h"

#include "call.h"

#include <linux/futex.h>
#include <stddef.h>

#define SLOTS 256u

static struct {
	uint64_t turn; /* n: free for event n; n + 1: event n is in it */
	struct event event;
} slot[SLOTS] __attribute__((aligned(64)));

static uint64_t head __attribute__((aligned(64))); /* events that were begun */
static uint64_t tail __attribute__((aligned(64))); /* ... and taken */
static uint64_t done; /* ... and carried out */
static uint32_t word; /* changes with each event */
static uint32_t done_word; /* changes with each events_done() */
static uint32_t waiters;
static uint32_t sleeps; /* the reader does, or is about to */
static bool lost;

/* Slots begin with turn 0; so event n is slot n's when its turn says n less a round. */
static uint64_t turn_of(uint64_t number)
{
	return number / SLOTS * 2;
}

uint64_t event_put(const struct event *event)
{
	uint64_t at = __atomic_load_n(&head, __ATOMIC_RELAXED), turn;

	for (;;) {
		turn = __atomic_load_n(&slot[at % SLOTS].turn, __ATOMIC_ACQUIRE);
		if (turn < turn_of(at)) {
			__atomic_store_n(&lost, true, __ATOMIC_RELEASE);
			events_wake();
			return 0;
		}
		if (turn > turn_of(at))
			at = __atomic_load_n(&head, __ATOMIC_RELAXED);
		else if (__atomic_compare_exchange_n(&head, &at, at + 1, true, __ATOMIC_RELAXED,
						     __ATOMIC_RELAXED))
			break;
	}
	slot[at % SLOTS].event = *event;
	__atomic_store_n(&slot[at % SLOTS].turn, turn_of(at) + 1, __ATOMIC_RELEASE);
	events_wake();
	return at + 1;
}

bool event_take(struct event *event)
{
	uint64_t at = tail;

	if (__atomic_load_n(&slot[at % SLOTS].turn, __ATOMIC_ACQUIRE) != turn_of(at) + 1)
		return false;
	*event = slot[at % SLOTS].event;
	__atomic_store_n(&slot[at % SLOTS].turn, turn_of(at) + 2, __ATOMIC_RELEASE);
	tail = at + 1;
	return true;
}

bool events_waiting(void)
{
	return __atomic_load_n(&head, __ATOMIC_SEQ_CST) != __atomic_load_n(&tail, __ATOMIC_RELAXED);
}

void events_done(void)
{
	if (__atomic_load_n(&done, __ATOMIC_RELAXED) == tail)
		return;
	__atomic_store_n(&done, tail, __ATOMIC_RELEASE);
	__atomic_add_fetch(&done_word, 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&waiters, __ATOMIC_SEQ_CST))
		call(SYS_futex, (long)&done_word, FUTEX_WAKE_PRIVATE, INT32_MAX, 0, 0, 0);
}

bool events_lost(void)
{
	return __atomic_exchange_n(&lost, false, __ATOMIC_ACQ_REL);
}

void events_clear(void)
{
	unsigned int i;

	for (i = 0; i < SLOTS; i++)
		slot[i].turn = 0;
	head = tail = done = 0;
	waiters = 0;
	lost = false;
}

static void sleep_on(uint32_t *at, uint32_t seen, uint64_t ns)
{
	struct timespec time = { .tv_sec = (time_t)(ns / 1000000000u),
				 .tv_nsec = (long)(ns % 1000000000u) };

	call(SYS_futex, (long)at, FUTEX_WAIT_PRIVATE, (long)seen, (long)&time, 0, 0);
}

void event_wait(uint64_t number, uint64_t ns)
{
	uint64_t until = now_ns() + ns, now;
	uint32_t seen;

	if (!number)
		return;
	__atomic_add_fetch(&waiters, 1, __ATOMIC_SEQ_CST);
	for (;;) {
		seen = __atomic_load_n(&done_word, __ATOMIC_SEQ_CST);
		now = now_ns();
		if (__atomic_load_n(&done, __ATOMIC_ACQUIRE) >= number || now >= until)
			break;
		sleep_on(&done_word, seen, until - now);
	}
	__atomic_sub_fetch(&waiters, 1, __ATOMIC_SEQ_CST);
}

uint32_t events_word(void)
{
	return __atomic_load_n(&word, __ATOMIC_ACQUIRE);
}

void events_sleep(uint32_t seen, uint64_t ns)
{
	__atomic_store_n(&sleeps, 1, __ATOMIC_SEQ_CST);
	sleep_on(&word, seen, ns);
	__atomic_store_n(&sleeps, 0, __ATOMIC_SEQ_CST);
}

void events_wake(void)
{
	__atomic_add_fetch(&word, 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&sleeps, __ATOMIC_SEQ_CST))
		call(SYS_futex, (long)&word, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
}
