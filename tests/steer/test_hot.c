// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Hot pages of a mapping in mode RANDOM: which pages are marked as accessed, and when. There is no
 * monitor, and nothing is mapped: the tests set the bits of a look themselves.
 */
#include "common.h"

#include "act.h"
#include "call.h"
#include "hot.h"
#include "pace.h"
#include "room.h"
#include "uapi.h"
#include "wrap.h"

#include <linux/seccomp.h>

#define AT ((u64)1 << 40) /* an address that no program of this machine has */
#define MEMORY 1600u /* pages that can be cached: a round begins after each 100 pages */
#define SECOND 1000000000ull

static struct hm_touch marked[64];
static u32 marks, allowed;
static u64 now, read_pages;
static struct hm_touch lost; /* pages that the next look finds unmapped */
static bool slow; /* a look takes longer than a round may take at once */

/* As if an event waited after @allowed calls. */
bool __wrap_act_may_read(void)
{
	return allowed;
}

bool __wrap_act_mark_accessed(const struct map *map, u64 start, u64 end)
{
	CHECK(map->start == AT && marks < 64);
	if (!allowed)
		return false;
	allowed--;
	marked[marks++] = (struct hm_touch){ start, end };
	return true;
}

static void is_evicted(struct map *map, u64 start, u64 end)
{
	for (; start < end; start++)
		map->seen[start / 64] &= ~(1ul << start % 64);
}

static void look_again(struct map *map, u64 start, u64 end)
{
	CHECK(start >= map->advisor.first && start < end && end <= map->advisor.end);
	is_evicted(map, lost.start, lost.end);
	for (u32 i = 0; slow && i < 20; i++)
		nap();
}

static struct map *random_map(void)
{
	struct event event = {
		EVENT_MAPPED,	   .start = AT,		.bytes = SIZE + PAGE,
		.prot = PROT_READ, .flags = MAP_SHARED, .room_bytes = map_room(AT, SIZE + PAGE),
	};
	struct map *map;
	u64 i;

	CHECK(!map_is_full(1) || map_add_block(room_map(sizeof(struct map_block))));
	event.room = room_map(event.room_bytes);
	CHECK(event.room);
	map = map_follow(&event);
	CHECK(map);
	map->advisor.mode = HM_MODE_RANDOM;
	map->advisor.facts.memory = MEMORY;
	for (i = 0; i <= SIZE / REGION_BYTES; i++)
		map->advisor.region[i].touched = 1;
	allowed = 64;
	hot_begin();
	now = now_ns();
	hot_refresh(now, read_pages, MEMORY, look_again);
	return map;
}

static void read_more(u64 pages)
{
	marks = 0;
	now += SECOND;
	read_pages += pages;
	hot_refresh(now, read_pages, MEMORY, look_again);
}

static void is_mapped(struct map *map, u64 start, u64 end)
{
	struct hm_touch run = { start, end };
	u64 page;

	for (page = start; page < end; page++)
		map->seen[page / 64] |= 1ul << page % 64;
	hot_found(map, &run, 1);
}

/* The pages from 30 to 33 are mapped, evicted, and read again within a round. */
static struct map *map_with_hot_pages(void)
{
	struct map *map = random_map();

	is_mapped(map, 10, 20);
	is_mapped(map, 30, 33);
	read_more(100);
	CHECK(!marks);
	is_evicted(map, 30, 33);
	is_mapped(map, 30, 33);
	return map;
}

static bool marks_the_hot_pages(void)
{
	return marks == 1 && marked[0].start == 30 && marked[0].end == 33;
}

static void page_that_is_read_again_is_hot(void)
{
	map_with_hot_pages();
	read_more(100);
	CHECK(marks_the_hot_pages());
	read_more(100);
	CHECK(marks_the_hot_pages());
}

static void page_that_comes_back_late_is_not_hot(void)
{
	struct map *map = random_map();

	is_mapped(map, 30, 33);
	read_more(100);
	is_evicted(map, 30, 33);
	read_more(100);
	is_mapped(map, 30, 33);
	read_more(100);
	CHECK(!marks);
}

static void evicted_page_is_not_read(void)
{
	is_evicted(map_with_hot_pages(), 30, 31);
	read_more(100);
	CHECK(marks == 1 && marked[0].start == 31 && marked[0].end == 33);
}

