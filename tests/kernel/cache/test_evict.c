// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Eviction: what leaves, in which order and company, and what comes back. */
#include "common.h"

/* What a batch must look like for one TLB flush to do: sorted, no unit twice. */
static void check_sorted(const struct hm_victim *victims, u32 n)
{
	u32 i;

	for (i = 1; i < n; i++) {
		const struct hm_unit *a = &victims[i - 1].unit, *b = &victims[i].unit;

		assert_true(a->file->id < b->file->id ||
			    (a->file == b->file && a->pgoff + a->npages <= b->pgoff));
	}
}

/* Dirty, writing and filling units are never chosen. */
static void test_only_clean(void **state)
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
 * Before it leaves, a unit is unmapped once (evict = false), and its data is
 * still there.
 */
static void test_inactive_first(void **state)
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
	assert_false(hm_referenced(env.file, 0)); /* old touches are forgotten */
	assert_int_equal(hm_cache_count(env.cache, HM_C_DEACTIVATED), 1);
	assert_int_equal(reclaim(env.cache, HM_HUGE, 1, victims, &evicted), 1);
	assert_true(victims[0].evict);
	assert_int_equal(evicted, 1);
	assert_int_equal(state_of(env.file, 0), HM_ABSENT);
	assert_int_equal(hm_cache_count(env.cache, HM_C_EVICTED), 1);
	assert_int_equal(reclaim(env.cache, HM_HUGE, 1, victims, &evicted), 0);
	env_end(&env);
}

/* Touched while inactive: it stays, among the proven ones. */
static void test_rescue(void **state)
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

/* The oldest on probation leave first. */
static void test_oldest_first(void **state)
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

/* A batch is sorted and made of runs: blocks read together leave together. */
static void test_batch_of_runs(void **state)
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
	/* In the order in which they came, there would be 16 runs. */
	assert_in_range(runs, 1, 4);
	check_sorted(victims, n);
	env_end(&env);
}

/* Victims of several stores: grouped by store, and sorted in each. */
static void test_sorted_over_files(void **state)
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

/* Neighbours that came at another time keep their turn. */
static void test_neighbours_by_age(void **state)
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

/* More is not claimed than was wanted, nor than there is room for. */
static void test_want_and_max(void **state)
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
 * A unit that turns out pinned stays clean and cached; one that was stored to
 * stays dirty. Both can be chosen, or written, again.
 */
static void test_results(void **state)
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
	assert_false(hm_evict_done(&victims[0].unit, HM_EVICT_BUSY));
	assert_false(hm_evict_done(&victims[1].unit, HM_EVICT_DIRTY));
	assert_int_equal(state_of(env.file, 0), HM_CLEAN);
	assert_int_equal(state_of(env.file, P(1)), HM_DIRTY);
	assert_int_equal(hm_cache_dirty_pages(env.cache), BLOCK);
	assert_int_equal(hm_cache_count(env.cache, HM_C_EVICTED), 0);
	audit(&env);
	assert_int_equal(evict(env.cache, HM_HUGE, 2), 1);
	assert_int_equal(write_all(env.file), 1);
	assert_int_equal(evict(env.cache, HM_HUGE, 2), 1);
	env_end(&env);
}

