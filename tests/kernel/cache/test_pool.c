// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* The pool: the free lists of the shards, stealing, and splitting of huge frames. */
#include "common.h"

static u64 free_in(struct env *env, u32 shard, enum hm_kind kind)
{
	return hm_atomic_read(&env->cache->shards[shard].nfree[kind]);
}

static u32 home(struct env *env, u32 frame)
{
	return hm_pool_container(env->cache, frame) % env->cache->nshards;
}

/*
 * A CPU takes frames from its own shard first, then from other shards. An allocation fails
 * only if all are empty.
 */
static void test_cpu_uses_own_shard_then_steals(void **state)
{
	struct hm_unit unit;
	struct env env;
	u32 i;

	env_start(&env, 8, 2, BYTES(16));
	hm_test_cpu = 1;
	for (i = 0; i < 8; i++) {
		unit = bring(env.file, P(i), HM_ACCESS_READ);
		assert_int_equal(home(&env, unit.frame), i < 4 ? 1 : 0);
	}
	assert_int_equal(fault(env.file, P(8), HM_ACCESS_READ, &unit), HM_NO_FRAME);
	env_end(&env);
}

static void test_stolen_frame_returns_to_its_shard(void **state)
{
	struct env env;
	u32 i;

	env_start(&env, 8, 2, BYTES(16));
	hm_test_cpu = 1;
	for (i = 0; i < 8; i++)
		bring(env.file, P(i), HM_ACCESS_READ);
	assert_int_equal(free_in(&env, 0, HM_HUGE), 0);
	hm_test_cpu = 1;
	drop(env.file, 0, ~0ull, false);
	assert_int_equal(free_in(&env, 0, HM_HUGE), 4);
	assert_int_equal(free_in(&env, 1, HM_HUGE), 4);
	env_end(&env);
}

static void test_frames_need_not_divide_by_shards(void **state)
{
	struct env env;
	u64 sum = 0;
	u32 i;

	env_start(&env, 11, 4, BYTES(16));
	assert_int_equal(env.cache->nshards, 4);
	for (i = 0; i < 4; i++)
		sum += free_in(&env, i, HM_HUGE);
	assert_int_equal(sum, 11);
	assert_int_equal(hm_cache_free_pages(env.cache), 11 * BLOCK);
	/* A CPU number may exceed the number of shards. */
	hm_test_cpu = 1000;
	for (i = 0; i < 11; i++)
		bring(env.file, P(i), HM_ACCESS_READ);
	env_end(&env);
}

/* Each CPU finds the frames of all shards. A CPU with an empty shard steals from its neighbour. */
static void test_every_cpu_finds_frames_of_all_shards(void **state)
{
	u32 cpus, cpu, i;

	for (cpus = 1; cpus <= 6; cpus++) {
		for (cpu = 0; cpu < cpus; cpu++) {
			struct env env;

			env_start(&env, 12, cpus, BYTES(16));
			hm_test_cpu = cpu;
			for (i = 0; i < 12; i++)
				bring(env.file, P(i), HM_ACCESS_READ);
			assert_int_equal(hm_cache_free_pages(env.cache), 0);
			hm_test_cpu = 0;
			env_end(&env);
		}
	}
	for (cpu = 0; cpu < 4; cpu++) {
		struct env env;

		env_start(&env, 12, 4, BYTES(16));
		hm_test_cpu = cpu;
		for (i = 0; i < 3; i++)
			bring(env.file, P(i), HM_ACCESS_READ);
		assert_int_equal(free_in(&env, cpu, HM_HUGE), 0);
		bring(env.file, P(3), HM_ACCESS_READ);
		assert_int_equal(free_in(&env, cpu ^ 1, HM_HUGE), 2);
		hm_test_cpu = 0;
		env_end(&env);
	}
}

