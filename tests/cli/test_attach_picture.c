// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* hugemap attach: the picture of newly mapped pages, and the verdicts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "attach_picture.h"
#include "attach_print.h"
#include "attach_state.h"
#include "lines.h"

static uint64_t total(const struct picture *picture)
{
	uint64_t sum = 0;
	unsigned int row, column;

	for (row = 0; row < PICTURE_ROWS; row++)
		for (column = 0; column < PICTURE_COLUMNS; column++)
			sum += picture->touched[row][column];
	return sum;
}

static void test_every_page_is_in_one_cell(void **state)
{
	/*
	 * Fewer pages than columns, as many pages as columns, and numbers that are no multiple of
	 * the columns.
	 */
	static const uint64_t sizes[] = { 1, 63, 64, 65, 1000, 262144, (1ull << 36) + 7 };
	static struct picture picture;
	size_t i;

	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		picture_begin(&picture, sizes[i]);
		picture_touch(&picture, 0, sizes[i]);
		assert_true(total(&picture) == sizes[i]);
		picture_touch(&picture, sizes[i] - 1, sizes[i]);
		assert_true(total(&picture) == sizes[i] + 1);
	}
}

static void test_a_stream_is_a_slope(void **state)
{
	static struct picture picture;
	unsigned int i;

	picture_begin(&picture, PICTURE_COLUMNS * 10);
	for (i = 0; i < PICTURE_ROWS; i++) {
		picture_advance(&picture, i * picture.row_seconds);
		picture_touch(&picture, i * 10, i * 10 + 10);
	}
	assert_int_equal(picture.rows, PICTURE_ROWS);
	for (i = 0; i < PICTURE_ROWS; i++)
		assert_int_equal(picture.touched[i][i], 10);
	assert_true(total(&picture) == PICTURE_ROWS * 10);
}

static void test_the_whole_time_is_shown(void **state)
{
	static struct picture picture;
	double row, seconds;

	picture_begin(&picture, 640);
	row = picture.row_seconds;
	for (seconds = 0; seconds < 1000; seconds += 1) {
		picture_advance(&picture, seconds);
		picture_touch(&picture, 5, 6);
		assert_in_range(picture.rows, 1, PICTURE_ROWS);
	}
	assert_true(total(&picture) == 1000);
	assert_true(picture.row_seconds * PICTURE_ROWS >= 1000);
	assert_true(picture.row_seconds * PICTURE_ROWS < 2000 + row * PICTURE_ROWS);
	/* The same after a long time without new pages. */
	picture_advance(&picture, 1e6);
	assert_true(total(&picture) == 1000);
	assert_in_range(picture.rows, 1, PICTURE_ROWS);
}

static void test_cells(void **state)
{
	uint64_t count[PICTURE_COLUMNS] = { 0, 1, 10, 100, 500, 1000 };
	char text[PICTURE_TEXT];

	picture_strip(count, PICTURE_COLUMNS * 1000, false, text);
	assert_int_equal(strlen(text), PICTURE_COLUMNS);
	assert_memory_equal(text, " .:+## ", 7);
	picture_strip(count, PICTURE_COLUMNS * 1000, true, text);
	assert_true(strstr(text, "░▒▓██") == text + 1);
}

/* A row that was not looked at differs from one without access, and from pages that are mapped. */
static void test_a_cell_without_new_pages_has_a_reason(void **state)
{
	uint64_t mapped[PICTURE_COLUMNS] = { 0, 4, 5, 10 };
	static struct picture picture;
	char text[PICTURE_TEXT];

	picture_begin(&picture, PICTURE_COLUMNS * 10);
	picture_row(&picture, 0, false, text);
	assert_int_equal(strspn(text, "?"), PICTURE_COLUMNS);
	picture_touch(&picture, 0, 1);
	picture_row(&picture, 0, false, text);
	assert_memory_equal(text, "+???", 4);
	picture_sample(&picture, mapped);
	picture_row(&picture, 0, false, text);
	assert_memory_equal(text, "+ -- ", 5);
}

static void test_a_merged_row_is_sampled_if_one_was(void **state)
{
	uint64_t mapped[PICTURE_COLUMNS] = { 10 };
	static struct picture picture;
	char text[PICTURE_TEXT];

	picture_begin(&picture, PICTURE_COLUMNS * 10);
	picture_advance(&picture, picture.row_seconds);
	picture_sample(&picture, mapped);
	picture_advance(&picture, picture.row_seconds * PICTURE_ROWS);
	picture_row(&picture, 0, false, text);
	assert_memory_equal(text, "- ", 2);
	picture_row(&picture, 1, false, text);
	assert_int_equal(strspn(text, "?"), PICTURE_COLUMNS);
	assert_false(picture.sampled[picture.rows - 1]);
}

