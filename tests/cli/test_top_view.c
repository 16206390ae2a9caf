// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* hugemap top: lines of text from numbers, at every width. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "screen.h"
#include "top_model.h"
#include "top_view.h"

#define MB (1ull << 20)

static struct top_row mount_row(const char *name, uint64_t read, uint64_t dirty)
{
	struct top_row row = { .page = "2M", .dev = 7 };
	struct mount_numbers *now = &row.sample.now;

	strcpy(row.name, name);
	row.sample.seconds = 2;
	now->pool_bytes = 4096 * MB;
	now->count[MOUNT_READ_BYTES] = read;
	now->count[MOUNT_DIRTY_BYTES] = dirty;
	now->count[MOUNT_FAULTS] = 1000;
	now->count[MOUNT_HITS] = 900;
	row.sample.before.count[MOUNT_FAULTS] = 800;
	row.sample.before.count[MOUNT_HITS] = 800;
	now->latency[MOUNT_FAULT_NS] = (struct mount_latency){ 1000, 1500, 20000, 3000000, 1, 1 };
	return row;
}

static struct top_row process_row(void)
{
	struct top_row row = { .name = "4711 python3", .pid = 4711 };
	struct top_steered *steered = &row.steered;

	*steered = (struct top_steered){
		.now = { 40, 10, 30 * MB, 6 * MB },
		.seconds = 2,
		.mappings = 3,
		.mapped_bytes = 60 * MB,
		.huge_bytes = 4 * MB,
		.nmaps = 2,
	};
	steered->map[0] = (struct steer_map){ .pattern = STEER_RANDOM,
					      .bytes = 40 * MB,
					      .touched = 5 * MB,
					      .path = "/data/index",
					      .why = "single pages are read: here and there" };
	steered->map[1] = (struct steer_map){ .pattern = STEER_STREAM,
					      .bytes = 16 * MB,
					      .touched = MB,
					      .huge = 4 * MB,
					      .path = "/data/log",
					      .why = "2 MB are read at a time: the program "
						     "accesses runs of pages at random places" };
	return row;
}

static struct top_model make_model(void)
{
	struct top_model model = { .count = 3, .denied = 2 };

	model.rows = calloc(3, sizeof(*model.rows));
	model.rows[0] = mount_row("/mnt/fast", 20 * MB, 3 * MB);
	model.rows[1] = mount_row("/mnt/faster", 40 * MB, 1 * MB);
	model.rows[2] = process_row();
	model.users.list = calloc(1, sizeof(*model.users.list));
	model.users.count = 1;
	model.users.list[0] = (struct user){ .pid = 12,
					     .name = "reader",
					     .dev = 7,
					     .path = strdup("/mnt/fast/a/file"),
					     .mappings = 2,
					     .mapped_bytes = 8 * MB,
					     .resident_bytes = 4 * MB,
					     .huge_bytes = 2 * MB };
	return model;
}

static struct lines build(struct top_model *model, unsigned int width, enum top_sort sort)
{
	struct top_settings settings = {
		.width = width, .sort = sort, .mappings = true, .interval = 2
	};
	struct lines view = {};

	top_view_build(model, &settings, &view);
	return view;
}

static void test_no_line_is_wider_than_the_terminal(void **state)
{
	struct top_model model = make_model();
	char text[LINE_BYTES];
	unsigned int width;

	for (width = 1; width < 300; width++) {
		struct lines view = build(&model, width, TOP_BY_READ);
		size_t i;

		assert_true(view.count >= 3 + 3 + 3);
		for (i = 0; i < view.count; i++)
			assert_true(lines_fit(text, sizeof(text), view.list[i].text, LINE_BYTES,
					      false) <= width);
		lines_free(&view);
	}
	top_model_free(&model);
}

/* The first row below the head. */
static const char *first(struct top_model *model, enum top_sort sort)
{
	struct lines view = build(model, 80, sort);

	assert_int_equal(view.list[SCREEN_HEAD_LINES].style, LINE_ROW);
	lines_free(&view);
	return model->rows[0].name;
}

static void test_order(void **state)
{
	struct top_model model = make_model();

	assert_string_equal(first(&model, TOP_BY_READ), "/mnt/faster");
	assert_string_equal(first(&model, TOP_BY_DIRTY), "/mnt/fast");
	assert_string_equal(first(&model, TOP_BY_NAME), "/mnt/fast");
	assert_string_equal(first(&model, TOP_BY_FAULTS), "/mnt/fast");
	/* A process has other columns, so it is below all mounts. */
	model.rows[0].steered.now[TOP_FAULTS] = model.rows[2].steered.now[TOP_FAULTS] = 1 << 30;
	assert_string_equal(first(&model, TOP_BY_FAULTS), "/mnt/fast");
	assert_string_equal(model.rows[2].name, "4711 python3");
	top_model_free(&model);
}

