// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Write-back: runs, stores meanwhile, errors, and when it starts by itself. */
#include "common.h"

static enum hm_wb take_run(struct hm_file *file, u64 *pos, u64 end, u32 max, bool wait,
			   struct hm_run *run)
{
	memset(run, 0xee, sizeof(*run));
	return hm_writeback(file, pos, end, max, wait, run);
}

/* Expect a run, and leave it being written. */
static struct hm_run want_run(struct hm_file *file, u64 *pos, u32 max, u64 pgoff, u64 npages)
{
	struct hm_run run;

	assert_int_equal(take_run(file, pos, ~0ull, max, true, &run), HM_WB_RUN);
	assert_int_equal(run.pgoff, pgoff);
	assert_int_equal(run.npages, npages);
	assert_int_equal(*pos, pgoff + npages);
	return run;
}

static void done(struct hm_file *file, const struct hm_run *run, int err)
{
	hm_writeback_done(file, run->pgoff, run->npages, err);
}

/* Adjacent units make one run; a gap or a clean unit ends it. */
static void test_runs(void **state)
{
	struct hm_run run;
	struct env env;
	u64 pos = 0;

	env_start(&env, 16, 1, BYTES(16));
	bring(env.file, P(5), HM_ACCESS_WRITE);
	bring(env.file, P(1), HM_ACCESS_WRITE);
	bring(env.file, P(2), HM_ACCESS_WRITE);
	bring(env.file, P(6), HM_ACCESS_WRITE);
	bring(env.file, P(7), HM_ACCESS_READ);
	bring(env.file, P(8), HM_ACCESS_WRITE);
	run = want_run(env.file, &pos, 8 * HM_BLOCK_PAGES, P(1), 2 * BLOCK);
	assert_int_equal(run.kind, HM_HUGE);
	assert_int_equal(state_of(env.file, P(1)), HM_WRITING);
	assert_int_equal(state_of(env.file, P(2)), HM_WRITING);
	done(env.file, &run, 0);
	assert_int_equal(state_of(env.file, P(1)), HM_CLEAN);
	run = want_run(env.file, &pos, 8 * HM_BLOCK_PAGES, P(5), 2 * BLOCK);
	done(env.file, &run, 0);
	run = want_run(env.file, &pos, 8 * HM_BLOCK_PAGES, P(8), BLOCK);
	done(env.file, &run, 0);
	assert_int_equal(take_run(env.file, &pos, ~0ull, 100, true, &run), HM_WB_DONE);
	assert_int_equal(hm_cache_count(env.cache, HM_C_WRITTEN), 5 * BLOCK);
	env_end(&env);
}

/*
 * A run ends at @max_pages, and goes on there; one unit is always given, even
 * one that is larger.
 */
static void test_max_pages(void **state)
{
	struct hm_run run;
	struct env env;
	u64 pos = 0;
	u32 i;

	env_start(&env, 16, 1, BYTES(16));
	for (i = 0; i < 5; i++)
		bring(env.file, P(i), HM_ACCESS_WRITE);
	run = want_run(env.file, &pos, 2 * HM_BLOCK_PAGES, 0, 2 * BLOCK);
	done(env.file, &run, 0);
	run = want_run(env.file, &pos, 3 * HM_BLOCK_PAGES - 1, P(2), 2 * BLOCK);
	done(env.file, &run, 0);
	run = want_run(env.file, &pos, 1, P(4), BLOCK);
	done(env.file, &run, 0);
	for (i = 0; i < 5; i++)
		bring(env.file, P(8) + i, HM_ACCESS(.size = HM_SIZE_BASE, .write = true));
	run = want_run(env.file, &pos, 3, P(8), 3);
	assert_int_equal(run.kind, HM_BASE);
	done(env.file, &run, 0);
	run = want_run(env.file, &pos, 3, P(8) + 3, 2);
	done(env.file, &run, 0);
	env_end(&env);
}

/*
 * Base pages and blocks side by side are different runs; base pages run on
 * from one split block into the next.
 */
