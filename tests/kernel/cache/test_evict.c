// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Eviction: the choice, order and batches of victims, and kept units. */
#include "common.h"

/* A batch must be sorted and have no unit twice, so that one TLB flush per run suffices. */
static void check_sorted(const struct hm_victim *victims, u32 n)
{
	u32 i;

	for (i = 1; i < n; i++) {
		const struct hm_unit *a = &victims[i - 1].unit, *b = &victims[i].unit;

		assert_true(a->file->id < b->file->id ||
			    (a->file == b->file && a->pgoff + a->npages <= b->pgoff));
	}
}

/* Reclaim never chooses units that are dirty, filling or under write-back. */
static void test_only_clean_units_are_evicted(void **state)
{
	struct hm_unit filling;
	struct hm_run run;
	struct env env;
	u64 pos = P(1);
	u32 i;

	env_start(&env, 8, 1, BYTES(16));
	for (i = 0; i < 7; i++)
		bring(env.file, P(i), i == 0 || i == 1 ? HM_ACCESS_WRITE : HM_ACCESS_READ);
	assert_int_equal(hm_writeback(env.file, &pos, P(2), 1, true, &run), HM_WB_RUN);
	assert_int_equal(fault(env.file, P(7), HM_ACCESS_READ, &filling), HM_FILL);
	touch(env.file, P(2), HM_ACCESS_WRITE);
	assert_int_equal(evict(env.cache, HM_HUGE, 8), 4);
	assert_int_equal(state_of(env.file, P(0)), HM_DIRTY);
	assert_int_equal(state_of(env.file, P(1)), HM_WRITING);
	assert_int_equal(state_of(env.file, P(2)), HM_DIRTY);
	assert_int_equal(state_of(env.file, P(7)), HM_FILLING);
	hm_writeback_done(env.file, P(1), HM_BLOCK_PAGES, 0);
	assert_false(hm_fill_done(&filling, 0, false));
	assert_int_equal(evict(env.cache, HM_HUGE, 8), 2);
	env_end(&env);
}

/*
 * Reclaim first makes a unit inactive (evict = false): the engine unmaps it, and its data stays
 * cached. The next reclaim evicts it.
 */
static void test_unit_becomes_inactive_before_eviction(void **state)
{
	struct hm_victim victims[MAX_VICTIMS];
	struct hm_unit unit;
	struct env env;
	u32 evicted = 0;

	env_start(&env, 8, 1, BYTES(16));
	unit = bring(env.file, 0, HM_ACCESS_READ);
	touch(env.file, 0, HM_ACCESS_READ);
	assert_int_equal(reclaim(env.cache, HM_HUGE, 1, victims, &evicted), 1);
	assert_false(victims[0].evict);
	assert_int_equal(victims[0].unit.pgoff, 0);
	assert_int_equal(victims[0].unit.frame, unit.frame);
	assert_int_equal(victims[0].unit.npages, HM_BLOCK_PAGES);
	assert_int_equal(state_of(env.file, 0), HM_CLEAN);
	assert_false(hm_referenced(env.file, 0)); /* reclaim has cleared the reference bit */
	assert_int_equal(hm_cache_count(env.cache, HM_C_DEACTIVATED), 1);
	assert_int_equal(reclaim(env.cache, HM_HUGE, 1, victims, &evicted), 1);
	assert_true(victims[0].evict);
	assert_int_equal(evicted, 1);
	assert_int_equal(state_of(env.file, 0), HM_ABSENT);
	assert_int_equal(hm_cache_count(env.cache, HM_C_EVICTIONS), 1);
	assert_int_equal(reclaim(env.cache, HM_HUGE, 1, victims, &evicted), 0);
	env_end(&env);
}

