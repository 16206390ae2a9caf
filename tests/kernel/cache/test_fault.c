// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Faults: every outcome, with its counters and hints. */
#include "common.h"

/*
 * The first miss claims the unit. The second caller gets HM_BUSY, and hm_fill_done() reports that
 * it must be woken.
 */
static void test_second_fault_waits_for_fill(void **state)
{
	struct hm_unit filling, other;
	struct env env;

	env_start(&env, 8, 1, BYTES(4));
	assert_int_equal(fault(env.file, P(1) + 2, HM_ACCESS_READ, &filling), HM_FILL);
	assert_int_equal(filling.pgoff, P(1));
	assert_int_equal(filling.npages, HM_BLOCK_PAGES);
	assert_ptr_equal(filling.file, env.file);
	assert_int_equal(state_of(env.file, P(1)), HM_FILLING);
	assert_int_equal(fault(env.file, P(1) + 4, HM_ACCESS_READ, &other), HM_BUSY);
	assert_true(hm_fill_done(&filling, 0, false));
	assert_int_equal(fault(env.file, P(1) + 4, HM_ACCESS_READ, &other), HM_HIT);
	assert_int_equal(other.frame, filling.frame);
	assert_int_equal(hm_cache_count(env.cache, HM_C_FAULTS), 2);
	assert_int_equal(hm_cache_count(env.cache, HM_C_FILLS), 1);
	assert_int_equal(hm_cache_count(env.cache, HM_C_HITS), 1);
	/* The waiter flag is cleared: the next fill has no waiter. */
	drop(env.file, 0, ~0ull, true);
	bring(env.file, P(1), HM_ACCESS_READ);
	env_end(&env);
}

/* Read-ahead that meets a fill does not wait, so the fill has no task to wake. */
static void test_readahead_does_not_wait_for_fill(void **state)
{
	struct hm_unit filling, other;
	struct env env;

	env_start(&env, 8, 1, BYTES(4));
	assert_int_equal(fault(env.file, 0, HM_ACCESS_READ, &filling), HM_FILL);
	assert_int_equal(fault(env.file, 0, HM_ACCESS(.ahead = true), &other), HM_BUSY);
	assert_false(hm_fill_done(&filling, 0, false));
	env_end(&env);
}

static void test_fill_for_store_leaves_unit_dirty(void **state)
{
	struct hm_unit unit;
	struct env env;

	env_start(&env, 8, 1, BYTES(4));
	assert_int_equal(fault(env.file, 0, HM_ACCESS_WRITE, &unit), HM_FILL);
	assert_int_equal(hm_cache_dirty_pages(env.cache), 0);
	assert_false(hm_fill_done(&unit, 0, true));
	assert_int_equal(state_of(env.file, 0), HM_DIRTY);
	assert_int_equal(hm_cache_dirty_pages(env.cache), HM_BLOCK_PAGES);
	assert_int_equal(hm_file_dirty_pages(env.file), HM_BLOCK_PAGES);
	env_end(&env);
}

/*
 * The first store to a clean unit makes it dirty and returns the read-ahead hint. A second store
 * and reads change nothing.
 */
static void test_first_store_to_clean_unit_makes_it_dirty(void **state)
{
	struct hm_unit unit;
	struct env env;

	env_start(&env, 8, 1, BYTES(4));
	bring(env.file, 0, HM_ACCESS_READ);
	unit = touch(env.file, 1, HM_ACCESS_READ);
	assert_int_equal(unit.hints, 0);
	assert_int_equal(state_of(env.file, 0), HM_CLEAN);
	unit = touch(env.file, 1, HM_ACCESS_WRITE);
	assert_int_equal(unit.hints, HM_HINT_READAHEAD);
	assert_int_equal(state_of(env.file, 0), HM_DIRTY);
	assert_int_equal(hm_cache_dirty_pages(env.cache), HM_BLOCK_PAGES);
	unit = touch(env.file, 2, HM_ACCESS_WRITE);
	assert_int_equal(unit.hints, 0);
	assert_int_equal(hm_cache_dirty_pages(env.cache), HM_BLOCK_PAGES);
	assert_int_equal(hm_cache_count(env.cache, HM_C_DIRTIED), 1);
	env_end(&env);
}

