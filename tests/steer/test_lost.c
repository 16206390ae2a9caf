// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Calls that move or unmap a mapping leave no advice behind if the monitor does not get their events,
 * or gets them late.
 */
#include "beside.h"

#include "room.h"
#include "wrap.h"

#include <sys/resource.h>

/* munmap() fails, and another thread has called setuid() before. */
static void failed_unmap_leaves_no_advice_without_monitor(void)
{
	int fd = open_file(O_RDONLY);
	struct steer_removal removal;
	char *at = map_advised(fd);

	in_move = stop;
	removal = steer_unmapping(at + SIZE / 2, SIZE / 2);
	CHECK(threads_now() == 1 && is_advised(at));
	steer_unmapped(removal, false);
	CHECK(!is_advised(at));
	/* The range has parts without a mapping. */
	at = map_advised(fd);
	in_move = stop;
	steer_unmapped(steer_unmapping(at - MB, 2 * SIZE), false);
	CHECK(!is_advised(at));
}

/* The monitor gives the first advice for a range just before the event of munmap(). */
static void late_advice_is_found(void)
{
	char *at = map_file(open_file(O_RDONLY), PROT_READ, MAP_SHARED);

	WAIT_FOR(told_of(at));
	hold_monitor();
	in_move = give_first_advice;
	CHECK(steer_unmapping(at, SIZE).advised_bytes == SIZE);
	release_monitor();
}

/* munmap() fails, and the ring is full: an event of the call is lost. */
static void lost_event_of_failed_unmap(void)
{
	char *at = map_advised(open_file(O_RDONLY));
	struct steer_removal removal;

	hold_monitor();
	removal = steer_unmapping(at, SIZE);
	fill_ring(0);
	steer_unmapped(removal, false);
	CHECK(!is_advised(at));
	release_monitor();
	/* Both events are lost: the monitor still steers the mapping. */
	at = map_advised(open_file(O_RDONLY));
	hold_monitor();
	fill_ring(0);
	steer_unmapped(steer_unmapping(at, SIZE), false);
	CHECK(is_advised(at));
	release_monitor();
}

/*
 * The ring is full at munmap(). The monitor takes all events before the kernel has unmapped the
 * range. Other memory, which the monitor must not steer, gets the address.
 */
static void lost_event_of_unmap_ends_the_mapping(void)
{
	char *at = map_file(open_file(O_RDONLY), PROT_READ, MAP_SHARED);
	struct steer_removal removal;

	WAIT_FOR(told_of(at));
	hold_monitor();
	fill_ring(0);
	removal = steer_unmapping(at, SIZE);
	release_monitor();
	CHECK(mmap(at, SIZE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
		   0) == at);
	CHECK(map_overlaps((uintptr_t)at, SIZE));
	steer_unmapped(removal, true);
	WAIT_FOR(!map_overlaps((uintptr_t)at, SIZE));
}

/* The ring has room for none, or only for the first, of the two events of mremap(). */
static void lost_event_of_move_leaves_no_advice(void)
{
	uint32_t left;
	char *at;

	for (left = 0; left < 2; left++) {
		at = map_advised(open_file(O_RDONLY));
		hold_monitor();
		fill_ring(left);
		CHECK(!is_advised(move(at, SIZE)));
		release_monitor();
	}
}

static uint32_t looks_left;

/* The thread that calls mremap() calls this function. */
void __wrap_map_find_parts(struct map_parts *parts, u64 start, u64 end)
{
	__real_map_find_parts(parts, start, end);
	if (looks_left && !--looks_left) {
		CHECK(!madvise((void *)start, end - start, MADV_RANDOM));
		give_first_advice();
	}
}

/*
 * MOVING is lost. The monitor gives its first advice after the thread has looked for advice twice,
 * and before mremap().
 */
static void first_advice_just_before_a_move_is_found(void)
{
	char *at = map_file(open_file(O_RDONLY), PROT_READ, MAP_SHARED);

	WAIT_FOR(told_of(at));
	hold_monitor();
	fill_ring(0);
	looks_left = 2;
	CHECK(!is_advised(move(at, SIZE)) && !looks_left);
	release_monitor();
}

/* The monitor takes MOVING. Then it ends all moves, because the MOVED of another thread is lost. */
static void lose_another_event(void)
{
	WAIT_FOR(!events_pending());
	events_lose(EVENTS_LOST | EVENTS_LOST_MOVE);
	CHECK(event_put(&(struct event){ .kind = EVENT_STAYED }));
	WAIT_FOR(!events_pending());
}

static void lost_event_of_another_thread_leaves_no_advice(void)
{
	char *at = map_advised(open_file(O_RDONLY)), *new;

	in_move = lose_another_event;
	new = move(at, SIZE);
	WAIT_FOR(!is_advised(new));
	WAIT_FOR(!map_overlaps((uintptr_t)at, SIZE) && !map_overlaps((uintptr_t)new, SIZE));
}

