// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The policy of steering, on a model of Linux's page cache. The policy must recognise a pattern of
 * accesses soon, and must not read many pages that the program does not use.
 */
#include "world.h"

static void stream_is_read_ahead(void **state)
{
	struct world w;
	u64 page;

	world_make(&w, PAGES, PAGES * 2, false);
	for (page = 0; page < PAGES; page++)
		world_access(&w, page);
	assert_int_equal(w.a.pattern, HM_PATTERN_STREAM);
	assert_int_equal(w.a.mode, HM_MODE_HUGE);
	assert_int_equal(w.read, PAGES);
	assert_true(w.faults < PAGES / REGION / 2 + 32); /* two regions each */
	world_end(&w);
}

/*
 * One region without read-ahead, beyond the window of the kernel, makes a stream continue in huge
 * pages. If no huge pages follow, the policy tries three times more. When the stream has passed the
 * region, the region has the mode of its surroundings again.
 */
static void stream_is_made_huge(bool comes)
{
	u64 page, length, kicks = 0, ends = 0, at = 0, first = 0;
	struct world w;
	u32 i;

	world_make(&w, PAGES, PAGES * 2, false);
	for (page = 0; page < PAGES; page += length) {
		struct hm_touch run = { page, page };

		length = comes && kicks && page >= first ? REGION : 64;
		run.end = page + length;
		hm_advisor_look(&w.a, &run, 1, page);
		for (i = 0; i < w.a.count; i++) {
			const struct hm_advice *advice = &w.a.advice[i];

			assert_int_equal(advice->kind, HM_ADVICE_MODE);
			if (advice->mode == HM_MODE_CHUNK) {
				at = advice->start;
				assert_int_equal(advice->end - at, REGION);
				assert_true(at >= page + (2 * w.window << kicks));
				first = first ? first : at;
				kicks++;
			} else if (at && advice->start <= at && advice->end >= at + REGION) {
				assert_int_equal(advice->mode, HM_MODE_HUGE);
				ends++;
				at = 0;
			}
		}
	}
	assert_int_equal(kicks, comes ? 1 : 4);
	assert_int_equal(ends, kicks);
	world_end(&w);
}

static void stream_is_made_huge_once(void **state)
{
	stream_is_made_huge(true);
}

static void stream_that_stays_small_is_tried_again(void **state)
{
	stream_is_made_huge(false);
}

/*
 * Without huge pages a region in mode CHUNK would be read page by page, so no region gets it. If
 * the caller finds that out later, the region has the mode of its surroundings again.
 */
static void stream_without_huge_pages_is_not_tried(void **state)
{
	u64 page, at, ends;
	struct world w;
	bool late;
	u32 i;

	for (late = false;; late = true) {
		world_make(&w, PAGES, PAGES * 2, false);
		for (page = at = ends = 0; page < PAGES; page += 64) {
			struct hm_touch run = { page, page + 64 };

			w.a.facts.small = !late || at;
			hm_advisor_look(&w.a, &run, 1, page);
			for (i = 0; i < w.a.count; i++) {
				const struct hm_advice *advice = &w.a.advice[i];

				if (advice->mode == HM_MODE_CHUNK) {
					assert_true(late && !at);
					at = advice->start;
				} else if (at && advice->start == at) {
					assert_true(page < at);
					assert_int_equal(advice->end, at + REGION);
					assert_int_equal(advice->mode, HM_MODE_HUGE);
					ends++;
				}
			}
		}
		assert_int_equal(ends, late);
		world_end(&w);
		if (late)
			break;
	}
}

/*
 * If the caller cannot give modes, the policy requests the pages ahead of a stream, in both
 * directions.
 */