/* Faults beyond the last page of the file fail. A partial last page can be read. */
static void test_fault_beyond_end_of_file_fails(void **state)
{
	u64 size = BYTES(2) + 3 * HM_PAGE_SIZE + 1;
	struct hm_unit unit;
	struct env env;

	env_start(&env, 8, 1, size);
	bring(env.file, P(2) + 3, HM_ACCESS_READ);
	assert_int_equal(hm_fault(env.file, P(2) + 4, HM_ACCESS_READ, &unit), HM_BEYOND);
	assert_int_equal(hm_fault(env.file, P(3), HM_ACCESS_WRITE, &unit), HM_BEYOND);
	assert_int_equal(hm_fault(env.file, ~0ull, HM_ACCESS_READ, &unit), HM_BEYOND);
	/* After shrinking, a fault fails although the page is still cached. */
	assert_true(hm_file_set_size(env.file, size - HM_PAGE_SIZE));
	assert_int_equal(hm_fault(env.file, P(2) + 3, HM_ACCESS_READ, &unit), HM_BEYOND);
	assert_false(around(env.file, P(2) + 3, &unit));
	assert_int_equal(state_of(env.file, P(2) + 3), HM_CLEAN);
	/* After growing, a fault succeeds. */
	assert_true(hm_file_set_size(env.file, BYTES(4)));
	bring(env.file, P(3) + 1, HM_ACCESS_READ);
	env_end(&env);

	env_start(&env, 8, 1, 0);
	assert_int_equal(hm_fault(env.file, 0, HM_ACCESS_READ, &unit), HM_BEYOND);
	env_end(&env);
}

/* With hm_access.cached_only a fault finds cached pages, and allocates neither nodes nor frames. */
static void test_cached_only_fault_allocates_nothing(void **state)
{
	struct hm_unit unit;
	struct env env;
	u64 free_pages;

	env_start(&env, 8, 1, BYTES(4));
	free_pages = hm_cache_free_pages(env.cache);
	assert_int_equal(hm_fault(env.file, P(1), HM_ACCESS(.cached_only = true), &unit), HM_MISS);
	bring(env.file, P(0), HM_ACCESS_READ);
	assert_int_equal(hm_fault(env.file, P(1), HM_ACCESS(.cached_only = true), &unit), HM_MISS);
	assert_int_equal(hm_cache_free_pages(env.cache), free_pages - HM_BLOCK_PAGES);
	assert_int_equal(hm_fault(env.file, P(0), HM_ACCESS(.cached_only = true, .write = true),
				  &unit),
			 HM_HIT);
	assert_int_equal(state_of(env.file, P(0)), HM_DIRTY);
	assert_int_equal(hm_cache_count(env.cache, HM_C_FAULTS), 2);
	env_end(&env);
}

/*
 * The block in which the file ends is never a huge unit, as pages beyond the end must not be
 * cached. The block before it may be one.
 */
static void test_last_partial_block_is_never_huge(void **state)
{
	struct hm_unit unit;
	struct env env;

	env_start(&env, 8, 1, BYTES(2) + HM_PAGE_SIZE);
	unit = bring(env.file, P(2), HM_ACCESS_READ);
	assert_int_equal(unit.npages, 1);
	unit = bring(env.file, P(2) - 1, HM_ACCESS_READ);
	assert_int_equal(unit.npages, HM_BLOCK_PAGES);
	assert_int_equal(unit.pgoff, P(1));
	/* The file lacks one byte of a whole block. */
	drop(env.file, 0, ~0ull, true);
	hm_file_set_size(env.file, BYTES(2) - 1);
	unit = bring(env.file, P(1), HM_ACCESS_READ);
	assert_int_equal(unit.npages, 1);
	/* The file ends at the end of a block. */
	drop(env.file, 0, ~0ull, true);
	hm_file_set_size(env.file, BYTES(2));
	unit = bring(env.file, P(1), HM_ACCESS_READ);
	assert_int_equal(unit.npages, HM_BLOCK_PAGES);
	env_end(&env);
}

/* If the pool is empty, a fault claims no unit and returns the reclaim hint. */
static void test_fault_without_frame_claims_no_unit(void **state)
{
	struct hm_unit unit;
	struct env env;
	u32 i;

	env_start(&env, 4, 1, BYTES(8));
	for (i = 0; i < 4; i++)
		bring(env.file, P(i), HM_ACCESS_READ);
	assert_int_equal(fault(env.file, P(4), HM_ACCESS_READ, &unit), HM_NO_FRAME);
	assert_true(unit.hints & HM_HINT_RECLAIM);
	assert_int_equal(state_of(env.file, P(4)), HM_ABSENT);
	assert_int_equal(fault(env.file, P(5), HM_ACCESS(.size = HM_SIZE_BASE), &unit),
			 HM_NO_FRAME);
	assert_int_equal(hm_cache_count(env.cache, HM_C_FAULTS), 4);
	drop(env.file, P(1), P(2), false);
	bring(env.file, P(4), HM_ACCESS_READ);
	env_end(&env);
}