static void round_needs_reads(void)
{
	map_with_hot_pages();
	read_more(99);
	CHECK(!marks);
	read_more(1);
	CHECK(marks_the_hot_pages());
}

static void only_random_mode_without_room(void)
{
	struct map *map = map_with_hot_pages();

	map->advisor.mode = HM_MODE_NORMAL;
	read_more(100);
	CHECK(!marks);
	map->advisor.mode = HM_MODE_RANDOM;
	map->suspended = true;
	read_more(100);
	CHECK(!marks);
	map->suspended = false;
	map->advisor.facts.memory = 4 * SIZE / PAGE;
	read_more(100);
	CHECK(!marks);
	map->advisor.facts.memory = MEMORY;
	read_more(100);
	CHECK(marks_the_hot_pages());
}

static void hot_page_is_forgotten(void)
{
	u32 i, rounds = 0;

	map_with_hot_pages();
	for (i = 0; i < 600; i++) {
		read_more(100);
		allowed = 64;
		rounds += marks;
	}
	CHECK(rounds > 0 && rounds <= 64);
}

static void round_goes_on_after_an_event(void)
{
	map_with_hot_pages();
	allowed = 0;
	read_more(100);
	CHECK(!marks);
	allowed = 64;
	read_more(0);
	CHECK(marks_the_hot_pages());
}

/* A round that has spent its time stops after a few regions, and continues later. */
static void round_stops_without_credit(void)
{
	struct map *map = random_map();
	u32 i, first;

	for (i = 0; i < 20; i++)
		is_mapped(map, i * REGION_PAGES, i * REGION_PAGES + 1);
	read_more(100);
	for (i = 0; i < 20; i++) {
		is_evicted(map, i * REGION_PAGES, i * REGION_PAGES + 1);
		is_mapped(map, i * REGION_PAGES, i * REGION_PAGES + 1);
	}
	slow = true;
	read_more(100);
	first = marks;
	CHECK(first && first < 20);
	slow = false;
	now += 20 * SECOND; /* the rest of a long round pays, too */
	read_more(0);
	CHECK(first + marks == 20);
}

static void looks_pay_while_pages_are_hot(void)
{
	struct map *map = random_map();

	/* Of 400 pages that are not cached, 100 are read: 12 would be read again by chance. */
	map->advisor.end = MEMORY + 400;
	is_mapped(map, 30, 33);
	is_mapped(map, 64, 94);
	read_more(100);
	is_evicted(map, 30, 33);
	is_mapped(map, 30, 33);
	read_more(100); /* 3 are too few, also to mark them */
	CHECK(hot_looks(now) == 1 && !marks);
	is_evicted(map, 64, 94);
	is_mapped(map, 64, 94);
	read_more(100);
	CHECK(hot_looks(now) > 1 && marks == 2);
	now += 20 * SECOND;
	CHECK(hot_looks(now) == 1);
}

/* The pages that the last monitor thread found, perhaps in the parent, are no evidence. */
static void next_monitor_counts_anew(void)
{
	map_with_hot_pages();
	read_more(0);
	hot_begin();
	read_more(0);
	read_more(100);
	CHECK(hot_looks(now) == 1);
}

/* The program has unmapped the pages up to 31, and from 32 on: other memory may be there now. */
static void only_pages_of_the_mapping(void)
{
	struct map *map = map_with_hot_pages();

	map->advisor.first = 31;
	map->advisor.end = 32;
	map->advisor.facts.memory = 1;
	read_more(100);
	CHECK(marks == 1 && marked[0].start == 31 && marked[0].end == 32);
}

/* A page that was evicted after the last look would be read. */
static void round_looks_again(void)
{
	map_with_hot_pages();
	lost = (struct hm_touch){ 30, 32 };
	read_more(100);
	CHECK(marks == 1 && marked[0].start == 32 && marked[0].end == 33);
}

static void old_round_is_no_evidence(void)
{
	struct map *map = random_map();

	is_mapped(map, 30, 33);
	read_more(100);
	map->suspended = true;
	read_more(1000);
	map->suspended = false;
	is_evicted(map, 30, 33);
	is_mapped(map, 30, 33);
	read_more(100);
	read_more(100);
	CHECK(!marks);
}

