// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Scans of many mappings, in the time of the test: there is no monitor, and nothing is mapped. The
 * linker replaces look() by a function that takes processor time and finds accesses.
 */
#include "common.h"

#include "call.h"
#include "memory.h"
#include "pace.h"
#include "room.h"
#include "scan.h"
#include "state.h"
#include "wrap.h"

#include <pthread.h>

#define AT ((u64)1 << 40) /* an address that no program of this machine has */
#define MAPS 16u
#define LOOK_NS 200000u

static struct scan_buffers buffers;
static bool accesses; /* each look finds one */
static bool event_comes; /* with each look */
static u32 looks;
static u64 now;

uint64_t memory_for_cache(void)
{
	return SIZE;
}

uint64_t memory_read_again(void)
{
	return 0;
}

uint64_t __wrap_look(const struct looker *looker, uint64_t start, uint64_t end, uint64_t base,
		     unsigned long *seen, struct hm_touch *runs, uint32_t *n, uint64_t *huge)
{
	u64 until = clock_ns(CLOCK_THREAD_CPUTIME_ID) + LOOK_NS, pages = (end - start) / PAGE;
	u64 page = (start - base) / PAGE + random_number() % pages;

	(void)looker;
	(void)seen;
	(void)huge;
	looks++;
	if (event_comes)
		CHECK(events_begin() &&
		      event_put(&(struct event){ EVENT_HINT, .start = AT, .bytes = PAGE }));
	while (clock_ns(CLOCK_THREAD_CPUTIME_ID) < until)
		;
	if (accesses && *n < LOOK_RUNS)
		runs[(*n)++] = (struct hm_touch){ page, page + 1 };
	return end;
}

static void *fault(void *page)
{
	u32 i;

	for (i = 0; i < 2 * MAPS; i++) {
		CHECK(!madvise(page, PAGE, MADV_DONTNEED));
		*(volatile char *)page = 1;
	}
	return NULL;
}

/* Page faults of another thread, as those of this one would be those of the monitor. */
static void fault_elsewhere(void)
{
	static void *page;
	pthread_t thread;

	if (!page)
		page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(page != MAP_FAILED && !pthread_create(&thread, NULL, fault, page));
	CHECK(!pthread_join(thread, NULL));
}

static void random_maps(u64 bytes)
{
	struct event event = { EVENT_MAPPED, .bytes = bytes, .prot = PROT_READ,
			       .flags = MAP_SHARED };
	struct map *map;
	u32 i;

	CHECK(!map_is_full(1) || map_add_block(room_map(sizeof(struct map_block))));
	for (i = 0; i < MAPS; i++) {
		event.start = AT + 2 * i * bytes;
		event.room_bytes = map_room(event.start, bytes);
		event.room = room_map(event.room_bytes);
		map = map_follow(&event);
		CHECK(event.room && map);
		map->unsettled = false;
		map->advisor.mode = HM_MODE_RANDOM;
	}
	state_set(RUNNING);
	CHECK(scan_begin(&buffers));
	now = now_ns();
}

/* Let the monitor's time pass. */
static void scan_for(u64 seconds)
{
	u64 until = now + seconds * 1000000000u;

	while (now < until) {
		fault_elsewhere();
		now += scan_run(now);
	}
}

static u32 suspended(void)
{
	struct map *map;
	u32 n = 0;

	for_each_map(map)
		n += map->suspended;
	return n;
}

/* Scans of all mappings are slow, so accesses must confirm the advice for each of them. */
static void accesses_confirm_many_mappings(void)
{
	accesses = true;
	random_maps(SIZE / 2);
	scan_for(30);
	CHECK(suspended() == 0);
	accesses = false;
	scan_for(30);
	CHECK(suspended() == MAPS);
	accesses = true;
	scan_for(30);
	CHECK(suspended() == 0);
}

/* Each mapping has many slices. */
static void accesses_confirm_large_mappings(void)
{
	accesses = true;
	random_maps(64 * SIZE);
	scan_for(30);
	CHECK(suspended() == 0);
}

static void use_processor(u64 ns)
{
	u64 until = clock_ns(CLOCK_THREAD_CPUTIME_ID) + ns;

	while (clock_ns(CLOCK_THREAD_CPUTIME_ID) < until)
		;
}

/* The pause after a wake-up pays for that wake-up only. The next one must leave time for looks. */
static void wake_ups_leave_time_for_looks(void)
{
	u64 elapsed = 0;

	random_maps(SIZE / 2);
	scan_for(10);
	looks = 0;
	while (elapsed < 30 * 1000 * MS) {
		fault_elsewhere();
		use_processor(MS);
		elapsed += scan_run(now + elapsed);
	}
	CHECK(looks >= 30);
}