/* A miss that leaves few free frames returns the reclaim hint before faults must wait. */
static void test_miss_returns_reclaim_hint_before_pool_is_empty(void **state)
{
	struct hm_options opts = options_for(16, 1);
	struct hm_unit unit;
	struct env env;
	u32 i;

	opts.free_target = 4;
	env_init(&env, &opts);
	env_open(&env, BYTES(16));
	for (i = 0; i < 16; i++) {
		unit = bring(env.file, P(i), HM_ACCESS_READ);
		assert_int_equal(!!(unit.hints & HM_HINT_RECLAIM), 15 - i <= 4);
		assert_int_equal(hm_reclaim_want(env.cache, HM_HUGE) != 0, 15 - i < 4);
	}
	env_end(&env);
}

/*
 * After a failed read of a block, each of its base pages is read by itself and has its own
 * result.
 */
static void test_pages_of_failed_block_are_read_one_by_one(void **state)
{
	struct hm_unit unit, waiter;
	struct env env;
	u32 i;

	env_start(&env, 8, 1, BYTES(4));
	assert_int_equal(fault(env.file, P(1), HM_ACCESS_READ, &unit), HM_FILL);
	assert_int_equal(fault(env.file, P(1) + 1, HM_ACCESS_READ, &waiter), HM_BUSY);
	assert_true(hm_fill_done(&unit, -EIO, false));
	assert_int_equal(hm_cache_count(env.cache, HM_C_READ_ERRORS), 1);
	/* No fault gets the error yet, as single pages may be readable. */
	assert_int_equal(fault(env.file, P(1) + 1, HM_ACCESS_READ, &unit), HM_FILL);
	assert_int_equal(unit.npages, 1);
	assert_false(hm_fill_done(&unit, 0, false));
	/* The block is not read as a whole again, even if none of its pages is cached. */
	drop(env.file, 0, ~0ull, false);
	unit = bring(env.file, P(1) + 2, HM_ACCESS_READ);
	assert_int_equal(unit.npages, 1);
	unit = bring(env.file, P(2), HM_ACCESS_READ);
	assert_int_equal(unit.npages, HM_BLOCK_PAGES);
	/* It is when all pages have been read: the error was that of a device or a server. */
	for (i = 0; i < BLOCK; i++)
		if (i != 2)
			bring(env.file, P(1) + i, HM_ACCESS_READ);
	drop(env.file, 0, ~0ull, false);
	unit = bring(env.file, P(1) + 2, HM_ACCESS_READ);
	assert_int_equal(unit.npages, HM_BLOCK_PAGES);
	env_end(&env);
}

/* Fail the fill of a base page that another fault waits for. */
static void fail_fill_with_waiter(struct hm_file *file, u64 pgoff, struct hm_access access, int err)
{
	struct hm_unit unit, waiter;

	assert_int_equal(fault(file, pgoff, access, &unit), HM_FILL);
	assert_int_equal(fault(file, pgoff, HM_ACCESS(.size = HM_SIZE_BASE), &waiter), HM_BUSY);
	assert_true(hm_fill_done(&unit, err, false));
}