static void stream_without_modes_is_requested_ahead(void **state)
{
	struct world w;
	u64 page;
	bool back;

	for (back = false;; back = true) {
		world_make(&w, PAGES, PAGES / 8, false);
		w.a.facts.outside = true;
		for (page = 0; page < PAGES; page++) {
			u64 at = back ? PAGES - 1 - page : page;

			world_access(&w, at);
			/* The caller does not carry out a change of the mode. */
			memset(w.mode, HM_MODE_NORMAL, at % REGION ? 0 : PAGES);
		}
		assert_true(w.faults < 64);
		/* All pages are requested up to the end of the stream. */
		assert_true(!back || w.cached[0]);
		assert_true(w.ahead >= PAGES - 16 * REGION);
		world_end(&w);
		if (back)
			break;
	}
}

/* A mapping gets no huge pages while the program syncs small pieces of it. */
static void small_writes_are_left_alone(void **state)
{
	struct world w;
	u64 page;

	world_make(&w, PAGES, PAGES / 8, true);
	w.a.facts.small_writes = true;
	for (page = 0; page < PAGES; page++)
		world_access(&w, page);
	assert_int_equal(w.a.mode, HM_MODE_NORMAL);
	assert_null(memchr(w.mode, HM_MODE_HUGE, PAGES));
	assert_null(memchr(w.mode, HM_MODE_CHUNK, PAGES));
	/* The program syncs no more, so the mapping gets huge pages again. */
	w.a.facts.small_writes = false;
	for (page = 0; page < PAGES; page++)
		world_access(&w, page);
	assert_int_equal(w.a.mode, HM_MODE_HUGE);
	w.a.facts.small_writes = true;
	for (page = 0; page < PAGES; page++)
		world_access(&w, page);
	assert_null(memchr(w.mode, HM_MODE_HUGE, PAGES));
	world_end(&w);
}

/* A stream touches pages at each multiple of its first page: that is no stride. */
static void stream_may_begin_anywhere(void **state)
{
	static const u64 steps[] = { 16, REGION_PAGES };
	u64 begin, page, step;
	struct world w;
	size_t i;

	for (i = 0; i < 2 * 16; i++) {
		step = steps[i % 2];
		begin = (i / 2 + 1) * step * 3;
		world_make(&w, PAGES, PAGES * 2, false);
		for (page = begin; page + step <= PAGES; page += step) {
			struct hm_touch run = { page, page + step };

			hm_advisor_look(&w.a, &run, 1, page);
			assert_int_not_equal(w.a.pattern, HM_PATTERN_STRIDED);
		}
		assert_int_equal(w.a.pattern, HM_PATTERN_STREAM);
		world_end(&w);
	}
}
/* If the kernel reads only little ahead, chunks gain nothing from a mode. */
static void chunks_with_a_short_window_are_left_alone(void **state)
{
	struct world w;
	u64 page, i, n;

	world_make(&w, PAGES, PAGES / 8, false);
	w.window = 32;
	w.a.facts.window = 32;
	for (i = 0; i < 300; i++) {
		page = any_page(PAGES - 256);
		for (n = 0; n < 256; n++)
			world_access(&w, page + n);
		if (i == 20)
			w.read = w.wanted = 0;
		if (i > 20)
			assert_null(memchr(w.mode, HM_MODE_HUGE, PAGES));
	}
	assert_int_equal(w.a.pattern, HM_PATTERN_CHUNKS);
	assert_int_equal(w.a.mode, HM_MODE_NORMAL);
	assert_true(w.read < w.wanted + w.wanted / 3);
	world_end(&w);
}

/*
 * A program reads arrays of @length pages in any order, and the kernel reads 128 KB ahead. Return
 * the pages for each wait.
 */
static u64 pages_per_wait(u64 length, struct hm_facts facts)
{
	u64 i, n, array, arrays = PAGES / length;
	struct world w;

	world_make(&w, PAGES, 4 * PAGES, false);
	w.window = 32;
	facts.memory = w.a.facts.memory;
	facts.window = w.window;
	w.a.facts = facts;
	for (i = 0; i < arrays / 4; i++) {
		array = i * 7919 % arrays;
		for (n = 0; n < length; n++)
			world_access(&w, array * length + n);
	}
	n = w.wanted / w.faults;
	world_end(&w);
	return n;
}