/* One huge frame is split into base frames until it is used up. */
static void test_one_huge_frame_is_split_at_a_time(void **state)
{
	struct hm_unit first, unit;
	struct env env;
	u32 offline, i;

	env_start(&env, 8, 1, BYTES(16));
	first = bring(env.file, 0, HM_ACCESS(.size = HM_SIZE_BASE));
	assert_int_equal(hm_cache_count(env.cache, HM_C_FRAMES_SPLIT), 1);
	assert_int_equal(hm_pool_free(env.cache, HM_HUGE), 7);
	assert_int_equal(hm_pool_free(env.cache, HM_BASE), BLOCK - 1);
	assert_int_equal(hm_cache_free_pages(env.cache), 8 * BLOCK - 1);
	assert_int_equal(hm_cache_huge_pages(env.cache), 0);
	bring(env.file, P(9), HM_ACCESS_READ);
	assert_int_equal(hm_cache_huge_pages(env.cache), BLOCK);
	for (i = 1; i < HM_BLOCK_PAGES; i++) {
		unit = bring(env.file, i, HM_ACCESS(.size = HM_SIZE_BASE));
		assert_int_equal(hm_pool_container(env.cache, unit.frame),
				 hm_pool_container(env.cache, first.frame));
	}
	assert_int_equal(hm_cache_count(env.cache, HM_C_FRAMES_SPLIT), 1);
	unit = bring(env.file, P(1), HM_ACCESS(.size = HM_SIZE_BASE));
	assert_int_equal(hm_cache_count(env.cache, HM_C_FRAMES_SPLIT), 2);
	assert_int_not_equal(hm_pool_container(env.cache, unit.frame),
			     hm_pool_container(env.cache, first.frame));
	/* A freed base frame is used before another huge frame is split. */
	drop(env.file, 3, 4, false);
	drop(env.file, P(1), P(1) + 1, false);
	assert_int_equal(hm_pool_free(env.cache, HM_HUGE), 6);
	assert_int_equal(hm_cache_huge_pages(env.cache), BLOCK);
	unit = bring(env.file, P(2), HM_ACCESS(.size = HM_SIZE_BASE));
	assert_int_equal(hm_cache_count(env.cache, HM_C_FRAMES_SPLIT), 2);
	offline = hm_frame_offline(env.cache);
	assert_int_not_equal(offline, HM_NO_FRAME_ID);
	assert_int_equal(hm_cache_huge_pages(env.cache), BLOCK);
	drop(env.file, P(9), P(10), false);
	assert_int_equal(hm_cache_huge_pages(env.cache), 0);
	hm_frame_online(env.cache, offline, false);
	env_end(&env);
}

/*
 * When its last base frame is freed, the huge frame is whole again. It is backed by base pages,
 * so it is the first to be split again, and the last to be used as a huge frame.
 */
static void test_huge_frame_is_whole_after_last_base_frame(void **state)
{
	struct hm_unit unit;
	struct env env;
	u32 first, i;

	env_start(&env, 4, 2, BYTES(16));
	for (i = 0; i < HM_BLOCK_PAGES; i++) {
		unit = bring(env.file, i, HM_ACCESS(.size = HM_SIZE_BASE));
		first = hm_pool_container(env.cache, unit.frame);
	}
	for (i = HM_BLOCK_PAGES; i-- > 1;) {
		drop(env.file, i, i + 1, false);
		assert_int_equal(hm_pool_free(env.cache, HM_HUGE), 3);
	}
	drop(env.file, 0, 1, false);
	assert_int_equal(hm_pool_free(env.cache, HM_HUGE), 4);
	assert_int_equal(hm_pool_free(env.cache, HM_BASE), 0);
	for (i = 0; i < 3; i++)
		assert_int_not_equal(bring(env.file, P(1) + P(i), HM_ACCESS_READ).frame, first);
	unit = bring(env.file, 0, HM_ACCESS(.size = HM_SIZE_BASE));
	assert_int_equal(hm_pool_container(env.cache, unit.frame), first);
	drop(env.file, 0, 1, false);
	assert_int_equal(bring(env.file, P(4), HM_ACCESS_READ).frame, first);
	/* It has huge memory again, like the other frames. */
	drop(env.file, P(1), P(5), false);
	for (i = 0; i < 4; i++)
		bring(env.file, P(1) + P(i), HM_ACCESS_READ);
	env_end(&env);
}

/* Frames that are backed by base pages are split first, whichever shard has them. */
static void test_base_backed_frames_are_split_first(void **state)
{
	struct hm_unit unit;
	struct env env;
	u32 offline[4], i;

	env_start(&env, 4, 2, BYTES(16));
	for (i = 0; i < 4; i++)
		offline[i] = hm_frame_offline(env.cache);
	for (i = 0; i < 4; i++)
		hm_frame_online(env.cache, offline[i], i == 1 || i == 2);
	for (i = 0; i < 2; i++) {
		unit = bring(env.file, P(i), HM_ACCESS(.size = HM_SIZE_BASE));
		unit.frame = hm_pool_container(env.cache, unit.frame);
		assert_true(unit.frame == offline[1] || unit.frame == offline[2]);
		hm_pool_isolate(env.cache, unit.frame);
	}
	for (i = 0; i < 2; i++) {
		unit = bring(env.file, P(2 + i), HM_ACCESS_READ);
		assert_true(unit.frame == offline[0] || unit.frame == offline[3]);
	}
	env_end(&env);
}