/* One waiting fault gets the error of a base page; the next fault reads the page again. */
static void test_one_waiter_gets_read_error_next_fault_reads_again(void **state)
{
	struct hm_unit unit;
	struct env env;
	u64 free;

	env_start(&env, 8, 1, BYTES(4));
	free = hm_cache_free_pages(env.cache);
	fail_fill_with_waiter(env.file, 3, HM_ACCESS(.size = HM_SIZE_BASE), -ENODATA);
	assert_int_equal(hm_cache_free_pages(env.cache), free);
	assert_int_equal(state_of(env.file, 3), HM_FAILED);
	assert_int_equal(fault(env.file, 3, HM_ACCESS_READ, &unit), HM_ERROR);
	assert_int_equal(unit.err, -ENODATA);
	assert_int_equal(unit.frame, HM_NO_FRAME_ID);
	assert_int_equal(state_of(env.file, 3), HM_ABSENT);
	assert_int_equal(fault(env.file, 3, HM_ACCESS(.size = HM_SIZE_BASE), &unit), HM_FILL);
	assert_false(hm_fill_done(&unit, 0, false));

	/* Without a waiter the error is not kept. */
	assert_int_equal(fault(env.file, 4, HM_ACCESS(.size = HM_SIZE_BASE, .ahead = true), &unit),
			 HM_FILL);
	assert_false(hm_fill_done(&unit, -EIO, false));
	assert_int_equal(state_of(env.file, 4), HM_ABSENT);

	/* A fault that waits for read-ahead gets its error. */
	fail_fill_with_waiter(env.file, 4, HM_ACCESS(.size = HM_SIZE_BASE, .ahead = true), -EIO);
	assert_int_equal(fault(env.file, 4, HM_ACCESS(.size = HM_SIZE_BASE), &unit), HM_ERROR);
	assert_int_equal(unit.err, -EIO);

	/* An error that no fault has collected does not keep the block split. */
	drop(env.file, 0, ~0ull, false);
	fail_fill_with_waiter(env.file, 5, HM_ACCESS(.size = HM_SIZE_BASE), -EIO);
	assert_int_equal(drop(env.file, 0, ~0ull, false), 0);
	assert_int_equal(state_of(env.file, 5), HM_ABSENT);
	unit = bring(env.file, 5, HM_ACCESS_READ);
	assert_int_equal(unit.npages, HM_BLOCK_PAGES);
	env_end(&env);
}

static void test_state_word_keeps_every_errno(void **state)
{
	struct hm_unit unit;
	struct env env;

	env_start(&env, 8, 1, BYTES(4));
	fail_fill_with_waiter(env.file, 3, HM_ACCESS(.size = HM_SIZE_BASE), -4095);
	assert_int_equal(fault(env.file, 3, HM_ACCESS(.size = HM_SIZE_BASE), &unit), HM_ERROR);
	assert_int_equal(unit.err, -4095);
	env_end(&env);
}

/* A cancelled fill leaves no error, and the block can be read as a whole. */
static void test_cancelled_fill_leaves_no_error(void **state)
{
	struct hm_unit unit, waiter;
	struct env env;

	env_start(&env, 8, 1, BYTES(4));
	assert_int_equal(fault(env.file, P(1), HM_ACCESS_READ, &unit), HM_FILL);
	assert_false(hm_fill_cancel(&unit));
	assert_int_equal(state_of(env.file, P(1)), HM_ABSENT);
	assert_int_equal(hm_cache_free_pages(env.cache), 8 * BLOCK);
	assert_int_equal(fault(env.file, P(1), HM_ACCESS_READ, &unit), HM_FILL);
	assert_int_equal(fault(env.file, P(1), HM_ACCESS_READ, &waiter), HM_BUSY);
	assert_true(hm_fill_cancel(&unit));
	assert_int_equal(fault(env.file, P(1), HM_ACCESS(.size = HM_SIZE_BASE), &unit), HM_FILL);
	assert_int_equal(unit.npages, 1);
	assert_false(hm_fill_cancel(&unit));
	unit = bring(env.file, P(1), HM_ACCESS_READ);
	assert_int_equal(unit.npages, HM_BLOCK_PAGES);
	assert_int_equal(hm_cache_count(env.cache, HM_C_READ_ERRORS), 0);
	env_end(&env);
}

/*
 * Read-ahead pages have their own counters and count as used once. The marker gives the
 * read-ahead hint to one fault.
 */
