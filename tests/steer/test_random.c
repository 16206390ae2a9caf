// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* The policy of steering for random accesses, and for accesses that only look random. */
#include "world.h"

/*
 * One look reports thousands of random pages in ascending order. Some of them are neighbours by
 * chance.
 */
static void random_in_a_hurry_is_random(void **state)
{
	struct world w;
	u32 i;

	world_make(&w, PAGES, PAGES / 8, false);
	for (i = 0; i < 4; i++)
		world_access(&w, any_page(PAGES));
	w.period_ns = 400000000; /* 400 ms, in which the program touches thousands of pages */
	w.read = w.wanted = 0;
	for (i = 0; i < 200000; i++)
		world_access(&w, any_page(PAGES));
	assert_int_equal(w.a.mode, HM_MODE_RANDOM);
	assert_true(w.read <= w.wanted);
	assert_int_equal(w.modes, 1);
	world_end(&w);
}

static void near_pages_make_no_run(void **state)
{
	struct hm_touch runs[8];
	struct world w;
	u32 i, round;

	world_make(&w, PAGES, PAGES / 8, false);
	for (i = 0; i < 4; i++)
		world_access(&w, any_page(PAGES));
	for (round = 0; round < 50; round++) {
		u64 page = any_page(PAGES - REGION);

		for (i = 0; i < 8; i++, page += 1 + any_page(2 * AROUND - 4))
			runs[i] = (struct hm_touch){ page, page + 1 };
		hm_advisor_look(&w.a, runs, 8, 1000 + round);
		assert_int_equal(w.a.count, 0);
	}
	assert_int_equal(w.a.mode, HM_MODE_RANDOM);
	world_end(&w);
}

static void random_is_known_after_few(void **state)
{
	struct world w;
	u32 i;

	world_make(&w, PAGES, PAGES / 8, false);
	for (i = 0; i < 4; i++)
		world_access(&w, any_page(PAGES));
	assert_int_equal(w.a.mode, HM_MODE_RANDOM);
	w.read = w.wanted = 0;
	for (i = 0; i < 20000; i++)
		world_access(&w, any_page(PAGES));
	assert_int_equal(w.a.mode, HM_MODE_RANDOM);
	assert_int_equal(w.a.pattern, HM_PATTERN_RANDOM);
	assert_true(w.read <= w.wanted);
	world_end(&w);
}

/* If the whole mapping fits into memory, it is read at once after a while. */
static void random_in_memory_is_read_at_once(void **state)
{
	struct world w;
	u32 i;

	world_make(&w, PAGES, 4 * PAGES, false);
	for (i = 0; i < 60000; i++)
		world_access(&w, any_page(PAGES));
	assert_int_equal(w.read, w.held);
	assert_true(w.held > PAGES * 9 / 10);
	assert_true(w.faults < 12500);
	world_end(&w);
}

/* All of it is in the page cache, or memory holds less than several processes request. */
static void little_is_requested(struct hm_facts facts, u64 most)
{
	struct world w;
	u32 i;

	world_make(&w, PAGES, 4 * PAGES, false);
	facts.memory = w.a.facts.memory;
	facts.window = w.a.facts.window;
	w.a.facts = facts;
	for (i = 0; i < 60000; i++)
		world_access(&w, any_page(PAGES));
	assert_int_equal(w.a.mode, HM_MODE_RANDOM);
	assert_true(w.ahead <= most);
	world_end(&w);
}

static void cached_pages_are_not_requested(void **state)
{
	little_is_requested((struct hm_facts){ .cached = true }, 0);
}

/* The program touches nearly all pages of a file at random between two looks. */
static enum hm_mode mode_of_dense_accesses(bool cached)
{
	struct hm_touch run;
	enum hm_mode mode;
	struct world w;
	u32 i;

	world_make(&w, PAGES, 4 * PAGES, false);
	w.a.facts.cached = cached;
	for (i = 0; i < 100; i++)
		world_access(&w, any_page(PAGES));
	assert_int_equal(w.a.mode, HM_MODE_RANDOM);
	for (i = 0; i < PAGES / 22; i++) {
		run = (struct hm_touch){ 22 * i, 22 * i + 20 };
		hm_advisor_look(&w.a, &run, 1, w.now_ns / 1000000 + 1 + i / 1000);
	}
	mode = w.a.mode;
	world_end(&w);
	return mode;
}

static void cached_file_keeps_its_mode(void **state)
{
	assert_int_equal(mode_of_dense_accesses(false), HM_MODE_HUGE);
	assert_int_equal(mode_of_dense_accesses(true), HM_MODE_RANDOM);
}