/*
 * An isolated frame gives no base frames to allocations, and is whole when its last base frame
 * is freed. The counts are right at every step.
 */
static void test_isolated_frame_gives_no_base_frames(void **state)
{
	struct hm_unit unit, other;
	struct env env;
	u32 huge;

	env_start(&env, 8, 1, BYTES(16));
	unit = bring(env.file, 0, HM_ACCESS(.size = HM_SIZE_BASE));
	bring(env.file, 1, HM_ACCESS(.size = HM_SIZE_BASE));
	huge = hm_pool_container(env.cache, unit.frame);
	hm_pool_isolate(env.cache, huge);
	assert_int_equal(hm_pool_free(env.cache, HM_BASE), 0);
	hm_pool_isolate(env.cache, huge); /* a second time has no effect */
	assert_int_equal(hm_pool_free(env.cache, HM_BASE), 0);
	audit(&env);
	other = bring(env.file, 2, HM_ACCESS(.size = HM_SIZE_BASE));
	assert_int_not_equal(hm_pool_container(env.cache, other.frame), huge);
	audit(&env);
	drop(env.file, 1, 2, false);
	assert_int_equal(hm_pool_free(env.cache, HM_BASE), BLOCK - 1);
	audit(&env);
	drop(env.file, 0, 1, false);
	assert_int_equal(hm_pool_free(env.cache, HM_HUGE), 7);
	audit(&env);
	/* The frame is not isolated any more, and can be split again. */
	drop(env.file, 2, 3, false);
	assert_int_equal(hm_pool_free(env.cache, HM_HUGE), 8);
	bring(env.file, 0, HM_ACCESS(.size = HM_SIZE_BASE));
	bring(env.file, 1, HM_ACCESS(.size = HM_SIZE_BASE));
	assert_int_equal(hm_pool_free(env.cache, HM_BASE), BLOCK - 2);
	/* Isolating a frame that is not split has no effect. */
	unit = bring(env.file, P(1), HM_ACCESS_READ);
	hm_pool_isolate(env.cache, unit.frame);
	audit(&env);
	env_end(&env);
}

/* A split frame without free base frames is in no list until the first one is freed. */
static void test_full_split_frame_is_in_no_list(void **state)
{
	struct hm_unit unit;
	struct env env;
	u32 i;

	env_start(&env, 8, 1, BYTES(16));
	for (i = 0; i < HM_BLOCK_PAGES; i++)
		unit = bring(env.file, i, HM_ACCESS(.size = HM_SIZE_BASE));
	hm_pool_isolate(env.cache, hm_pool_container(env.cache, unit.frame));
	audit(&env);
	for (i = 0; i < HM_BLOCK_PAGES; i++) {
		drop(env.file, i, i + 1, false);
		audit(&env);
	}
	assert_int_equal(hm_pool_free(env.cache, HM_HUGE), 8);
	env_end(&env);
}

/* Partly free frames are unlinked from the middle of their list. */
static void test_frame_leaves_middle_of_list(void **state)
{
	struct env env;
	u32 i;

	env_start(&env, 8, 1, BYTES(16));
	for (i = 0; i < 4 * HM_BLOCK_PAGES; i++)
		bring(env.file, i, HM_ACCESS(.size = HM_SIZE_BASE));
	for (i = 0; i < 4; i++)
		drop(env.file, P(i), P(i) + 2, false);
	audit(&env);
	drop(env.file, P(2), P(3), false); /* it becomes whole, in the middle of the list */
	audit(&env);
	drop(env.file, P(0), P(1), false);
	audit(&env);
	drop(env.file, P(3), P(4), false);
	audit(&env);
	assert_int_equal(hm_pool_free(env.cache, HM_HUGE), 7);
	assert_int_equal(hm_pool_free(env.cache, HM_BASE), 2);
	for (i = 0; i < 2; i++)
		bring(env.file, P(1) + i, HM_ACCESS(.size = HM_SIZE_BASE));
	assert_int_equal(hm_pool_free(env.cache, HM_BASE), 0);
	env_end(&env);
}

