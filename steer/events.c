// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * A bounded ring. The number of a slot, its turn, is even if the slot is free for a writer, and
 * odd if the slot holds an event for the reader. A writer takes its turn by one compare-and-swap
 * and waits for no other writer. The reader stops at a slot that is not written yet.
 */
#include "events.h"

#include "call.h"
#include "hint.h"
#include "room.h"

#include <linux/futex.h>
#include <stddef.h>

#define SLOTS EVENTS_MOST
#define WAKE (1u << 24)

struct events_slot {
	uint64_t turn; /* n: free for event n; n + 1: event n is in it */
	struct event event;
};
/* The slots. They are no static array: each program that starts would have to map it. */
static void *events_ring;

static uint64_t head __attribute__((aligned(64))); /* events that were put */
static uint64_t tail __attribute__((aligned(64))); /* events that were taken */
static uint64_t done; /* events that were carried out */
static uint64_t advised; /* events up to the last one with @advised */
static uint32_t word; /* one more for each event, WAKE more for each wake-up */
static uint32_t sleeps; /* enum sleep: the reader sleeps, or is about to */
static unsigned int lost; /* EVENTS_LOST, EVENTS_LOST_MOVE, EVENTS_LOST_HINT */
static uint64_t lost_hint_at; /* events that were put before the last lost hint */

/* Return the turn at which a slot is free for the event of that number. Turns begin with 0. */
static uint64_t events_turn_of(uint64_t number)
{
	return number / SLOTS * 2;
}

static struct events_slot *events_slot(uint64_t number)
{
	return (struct events_slot *)events_ring + number % SLOTS;
}

bool events_begin(void)
{
	return room_map_once(&events_ring, SLOTS * sizeof(struct events_slot));
}