static void test_touched_inactive_unit_moves_to_main_queue(void **state)
{
	struct hm_victim victims[MAX_VICTIMS];
	struct env env;
	u32 evicted = 0, i;

	env_start(&env, 8, 1, BYTES(16));
	for (i = 0; i < 3; i++)
		bring(env.file, P(i * 2), HM_ACCESS_READ);
	assert_int_equal(reclaim(env.cache, HM_HUGE, 3, victims, &evicted), 3);
	for (i = 10; i < 13; i++)
		bring(env.file, P(i), HM_ACCESS_READ);
	touch(env.file, P(2), HM_ACCESS_READ);
	reclaim(env.cache, HM_HUGE, 3, victims, &evicted);
	assert_int_equal(evicted, 2);
	assert_int_equal(hm_cache_count(env.cache, HM_C_REACTIVATED), 1);
	assert_int_equal(state_of(env.file, P(2)), HM_CLEAN);
	assert_int_equal(state_of(env.file, P(0)), HM_ABSENT);
	assert_int_equal(state_of(env.file, P(4)), HM_ABSENT);
	assert_int_equal(
		hm_atomic_read(&hm_desc_of(env.cache, touch(env.file, P(2), HM_ACCESS_READ).frame)
					->where) &
			0xff,
		HM_Q_MAIN);
	env_end(&env);
}

static void test_oldest_units_on_probation_leave_first(void **state)
{
	struct env env;
	u32 i;

	env_start(&env, 8, 1, BYTES(32));
	for (i = 0; i < 8; i++) {
		hm_cache_tick(env.cache, 10000 * (i + 1));
		bring(env.file, P((i * 5) % 16), HM_ACCESS_READ);
	}
	for (i = 0; i < 8; i++) {
		assert_int_equal(evict(env.cache, HM_HUGE, 1), 1);
		assert_int_equal(state_of(env.file, P((i * 5) % 16)), HM_ABSENT);
		if (i < 7)
			assert_int_equal(state_of(env.file, P((i * 5 + 5) % 16)), HM_CLEAN);
	}
	env_end(&env);
}

/* A batch is sorted and consists of runs: blocks that were read together are evicted together. */
static void test_blocks_read_together_are_evicted_together(void **state)
{
	static const u32 order[] = { 9, 2,  31, 0, 17, 5,  26, 12, 3,  30, 8,  16, 1,  24, 7,  20,
				     6, 11, 29, 4, 27, 19, 10, 23, 14, 22, 13, 28, 21, 15, 25, 18 };
	struct hm_victim victims[MAX_VICTIMS];
	struct env env;
	u32 i, n, runs = 1, evicted = 0;

	env_start(&env, 32, 1, BYTES(64));
	for (i = 0; i < 32; i++)
		bring(env.file, P(order[i]), HM_ACCESS_READ);
	reclaim(env.cache, HM_HUGE, 16, victims, &evicted);
	n = reclaim(env.cache, HM_HUGE, 16, victims, &evicted);
	check_sorted(victims, n);
	assert_int_equal(evicted, 16);
	for (i = 1; i < n; i++)
		if (victims[i].unit.pgoff != victims[i - 1].unit.pgoff + BLOCK)
			runs++;
	/* In the order of their arrival there would be 16 runs. */
	assert_in_range(runs, 1, 4);
	check_sorted(victims, n);
	env_end(&env);
}

static void test_victims_are_sorted_by_file_and_offset(void **state)
{
	struct hm_victim victims[MAX_VICTIMS];
	struct hm_file *other;
	struct env env;
	u32 i, n, evicted = 0, rounds = 0;

	env_start(&env, 16, 2, BYTES(64));
	other = env_open(&env, BYTES(64));
	for (i = 0; i < 16; i++)
		bring(i % 2 ? other : env.file, P((i * 7) % 32), HM_ACCESS_READ);
	while ((n = reclaim(env.cache, HM_HUGE, 16, victims, &evicted))) {
		check_sorted(victims, n);
		assert_true(++rounds < 100);
	}
	assert_int_equal(evicted, 16);
	env_end(&env);
}