/* Each CPU splits huge frames of its own shard, until it has none. */
static void test_cpu_splits_huge_frames_of_own_shard(void **state)
{
	struct hm_unit a, b;
	struct env env;
	u32 i;

	env_start(&env, 16, 2, BYTES(32));
	hm_test_cpu = 0;
	a = bring(env.file, 0, HM_ACCESS(.size = HM_SIZE_BASE));
	hm_test_cpu = 1;
	b = bring(env.file, 1, HM_ACCESS(.size = HM_SIZE_BASE));
	assert_int_equal(home(&env, a.frame), 0);
	assert_int_equal(home(&env, b.frame), 1);
	for (i = 2; i < 8 * BLOCK + 1; i++)
		b = bring(env.file, i, HM_ACCESS(.size = HM_SIZE_BASE));
	assert_int_equal(home(&env, b.frame), 1);
	b = bring(env.file, i, HM_ACCESS(.size = HM_SIZE_BASE));
	assert_int_equal(hm_pool_container(env.cache, a.frame),
			 hm_pool_container(env.cache, b.frame));
	env_end(&env);
}

/* In a small pool, base frames of another shard are used before a huge frame is split. */
static void test_foreign_base_frame_is_used_before_split(void **state)
{
	struct hm_unit a, b;
	struct env env;

	env_start(&env, 8, 2, BYTES(16));
	hm_test_cpu = 0;
	a = bring(env.file, 0, HM_ACCESS(.size = HM_SIZE_BASE));
	hm_test_cpu = 1;
	b = bring(env.file, 1, HM_ACCESS(.size = HM_SIZE_BASE));
	assert_int_equal(hm_pool_container(env.cache, a.frame),
			 hm_pool_container(env.cache, b.frame));
	assert_int_equal(home(&env, b.frame), 0);
	env_end(&env);
}

static void test_readahead_leaves_reserve_for_faults(void **state)
{
	struct hm_unit unit;
	struct env env;
	u32 i;

	env_start(&env, 128, 2, BYTES(256)); /* a reserve of 4 */
	assert_int_equal(env.cache->reserve, 4);
	for (i = 0; i < 124; i++)
		bring(env.file, P(i), HM_ACCESS(.ahead = true));
	assert_int_equal(fault(env.file, P(124), HM_ACCESS(.ahead = true), &unit), HM_NO_FRAME);
	assert_int_equal(fault(env.file, P(124), HM_ACCESS(.size = HM_SIZE_BASE, .ahead = true),
			       &unit),
			 HM_NO_FRAME);
	for (; i < 128; i++)
		bring(env.file, P(i), HM_ACCESS_READ);
	assert_int_equal(fault(env.file, P(128), HM_ACCESS_READ, &unit), HM_NO_FRAME);
	env_end(&env);

	env_start(&env, 1024, 1, BYTES(4));
	assert_int_equal(env.cache->reserve, 8); /* the maximum */
	env_end(&env);
}

static void test_random_use_neither_loses_nor_doubles_a_frame(void **state)
{
	struct hm_unit unit;
	struct env env;
	u32 seed = 12345, i;

	env_start(&env, 12, 3, BYTES(24));
	for (i = 0; i < 20000; i++) {
		struct hm_access access;
		u32 block;
		u64 pgoff;

		seed = seed * 1664525u + 1013904223u;
		block = (seed >> 8) % 24;
		pgoff = P(block) + (seed >> 16) % 8;
		access = (seed >> 28) & 3 ? HM_ACCESS(.size = HM_SIZE_BASE) : HM_ACCESS_READ;
		hm_test_cpu = (seed >> 20) % 3;
		if ((seed >> 24) % 5 == 0) {
			drop(env.file, P(block), P(block + 1), true);
		} else {
			switch (fault(env.file, pgoff, access, &unit)) {
			case HM_FILL:
				assert_false(hm_fill_done(&unit, 0, false));
				break;
			case HM_NO_FRAME:
				drop(env.file, P(block / 2), P(block), true);
				break;
			default:
				break;
			}
		}
		if (i % 1000 == 0)
			audit(&env);
	}
	env_end(&env);
}

