// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Eviction beside pinned units: reclaim claims them in vain, and must reach all others. */
#include "common.h"

/* Some blocks, so far apart in the file that they can belong to different shards. */
#define FAR_BLOCKS 8u
#define FAR(block) P((u64)16 * (block))
#define ALL_BLOCKS ((1u << FAR_BLOCKS) - 1)
/* Many more rounds than reclaim needs, and fewer than it takes if it never reaches a unit. */
#define ROUNDS_MAX 10000u
#define ROUNDS_ENOUGH 1000u

/* The pinned pages: the first @pages of the blocks in @blocks, which has a bit for each block. */
struct pins {
	u32 blocks, pages;
};

static bool is_pinned(const struct pins *pins, u64 pgoff)
{
	return pins->blocks >> (pgoff / FAR(1)) & 1 && pgoff % BLOCK < pins->pages;
}

/* Move a cached page to the main queue of its shard. */
static void make_proven(struct env *env, u64 pgoff)
{
	struct hm_shard *shard = hm_shard_of(env->cache, env->file, pgoff);
	struct hm_unit unit;

	hm_peek(env->file, pgoff, &unit);
	hm_spin_lock(&shard->queue_lock);
	hm_queue_unlink(env->cache, shard, unit.frame);
	hm_queue_push(env->cache, shard, unit.frame, HM_Q_MAIN, false);
	hm_spin_unlock(&shard->queue_lock);
}

/* Move all pages but the first ones to the main queue, in all blocks but those in @blocks. */
static void make_others_proven(struct env *env, u32 blocks)
{
	u32 block, i;

	for (block = 0; block < FAR_BLOCKS; block++)
		for (i = 1; i < BLOCK && !(blocks >> block & 1); i++)
			make_proven(env, FAR(block) + i);
}

/*
 * Read all pages of the blocks. The pinned ones get one priority, the others another one, and are
 * read more than a second later: see hm_reclaim_take_neighbours(). Reclaim begins later, too.
 */
static void start_far(struct env *env, u32 cpus, const struct pins *pins, enum hm_priority pinned,
		      enum hm_priority other)
{
	u32 block, i, seconds = 0;

	env_start(env, FAR_BLOCKS + cpus, cpus, BYTES(16 * FAR_BLOCKS));
	for (block = 0; block < FAR_BLOCKS; block++) {
		for (i = 0; i < BLOCK; i++) {
			u64 pgoff = FAR(block) + i;

			if (!i || i == pins->pages)
				hm_cache_tick(env->cache, 1000 * (seconds += 2));
			bring(env->file, pgoff,
			      HM_ACCESS(.size = HM_SIZE_BASE,
					.priority = is_pinned(pins, pgoff) ? pinned : other));
		}
	}
	hm_cache_tick(env->cache, 1000 * (seconds + 2));
}

/* Reclaim base pages until one of the blocks in @blocks leaves. Return the rounds. */
static u32 rounds_until_left(struct env *env, const struct pins *pins, u32 blocks)
{
	struct hm_victim victims[MAX_VICTIMS];
	bool left = false;
	u32 round, n, i;

	for (round = 0; !left && round < ROUNDS_MAX; round++) {
		n = hm_reclaim(env->cache, HM_BASE, 16, victims, MAX_VICTIMS);
		for (i = 0; i < n; i++) {
			u64 pgoff = victims[i].unit.pgoff;
			bool stays = is_pinned(pins, pgoff);

			if (!victims[i].evict)
				continue;
			hm_evict_done(&victims[i].unit, stays ? HM_EVICT_STAYS : HM_EVICTED);
			left |= !stays && blocks >> (pgoff / FAR(1)) & 1;
		}
	}
	return round;
}

/* Return the blocks of the first block's shard. */
static u32 blocks_of_first_shard(struct env *env)
{
	struct hm_shard *first = hm_shard_of(env->cache, env->file, 0);
	u32 blocks = 0, block;

	for (block = 0; block < FAR_BLOCKS; block++)
		if (hm_shard_of(env->cache, env->file, FAR(block)) == first)
			blocks |= 1u << block;
	assert_int_not_equal(blocks, ALL_BLOCKS);
	return blocks;
}

