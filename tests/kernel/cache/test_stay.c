// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Retention: units that are used again, and units with a higher priority, stay cached. */
#include "common.h"

/*
 * A hot set in continuous use stays cached during a scan of many times the pool. Plain LRU by fault
 * time would lose all of it.
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
	/* The hot set enters the main queue: its units are used, maybe evicted, and used again. */
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
		if (i % 4 == 0) /* the units of the hot set in turn */
			misses += !use(env.file, (i / 4 % HOT) * BLOCK, HM_ACCESS_READ);
	}
	/* LRU would miss nearly all 500 uses: 96 units are scanned between two of them. */
	assert_in_range(misses, 0, 25);
	audit(&env);
	env_end(&env);
}

static void test_hot_set_survives_scans(void **state)
{
	scan_against_hot_set(1);
	scan_against_hot_set(4); /* the scan uses one shard at a time */
}

/*
 * After one scan through a pool full of idle units in the main queue, most of these are still
 * cached.
 */
static void test_idle_main_queue_survives_one_scan(void **state)
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

static void test_unused_hot_set_is_evicted(void **state)
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
 * A unit that is read again soon after its eviction enters the main queue at once. Later it starts
 * on probation.
 */
static void test_unit_read_again_soon_enters_main_queue(void **state)
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
	/* The ghost was used up. */
	drop(env.file, P(1), P(2), true);
	unit = bring(env.file, P(1), HM_ACCESS_READ);
	assert_int_equal(hm_cache_count(env.cache, HM_C_GHOSTS), 1);
	assert_int_equal(hm_atomic_read(&hm_desc_of(env.cache, unit.frame)->where) & 0xff,
			 HM_Q_PROBATION);
	drop(env.file, P(1), P(2), false);
	/* The ghost of a huge unit does not count for its first page. */
	bring(env.file, P(1), HM_ACCESS(.size = HM_SIZE_BASE));
	assert_int_equal(hm_cache_count(env.cache, HM_C_GHOSTS), 1);
	drop(env.file, 0, ~0ull, true);
	/* A ghost expires after as many evictions as the pool has huge frames. */
	for (i = 2; i < 2 + 9; i++) {
		bring(env.file, P(i), HM_ACCESS_READ);
		assert_int_equal(evict(env.cache, HM_HUGE, 1), 1);
	}
	bring(env.file, P(2), HM_ACCESS_READ); /* after 8 evictions: just in time */
	assert_int_equal(hm_cache_count(env.cache, HM_C_GHOSTS), 2);
	bring(env.file, P(1), HM_ACCESS_READ); /* after more than 8 evictions */
	assert_int_equal(hm_cache_count(env.cache, HM_C_GHOSTS), 2);
	env_end(&env);
}

/* Units at the same offset in two files have different ghosts. */
static void test_ghosts_of_files_are_separate(void **state)
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

/* Units with high priority are evicted last, units with low priority first. */
static void test_low_priority_leaves_first_high_last(void **state)
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
	/* Reclaim evicts units with high priority if there are no others. */
	assert_int_equal(evict(env.cache, HM_HUGE, 1), 1);
	assert_int_equal(state_of(env.file, P(1)), HM_ABSENT);
	/* A ghost does not move a unit with low priority to the main queue. */
	bring(env.file, P(20), HM_ACCESS(.priority = HM_PRIORITY_LOW));
	assert_int_equal(hm_cache_count(env.cache, HM_C_GHOSTS), 1);
	bring(env.file, P(30), HM_ACCESS_READ);
	assert_int_equal(evict(env.cache, HM_HUGE, 1), 1);
	assert_int_equal(state_of(env.file, P(20)), HM_ABSENT);
	env_end(&env);
}

/* An inactive unit with high priority returns to its queue when it is touched. */
static void test_touched_high_unit_returns_to_high_queue(void **state)
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
	cmocka_unit_test(test_hot_set_survives_scans),
	cmocka_unit_test(test_idle_main_queue_survives_one_scan),
	cmocka_unit_test(test_unused_hot_set_is_evicted),
	cmocka_unit_test(test_unit_read_again_soon_enters_main_queue),
	cmocka_unit_test(test_ghosts_of_files_are_separate),
	cmocka_unit_test(test_low_priority_leaves_first_high_last),
	cmocka_unit_test(test_touched_high_unit_returns_to_high_queue),
};

int main(void)
{
	return cmocka_run_group_tests_name("stay", tests, NULL, NULL);
}