/* Offline frames are not allocated and not counted until they are online again. */
static void test_offline_frames_are_neither_used_nor_counted(void **state)
{
	u32 offline[4], i;
	struct hm_unit unit;
	struct env env;

	env_start(&env, 8, 2, BYTES(16));
	for (i = 0; i < 4; i++) {
		offline[i] = hm_frame_offline(env.cache);
		assert_int_not_equal(offline[i], HM_NO_FRAME_ID);
	}
	assert_int_equal(hm_cache_free_pages(env.cache), 4 * BLOCK);
	assert_int_equal(hm_pool_dirty_limit(env.cache), 4 * BLOCK * 75 / 100);
	for (i = 0; i < 4; i++)
		bring(env.file, P(i), HM_ACCESS_READ);
	assert_int_equal(fault(env.file, P(4), HM_ACCESS_READ, &unit), HM_NO_FRAME);
	assert_int_equal(hm_frame_offline(env.cache), HM_NO_FRAME_ID);
	hm_frame_online(env.cache, offline[2], false);
	unit = bring(env.file, P(4), HM_ACCESS_READ);
	assert_int_equal(unit.frame, offline[2]);
	hm_frame_online(env.cache, offline[0], false);
	hm_frame_online(env.cache, offline[1], false);
	hm_frame_online(env.cache, offline[3], false);
	assert_int_equal(hm_cache_free_pages(env.cache), 3 * BLOCK);
	assert_int_equal(hm_pool_dirty_limit(env.cache), 8 * BLOCK * 75 / 100);
	env_end(&env);
}

/*
 * Half of the frames are offline, as in a pool that may grow. Each shard has its share of the
 * others, and each CPU takes frames of its own shard first.
 */
static void test_shards_share_online_frames_equally(void **state)
{
	struct hm_unit unit;
	struct env env;
	u32 offline[8], i;

	env_start(&env, 64, 4, BYTES(64));
	for (i = 0; i < 64; i++)
		assert_int_not_equal(hm_frame_offline(env.cache), HM_NO_FRAME_ID);
	for (i = 0; i < 32; i++)
		hm_frame_online(env.cache, i, false);
	for (i = 0; i < 4; i++)
		assert_int_equal(free_in(&env, i, HM_HUGE), 8);
	for (i = 0; i < 16; i++) {
		hm_test_cpu = i % 4;
		unit = bring(env.file, P(i), HM_ACCESS_READ);
		assert_int_equal(home(&env, unit.frame), i % 4);
	}
	hm_test_cpu = 0;
	/* When the pool shrinks, the share of each shard shrinks. */
	for (i = 0; i < 8; i++) {
		offline[i] = hm_frame_offline(env.cache);
		assert_int_not_equal(offline[i], HM_NO_FRAME_ID);
	}
	for (i = 0; i < 4; i++)
		assert_int_equal(free_in(&env, i, HM_HUGE), 2);
	for (i = 0; i < 8; i++)
		hm_frame_online(env.cache, offline[i], false);
	for (i = 32; i < 64; i++)
		hm_frame_online(env.cache, i, false);
	env_end(&env);
}

static void test_reclaim_hint_counts_all_shards(void **state)
{
	struct hm_unit unit;
	struct env env;
	u32 i;

	env_start(&env, 128, 2, BYTES(128)); /* the free target is 16 */
	for (i = 0; i < 112; i++) {
		assert_int_equal(fault(env.file, P(i), HM_ACCESS_READ, &unit), HM_FILL);
		assert_int_equal(!!(unit.hints & HM_HINT_RECLAIM), i == 111);
		assert_false(hm_fill_done(&unit, 0, false));
	}
	env_end(&env);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_cpu_uses_own_shard_then_steals),
	cmocka_unit_test(test_stolen_frame_returns_to_its_shard),
	cmocka_unit_test(test_frames_need_not_divide_by_shards),
	cmocka_unit_test(test_one_huge_frame_is_split_at_a_time),
	cmocka_unit_test(test_huge_frame_is_whole_after_last_base_frame),
	cmocka_unit_test(test_base_backed_frames_are_split_first),
	cmocka_unit_test(test_isolated_frame_gives_no_base_frames),
	cmocka_unit_test(test_full_split_frame_is_in_no_list),
	cmocka_unit_test(test_frame_leaves_middle_of_list),
	cmocka_unit_test(test_every_cpu_finds_frames_of_all_shards),
	cmocka_unit_test(test_cpu_splits_huge_frames_of_own_shard),
	cmocka_unit_test(test_foreign_base_frame_is_used_before_split),
	cmocka_unit_test(test_readahead_leaves_reserve_for_faults),
	cmocka_unit_test(test_random_use_neither_loses_nor_doubles_a_frame),
	cmocka_unit_test(test_offline_frames_are_neither_used_nor_counted),
	cmocka_unit_test(test_shards_share_online_frames_equally),
	cmocka_unit_test(test_reclaim_hint_counts_all_shards),
};

int main(void)
{
	return cmocka_run_group_tests_name("pool", tests, NULL, NULL);
}