static void test_kinds_apart(void **state)
{
	struct hm_run run;
	struct env env;
	u64 pos = 0;

	env_start(&env, 16, 1, BYTES(16));
	bring(env.file, P(1) - 1, HM_ACCESS(.size = HM_SIZE_BASE, .write = true));
	bring(env.file, P(1), HM_ACCESS_WRITE);
	bring(env.file, P(2), HM_ACCESS(.size = HM_SIZE_BASE, .write = true));
	bring(env.file, P(4) - 1, HM_ACCESS(.size = HM_SIZE_BASE, .write = true));
	bring(env.file, P(4), HM_ACCESS(.size = HM_SIZE_BASE, .write = true));
	run = want_run(env.file, &pos, 8 * HM_BLOCK_PAGES, P(1) - 1, 1);
	assert_int_equal(run.kind, HM_BASE);
	done(env.file, &run, 0);
	run = want_run(env.file, &pos, 8 * HM_BLOCK_PAGES, P(1), BLOCK);
	assert_int_equal(run.kind, HM_HUGE);
	done(env.file, &run, 0);
	run = want_run(env.file, &pos, 8 * HM_BLOCK_PAGES, P(2), 1);
	done(env.file, &run, 0);
	run = want_run(env.file, &pos, 8 * HM_BLOCK_PAGES, P(4) - 1, 2);
	done(env.file, &run, 0);
	env_end(&env);
}

/* A range: nothing before it, nothing from its end on. */
static void test_range(void **state)
{
	struct hm_run run;
	struct env env;
	u64 pos = P(1);
	u32 i;

	env_start(&env, 16, 1, BYTES(16));
	for (i = 0; i < 4; i++)
		bring(env.file, P(i), HM_ACCESS_WRITE);
	assert_int_equal(take_run(env.file, &pos, P(3), 8 * HM_BLOCK_PAGES, true, &run), HM_WB_RUN);
	assert_int_equal(run.pgoff, P(1));
	assert_int_equal(run.npages, 2 * BLOCK);
	done(env.file, &run, 0);
	assert_int_equal(take_run(env.file, &pos, P(3), 8 * HM_BLOCK_PAGES, true, &run),
			 HM_WB_DONE);
	assert_int_equal(state_of(env.file, 0), HM_DIRTY);
	assert_int_equal(state_of(env.file, P(3)), HM_DIRTY);
	/* From the middle of a block, the whole of it. */
	pos = P(3) + 2;
	assert_int_equal(take_run(env.file, &pos, P(3) + 3, 8 * HM_BLOCK_PAGES, true, &run),
			 HM_WB_RUN);
	assert_int_equal(run.pgoff, P(3));
	assert_int_equal(pos, P(4));
	done(env.file, &run, 0);
	env_end(&env);
}

/*
 * A store while it is being written: it stays dirty, so the store is written
 * by the next sync. The one thing that must never go wrong.
 */
static void test_redirty(void **state)
{
	struct hm_unit unit;
	struct hm_run run;
	struct env env;
	u64 pos = 0;

	env_start(&env, 8, 1, BYTES(8));
	bring(env.file, P(1), HM_ACCESS_WRITE);
	bring(env.file, P(2), HM_ACCESS_WRITE);
	run = want_run(env.file, &pos, 8 * HM_BLOCK_PAGES, P(1), 2 * BLOCK);
	touch(env.file, P(1), HM_ACCESS_READ);
	unit = touch(env.file, P(2), HM_ACCESS_WRITE);
	assert_int_equal(unit.hints, 0);
	done(env.file, &run, 0);
	assert_int_equal(state_of(env.file, P(1)), HM_CLEAN);
	assert_int_equal(state_of(env.file, P(2)), HM_DIRTY);
	assert_int_equal(hm_cache_dirty_pages(env.cache), BLOCK);
	audit(&env);
	/* The flag is gone: written once more without a store, it is clean. */
	assert_int_equal(write_all(env.file), 1);
	assert_int_equal(state_of(env.file, P(2)), HM_CLEAN);
	env_end(&env);
}

