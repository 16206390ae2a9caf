// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* The advice that the monitor gives, and the mappings that it does not steer. */
#include "common.h"

#include "map.h"
#include "memory.h"

static uint64_t memory = 4096 * MB;

/* The monitor calls this function instead of the one in steer/memory.c. */
uint64_t memory_for_cache(void)
{
	return memory;
}

uint64_t memory_read_again(void)
{
	return 0;
}

static uint64_t random_page(void)
{
	return random_number() % (SIZE / PAGE);
}

static void random_pages(void)
{
	int fd = open_file(O_RDONLY), round, i;
	volatile char *at;

	/*
	 * Memory must not hold the mapping twice. Otherwise the policy gives no advice for random
	 * reads.
	 */
	memory = SIZE;
	forget_cached(fd);
	at = map_file(fd, PROT_READ, MAP_SHARED);
	/* Read a few pages at a time, as slowly as a disk would. */
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
 * Store to each page of a mapping, and sync each @step bytes unless that is 0. Return whether the
 * monitor has requested huge pages for its end.
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
 * A program that syncs small pieces would write far more than it stores in huge folios, so the
 * monitor takes them back. A program that does not sync keeps them.
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

/*
 * A read of a hole in a file in memory allocates memory. So the monitor does not steer such files.
 */
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
	CHECK(!told_of(at)->count[STEER_ACT_HUGE]);
}

/* Give a hint after the monitor has advised the mapping. Wait until it takes its advice back. */
static char *hint_late(void)
{
	int fd = open_file(O_RDONLY);
	char *at;

	forget_cached(fd);
	at = map_file(fd, PROT_READ, MAP_SHARED);
	IN_ORDER_UNTIL(at, false, has_flag(at + SIZE - PAGE, " hg"));
	CHECK(!madvise(at, SIZE, MADV_RANDOM));
	steer_hint(at, SIZE, MADV_RANDOM);
	WAIT_FOR(!has_flag(at + SIZE - PAGE, " hg"));
	return at;
}

/*
 * When the program gives a hint, the monitor takes back its earlier advice that contradicts the
 * hint.
 */
static void late_hints_win(void)
{
	char *at = hint_late();

	CHECK(has_flag(at + SIZE - PAGE, " rr"));
}

/* MADV_NORMAL ends a hint. The monitor advises the mapping again. */
static void advice_returns_after_a_hint(void)
{
	char *at = hint_late();

	CHECK(!madvise(at, SIZE, MADV_NORMAL));
	steer_hint(at, SIZE, MADV_NORMAL);
	IN_ORDER_UNTIL(at, false, has_flag(at + SIZE - PAGE, " hg"));
}

/*
 * When the program unmaps a part of a mapping, the monitor still knows the advice for the rest, and
 * takes it back when it ends.
 */
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

/* The policy must not take earlier reads of the process for reads of the mapping. */
static void earlier_reads_are_known(void)
{
	static char data[16 * MB];
	int fd = open_file(O_RDONLY);
	const struct map *map;

	forget_cached(fd);
	CHECK(read(fd, data, sizeof(data)) == sizeof(data));
	map_file(fd, PROT_READ, MAP_SHARED);
	WAIT_FOR((map = map_next(0)) && map->advisor.facts.read_at_start >= sizeof(data) / PAGE);
}

static u64 read_before(const char *at)
{
	const struct map *map = map_next_in(0, (uintptr_t)at, (uintptr_t)at + SIZE);

	return map ? map->advisor.facts.read_at_start : 0;
}

/*
 * hugemap.install() reports mappings that the program has made before. So earlier reads may be reads
 * of these mappings.
 */
static void reads_for_an_older_mapping_count(void)
{
	int fd = open_file(O_RDONLY);
	char *older = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, fd, 0), *newer;

	CHECK(older != MAP_FAILED);
	forget_cached(fd);
	in_order(older, 16 * MB, false);
	steer_adopt(older, SIZE, PROT_READ, MAP_SHARED, 0);
	newer = map_file(fd, PROT_READ, MAP_SHARED);
	WAIT_FOR(read_before(newer) >= 16 * MB / PAGE);
	CHECK(told_of(older) && !read_before(older));
}

RUN(random_pages)
RUN(stream)
RUN(earlier_reads_are_known)
RUN(reads_for_an_older_mapping_count)
RUN(small_writes_are_left_alone)
RUN(hints_win)
RUN(late_hints_win)
RUN(advice_returns_after_a_hint)
RUN(parts_are_taken_back)
RUN(files_in_memory_are_left_alone)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_pages_test),
		cmocka_unit_test(stream_test),
		cmocka_unit_test(earlier_reads_are_known_test),
		cmocka_unit_test(reads_for_an_older_mapping_count_test),
		cmocka_unit_test(small_writes_are_left_alone_test),
		cmocka_unit_test(hints_win_test),
		cmocka_unit_test(late_hints_win_test),
		cmocka_unit_test(advice_returns_after_a_hint_test),
		cmocka_unit_test(parts_are_taken_back_test),
		cmocka_unit_test(files_in_memory_are_left_alone_test),
	};

	return cmocka_run_group_tests(tests, new_group, end_group);
}