/* Reclaim does not evict a neighbour of a victim that was read much later. */
static void test_young_neighbour_of_victim_stays(void **state)
{
	struct env env;

	env_start(&env, 8, 1, BYTES(16));
	hm_cache_tick(env.cache, 1000);
	bring(env.file, P(4), HM_ACCESS_READ);
	bring(env.file, P(8), HM_ACCESS_READ);
	hm_cache_tick(env.cache, 60000);
	bring(env.file, P(5), HM_ACCESS_READ);
	bring(env.file, P(9), HM_ACCESS_READ);
	assert_int_equal(evict(env.cache, HM_HUGE, 2), 2);
	assert_int_equal(state_of(env.file, P(4)), HM_ABSENT);
	assert_int_equal(state_of(env.file, P(8)), HM_ABSENT);
	assert_int_equal(state_of(env.file, P(5)), HM_CLEAN);
	assert_int_equal(state_of(env.file, P(9)), HM_CLEAN);
	env_end(&env);
}

/* Reclaim claims at most as many units as requested, and as the array holds. */
static void test_reclaim_claims_at_most_want_and_max(void **state)
{
	struct hm_victim victims[MAX_VICTIMS];
	struct env env;
	u32 i, n, rounds;

	env_start(&env, 32, 1, BYTES(64));
	for (i = 0; i < 32; i++)
		bring(env.file, P(i), HM_ACCESS_READ);
	for (rounds = 0; rounds < 8; rounds++) {
		u32 claimed = 0;

		n = hm_reclaim(env.cache, HM_HUGE, 3, victims, 4);
		assert_in_range(n, 1, 4);
		for (i = 0; i < n; i++) {
			if (!victims[i].evict)
				continue;
			claimed++;
			assert_false(hm_evict_done(&victims[i].unit, HM_EVICTED));
		}
		assert_in_range(claimed, 0, 3);
	}
	env_end(&env);
}

/*
 * A pinned unit stays clean and cached. A unit that was stored to becomes dirty. The first can be
 * evicted later, the second after write-back.
 */
static void test_failed_eviction_leaves_unit_clean_or_dirty(void **state)
{
	struct hm_victim victims[MAX_VICTIMS];
	struct env env;
	u32 i, n;

	env_start(&env, 8, 1, BYTES(16));
	bring(env.file, 0, HM_ACCESS_READ);
	bring(env.file, P(1), HM_ACCESS_READ);
	hm_reclaim(env.cache, HM_HUGE, 2, victims, MAX_VICTIMS);
	n = hm_reclaim(env.cache, HM_HUGE, 2, victims, MAX_VICTIMS);
	assert_int_equal(n, 2);
	for (i = 0; i < 2; i++)
		assert_true(victims[i].evict);
	assert_false(hm_evict_done(&victims[0].unit, HM_EVICT_STAYS));
	assert_false(hm_evict_done(&victims[1].unit, HM_EVICT_DIRTY));
	assert_int_equal(state_of(env.file, 0), HM_CLEAN);
	assert_int_equal(state_of(env.file, P(1)), HM_DIRTY);
	assert_int_equal(hm_cache_dirty_pages(env.cache), BLOCK);
	assert_int_equal(hm_cache_count(env.cache, HM_C_EVICTIONS), 0);
	audit(&env);
	assert_int_equal(evict(env.cache, HM_HUGE, 2), 1);
	assert_int_equal(write_all(env.file), 1);
	assert_int_equal(evict(env.cache, HM_HUGE, 2), 1);
	env_end(&env);
}

/* Successive reclaims use different shards if these have about as many units. */
static void test_successive_reclaims_use_different_shards(void **state)
{
	struct hm_victim victims[MAX_VICTIMS];
	u32 evicted[2] = { 0, 0 }, round, i, n;
	struct env env;

	env_start(&env, 32, 2, BYTES(64));
	for (i = 0; i < 30; i++)
		bring(env.file, P(i), HM_ACCESS_READ); /* 16 in one shard, 14 in the other */
	for (round = 0; round < 3; round++) { /* the first round makes some inactive */
		n = hm_reclaim(env.cache, HM_HUGE, 1, victims, MAX_VICTIMS);
		for (i = 0; i < n; i++) {
			if (!victims[i].evict)
				continue;
			evicted[victims[i].unit.pgoff >= P(16)]++;
			hm_evict_done(&victims[i].unit, HM_EVICTED);
		}
	}
	assert_int_equal(evicted[0], 1);
	assert_int_equal(evicted[1], 1);
	env_end(&env);
}

