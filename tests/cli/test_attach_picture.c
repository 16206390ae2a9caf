// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* hugemap attach: the picture of newly mapped pages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "attach_picture.h"

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_page_is_in_one_cell),
		cmocka_unit_test(test_a_stream_is_a_slope),
		cmocka_unit_test(test_the_whole_time_is_shown),
		cmocka_unit_test(test_cells),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
