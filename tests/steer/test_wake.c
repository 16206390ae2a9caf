// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * What the monitor does for a program that maps and unmaps a file all the time: it takes the events
 * together, and looks up only the files of mappings that still exist.
 */
#include "common.h"

#include "call.h"
#include "events.h"
#include "map.h"
#include "room.h"
#include "state.h"
#include "wrap.h"

#define ROUNDS 20
#define SHORT_NS 5000000u

static unsigned int looked_up, looks;

/* While set, each look-up takes that much processor time. */
static unsigned int busy_ms;

static void be_busy(void)
{
	u64 until = clock_ns(CLOCK_THREAD_CPUTIME_ID) + busy_ms * 1000000ull;

	while (clock_ns(CLOCK_THREAD_CPUTIME_ID) < until)
		;
}

/* While set, the program replaces two mappings at these addresses during each look-up. */
static bool replacing;
static const uint64_t replaced[] = { 1ull << 40, 1ull << 41 };

static void replace(uint64_t start)
{
	struct event event = { EVENT_UNMAPPING, .start = start, .bytes = SIZE };

	event_put(&event);
	event.kind = EVENT_MAPPED;
	event.room_bytes = map_room(start, SIZE);
	event.room = room_map(event.room_bytes);
	if (!event.room || !event_put(&event))
		room_give_back(event.room, event.room_bytes, 0);
}

bool __wrap_area_find(uint64_t address, struct area *area)
{
	unsigned int i;

	for (i = 0; __atomic_load_n(&replacing, __ATOMIC_SEQ_CST) && i < COUNT(replaced); i++)
		replace(replaced[i]);
	be_busy();
	__atomic_add_fetch(&looked_up, 1, __ATOMIC_SEQ_CST);
	return __real_area_find(address, area);
}

uint64_t __wrap_look(const struct looker *looker, uint64_t start, uint64_t end, uint64_t base,
		     unsigned long *seen, struct hm_touch *runs, uint32_t *n, uint64_t *huge)
{
	__atomic_add_fetch(&looks, 1, __ATOMIC_SEQ_CST);
	return __real_look(looker, start, end, base, seen, runs, n, huge);
}

/* While set, the monitor is stopped just before it reads the word. */
static bool stops, slept_after_stop;

uint32_t __wrap_events_word(void)
{
	if (__atomic_load_n(&stops, __ATOMIC_SEQ_CST) && state_change(RUNNING, STOPPING))
		events_wake();
	return __real_events_word();
}

/* The monitor waits before a sleep while @hold is set. */
static bool hold, held;

/* Sleeps of the monitor that an event would end, after an event had come, and all others. */
static unsigned int ended_by_next, long_sleeps;

void __wrap_events_sleep(uint32_t word, uint64_t ns, enum sleep kind)
{
	static uint32_t before;

	if (__atomic_load_n(&stops, __ATOMIC_SEQ_CST) && word == __real_events_word())
		__atomic_store_n(&slept_after_stop, true, __ATOMIC_SEQ_CST);
	if (kind == SLEEP_UNTIL_EVENT && ns > SHORT_NS) {
		if (word != before)
			__atomic_add_fetch(&ended_by_next, 1, __ATOMIC_SEQ_CST);
		__atomic_add_fetch(&long_sleeps, 1, __ATOMIC_SEQ_CST);
	}
	before = word;
	while (__atomic_load_n(&hold, __ATOMIC_SEQ_CST)) {
		__atomic_store_n(&held, true, __ATOMIC_SEQ_CST);
		nap();
	}
	__real_events_sleep(word, ns, kind);
}

static bool has_path(const void *at)
{
	const struct steer_map *told = told_of(at);

	return told && told->path[0];
}

/* Events wait from now on until let_go(). */
static int hold_monitor(void)
{
	int fd = open_file(O_RDONLY);
	void *at = map_file(fd, PROT_READ, MAP_SHARED);

	WAIT_FOR(has_path(at));
	__atomic_store_n(&hold, true, __ATOMIC_SEQ_CST);
	WAIT_FOR(__atomic_load_n(&held, __ATOMIC_SEQ_CST));
	return fd;
}

static void let_go(void)
{
	__atomic_store_n(&hold, false, __ATOMIC_SEQ_CST);
	WAIT_FOR(!events_pending());
}

static void gone_mappings_are_not_looked_up(void)
{
	int fd = hold_monitor(), i;
	unsigned int before = __atomic_load_n(&looked_up, __ATOMIC_SEQ_CST);

	for (i = 0; i < ROUNDS; i++)
		unmap_file(map_file(fd, PROT_READ, MAP_SHARED));
	let_go();
	CHECK(__atomic_load_n(&looked_up, __ATOMIC_SEQ_CST) == before);
}

