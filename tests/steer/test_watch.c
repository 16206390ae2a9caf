// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* The watcher: what it advises, and what it leaves alone. */
#include "common.h"

#include "memory.h"

static uint64_t memory = 4096 * MB;

/* The watcher calls this one instead of steer/memory.c's. */
uint64_t memory_for_cache(void)
{
	return memory;
}

static uint64_t random_page(void)
{
	static uint64_t state = 88172645463325252ull;

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state % (SIZE / PAGE);
}

static void random_pages(void)
{
	int fd = open_file(O_RDONLY), round, i;
	volatile char *at;

	/* If memory could hold the mapping twice, random reads would be left to the kernel. */
	memory = SIZE;
	forget_cached(fd);
	at = map_file(fd, PROT_READ, MAP_SHARED);
	/* Some at a time, as slowly as a disk would have it. */
	for (round = 0; round < 2000 && !has_pattern((void *)at, STEER_RANDOM); round++) {
		for (i = 0; i < 2; i++) {
			uint64_t page = random_page();

			CHECK((unsigned char)at[page * PAGE] == byte_of(page * PAGE));
		}
		nap();
	}
	CHECK(has_pattern((void *)at, STEER_RANDOM));
	CHECK(told_of((void *)at)->count[STEER_ACT_RANDOM] > 0);
	CHECK(strstr(told_of((void *)at)->why, "single pages"));
}

static void stream(void)
{
	int fd = open_file(O_RDONLY);
	char *at;

	forget_cached(fd);
	at = map_file(fd, PROT_READ, MAP_SHARED);
	IN_ORDER_UNTIL(at, false, has_pattern(at, STEER_STREAM));
	CHECK(told_of(at)->count[STEER_ACT_HUGE] > 0);
	CHECK(strstr(told_of(at)->path, "hugemap-steer-"));
}

/*
 * Store to each page of all of it, and sync each @step bytes unless that is 0. Returns whether
 * huge pages were asked for at the end.
 */
static bool is_helped_after_stores(char *at, size_t step)
{
	size_t i;

	for (i = 0; i < SIZE; i += PAGE) {
		at[i] = (char)byte_of(i);
		if (i % MB == 0)
			nap();
		if (step && i % step == step - PAGE)
			CHECK(!msync(at + i + PAGE - step, step, MS_SYNC));
	}
	return has_flag(at + SIZE - PAGE, " hg");
}

/*
 * In huge folios a program that syncs small pieces would write far more than it stores. One that
 * does not sync is helped.
 */
static void small_writes_are_left_alone(void)
{
	int fd = open_file(O_RDWR), round;
	bool helped = false, left = false;
	char *at;

	for (round = 0; round < 20 && !(helped && left); round++) {
		at = map_file(fd, PROT_READ | PROT_WRITE, MAP_SHARED);
		left |= !is_helped_after_stores(at, 8 * PAGE);
		unmap_file(at);
		at = map_file(fd, PROT_READ | PROT_WRITE, MAP_SHARED);
		helped |= is_helped_after_stores(at, 0);
		unmap_file(at);
		forget_cached(fd);
	}
	CHECK(helped && left);
}

/* In memory a hole that is read takes room: such files are left alone. */
static void files_in_memory_are_left_alone(void)
{
	int fd = memfd_create("test", MFD_CLOEXEC);
	char *at;

	CHECK(fd >= 0 && !ftruncate(fd, (off_t)SIZE));
	at = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, fd, 0);
	steer_mapped(at, SIZE, PROT_READ, MAP_SHARED, 0);
	WAIT_FOR(threads_now() == 1);
	CHECK(steer_own_page() && !told_of(at));
}

static void hints_win(void)
{
	int fd = open_file(O_RDONLY);
	char *at;

	forget_cached(fd);
	at = map_file(fd, PROT_READ, MAP_SHARED);
	CHECK(!madvise(at, SIZE, MADV_RANDOM));
	steer_hint(at, SIZE, MADV_RANDOM);
	IN_ORDER_UNTIL(at, false, has_pattern(at, STEER_HINTED));
	CHECK(has_flag(at + SIZE / 2, " rr") && !has_flag(at + SIZE / 2, " hg"));
	CHECK(!told_of(at)->count[STEER_ACT_POPULATE] && !told_of(at)->count[STEER_ACT_HUGE]);
}

/* What was advised before the program spoke is taken back, as far as it contradicts. */
static void late_hints_win(void)
{
	int fd = open_file(O_RDONLY);
	char *at;

	forget_cached(fd);
	at = map_file(fd, PROT_READ, MAP_SHARED);
	IN_ORDER_UNTIL(at, false, has_flag(at + SIZE - PAGE, " hg"));
	CHECK(!madvise(at, SIZE, MADV_RANDOM));
	steer_hint(at, SIZE, MADV_RANDOM);
	WAIT_FOR(!has_flag(at + SIZE - PAGE, " hg"));
	CHECK(has_flag(at + SIZE - PAGE, " rr"));
}

/* Advice stays known when a part of a mapping goes, and goes with the watcher. */
static void parts_are_taken_back(void)
{
	int fd = open_file(O_RDONLY);
	char *at;

	forget_cached(fd);
	at = map_file(fd, PROT_READ, MAP_SHARED);
	IN_ORDER_UNTIL(at, false, has_flag(at + SIZE - PAGE, " hg"));
	steer_unmapping(at, 8 * MB);
	CHECK(!munmap(at, 8 * MB));
	steer_alone();
	CHECK(!has_flag(at + SIZE - PAGE, " hg"));
}

RUN(random_pages)
RUN(stream)
RUN(small_writes_are_left_alone)
RUN(hints_win)
RUN(late_hints_win)
RUN(parts_are_taken_back)
RUN(files_in_memory_are_left_alone)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_pages_test),
		cmocka_unit_test(stream_test),
		cmocka_unit_test(small_writes_are_left_alone_test),
		cmocka_unit_test(hints_win_test),
		cmocka_unit_test(late_hints_win_test),
		cmocka_unit_test(parts_are_taken_back_test),
		cmocka_unit_test(files_in_memory_are_left_alone_test),
	};

	return cmocka_run_group_tests(tests, new_group, end_group);
}