/* A store during a write that fails, or is not tried, is not lost. */
static void test_redirty_other_ends(void **state)
{
	static const int errs[] = { -EIO, HM_WB_AGAIN };
	struct hm_run run;
	struct env env;
	u32 i;

	env_start(&env, 8, 1, BYTES(8));
	for (i = 0; i < 2; i++) {
		u64 pos = 0;

		use(env.file, P(1), HM_ACCESS_WRITE);
		run = want_run(env.file, &pos, 1, P(1), BLOCK);
		touch(env.file, P(1), HM_ACCESS_WRITE);
		done(env.file, &run, errs[i]);
		assert_int_equal(state_of(env.file, P(1)), HM_DIRTY);
		audit(&env);
		assert_int_equal(write_all(env.file), 1);
		assert_int_equal(state_of(env.file, P(1)), HM_CLEAN);
	}
	env_end(&env);
}

/*
 * A sync must not pass what somebody else is writing; background write-back
 * goes on behind it.
 */
static void test_busy(void **state)
{
	struct hm_run first, run;
	struct env env;
	u64 pos = 0, other;

	env_start(&env, 8, 1, BYTES(8));
	bring(env.file, P(1), HM_ACCESS_WRITE);
	bring(env.file, P(3), HM_ACCESS_WRITE);
	first = want_run(env.file, &pos, 1, P(1), BLOCK);
	other = 0;
	assert_int_equal(take_run(env.file, &other, ~0ull, 1, true, &run), HM_WB_BUSY);
	assert_int_equal(other, P(1)); /* where it has to wait, and asks again */
	assert_int_equal(take_run(env.file, &other, P(1), 1, true, &run), HM_WB_DONE);
	other = 0;
	assert_int_equal(take_run(env.file, &other, ~0ull, 1, false, &run), HM_WB_RUN);
	assert_int_equal(run.pgoff, P(3));
	done(env.file, &run, 0);
	assert_int_equal(take_run(env.file, &other, ~0ull, 1, false, &run), HM_WB_DONE);
	other = 0;
	assert_int_equal(take_run(env.file, &other, ~0ull, 1, true, &run), HM_WB_BUSY);
	done(env.file, &first, 0);
	assert_int_equal(take_run(env.file, &other, ~0ull, 1, true, &run), HM_WB_DONE);
	env_end(&env);
}

/*
 * A run stops before a unit that is being written: with or without waiting it
 * is not part of it.
 */
static void test_run_meets_writing(void **state)
{
	struct hm_run middle, run;
	struct env env;
	u64 pos = P(2), other = 0;

	env_start(&env, 8, 1, BYTES(8));
	bring(env.file, P(1), HM_ACCESS_WRITE);
	bring(env.file, P(2), HM_ACCESS_WRITE);
	bring(env.file, P(3), HM_ACCESS_WRITE);
	middle = want_run(env.file, &pos, 1, P(2), BLOCK);
	run = want_run(env.file, &other, 8 * HM_BLOCK_PAGES, P(1), BLOCK);
	done(env.file, &run, 0);
	done(env.file, &middle, 0);
	run = want_run(env.file, &other, 8 * HM_BLOCK_PAGES, P(3), BLOCK);
	done(env.file, &run, 0);
	env_end(&env);
}

/* A failed write: dirty still, counted still, found by the next walk. */
static void test_error_keeps_dirty(void **state)
{
	struct hm_run run;
	struct env env;
	u64 pos = 0;

	env_start(&env, 8, 1, BYTES(8));
	bring(env.file, P(1), HM_ACCESS_WRITE);
	bring(env.file, P(2), HM_ACCESS_WRITE);
	run = want_run(env.file, &pos, 8 * HM_BLOCK_PAGES, P(1), 2 * BLOCK);
	done(env.file, &run, -EIO);
	assert_int_equal(state_of(env.file, P(1)), HM_DIRTY);
	assert_int_equal(state_of(env.file, P(2)), HM_DIRTY);
	assert_int_equal(hm_cache_dirty_pages(env.cache), 2 * BLOCK);
	assert_int_equal(hm_cache_count(env.cache, HM_C_WRITE_ERRORS), 1);
	assert_int_equal(hm_cache_count(env.cache, HM_C_WRITTEN), 0);
	audit(&env);
	assert_int_equal(write_all(env.file), 1);
	assert_int_equal(hm_cache_dirty_pages(env.cache), 0);
	env_end(&env);
}