/* mremap() has moved the pages, and the event that reports the new place is still to come. */
static void moving_mapping_is_not_given_up(void)
{
	int fd = hold_monitor();
	void *at = map_file(fd, PROT_READ, MAP_SHARED);
	struct event event = { EVENT_MOVING, .start = (uintptr_t)at, .bytes = SIZE };

	CHECK(!munmap(at, SIZE) && event_put(&event));
	let_go();
	CHECK(told_of(at) && !has_path(at));
	CHECK(mmap(at, SIZE, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0) == at);
	event.kind = EVENT_STAYED;
	CHECK(event_put(&event));
	WAIT_FOR(has_path(at));
}

static void moved_mapping_is_found(void)
{
	int fd = hold_monitor();
	void *at = map_file(fd, PROT_READ, MAP_SHARED);
	void *new = mmap(NULL, SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	CHECK(new != MAP_FAILED);
	CHECK(steer_remap(at, SIZE, SIZE, MREMAP_MAYMOVE | MREMAP_FIXED, new) == new);
	let_go();
	CHECK(has_path(new) && !told_of(at));
}

/* The program wakes the monitor only after a time without events. */
static void events_are_taken_together(void)
{
	int fd = open_file(O_RDONLY), i;

	for (i = 0; i < ROUNDS; i++) {
		unmap_file(map_file(fd, PROT_READ, MAP_SHARED));
		nap();
	}
	WAIT_FOR(__atomic_load_n(&long_sleeps, __ATOMIC_SEQ_CST));
	CHECK(!__atomic_load_n(&ended_by_next, __ATOMIC_SEQ_CST));
}

/* Each pass over the table finds mappings that are new. */
static void look_ups_end_beside_new_mappings(void)
{
	unsigned int before;
	int fd = hold_monitor();

	before = __atomic_load_n(&looked_up, __ATOMIC_SEQ_CST);
	__atomic_store_n(&replacing, true, __ATOMIC_SEQ_CST);
	map_file(fd, PROT_READ, MAP_SHARED);
	__atomic_store_n(&hold, false, __ATOMIC_SEQ_CST);
	WAIT_FOR(__atomic_load_n(&looked_up, __ATOMIC_SEQ_CST) > before + 10);
	steer_alone();
	CHECK(!events_pending());
}

/* The program maps files in a loop, and then reads one. Looks alone would have paid in 50 s. */
static void looks_go_on_after_many_events(void)
{
	int fd = open_file(O_RDONLY), i;
	volatile char *at;
	unsigned int before;

	busy_ms = 20;
	for (i = 0; i < 25; i++) {
		at = map_file(fd, PROT_READ, MAP_SHARED);
		WAIT_FOR(!events_pending());
		unmap_file((void *)at);
	}
	busy_ms = 0;
	at = map_file(fd, PROT_READ, MAP_SHARED);
	WAIT_FOR(has_path((void *)at));
	before = __atomic_load_n(&looks, __ATOMIC_SEQ_CST);
	WAIT_FOR((in_order(at, MB, false), madvise((void *)at, MB, MADV_DONTNEED),
		  __atomic_load_n(&looks, __ATOMIC_SEQ_CST) > before + 10));
}

/* A caller of setuid() waits for the end of the monitor. */
static void stop_is_not_slept_through(void)
{
	hold_monitor();
	__atomic_store_n(&stops, true, __ATOMIC_SEQ_CST);
	__atomic_store_n(&hold, false, __ATOMIC_SEQ_CST);
	events_wake();
	WAIT_FOR(threads_now() == 1);
	CHECK(!slept_after_stop);
}

RUN(gone_mappings_are_not_looked_up)
RUN(moving_mapping_is_not_given_up)
RUN(moved_mapping_is_found)
RUN(events_are_taken_together)
RUN(look_ups_end_beside_new_mappings)
RUN(stop_is_not_slept_through)
RUN(looks_go_on_after_many_events)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gone_mappings_are_not_looked_up_test),
		cmocka_unit_test(moving_mapping_is_not_given_up_test),
		cmocka_unit_test(moved_mapping_is_found_test),
		cmocka_unit_test(events_are_taken_together_test),
		cmocka_unit_test(look_ups_end_beside_new_mappings_test),
		cmocka_unit_test(stop_is_not_slept_through_test),
		cmocka_unit_test(looks_go_on_after_many_events_test),
	};

	return cmocka_run_group_tests(tests, new_group, end_group);
}
