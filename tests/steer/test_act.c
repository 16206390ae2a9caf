// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Advice for a mapping, which the test gives itself: there is no monitor. */
#include "common.h"

#include "act.h"
#include "room.h"
#include "state.h"
#include "uapi.h"

#include <linux/seccomp.h>
#include <signal.h>

/* The mapping ends 2 MB behind the file. */
static struct map *map_past_the_end(void)
{
	struct event event = { EVENT_MAPPED, .bytes = SIZE + REGION_BYTES, .prot = PROT_READ,
			       .flags = MAP_SHARED };
	void *at = mmap(NULL, event.bytes, event.prot, event.flags, open_file(O_RDONLY), 0);
	struct map *map;

	CHECK(at != MAP_FAILED);
	event.start = (uintptr_t)at;
	CHECK(!map_is_full() || map_add_block(room_map(sizeof(struct map_block))));
	event.room_bytes = map_room(event.start, event.bytes);
	event.room = room_map(event.room_bytes);
	CHECK(event.room);
	map = map_follow(&event);
	CHECK(map);
	state_set(RUNNING);
	return map;
}

static bool is_seen(const struct map *map, u64 page)
{
	return map->seen[page / 64] >> page % 64 & 1;
}

static void fill(struct map *map, u64 start, u64 end)
{
	map->advisor.advice[0] =
		(struct hm_advice){ .kind = HM_ADVICE_FILL, .start = start, .end = end };
	map->advisor.count = 1;
	act_advices(map);
}

/* The kernel maps the pages up to the end of the file, and then returns an error. */
static void pages_of_a_failed_fill_are_not_new(void)
{
	struct map *map = map_past_the_end();
	u64 end = map->advisor.end - REGION_PAGES;

	fill(map, end - 8, end + 8);
	CHECK(is_seen(map, end - 8) && is_seen(map, end - 1));
}

static struct map *advised;
static volatile bool tried, waited_for, others_wait;

/* At this moment, another thread may unmap the range and map other memory there. */
static void before_advice(int signal)
{
	(void)signal;
	tried = true;
	waited_for = act_is_advising(advised->start, PAGE);
	others_wait = act_is_advising(advised->start - PAGE, PAGE) ||
		      act_is_advising(advised->start + 2 * PAGE, PAGE);
}

static struct map *map_with_trap(void)
{
	advised = map_past_the_end();
	signal(SIGSYS, before_advice);
	filter_advice(MADV_POPULATE_READ, SECCOMP_RET_TRAP);
	return advised;
}

static bool is_waited_for(void)
{
	return tried && waited_for && !others_wait && !act_is_advising(advised->start, PAGE);
}

/* A munmap() of the range waits for the mark of a hot page, which must not reach other memory. */
static void mark_is_waited_for(void)
{
	struct map *map = map_with_trap();
	u64 page = map->advisor.first;

	CHECK(act_mark_accessed(map, page, page + 2));
	CHECK(is_waited_for());
	/* An event waits, so the range may be about to go. */
	tried = false;
	CHECK(event_put(&(struct event){ EVENT_UNMAPPING, .start = map->start, .bytes = PAGE }));
	CHECK(!act_mark_accessed(map, page, page + 1) && !tried);
}

/* A fill reads 2 MB, and maps the pages one after another. */
static void fill_is_waited_for(void)
{
	struct map *map = map_with_trap();

	fill(map, map->advisor.first, map->advisor.first + 2);
	CHECK(is_waited_for());
}

RUN(pages_of_a_failed_fill_are_not_new)
RUN(mark_is_waited_for)
RUN(fill_is_waited_for)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pages_of_a_failed_fill_are_not_new_test),
		cmocka_unit_test(mark_is_waited_for_test),
		cmocka_unit_test(fill_is_waited_for_test),
	};

	return cmocka_run_group_tests(tests, new_group, end_group);
}
