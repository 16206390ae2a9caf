// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Calls of mremap() leave no advice behind while the monitor works, or ends. */
#include "beside.h"

#include "call.h"
#include "wrap.h"

#include <pthread.h>
#include <semaphore.h>
#include <signal.h>

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
	steer_alone();
	CHECK(!is_advised(new) && !is_advised(new + SIZE));
}

static void moved_mapping_keeps_its_name(void)
{
	char *new = move(map_advised(open_file(O_RDONLY)), SIZE);

	WAIT_FOR(told_of(new) && !events_pending());
	CHECK(strstr(told_of(new)->path, "hugemap-steer-") && told_of(new)->ino);
}

/* Each mapping that such a call moves is steered at its new place. */
static void moved_range_stays_steered(void)
{
	char *at = reserve_two(), *new = reserve_two();
	char *second = map_advised_at(open_file(O_RDONLY), at);

	map_advised_at(open_file(O_RDONLY), second);
	if (steer_remap(at, 2 * SIZE, 2 * SIZE, MREMAP_MAYMOVE | MREMAP_FIXED, new) != new) {
		fprintf(stderr, "skipped: mremap() moves one mapping\n");
		return;
	}
	WAIT_FOR(told_of(new) && told_of(new + SIZE));
	IN_ORDER_UNTIL(new + SIZE, false, told_of(new + SIZE)->count[STEER_ACT_HUGE]);
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

static char *partly_moved;

/* The kernel moves the first mapping of a range. */
static void move_first_mapping(void)
{
	CHECK(mremap(partly_moved, SIZE, SIZE, MREMAP_MAYMOVE | MREMAP_FIXED, reserve()) !=
	      MAP_FAILED);
}

static void (*after_stayed)(void);

/* The thread that calls mremap() calls this function. */
bool __wrap_event_put(const struct event *event)
{
	bool put = __real_event_put(event);

	if (after_stayed && event->kind == EVENT_STAYED)
		after_stayed();
	return put;
}

static void is_not_steered(void)
{
	WAIT_FOR(!events_pending());
	CHECK(!map_overlaps((uintptr_t)partly_moved, SIZE));
}

/*
 * The call moves the first mapping of a range, and fails. Another thread may get the old place as
 * soon as the monitor has taken the event of the end, so the monitor gives no advice there.
 */
static void move_that_fails_ends_the_mapping(void)
{
	char *at = reserve_two(), *new = reserve_two();

	map_advised_at(open_file(O_RDONLY), at);
	partly_moved = at;
	in_move = move_first_mapping;
	after_stayed = is_not_steered;
	CHECK(steer_remap(at, SIZE + MB, SIZE + MB, MREMAP_MAYMOVE | MREMAP_FIXED, new) ==
	      (void *)-EFAULT);
}

static sigjmp_buf out_of_move;

static void leave_move(int signal)
{
	(void)signal;
	siglongjmp(out_of_move, 1);
}

static void end_thread(int signal)
{
	(void)signal;
	syscall(SYS_exit, 0);
}

static void send_signal(void)
{
	CHECK(!raise(SIGUSR1));
}

static void *move_until_signal(void *at)
{
	if (!sigsetjmp(out_of_move, 1))
		move(at, SIZE);
	return NULL;
}

/* A signal handler leaves mremap() by siglongjmp(), or ends the thread. */
static void signal_handler_ends_no_move_early(void)
{
	void (*const handlers[])(int) = { leave_move, end_thread };
	pthread_t mover;
	struct map *map;
	size_t i;

	for (i = 0; i < COUNT(handlers); i++) {
		CHECK(signal(SIGUSR1, handlers[i]) != SIG_ERR);
		in_move = send_signal;
		CHECK(!pthread_create(&mover, NULL, move_until_signal,
				      map_advised(open_file(O_RDONLY))));
		CHECK(!pthread_join(mover, NULL));
		WAIT_FOR(!events_pending());
		for_each_map(map)
			CHECK(!map->moving);
	}
}

static char *left_by_move;

/* A signal of the instruction itself may be blocked, too, for sigwait() or signalfd(). */
static void blocked_signal_stays_blocked_in_a_move(void)
{
	char *at = map_advised(open_file(O_RDONLY));
	sigset_t set, pending;

	sigemptyset(&set);
	sigaddset(&set, SIGSYS);
	CHECK(!sigprocmask(SIG_BLOCK, &set, NULL));
	CHECK(!raise(SIGSYS));
	move(at, SIZE);
	CHECK(!sigpending(&pending) && sigismember(&pending, SIGSYS));
	CHECK(sigwaitinfo(&set, NULL) == SIGSYS);
}

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
RUN(advice_of_the_program_stays)
RUN(move_within_a_stop_leaves_no_advice)
RUN(move_beside_the_last_event_leaves_no_advice)
RUN(moves_beside_stops_leave_no_advice)
RUN(advised_part_does_not_hinder_a_move)
RUN(fork_keeps_advice_beside_a_move)
RUN(moved_rest_has_no_advice)
RUN(advised_neighbour_does_not_hinder_a_move)
RUN(grown_range_has_no_advice_after_the_monitor)
RUN(range_grown_in_place_has_no_advice_after_the_monitor)
RUN(move_that_fails_leaves_no_advice)
RUN(move_that_fails_takes_no_advice_back)
RUN(move_that_fails_ends_the_mapping)
RUN(signal_handler_ends_no_move_early)
RUN(blocked_signal_stays_blocked_in_a_move)
RUN(moved_range_has_no_unknown_advice)
RUN(moved_range_stays_steered)
RUN(moved_mapping_keeps_its_name)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(moved_mapping_has_no_advice_without_monitor_test),
		cmocka_unit_test(advice_of_the_program_stays_test),
		cmocka_unit_test(move_within_a_stop_leaves_no_advice_test),
		cmocka_unit_test(move_beside_the_last_event_leaves_no_advice_test),
		cmocka_unit_test(moves_beside_stops_leave_no_advice_test),
		cmocka_unit_test(advised_part_does_not_hinder_a_move_test),
		cmocka_unit_test(fork_keeps_advice_beside_a_move_test),
		cmocka_unit_test(moved_rest_has_no_advice_test),
		cmocka_unit_test(advised_neighbour_does_not_hinder_a_move_test),
		cmocka_unit_test(grown_range_has_no_advice_after_the_monitor_test),
		cmocka_unit_test(range_grown_in_place_has_no_advice_after_the_monitor_test),
		cmocka_unit_test(move_that_fails_leaves_no_advice_test),
		cmocka_unit_test(move_that_fails_takes_no_advice_back_test),
		cmocka_unit_test(move_that_fails_ends_the_mapping_test),
		cmocka_unit_test(signal_handler_ends_no_move_early_test),
		cmocka_unit_test(blocked_signal_stays_blocked_in_a_move_test),
		cmocka_unit_test(moved_range_has_no_unknown_advice_test),
		cmocka_unit_test(moved_range_stays_steered_test),
		cmocka_unit_test(moved_mapping_keeps_its_name_test),
	};

	return cmocka_run_group_tests(tests, new_group, end_group);
}