static void events_futex_wake(void)
{
	call(SYS_futex, (long)&word, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
}

/*
 * A wake-up costs the program several microseconds. A range that goes needs none: the reader
 * gives no advice for as long as an event waits.
 */
static void events_wake_for(enum event_kind kind)
{
	uint32_t sleep;
	bool wakes;

	__atomic_add_fetch(&word, 1, __ATOMIC_SEQ_CST);
	sleep = __atomic_load_n(&sleeps, __ATOMIC_SEQ_CST);
	wakes = (sleep && events_backlog() > EVENTS_ASLEEP) ||
		(sleep == SLEEP_UNTIL_EVENT && kind != EVENT_UNMAPPING && kind != EVENT_MOVING);
	/*
	 * One wake-up is enough. The sleep that ends here may be a later one, which begins between
	 * these steps: the new word keeps the reader awake then.
	 */
	if (wakes && __atomic_exchange_n(&sleeps, 0, __ATOMIC_SEQ_CST)) {
		__atomic_add_fetch(&word, WAKE, __ATOMIC_SEQ_CST);
		events_futex_wake();
	}
}

/* Raise a count of events. */
static void events_raise(uint64_t *count, uint64_t to)
{
	uint64_t seen = __atomic_load_n(count, __ATOMIC_RELAXED);

	while (seen < to && !__atomic_compare_exchange_n(count, &seen, to, true, __ATOMIC_SEQ_CST,
							 __ATOMIC_RELAXED))
		;
}

void events_lose(unsigned int kinds)
{
	if (kinds >= EVENTS_LOST_HINT)
		events_raise(&lost_hint_at, __atomic_load_n(&head, __ATOMIC_SEQ_CST));
	__atomic_or_fetch(&lost, kinds, __ATOMIC_SEQ_CST);
	events_wake();
}

static unsigned int events_loss_of(const struct event *event)
{
	switch (event->kind) {
	case EVENT_HINT:
		return EVENTS_LOST_HINT * hint_kind(event->advice);
	case EVENT_MOVED:
	case EVENT_STAYED:
		return EVENTS_LOST | EVENTS_LOST_MOVE;
	default:
		return EVENTS_LOST;
	}
}

bool event_put(const struct event *event)
{
	uint64_t at = __atomic_load_n(&head, __ATOMIC_RELAXED), turn;

	for (;;) {
		turn = __atomic_load_n(&events_slot(at)->turn, __ATOMIC_ACQUIRE);
		if (turn < events_turn_of(at)) {
			events_lose(events_loss_of(event));
			return false;
		}
		if (turn > events_turn_of(at))
			at = __atomic_load_n(&head, __ATOMIC_RELAXED);
		else if (__atomic_compare_exchange_n(&head, &at, at + 1, true, __ATOMIC_SEQ_CST,
						     __ATOMIC_RELAXED))
			break;
	}
	if (event->advised)
		events_raise(&advised, at + 1);
	events_slot(at)->event = *event;
	__atomic_store_n(&events_slot(at)->turn, events_turn_of(at) + 1, __ATOMIC_RELEASE);
	events_wake_for(event->kind);
	return true;
}

bool event_take(struct event *event)
{
	uint64_t at = tail;

	if (__atomic_load_n(&events_slot(at)->turn, __ATOMIC_ACQUIRE) != events_turn_of(at) + 1)
		return false;
	*event = events_slot(at)->event;
	__atomic_store_n(&events_slot(at)->turn, events_turn_of(at) + 2, __ATOMIC_RELEASE);
	tail = at + 1;
	return true;
}

bool events_waiting(void)
{
	return __atomic_load_n(&head, __ATOMIC_SEQ_CST) !=
		       __atomic_load_n(&tail, __ATOMIC_RELAXED) ||
	       __atomic_load_n(&lost, __ATOMIC_SEQ_CST);
}

void events_done(void)
{
	__atomic_store_n(&done, tail, __ATOMIC_SEQ_CST);
}

bool events_pending(void)
{
	return __atomic_load_n(&head, __ATOMIC_SEQ_CST) != __atomic_load_n(&done, __ATOMIC_SEQ_CST);
}

bool events_bring_advice(void)
{
	return __atomic_load_n(&advised, __ATOMIC_SEQ_CST) >
	       __atomic_load_n(&done, __ATOMIC_SEQ_CST);
}

/* A slot keeps its event after the reader has taken it, until a thread puts another one there. */
bool events_inherited(uint64_t start, uint64_t end)
{
	const struct events_slot *slot;
	uint64_t at;

	if (lost || head - done > SLOTS)
		return true;
	for (at = done; at < head; at++) {
		slot = events_slot(at);
		if (slot->turn > events_turn_of(at) && slot->event.start < end &&
		    start < slot->event.start + slot->event.bytes)
			return true;
	}
	return false;
}

uint32_t events_backlog(void)
{
	uint64_t carried_out = __atomic_load_n(&done, __ATOMIC_SEQ_CST);

	return (uint32_t)(__atomic_load_n(&head, __ATOMIC_SEQ_CST) - carried_out);
}

unsigned int events_lost(void)
{
	unsigned int kinds = __atomic_exchange_n(&lost, 0, __ATOMIC_ACQ_REL), later = 0;

	if (tail < __atomic_load_n(&lost_hint_at, __ATOMIC_SEQ_CST))
		later = kinds & ~(EVENTS_LOST | EVENTS_LOST_MOVE);
	if (later)
		__atomic_or_fetch(&lost, later, __ATOMIC_SEQ_CST);
	return kinds & ~later;
}

void events_clear(void)
{
	unsigned int i;

	/* In a child of fork(), each page that is written costs a page fault. */
	for (i = 0; i < SLOTS && i < head; i++)
		events_slot(i)->turn = 0;
	head = tail = done = advised = lost_hint_at = 0;
	sleeps = 0;
	lost = 0;
}

uint32_t events_word(void)
{
	return __atomic_load_n(&word, __ATOMIC_SEQ_CST);
}

void events_sleep(uint32_t seen, uint64_t ns, enum sleep kind)
{
	struct timespec time = { .tv_sec = (time_t)(ns / 1000000000u),
				 .tv_nsec = (long)(ns % 1000000000u) };

	uint32_t now;

	__atomic_store_n(&sleeps, (uint32_t)kind, __ATOMIC_SEQ_CST);
	now = events_word();
	/* Only other events than the few that do not matter change the word of the futex. */
	if (kind == SLEEP_WITH_EVENTS && now / WAKE == seen / WAKE &&
	    events_backlog() <= EVENTS_ASLEEP)
		seen = now;
	call(SYS_futex, (long)&word, FUTEX_WAIT_PRIVATE, (long)seen, (long)&time, 0, 0);
	__atomic_store_n(&sleeps, 0, __ATOMIC_SEQ_CST);
}

void events_wake(void)
{
	/* @sleeps does not show whether the reader sleeps: a writer clears it before it wakes. */
	__atomic_add_fetch(&word, WAKE, __ATOMIC_SEQ_CST);
	events_futex_wake();
}