static void test_marker_gives_readahead_hint_to_one_fault(void **state)
{
	struct hm_unit unit;
	struct env env;

	env_start(&env, 8, 1, BYTES(8));
	unit = bring(env.file, P(1), HM_ACCESS(.ahead = true));
	assert_false(unit.hints & HM_HINT_READAHEAD);
	unit = bring(env.file, P(2), HM_ACCESS(.ahead = true, .mark = true));
	assert_int_equal(hm_cache_count(env.cache, HM_C_FAULTS), 0);
	assert_int_equal(hm_cache_count(env.cache, HM_C_AHEAD), 2);
	unit = touch(env.file, P(1), HM_ACCESS_READ);
	assert_int_equal(unit.hints, 0);
	assert_int_equal(hm_cache_count(env.cache, HM_C_AHEAD_USED), 1);
	/* Read-ahead that finds a cached page does not count as its use. */
	assert_int_equal(fault(env.file, P(2), HM_ACCESS(.ahead = true), &unit), HM_HIT);
	assert_int_equal(hm_cache_count(env.cache, HM_C_AHEAD_USED), 1);
	assert_int_equal(hm_cache_count(env.cache, HM_C_HITS), 1);
	assert_false(hm_referenced(env.file, P(2)));
	unit = touch(env.file, P(2), HM_ACCESS_READ);
	assert_int_equal(unit.hints, HM_HINT_READAHEAD);
	assert_int_equal(hm_cache_count(env.cache, HM_C_AHEAD_USED), 2);
	unit = touch(env.file, P(2), HM_ACCESS_READ);
	assert_int_equal(unit.hints, 0);
	assert_int_equal(hm_cache_count(env.cache, HM_C_AHEAD_USED), 2);
	/* A stream may start at a demand miss. */
	unit = bring(env.file, P(3), HM_ACCESS_READ);
	assert_true(unit.hints & HM_HINT_READAHEAD);
	/* A read-ahead page that is evicted unused counts as wasted. */
	bring(env.file, P(4), HM_ACCESS(.ahead = true));
	drop(env.file, P(4), P(5), false);
	assert_int_equal(hm_cache_count(env.cache, HM_C_AHEAD_WASTED), 1);
	drop(env.file, P(2), P(3), false);
	assert_int_equal(hm_cache_count(env.cache, HM_C_AHEAD_WASTED), 1);
	env_end(&env);
}

/*
 * A stream catches up with its read-ahead. The page counts as used, and the waiting fault gets
 * the marker, exactly once.
 */
static void test_fault_that_waits_for_readahead_gets_marker_once(void **state)
{
	struct hm_unit filling, unit;
	struct env env;

	env_start(&env, 8, 1, BYTES(8));
	assert_int_equal(fault(env.file, P(1), HM_ACCESS(.ahead = true, .mark = true), &filling),
			 HM_FILL);
	assert_int_equal(fault(env.file, P(1), HM_ACCESS_READ, &unit), HM_BUSY);
	assert_int_equal(unit.hints, HM_HINT_READAHEAD);
	assert_int_equal(fault(env.file, P(1), HM_ACCESS_READ, &unit), HM_BUSY);
	assert_int_equal(unit.hints, 0);
	assert_true(hm_fill_done(&filling, 0, false));
	unit = touch(env.file, P(1), HM_ACCESS_READ);
	assert_int_equal(unit.hints, 0);
	assert_int_equal(hm_cache_count(env.cache, HM_C_AHEAD_USED), 1);
	env_end(&env);
}

static void test_marker_survives_write_back(void **state)
{
	struct hm_unit unit;
	struct env env;

	env_start(&env, 8, 1, BYTES(8));
	assert_int_equal(fault(env.file, P(1),
			       HM_ACCESS(.write = true, .ahead = true, .mark = true), &unit),
			 HM_FILL);
	assert_false(hm_fill_done(&unit, 0, true));
	write_all(env.file);
	unit = touch(env.file, P(1), HM_ACCESS_READ);
	assert_int_equal(unit.hints, HM_HINT_READAHEAD);
	env_end(&env);
}

/*
 * Fault-around maps cached pages. It counts as a use but not as a fault. It leaves out the marker
 * and units that are filling or evicting.
 */
