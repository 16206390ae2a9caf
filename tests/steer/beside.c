// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "beside.h"

#include "area.h"
#include "call.h"
#include "wrap.h"

void (*in_move)(void);
bool holds_end, is_held;
static bool holds_loop;

/* The thread that calls mremap() calls this function just before. */
void __wrap_watch_wait_advice(uint64_t start, uint64_t bytes)
{
	void (*run)(void) = in_move;

	__real_watch_wait_advice(start, bytes);
	in_move = NULL;
	if (run)
		run();
}

void stop(void)
{
	steer_alone();
	steer_alone_end();
}

char *map_advised(int fd)
{
	char *at = map_file(fd, PROT_READ, MAP_SHARED);

	IN_ORDER_UNTIL(at, false, has_flag(at + SIZE - PAGE, " hg"));
	return at;
}

bool is_advised(const char *at)
{
	return has_flag(at + SIZE - PAGE, " hg") || has_flag(at + SIZE - PAGE, " rr");
}

char *reserve(void)
{
	char *at = mmap(NULL, SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	CHECK(at != MAP_FAILED);
	return at;
}

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

void hold_monitor(void)
{
	__atomic_store_n(&is_held, false, __ATOMIC_SEQ_CST);
	__atomic_store_n(&holds_loop, true, __ATOMIC_SEQ_CST);
	events_wake();
	WAIT_FOR(__atomic_load_n(&is_held, __ATOMIC_SEQ_CST));
}

void release_monitor(void)
{
	__atomic_store_n(&holds_loop, false, __ATOMIC_SEQ_CST);
	WAIT_FOR(!events_pending());
}

void fill_ring(uint32_t left)
{
	while (events_backlog() < EVENTS_MOST - left)
		CHECK(event_put(&(struct event){ .kind = EVENT_STAYED }));
}

void give_first_advice(void)
{
	struct map *map = map_next(0);

	map->advised = true;
	map_publish(map);
}

char *move(char *at, size_t bytes)
{
	char *new = reserve();

	CHECK(steer_remap(at, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, new) == new);
	return new;
}

char *reserve_two(void)
{
	char *at =
		mmap(NULL, 2 * SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	CHECK(at != MAP_FAILED);
	return at;
}

void map_half(int fd, char *at, size_t offset)
{
	CHECK(mmap(at, SIZE / 2, PROT_READ, MAP_SHARED | MAP_FIXED, fd, (off_t)offset) == at);
	steer_mapped(at, SIZE / 2, PROT_READ, MAP_SHARED, (off_t)offset);
}

static bool is_one_area(const char *at, size_t bytes)
{
	struct area area;

	return area_find((uintptr_t)at, &area) && area.end == (uintptr_t)at + bytes;
}

char *map_by_halves(char *at)
{
	int fd = open_file(O_RDONLY);

	map_half(fd, at, 0);
	map_half(fd, at + SIZE / 2, SIZE / 2);
	IN_ORDER_UNTIL(at, false, has_flag(at, " hg") && is_one_area(at, SIZE));
	return at;
}

void map_advised_memory(char *at)
{
	CHECK(mmap(at, SIZE, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == at);
	CHECK(!madvise(at, SIZE, MADV_HUGEPAGE));
}

/* A check that fails in the child ends it with status 1. */
bool child_has_flag(const char *at, const char *flag)
{
	pid_t child = fork();
	int status;

	if (!child)
		_exit(has_flag(at, flag) ? 3 : 2);
	CHECK(child > 0 && waitpid(child, &status, 0) == child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) >= 2);
	return WEXITSTATUS(status) == 3;
}
