// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Write-back: runs, concurrent stores, errors, and its automatic start. */
#include "common.h"

static enum hm_wb take_run(struct hm_file *file, u64 *pos, u64 end, u32 max, bool wait,
			   struct hm_run *run)
{
	memset(run, 0xee, sizeof(*run));
	return hm_writeback(file, pos, end, max, wait, run);
}

/* Claim a run for write-back and check its range. */
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

/*
 * Adjacent dirty units form one run. A gap or a clean unit ends it.
 *
 *	block   0 1 2 3 4 5 6 7 8
 *	        . D D . . D D C D
 *	runs      [ ]     [ ]   ^
 */
static void test_adjacent_dirty_units_form_one_run(void **state)
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
 * A run ends at @max_pages, and the next one starts there. It has at least one unit, even a
 * larger one.
 */
static void test_run_ends_at_max_pages(void **state)
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
 * Adjacent base pages and huge units are different runs. A run of base pages continues from one
 * split block into the next.
 */
static void test_run_has_one_page_size(void **state)
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

/* Write-back of a range writes nothing before its start and from its end on. */
static void test_only_units_in_range_are_written(void **state)
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
	/* A range inside of a huge unit writes the whole unit. */
	pos = P(3) + 2;
	assert_int_equal(take_run(env.file, &pos, P(3) + 3, 8 * HM_BLOCK_PAGES, true, &run),
			 HM_WB_RUN);
	assert_int_equal(run.pgoff, P(3));
	assert_int_equal(pos, P(4));
	done(env.file, &run, 0);
	env_end(&env);
}

/*
 * A unit that is stored to during its write-back stays dirty, so that the next sync writes the
 * store. A failure here loses data.
 *
 *	block		1 2
 *			D D
 *	claim		W W
 *	store to 2	W W	the unit has the flag REDIRTY
 *	end		C D
 */
static void test_store_during_write_back_leaves_unit_dirty(void **state)
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
	/* The flag is cleared: after a write-back without a store the unit is clean. */
	assert_int_equal(write_all(env.file), 1);
	assert_int_equal(state_of(env.file, P(2)), HM_CLEAN);
	env_end(&env);
}

/* A store is not lost if the concurrent write-back fails or is postponed. */
static void test_store_during_failed_write_back_is_kept(void **state)
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
 * A sync must wait for units that another task writes. Background write-back skips them.
 */
static void test_sync_waits_for_writing_unit_background_skips_it(void **state)
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
	assert_int_equal(other, P(1)); /* the sync waits here and tries again */
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

static void test_run_ends_before_unit_under_write_back(void **state)
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

/* After a failed write a unit is still dirty and counted, and the next walk finds it. */
static void test_failed_write_leaves_units_dirty(void **state)
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

static void test_units_of_a_run_end_with_own_results(void **state)
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
static void test_postponed_write_counts_no_error(void **state)
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

static void test_written_unit_can_be_reclaimed(void **state)
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
 * Write-back starts automatically above 75 % (not at 75 %), with the file that has the most dirty
 * pages.
 */
static void test_write_back_starts_above_limit_with_dirtiest_file(void **state)
{
	struct hm_file *other;
	struct hm_unit unit;
	struct env env;
	bool expired;
	u32 i;

	env_start(&env, 16, 1, BYTES(16));
	other = env_open(&env, BYTES(16));
	assert_null(hm_writeback_pick(env.cache, NULL, &expired));
	for (i = 0; i < 13; i++)
		bring(i < 5 ? env.file : other, P(i), HM_ACCESS_READ);
	for (i = 0; i < 12; i++) {
		unit = touch(i < 5 ? env.file : other, P(i), HM_ACCESS_WRITE);
		assert_false(unit.hints & HM_HINT_WRITEBACK);
	}
	assert_null(hm_writeback_pick(env.cache, NULL, &expired)); /* 12 of 16 */
	unit = touch(other, P(12), HM_ACCESS_WRITE);
	assert_true(unit.hints & HM_HINT_WRITEBACK);
	assert_ptr_equal(hm_writeback_pick(env.cache, NULL, &expired), other);
	assert_false(expired);
	write_range(other, P(8), P(12));
	touch(env.file, P(1), HM_ACCESS_WRITE);
	assert_null(hm_writeback_pick(env.cache, NULL, &expired));
	drop(other, P(8), P(12), false);
	for (i = 8; i < 12; i++)
		bring(env.file, P(i),
		      HM_ACCESS(.size = i == 8 ? HM_SIZE_BASE : HM_SIZE_HUGE, .write = true));
	assert_ptr_equal(hm_writeback_pick(env.cache, NULL, &expired), env.file);
	env_end(&env);
}

