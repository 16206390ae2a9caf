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
	CHECK(!map_is_full(1) || map_add_block(room_map(sizeof(struct map_block))));
	event.room_bytes = map_room(event.start, event.bytes);
	event.room = room_map(event.room_bytes);
	CHECK(event.room);
	map = map_follow(&event);
	CHECK(map);
	state_set(RUNNING);
	return map;
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

static struct map *map_with_trap(unsigned int advice)
{
	advised = map_past_the_end();
	signal(SIGSYS, before_advice);
	filter_advice(advice, SECCOMP_RET_TRAP);
	return advised;
}

static bool is_waited_for(void)
{
	return tried && waited_for && !others_wait && !act_is_advising(advised->start, PAGE);
}

/* A munmap() of the range waits for the mark of a hot page, which must not reach other memory. */
static void mark_is_waited_for(void)
{
	struct map *map = map_with_trap(MADV_POPULATE_READ);
	u64 page = map->advisor.first;

	CHECK(events_begin());
	CHECK(act_mark_accessed(map, page, page + 2));
	CHECK(is_waited_for());
	/* An event waits, so the range may be about to go. */
	tried = false;
	CHECK(event_put(&(struct event){ EVENT_UNMAPPING, .start = map->start, .bytes = PAGE }));
	CHECK(!act_mark_accessed(map, page, page + 1) && !tried);
}

/* The same holds for advice that changes the mapping: it would stay on other memory. */
static void mode_is_waited_for(unsigned int advice, enum hm_mode mode)
{
	struct map *map = map_with_trap(advice);
	u64 page = map->advisor.first;

	map_set_mode(map, page, page + 2, mode);
	CHECK(act_sync(map) && is_waited_for());
	tried = false;
	CHECK(events_begin());
	CHECK(event_put(&(struct event){ EVENT_UNMAPPING, .start = map->start, .bytes = PAGE }));
	map_set_mode(map, page, page + 2, HM_MODE_NORMAL);
	map_set_mode(map, page + 8, page + 10, mode);
	CHECK(!act_sync(map) && map->changed && !tried);
}

static void random_mode_is_waited_for(void)
{
	mode_is_waited_for(MADV_RANDOM, HM_MODE_RANDOM);
}

static void huge_mode_is_waited_for(void)
{
	mode_is_waited_for(MADV_HUGEPAGE, HM_MODE_HUGE);
}

/* Linux before 5.18 does not know MADV_DONTNEED_LOCKED, and reads single pages in mode CHUNK. */
static void old_kernel_reads_no_regions(void)
{
	struct map *map = map_past_the_end();

	CHECK(act_settle(map) && !map->advisor.facts.small);
	filter_advice(MADV_DONTNEED_LOCKED, SECCOMP_RET_ERRNO | EINVAL);
	CHECK(act_settle(map) && map->advisor.facts.small);
}

static void kernel_without_huge_pages_reads_no_regions(void)
{
	struct map *map = map_past_the_end();

	filter_advice(MADV_HUGEPAGE, SECCOMP_RET_ERRNO | EINVAL);
	CHECK(act_settle(map) && map->advisor.facts.small);
}

/* The kernel gives advice to all parts of a range with a hole, and reports an error. */
static void hint_is_given_again_after_an_error(void)
{
	struct map *map = map_past_the_end();
	char *at = (char *)map->start;
	const struct event hint = { EVENT_HINT, .start = map->start, .bytes = map->bytes,
				    .advice = MADV_RANDOM };

	CHECK(!madvise(at, map->bytes, MADV_RANDOM));
	map_follow(&hint);
	CHECK(!munmap(at + SIZE / 2, MB));
	CHECK(!act_replace_hint(map) && act_sync(map));
	CHECK(has_flag(at, " rr"));
}

/* Events were lost. The program has mapped another file at the same address and offset. */
static void other_file_is_not_steered(void)
{
	int other = memfd_create("other", MFD_CLOEXEC);
	struct map *map = map_past_the_end();
	char *at = (char *)map->start;

	CHECK(act_settle(map));
	map_recover(EVENTS_LOST);
	CHECK(map_overlaps((uintptr_t)at, PAGE));
	CHECK(mmap(at, SIZE, PROT_READ, MAP_SHARED | MAP_FIXED, other, 0) == at);
	map_recover(EVENTS_LOST);
	CHECK(!map_overlaps((uintptr_t)at, PAGE));
}

RUN(mark_is_waited_for)
RUN(random_mode_is_waited_for)
RUN(huge_mode_is_waited_for)
RUN(hint_is_given_again_after_an_error)
RUN(other_file_is_not_steered)
RUN(old_kernel_reads_no_regions)
RUN(kernel_without_huge_pages_reads_no_regions)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mark_is_waited_for_test),
		cmocka_unit_test(random_mode_is_waited_for_test),
		cmocka_unit_test(huge_mode_is_waited_for_test),
		cmocka_unit_test(hint_is_given_again_after_an_error_test),
		cmocka_unit_test(other_file_is_not_steered_test),
		cmocka_unit_test(old_kernel_reads_no_regions_test),
		cmocka_unit_test(kernel_without_huge_pages_reads_no_regions_test),
	};

	return cmocka_run_group_tests(tests, new_group, end_group);
}
