// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* The monitor thread has no effect on the program, on the file and on other processes. */
#include "common.h"

#include "call.h"
#include "map.h"
#include "room.h"
#include "wrap.h"

#include <dirent.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/single_threaded.h>
#include <sys/syscall.h>
#include <sys/time.h>

static int descriptors_now(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = -3; /* "." and "..", and the descriptor of the directory */

	CHECK(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

/* If a mapping is only read, no advice changes the file. */
static void file_is_left_alone(void)
{
	int fd = open_file(O_RDWR);
	struct stat before, after;
	char *at;

	CHECK(!fsync(fd) && !fstat(fd, &before));
	at = map_file(fd, PROT_READ | PROT_WRITE, MAP_SHARED);
	IN_ORDER_UNTIL(at, false, has_pattern(at, STEER_STREAM));
	CHECK(!munmap(at, SIZE) && !fstat(fd, &after));
	CHECK(before.st_blocks == after.st_blocks && before.st_size == after.st_size);
	CHECK(!memcmp(&before.st_mtim, &after.st_mtim, sizeof(before.st_mtim)));
	CHECK(!memcmp(&before.st_ctim, &after.st_ctim, sizeof(before.st_ctim)));
}

static void comes_and_goes(void)
{
	int fd = open_file(O_RDONLY), before = descriptors_now();
	char *at, *small;

	CHECK(threads_now() == 1);
	small = mmap(NULL, MB, PROT_READ, MAP_SHARED, fd, 0);
	steer_mapped(small, MB, PROT_READ, MAP_SHARED, 0);
	CHECK(threads_now() == 1);
	at = map_file(fd, PROT_READ, MAP_SHARED);
	WAIT_FOR(threads_now() == 2 && told_of(at));
	CHECK(descriptors_now() == before);
	steer_unmapping(at, SIZE);
	CHECK(!munmap(at, SIZE));
	WAIT_FOR(threads_now() == 1);
	at = map_file(fd, PROT_READ, MAP_SHARED);
	WAIT_FOR(threads_now() == 2);
}

static void alone(void)
{
	int fd = open_file(O_RDONLY);
	char *at = map_file(fd, PROT_READ, MAP_SHARED);

	IN_ORDER_UNTIL(at, false, has_flag(at + SIZE - PAGE, " hg"));
	steer_alone();
	CHECK(threads_now() == 1);
	/* The monitor has taken back its advice, because it cannot do so later. */
	CHECK(!has_flag(at + SIZE - PAGE, " hg"));
	/* The kernel refuses this call to a process with several threads. */
	CHECK(!unshare(CLONE_THREAD | CLONE_SIGHAND | CLONE_VM));
	/* A mapping by another thread does not restart the monitor before steer_alone_end(). */
	map_file(fd, PROT_READ, MAP_SHARED);
	CHECK(threads_now() == 1);
	steer_alone_end();
	map_file(fd, PROT_READ, MAP_SHARED);
	WAIT_FOR(threads_now() == 2);
	steer_never();
	map_file(fd, PROT_READ, MAP_SHARED);
	CHECK(threads_now() == 1);
}

static volatile sig_atomic_t got, got_by;

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

static void moved_mapping_has_no_advice_without_monitor(void)
{
	char *old, *new = move_and_stop(SIZE, MREMAP_MAYMOVE | MREMAP_FIXED, &old);

	CHECK((intptr_t)new > 0 && !has_flag(new + SIZE - PAGE, " hg"));
	/* MOVED waits for the next monitor, and brings no advice. */
	CHECK(events_bring_advice() && !map_has_advised((uintptr_t)new, SIZE));
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

static void on_signal(int number)
{
	got++;
	got_by = (sig_atomic_t)syscall(SYS_gettid);
}

/* The program's thread receives each signal for the process, even one that it blocks. */
static void signals(void)
{
	int fd = open_file(O_RDONLY), i;
	char *at = map_file(fd, PROT_READ, MAP_SHARED);
	sigset_t all, before;

	WAIT_FOR(told_of(at));
	signal(SIGUSR1, on_signal);
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &before);
	for (i = 0; i < 100; i++) {
		kill(getpid(), SIGUSR1);
		nap();
	}
	CHECK(!got);
	sigprocmask(SIG_SETMASK, &before, NULL);
	CHECK(got == 1 && got_by == getpid());
}

/*
 * A lock of flock(2) ends with the last descriptor and the last part of a mapping, and not later.
 */
static void locks_go_with(size_t first)
{
	int fd, other, i;
	char *at;

	for (i = 0; i < 50; i++) {
		fd = open_file(O_RDWR);
		CHECK(!flock(fd, LOCK_EX));
		at = map_file(fd, PROT_READ | PROT_WRITE, MAP_SHARED);
		close(fd);
		steer_unmapping(at, first);
		CHECK(!munmap(at, first));
		if (first < SIZE) {
			steer_unmapping(at + first, SIZE - first);
			CHECK(!munmap(at + first, SIZE - first));
		}
		other = open_file(O_RDWR);
		CHECK(!flock(other, LOCK_EX | LOCK_NB));
		close(other);
	}
}

static void locks_go(void)
{
	locks_go_with(SIZE);
}

static void locks_go_in_parts(void)
{
	locks_go_with(64 * MB);
}

/*
 * A process loses its record locks when it closes any descriptor of the file. The descriptors of
 * the monitor do not count.
 */
static void record_locks_stay(void)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	int fd = open_file(O_RDWR), status, i;
	pid_t child;
	char *at;

	CHECK(!fcntl(fd, F_SETLK, &lock));
	for (i = 0; i < 10; i++) {
		at = map_file(fd, PROT_READ | PROT_WRITE, MAP_SHARED);
		WAIT_FOR(told_of(at));
		steer_unmapping(at, SIZE);
		CHECK(!munmap(at, SIZE));
	}
	child = fork();
	if (!child) {
		lock.l_type = F_WRLCK;
		_exit(fcntl(fd, F_GETLK, &lock) || lock.l_type == F_UNLCK);
	}
	CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void fork_goes_on(void)
{
	int fd = open_file(O_RDWR), status, i;
	char *at = map_file(fd, PROT_READ | PROT_WRITE, MAP_SHARED);
	pid_t child;

	IN_ORDER_UNTIL(at, false, has_flag(at + SIZE - PAGE, " hg"));
	for (i = 0; i < 20; i++) {
		child = fork();
		if (!child) {
			/*
			 * The child has no monitor that could take advice back, so it has no
			 * advice.
			 */
			CHECK(threads_now() == 1 && !has_flag(at + SIZE - PAGE, " hg"));
			in_order(at, 8 * MB, false);
			at[SIZE - 1 - i] = 'x';
			at = map_file(fd, PROT_READ, MAP_SHARED);
			WAIT_FOR(threads_now() == 2 && told_of(at));
			_exit(0);
		}
		CHECK(waitpid(child, &status, 0) == child && status == 0);
		CHECK(at[SIZE - 1 - i] == 'x');
		at[SIZE - 1 - i] = (char)byte_of(SIZE - 1 - i);
	}
	CHECK(threads_now() == 2 && has_flag(at + SIZE - PAGE, " hg"));
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
bool __wrap_map_has_advised(uint64_t start, uint64_t bytes)
{
	bool found = __real_map_has_advised(start, bytes);

	if (looks_left && !--looks_left) {
		CHECK(!madvise((void *)start, bytes, MADV_RANDOM));
		give_first_advice();
	}
	return found;
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

/* The monitor takes MOVING. Then it ends all moves, because an event of another thread is lost. */
static void lose_another_event(void)
{
	WAIT_FOR(!events_pending());
	events_lose(EVENTS_LOST);
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

/* The table of mappings has no free entry for the new place. */
static void move_with_full_table_leaves_no_advice(void)
{
	char *at = map_advised(open_file(O_RDONLY));
	struct map_block *blocks = room_map(MAP_MOST / MAP_BLOCK * sizeof(*blocks));
	struct map other = { .start = PAGE, .bytes = PAGE };

	CHECK(blocks);
	hold_monitor();
	while (map_add_block(blocks))
		blocks++;
	while (map_take_entry(&other))
		;
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

static bool child_has_flag(const char *at, const char *flag)
{
	pid_t child = fork();
	int status;

	if (!child)
		_exit(has_flag(at, flag));
	CHECK(child > 0 && waitpid(child, &status, 0) == child);
	return status;
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
	CHECK(mmap(at, SIZE, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == at);
	CHECK(!madvise(at, SIZE, MADV_HUGEPAGE));
	CHECK(child_has_flag(at + SIZE - PAGE, " hg"));
	release_monitor();
}

/* The program makes a hole in its address space. The monitor must not map memory there. */
static void holes_stay_empty(void)
{
	const size_t hole = 64 << 10;
	int fd = open_file(O_RDONLY), i, k;
	char *at, *file;
	size_t n;

	/* Fill the small holes that exist already. */
	for (i = 0; i < 2000; i++)
		CHECK(mmap(NULL, hole, PROT_NONE | (i & 1 ? PROT_READ : 0),
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
	for (i = 0; i < 100; i++) {
		at = mmap(NULL, hole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		file = mmap(NULL, 48 * MB, PROT_READ, MAP_SHARED, fd, 0);
		steer_mapped(file, 48 * MB, PROT_READ, MAP_SHARED, 0);
		CHECK(!munmap(at, hole));
		for (k = 0; k < i * 100; k++)
			__asm__ volatile("" ::: "memory");
		CHECK(mmap(at, hole, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == at);
		for (n = 0; n < 48 * MB; n += MB)
			CHECK(file[n]);
		nap();
		for (n = 0; n < hole; n++)
			CHECK(!at[n]);
		steer_unmapping(file, 48 * MB);
		CHECK(!munmap(file, 48 * MB) && !munmap(at, hole));
	}
}

/*
 * The program has a hole in its address space before it maps its first file. Later it maps the hole
 * again. Memory of the monitor must not lie there: it would be replaced, and the program would end.
 */
static void hole_of_the_program_stays_empty(void)
{
	const size_t hole = SIZE / 2;
	int fd = open_file(O_RDONLY), i;
	char *at, *file;
	size_t n;

	at = mmap(NULL, 3 * hole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	CHECK(at != MAP_FAILED && !munmap(at + hole, hole));
	for (i = 0; i < 20; i++) {
		/* The file is larger than the hole. */
		file = map_file(fd, PROT_READ, MAP_SHARED);
		WAIT_FOR(told_of(file));
		CHECK(mmap(at + hole, hole, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == at + hole);
		in_order(file, 8 * MB, false);
		unmap_file(file);
		for (n = 0; n < hole; n += PAGE)
			CHECK(!at[hole + n]);
		CHECK(!munmap(at + hole, hole));
	}
	CHECK(threads_now() <= 2);
}

static int handler_fd;

static void map_in_handler(int number)
{
	void *at = mmap(NULL, 32 * MB, PROT_READ, MAP_SHARED, handler_fd, 0);
	int saved = errno;

	steer_mapped(at, 32 * MB, PROT_READ, MAP_SHARED, 0);
	steer_unmapping(at, 32 * MB);
	munmap(at, 32 * MB);
	errno = saved;
	got++;
}

/* A signal handler may interrupt an allocator, so no call of steering may use one. */
static void handlers_may_map(void)
{
	const struct itimerval often = { { 0, 3000 }, { 0, 3000 } }, off = {};
	size_t i;

	handler_fd = open_file(O_RDONLY);
	signal(SIGALRM, map_in_handler);
	CHECK(!setitimer(ITIMER_REAL, &often, NULL));
	for (i = 0; got < 200; i++)
		free(malloc(i * 37 % 5000));
	CHECK(!setitimer(ITIMER_REAL, &off, NULL));
}

/* The number of lines of /proc/self/maps that contain a word. */
static int areas_with(const char *word)
{
	FILE *file = fopen("/proc/self/maps", "re");
	char line[512];
	int n = 0;

	CHECK(file);
	while (fgets(line, sizeof(line), file))
		n += !!strstr(line, word);
	fclose(file);
	return n;
}

static void nothing_piles_up(void)
{
	int fd = open_file(O_RDONLY), i;
	char *at;

	for (i = 0; i < 10; i++) {
		at = map_file(fd, PROT_READ, MAP_SHARED);
		WAIT_FOR(threads_now() == 2);
		steer_unmapping(at, SIZE);
		CHECK(!munmap(at, SIZE));
		WAIT_FOR(threads_now() == 1);
	}
	CHECK(areas_with(STEER_MEMFD_NAME) <= 1);
}

/* The C library still treats the program as single-threaded. */
static void program_stays_as_it_was(void)
{
	int fd = open_file(O_RDONLY);
	char *at = map_file(fd, PROT_READ, MAP_SHARED);

	WAIT_FOR(told_of(at) && threads_now() == 2);
	CHECK(__libc_single_threaded);
}

/* If no thread can be created, mappings work as without steering. */
static void no_room_for_a_thread(void)
{
	const struct rlimit one = { 1, 1 };
	int fd = open_file(O_RDONLY), i;

	CHECK(!setrlimit(RLIMIT_NPROC, &one) && !setresuid(54321, 54321, 54321));
	errno = 77;
	for (i = 0; i < 3; i++)
		map_file(fd, PROT_READ, MAP_SHARED);
	CHECK(errno == 77 && threads_now() == 1);
}

static void errno_stays(void)
{
	int fd = open_file(O_RDONLY), i;
	char *at;

	errno = 77;
	for (i = 0; i < 20; i++) {
		at = map_file(fd, PROT_READ, MAP_SHARED);
		steer_hint(at, SIZE, MADV_NORMAL);
		CHECK(steer_remap(at, SIZE, SIZE, 0, NULL) == at);
		steer_unmapping(at, SIZE);
		CHECK(errno == 77);
		CHECK(!munmap(at, SIZE));
	}
	steer_alone();
	CHECK(errno == 77);
}

static void *end_soon(void *unused)
{
	nap();
	syscall(SYS_exit, 0);
	return NULL;
}

/* Both threads of the program end by the system call exit. The process then ends, too. */
static void ends_with_the_last(void)
{
	int fd = open_file(O_RDONLY);
	char *at = map_file(fd, PROT_READ, MAP_SHARED);
	pthread_t thread;

	WAIT_FOR(told_of(at));
	CHECK(!pthread_create(&thread, NULL, end_soon, NULL));
	syscall(SYS_exit, 0);
}

/*
 * Other memory may have replaced a mapping before the monitor advises it. The advice must not
 * change that memory.
 */
static void mappings_that_change(void)
{
	int fd = open_file(O_RDONLY), i;
	size_t n;

	for (i = 0; i < 60; i++) {
		char *at = map_file(fd, PROT_READ, MAP_SHARED);

		in_order(at, 12 * MB, false);
		/* Replace the mapping by a call that the monitor does not see. */
		CHECK(mmap(at, SIZE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == at);
		for (n = 0; n < 16 * MB; n += PAGE)
			at[n] = (char)i;
		for (n = 0; n < 16 * MB; n += PAGE)
			CHECK(at[n] == (char)i);
		steer_unmapping(at, SIZE);
		CHECK(!munmap(at, SIZE));
	}
}

static void shorter_files(void)
{
	int fd = open_file(O_RDWR);
	char *at;

	at = map_file(fd, PROT_READ | PROT_WRITE, MAP_SHARED);
	in_order(at, SIZE / 2, false);
	CHECK(!ftruncate(fd, 50 * MB));
	in_order(at, 50 * MB, false);
	WAIT_FOR(told_of(at));
	steer_unmapping(at, SIZE);
	CHECK(!munmap(at, SIZE) && !ftruncate(fd, SIZE));
	/* Restore the contents for the following tests. */
	at = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	in_order(at, SIZE, true);
}

/* Install a filter that kills the process for a call that only the monitor makes. */
static void filtered(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pidfd_getfd, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { .len = 4, .filter = code };
	int fd = open_file(O_RDONLY), i;
	char *at;

	CHECK(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	CHECK(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
	for (i = 0; i < 3; i++) {
		at = map_file(fd, PROT_READ, MAP_SHARED);
		in_order(at, SIZE, false);
	}
	WAIT_FOR(threads_now() == 1);
}

RUN(file_is_left_alone)
RUN(comes_and_goes)
RUN(alone)
RUN(moved_mapping_has_no_advice_without_monitor)
RUN(failed_unmap_leaves_no_advice_without_monitor)
RUN(advice_of_the_program_stays)
RUN(move_within_a_stop_leaves_no_advice)
RUN(move_beside_the_last_event_leaves_no_advice)
RUN(moves_beside_stops_leave_no_advice)
RUN(advised_part_does_not_hinder_a_move)
RUN(signals)
RUN(locks_go)
RUN(record_locks_stay)
RUN(fork_goes_on)
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
RUN(moved_rest_has_no_advice)
RUN(ends_with_the_last)
RUN(holes_stay_empty)
RUN(hole_of_the_program_stays_empty)
RUN(handlers_may_map)
RUN(nothing_piles_up)
RUN(program_stays_as_it_was)
RUN(no_room_for_a_thread)
RUN(locks_go_in_parts)
RUN(errno_stays)
RUN(mappings_that_change)
RUN(shorter_files)
RUN(filtered)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(file_is_left_alone_test),
		cmocka_unit_test(comes_and_goes_test),
		cmocka_unit_test(alone_test),
		cmocka_unit_test(moved_mapping_has_no_advice_without_monitor_test),
		cmocka_unit_test(failed_unmap_leaves_no_advice_without_monitor_test),
		cmocka_unit_test(advice_of_the_program_stays_test),
		cmocka_unit_test(move_within_a_stop_leaves_no_advice_test),
		cmocka_unit_test(move_beside_the_last_event_leaves_no_advice_test),
		cmocka_unit_test(moves_beside_stops_leave_no_advice_test),
		cmocka_unit_test(advised_part_does_not_hinder_a_move_test),
		cmocka_unit_test(signals_test),
		cmocka_unit_test(locks_go_test),
		cmocka_unit_test(record_locks_stay_test),
		cmocka_unit_test(fork_goes_on_test),
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
		cmocka_unit_test(moved_rest_has_no_advice_test),
		cmocka_unit_test(ends_with_the_last_test),
		cmocka_unit_test(holes_stay_empty_test),
		cmocka_unit_test(hole_of_the_program_stays_empty_test),
		cmocka_unit_test(handlers_may_map_test),
		cmocka_unit_test(nothing_piles_up_test),
		cmocka_unit_test(program_stays_as_it_was_test),
		cmocka_unit_test(no_room_for_a_thread_test),
		cmocka_unit_test(locks_go_in_parts_test),
		cmocka_unit_test(errno_stays_test),
		cmocka_unit_test(mappings_that_change_test),
		cmocka_unit_test(shorter_files_test),
		cmocka_unit_test(filtered_test),
	};

	return cmocka_run_group_tests(tests, new_group, end_group);
}