static void crowded_memory_is_not_filled(void **state)
{
	/* A few regions are hotter than the mean, by chance. */
	little_is_requested((struct hm_facts){ .crowded = true }, PAGES / 100);
}

/* The kernel soon reads all of a small file by its own guesses, so single pages gain nothing. */
static void small_files_are_left_to_the_kernel(void **state)
{
	struct world w;
	u32 i;

	world_make(&w, 60 * REGION, PAGES, false);
	for (i = 0; i < 2000; i++)
		world_access(&w, any_page(w.pages));
	assert_int_equal(w.a.mode, HM_MODE_NORMAL);
	assert_true(w.faults < 60);
	world_end(&w);
}

/*
 * Threads read the seven columns of a table in order, and a few pages of each in turn. Each batch
 * of rows has 4 MB of each column. The kernel reads the table ahead in a few large reads, so a mode
 * in which faults read less makes the program wait more often.
 */
static void columns_are_read(u64 threads, u64 piece)
{
	const u64 columns = 7, batches = 10, column = 2 * REGION;
	const u64 pages = batches * columns * column;
	u64 batch, i, c, t;
	struct world w;

	world_make(&w, pages, 8 * pages, false);
	for (batch = 0; batch < batches; batch += threads)
		for (i = 0; i < column * columns * threads; i++) {
			t = i / piece % threads;
			c = i / piece / threads % columns;
			world_access(&w, ((batch + t) * columns + c) * column + i % piece +
						 i / (piece * threads * columns) * piece);
		}
	assert_true(w.faults <= 2 * pages / w.window);
	assert_null(memchr(w.mode, HM_MODE_RANDOM, pages));
	world_end(&w);
}

static void columns_are_left_to_the_kernel(void **state)
{
	columns_are_read(1, 16);
	columns_are_read(2, 4);
}

/*
 * A program uses single pages of a file that fits into memory. The kernel's guess must not read
 * much more than its trial.
 */
static void guess_that_reads_unused_pages_ends(void **state)
{
	struct world w;

	world_make(&w, PAGES, 4 * PAGES, false);
	while (w.a.mode == HM_MODE_NORMAL && w.read < PAGES)
		world_access(&w, any_page(PAGES));
	assert_int_equal(w.a.mode, HM_MODE_RANDOM);
	assert_true(w.read < 40 * w.window);
	world_end(&w);
}

/*
 * The kernel's guess would fill memory with the zeroes of a sparse file. A fault in a hole is a
 * major fault, so the process may seem to read.
 */
static void pages_of_holes_are_read_one_by_one(void **state)
{
	u32 cached, i;
	struct world w;

	for (cached = 0; cached < 2; cached++) {
		world_make(&w, PAGES, 4 * PAGES, false);
		w.holes = true;
		w.a.facts.cached = cached;
		for (i = 0; i < 200; i++)
			world_access(&w, any_page(PAGES));
		assert_int_equal(w.a.mode, HM_MODE_RANDOM);
		world_end(&w);
	}
}

/*
 * The process has read two windows before the first look, and @before the mapping was made. The
 * program uses pages without reads. Return their number at the change to mode RANDOM.
 */
static u64 used_before_random(bool before)
{
	struct hm_touch run;
	struct world w;
	u64 looks = 0;

	world_make(&w, PAGES, 4 * PAGES, false);
	w.a.facts.read = 2 * w.window + 200;
	w.a.facts.read_at_start = before ? w.a.facts.read : 0;
	while (w.a.mode == HM_MODE_NORMAL && looks < PAGES / AROUND) {
		run.start = any_page(PAGES - AROUND);
		run.end = run.start + AROUND;
		w.a.facts.used += AROUND;
		hm_advisor_look(&w.a, &run, 1, ++looks);
	}
	world_end(&w);
	return w.a.facts.used;
}

/* The program may use pages that were read for the mapping. If it uses more, these are holes. */
static void reads_before_the_first_look_count(void **state)
{
	assert_in_range(used_before_random(false), 4096, 3 * 2048);
	assert_in_range(used_before_random(true), 0, 200);
}

/* Places at distances that make no stride. */
static u64 place(u64 k)
{
	return (32 * k + k % 3) * REGION;
}

/*
 * The kernel has read two windows for each of twelve streams before the first look. The program has
 * used three single pages elsewhere.
 */