static void test_reclaim_finds_units_of_all_shards(void **state)
{
	struct env env;
	u32 i;

	env_start(&env, 32, 4, BYTES(512));
	for (i = 0; i < 32; i++)
		bring(env.file, P(i * 16), HM_ACCESS_READ); /* each in another shard */
	assert_int_equal(evict(env.cache, HM_HUGE, 32), 32);
	env_end(&env);
}

/*
 * Queued units that became dirty do not hide clean ones of either page size. 0 victims must mean
 * that no clean unit is left.
 *
 *	frames	huge units	split frames	      free
 *	before	D D D D		dddddddd cccccccc     2
 *	after	D D D D		dddddddd	      3
 */
static void test_dirty_units_do_not_hide_clean_ones(void **state)
{
	struct env env;
	u32 i;

	env_start(&env, 8, 1, BYTES(64));
	for (i = 0; i < 4; i++)
		bring(env.file, P(i), HM_ACCESS_READ);
	for (i = 0; i < 2 * HM_BLOCK_PAGES; i++)
		bring(env.file, P(16) + i, HM_ACCESS(.size = HM_SIZE_BASE));
	hm_cache_tick(env.cache, 1ull << 20);
	for (i = 0; i < HM_BLOCK_PAGES; i++) /* the huge frame that was split first */
		touch(env.file, P(16) + i, HM_ACCESS_WRITE);
	for (i = 0; i < 4; i++)
		touch(env.file, P(i), HM_ACCESS_WRITE);
	assert_int_equal(evict(env.cache, HM_HUGE, ~0u), HM_BLOCK_PAGES);
	assert_int_equal(hm_pool_free(env.cache, HM_HUGE), 3);
	env_end(&env);
}

/*
 * If there is no free huge frame and only base pages are clean, reclaim empties a split frame,
 * which becomes a huge one.
 */
static void test_split_frame_is_emptied_for_huge_unit(void **state)
{
	struct hm_unit unit;
	struct env env;
	u32 i;

	env_start(&env, 4, 1, BYTES(64));
	for (i = 0; i < 4 * HM_BLOCK_PAGES; i++)
		bring(env.file, i, HM_ACCESS(.size = HM_SIZE_BASE));
	assert_int_equal(fault(env.file, P(8), HM_ACCESS_READ, &unit), HM_NO_FRAME);
	assert_int_equal(evict(env.cache, HM_HUGE, HM_BLOCK_PAGES), HM_BLOCK_PAGES);
	assert_int_equal(hm_pool_free(env.cache, HM_HUGE), 1);
	bring(env.file, P(8), HM_ACCESS_READ);
	env_end(&env);
}

/*
 * Reclaim evicts no page of a split frame that has a dirty page: it would not get a huge frame.
 * Recently touched pages do not stop it.
 *
 *	split frame	    free huge frames
 *	c c c c c d c c     3
 *	c c c c c d c c     3	after reclaim for a huge frame
 *	c c c c c c c c     3	after write-back
 *			    4	after reclaim for a huge frame
 */
static void test_split_frame_with_dirty_page_is_not_emptied(void **state)
{
	struct env env;
	u32 i;

	env_start(&env, 4, 1, BYTES(64));
	for (i = 0; i < HM_BLOCK_PAGES; i++) {
		bring(env.file, i, HM_ACCESS(.size = HM_SIZE_BASE, .write = i == 5));
		touch(env.file, i, HM_ACCESS_READ);
	}
	assert_int_equal(evict(env.cache, HM_HUGE, HM_BLOCK_PAGES), 0);
	assert_int_equal(state_of(env.file, 5), HM_DIRTY);
	assert_int_equal(hm_pool_free(env.cache, HM_HUGE), 3);
	write_all(env.file);
	assert_int_equal(evict(env.cache, HM_HUGE, HM_BLOCK_PAGES), HM_BLOCK_PAGES);
	assert_int_equal(hm_pool_free(env.cache, HM_HUGE), 4);
	env_end(&env);
}

/*
 * The pool is full of base pages, and one in a hundred is dirty, so that each frame has some.
 * Reclaim gets huge frames all the same, because the dirty pages move.
 */