/* Move a mapping while there is no memory for the data of the new place. */
static void move_without_memory(char *at, size_t bytes, char *new)
{
	const struct rlimit all = { RLIM_INFINITY, RLIM_INFINITY }, none = { PAGE, RLIM_INFINITY };
	int i;

	for (i = 0; i < (int)ROOM_SLOTS; i++)
		room_take(PAGE);
	CHECK(!setrlimit(RLIMIT_AS, &none));
	CHECK(steer_remap(at, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, new) == new);
	CHECK(!setrlimit(RLIMIT_AS, &all));
}

static void move_without_memory_leaves_no_advice(void)
{
	char *at = map_advised(open_file(O_RDONLY)), *new = reserve();

	move_without_memory(at, SIZE, new);
	CHECK(!is_advised(new));
}

/* The part that the program has not moved is still steered. */
static void move_of_a_part_without_memory_leaves_the_rest(void)
{
	char *at = map_advised(open_file(O_RDONLY));
	struct map *rest;

	move_without_memory(at, SIZE / 2, reserve());
	WAIT_FOR(!events_pending());
	rest = map_next_in(0, (uintptr_t)at, (uintptr_t)at + SIZE);
	CHECK(rest && rest->start == (uintptr_t)at + SIZE / 2 && !rest->orphan && !rest->moving);
}

/* Make the table as large as possible, and use all entries. Returns the last one. */
static struct map *fill_table(void)
{
	struct map_block *blocks = room_map(MAP_MOST / MAP_BLOCK * sizeof(*blocks));
	struct map other = { .start = PAGE, .bytes = PAGE }, *map, *last = NULL;

	CHECK(blocks);
	while (map_add_block(blocks))
		blocks++;
	while ((map = map_take_entry(&other)))
		last = map;
	return last;
}

/* The table of mappings has no free entry for the new place. */
static void move_with_full_table_leaves_no_advice(void)
{
	char *at = map_advised(open_file(O_RDONLY));

	hold_monitor();
	fill_table();
	CHECK(!is_advised(move(at, SIZE)));
	CHECK(events_pending() && !events_bring_advice());
}

/* The event of a new mapping waits, and will take the last entry. */
static void move_before_a_full_table_leaves_no_advice(void)
{
	int fd = open_file(O_RDONLY);
	char *at = map_advised(fd);

	hold_monitor();
	map_drop(fill_table());
	map_file(fd, PROT_READ, MAP_SHARED);
	CHECK(!is_advised(move(at, SIZE)));
	CHECK(events_pending() && !events_bring_advice());
}

/* The event of a move of two mappings is lost. */
static void lost_event_of_two_mappings_leaves_no_advice(void)
{
	char *at = map_by_halves(reserve_two()), *new = reserve_two();

	hold_monitor();
	fill_ring(1);
	new = steer_remap(at, SIZE, SIZE, MREMAP_MAYMOVE | MREMAP_FIXED, new);
	CHECK((intptr_t)new > 0);
	CHECK(!has_flag(new + SIZE / 2 - PAGE, " hg") && !has_flag(new + SIZE - PAGE, " hg"));
	release_monitor();
}

/*
 * The program replaces a mapping by memory of its own and calls fork(), before the monitor has
 * taken the event.
 */
static void fork_keeps_advice_of_new_memory(void)
{
	char *at = map_advised(open_file(O_RDONLY));

	CHECK(!child_has_flag(at + SIZE - PAGE, " hg"));
	hold_monitor();
	unmap_file(at);
	map_advised_memory(at);
	CHECK(child_has_flag(at + SIZE - PAGE, " hg"));
	release_monitor();
}

RUN(failed_unmap_leaves_no_advice_without_monitor)
RUN(fork_keeps_advice_of_new_memory)
RUN(late_advice_is_found)
RUN(lost_event_of_failed_unmap)
RUN(lost_event_of_unmap_ends_the_mapping)
RUN(lost_event_of_move_leaves_no_advice)
RUN(first_advice_just_before_a_move_is_found)
RUN(lost_event_of_another_thread_leaves_no_advice)
RUN(move_without_memory_leaves_no_advice)
RUN(move_of_a_part_without_memory_leaves_the_rest)
RUN(move_with_full_table_leaves_no_advice)
RUN(move_before_a_full_table_leaves_no_advice)
RUN(lost_event_of_two_mappings_leaves_no_advice)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(failed_unmap_leaves_no_advice_without_monitor_test),
		cmocka_unit_test(fork_keeps_advice_of_new_memory_test),
		cmocka_unit_test(late_advice_is_found_test),
		cmocka_unit_test(lost_event_of_failed_unmap_test),
		cmocka_unit_test(lost_event_of_unmap_ends_the_mapping_test),
		cmocka_unit_test(lost_event_of_move_leaves_no_advice_test),
		cmocka_unit_test(first_advice_just_before_a_move_is_found_test),
		cmocka_unit_test(lost_event_of_another_thread_leaves_no_advice_test),
		cmocka_unit_test(move_without_memory_leaves_no_advice_test),
		cmocka_unit_test(move_of_a_part_without_memory_leaves_the_rest_test),
		cmocka_unit_test(move_with_full_table_leaves_no_advice_test),
		cmocka_unit_test(move_before_a_full_table_leaves_no_advice_test),
		cmocka_unit_test(lost_event_of_two_mappings_leaves_no_advice_test),
	};

	return cmocka_run_group_tests(tests, new_group, end_group);
}