/* Each request costs time. If the program waits for its reads, few large ones are better. */
static void arrays_are_read_at_once_from_a_slow_device(void **state)
{
	const struct hm_facts slow = { .waits = true }, small = { .waits = true, .small = true };

	assert_true(pages_per_wait(2 * REGION, slow) >= REGION / 2);
	assert_true(pages_per_wait(2 * REGION, (struct hm_facts){}) < REGION / 4);
	assert_true(pages_per_wait(2 * REGION, small) < REGION / 4);
}

/* Return the mode after runs of @length pages at random places. The program uses all pages. */
static enum hm_mode mode_of_runs(u64 length, u64 memory, bool cached)
{
	struct hm_touch run;
	enum hm_mode mode;
	struct world w;
	u64 i;

	world_make(&w, PAGES, memory, false);
	w.a.facts.window = 32;
	w.a.facts.waits = true;
	w.a.facts.cached = cached;
	for (i = 0; i < 40; i++) {
		w.a.facts.read += length;
		w.a.facts.used += length;
		run.start = i * 391 % 1000 * REGION;
		run.end = run.start + length;
		hm_advisor_look(&w.a, &run, 1, i);
	}
	mode = w.a.mode;
	world_end(&w);
	return mode;
}

/* Whole regions would push out pages that the program still needs, or are in memory already. */
static void runs_beyond_memory_or_in_memory_are_left_alone(void **state)
{
	assert_int_not_equal(mode_of_runs(2 * REGION, PAGES / 2, false), HM_MODE_CHUNK);
	assert_int_not_equal(mode_of_runs(2 * REGION, 4 * PAGES, true), HM_MODE_CHUNK);
}

static void short_runs_on_a_slow_device_are_left_alone(void **state)
{
	assert_int_equal(mode_of_runs(2 * REGION, 4 * PAGES, false), HM_MODE_CHUNK);
	assert_int_equal(mode_of_runs(REGION / 2, 4 * PAGES, false), HM_MODE_NORMAL);
}

static void chunks_are_read_at_once(void **state)
{
	struct world w;
	u64 page, i, n;

	world_make(&w, PAGES, PAGES / 8, false);
	for (i = 0; i < 300; i++) {
		page = any_page(PAGES - 256);
		for (n = 0; n < 256; n++)
			world_access(&w, page + n);
		if (i == 20)
			w.read = w.wanted = w.faults = 0;
	}
	assert_int_equal(w.a.pattern, HM_PATTERN_CHUNKS);
	assert_int_equal(w.a.mode, HM_MODE_CHUNK);
	assert_true(w.read < 4 * w.wanted);
	assert_true(w.faults < 2 * 280 + 300); /* two per chunk, and tests of the mode */
	world_end(&w);
}

/* The policy tests from time to time whether its mode for chunks still fits. */
static void chunks_that_end_are_noticed(void **state)
{
	struct world w;
	u64 page, i, n;

	world_make(&w, PAGES, PAGES / 8, false);
	for (i = 0; i < 100; i++) {
		page = any_page(PAGES - 256);
		for (n = 0; n < 256; n++)
			world_access(&w, page + n);
	}
	assert_int_equal(w.a.mode, HM_MODE_CHUNK);
	for (i = 0; i < 40000; i++)
		world_access(&w, any_page(PAGES));
	assert_int_equal(w.a.mode, HM_MODE_RANDOM);
	world_end(&w);
}

/*
 * @looks: looks before that; then those before the change back. Return the page faults after it.
 */
