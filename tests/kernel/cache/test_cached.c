// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* hm_cached(): it counts the cached pages of a file, and is no access to them. */
#include "common.h"

static struct hm_cached all(struct hm_file *file, u64 pgoff, u64 end)
{
	struct hm_cached sum = {};
	u64 next;

	while (pgoff < end) {
		next = hm_cached(file, pgoff, end, &sum);
		assert_true(next > pgoff);
		pgoff = next;
	}
	return sum;
}

static void is(struct hm_cached sum, u64 huge, u64 base, u64 dirty)
{
	assert_int_equal(sum.huge, huge);
	assert_int_equal(sum.base, base);
	assert_int_equal(sum.dirty, dirty);
}

static void test_counts_huge_base_and_dirty_pages(void **state)
{
	const u64 far = P((u64)HM_NODE_SLOTS * HM_NODE_SLOTS * 2);
	struct env env;

	env_start(&env, 16, 1, BYTES((u64)HM_NODE_SLOTS * HM_NODE_SLOTS * 3));
	is(all(env.file, 0, ~0ull), 0, 0, 0);
	bring(env.file, P(2), HM_ACCESS_READ);
	touch(env.file, P(2) + 1, HM_ACCESS_WRITE);
	bring(env.file, P(3), HM_ACCESS_READ);
	bring(env.file, P(4), HM_ACCESS(.size = HM_SIZE_BASE));
	bring(env.file, P(4) + 5, HM_ACCESS(.size = HM_SIZE_BASE));
	touch(env.file, P(4) + 5, HM_ACCESS_WRITE);
	bring(env.file, far, HM_ACCESS_READ);
	is(all(env.file, 0, ~0ull), 3 * BLOCK, 2, BLOCK + 1);
	is(all(env.file, P(2), P(3)), BLOCK, 0, BLOCK);
	is(all(env.file, P(3), P(4)), BLOCK, 0, 0);
	is(all(env.file, P(4), P(5)), 0, 2, 1);
	/* A range is rounded to whole blocks. */
	is(all(env.file, P(4) + 3, P(4) + 4), 0, 2, 1);
	is(all(env.file, P(5), far), 0, 0, 0);
	write_all(env.file);
	is(all(env.file, 0, ~0ull), 3 * BLOCK, 2, 0);
	drop(env.file, P(4), P(5), false);
	is(all(env.file, P(4), P(5)), 0, 0, 0);
	env_end(&env);
}

/* hm_cached() counts no fault and sets no reference bit. */
static void test_counting_is_no_access(void **state)
{
	struct hm_unit unit;
	struct env env;
	u64 faults;
	u32 i;

	env_start(&env, 16, 1, BYTES(64));
	assert_int_equal(fault(env.file, P(1), HM_ACCESS(.ahead = true), &unit), HM_FILL);
	hm_fill_done(&unit, 0, false);
	bring(env.file, P(3), HM_ACCESS(.size = HM_SIZE_BASE));
	faults = hm_cache_count(env.cache, HM_C_FAULTS);
	for (i = 0; i < 3; i++)
		all(env.file, 0, P(64));
	assert_int_equal(hm_cache_count(env.cache, HM_C_FAULTS), faults);
	assert_int_equal(hm_cache_count(env.cache, HM_C_AHEAD_USED), 0);
	assert_false(hm_referenced(env.file, P(1)));
	assert_false(hm_referenced(env.file, P(3)));
	env_end(&env);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_counts_huge_base_and_dirty_pages),
	cmocka_unit_test(test_counting_is_no_access),
};

int main(void)
{
	return cmocka_run_group_tests_name("cached", tests, NULL, NULL);
}