/*
 * A quarter of the pages is in probation, and all of these are pinned. The others are in the main
 * queue, and leave.
 */
static void test_proven_pages_leave_beside_pinned_ones(void **state)
{
	const struct pins pins = { ALL_BLOCKS, BLOCK / 4 };
	struct env env;
	u32 block, i;

	start_far(&env, 1, &pins, HM_PRIORITY_NORMAL, HM_PRIORITY_NORMAL);
	for (block = 0; block < FAR_BLOCKS; block++)
		for (i = BLOCK / 4; i < BLOCK; i++)
			make_proven(&env, FAR(block) + i);
	assert_true(rounds_until_left(&env, &pins, ALL_BLOCKS) < ROUNDS_ENOUGH);
	env_end(&env);
}

/* One of eight huge units is in probation, and is pinned. The others leave. */
static void test_proven_blocks_leave_beside_a_pinned_one(void **state)
{
	struct hm_victim victims[MAX_VICTIMS];
	u32 round, n, i, left = 0;
	struct env env;

	env_start(&env, 8, 1, BYTES(16));
	for (i = 0; i < 8; i++)
		bring(env.file, P(i), HM_ACCESS_READ);
	for (i = 1; i < 8; i++)
		make_proven(&env, P(i));
	for (round = 0; !left && round < ROUNDS_MAX; round++) {
		n = hm_reclaim(env.cache, HM_HUGE, 1, victims, MAX_VICTIMS);
		for (i = 0; i < n; i++) {
			bool stays = !victims[i].unit.pgoff;

			if (!victims[i].evict)
				continue;
			hm_evict_done(&victims[i].unit, stays ? HM_EVICT_STAYS : HM_EVICTED);
			left += !stays;
		}
	}
	assert_true(round < 64);
	env_end(&env);
}

/*
 * One shard has more pages in probation than the other one, and all of these are pinned. The pages
 * of the other shard leave.
 */
static void test_pages_of_another_shard_leave_beside_pinned_ones(void **state)
{
	struct pins pins = { 0, BLOCK };
	struct env env;

	start_far(&env, 2, &pins, HM_PRIORITY_NORMAL, HM_PRIORITY_NORMAL);
	pins.blocks = blocks_of_first_shard(&env);
	make_others_proven(&env, pins.blocks);
	assert_true(rounds_until_left(&env, &pins, ALL_BLOCKS) < ROUNDS_ENOUGH);
	env_end(&env);
}

/* The pins of a shard end while the other shard has pages that can leave. Both are used again. */
static void test_shard_is_used_again_after_its_pins(void **state)
{
	struct pins pins = { 0, BLOCK };
	struct env env;
	u32 first;

	start_far(&env, 2, &pins, HM_PRIORITY_NORMAL, HM_PRIORITY_NORMAL);
	first = blocks_of_first_shard(&env);
	pins.blocks = first;
	make_others_proven(&env, first);
	while (!hm_queue_is_stuck(hm_shard_of(env.cache, env.file, 0), HM_BASE))
		assert_true(rounds_until_left(&env, &pins, ALL_BLOCKS) > 0);
	pins.blocks = 0;
	/* The other shard has enough pages for more rounds. */
	assert_true(rounds_until_left(&env, &pins, first) < 32);
	env_end(&env);
}

/* All pages but those of high priority are pinned. Pages of high priority leave. */
static void test_pages_of_high_priority_leave_beside_pinned_ones(void **state)
{
	const struct pins pins = { ALL_BLOCKS, BLOCK / 4 };
	struct env env;

	start_far(&env, 1, &pins, HM_PRIORITY_NORMAL, HM_PRIORITY_HIGH);
	assert_true(rounds_until_left(&env, &pins, ALL_BLOCKS) < ROUNDS_ENOUGH);
	env_end(&env);
}

/* Most pages are pinned, but a page can leave at any time. Pages of high priority stay. */
static void test_pages_of_high_priority_stay_while_others_can_leave(void **state)
{
	const struct pins pins = { ALL_BLOCKS, BLOCK / 4 };
	struct hm_list *list;
	struct env env;
	u32 i, high;

	start_far(&env, 1, &pins, HM_PRIORITY_NORMAL, HM_PRIORITY_HIGH);
	list = &env.cache->shards[0].list[HM_BASE][HM_Q_HIGH];
	high = hm_list_count(list);
	for (i = 0; i < 100; i++) {
		/* The last page of another block. */
		bring(env.file, FAR(i % FAR_BLOCKS) + P(2 + i / FAR_BLOCKS) - 1,
		      HM_ACCESS(.size = HM_SIZE_BASE));
		rounds_until_left(&env, &pins, ALL_BLOCKS);
	}
	assert_int_equal(hm_list_count(list), high);
	env_end(&env);
}

