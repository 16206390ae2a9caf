// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* The cost of the program's own hints, and their replacement. */
#include "common.h"

#include "hint.h"

static unsigned long seen[4096]; /* pages that were mapped before: none */

static struct hint_use watched(const struct hm_touch *runs, u32 n, u64 faults, u64 read)
{
	struct hint_use use = {};

	hint_end_pass(&use, &(struct hint_counters){ 100, 1000, 0 });
	hint_count(&use, runs, n, seen, 0);
	hint_end_pass(&use, &(struct hint_counters){ 100 + faults, 1000 + read, use.mapped });
	return use;
}

/* @n runs of @pages pages at a distance of 1,000 pages each. */
static struct hint_use places(u32 n, u64 pages, u64 faults, u64 read)
{
	struct hm_touch runs[200];
	u32 i;

	for (i = 0; i < n; i++)
		runs[i] = (struct hm_touch){ 1000ull * i, 1000ull * i + pages };
	return watched(runs, n, faults, read);
}

static void random_hint_hurts_in_order(void **state)
{
	const struct hm_touch stream[] = { { 0, 4096 } };
	struct hint_use use = watched(stream, 1, 4096, 4096);
	char text[120];

	assert_true(hint_hurts(&use, MADV_RANDOM, true));
	hint_describe(&use, MADV_RANDOM, 32, text, sizeof(text));
	assert_string_equal(text, "the program reads it in order, 4096 reads of 4 KB; without it "
				  "128 of 128 KB");
	/* Cached pages need no read. */
	use = watched(stream, 1, 10, 10);
	assert_false(hint_hurts(&use, MADV_RANDOM, true));
	use = places(200, 1, 200, 200);
	assert_false(hint_hurts(&use, MADV_RANDOM, true));
	/* Runs of 256 KB at random places are read page by page, too. */
	use = places(100, 64, 6400, 6400);
	assert_true(hint_hurts(&use, MADV_RANDOM, true));
	hint_describe(&use, MADV_RANDOM, 0, text, sizeof(text));
	assert_string_equal(text, "the program reads runs of pages, 6400 reads of 4 KB");
}

static void sequential_hint_hurts_single_places(void **state)
{
	struct hint_use use = places(200, 16, 200, 200 * 256);
	char text[120];

	assert_true(hint_hurts(&use, MADV_SEQUENTIAL, false));
	hint_describe(&use, MADV_SEQUENTIAL, 32, text, sizeof(text));
	assert_string_equal(text, "the program reads single places, 200 MB for 200 places");
	/* What fits into memory is read once, and may be used later. */
	assert_false(hint_hurts(&use, MADV_SEQUENTIAL, true));
	use = places(200, 600, 200, 200 * 600);
	assert_false(hint_hurts(&use, MADV_SEQUENTIAL, false));
}

static void huge_hint_hurts_single_places(void **state)
{
	/* Each place reads two regions, and maps one. */
	struct hint_use use = places(100, 512, 100, 100 * 1024);

	assert_true(hint_hurts(&use, MADV_HUGEPAGE, false));
	assert_false(hint_hurts(&use, MADV_HUGEPAGE, true));
	use = places(100, 990, 100, 100 * 1024);
	assert_false(hint_hurts(&use, MADV_HUGEPAGE, false));
	/* Most of the file is cached. Each other place reads two regions. */
	use = places(100, 512, 30, 30 * 1024);
	assert_true(hint_hurts(&use, MADV_HUGEPAGE, false));
	use = places(100, 512, 10, 10 * 1024);
	assert_false(hint_hurts(&use, MADV_HUGEPAGE, false));
}

static void pages_before_the_first_scan_do_not_count(void **state)
{
	const struct hm_touch stream[] = { { 0, 4096 } };
	struct hint_use use = {};

	hint_count(&use, stream, 1, seen, 0);
	hint_end_pass(&use, &(struct hint_counters){ 4096, 4096, 4096 });
	assert_false(hint_hurts(&use, MADV_RANDOM, true));
}

static void end_pass(struct hint_use *use, const struct hm_touch *run, struct hint_counters *now)
{
	hint_count(use, run, 1, seen, 0);
	now->faults += 1000;
	now->read += 1000;
	now->mapped += run->end - run->start;
	hint_end_pass(use, now);
}

