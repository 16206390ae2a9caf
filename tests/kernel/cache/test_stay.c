// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* What stays in the cache: what is used again, and what matters more. */
#include "common.h"

/*
 * A hot set that is used all the time stays, while a scan of many times the
 * pool goes through: plain LRU by fault time would lose all of it.
 */
static void scan_against_hot_set(u32 cpus)
{
	enum {
		POOL = 64,
		HOT = 24,
		SCAN = 2000
	};
	struct env env;
	u32 misses = 0, i, round;
	u64 next = 0;

	env_start(&env, POOL, cpus, BYTES(512));
	/* The hot set proves itself: used, lost perhaps, used again. */
	for (round = 0; round < 20; round++) {
		hm_cache_tick(env.cache, round * 50 + 1);
		for (i = 0; i < HOT; i++)
			use(env.file, i * BLOCK, HM_ACCESS_READ);
		for (i = 0; i < 8; i++, next++)
			use(env.file, (64 + next % 440) * BLOCK, HM_ACCESS_READ);
	}
	for (i = 0; i < SCAN; i++, next++) {
		hm_cache_tick(env.cache, 1000 + i * 5);
		use(env.file, (64 + next % 440) * BLOCK, HM_ACCESS_READ);
		if (i % 4 == 0) /* the hot set, one after the other */
			misses += !use(env.file, (i / 4 % HOT) * BLOCK, HM_ACCESS_READ);
	}
	/* 500 uses: LRU misses nearly all of them (96 scanned between two). */
	assert_in_range(misses, 0, 25);
	audit(&env);
	env_end(&env);
}

static void test_scan_resistance(void **state)
{
	scan_against_hot_set(1);
	scan_against_hot_set(4); /* the scan passes one shard at a time */
}

/*
 * One scan, once, through a pool full of proven units that are idle meanwhile:
 * most of them are still there.
 */
static void test_one_scan(void **state)
{
	enum {
		POOL = 64,
		HOT = 40
	};
	struct env env;
	u32 i, round, left = 0;

	env_start(&env, POOL, 1, BYTES(512));
	for (round = 0; round < 30; round++) {
		hm_cache_tick(env.cache, round * 50 + 1);
		for (i = 0; i < HOT; i++)
			use(env.file, P(i), HM_ACCESS_READ);
		for (i = 0; i < 8; i++)
			use(env.file, P(100 + round * 8 + i), HM_ACCESS_READ);
	}
	for (i = 0; i < 256; i++) {
		hm_cache_tick(env.cache, 2000 + i);
		use(env.file, P(100 + (240 + i) % 400), HM_ACCESS_READ);
	}
	for (i = 0; i < HOT; i++)
		left += state_of(env.file, P(i)) != HM_ABSENT;
	assert_in_range(left, HOT * 3 / 4, HOT);
	env_end(&env);
}

/* Once it is used no more, a hot set gives way: proven is not for ever. */
static void test_hot_set_changes(void **state)
{
	enum {
		POOL = 32,
		HOT = 20
	};
	struct env env;
	u32 misses = 0, i, round;

	env_start(&env, POOL, 1, BYTES(512));
	for (round = 0; round < 30; round++) {
		hm_cache_tick(env.cache, round * 50 + 1);
		for (i = 0; i < HOT; i++)
			use(env.file, P(i), HM_ACCESS_READ);
		for (i = 0; i < 4; i++)
			use(env.file, P(200 + round * 4 + i), HM_ACCESS_READ);
	}
	for (round = 0; round < 30; round++) {
		hm_cache_tick(env.cache, 5000 + round * 50);
		for (i = 0; i < HOT; i++) {
			bool hit = use(env.file, P(100 + i), HM_ACCESS_READ);

			if (round >= 20)
				misses += !hit;
		}
		for (i = 0; i < 4; i++)
			use(env.file, P(350 + round * 4 + i), HM_ACCESS_READ);
	}
	assert_in_range(misses, 0, 20); /* of 200 */
	env_end(&env);
}

/*
 * Read again soon after its eviction, a unit is proven at once; long after, or
 * after another one took its place, it is not.
 */
