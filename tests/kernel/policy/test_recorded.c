// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The reader of recorded traces returns the touches of a valid file, and refuses any other
 * file or returns only pages within the stated size. Arguments: traces.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>

#include "policy.h"

static char **traces;

#define HEAD "hugemap-trace 1 100 5\n# title\n\n"

/* NULL: the trace is valid, and then all of its pages must lie within the file. */
static const char *parse(struct trace *t, const void *data, size_t length)
{
	/* A copy of exactly this size, so that AddressSanitizer detects a read past the end. */
	u8 *copy = malloc(length ? length : 1);
	const char *why;
	u64 i;

	assert_non_null(copy);
	memcpy(copy, data, length);
	*t = (struct trace){ .name = "test" };
	why = trace_parse(t, copy, length);
	for (i = 0; !why && i < t->n; i++)
		assert_true(t->access[i] >> 1 < t->pages);
	free(copy);
	return why;
}

static void not_promoted(const void *data, size_t length)
{
	struct trace t;

	assert_non_null(parse(&t, data, length));
	trace_free(&t);
}

#define REFUSED(string) not_promoted(string, sizeof(string) - 1)

static void test_numbers(void **state)
{
	/* Load of page 7, stores to pages 5 to 7, load of the last page. */
	static const char data[] = HEAD "\x38\x17\x02\xd8\x05";
	static const u32 access[] = { 14, 11, 13, 15, 198 };
	struct trace t;

	(void)state;
	assert_null(parse(&t, data, sizeof(data) - 1));
	assert_int_equal(t.pages, 100);
	assert_int_equal(t.n, 5);
	assert_memory_equal(t.access, access, sizeof(access));
	trace_free(&t);
}

static void test_refused(void **state)
{
	(void)state;
	REFUSED("");
	REFUSED("hugemap-trace 2 100 5\n\n\x38\x17\x02\xd8\x05");
	REFUSED("hugemap-trace 1 100 5");
	REFUSED("hugemap-trace 1 100 5 6\n\n\x38\x17\x02\xd8\x05");
	REFUSED("hugemap-trace 1 99 5\n\n\x38\x17\x02\xd8\x05");
	REFUSED("hugemap-trace 1 100 4\n\n\x38\x17\x02\xd8\x05");
	REFUSED("hugemap-trace 1 100 6\n\n\x38\x17\x02\xd8\x05");
	REFUSED("hugemap-trace 1 0 5\n\n\x38\x17\x02\xd8\x05");
	REFUSED("hugemap-trace 1 99999999999 5\n\n\x38\x17\x02\xd8\x05");
	REFUSED("hugemap-trace 1 100 99999999999\n\n\x38\x17\x02\xd8\x05");
	REFUSED("hugemap-trace 1 100 5\n# no end\n\x38");
	REFUSED(HEAD "\x38\x17\x02\xd8\x05\x38"); /* one touch too many */
	REFUSED("hugemap-trace 1 100 3\n\n\x38\x17\x02"); /* the run is too long */
	REFUSED(HEAD "\x04"); /* a page before the first one */
	REFUSED(HEAD "\x02\x7f"); /* a run beyond the last one */
	REFUSED(HEAD "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"); /* the number is too large */
}

static u8 *read_all(const char *path, size_t *length)
{
	FILE *file = fopen(path, "rb");
	u8 *data;

	assert_non_null(file);
	assert_int_equal(fseek(file, 0, SEEK_END), 0);
	*length = (size_t)ftell(file);
	rewind(file);
	data = malloc(*length);
	assert_non_null(data);
	assert_int_equal(fread(data, 1, *length, file), *length);
	fclose(file);
	return data;
}

/* Each trace is valid, refused if cut off anywhere, and harmless with any bit flipped. */
static void test_traces(void **state)
{
	u32 k, i;

	(void)state;
	for (k = 0; traces[k]; k++) {
		u64 seed = 1;
		struct trace t;
		size_t length;
		u8 *data = read_all(traces[k], &length);

		assert_null(parse(&t, data, length));
		trace_free(&t);
		for (i = 0; i < 300; i++) {
			size_t at;

			seed = seed * 6364136223846793005ull + 1442695040888963407ull;
			at = (seed >> 33) % length;
			not_promoted(data, at);
			data[at] ^= (u8)(1u << i % 8);
			parse(&t, data, length);
			trace_free(&t);
			data[at] ^= (u8)(1u << i % 8);
		}
		free(data);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_traces),
	};

	(void)argc;
	traces = argv + 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
