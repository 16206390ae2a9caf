// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Invalidation by truncation, punch or POSIX_FADV_DONTNEED. */
#include "common.h"

/*
 * Without discard, invalidation skips dirty units. With discard it removes them and decreases
 * the dirty counters.
 */
static void test_only_discard_removes_dirty_units(void **state)
{
	struct env env;

	env_start(&env, 8, 1, BYTES(2 * HM_NODE_SLOTS));
	bring(env.file, P(1), HM_ACCESS_READ);
	bring(env.file, P(2), HM_ACCESS_WRITE);
	bring(env.file, P(3) + 1, HM_ACCESS(.size = HM_SIZE_BASE));
	bring(env.file, P(3) + 2, HM_ACCESS(.size = HM_SIZE_BASE, .write = true));
	bring(env.file, P(HM_NODE_SLOTS), HM_ACCESS_READ);
	assert_int_equal(drop(env.file, 0, P(1), true), 0);
	assert_int_equal(drop(env.file, P(1), P(4), false), 2);
	assert_int_equal(state_of(env.file, P(2)), HM_DIRTY);
	assert_int_equal(state_of(env.file, P(3) + 2), HM_DIRTY);
	assert_int_equal(state_of(env.file, P(HM_NODE_SLOTS)), HM_CLEAN);
	assert_int_equal(drop(env.file, P(1), P(4), true), 2);
	assert_int_equal(hm_cache_dirty_pages(env.cache), 0);
	assert_int_equal(write_all(env.file), 0);
	assert_int_equal(drop(env.file, 0, ~0ull, true), 1);
	/* A discarded unit leaves no ghost, a dropped clean one does. */
	bring(env.file, P(2), HM_ACCESS_READ);
	assert_int_equal(hm_cache_count(env.cache, HM_C_GHOSTS), 0);
	bring(env.file, P(1), HM_ACCESS_READ);
	assert_int_equal(hm_cache_count(env.cache, HM_C_GHOSTS), 1);
	env_end(&env);
}

/* A call returns after HM_NODE_SLOTS dirty units, and the next call continues behind them. */
static void test_invalidation_of_many_dirty_units_takes_many_calls(void **state)
{
	struct hm_unit unit;
	struct env env;
	u64 pos = 0;
	u32 i;

	env_start(&env, 8, 1, BYTES(8));
	for (i = 0; i <= HM_NODE_SLOTS; i++)
		bring(env.file, i, HM_ACCESS(.size = HM_SIZE_BASE, .write = i < HM_NODE_SLOTS));
	assert_int_equal(hm_invalidate(env.file, &pos, P(8), false, &unit), HM_INV_AGAIN);
	assert_int_equal(pos, HM_NODE_SLOTS);
	assert_int_equal(hm_invalidate(env.file, &pos, P(8), false, &unit), HM_INV_UNIT);
	assert_int_equal(unit.pgoff, HM_NODE_SLOTS);
	assert_false(hm_evict_done(&unit, HM_EVICTED));
	env_end(&env);
}

/* Invalidation stops at a unit that is filling, evicting or under write-back. */
static void test_invalidation_stops_at_busy_unit(void **state)
{
	struct hm_unit filling, unit;
	struct hm_run run;
	struct env env;
	u64 pos = 0, wb = P(2);

	env_start(&env, 8, 1, BYTES(8));
	bring(env.file, P(2), HM_ACCESS_WRITE);
	assert_int_equal(fault(env.file, P(1), HM_ACCESS_READ, &filling), HM_FILL);
	assert_int_equal(hm_writeback(env.file, &wb, P(3), 1, true, &run), HM_WB_RUN);
	assert_int_equal(hm_invalidate(env.file, &pos, P(4), true, &unit), HM_INV_BUSY);
	assert_int_equal(pos, P(1));
	assert_false(hm_fill_done(&filling, 0, false));
	assert_int_equal(hm_invalidate(env.file, &pos, P(4), true, &unit), HM_INV_UNIT);
	assert_int_equal(unit.pgoff, P(1));
	{
		u64 again = P(1);
		struct hm_unit none;

		assert_int_equal(hm_invalidate(env.file, &again, P(4), true, &none), HM_INV_BUSY);
	}
	assert_false(hm_evict_done(&unit, HM_EVICT_DISCARD));
	assert_int_equal(hm_invalidate(env.file, &pos, P(4), true, &unit), HM_INV_BUSY);
	assert_int_equal(pos, P(2));
	hm_writeback_done(env.file, P(2), HM_BLOCK_PAGES, 0);
	assert_int_equal(hm_invalidate(env.file, &pos, P(4), true, &unit), HM_INV_UNIT);
	assert_false(hm_evict_done(&unit, HM_EVICT_DISCARD));
	assert_int_equal(hm_invalidate(env.file, &pos, P(4), true, &unit), HM_INV_DONE);
	env_end(&env);
}

/*
 * If the caller keeps a unit, the unit stays in its queue. If reclaim has removed it from its
 * queue, it is queued again. Reclaim finds it in both cases.
 */
static void test_kept_unit_can_be_reclaimed_later(void **state)
{
	struct hm_unit unit;
	struct env env;
	u64 pos = 0;

	env_start(&env, 8, 1, BYTES(8));
	bring(env.file, 0, HM_ACCESS_READ);
	assert_int_equal(hm_invalidate(env.file, &pos, P(1), false, &unit), HM_INV_UNIT);
	assert_int_equal(evict(env.cache, HM_HUGE, 1), 0);
	assert_false(hm_evict_done(&unit, HM_EVICT_BUSY));
	audit(&env);
	assert_int_equal(evict(env.cache, HM_HUGE, 1), 1);
	bring(env.file, P(1), HM_ACCESS_READ);
	pos = P(1);
	assert_int_equal(hm_invalidate(env.file, &pos, P(2), false, &unit), HM_INV_UNIT);
	assert_false(hm_evict_done(&unit, HM_EVICT_DIRTY));
	assert_int_equal(state_of(env.file, P(1)), HM_DIRTY);
	audit(&env);
	assert_int_equal(write_all(env.file), 1);
	/* The reference bit and the read-ahead marker survive. */
	bring(env.file, P(2), HM_ACCESS_READ);
	touch(env.file, P(2), HM_ACCESS_READ);
	bring(env.file, P(3), HM_ACCESS(.ahead = true, .mark = true));
	for (pos = P(2); pos < P(4);) {
		assert_int_equal(hm_invalidate(env.file, &pos, P(4), false, &unit), HM_INV_UNIT);
		assert_false(hm_evict_done(&unit, HM_EVICT_BUSY));
	}
	assert_true(hm_referenced(env.file, P(2)));
	assert_true(touch(env.file, P(3), HM_ACCESS_READ).hints & HM_HINT_READAHEAD);
	env_end(&env);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_only_discard_removes_dirty_units),
	cmocka_unit_test(test_invalidation_of_many_dirty_units_takes_many_calls),
	cmocka_unit_test(test_invalidation_stops_at_busy_unit),
	cmocka_unit_test(test_kept_unit_can_be_reclaimed_later),
};

int main(void)
{
	return cmocka_run_group_tests_name("invalidate", tests, NULL, NULL);
}