static void test_columns(void **state)
{
	struct top_model model = make_model();
	struct lines view = build(&model, 80, TOP_BY_READ);

	assert_string_equal(view.list[2].text,
			    "MOUNT           READ/S WRITE/S FAULT/S HIT%   DIRTY   IO     P50     "
			    "P99 EVICT/S");
	/* 40 MB in 2 s; 100 hits of 200 faults since the time before. */
	assert_string_equal(view.list[3].text,
			    "/mnt/faster      20 MB     0 B     100   50  1.0 MB    0  1.5 us  "
			    "3.0 ms       0");
	lines_free(&view);
	top_model_free(&model);
}

static void test_users_are_below_their_mount(void **state)
{
	struct top_model model = make_model();
	struct lines view;

	model.rows[1].dev = 8;
	view = build(&model, 80, TOP_BY_NAME);
	assert_int_equal(view.list[3].style, LINE_ROW);
	assert_int_equal(view.list[4].style, LINE_USER);
	assert_non_null(strstr(view.list[4].text, " 12 reader       a/file "));
	assert_non_null(strstr(view.list[4].text, "8.0 MB in 2,  4.0 MB here,  50% huge"));
	assert_int_equal(view.list[5].style, LINE_ROW);
	assert_int_equal(view.list[6].style, LINE_COLUMNS);
	lines_free(&view);
	top_model_free(&model);
}

static void test_a_process_has_columns_and_files_of_its_own(void **state)
{
	struct top_model model = make_model();
	struct lines view = build(&model, 80, TOP_BY_NAME);

	assert_string_equal(view.list[0].text,
			    "hugemap top: 2 mounts, 1 process; every 2 s, by name");
	assert_int_equal(view.list[7].style, LINE_COLUMNS);
	assert_string_equal(
		view.list[7].text,
		"PROCESS                      READ/S   USED/S  FAULT/S   WAIT/S   MAPPED"
		"     HUGE");
	assert_string_equal(
		view.list[8].text,
		"4711 python3                  15 MB   3.0 MB       20        5    60 MB"
		"   4.0 MB");
	assert_string_equal(view.list[9].text,
			    "  random     40 MB,  5.0 MB used,     0 B huge  /data/index");
	assert_string_equal(view.list[10].text, "           single pages are read: here and there");
	assert_string_equal(view.list[11].text,
			    "  stream     16 MB,  1.0 MB used,  4.0 MB huge  /data/log");
	/* A long reason has several lines. */
	assert_string_equal(view.list[12].text, "           2 MB are read at a time: the program "
						"accesses runs of pages at random");
	assert_string_equal(view.list[13].text, "           places");
	assert_string_equal(view.list[14].text, "           and 1 more");
	lines_free(&view);
	/* Without a mount the head has the sums and the titles of processes. */
	model.rows[0] = process_row();
	model.count = 1;
	view = build(&model, 80, TOP_BY_NAME);
	assert_string_equal(view.list[1].text,
			    "read 15 MB/s, used 3.0 MB/s, 20 faults/s, of which 5/s wait");
	assert_true(strstr(view.list[2].text, "PROCESS") == view.list[2].text);
	assert_int_equal(view.list[3].style, LINE_ROW);
	lines_free(&view);
	top_model_free(&model);
}

static struct top_strip strip_of(const struct hugemap_cell *cells, size_t count)
{
	struct top_strip strip = { .dev = 7, .bytes = count * 2 * MB, .count = count };

	memcpy(strip.cells, cells, count * sizeof(*cells));
	return strip;
}

/* A cell for each block: pages of the file, cached in huge units, cached in base pages, dirty. */
static const struct hugemap_cell blocks[] = {
	{ 512, 512, 0, 0 }, { 512, 0, 512, 0 }, { 512, 0, 256, 0 },   { 512, 0, 1, 0 },
	{ 512, 0, 0, 0 },   { 512, 0, 90, 1 },	{ 512, 512, 0, 512 }, { 3, 0, 3, 0 },
};

static void test_a_strip_tells_of_each_block(void **state)
{
	struct top_strip strip = strip_of(blocks, 8);
	char text[64];

	assert_int_equal(top_strip_text(text, sizeof(text), &strip, 76, false), 8);
	assert_string_equal(text, "#=-'.dD=");
	assert_int_equal(top_strip_text(text, sizeof(text), &strip, 8, true), 8);
	assert_string_equal(text, "█▓▒░·dD▓");
	/* The text fits into the room, and ends with a whole sign. */
	assert_int_equal(top_strip_text(text, 8, &strip, 8, true), 2);
	assert_string_equal(text, "█▓");
	strip.count = 0;
	assert_int_equal(top_strip_text(text, sizeof(text), &strip, 8, true), 0);
	assert_string_equal(text, "");
}