#if HM_NODE_ORDER == 9 /* Files of the small sizes have too few blocks. */
/* Read blocks from @first on, those of the shard of block 0 (@same) or all others. */
static void bring_blocks(struct env *env, u32 first, u32 n, bool same, enum hm_priority priority)
{
	struct hm_shard *shard = hm_shard_of(env->cache, env->file, 0);
	u32 block;

	for (block = first; n; block++) {
		if ((hm_shard_of(env->cache, env->file, P(block)) == shard) != same)
			continue;
		bring(env->file, P(block), HM_ACCESS(.size = HM_SIZE_HUGE, .priority = priority));
		n--;
	}
}

/* All blocks of a shard are pinned or of high priority, but cold blocks of other shards leave. */
static void test_blocks_of_high_priority_stay_while_another_shard_has_others(void **state)
{
	struct hm_victim victims[MAX_VICTIMS];
	struct hm_list *high;
	u32 round, n, i, freed;
	struct env env;

	env_start(&env, 64, 2, BYTES(1 << 14));
	high = &hm_shard_of(env.cache, env.file, 0)->list[HM_HUGE][HM_Q_HIGH];
	bring_blocks(&env, 0, 8, true, HM_PRIORITY_NORMAL);
	hm_cache_tick(env.cache, 5000);
	bring_blocks(&env, 100, 16, true, HM_PRIORITY_HIGH);
	for (round = 0; round < 100; round++) {
		hm_cache_tick(env.cache, 10000 + 10 * round);
		bring_blocks(&env, 200 + 128 * round, (u32)hm_pool_free(env.cache, HM_HUGE), false,
			     HM_PRIORITY_NORMAL);
		for (freed = 0; !freed;) {
			n = hm_reclaim(env.cache, HM_HUGE, 16, victims, MAX_VICTIMS);
			for (i = 0; i < n; i++) {
				bool stays = victims[i].unit.pgoff < P(100);

				if (!victims[i].evict)
					continue;
				freed += !stays;
				hm_evict_done(&victims[i].unit,
					      stays ? HM_EVICT_STAYS : HM_EVICTED);
			}
		}
	}
	assert_int_equal(hm_list_count(high), 16);
	env_end(&env);
}
#endif

/* Reclaim for each page of a block that is still cached. Each time, a page of @blocks leaves. */
static void expect_to_leave(struct env *env, const struct pins *pins, u64 block, u32 blocks)
{
	struct hm_unit unit;
	u32 i;

	for (i = 0; i < BLOCK; i++)
		if (hm_peek(env->file, FAR(block) + i, &unit) == HM_CLEAN)
			assert_true(rounds_until_left(env, pins, blocks) < ROUNDS_ENOUGH);
}

/* All shards have pinned pages, and one has others: it has the fewest pages in probation. */
static void test_pages_of_one_shard_of_four_leave(void **state)
{
	const struct pins pins = { ALL_BLOCKS & ~(1u << 4), BLOCK };
	struct env env;

	start_far(&env, 4, &pins, HM_PRIORITY_NORMAL, HM_PRIORITY_NORMAL);
	assert_int_equal(blocks_of_first_shard(&env), 1u << 4 | 1);
	make_others_proven(&env, pins.blocks);
	expect_to_leave(&env, &pins, 4, 1u << 4);
	env_end(&env);
}

/* All pages of one shard are in the main queue, and all pages of the others are pinned. */
static void test_proven_pages_leave_beside_pinned_shards(void **state)
{
	const struct pins pins = { ALL_BLOCKS & ~(1u << 4 | 1), BLOCK };
	struct env env;

	start_far(&env, 4, &pins, HM_PRIORITY_NORMAL, HM_PRIORITY_NORMAL);
	assert_int_equal(blocks_of_first_shard(&env), 1u << 4 | 1);
	make_others_proven(&env, pins.blocks);
	make_proven(&env, FAR(0));
	make_proven(&env, FAR(4));
	expect_to_leave(&env, &pins, 4, 1u << 4 | 1);
	env_end(&env);
}