static void reads_before_many_streams_count(void **state)
{
	const u64 streams = 12, piece = 64;
	struct hm_touch runs[15];
	struct world w;
	u64 at, k;

	world_make(&w, PAGES, 4 * PAGES, false);
	w.a.facts.read = 2 * streams * w.window;
	for (at = 0; at < w.window / 2; at += piece) {
		for (k = 0; k < streams; k++)
			runs[k] = (struct hm_touch){ place(k) + at, place(k) + at + piece };
		for (; k < 15; k++)
			runs[k] = (struct hm_touch){ place(k), place(k) + 1 };
		w.a.facts.used += streams * piece;
		hm_advisor_look(&w.a, runs, at ? streams : 15, at);
		assert_int_not_equal(w.a.mode, HM_MODE_RANDOM);
	}
	world_end(&w);
}

/*
 * The program reads seven columns of a table in order, batch after batch. The kernel has read
 * @batch pages of each column before the program has used most of them.
 */
static void columns_are_read_before_use(u64 batch)
{
	const u64 columns = 7, piece = 16;
	struct hm_touch runs[7];
	u64 first, at, c, looks = 0;
	struct world w;

	world_make(&w, PAGES, 4 * PAGES, false);
	w.a.facts.window = 32;
	for (first = 0; first + 2 * columns * batch <= PAGES; first += 2 * columns * batch) {
		w.a.facts.read += columns * batch;
		for (at = 0; at < batch; at += piece) {
			for (c = 0; c < columns; c++) {
				runs[c].start = first + 2 * c * batch + at;
				runs[c].end = runs[c].start + piece;
			}
			w.a.facts.used += columns * piece;
			hm_advisor_look(&w.a, runs, columns, ++looks);
			assert_int_not_equal(w.a.mode, HM_MODE_RANDOM);
		}
	}
	world_end(&w);
}

static void reads_before_streams_are_soon_used(void **state)
{
	columns_are_read_before_use(REGION);
	columns_are_read_before_use(2 * REGION);
	columns_are_read_before_use(4 * REGION);
}

/*
 * A program reads six parts of a file slowly in order, and single pages elsewhere. The kernel reads
 * far more for each single page than the program uses.
 */
static void reads_beside_streams_are_judged(void **state)
{
	const u64 streams = 6, part = PAGES / streams;
	u64 looks, k, at = 0, length = REGION;
	struct hm_touch runs[7];
	struct world w;

	world_make(&w, PAGES, 4 * PAGES, false);
	w.a.facts.window = 32;
	for (looks = 0; w.a.mode == HM_MODE_NORMAL && looks < 400; looks++) {
		for (k = 0; k < streams; k++)
			runs[k] = (struct hm_touch){ k * part + at, k * part + at + length };
		runs[k].start = PAGES - 1 - any_page(REGION);
		runs[k].end = runs[k].start + 1;
		w.a.facts.read += 4 * w.a.facts.window;
		w.a.facts.used += streams * length + 1;
		hm_advisor_look(&w.a, runs, streams + 1, looks);
		at += length;
		length = 1;
	}
	assert_int_equal(w.a.mode, HM_MODE_RANDOM);
	world_end(&w);
}

/* The program has used all pages for a long time. Only the last reads of the kernel count. */
static void guess_is_judged_by_its_last_reads(void **state)
{
	struct hm_touch run;
	struct world w;
	u64 i;

	world_make(&w, PAGES, 4 * PAGES, false);
	for (i = 0; i < 20; i++) {
		w.a.facts.read = w.a.facts.used = i * PAGES;
		run = (struct hm_touch){ i, i + 1 };
		hm_advisor_look(&w.a, &run, 1, i);
	}
	for (i = 0; w.a.mode == HM_MODE_NORMAL && i < 80; i++) {
		w.a.facts.read += w.window;
		run.start = any_page(PAGES);
		run.end = run.start + 1;
		hm_advisor_look(&w.a, &run, 1, 100 + i);
	}
	assert_int_equal(w.a.mode, HM_MODE_RANDOM);
	world_end(&w);
}

/* The program uses some adjacent pages at any place, and must not get single pages. */
static void look_around(struct world *w, u64 now_ms)
{
	struct hm_touch run;

	run.start = any_page(PAGES - AROUND);
	run.end = run.start + AROUND;
	hm_advisor_look(&w->a, &run, 1, now_ms);
	assert_int_not_equal(w->a.mode, HM_MODE_RANDOM);
}

/*
 * The process uses all pages that it reads, @pages between two looks at this mapping. A mapping
 * that rests for a while finds all reads for other mappings at its next look.
 */
static void all_reads_are_used(u64 pages, u64 every)
{
	struct world w;
	u64 i;

	world_make(&w, PAGES, 4 * PAGES, false);
	w.a.facts.window = 32;
	for (i = 0; i < 200; i++) {
		w.a.facts.read += i % every ? AROUND : pages;
		w.a.facts.used += i % every ? AROUND : pages;
		look_around(&w, i);
	}
	world_end(&w);
}