static u64 follow_change_from_scan_to_random_and_back(u64 *looks)
{
	struct world w;
	u64 page, i;

	world_make(&w, PAGES, PAGES / 8, false);
	w.a.look = *looks;
	for (page = 0; page < PAGES / 4; page++)
		world_access(&w, page);
	assert_int_equal(w.a.mode, HM_MODE_HUGE);
	w.read = 0;
	for (i = 0; i < 5000; i++)
		world_access(&w, any_page(PAGES));
	assert_int_equal(w.a.mode, HM_MODE_RANDOM);
	assert_true(w.read < 5000 + 64 * REGION); /* regions until the policy notices */
	w.faults = 0;
	*looks = w.a.look;
	for (page = PAGES / 2; page < PAGES; page++)
		world_access(&w, page);
	assert_int_equal(w.a.mode, HM_MODE_HUGE);
	world_end(&w);
	return w.faults;
}

static void change_from_scan_to_random_and_back_is_followed(void **state)
{
	u64 looks = 0, faults = follow_change_from_scan_to_random_and_back(&looks);

	assert_true(faults < PAGES / REGION / 4 + 128);
}

/* A thousand looks a second are more than 32 bits can count after 50 days. */
static void changes_are_followed_for_years(void **state)
{
	u64 looks = 0;

	follow_change_from_scan_to_random_and_back(&looks);
	/* The 32 bits would overflow soon after the change back. */
	looks = UINT32_MAX - looks - 20;
	follow_change_from_scan_to_random_and_back(&looks);
}

static void four_streams_are_read_ahead(void **state)
{
	struct world w;
	u64 page, n, i;

	world_make(&w, PAGES, PAGES / 8, false);
	for (page = 0; page < PAGES / 4; page += AROUND)
		for (n = 0; n < 4; n++)
			for (i = 0; i < AROUND; i++)
				world_access(&w, n * (PAGES / 4) + page + i);
	assert_int_equal(w.a.pattern, HM_PATTERN_STREAMS);
	assert_int_equal(w.a.mode, HM_MODE_HUGE);
	assert_true(w.faults < 600);
	assert_true(w.read < PAGES + PAGES / 8);
	world_end(&w);
}

static void backward_is_read_ahead(void **state)
{
	struct world w;
	u64 page;

	world_make(&w, PAGES, PAGES / 8, false);
	for (page = PAGES; page-- > 0;)
		world_access(&w, page);
	assert_int_equal(w.a.pattern, HM_PATTERN_BACKWARD);
	assert_int_equal(w.a.mode, HM_MODE_CHUNK);
	assert_true(w.faults < PAGES / REGION + 64);
	assert_true(w.read < PAGES + PAGES / 16);
	world_end(&w);
}

static void stride_is_followed(s64 step)
{
	struct world w;
	s64 page, round;

	world_make(&w, PAGES, PAGES / 8, false);
	/* Three rounds. Each round touches the pages after those of the last round. */
	for (round = 0; round < 3; round++)
		for (page = round; page < (s64)PAGES; page += step)
			world_access(&w, (u64)page);
	assert_int_equal(w.a.pattern, HM_PATTERN_STRIDED);
	assert_int_equal(w.a.mode, HM_MODE_RANDOM);
	/* Nearly all pages were cached before the program touched them. */
	assert_true(w.faults < w.wanted / 10);
	assert_true(w.read < w.wanted + 8 * w.window);
	world_end(&w);
}

/*
 * The program reads runs of 512 KB at equal distances. That is no stride, as the advice for a
 * stride would read only one page of each run.
 */
static void runs_at_a_distance_are_no_stride(void **state)
{
	struct world w;
	u64 page, i;

	world_make(&w, PAGES, PAGES / 8, false);
	for (page = 0; page < PAGES; page += 256) {
		for (i = 0; i < 128; i++)
			world_access(&w, page + i);
		assert_int_not_equal(w.a.pattern, HM_PATTERN_STRIDED);
	}
	world_end(&w);
}

static void strides_are_followed(void **state)
{
	stride_is_followed(64);
	stride_is_followed(97);
}

/*
 * A fault maps the 16 pages around its page that are cached, except for the one that starts the
 * kernel's next read. These are two runs for each access, and the second one begins no stride.
 */