static void test_dirty_pages_leave_a_split_frame(void **state)
{
	u32 blocks = 32, pages = blocks * HM_BLOCK_PAGES, round, i;
	u32 step = HM_BLOCK_PAGES < 101 ? HM_BLOCK_PAGES : 101, frame[4], taken = 0;
	struct hm_victim victims[MAX_VICTIMS];
	struct env env;

	env_start(&env, blocks, 1, BYTES(64));
	for (i = 0; i < pages; i++)
		bring(env.file, i, HM_ACCESS(.size = HM_SIZE_BASE));
	assert_int_equal(hm_cache_free_pages(env.cache), 0);
	for (i = 0; i < pages; i += step)
		touch(env.file, i, HM_ACCESS_WRITE);
	for (round = 0; round < 200 && taken < 4; round++) {
		frame[taken] = hm_pool_take(env.cache, HM_HUGE, false);
		if (frame[taken] != HM_NO_FRAME_ID)
			taken++;
		else
			reclaim(env.cache, HM_HUGE, 16, victims, NULL);
	}
	assert_int_equal(taken, 4);
	assert_true(hm_cache_count(env.cache, HM_C_MOVED) > 0);
	for (i = 0; i < pages; i += step)
		assert_int_equal(state_of(env.file, i), HM_DIRTY);
	while (taken > 0)
		hm_pool_give(env.cache, frame[--taken]);
	write_all(env.file);
	env_end(&env);
}

/*
 * If an isolated frame cannot be emptied any more, its free base frames can be allocated.
 *
 *	split frame	    free base frames
 *	c c c c c c c c     0
 *	. c c c c c c c     0	one page is evicted; the frame is isolated until it is empty
 *	. d c c c c c c     0	a store
 *	. d . . . . . .     7	reclaim for base frames: the frame is not isolated any more
 */
static void test_frame_that_cannot_be_emptied_is_usable_again(void **state)
{
	struct hm_victim victims[4];
	u32 evicted = 0, huge = 0, i;
	struct env env;

	env_start(&env, 4, 1, BYTES(8));
	for (i = 0; i < 4 * HM_BLOCK_PAGES; i++)
		bring(env.file, i, HM_ACCESS(.size = HM_SIZE_BASE));
	while (!evicted) {
		u32 n = hm_reclaim(env.cache, HM_HUGE, 1, victims, 4);

		for (i = 0; i < n; i++) {
			if (!victims[i].evict)
				continue;
			hm_evict_done(&victims[i].unit, HM_EVICTED);
			huge = hm_pool_container(env.cache, victims[i].unit.frame);
			evicted++;
		}
	}
	assert_true(env.cache->container[huge].isolated);
	/* Store to another page of the frame. */
	for (i = 0; i < HM_BLOCK_PAGES; i++) {
		const struct hm_desc *desc =
			hm_desc_of(env.cache, hm_pool_base_frame(env.cache, huge, i));

		if (hm_ptr_read(&desc->word))
			break;
	}
	touch(env.file, hm_desc_of(env.cache, hm_pool_base_frame(env.cache, huge, i))->pgoff,
	      HM_ACCESS_WRITE);
	while (evict(env.cache, HM_BASE, 16))
		;
	assert_false(env.cache->container[huge].isolated);
	assert_int_equal(hm_pool_free(env.cache, HM_BASE) % HM_BLOCK_PAGES, HM_BLOCK_PAGES - 1);
	env_end(&env);
}

/* If each split frame has a dirty page, reclaim evicts huge units although base pages are older. */
static void test_huge_unit_leaves_if_each_split_frame_is_dirty(void **state)
{
	struct env env;
	u32 i;

	env_start(&env, 8, 1, BYTES(64));
	hm_cache_tick(env.cache, 1000);
	for (i = 0; i < 4 * HM_BLOCK_PAGES; i++)
		bring(env.file, i, HM_ACCESS(.size = HM_SIZE_BASE));
	hm_cache_tick(env.cache, 60000);
	for (i = 4; i < 8; i++)
		bring(env.file, P(i), HM_ACCESS_READ);
	for (i = 0; i < 4; i++)
		touch(env.file, P(i) + 7, HM_ACCESS_WRITE);
	while (!hm_pool_free(env.cache, HM_HUGE))
		assert_int_not_equal(evict(env.cache, HM_HUGE, 1), 0);
	env_end(&env);
}