/* A program that has read at random for an hour begins to read in order. */
static void latest_accesses_count_most(void **state)
{
	const struct hm_touch place = { 1000, 1016 }, stream = { 0, 1000 };
	struct hint_counters now = {};
	struct hint_use use = {};
	u32 i;

	for (i = 0; i < 3600; i++)
		end_pass(&use, &place, &now);
	for (i = 0; i < 20 && !hint_hurts(&use, MADV_RANDOM, false); i++)
		end_pass(&use, &stream, &now);
	assert_in_range(i, 1, 19);
}

/* The program reads this mapping from memory, and another one from a device. */
static void faults_elsewhere_do_not_count(void **state)
{
	const struct hm_touch stream = { 0, 1000 };
	struct hint_counters now = {};
	struct hint_use use = {};
	u32 i;

	for (i = 0; i < 20; i++) {
		now.mapped += 1000;
		end_pass(&use, &stream, &now);
	}
	assert_false(hint_hurts(&use, MADV_RANDOM, false));
}

/* The program also reads another mapping in order, with few faults. */
static void reads_elsewhere_do_not_count(void **state)
{
	const u64 elsewhere = 100000;
	struct hint_use use = {};
	u32 i;

	hint_end_pass(&use, &(struct hint_counters){});
	for (i = 0; i < 100; i++)
		hint_count(&use, &(struct hm_touch){ 1000 * i, 1000 * i + 16 }, 1, seen, 0);
	hint_end_pass(&use, &(struct hint_counters){ .faults = elsewhere + 100,
						     .read = elsewhere + 1600,
						     .mapped = elsewhere + 1600 });
	assert_false(hint_hurts(&use, MADV_SEQUENTIAL, false));
	assert_false(hint_hurts(&use, MADV_HUGEPAGE, false));
}

/* Each scan finds a part of a slow stream, which begins behind the last one. */
static void slow_stream_is_no_place(void **state)
{
	struct hint_counters now = {};
	struct hint_use use = {};
	u32 i;

	memset(seen, 0xff, sizeof(seen));
	for (i = 1; i < 200; i++)
		end_pass(&use, &(struct hm_touch){ 16 * i, 16 * (i + 1) }, &now);
	memset(seen, 0, sizeof(seen));
	assert_false(hint_hurts(&use, MADV_HUGEPAGE, false));
	assert_false(hint_hurts(&use, MADV_SEQUENTIAL, false));
}

static void report_comes_again_when_counts_double(void **state)
{
	struct hint_use use = places(100, 64, 6400, 6400);

	assert_true(hint_must_report(&use));
	assert_false(hint_must_report(&use));
	use.total *= 3;
	assert_true(hint_must_report(&use));
}

/* Map the file with MADV_RANDOM, and read it in order from the disk, until a condition holds. */
#define READ_HINTED_UNTIL(fd, at, condition)                                \
	do {                                                                \
		int round_;                                                 \
		for (round_ = 0; round_ < 20 && !(condition); round_++) {   \
			CHECK(!madvise((void *)(at), SIZE, MADV_DONTNEED)); \
			forget_cached(fd);                                  \
			in_order(at, SIZE, false);                          \
		}                                                           \
		CHECK(condition);                                           \
	} while (0)

static char *map_hinted(int fd)
{
	char *at = map_file(fd, PROT_READ, MAP_SHARED);

	CHECK(!madvise(at, SIZE, MADV_RANDOM));
	steer_hint(at, SIZE, MADV_RANDOM);
	return at;
}

static bool is_reported(const char *at, const char *words)
{
	const struct steer_map *told = told_of(at);

	return told && strstr(told->why, words);
}

static void cost_is_reported(void)
{
	int fd = open_file(O_RDONLY);
	char *at = map_hinted(fd);

	READ_HINTED_UNTIL(fd, at, is_reported(at, "MADV_RANDOM costs time: the program reads it"));
	CHECK(has_pattern(at, STEER_HINTED) && has_flag(at, " rr"));
}

/* The same, until the monitor has replaced the hint. */
static char *map_replaced(int fd)
{
	const struct steer_settings settings = { .override_hints = true };
	char *at;

	steer_configure(&settings);
	at = map_hinted(fd);
	READ_HINTED_UNTIL(fd, at, !has_flag(at, " rr"));
	return at;
}

/* When the monitor ends, the hint of the program counts again. */
static void hint_is_replaced(void)
{
	int fd = open_file(O_RDONLY);
	char *at = map_replaced(fd);

	READ_HINTED_UNTIL(fd, at, has_pattern(at, STEER_STREAM));
	CHECK(!has_flag(at, " rr"));
	steer_alone();
	CHECK(has_flag(at, " rr") && !has_flag(at, " hg"));
}