static void a_stride_of_two_runs_is_followed(void **state)
{
	struct world w;
	u64 page;

	world_make(&w, PAGES, PAGES / 8, false);
	for (page = 0; page + 16 <= PAGES; page += 1024) {
		struct hm_touch runs[] = { { page, page + 8 }, { page + 9, page + 16 } };

		hm_advisor_look(&w.a, runs, 2, page);
		if (page >= 8 * 1024)
			assert_int_equal(w.a.pattern, HM_PATTERN_STRIDED);
	}
	world_end(&w);
}

/*
 * Half of the accesses are single pages, the other half are chunks. Each decision lasts for a
 * while.
 */
static void modes_do_not_flap(u32 window)
{
	struct world w;
	u64 page, i, n;

	world_make(&w, PAGES, PAGES / 8, false);
	w.window = window;
	w.a.facts.window = window;
	for (i = 0; i < 20000; i++) {
		page = any_page(PAGES - 64);
		for (n = 0; n < (i % 2 ? 1 : 40); n++)
			world_access(&w, page + n);
	}
	assert_true(w.modes < 16);
	world_end(&w);
}

static void modes_of_mixtures_do_not_flap(void **state)
{
	modes_do_not_flap(32);
	modes_do_not_flap(2048);
}

/*
 * Random accesses of all kinds. Each answer must lie within the mapping, and world_end() must find
 * no other error.
 */
static void random_accesses_get_valid_advice(void **state)
{
	struct world w;
	u64 i, n, page, length;
	u32 round;

	for (round = 0; round < 20; round++) {
		world_make(&w, 64 * REGION - any_page(2) * 3, 1 + any_page(80 * REGION), round & 1);
		w.a.first = any_page(REGION);
		w.a.facts.window = any_page(4096);
		w.a.facts.outside = any_page(4) == 0;
		w.period_ns = 1 + any_page(5000000);
		for (i = 0; i < 400; i++) {
			w.a.facts.small_writes = any_page(8) == 0;
			page = w.a.first + any_page(w.pages - w.a.first);
			length = any_page(3) ? 1 : any_page(4 * REGION);
			for (n = 0; n < length && page + n < w.pages; n++)
				world_access(&w, page + n);
			for (n = 0; n < length && page >= w.a.first + n && any_page(2); n++)
				world_access(&w, page - n);
		}
		world_end(&w);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stream_is_read_ahead),
		cmocka_unit_test(stream_is_made_huge_once),
		cmocka_unit_test(stream_that_stays_small_is_tried_again),
		cmocka_unit_test(stream_without_huge_pages_is_not_tried),
		cmocka_unit_test(stream_without_modes_is_requested_ahead),
		cmocka_unit_test(small_writes_are_left_alone),
		cmocka_unit_test(stream_may_begin_anywhere),
		cmocka_unit_test(chunks_with_a_short_window_are_left_alone),
		cmocka_unit_test(arrays_are_read_at_once_from_a_slow_device),
		cmocka_unit_test(short_runs_on_a_slow_device_are_left_alone),
		cmocka_unit_test(runs_beyond_memory_or_in_memory_are_left_alone),
		cmocka_unit_test(chunks_are_read_at_once),
		cmocka_unit_test(chunks_that_end_are_noticed),
		cmocka_unit_test(change_from_scan_to_random_and_back_is_followed),
		cmocka_unit_test(changes_are_followed_for_years),
		cmocka_unit_test(four_streams_are_read_ahead),
		cmocka_unit_test(backward_is_read_ahead),
		cmocka_unit_test(runs_at_a_distance_are_no_stride),
		cmocka_unit_test(strides_are_followed),
		cmocka_unit_test(a_stride_of_two_runs_is_followed),
		cmocka_unit_test(modes_of_mixtures_do_not_flap),
		cmocka_unit_test(random_accesses_get_valid_advice),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