static void test_pinned_use_once_units_do_not_block_eviction(void **state)
{
	struct hm_victim victims[MAX_VICTIMS];
	u32 round, i, evicted = 0;
	struct env env;

	env_start(&env, 16, 1, BYTES(64));
	for (i = 0; i < 8; i++)
		bring(env.file, P(i), HM_ACCESS_READ);
	for (i = 8; i < 16; i++) {
		bring(env.file, P(i), HM_ACCESS(.use_once = true));
		touch(env.file, P(i), HM_ACCESS_READ);
	}
	for (round = 0; round < 64; round++) {
		u32 n = hm_reclaim(env.cache, HM_HUGE, 2, victims, MAX_VICTIMS);

		for (i = 0; i < n; i++) {
			bool pinned = victims[i].unit.pgoff >= P(8);

			if (!victims[i].evict)
				continue;
			hm_evict_done(&victims[i].unit, pinned ? HM_EVICT_STAYS : HM_EVICTED);
			evicted += !pinned;
		}
	}
	assert_int_equal(evicted, 8);
	env_end(&env);
}

/* Reclaim evicts recent use-once units if no other unit and no split frame can be freed. */
static void test_recent_use_once_units_leave_if_no_other_can(void **state)
{
	struct hm_options opts = options_for(16, 1);
	struct env env;
	u32 i;

	opts.free_target = 1;
	env_init(&env, &opts);
	env_open(&env, BYTES(64));
	for (i = 0; i < 3 * HM_BLOCK_PAGES; i++)
		bring(env.file, i, HM_ACCESS(.size = HM_SIZE_BASE));
	for (i = 0; i < 3; i++)
		touch(env.file, P(i) + 7, HM_ACCESS_WRITE);
	while (evict(env.cache, HM_BASE, 16))
		;
	bring(env.file, P(3), HM_ACCESS(.size = HM_SIZE_BASE));
	for (i = 4; i < 14; i++)
		bring(env.file, P(i), HM_ACCESS_WRITE);
	for (; i < 17; i++) {
		bring(env.file, P(i), HM_ACCESS(.use_once = true));
		touch(env.file, P(i), HM_ACCESS_READ);
	}
	assert_int_equal(hm_pool_free(env.cache, HM_HUGE), 0);
	assert_int_not_equal(evict(env.cache, HM_HUGE, 1), 0);
	env_end(&env);
}

/* If there is no free base frame and only huge units are clean, reclaim evicts one of them. */
static void test_huge_unit_leaves_for_base_frame(void **state)
{
	struct hm_unit unit;
	struct env env;
	u32 i;

	env_start(&env, 4, 1, BYTES(64));
	for (i = 0; i < 4; i++)
		bring(env.file, P(i), HM_ACCESS_READ);
	assert_int_equal(fault(env.file, P(8), HM_ACCESS(.size = HM_SIZE_BASE), &unit),
			 HM_NO_FRAME);
	assert_int_equal(evict(env.cache, HM_BASE, 1), 1);
	bring(env.file, P(8), HM_ACCESS(.size = HM_SIZE_BASE));
	env_end(&env);
}

/* Reclaim evicts the page size whose oldest unit has been idle for longer. */
static void test_page_size_with_oldest_unit_leaves_first(void **state)
{
	struct env env;

	env_start(&env, 8, 1, BYTES(64));
	hm_cache_tick(env.cache, 1000);
	bring(env.file, P(1), HM_ACCESS_READ);
	hm_cache_tick(env.cache, 60000);
	bring(env.file, P(2), HM_ACCESS(.size = HM_SIZE_BASE));
	assert_int_equal(evict(env.cache, HM_BASE, 1), 1);
	assert_int_equal(state_of(env.file, P(1)), HM_ABSENT);
	assert_int_equal(state_of(env.file, P(2)), HM_CLEAN);
	hm_cache_tick(env.cache, 120000);
	bring(env.file, P(3), HM_ACCESS_READ);
	assert_int_equal(evict(env.cache, HM_HUGE, 1), 1);
	assert_int_equal(state_of(env.file, P(2)), HM_ABSENT);
	assert_int_equal(state_of(env.file, P(3)), HM_CLEAN);
	env_end(&env);
}