/* A child of fork() has no monitor, so the hint of the program counts there. */
static void child_has_the_hint(void)
{
	int fd = open_file(O_RDONLY), status;
	char *at = map_replaced(fd);
	pid_t child;

	child = fork();
	if (!child)
		_exit(!has_flag(at, " rr"));
	CHECK(child > 0 && waitpid(child, &status, 0) == child && !status);
}

/* The program gives another hint after the monitor has replaced the first one. */
static void new_hint_counts(void)
{
	int fd = open_file(O_RDONLY);
	char *at = map_replaced(fd);

	CHECK(!madvise(at, SIZE, MADV_SEQUENTIAL));
	steer_hint(at, SIZE, MADV_SEQUENTIAL);
	WAIT_FOR(has_pattern(at, STEER_HINTED));
	steer_alone();
	CHECK(has_flag(at, " sr"));
}

/* The program gives a hint for a part, so the first one counts again in the rest. */
static void hint_for_a_part_leaves_the_rest(void)
{
	int fd = open_file(O_RDONLY);
	char *at = map_replaced(fd), *rest = at + SIZE - PAGE;

	READ_HINTED_UNTIL(fd, at, has_flag(rest, " hg"));
	CHECK(!madvise(at, 2 * MB, MADV_NORMAL));
	steer_hint(at, 2 * MB, MADV_NORMAL);
	WAIT_FOR(has_flag(rest, " rr"));
	CHECK(!has_flag(at, " rr") && !has_flag(rest, " hg"));
	steer_alone();
	CHECK(has_flag(rest, " rr") && !has_flag(rest, " hg"));
}

/* The monitor steers the larger part of a mapping whose middle is unmapped. */
static void both_parts_have_the_hint(void)
{
	int fd = open_file(O_RDONLY);
	char *at = map_replaced(fd);

	/* The program rests, so the monitor takes its own advice back. */
	WAIT_FOR(!has_flag(at, " hg") && !has_flag(at + SIZE - PAGE, " hg"));
	steer_unmapping(at + SIZE / 4, SIZE / 4);
	CHECK(!munmap(at + SIZE / 4, SIZE / 4));
	steer_alone();
	CHECK(has_flag(at, " rr") && has_flag(at + SIZE - PAGE, " rr"));
}

static bool is_touched(const char *at)
{
	static volatile char *page;

	/* The monitor scans after page faults only. */
	if (!page)
		page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(page != MAP_FAILED && !madvise((void *)page, PAGE, MADV_DONTNEED));
	*page = 1;
	return told_of(at) && told_of(at)->touched > SIZE / 2;
}

/*
 * The next mapping uses the memory of the monitor again. Its pages are mapped before the first
 * scan, which finds them all only if that memory is clean.
 */
static void memory_is_clean_after_a_hint(void)
{
	int fd = open_file(O_RDONLY);
	char *at = map_hinted(fd);

	in_order(at, SIZE, false);
	WAIT_FOR(is_touched(at));
	unmap_file(at);
	at = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, fd, 0);
	CHECK(at != MAP_FAILED);
	in_order(at, SIZE, false);
	steer_mapped(at, SIZE, PROT_READ, MAP_SHARED, 0);
	WAIT_FOR(is_touched(at));
}

RUN(cost_is_reported)
RUN(hint_for_a_part_leaves_the_rest)
RUN(both_parts_have_the_hint)
RUN(memory_is_clean_after_a_hint)
RUN(hint_is_replaced)
RUN(child_has_the_hint)
RUN(new_hint_counts)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_hint_hurts_in_order),
		cmocka_unit_test(sequential_hint_hurts_single_places),
		cmocka_unit_test(huge_hint_hurts_single_places),
		cmocka_unit_test(pages_before_the_first_scan_do_not_count),
		cmocka_unit_test(latest_accesses_count_most),
		cmocka_unit_test(faults_elsewhere_do_not_count),
		cmocka_unit_test(reads_elsewhere_do_not_count),
		cmocka_unit_test(slow_stream_is_no_place),
		cmocka_unit_test(report_comes_again_when_counts_double),
		cmocka_unit_test(cost_is_reported_test),
		cmocka_unit_test(hint_is_replaced_test),
		cmocka_unit_test(child_has_the_hint_test),
		cmocka_unit_test(new_hint_counts_test),
		cmocka_unit_test(hint_for_a_part_leaves_the_rest_test),
		cmocka_unit_test(both_parts_have_the_hint_test),
		cmocka_unit_test(memory_is_clean_after_a_hint_test),
	};

	return cmocka_run_group_tests(tests, new_group, end_group);
}
