// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* The watcher: what it advises, and what it leaves alone. */
#include "common.h"

#include "memory.h"

static uint64_t memory = 4096 * MB;
/* With so much, writes are begun after 64 MB of stores: a sixteenth. */
#define WRITTEN_EARLY (1024 * MB)

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

static void begin_writes(bool hinted)
{
	int fd = open_file(O_RDWR), round;
	struct stat before, after;
	char *at;

	memory = WRITTEN_EARLY;
	CHECK(!fstat(fd, &before));
	/* Where the watcher comes too late to get hold of the file, it writes nothing. */
	for (round = 0; round < 20; round++) {
		at = map_file(fd, PROT_READ | PROT_WRITE, MAP_SHARED);
		if (hinted) {
			CHECK(!madvise(at, SIZE, MADV_SEQUENTIAL));
			steer_hint(at, SIZE, MADV_SEQUENTIAL);
		}
		in_order(at, SIZE, true);
		if (told_of(at) && told_of(at)->count[STEER_ACT_WRITE])
			break;
		steer_unmapping(at, SIZE);
		CHECK(!munmap(at, SIZE));
	}
	CHECK(round < 20);
	CHECK(!msync(at, SIZE, MS_SYNC) && !fstat(fd, &after));
	CHECK(after.st_size == before.st_size);
	in_order(at, SIZE, false);
}

static void writes_are_begun(void)
{
	begin_writes(false);
}

/* A hint is about reading. */
static void hinted_writes_are_begun(void)
{
	begin_writes(true);
}

/* What is stored to again after it was written early is written early no more. */
static void rewrites_are_left_alone(void)
{
	int fd = open_file(O_RDWR), round;
	uint64_t written = 0;
	size_t size;
	char *at;

	memory = WRITTEN_EARLY;
	/* Begun at 64 MB or, by a late watcher, a little after; then no more. */
	for (round = 0; round < 20 && !(written && written < 96 * MB); round++) {
		at = map_file(fd, PROT_READ | PROT_WRITE, MAP_SHARED);
		for (size = 8 * MB; size <= SIZE; size += 8 * MB)
			in_order(at, size, true);
		if (told_of(at))
			written = told_of(at)->amount[STEER_ACT_WRITE];
		steer_unmapping(at, SIZE);
		CHECK(!munmap(at, SIZE));
	}
	CHECK(written && written < 96 * MB);
}

/* From end to end; stores, too, and writes each MB itself. Were huge pages asked for? */
static bool is_helped(volatile char *at, bool store)
{
	size_t i;

	for (i = 0; i < SIZE; i += PAGE) {
		if (store)
			at[i] = (char)byte_of(i);
		else
			CHECK((unsigned char)at[i] == byte_of(i));
		if (i % MB)
			continue;
		nap();
		CHECK(!store || i < MB || !msync((char *)at + i - MB, MB, MS_SYNC));
	}
	return told_of((char *)at) && told_of((char *)at)->amount[STEER_ACT_HUGE] >= SIZE / 2;
}

/* On a busy machine a mapping may end before the watcher has seen it. */
static bool is_written_early(const void *at)
{
	const struct steer_map *told = told_of(at);

	return told && told->count[STEER_ACT_WRITE];
}

/*
 * A program that syncs what it stores, piece by piece, would write more in huge folios; one
 * that only reads a writable mapping is read ahead for. The file is changed by others, too.
 */
static void syncs_are_left_alone(void)
{
	int fd = open_file(O_RDWR), round;
	bool helped = false, left = false;
	char *at;

	for (round = 0; round < 20 && !(helped && left); round++) {
		at = map_file(fd, PROT_READ | PROT_WRITE, MAP_SHARED);
		left |= !is_helped(at, true);
		CHECK(!is_written_early(at));
		steer_unmapping(at, SIZE);
		CHECK(!munmap(at, SIZE));
		forget_cached(fd);
		at = map_file(fd, PROT_READ | PROT_WRITE, MAP_SHARED);
		helped |= is_helped(at, false);
		steer_unmapping(at, SIZE);
		CHECK(!munmap(at, SIZE));
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
	steer_mapped(at, SIZE, PROT_READ, MAP_SHARED, fd, 0);
	CHECK(threads_now() == 1 && !steer_page());
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
RUN(writes_are_begun)
RUN(hinted_writes_are_begun)
RUN(rewrites_are_left_alone)
RUN(syncs_are_left_alone)
RUN(hints_win)
RUN(late_hints_win)
RUN(parts_are_taken_back)
RUN(files_in_memory_are_left_alone)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_pages_test),
		cmocka_unit_test(stream_test),
		cmocka_unit_test(writes_are_begun_test),
		cmocka_unit_test(hinted_writes_are_begun_test),
		cmocka_unit_test(rewrites_are_left_alone_test),
		cmocka_unit_test(syncs_are_left_alone_test),
		cmocka_unit_test(hints_win_test),
		cmocka_unit_test(late_hints_win_test),
		cmocka_unit_test(parts_are_taken_back_test),
		cmocka_unit_test(files_in_memory_are_left_alone_test),
	};

	return cmocka_run_group_tests(tests, new_group, end_group);
}