static void used_pages_count_after_a_pause(void **state)
{
	all_reads_are_used(128 * REGION, 50);
}

static void used_pages_count_on_a_fast_device(void **state)
{
	all_reads_are_used(100 * REGION, 1);
}

/*
 * The program touches cached pages for a long time, many times the pages that it reads. Then the
 * kernel's guess reads pages that the program does not use.
 */
static void use_of_cached_pages_is_soon_forgotten(void **state)
{
	struct hm_touch run;
	struct world w;
	u64 i;

	world_make(&w, PAGES, 4 * PAGES, false);
	for (i = 0; i < 20; i++) {
		w.a.facts.read = 1 + i;
		w.a.facts.used = i * PAGES;
		run = (struct hm_touch){ i, i + 1 };
		hm_advisor_look(&w.a, &run, 1, i);
	}
	for (i = 0; w.a.mode == HM_MODE_NORMAL && i < 240; i++) {
		w.a.facts.read += w.window;
		run.start = any_page(PAGES);
		run.end = run.start + 1;
		hm_advisor_look(&w.a, &run, 1, 100 + i);
	}
	assert_int_equal(w.a.mode, HM_MODE_RANDOM);
	world_end(&w);
}

/* The program touches many cached pages of another mapping. It reads this one from a device. */
static void use_of_another_mapping_is_no_proof(void **state)
{
	struct world w;
	u64 i;

	world_make(&w, PAGES, 4 * PAGES, false);
	w.a.facts.read = 1;
	for (i = 0; i < 40; i++) {
		w.a.facts.read += 2 * AROUND;
		w.a.facts.used += 100 * REGION;
		look_around(&w, i);
	}
	world_end(&w);
}

/*
 * Files that fit into memory one by one, but not together. Each of them gets single pages, and
 * neither a file as a whole nor the rest of its regions is requested.
 */
static void small_files_that_share_memory_are_random(void **state)
{
	struct hm_shared shared = { .pages = 8 * 32 * REGION };
	struct world w;
	u32 i;

	world_make(&w, 32 * REGION, 96 * REGION, false);
	w.a.facts.shared = shared;
	for (i = 0; i < 4; i++)
		world_access(&w, any_page(w.pages));
	assert_int_equal(w.a.mode, HM_MODE_RANDOM);
	w.read = w.wanted = 0;
	for (i = 0; i < 20000; i++) {
		w.a.facts.shared.faults = 8 * w.a.faults;
		world_access(&w, any_page(w.pages));
	}
	assert_int_equal(w.a.pattern, HM_PATTERN_RANDOM);
	assert_true(w.read <= w.wanted);
	world_end(&w);
}

static void hot_part_is_read_at_once(void **state)
{
	struct world w;
	u32 i;

	world_make(&w, PAGES, PAGES / 8, false);
	for (i = 0; i < 30000; i++)
		world_access(&w, i % 10 ? PAGES / 2 + any_page(PAGES / 20) : any_page(PAGES));
	assert_int_equal(w.a.mode, HM_MODE_RANDOM);
	/* At most half of the pages in the hot twentieth are read one by one. */
	assert_true(w.faults < 3500 + PAGES / 40);
	world_end(&w);
}
int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_in_a_hurry_is_random),
		cmocka_unit_test(near_pages_make_no_run),
		cmocka_unit_test(random_is_known_after_few),
		cmocka_unit_test(random_in_memory_is_read_at_once),
		cmocka_unit_test(cached_pages_are_not_requested),
		cmocka_unit_test(cached_file_keeps_its_mode),
		cmocka_unit_test(crowded_memory_is_not_filled),
		cmocka_unit_test(small_files_are_left_to_the_kernel),
		cmocka_unit_test(columns_are_left_to_the_kernel),
		cmocka_unit_test(guess_that_reads_unused_pages_ends),
		cmocka_unit_test(pages_of_holes_are_read_one_by_one),
		cmocka_unit_test(reads_before_the_first_look_count),
		cmocka_unit_test(reads_before_many_streams_count),
		cmocka_unit_test(reads_before_streams_are_soon_used),
		cmocka_unit_test(reads_beside_streams_are_judged),
		cmocka_unit_test(guess_is_judged_by_its_last_reads),
		cmocka_unit_test(used_pages_count_after_a_pause),
		cmocka_unit_test(used_pages_count_on_a_fast_device),
		cmocka_unit_test(use_of_cached_pages_is_soon_forgotten),
		cmocka_unit_test(use_of_another_mapping_is_no_proof),
		cmocka_unit_test(small_files_that_share_memory_are_random),
		cmocka_unit_test(hot_part_is_read_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