static void test_fault_around_maps_cached_pages_only(void **state)
{
	struct hm_unit unit, busy;
	struct env env;

	env_start(&env, 8, 1, BYTES(8));
	assert_false(around(env.file, 0, &unit));
	bring(env.file, P(1), HM_ACCESS(.ahead = true));
	assert_false(around(env.file, P(2), &unit));
	assert_true(around(env.file, P(1) + 3, &unit));
	assert_int_equal(unit.pgoff, P(1));
	assert_int_equal(unit.npages, HM_BLOCK_PAGES);
	assert_int_equal(unit.hints, 0);
	assert_true(hm_referenced(env.file, P(1)));
	assert_int_equal(hm_cache_count(env.cache, HM_C_AHEAD_USED), 1);
	assert_int_equal(hm_cache_count(env.cache, HM_C_FAULTS), 0);
	assert_int_equal(hm_cache_count(env.cache, HM_C_HITS), 0);

	bring(env.file, P(2), HM_ACCESS(.ahead = true, .mark = true));
	assert_false(around(env.file, P(2), &unit));
	unit = touch(env.file, P(2), HM_ACCESS_READ);
	assert_int_equal(unit.hints, HM_HINT_READAHEAD);
	assert_true(around(env.file, P(2), &unit));

	assert_int_equal(fault(env.file, P(3), HM_ACCESS_READ, &busy), HM_FILL);
	assert_false(around(env.file, P(3), &unit));
	assert_false(hm_fill_done(&busy, 0, false));

	{
		u64 pos = P(3);

		assert_int_equal(hm_invalidate(env.file, &pos, P(4), false, &busy), HM_INV_UNIT);
		assert_false(around(env.file, P(3), &unit));
		assert_false(hm_evict_done(&busy, HM_EVICT_BUSY));
	}
	bring(env.file, P(4), HM_ACCESS_WRITE);
	assert_true(around(env.file, P(4), &unit));
	assert_int_equal(state_of(env.file, P(4)), HM_DIRTY);
	/* One base page of a split block is cached, the next one is not. */
	bring(env.file, P(5) + 1, HM_ACCESS(.size = HM_SIZE_BASE));
	assert_true(around(env.file, P(5) + 1, &unit));
	assert_int_equal(unit.npages, 1);
	assert_false(around(env.file, P(5) + 2, &unit));
	env_end(&env);
}

/*
 * Fault-around maps a row of base pages that ends at a gap, the marker or the end of the block.
 * M is the page with the marker.
 *
 *	block                 1                 2
 *	                    | . . . . . . . c | . c c c c c M . |
 *	fault at P(2) + 3                         [   ^   ]        maps pages 1 to 5
 *	  limited to 2 and 3                        [ ^]           maps pages 2 and 3
 *	fault at P(2) + 6                                   ^      maps nothing
 */
static void test_fault_around_row_ends_at_gap_marker_or_block(void **state)
{
	u64 first, last, i, top = P(2) + BLOCK - 1;
	struct hm_unit unit;
	struct env env;

	env_start(&env, 8, 1, BYTES(8));
	for (i = 1; i <= 5; i++)
		bring(env.file, P(2) + i, HM_ACCESS(.size = HM_SIZE_BASE, .ahead = true));
	bring(env.file, P(2) + 6, HM_ACCESS(.size = HM_SIZE_BASE, .ahead = true, .mark = true));
	bring(env.file, P(1) + BLOCK - 1, HM_ACCESS(.size = HM_SIZE_BASE));
	first = 0;
	last = ~0ull;
	assert_true(hm_fault_around(env.file, P(2) + 3, &first, &last, &unit));
	assert_int_equal(first, P(2) + 1);
	assert_int_equal(last, P(2) + 5);
	assert_int_equal(unit.pgoff, P(2) + 3);
	assert_int_equal(hm_cache_count(env.cache, HM_C_AHEAD_USED), 5);
	assert_true(hm_referenced(env.file, P(2) + 1));
	assert_false(hm_referenced(env.file, P(2) + 6));
	/* Not beyond the requested range, nor beyond the block. */
	first = P(2) + 2;
	last = P(2) + 3;
	assert_true(hm_fault_around(env.file, P(2) + 3, &first, &last, &unit));
	assert_int_equal(first, P(2) + 2);
	assert_int_equal(last, P(2) + 3);
	bring(env.file, top, HM_ACCESS(.size = HM_SIZE_BASE));
	bring(env.file, top + 1, HM_ACCESS(.size = HM_SIZE_BASE));
	first = 0;
	last = ~0ull;
	assert_true(hm_fault_around(env.file, top, &first, &last, &unit));
	assert_int_equal(last, top);
	/* Each page counts only once as used. */
	assert_int_equal(hm_cache_count(env.cache, HM_C_AHEAD_USED), 5);
	/*
	 * hm_fault_around() returns no unit at the marker or at an uncached page, and the requested
	 * part of a huge unit.
	 */
	first = 0;
	last = ~0ull;
	assert_false(hm_fault_around(env.file, P(2) + 6, &first, &last, &unit));
	assert_false(hm_fault_around(env.file, P(5), &first, &last, &unit));
	bring(env.file, P(4), HM_ACCESS_READ);
	last = P(4) + 5;
	assert_true(hm_fault_around(env.file, P(4) + 3, &first, &last, &unit));
	assert_int_equal(first, P(4));
	assert_int_equal(last, P(4) + 5);
	assert_int_equal(unit.npages, BLOCK);
	env_end(&env);
}

