// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Calls that move or unmap a mapping leave no advice behind while the monitor works. The monitor may
 * end at that moment, and events may be lost.
 */
#include "common.h"

#include "area.h"
#include "call.h"
#include "map.h"
#include "room.h"
#include "wrap.h"

#include <pthread.h>
#include <semaphore.h>
#include <sys/resource.h>

static void (*in_move)(void);

/* The thread that calls mremap() calls this function just before. */
void __wrap_watch_wait_advice(uint64_t start, uint64_t bytes)
{
	void (*run)(void) = in_move;

	__real_watch_wait_advice(start, bytes);
	in_move = NULL;
	if (run)
		run();
}

static void stop(void)
{
	steer_alone();
	steer_alone_end();
}

/* Map the file, and move it while another thread calls setuid(). Returns the new address. */
static char *move_and_stop(size_t length, int flags, char **old)
{
	char *new = mmap(NULL, SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	int fd = open_file(O_RDONLY);

	forget_cached(fd);
	*old = map_file(fd, PROT_READ, MAP_SHARED);
	CHECK(new != MAP_FAILED);
	IN_ORDER_UNTIL(*old, false, has_flag(*old + SIZE - PAGE, " hg"));
	in_move = stop;
	new = steer_remap(*old, SIZE, length, flags, new);
	CHECK(threads_now() == 1);
	return new;
}

static bool may_have_advice(u64 start, u64 bytes)
{
	struct map_parts parts = {};

	map_find_parts(&parts, start, start + bytes);
	return map_parts_advised(&parts);
}

static void moved_mapping_has_no_advice_without_monitor(void)
{
	char *old, *new = move_and_stop(SIZE, MREMAP_MAYMOVE | MREMAP_FIXED, &old);

	CHECK((intptr_t)new > 0 && !has_flag(new + SIZE - PAGE, " hg"));
	/* MOVED waits for the next monitor, and brings no advice. */
	CHECK(events_bring_advice() && !may_have_advice((uintptr_t)new, SIZE));
	/* The old place of the file keeps its flags, too. */
	new = move_and_stop(SIZE, MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, &old);
	CHECK((intptr_t)new > 0 && !has_flag(new + SIZE - PAGE, " hg"));
	CHECK(!has_flag(old + SIZE - PAGE, " hg"));
	new = move_and_stop(SIZE, 1 << 20, &old); /* no such flag */
	CHECK(new == (void *)-EINVAL && !has_flag(old + SIZE - PAGE, " hg"));
}

/* Map a file, and read it in order until the monitor gives advice for the whole mapping. */
static char *map_advised(int fd)
{
	char *at = map_file(fd, PROT_READ, MAP_SHARED);

	IN_ORDER_UNTIL(at, false, has_flag(at + SIZE - PAGE, " hg"));
	return at;
}

static bool is_advised(const char *at)
{
	return has_flag(at + SIZE - PAGE, " hg") || has_flag(at + SIZE - PAGE, " rr");
}

static char *reserve(void)
{
	char *at = mmap(NULL, SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	CHECK(at != MAP_FAILED);
	return at;
}

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

/* The program has advised its own memory, between two files, and moves it while an event waits. */
static void advice_of_the_program_stays(void)
{
	char *at = mmap(NULL, 3 * SIZE, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	char *own = at + SIZE;
	int fd = open_file(O_RDONLY), i;

	CHECK(at != MAP_FAILED);
	for (i = 0; i < 3; i += 2) {
		CHECK(mmap(at + i * SIZE, SIZE, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0) ==
		      at + i * SIZE);
		steer_mapped(at + i * SIZE, SIZE, PROT_READ, MAP_SHARED, 0);
	}
	CHECK(!madvise(own, SIZE / 2, MADV_HUGEPAGE));
	steer_alone();
	CHECK(event_put(&(struct event){ .kind = EVENT_HINT }));
	/* The kernel has two areas, and accepts one. */
	CHECK(steer_remap(own, SIZE, SIZE + MB, MREMAP_MAYMOVE, NULL) == (void *)-EFAULT);
	CHECK(has_flag(own, " hg"));
}

static bool waits_in_stop;
static sem_t stop_began, move_began, stop_ended;

/* The thread that calls setuid() calls this function before the monitor knows of it. */
bool __wrap_state_change(enum state from, enum state to)
{
	if (to == STOPPING && waits_in_stop) {
		waits_in_stop = false;
		sem_post(&stop_began);
		sem_wait(&move_began);
	}
	return __real_state_change(from, to);
}

static void *stop_beside_move(void *unused)
{
	(void)unused;
	stop();
	sem_post(&stop_ended);
	return NULL;
}

static void let_stop_end(void)
{
	sem_post(&move_began);
	sem_wait(&stop_ended);
}

/* setuid() begins before mremap(), and the monitor ends after it. */
static void move_within_a_stop_leaves_no_advice(void)
{
	char *at = map_advised(open_file(O_RDONLY)), *new = reserve();
	pthread_t stopper;

	waits_in_stop = true;
	in_move = let_stop_end;
	CHECK(!pthread_create(&stopper, NULL, stop_beside_move, NULL));
	sem_wait(&stop_began);
	CHECK(steer_remap(at, SIZE, SIZE, MREMAP_MAYMOVE | MREMAP_FIXED, new) == new);
	CHECK(!is_advised(new));
}

static bool holds_loop, holds_end, is_held;

/* The monitor calls this function. It must use no function of the C library. */
bool __wrap_act_sync_all(void)
{
	bool done = __real_act_sync_all();
	bool *holds = act_ending ? &holds_end : &holds_loop;

	while (done && __atomic_load_n(holds, __ATOMIC_SEQ_CST)) {
		__atomic_store_n(&is_held, true, __ATOMIC_SEQ_CST);
		call(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
	}
	return done;
}

/* The monitor takes no event and gives no advice until release_monitor(), which waits for both. */
static void hold_monitor(void)
{
	__atomic_store_n(&is_held, false, __ATOMIC_SEQ_CST);
	__atomic_store_n(&holds_loop, true, __ATOMIC_SEQ_CST);
	events_wake();
	WAIT_FOR(__atomic_load_n(&is_held, __ATOMIC_SEQ_CST));
}

static void release_monitor(void)
{
	__atomic_store_n(&holds_loop, false, __ATOMIC_SEQ_CST);
	WAIT_FOR(!events_pending());
}

static void wait_for_last_event(void)
{
	pthread_t stopper;

	CHECK(!pthread_create(&stopper, NULL, stop_beside_move, NULL));
	WAIT_FOR(__atomic_load_n(&is_held, __ATOMIC_SEQ_CST));
}

/* mremap() returns after the monitor has taken its last event, and before the monitor has ended. */
static void move_beside_the_last_event_leaves_no_advice(void)
{
	char *at = map_advised(open_file(O_RDONLY)), *new = reserve();

	holds_end = true;
	in_move = wait_for_last_event;
	CHECK(steer_remap(at, SIZE, SIZE, MREMAP_MAYMOVE | MREMAP_FIXED, new) == new);
	__atomic_store_n(&holds_end, false, __ATOMIC_SEQ_CST);
	sem_wait(&stop_ended);
	CHECK(!is_advised(new));
}

static pthread_barrier_t race;

/* Wait for up to a few hundred microseconds, in steps of a few nanoseconds. */
static void race_wait(uint64_t turns)
{
	pthread_barrier_wait(&race);
	while (turns--)
		__asm__ volatile("" ::: "memory");
}

static void *stop_once(void *turns)
{
	race_wait((uintptr_t)turns);
	stop();
	return NULL;
}

/* One thread calls setuid() at any time while another one moves the mapping. */
static void moves_beside_stops_leave_no_advice(void)
{
	int fd = open_file(O_RDONLY), i;
	pthread_t stopper;
	char *at, *new;

	CHECK(!pthread_barrier_init(&race, NULL, 2));
	for (i = 0; i < 20; i++) {
		forget_cached(fd);
		at = map_advised(fd);
		new = reserve();
		CHECK(!pthread_create(&stopper, NULL, stop_once,
				      (void *)(random_number() % 20000)));
		race_wait(random_number() % 20000);
		CHECK(steer_remap(at, SIZE, SIZE, MREMAP_MAYMOVE | MREMAP_FIXED, new) == new);
		CHECK(!pthread_join(stopper, NULL) && !is_advised(new));
		unmap_file(new);
	}
}

/* The kernel has several areas of the mapping, and moves only one. */
static void advised_part_does_not_hinder_a_move(void)
{
	int fd = open_file(O_RDONLY);
	char *at = map_file(fd, PROT_READ, MAP_SHARED);

	forget_cached(fd);
	IN_ORDER_UNTIL(at, false, has_flag(at + SIZE - PAGE, " hg"));
	CHECK(!madvise(at + SIZE / 2, SIZE / 4, MADV_NOHUGEPAGE));
	in_move = stop;
	CHECK((intptr_t)steer_remap(at, SIZE, SIZE + MB, MREMAP_MAYMOVE, NULL) > 0);
}

/* Put events that change nothing, until the ring has room for so many others. */
static void fill_ring(uint32_t left)
{
	while (events_backlog() < EVENTS_MOST - left)
		CHECK(event_put(&(struct event){ .kind = EVENT_STAYED }));
}

static void give_first_advice(void)
{
	struct map *map = map_next(0);

	map->advised = true;
	map_publish(map);
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

static char *move(char *at, size_t bytes)
{
	char *new = reserve();

	CHECK(steer_remap(at, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, new) == new);
	return new;
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

/*
 * The program unmaps most of a mapping. The rest is too short to be steered. The program moves it
 * before the monitor has taken the first event.
 */
static void moved_rest_has_no_advice(void)
{
	char *at = map_advised(open_file(O_RDONLY)), *new;

	hold_monitor();
	steer_unmapping(at, SIZE - MB);
	CHECK(!munmap(at, SIZE - MB));
	new = move(at + SIZE - MB, MB);
	CHECK(has_flag(new, " hg"));
	release_monitor();
	WAIT_FOR(!has_flag(new, " hg"));
}

static char *map_advised_at(int fd, char *at)
{
	CHECK(mmap(at, SIZE, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0) == at);
	steer_mapped(at, SIZE, PROT_READ, MAP_SHARED, 0);
	IN_ORDER_UNTIL(at, false, has_flag(at + SIZE - PAGE, " hg"));
	return at + SIZE;
}

/* Since Linux 6.17, a call of mremap() moves all mappings of a range. */
static void moved_range_has_no_unknown_advice(void)
{
	char *at =
		mmap(NULL, 4 * SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	char *second = map_advised_at(open_file(O_RDONLY), at), *new = at + 2 * SIZE;

	map_advised_at(open_file(O_RDONLY), second);
	if (steer_remap(at, 2 * SIZE, 2 * SIZE, MREMAP_MAYMOVE | MREMAP_FIXED, new) != new) {
		fprintf(stderr, "skipped: mremap() moves one mapping\n");
		return;
	}
	WAIT_FOR(!events_pending() && !map_overlaps((uintptr_t)at, 2 * SIZE));
	WAIT_FOR(!is_advised(new + SIZE));
	steer_alone();
	CHECK(!is_advised(new));
}

/* Reserve addresses for two mappings of the whole file. */
static char *reserve_two(void)
{
	char *at =
		mmap(NULL, 2 * SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	CHECK(at != MAP_FAILED);
	return at;
}

/* Map a half of the file, and report that. */
static void map_half(int fd, char *at, size_t offset)
{
	CHECK(mmap(at, SIZE / 2, PROT_READ, MAP_SHARED | MAP_FIXED, fd, (off_t)offset) == at);
	steer_mapped(at, SIZE / 2, PROT_READ, MAP_SHARED, (off_t)offset);
}

static bool is_one_area(const char *at, size_t bytes)
{
	struct area area;

	return area_find((uintptr_t)at, &area) && area.end == (uintptr_t)at + bytes;
}

/*
 * Map a file by two calls, and read it until both parts have the same advice of the monitor. The
 * kernel joins them to one area then.
 */
static char *map_by_halves(char *at)
{
	int fd = open_file(O_RDONLY);

	map_half(fd, at, 0);
	map_half(fd, at + SIZE / 2, SIZE / 2);
	IN_ORDER_UNTIL(at, false, has_flag(at, " hg") && is_one_area(at, SIZE));
	return at;
}

/* The kernel has one area for both mappings without advice, and several with it. */
static void advised_neighbour_does_not_hinder_a_move(void)
{
	int fd = open_file(O_RDONLY);
	char *at = reserve_two();

	map_half(fd, at, 0);
	map_half(fd, at + SIZE / 2, SIZE / 2);
	WAIT_FOR(told_of(at) && told_of(at + SIZE / 2));
	hold_monitor();
	/* As if the monitor had given the advice. */
	CHECK(!madvise(at, SIZE / 2, MADV_HUGEPAGE));
	give_first_advice();
	CHECK((intptr_t)steer_remap(at, SIZE, SIZE + MB, MREMAP_MAYMOVE, NULL) > 0);
	release_monitor();
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

/* The kernel has one area of both mappings, because they have the same advice. */
static void grown_range_has_no_advice_after_the_monitor(void)
{
	char *at = map_by_halves(reserve_two());
	char *new = steer_remap(at, SIZE, SIZE + MB, MREMAP_MAYMOVE, NULL);

	CHECK((intptr_t)new > 0);
	steer_alone();
	CHECK(!has_flag(new, " hg") && !has_flag(new + SIZE - PAGE, " hg"));
	CHECK(!has_flag(new + SIZE, " hg"));
}

static void range_grown_in_place_has_no_advice_after_the_monitor(void)
{
	char *at = map_by_halves(reserve_two());

	CHECK(!munmap(at + SIZE, MB));
	CHECK(steer_remap(at, SIZE, SIZE + MB, 0, NULL) == at);
	steer_alone();
	CHECK(!has_flag(at + SIZE - PAGE, " hg") && !has_flag(at + SIZE, " hg"));
}

/* The program maps memory there, and gives advice for it. */
static void map_advised_memory(char *at)
{
	CHECK(mmap(at, SIZE, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == at);
	CHECK(!madvise(at, SIZE, MADV_HUGEPAGE));
}

/*
 * Since Linux 6.17, mremap() moves the first mapping of a range, and fails then: the second one
 * belongs to a device, and cannot be moved with others.
 */
static void move_that_fails_leaves_no_advice(void)
{
	char *at = reserve_two(), *new = reserve_two(), *second;
	int zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);

	second = map_advised_at(open_file(O_RDONLY), at);
	CHECK(mmap(second, MB, PROT_READ, MAP_PRIVATE | MAP_FIXED, zero, 0) == second);
	CHECK(steer_remap(at, SIZE + MB, SIZE + MB, MREMAP_MAYMOVE | MREMAP_FIXED, new) ==
	      (void *)-EFAULT);
	if (!has_flag(new, " ms")) {
		fprintf(stderr, "skipped: mremap() moves one mapping\n");
		return;
	}
	CHECK(!is_advised(new));
	WAIT_FOR(!map_overlaps((uintptr_t)at, SIZE));
}

/* The call has moved nothing. The advice of the program at the new address stays. */
static void move_that_fails_takes_no_advice_back(void)
{
	char *at = map_advised(open_file(O_RDONLY)), *new = reserve_two();

	map_advised_memory(new);
	CHECK(steer_remap(at, SIZE, SIZE, MREMAP_FIXED, new) == (void *)-EINVAL);
	CHECK(has_flag(new, " hg"));
	WAIT_FOR(!events_waiting());
	CHECK(map_overlaps((uintptr_t)at, SIZE));
}

/* A check that fails in the child ends it with status 1. */
static bool child_has_flag(const char *at, const char *flag)
{
	pid_t child = fork();
	int status;

	if (!child)
		_exit(has_flag(at, flag) ? 3 : 2);
	CHECK(child > 0 && waitpid(child, &status, 0) == child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) >= 2);
	return WEXITSTATUS(status) == 3;
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

static char *left_by_move;

/* The kernel has moved the file, and another thread has mapped memory at the old place. */
static void fork_beside_move(void)
{
	WAIT_FOR(!events_pending());
	map_advised_memory(left_by_move);
	CHECK(child_has_flag(left_by_move + SIZE - PAGE, " hg"));
}

/* A thread calls fork() after the monitor has taken MOVING, and before MOVED. */
static void fork_keeps_advice_beside_a_move(void)
{
	left_by_move = map_advised(open_file(O_RDONLY));
	in_move = fork_beside_move;
	move(left_by_move, SIZE);
}

RUN(moved_mapping_has_no_advice_without_monitor)
RUN(failed_unmap_leaves_no_advice_without_monitor)
RUN(advice_of_the_program_stays)
RUN(move_within_a_stop_leaves_no_advice)
RUN(move_beside_the_last_event_leaves_no_advice)
RUN(moves_beside_stops_leave_no_advice)
RUN(advised_part_does_not_hinder_a_move)
RUN(fork_keeps_advice_of_new_memory)
RUN(fork_keeps_advice_beside_a_move)
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
RUN(moved_rest_has_no_advice)
RUN(advised_neighbour_does_not_hinder_a_move)
RUN(lost_event_of_two_mappings_leaves_no_advice)
RUN(grown_range_has_no_advice_after_the_monitor)
RUN(range_grown_in_place_has_no_advice_after_the_monitor)
RUN(move_that_fails_leaves_no_advice)
RUN(move_that_fails_takes_no_advice_back)
RUN(moved_range_has_no_unknown_advice)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(moved_mapping_has_no_advice_without_monitor_test),
		cmocka_unit_test(failed_unmap_leaves_no_advice_without_monitor_test),
		cmocka_unit_test(advice_of_the_program_stays_test),
		cmocka_unit_test(move_within_a_stop_leaves_no_advice_test),
		cmocka_unit_test(move_beside_the_last_event_leaves_no_advice_test),
		cmocka_unit_test(moves_beside_stops_leave_no_advice_test),
		cmocka_unit_test(advised_part_does_not_hinder_a_move_test),
		cmocka_unit_test(fork_keeps_advice_of_new_memory_test),
		cmocka_unit_test(fork_keeps_advice_beside_a_move_test),
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
		cmocka_unit_test(moved_rest_has_no_advice_test),
		cmocka_unit_test(advised_neighbour_does_not_hinder_a_move_test),
		cmocka_unit_test(lost_event_of_two_mappings_leaves_no_advice_test),
		cmocka_unit_test(grown_range_has_no_advice_after_the_monitor_test),
		cmocka_unit_test(range_grown_in_place_has_no_advice_after_the_monitor_test),
		cmocka_unit_test(move_that_fails_leaves_no_advice_test),
		cmocka_unit_test(move_that_fails_takes_no_advice_back_test),
		cmocka_unit_test(moved_range_has_no_unknown_advice_test),
	};

	return cmocka_run_group_tests(tests, new_group, end_group);
}