/* Pinned pages of low priority are claimed first, but not again before the others. */
static void test_pages_leave_beside_pinned_ones_of_low_priority(void **state)
{
	const struct pins pins = { ALL_BLOCKS, BLOCK / 4 };
	struct env env;

	start_far(&env, 1, &pins, HM_PRIORITY_LOW, HM_PRIORITY_NORMAL);
	assert_true(rounds_until_left(&env, &pins, ALL_BLOCKS) < ROUNDS_ENOUGH);
	env_end(&env);
}

/*
 * Reclaim empties a split frame for a huge unit. It skips a frame, because a page could not move,
 * and the next one has a pinned page. Then it tries further frames.
 */
static void test_split_frame_with_pinned_page_is_not_tried_for_ever(void **state)
{
	struct hm_victim victims[MAX_VICTIMS];
	u32 round, pinned, n, i;
	struct env env;

	env_start(&env, 8, 1, BYTES(64));
	for (i = 0; i < 8 * BLOCK; i++)
		bring(env.file, i, HM_ACCESS(.size = HM_SIZE_BASE));
	hm_atomic_set(&env.cache->isolate_skip, 1);
	pinned = hm_pool_base_frame(
		env.cache,
		(hm_pool_container(env.cache, touch(env.file, 0, HM_ACCESS_READ).frame) + 1) % 8,
		0);
	for (round = 0; !hm_pool_free(env.cache, HM_HUGE) && round < ROUNDS_MAX; round++) {
		n = hm_reclaim(env.cache, HM_HUGE, 1, victims, MAX_VICTIMS);
		for (i = 0; i < n; i++)
			if (victims[i].evict)
				hm_evict_done(&victims[i].unit, victims[i].unit.frame == pinned ?
									HM_EVICT_STAYS :
									HM_EVICTED);
	}
	assert_true(round < ROUNDS_ENOUGH);
	assert_int_equal(hm_atomic_read(&env.cache->isolate_skip), 0);
	env_end(&env);
}

/* FADV_DONTNEED of mapped pages does not change what reclaim chooses. */
static void test_pages_that_advice_cannot_drop_do_not_count(void **state)
{
	struct hm_unit unit;
	struct env env;
	u64 pos;
	u32 i;

	env_start(&env, 8, 1, BYTES(4));
	bring(env.file, 0, HM_ACCESS(.size = HM_SIZE_BASE));
	for (i = 0; i < 200; i++) {
		pos = 0;
		assert_int_equal(hm_invalidate(env.file, &pos, 1, false, &unit), HM_INV_UNIT);
		hm_evict_done(&unit, HM_EVICT_BUSY);
	}
	assert_false(hm_queue_is_stuck(hm_shard_of(env.cache, env.file, 0), HM_BASE));
	env_end(&env);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_proven_pages_leave_beside_pinned_ones),
	cmocka_unit_test(test_proven_blocks_leave_beside_a_pinned_one),
	cmocka_unit_test(test_pages_of_another_shard_leave_beside_pinned_ones),
	cmocka_unit_test(test_shard_is_used_again_after_its_pins),
	cmocka_unit_test(test_pages_of_high_priority_leave_beside_pinned_ones),
	cmocka_unit_test(test_pages_of_high_priority_stay_while_others_can_leave),
#if HM_NODE_ORDER == 9
	cmocka_unit_test(test_blocks_of_high_priority_stay_while_another_shard_has_others),
#endif
	cmocka_unit_test(test_pages_of_one_shard_of_four_leave),
	cmocka_unit_test(test_proven_pages_leave_beside_pinned_shards),
	cmocka_unit_test(test_pages_leave_beside_pinned_ones_of_low_priority),
	cmocka_unit_test(test_split_frame_with_pinned_page_is_not_tried_for_ever),
	cmocka_unit_test(test_pages_that_advice_cannot_drop_do_not_count),
};

int main(void)
{
	return cmocka_run_group_tests_name("pinned", tests, NULL, NULL);
}