/*
 * A row of base pages ends before a page that needs a fault of its own: a gap, or read-ahead that
 * was not accessed. It also ends at the end of the block and of the file. Each page counts as
 * accessed and as a hit.
 */
static void test_row_ends_before_page_that_needs_fault(void **state)
{
	struct env env;
	u32 frame[8], i;

	env_start(&env, 8, 1, BYTES(4));
	for (i = 0; i < 4; i++)
		bring(env.file, P(1) + i, HM_ACCESS(.size = HM_SIZE_BASE));
	bring(env.file, P(1) + 4, HM_ACCESS(.size = HM_SIZE_BASE, .ahead = true));
	assert_int_equal(hm_fault_row(env.file, P(1), frame, 8), 4);
	assert_int_equal(hm_cache_count(env.cache, HM_C_HITS), 4);
	assert_int_equal(hm_cache_count(env.cache, HM_C_FAULTS), 8);
	for (i = 0; i < 4; i++) {
		assert_true(hm_referenced(env.file, P(1) + i));
		assert_int_equal(frame[i], touch(env.file, P(1) + i, HM_ACCESS_READ).frame);
	}
	assert_false(hm_referenced(env.file, P(1) + 4));
	assert_int_equal(hm_fault_row(env.file, P(1) + 1, frame, 2), 2);
	assert_int_equal(hm_fault_row(env.file, P(1) + 4, frame, 8), 0);
	assert_int_equal(hm_fault_row(env.file, P(1) + 5, frame, 8), 0);
	touch(env.file, P(1) + 4, HM_ACCESS_READ);
	assert_int_equal(hm_fault_row(env.file, P(1), frame, 8), 5);

	bring(env.file, P(1) + BLOCK - 1, HM_ACCESS(.size = HM_SIZE_BASE));
	bring(env.file, P(2), HM_ACCESS(.size = HM_SIZE_BASE));
	assert_int_equal(hm_fault_row(env.file, P(1) + BLOCK - 1, frame, 8), 1);
	bring(env.file, 0, HM_ACCESS_READ);
	assert_int_equal(hm_fault_row(env.file, 0, frame, 8), 0);
	assert_int_equal(hm_fault_row(env.file, P(3), frame, 8), 0);
	assert_true(hm_file_set_size(env.file, BYTES(1) + HM_PAGE_SIZE + 1));
	assert_int_equal(hm_fault_row(env.file, P(1), frame, 8), 2);
	assert_int_equal(hm_fault_row(env.file, P(1) + 2, frame, 8), 0);
	env_end(&env);
}

/* A fault on a unit under eviction waits, and is woken when the eviction ends. */
static void test_fault_waits_for_eviction(void **state)
{
	struct hm_unit unit, leaving;
	struct env env;
	u64 pos = 0;

	env_start(&env, 8, 1, BYTES(4));
	bring(env.file, 0, HM_ACCESS_READ);
	assert_int_equal(hm_invalidate(env.file, &pos, BLOCK, false, &leaving), HM_INV_UNIT);
	assert_int_equal(fault(env.file, 1, HM_ACCESS_READ, &unit), HM_BUSY);
	assert_true(hm_evict_done(&leaving, HM_EVICTED));
	bring(env.file, 0, HM_ACCESS_READ);
	/* The fault is also woken when the eviction fails. */
	pos = 0;
	assert_int_equal(hm_invalidate(env.file, &pos, BLOCK, false, &leaving), HM_INV_UNIT);
	assert_int_equal(fault(env.file, 1, HM_ACCESS_WRITE, &unit), HM_BUSY);
	assert_true(hm_evict_done(&leaving, HM_EVICT_BUSY));
	assert_int_equal(state_of(env.file, 1), HM_CLEAN);
	touch(env.file, 1, HM_ACCESS_WRITE);
	env_end(&env);
}

/* Each unit has its own place in the memory of the pool. */
static void test_units_do_not_overlap_in_pool(void **state)
{
	struct hm_unit huge, first, last;
	struct env env;
	u32 i;

	env_start(&env, 8, 1, BYTES(8));
	huge = bring(env.file, 0, HM_ACCESS_READ);
	assert_int_equal(hm_frame_offset(env.cache, huge.frame), huge.frame * BYTES(1));
	first = bring(env.file, P(1), HM_ACCESS(.size = HM_SIZE_BASE));
	for (i = 1; i < HM_BLOCK_PAGES; i++) {
		last = bring(env.file, P(1) + i, HM_ACCESS(.size = HM_SIZE_BASE));
		/* Pages that are read in order have adjacent frames. */
		assert_int_equal(hm_frame_offset(env.cache, last.frame),
				 hm_frame_offset(env.cache, first.frame) + i * HM_PAGE_SIZE);
	}
	assert_int_equal(hm_frame_offset(env.cache, first.frame) % BYTES(1), 0);
	assert_true(hm_frame_offset(env.cache, first.frame) !=
		    hm_frame_offset(env.cache, huge.frame));
	assert_true(hm_frame_offset(env.cache, last.frame) < BYTES(8));
	env_end(&env);
}