/*
 * Reclaim keeps a share of the clean units inactive, so that touches show which of them are used
 * before they are evicted.
 */
static void test_share_of_clean_units_stays_inactive(void **state)
{
	struct hm_victim victims[MAX_VICTIMS];
	struct hm_options opts = options_for(64, 1);
	struct env env;
	u32 i, evicted = 0;

	opts.inactive_ratio = 25;
	env_init(&env, &opts);
	env_open(&env, BYTES(256));
	for (i = 0; i < 64; i++)
		bring(env.file, P(i * 3), HM_ACCESS_READ);
	for (i = 0; i < 4; i++)
		reclaim(env.cache, HM_HUGE, 1, victims, &evicted);
	assert_int_equal(evicted, 3);
	assert_in_range(hm_list_count(&env.cache->shards[0].list[HM_HUGE][HM_Q_INACTIVE]), 14, 16);
	env_end(&env);
}

/* hm_reclaim_want(): 0 while enough frames are free, otherwise a batch. */
static void test_reclaim_wants_batch_below_free_target(void **state)
{
	struct hm_options opts = options_for(64, 2);
	struct env env;
	u32 i;

	opts.free_target = 10;
	opts.evict_batch = 6;
	env_init(&env, &opts);
	env_open(&env, BYTES(256));
	for (i = 0; i < 54; i++)
		bring(env.file, P(i), HM_ACCESS_READ);
	assert_int_equal(hm_reclaim_want(env.cache, HM_HUGE), 0);
	bring(env.file, P(54), HM_ACCESS_READ);
	assert_int_equal(hm_reclaim_want(env.cache, HM_HUGE), 6);
	assert_int_equal(hm_reclaim_want(env.cache, HM_BASE), 0);
	for (i = 55; i < 64; i++)
		bring(env.file, P(i), HM_ACCESS_READ);
	assert_int_equal(hm_reclaim_want(env.cache, HM_BASE), 6);
	env_end(&env);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_only_clean_units_are_evicted),
	cmocka_unit_test(test_unit_becomes_inactive_before_eviction),
	cmocka_unit_test(test_touched_inactive_unit_moves_to_main_queue),
	cmocka_unit_test(test_oldest_units_on_probation_leave_first),
	cmocka_unit_test(test_blocks_read_together_are_evicted_together),
	cmocka_unit_test(test_victims_are_sorted_by_file_and_offset),
	cmocka_unit_test(test_young_neighbour_of_victim_stays),
	cmocka_unit_test(test_reclaim_claims_at_most_want_and_max),
	cmocka_unit_test(test_failed_eviction_leaves_unit_clean_or_dirty),
	cmocka_unit_test(test_successive_reclaims_use_different_shards),
	cmocka_unit_test(test_reclaim_finds_units_of_all_shards),
	cmocka_unit_test(test_dirty_units_do_not_hide_clean_ones),
	cmocka_unit_test(test_split_frame_is_emptied_for_huge_unit),
	cmocka_unit_test(test_split_frame_with_dirty_page_is_not_emptied),
	cmocka_unit_test(test_dirty_pages_leave_a_split_frame),
	cmocka_unit_test(test_frame_that_cannot_be_emptied_is_usable_again),
	cmocka_unit_test(test_huge_unit_leaves_if_each_split_frame_is_dirty),
	cmocka_unit_test(test_pinned_use_once_units_do_not_block_eviction),
	cmocka_unit_test(test_recent_use_once_units_leave_if_no_other_can),
	cmocka_unit_test(test_huge_unit_leaves_for_base_frame),
	cmocka_unit_test(test_page_size_with_oldest_unit_leaves_first),
	cmocka_unit_test(test_share_of_clean_units_stays_inactive),
	cmocka_unit_test(test_reclaim_wants_batch_below_free_target),
};

int main(void)
{
	return cmocka_run_group_tests_name("evict", tests, NULL, NULL);
}
