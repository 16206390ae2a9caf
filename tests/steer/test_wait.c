// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Does the program wait for its reads? The test gives the times and the major faults. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "wait.h"

#define US 1000ull
#define MS 1000000ull

/* Times of a program that has run for long before the first call. */
static struct wait begun(void)
{
	struct wait w = {};

	wait_count(&w, 1000000 * MS, 1000 * MS, 5000);
	assert_false(w.waits);
	return w;
}

/* @n major faults; each takes @ns, and @cpu_ns of them is processor time */
static void read_pages(struct wait *w, unsigned int n, uint64_t ns, uint64_t cpu_ns)
{
	while (n--)
		wait_count(w, w->at + ns, w->cpu + cpu_ns, w->major + 1);
}

static void program_that_waits_is_found(void **state)
{
	struct wait w = begun();

	read_pages(&w, WAIT_FAULTS - 1, 500 * US, 50 * US);
	assert_false(w.waits);
	read_pages(&w, 1, 500 * US, 50 * US);
	assert_true(w.waits);
}

static void device_in_memory_makes_no_program_wait(void **state)
{
	struct wait w = begun();

	read_pages(&w, 10 * WAIT_FAULTS, 100 * US, 90 * US);
	assert_false(w.waits);
}

/* The latest reads count: the program may read another file. */
static void judgement_changes(void **state)
{
	struct wait w = begun();

	read_pages(&w, WAIT_FAULTS, 500 * US, 50 * US);
	assert_true(w.waits);
	read_pages(&w, WAIT_FAULTS, 100 * US, 90 * US);
	assert_false(w.waits);
}

/* A program that rests between its reads does not wait for them. */
static void rests_do_not_count(void **state)
{
	struct wait w = begun();
	unsigned int i;

	for (i = 0; i < 4 * WAIT_FAULTS; i++) {
		read_pages(&w, 1, 100 * US, 90 * US);
		wait_count(&w, w.at + 50 * MS, w.cpu, w.major);
		wait_count(&w, w.at + 50 * MS, w.cpu, w.major + 1);
		assert_false(w.waits);
	}
}

/* The next reads may be from another device. */
static void judgement_ends(void **state)
{
	struct wait w = begun();

	read_pages(&w, WAIT_FAULTS, 500 * US, 50 * US);
	wait_count(&w, w.at + WAIT_NS - 1, w.cpu, w.major);
	assert_true(w.waits);
	wait_count(&w, w.at + 1, w.cpu, w.major);
	assert_false(w.waits);
}

/* Before the first call, the process was perhaps idle since the start of the machine. */
static void first_call_does_not_count(void **state)
{
	struct wait w = {};

	wait_count(&w, 1000 * MS, 100 * MS, 500);
	assert_false(w.waits);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(program_that_waits_is_found),
		cmocka_unit_test(device_in_memory_makes_no_program_wait),
		cmocka_unit_test(judgement_changes),
		cmocka_unit_test(rests_do_not_count),
		cmocka_unit_test(judgement_ends),
		cmocka_unit_test(first_call_does_not_count),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