static void test_mapped_pages_are_counted_by_column(void **state)
{
	/* The first page of the mapping has bit 5, so words and columns do not coincide. */
	static unsigned long seen[32];
	struct watched map = { .seen = seen, .advisor = { .first = 5 } };
	uint64_t column[PICTURE_COLUMNS], sum = 0, page;
	unsigned int i;

	picture_begin(&map.picture, 1000);
	for (page = 0; page < 1000; page += 3)
		seen[(page + 5) / 64] |= 1ul << (page + 5) % 64;
	assert_int_equal(watched_resident(&map, column), 334);
	for (i = 0; i < PICTURE_COLUMNS; i++) {
		assert_in_range(column[i], 4, 6);
		sum += column[i];
	}
	assert_int_equal(sum, 334);
}

/* --- verdicts --- */

static void test_faults_that_wait_decide(void **state)
{
	static const struct {
		double seconds;
		uint64_t major, read_bytes, touched;
		bool waits, reads;
	} cases[] = {
		{ 10, 0, 0, 100000, false, false }, /* cached */
		{ 10, 90, 0, 100000, false, false }, /* 9 a second */
		{ 5, 60, 0, 1000, true, false }, /* 12 a second */
		{ 3600, 100, 0, 1000, true, false }, /* a short time of work in a long watch */
		{ 10, 3, 200ull << 20, 100000, false, true }, /* a stream that Linux reads ahead */
		{ 10, 3, 1 << 20, 100000, false, false },
	};
	struct usage from = { .at = 7, .major = 1000, .read_bytes = 5, .touched = 9 };
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct usage to = {
			.at = from.at + cases[i].seconds,
			.major = from.major + cases[i].major,
			.read_bytes = from.read_bytes + cases[i].read_bytes,
			.touched = from.touched + cases[i].touched,
		};

		assert_true(usage_waits(&from, &to) == cases[i].waits);
		assert_true(usage_reads(&from, &to) == cases[i].reads);
	}
}

static char *text_of(struct attach *attach)
{
	struct text_settings settings = { .width = 200, .final = true, .maps = 1 };
	struct lines lines = {};
	char *text = calloc(1, 1 << 16);
	size_t i;

	text_build(attach, &settings, &lines);
	for (i = 0; i < lines.count; i++) {
		/* Sentences are broken into lines. */
		strcat(text, i && lines.list[i].text[2] != ' ' ? "" : "\n");
		strcat(text, lines.list[i].text + (lines.list[i].text[0] == ' '));
	}
	lines_free(&lines);
	return text;
}

static void test_each_pattern_has_its_advice(void **state)
{
	static const struct {
		enum hm_pattern pattern;
		const char *name, *waits, *cached;
	} cases[] = {
		{ HM_PATTERN_STREAM, " stream: ", "Helps: reading ahead", " stream: " },
		{ HM_PATTERN_STREAMS, " streams: ", "Helps: reading ahead", " streams: " },
		{ HM_PATTERN_BACKWARD, " backward: ", "Helps: reading ahead", " backward: " },
		{ HM_PATTERN_STRIDED, " strided: ", "Helps: reading the next ones", " strided: " },
		{ HM_PATTERN_CHUNKS, " chunks: ", "Helps: 2 MB at the first touch", " cached: " },
		{ HM_PATTERN_RANDOM, " random: ", "Helps: reading single pages", " cached: " },
	};
	static struct watched map;
	struct attach attach = {
		.name = "program",
		.maps = { &map },
		.count = 1,
		.now = { .at = 10, .touched = 1000 },
	};
	size_t i;
	char *text;

	map = (struct watched){ .area = { .end = 1 << 30, .path = (char *)"/file" },
				.ended = true,
				.touched = 1000 };
	picture_begin(&map.picture, 1000);
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		memset(map.scans, 0, sizeof(map.scans));
		map.scans[cases[i].pattern] = 1;
		attach.now.major = 1000;
		text = text_of(&attach);
		assert_non_null(strstr(text, cases[i].name));
		assert_non_null(strstr(text, cases[i].waits));
		free(text);
		attach.now.major = 90;
		text = text_of(&attach);
		assert_non_null(strstr(text, cases[i].cached));
		assert_non_null(strstr(text, "Nothing to gain: only 9.0 faults a second waited"));
		assert_null(strstr(text, "Helps"));
		free(text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_page_is_in_one_cell),
		cmocka_unit_test(test_a_stream_is_a_slope),
		cmocka_unit_test(test_the_whole_time_is_shown),
		cmocka_unit_test(test_cells),
		cmocka_unit_test(test_a_cell_without_new_pages_has_a_reason),
		cmocka_unit_test(test_a_merged_row_is_sampled_if_one_was),
		cmocka_unit_test(test_mapped_pages_are_counted_by_column),
		cmocka_unit_test(test_faults_that_wait_decide),
		cmocka_unit_test(test_each_pattern_has_its_advice),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