/* Neighbouring cells share a character if there are more cells than columns. */
static void test_a_strip_follows_the_width(void **state)
{
	static const struct hugemap_cell many[] = {
		{ 512, 512, 0, 0 }, { 512, 0, 0, 0 },	{ 512, 512, 0, 0 }, { 512, 512, 0, 0 },
		{ 512, 0, 0, 0 },   { 512, 0, 0, 0 },	{ 512, 0, 512, 0 }, { 512, 512, 0, 0 },
		{ 512, 0, 300, 0 }, { 512, 0, 300, 0 },
	};
	struct top_strip strip = strip_of(many, 10);
	unsigned int width;
	char text[64];

	assert_int_equal(top_strip_text(text, sizeof(text), &strip, 5, false), 5);
	/* Half of it huge; huge; nothing; as much of both; more than half in base pages. */
	assert_string_equal(text, "h#.#-");
	assert_int_equal(top_strip_text(text, sizeof(text), &strip, 1, false), 1);
	assert_string_equal(text, "h");
	for (width = 1; width < 20; width++)
		assert_int_equal(top_strip_text(text, sizeof(text), &strip, width, false),
				 width < 10 ? width : 10);
}

static void test_strips_are_below_their_mount(void **state)
{
	struct top_settings settings = { .width = 100, .sort = TOP_BY_NAME, .interval = 2 };
	struct top_model model = make_model();
	struct lines view = {};
	size_t n;

	model.rows[1].dev = 8;
	model.strips.list = calloc(1, sizeof(*model.strips.list));
	model.strips.list[0] = strip_of(blocks, 8);
	model.strips.list[0].path = strdup("/mnt/fast/a/file");
	model.strips.count = 1;
	top_view_build(&model, &settings, &view);
	n = view.count;
	lines_free(&view);
	settings.strips = true;
	top_view_build(&model, &settings, &view);
	assert_int_equal(view.count, n + 3);
	assert_string_equal(view.list[4].text,
			    "  a/file: 4.0 MB in 2 MB pages, 3.4 MB in 4 KB, of 16 MB; "
			    "2.0 MB not written");
	assert_string_equal(view.list[5].text, "  [#=-'.dD=]");
	assert_int_equal(view.list[6].style, LINE_ROW);
	assert_string_equal(view.list[view.count - 2].text, top_strip_legend[0]);
	assert_int_equal(view.list[view.count - 2].style, LINE_NOTE);
	lines_free(&view);
	top_model_free(&model);
}

static void test_an_empty_view_says_so(void **state)
{
	struct top_model model = {};
	struct lines view = build(&model, 80, TOP_BY_READ);

	assert_int_equal(view.count, SCREEN_HEAD_LINES + 1);
	assert_int_equal(view.list[SCREEN_HEAD_LINES].style, LINE_NOTE);
	lines_free(&view);
}

static void test_fit_counts_columns_not_bytes(void **state)
{
	char text[32];

	if (!setlocale(LC_CTYPE, "C.UTF-8"))
		skip();
	assert_int_equal(lines_fit(text, sizeof(text), "M\xc3\xbcller", 3, true), 3);
	assert_string_equal(text, "M\xc3\xbcl");
	/* A wide character that does not fit leaves a blank. */
	assert_int_equal(lines_fit(text, sizeof(text), "a\xe6\x97\xa5", 2, true), 2);
	assert_string_equal(text, "a ");
	/* Bytes that are no text, or move the cursor, are not sent to a terminal. */
	assert_int_equal(lines_fit(text, sizeof(text), "\xff\x1b[J\n", 9, false), 5);
	assert_string_equal(text, "??[J?");
	/* lines_fit() writes no more than the room holds. */
	assert_int_equal(lines_fit(text, 4, "abcdef", 6, true), 3);
	assert_string_equal(text, "abc");
	setlocale(LC_CTYPE, "C");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_line_is_wider_than_the_terminal),
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_columns),
		cmocka_unit_test(test_users_are_below_their_mount),
		cmocka_unit_test(test_a_process_has_columns_and_files_of_its_own),
		cmocka_unit_test(test_a_strip_tells_of_each_block),
		cmocka_unit_test(test_a_strip_follows_the_width),
		cmocka_unit_test(test_strips_are_below_their_mount),
		cmocka_unit_test(test_an_empty_view_says_so),
		cmocka_unit_test(test_fit_counts_columns_not_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