/* Who reclaims next looks elsewhere, if about as much is there. */
static void test_shards_in_turn(void **state)
{
	struct hm_victim victims[MAX_VICTIMS];
	u32 evicted[2] = { 0, 0 }, round, i, n;
	struct env env;

	env_start(&env, 32, 2, BYTES(64));
	for (i = 0; i < 30; i++)
		bring(env.file, P(i), HM_ACCESS_READ); /* 16 in one shard, 14 in the other */
	for (round = 0; round < 3; round++) { /* in the first one, some become inactive */
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

/* Reclaim looks into the queues of every shard. */
static void test_all_shards(void **state)
{
	struct env env;
	u32 i;

	env_start(&env, 32, 4, BYTES(512));
	for (i = 0; i < 32; i++)
		bring(env.file, P(i * 16), HM_ACCESS_READ); /* a shard each */
	assert_int_equal(evict(env.cache, HM_HUGE, 32), 32);
	env_end(&env);
}

/*
 * Units that became dirty while queued do not hide the clean ones, of the same
 * kind or of the other one: 0 victims must mean that nothing clean is left.
 */
static void test_dirty_do_not_hide(void **state)
{
	struct env env;
	u32 i;

	env_start(&env, 8, 1, BYTES(64));
	for (i = 0; i < 4; i++)
		bring(env.file, P(i), HM_ACCESS_READ);
	for (i = 0; i < 2 * HM_BLOCK_PAGES; i++)
		bring(env.file, P(16) + i, HM_ACCESS(.size = HM_SIZE_BASE));
	hm_cache_tick(env.cache, 1ull << 20);
	for (i = 0; i < HM_BLOCK_PAGES; i++) /* the frame that was carved first */
		touch(env.file, P(16) + i, HM_ACCESS_WRITE);
	for (i = 0; i < 4; i++)
		touch(env.file, P(i), HM_ACCESS_WRITE);
	assert_int_equal(evict(env.cache, HM_HUGE, ~0u), HM_BLOCK_PAGES);
	assert_int_equal(hm_pool_free(env.cache, HM_HUGE), 3);
	env_end(&env);
}

/*
 * Huge frames are short, and only base pages are clean: a carved frame is
 * emptied, and becomes a huge one.
 */
static void test_drain_for_huge(void **state)
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
 * The same, when the pages were touched a moment ago, or some are dirty: no huge frame
 * would come of what is clean, and it stays.
 */
static void test_drain_touched_and_dirty(void **state)
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

/* What is free of a container that cannot be emptied after all is for use. */
static void test_drain_given_up(void **state)
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
	/* A store to another page of it. */
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

/* Base pages that are older, each beside a dirty one: the huge units are there, too. */
static void test_huge_beside_dirty(void **state)
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

/* What passes and is held does not keep what is not held from leaving. */
static void test_passing_held(void **state)
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
			bool held = victims[i].unit.pgoff >= P(8);

			if (!victims[i].evict)
				continue;
			hm_evict_done(&victims[i].unit, held ? HM_EVICT_BUSY : HM_EVICTED);
			evicted += !held;
		}
	}
	assert_int_equal(evicted, 8);
	env_end(&env);
}

/* Nothing is left of the kind but a few that pass, and no container can be emptied. */
static void test_passing_last(void **state)
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

/* Base frames are short, and only blocks are clean. */
static void test_huge_for_base(void **state)
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

/* Of the two kinds the one leaves whose oldest unit has been idle longer. */
static void test_older_kind_first(void **state)
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
 * A share of the clean units is kept inactive, so that a touch shows which of
 * them are in use before they have to leave.
 */
static void test_inactive_share(void **state)
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

/* What reclaim should free: nothing while there is enough, else a batch. */
static void test_want(void **state)
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
	cmocka_unit_test(test_only_clean),
	cmocka_unit_test(test_inactive_first),
	cmocka_unit_test(test_rescue),
	cmocka_unit_test(test_oldest_first),
	cmocka_unit_test(test_batch_of_runs),
	cmocka_unit_test(test_sorted_over_files),
	cmocka_unit_test(test_neighbours_by_age),
	cmocka_unit_test(test_want_and_max),
	cmocka_unit_test(test_results),
	cmocka_unit_test(test_shards_in_turn),
	cmocka_unit_test(test_all_shards),
	cmocka_unit_test(test_dirty_do_not_hide),
	cmocka_unit_test(test_drain_for_huge),
	cmocka_unit_test(test_drain_touched_and_dirty),
	cmocka_unit_test(test_drain_given_up),
	cmocka_unit_test(test_huge_beside_dirty),
	cmocka_unit_test(test_passing_held),
	cmocka_unit_test(test_passing_last),
	cmocka_unit_test(test_huge_for_base),
	cmocka_unit_test(test_older_kind_first),
	cmocka_unit_test(test_inactive_share),
	cmocka_unit_test(test_want),
};

int main(void)
{
	return cmocka_run_group_tests_name("evict", tests, NULL, NULL);
}