/* Part of a run may fail: each part is reported by itself. */
static void test_partial_done(void **state)
{
	struct hm_run run;
	struct env env;
	u64 pos = 0;

	env_start(&env, 8, 1, BYTES(8));
	bring(env.file, P(1), HM_ACCESS_WRITE);
	bring(env.file, P(2), HM_ACCESS_WRITE);
	bring(env.file, P(3), HM_ACCESS_WRITE);
	run = want_run(env.file, &pos, 8 * HM_BLOCK_PAGES, P(1), 3 * BLOCK);
	hm_writeback_done(env.file, P(2), HM_BLOCK_PAGES, -EIO);
	assert_int_equal(state_of(env.file, P(1)), HM_WRITING);
	hm_writeback_done(env.file, P(1), HM_BLOCK_PAGES, 0);
	hm_writeback_done(env.file, P(3), HM_BLOCK_PAGES, 0);
	assert_int_equal(state_of(env.file, P(1)), HM_CLEAN);
	assert_int_equal(state_of(env.file, P(2)), HM_DIRTY);
	assert_int_equal(state_of(env.file, P(3)), HM_CLEAN);
	assert_int_equal(run.npages, 3 * BLOCK);
	env_end(&env);
}

/* After HM_WB_AGAIN the unit is dirty, and no error is counted. */
static void test_again(void **state)
{
	struct hm_run run;
	struct env env;
	u64 pos = 0;

	env_start(&env, 8, 1, BYTES(8));
	bring(env.file, P(1), HM_ACCESS_WRITE);
	run = want_run(env.file, &pos, 1, P(1), BLOCK);
	done(env.file, &run, HM_WB_AGAIN);
	assert_int_equal(state_of(env.file, P(1)), HM_DIRTY);
	assert_int_equal(hm_cache_count(env.cache, HM_C_WRITE_ERRORS), 0);
	assert_int_equal(hm_cache_dirty_pages(env.cache), BLOCK);
	assert_int_equal(write_all(env.file), 1);
	env_end(&env);
}

/* Clean after a write-back, a unit can be reclaimed. */
static void test_written_is_queued(void **state)
{
	struct env env;
	u32 i;

	env_start(&env, 8, 2, BYTES(8));
	for (i = 0; i < 8; i++)
		bring(env.file, P(i), HM_ACCESS_WRITE);
	assert_int_equal(evict(env.cache, HM_HUGE, 1), 0);
	write_all(env.file);
	assert_int_equal(evict(env.cache, HM_HUGE, 8), 8);
	env_end(&env);
}

/*
 * Write-back starts by itself above 75 % (not at it), with the store that has
 * the most to write.
 */
static void test_pick_above_limit(void **state)
{
	struct hm_file *other;
	struct hm_unit unit;
	struct env env;
	bool expired;
	u32 i;

	env_start(&env, 16, 1, BYTES(16));
	other = env_open(&env, BYTES(16));
	assert_null(hm_writeback_pick(env.cache, &expired));
	for (i = 0; i < 13; i++)
		bring(i < 5 ? env.file : other, P(i), HM_ACCESS_READ);
	for (i = 0; i < 12; i++) {
		unit = touch(i < 5 ? env.file : other, P(i), HM_ACCESS_WRITE);
		assert_false(unit.hints & HM_HINT_WRITEBACK);
	}
	assert_null(hm_writeback_pick(env.cache, &expired)); /* 12 of 16 */
	unit = touch(other, P(12), HM_ACCESS_WRITE);
	assert_true(unit.hints & HM_HINT_WRITEBACK);
	assert_ptr_equal(hm_writeback_pick(env.cache, &expired), other);
	assert_false(expired);
	write_range(other, P(8), P(12));
	touch(env.file, P(1), HM_ACCESS_WRITE);
	assert_null(hm_writeback_pick(env.cache, &expired));
	drop(other, P(8), P(12), false);
	for (i = 8; i < 12; i++)
		bring(env.file, P(i),
		      HM_ACCESS(.size = i == 8 ? HM_SIZE_BASE : HM_SIZE_HUGE, .write = true));
	assert_ptr_equal(hm_writeback_pick(env.cache, &expired), env.file);
	env_end(&env);
}