/* A store with .allocated_only or .stable changes nothing while it is not allowed. */
static void test_store_that_is_not_allowed_changes_nothing(void **state)
{
	const struct hm_access store = HM_ACCESS(.write = true, .cached_only = true,
						 .allocated_only = true, .stable = true);
	const struct hm_access before = HM_ACCESS(.cached_only = true, .npages = 1);
	struct hm_unit unit;
	struct hm_run run;
	struct env env;
	u64 at = 0;

	env_start(&env, 8, 1, BYTES(8));
	bring(env.file, P(2), HM_ACCESS_READ);
	hm_file_set_zero_fill(env.file, P(1), BLOCK, true);
	bring(env.file, P(1), HM_ACCESS_READ);
	assert_true(touch(env.file, P(1), before).hints & HM_HINT_NEEDS_ALLOC);
	assert_int_equal(hm_fault(env.file, P(1), store, &unit), HM_NEEDS_ALLOC);
	assert_int_equal(state_of(env.file, P(1)), HM_CLEAN);
	assert_int_equal(hm_file_dirty_pages(env.file), 0);
	hm_file_set_allocated(env.file, P(1), BLOCK);
	assert_false(touch(env.file, P(1), before).hints & HM_HINT_NEEDS_ALLOC);
	assert_int_equal(hm_fault(env.file, P(1), store, &unit), HM_HIT);

	assert_int_equal(hm_writeback(env.file, &at, P(2), BLOCK, false, &run), HM_WB_RUN);
	assert_true(touch(env.file, P(1), before).hints & HM_HINT_WRITING);
	assert_int_equal(hm_fault(env.file, P(1), store, &unit), HM_STABLE);
	hm_writeback_done(env.file, run.pgoff, run.npages, 0);
	/* A store during the write-back would have left the unit dirty. */
	assert_int_equal(state_of(env.file, P(1)), HM_CLEAN);
	assert_int_equal(hm_fault(env.file, P(1), store, &unit), HM_HIT);
	drop(env.file, P(1), P(2), true);
	env_end(&env);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_second_fault_waits_for_fill),
	cmocka_unit_test(test_readahead_does_not_wait_for_fill),
	cmocka_unit_test(test_fill_for_store_leaves_unit_dirty),
	cmocka_unit_test(test_first_store_to_clean_unit_makes_it_dirty),
	cmocka_unit_test(test_fault_beyond_end_of_file_fails),
	cmocka_unit_test(test_cached_only_fault_allocates_nothing),
	cmocka_unit_test(test_last_partial_block_is_never_huge),
	cmocka_unit_test(test_fault_without_frame_claims_no_unit),
	cmocka_unit_test(test_miss_returns_reclaim_hint_before_pool_is_empty),
	cmocka_unit_test(test_pages_of_failed_block_are_read_one_by_one),
	cmocka_unit_test(test_one_waiter_gets_read_error_next_fault_reads_again),
	cmocka_unit_test(test_state_word_keeps_every_errno),
	cmocka_unit_test(test_cancelled_fill_leaves_no_error),
	cmocka_unit_test(test_marker_gives_readahead_hint_to_one_fault),
	cmocka_unit_test(test_fault_that_waits_for_readahead_gets_marker_once),
	cmocka_unit_test(test_marker_survives_write_back),
	cmocka_unit_test(test_fault_around_maps_cached_pages_only),
	cmocka_unit_test(test_fault_around_row_ends_at_gap_marker_or_block),
	cmocka_unit_test(test_row_ends_before_page_that_needs_fault),
	cmocka_unit_test(test_fault_waits_for_eviction),
	cmocka_unit_test(test_units_do_not_overlap_in_pool),
	cmocka_unit_test(test_store_that_is_not_allowed_changes_nothing),
};

int main(void)
{
	return cmocka_run_group_tests_name("fault", tests, NULL, NULL);
}