static void test_ghosts(void **state)
{
	struct hm_unit unit;
	struct env env;
	u32 i;

	env_start(&env, 8, 1, BYTES(64));
	bring(env.file, P(1), HM_ACCESS_READ);
	assert_int_equal(evict(env.cache, HM_HUGE, 1), 1);
	unit = bring(env.file, P(1), HM_ACCESS_READ);
	assert_int_equal(hm_cache_count(env.cache, HM_C_GHOSTS), 1);
	assert_int_equal(hm_atomic_read(&hm_desc_of(env.cache, unit.frame)->where) & 0xff,
			 HM_Q_MAIN);
	/* Its ghost is used up. */
	drop(env.file, P(1), P(2), true);
	unit = bring(env.file, P(1), HM_ACCESS_READ);
	assert_int_equal(hm_cache_count(env.cache, HM_C_GHOSTS), 1);
	assert_int_equal(hm_atomic_read(&hm_desc_of(env.cache, unit.frame)->where) & 0xff,
			 HM_Q_PROBATION);
	drop(env.file, P(1), P(2), false);
	/* The ghost of a block is not its first page's. */
	bring(env.file, P(1), HM_ACCESS(.size = HM_SIZE_BASE));
	assert_int_equal(hm_cache_count(env.cache, HM_C_GHOSTS), 1);
	drop(env.file, 0, ~0ull, true);
	/* It fades when as many were evicted as the pool holds. */
	for (i = 2; i < 2 + 9; i++) {
		bring(env.file, P(i), HM_ACCESS_READ);
		assert_int_equal(evict(env.cache, HM_HUGE, 1), 1);
	}
	bring(env.file, P(2), HM_ACCESS_READ); /* 8 since: just in time */
	assert_int_equal(hm_cache_count(env.cache, HM_C_GHOSTS), 2);
	bring(env.file, P(1), HM_ACCESS_READ); /* 9 and more */
	assert_int_equal(hm_cache_count(env.cache, HM_C_GHOSTS), 2);
	env_end(&env);
}

/* Another store's unit at the same offset is another ghost. */
static void test_ghosts_of_files(void **state)
{
	struct hm_file *other;
	struct env env;

	env_start(&env, 8, 1, BYTES(64));
	other = env_open(&env, BYTES(64));
	bring(env.file, P(1), HM_ACCESS_READ);
	assert_int_equal(evict(env.cache, HM_HUGE, 1), 1);
	bring(other, P(1), HM_ACCESS_READ);
	assert_int_equal(hm_cache_count(env.cache, HM_C_GHOSTS), 0);
	env_end(&env);
}

/* HIGH stays while anything else is left, LOW leaves before the others. */
static void test_priorities(void **state)
{
	struct env env;
	u32 i;

	env_start(&env, 8, 1, BYTES(64));
	bring(env.file, P(1), HM_ACCESS(.priority = HM_PRIORITY_HIGH));
	for (i = 2; i < 6; i++)
		bring(env.file, P(2 * i), HM_ACCESS_READ);
	bring(env.file, P(20), HM_ACCESS(.priority = HM_PRIORITY_LOW));
	assert_int_equal(evict(env.cache, HM_HUGE, 1), 1);
	assert_int_equal(state_of(env.file, P(20)), HM_ABSENT);
	for (i = 0; i < 4; i++) {
		assert_int_equal(state_of(env.file, P(1)), HM_CLEAN);
		assert_int_equal(evict(env.cache, HM_HUGE, 1), 1);
	}
	assert_int_equal(state_of(env.file, P(1)), HM_CLEAN);
	/* A full pool of high ones does not hang anybody. */
	assert_int_equal(evict(env.cache, HM_HUGE, 1), 1);
	assert_int_equal(state_of(env.file, P(1)), HM_ABSENT);
	/* Touched while inactive, HIGH stays HIGH; LOW never counts as proven. */
	bring(env.file, P(20), HM_ACCESS(.priority = HM_PRIORITY_LOW));
	assert_int_equal(hm_cache_count(env.cache, HM_C_GHOSTS), 1);
	bring(env.file, P(30), HM_ACCESS_READ);
	assert_int_equal(evict(env.cache, HM_HUGE, 1), 1);
	assert_int_equal(state_of(env.file, P(20)), HM_ABSENT);
	env_end(&env);
}

static void test_high_rescued(void **state)
{
	struct hm_victim victims[MAX_VICTIMS];
	struct hm_unit unit;
	struct env env;
	u32 evicted = 0;

	env_start(&env, 8, 1, BYTES(64));
	unit = bring(env.file, P(1), HM_ACCESS(.priority = HM_PRIORITY_HIGH));
	assert_int_equal(reclaim(env.cache, HM_HUGE, 1, victims, &evicted), 1);
	touch(env.file, P(1), HM_ACCESS_READ);
	bring(env.file, P(3), HM_ACCESS_READ);
	assert_int_equal(evict(env.cache, HM_HUGE, 1), 1);
	assert_int_equal(state_of(env.file, P(3)), HM_ABSENT);
	assert_int_equal(hm_atomic_read(&hm_desc_of(env.cache, unit.frame)->where) & 0xff,
			 HM_Q_HIGH);
	env_end(&env);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_scan_resistance), cmocka_unit_test(test_one_scan),
	cmocka_unit_test(test_hot_set_changes), cmocka_unit_test(test_ghosts),
	cmocka_unit_test(test_ghosts_of_files), cmocka_unit_test(test_priorities),
	cmocka_unit_test(test_high_rescued),
};

int main(void)
{
	return cmocka_run_group_tests_name("stay", tests, NULL, NULL);
}