/* Linux before 5.14 refuses MADV_POPULATE_READ: there are no rounds, and no advice is tried. */
static void kernel_cannot_mark_pages(void)
{
	filter_advice(MADV_POPULATE_READ, SECCOMP_RET_ERRNO | EINVAL);
	CHECK(!map_with_hot_pages()->hot_used);
	read_more(100);
	CHECK(!marks && hot_looks(now) == 1);
}

/* Looks take exactly their share of the time, also while they earn several times as much. */
static void looks_take_their_share(void)
{
	const u64 most = 8 * MS; /* the longest look */
	u32 times, i;

	for (times = 1; times <= 5; times++) {
		struct pace pace = PACE_BEGIN;
		u64 spent = 0, earned = 0, cost, wait;

		for (i = 0; i < 10000; i++) {
			if (pace.credit_ns >= 0) {
				cost = i * 7919 % most;
				pace_spend(&pace, cost);
				spent += cost;
			}
			wait = pace_wait_ns(&pace, times);
			pace_earn(&pace, wait * times);
			earned += wait * times / PACE_SHARE;
			CHECK(pace.credit_ns <= PACE_CREDIT_NS);
			CHECK(spent <= (u64)PACE_CREDIT_NS + earned + most);
		}
		CHECK(spent + most >= earned);
	}
}

/* In the end looks and events together have taken the share. Looks wait no longer than a second. */
static void events_take_half_of_the_share(void)
{
	const u64 events = 1000 * MS, most = MS;
	struct pace pace = PACE_BEGIN;
	u64 spent = 0, time = 0, waited = 0, longest = 0, wait;
	u32 i;

	pace_owe(&pace, events);
	for (i = 0; pace.owed_ns || i < 1000; i++) {
		longest = waited > longest ? waited : longest;
		if (pace.credit_ns >= 0) {
			waited = 0;
			pace_spend(&pace, i * 7919 % most);
			spent += i * 7919 % most;
		}
		wait = pace_wait_ns(&pace, 1);
		pace_earn(&pace, wait);
		time += wait;
		waited += wait;
		CHECK(time < 2 * PACE_SHARE * (events + 1000 * MS));
	}
	CHECK(longest <= 1000 * MS);
	CHECK(spent + events <= (u64)PACE_CREDIT_NS + time / PACE_SHARE + most);
	CHECK(spent >= events / 2);
}

RUN(page_that_is_read_again_is_hot)
RUN(page_that_comes_back_late_is_not_hot)
RUN(evicted_page_is_not_read)
RUN(round_needs_reads)
RUN(only_random_mode_without_room)
RUN(hot_page_is_forgotten)
RUN(round_goes_on_after_an_event)
RUN(round_stops_without_credit)
RUN(only_pages_of_the_mapping)
RUN(round_looks_again)
RUN(old_round_is_no_evidence)
RUN(looks_pay_while_pages_are_hot)
RUN(next_monitor_counts_anew)
RUN(kernel_cannot_mark_pages)
RUN(looks_take_their_share)
RUN(events_take_half_of_the_share)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(page_that_is_read_again_is_hot_test),
		cmocka_unit_test(page_that_comes_back_late_is_not_hot_test),
		cmocka_unit_test(evicted_page_is_not_read_test),
		cmocka_unit_test(round_needs_reads_test),
		cmocka_unit_test(only_random_mode_without_room_test),
		cmocka_unit_test(hot_page_is_forgotten_test),
		cmocka_unit_test(round_goes_on_after_an_event_test),
		cmocka_unit_test(round_stops_without_credit_test),
		cmocka_unit_test(only_pages_of_the_mapping_test),
		cmocka_unit_test(round_looks_again_test),
		cmocka_unit_test(old_round_is_no_evidence_test),
		cmocka_unit_test(looks_pay_while_pages_are_hot_test),
		cmocka_unit_test(next_monitor_counts_anew_test),
		cmocka_unit_test(kernel_cannot_mark_pages_test),
		cmocka_unit_test(looks_take_their_share_test),
		cmocka_unit_test(events_take_half_of_the_share_test),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