/* For 2 s, events take a quarter of a processor. */
static void take_events(void)
{
	u32 i;

	for (i = 0; i < 40; i++) {
		fault_elsewhere();
		use_processor(25 * MS / 2);
		scan_owe_events();
		scan_run(now += 50 * MS);
	}
}

/* A program that has mapped files in a loop may begin another phase. */
static void looks_go_on_after_many_events(void)
{
	random_maps(SIZE / 2);
	scan_for(10);
	take_events();
	looks = 0;
	scan_for(1);
	CHECK(looks);
}

/* Looks also go on while there are events, and slower than without events until these are paid. */
static void looks_pay_for_events(void)
{
	u32 before;

	random_maps(SIZE / 2);
	scan_for(10);
	looks = 0;
	scan_for(10);
	before = looks;
	looks = 0;
	take_events();
	CHECK(looks);
	CHECK(scan_is_overdrawn());
	looks = 0;
	scan_for(10);
	CHECK(looks < before * 2 / 3);
	scan_for(100);
	CHECK(!scan_is_overdrawn());
}

/* Each thread of a process continues with the credit of the last one. */
static void new_thread_gets_no_new_credit(void)
{
	u64 begin = now_ns();
	u32 i;

	random_maps(SIZE / 2);
	for (looks = i = 0; i < 300; i++) {
		fault_elsewhere();
		CHECK(scan_begin(&buffers));
		scan_run(now_ns());
	}
	CHECK((u64)looks * LOOK_NS < 10 * MS + (now_ns() - begin) / PACE_SHARE);
}

/*
 * A server may make many children that end after a few milliseconds. The time that the test itself
 * takes earns credit as well, so it counts. The process has no credit for its wake-ups either. On a
 * busy machine they cost so much that the first look comes later.
 */
static void child_pays_for_its_first_looks(void)
{
	u64 begin = now_ns(), until;
	u32 rounds = 0;

	accesses = true;
	scan_forget();
	random_maps(SIZE / 2);
	for (until = now + 10 * MS; now < until || !looks;) {
		fault_elsewhere();
		now += scan_run(now);
		CHECK(rounds++ < 1000);
	}
	CHECK((u64)looks * LOOK_NS <= 2 * LOOK_NS + (now - begin) / PACE_SHARE);
}

/* A thread of the program may wait until the monitor has taken an event. */
static void event_ends_a_scan(void)
{
	random_maps(64 * SIZE);
	event_comes = true;
	while (!looks) {
		fault_elsewhere();
		now += scan_run(now);
	}
	CHECK(looks == 1);
}

/* The policy compares the pages that the process reads with those that it uses. */
static void reads_and_uses_reach_the_policy(void)
{
	static char data[SIZE / 2];
	int fd = open_file(O_RDWR);
	struct map *map;

	accesses = true;
	random_maps(SIZE / 2);
	scan_for(1);
	forget_cached(fd);
	CHECK(pread(fd, data, sizeof(data), 0) == sizeof(data));
	scan_for(30);
	for_each_map(map) {
		CHECK(map->advisor.facts.read >= sizeof(data) / PAGE);
		CHECK(map->advisor.facts.used > MAPS);
	}
}

RUN(accesses_confirm_many_mappings)
RUN(accesses_confirm_large_mappings)
RUN(wake_ups_leave_time_for_looks)
RUN(looks_go_on_after_many_events)
RUN(looks_pay_for_events)
RUN(new_thread_gets_no_new_credit)
RUN(child_pays_for_its_first_looks)
RUN(event_ends_a_scan)
RUN(reads_and_uses_reach_the_policy)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(accesses_confirm_many_mappings_test),
		cmocka_unit_test(accesses_confirm_large_mappings_test),
		cmocka_unit_test(wake_ups_leave_time_for_looks_test),
		cmocka_unit_test(looks_go_on_after_many_events_test),
		cmocka_unit_test(looks_pay_for_events_test),
		cmocka_unit_test(new_thread_gets_no_new_credit_test),
		cmocka_unit_test(child_pays_for_its_first_looks_test),
		cmocka_unit_test(event_ends_a_scan_test),
		cmocka_unit_test(reads_and_uses_reach_the_policy_test),
	};

	return cmocka_run_group_tests(tests, new_group, end_group);
}