/* With counters per CPU, write-back may start slightly above the limit. */
static void test_limit_is_slightly_late_with_many_cpus(void **state)
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
 * A file is picked when its oldest dirty unit has expired, and again only after another such
 * period.
 */
static void test_expired_file_is_picked_once_per_period(void **state)
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
	assert_null(hm_writeback_pick(env.cache, NULL, &expired));
	assert_false(expired);
	hm_cache_tick(env.cache, 6000);
	assert_ptr_equal(hm_writeback_pick(env.cache, NULL, &expired), other);
	assert_true(expired);
	assert_null(hm_writeback_pick(env.cache, NULL, &expired));
	hm_cache_tick(env.cache, 8000);
	assert_ptr_equal(hm_writeback_pick(env.cache, NULL, &expired), env.file);
	write_all(env.file);
	hm_cache_tick(env.cache, 11000);
	assert_ptr_equal(hm_writeback_pick(env.cache, NULL, &expired), other);
	write_all(other);
	hm_cache_tick(env.cache, 99000);
	assert_null(hm_writeback_pick(env.cache, NULL, &expired));
	env_end(&env);
}

static struct hm_file *skipped;

static bool skips(struct hm_file *file)
{
	return file == skipped;
}

/* A file that is skipped keeps its age, and other files are picked meanwhile. */
static void test_skipped_file_stays_expired(void **state)
{
	struct hm_file *other;
	struct env env;
	bool expired;
	u32 i;

	env_start(&env, 16, 1, BYTES(16));
	other = env_open(&env, BYTES(16));
	hm_cache_tick(env.cache, 1000);
	bring(env.file, 0, HM_ACCESS_WRITE);
	hm_cache_tick(env.cache, 2000);
	bring(other, 0, HM_ACCESS_WRITE);
	skipped = env.file;
	hm_cache_tick(env.cache, 7000);
	assert_ptr_equal(hm_writeback_pick(env.cache, skips, &expired), other);
	assert_true(expired);
	assert_null(hm_writeback_pick(env.cache, skips, &expired));
	assert_false(expired);
	skipped = NULL;
	assert_ptr_equal(hm_writeback_pick(env.cache, skips, &expired), env.file);
	assert_true(expired);
	/* Above the limit, too, a file that is skipped is not picked. */
	for (i = 1; i < 13; i++)
		bring(env.file, P(i), HM_ACCESS_WRITE);
	skipped = env.file;
	assert_ptr_equal(hm_writeback_pick(env.cache, skips, &expired), other);
	assert_false(expired);
	skipped = other;
	assert_ptr_equal(hm_writeback_pick(env.cache, skips, &expired), env.file);
	write_all(env.file);
	write_all(other);
	env_end(&env);
}

static void test_expire_0_picks_no_file_by_age(void **state)
{
	struct hm_options opts = options_for(16, 1);
	struct env env;
	bool expired;

	opts.dirty_expire_ms = 0;
	env_init(&env, &opts);
	env_open(&env, BYTES(16));
	bring(env.file, 0, HM_ACCESS_WRITE);
	hm_cache_tick(env.cache, 1ull << 40);
	assert_null(hm_writeback_pick(env.cache, NULL, &expired));
	env_end(&env);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_adjacent_dirty_units_form_one_run),
	cmocka_unit_test(test_run_ends_at_max_pages),
	cmocka_unit_test(test_run_has_one_page_size),
	cmocka_unit_test(test_only_units_in_range_are_written),
	cmocka_unit_test(test_store_during_write_back_leaves_unit_dirty),
	cmocka_unit_test(test_store_during_failed_write_back_is_kept),
	cmocka_unit_test(test_sync_waits_for_writing_unit_background_skips_it),
	cmocka_unit_test(test_run_ends_before_unit_under_write_back),
	cmocka_unit_test(test_failed_write_leaves_units_dirty),
	cmocka_unit_test(test_units_of_a_run_end_with_own_results),
	cmocka_unit_test(test_postponed_write_counts_no_error),
	cmocka_unit_test(test_written_unit_can_be_reclaimed),
	cmocka_unit_test(test_write_back_starts_above_limit_with_dirtiest_file),
	cmocka_unit_test(test_limit_is_slightly_late_with_many_cpus),
	cmocka_unit_test(test_expired_file_is_picked_once_per_period),
	cmocka_unit_test(test_skipped_file_stays_expired),
	cmocka_unit_test(test_expire_0_picks_no_file_by_age),
};

int main(void)
{
	return cmocka_run_group_tests_name("writeback", tests, NULL, NULL);
}