/* CPUs that each count for themselves see together that there is too much: a little later. */
static void test_limit_of_many(void **state)
{
	struct hm_unit unit = { .hints = 0 };
	u32 late, limit, i;
	struct env env;

	env_start(&env, 16, 4, BYTES(16));
	late = 4 * env.cache->dirty_step;
	limit = (u32)hm_pool_dirty_limit(env.cache);
	assert_in_range(late, 1, P(16) / 32 + 4);
	for (i = 0; !(unit.hints & HM_HINT_WRITEBACK); i++) {
		assert_in_range(i, 0, limit + late);
		assert_int_equal(hm_cache_dirty_pages(env.cache), i);
		hm_test_cpu = i * 7 / 5 % 4;
		bring(env.file, i, HM_ACCESS(.size = HM_SIZE_BASE));
		unit = touch(env.file, i, HM_ACCESS_WRITE);
	}
	assert_true(i > limit);
	hm_test_cpu = 3;
	write_range(env.file, 0, i);
	assert_int_equal(hm_cache_dirty_pages(env.cache), 0);
	hm_test_cpu = 0;
	env_end(&env);
}

/*
 * A store is picked when its oldest dirty unit is old enough, and not again
 * before as much time has passed.
 */
static void test_pick_expired(void **state)
{
	struct hm_file *other;
	struct env env;
	bool expired;

	env_start(&env, 16, 1, BYTES(16));
	other = env_open(&env, BYTES(16));
	hm_cache_tick(env.cache, 1000);
	bring(other, 0, HM_ACCESS_WRITE);
	hm_cache_tick(env.cache, 3000);
	bring(other, P(1), HM_ACCESS_WRITE);
	bring(env.file, 0, HM_ACCESS_WRITE);
	hm_cache_tick(env.cache, 5999);
	assert_null(hm_writeback_pick(env.cache, &expired));
	assert_false(expired);
	hm_cache_tick(env.cache, 6000);
	assert_ptr_equal(hm_writeback_pick(env.cache, &expired), other);
	assert_true(expired);
	assert_null(hm_writeback_pick(env.cache, &expired));
	hm_cache_tick(env.cache, 8000);
	assert_ptr_equal(hm_writeback_pick(env.cache, &expired), env.file);
	write_all(env.file);
	hm_cache_tick(env.cache, 11000);
	assert_ptr_equal(hm_writeback_pick(env.cache, &expired), other);
	write_all(other);
	hm_cache_tick(env.cache, 99000);
	assert_null(hm_writeback_pick(env.cache, &expired));
	env_end(&env);
}

/* dirty_expire_ms = 0: never by age. */
static void test_pick_never_expires(void **state)
{
	struct hm_options opts = options_for(16, 1);
	struct env env;
	bool expired;

	opts.dirty_expire_ms = 0;
	env_init(&env, &opts);
	env_open(&env, BYTES(16));
	bring(env.file, 0, HM_ACCESS_WRITE);
	hm_cache_tick(env.cache, 1ull << 40);
	assert_null(hm_writeback_pick(env.cache, &expired));
	env_end(&env);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_runs),
	cmocka_unit_test(test_max_pages),
	cmocka_unit_test(test_kinds_apart),
	cmocka_unit_test(test_range),
	cmocka_unit_test(test_redirty),
	cmocka_unit_test(test_redirty_other_ends),
	cmocka_unit_test(test_busy),
	cmocka_unit_test(test_run_meets_writing),
	cmocka_unit_test(test_error_keeps_dirty),
	cmocka_unit_test(test_partial_done),
	cmocka_unit_test(test_again),
	cmocka_unit_test(test_written_is_queued),
	cmocka_unit_test(test_pick_above_limit),
	cmocka_unit_test(test_limit_of_many),
	cmocka_unit_test(test_pick_expired),
	cmocka_unit_test(test_pick_never_expires),
};

int main(void)
{
	return cmocka_run_group_tests_name("writeback", tests, NULL, NULL);
}
