// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* The dirty set: counters, ages, and the walk in offset order. */
#include "common.h"

static u64 next_dirty(struct hm_file *file, u64 from, u64 end)
{
	u64 pgoff = ~0ull;
	bool found;

	hm_spin_lock(&file->dirty_lock);
	found = hm_dirty_next(file, from, end, &pgoff);
	hm_spin_unlock(&file->dirty_lock);
	return found ? pgoff : ~0ull;
}

/* Dirty pages, not units, are counted for each file and for the cache. */
static void test_dirty_pages_are_counted_by_file_and_cache(void **state)
{
	struct hm_file *other;
	struct env env;

	env_start(&env, 8, 1, BYTES(8));
	other = env_open(&env, BYTES(8));
	bring(env.file, 0, HM_ACCESS_WRITE);
	assert_int_equal(hm_file_dirty_pages(env.file), BLOCK);
	bring(other, 3, HM_ACCESS(.size = HM_SIZE_BASE, .write = true));
	bring(other, 4, HM_ACCESS(.size = HM_SIZE_BASE, .write = true));
	assert_int_equal(hm_file_dirty_pages(env.file), BLOCK);
	assert_int_equal(hm_file_dirty_pages(other), 2);
	assert_int_equal(hm_cache_dirty_pages(env.cache), BLOCK + 2);
	write_all(env.file);
	assert_int_equal(hm_file_dirty_pages(env.file), 0);
	assert_int_equal(hm_cache_dirty_pages(env.cache), 2);
	/* A discarded page is not counted any more. */
	drop(other, 3, 4, true);
	assert_int_equal(hm_file_dirty_pages(other), 1);
	assert_int_equal(next_dirty(other, 0, ~0ull), 4);
	env_end(&env);
}

/*
 * The walk returns every dirty unit once in offset order, over pages, blocks, leaves and
 * directories. The order in which they became dirty does not matter.
 */
static void test_walk_finds_each_dirty_unit_once_in_offset_order(void **state)
{
	u64 dir = P((u64)HM_NODE_SLOTS * HM_NODE_SLOTS), leaf = P(HM_NODE_SLOTS);
	u64 sorted[] = {
		P(0),
		P(1) + 1,
		P(1) + 2,
		P(1) + BLOCK - 1,
		P(3),
		leaf - BLOCK,
		leaf,
		leaf + P(2) + 5,
		3 * leaf,
		dir - BLOCK,
		dir,
		dir + leaf + 3,
		(HM_NODE_SLOTS - 1) * dir + leaf,
	};
	static const bool base[] = { 0, 1, 1, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0 };
	static const u32 order[] = { 7, 3, 12, 0, 9, 1, 11, 5, 10, 2, 8, 4, 6 };
	struct env env;
	u64 at = 0;
	u32 i;

	env_start(&env, 32, 1, HM_FILE_BLOCKS_MAX << HM_BLOCK_SHIFT);
	for (i = 0; i < 13; i++)
		bring(env.file, sorted[order[i]],
		      HM_ACCESS(.size = base[order[i]] ? HM_SIZE_BASE : HM_SIZE_HUGE,
				.write = true));
	for (i = 0; i < 13; i++) {
		at = next_dirty(env.file, at, ~0ull);
		assert_int_equal(at, sorted[i]);
		at += base[i] ? 1 : BLOCK;
	}
	assert_int_equal(next_dirty(env.file, at, ~0ull), ~0ull);
	audit(&env); /* a walk from the middle keeps the summary bits of dirty units */
	env_end(&env);
}

/* The end of a walk is exclusive. A walk from any page of a block finds the block. */
static void test_walk_end_is_exclusive(void **state)
{
	struct env env;

	env_start(&env, 8, 1, BYTES(8));
	bring(env.file, P(2), HM_ACCESS_WRITE);
	bring(env.file, P(4) + 3, HM_ACCESS(.size = HM_SIZE_BASE, .write = true));
	assert_int_equal(next_dirty(env.file, 0, P(2)), ~0ull);
	assert_int_equal(next_dirty(env.file, 0, P(2) + 1), P(2));
	assert_int_equal(next_dirty(env.file, P(2) + 5, P(3)), P(2));
	assert_int_equal(next_dirty(env.file, P(3), P(4) + 3), ~0ull);
	assert_int_equal(next_dirty(env.file, P(3), P(4) + 4), P(4) + 3);
	assert_int_equal(next_dirty(env.file, P(4) + 3, ~0ull), P(4) + 3);
	assert_int_equal(next_dirty(env.file, P(4) + 4, ~0ull), ~0ull);
	assert_int_equal(next_dirty(env.file, P(4) + 3, P(4) + 3), ~0ull);
	env_end(&env);
}

/*
 * A complete walk clears the summary bits of clean subtrees, and the next store sets them again.
 * A stale bit would slow down every later sync.
 */
static void test_complete_walk_clears_summary_bits_of_clean_subtrees(void **state)
{
	struct env env;
	u32 i;

	env_start(&env, 8, 1, HM_FILE_BLOCKS_MAX << HM_BLOCK_SHIFT);
	for (i = 0; i < 3; i++) {
		u64 pgoff = P((u64)HM_NODE_SLOTS * HM_NODE_SLOTS + HM_NODE_SLOTS) + 1;
		struct hm_pos pos;

		use(env.file, pgoff, HM_ACCESS(.size = HM_SIZE_BASE, .write = true));
		assert_int_equal(next_dirty(env.file, 0, ~0ull), pgoff);
		assert_int_equal(write_all(env.file), 1);
		assert_int_equal(next_dirty(env.file, 0, ~0ull), ~0ull);
		assert_true(hm_index_find(env.file, pgoff, &pos));
		hm_index_word(&pos, pgoff);
		assert_false(hm_bit_test(env.file->dirty, pos.root_slot));
		assert_false(hm_bit_test(pos.dir->dirty, pos.dir_slot));
		assert_false(hm_bit_test(pos.leaf->dirty, pos.leaf_slot));
		assert_false(hm_bit_test(pos.base->dirty, pos.base_slot));
	}
	env_end(&env);
}

/*
 * A walk that starts or ends in the middle must keep the summary bits of the parts that it has
 * not visited. Otherwise the units there would never be written.
 *
 *	block     0                 1                 2
 *	        | . . . . . . . . | . d . . . . . . | . . . . . . . . |
 *	walk 1                          >--------------------------->    no page
 *	walk 2                                        >------------->    no page
 *	walk 3    >------------->                                        no page
 *	walk 4    >------------------->                                  page 1 of block 1
 *
 * Walk 1 sees the summary bit of block 1 set, and no dirty page from its start on.
 */
static void test_partial_walk_keeps_summary_bits(void **state)
{
	struct env env;

	env_start(&env, 8, 1, BYTES(3 * HM_NODE_SLOTS));
	bring(env.file, P(1) + 1, HM_ACCESS(.size = HM_SIZE_BASE, .write = true));
	assert_int_equal(next_dirty(env.file, P(1) + 2, ~0ull), ~0ull);
	assert_int_equal(next_dirty(env.file, P(2), ~0ull), ~0ull);
	assert_int_equal(next_dirty(env.file, 0, P(1)), ~0ull);
	assert_int_equal(next_dirty(env.file, 0, ~0ull), P(1) + 1);
	audit(&env);
	env_end(&env);
}

/*
 * A bit may be set late, when its unit is already clean again. The walk clears it and writes
 * nothing.
 *
 *	CPU 0 (store)		CPU 1 (store)		CPU 2 (write-back)
 *	CLEAN -> DIRTY
 *				finds the unit dirty,
 *				sets the bit
 *							DIRTY -> WRITING -> CLEAN,
 *							clears the bit
 *	sets the bit: stale
 */
static void test_walk_clears_bit_of_clean_unit(void **state)
{
	struct hm_pos pos;
	struct env env;

	env_start(&env, 8, 1, BYTES(8));
	bring(env.file, P(1) + 1, HM_ACCESS(.size = HM_SIZE_BASE, .write = true));
	bring(env.file, P(2), HM_ACCESS_WRITE);
	write_all(env.file);
	assert_true(hm_index_find(env.file, P(1) + 1, &pos));
	hm_index_word(&pos, P(1) + 1);
	hm_dirty_ensure(&pos);
	assert_true(hm_index_find(env.file, P(2), &pos));
	hm_index_word(&pos, P(2));
	hm_dirty_ensure(&pos);
	assert_int_equal(next_dirty(env.file, 0, ~0ull), P(1) + 1);
	assert_int_equal(write_all(env.file), 0);
	assert_int_equal(next_dirty(env.file, 0, ~0ull), ~0ull);
	assert_int_equal(hm_cache_dirty_pages(env.cache), 0);
	/* A stale bit of a base page in a block that is a huge unit now. */
	assert_true(hm_index_find(env.file, P(1) + 1, &pos));
	hm_index_word(&pos, P(1) + 1);
	drop(env.file, P(1), P(2), false);
	use(env.file, P(1), HM_ACCESS_READ);
	hm_dirty_ensure(&pos);
	assert_int_equal(write_all(env.file), 0);
	touch(env.file, P(1), HM_ACCESS_WRITE);
	assert_int_equal(write_all(env.file), 1);
	env_end(&env);
}

/*
 * The age of a file counts from the first store to a clean file.
 */
static void test_age_counts_from_first_store_to_clean_file(void **state)
{
	struct env env;

	env_start(&env, 8, 1, BYTES(8));
	assert_int_equal(hm_atomic_read(&env.file->dirty_since), 0);
	hm_cache_tick(env.cache, 100);
	bring(env.file, 0, HM_ACCESS_WRITE);
	hm_cache_tick(env.cache, 200);
	bring(env.file, P(1), HM_ACCESS_WRITE);
	assert_int_equal(hm_atomic_read(&env.file->dirty_since), 100);
	write_range(env.file, 0, P(1));
	assert_int_equal(hm_atomic_read(&env.file->dirty_since), 100);
	write_all(env.file);
	assert_int_equal(hm_atomic_read(&env.file->dirty_since), 0);
	hm_cache_tick(env.cache, 300);
	touch(env.file, 0, HM_ACCESS_WRITE);
	assert_int_equal(hm_atomic_read(&env.file->dirty_since), 300);
	/* The clock never goes back. */
	hm_cache_tick(env.cache, 50);
	touch(env.file, P(1), HM_ACCESS_WRITE);
	write_all(env.file);
	touch(env.file, P(1), HM_ACCESS_WRITE);
	assert_int_equal(hm_atomic_read(&env.file->dirty_since), 300);
	env_end(&env);
}

static void test_random_stores_and_write_backs_match_array(void **state)
{
	enum {
		BLOCKS = 20
	};
	u32 npages = (u32)P(BLOCKS), seed = 99, i;
	bool *dirty = calloc(npages, 1); /* indexed by the first page of each unit */
	struct env env;

	env_start(&env, 32, 2, BYTES(BLOCKS));
	for (i = 0; i < 3000; i++) {
		u64 from, want;
		u32 block, page;

		seed = seed * 1664525u + 1013904223u;
		block = (seed >> 8) % BLOCKS;
		page = (seed >> 14) % HM_BLOCK_PAGES;
		if (block % 2)
			page = 0; /* odd blocks are huge units, even ones are split */
		if ((seed >> 28) % 4) {
			use(env.file, P(block) + page,
			    HM_ACCESS(.size = block % 2 ? HM_SIZE_HUGE : HM_SIZE_BASE,
				      .write = true));
			dirty[P(block) + page] = true;
		} else {
			write_range(env.file, P(block), P(block) + page + 1);
			memset(&dirty[P(block)], 0, page + 1);
		}
		from = P((seed >> 3) % BLOCKS) + (seed >> 20) % HM_BLOCK_PAGES;
		want = from;
		if (hm_block_of(from) % 2 && dirty[hm_block_start(from)])
			want = hm_block_start(from);
		while (want < npages && !dirty[want])
			want++;
		assert_int_equal(next_dirty(env.file, from, ~0ull), want < npages ? want : ~0ull);
	}
	env_end(&env);
	free(dirty);
}

/* Store to a page, up to the point where the state has changed and the dirty bit has not. */
static void store_without_bit(struct hm_file *file, u64 pgoff)
{
	struct hm_pos pos;

	touch(file, pgoff, HM_ACCESS_WRITE);
	assert_true(hm_index_find(file, pgoff, &pos));
	hm_index_word(&pos, pgoff);
	hm_spin_lock(&file->dirty_lock);
	hm_dirty_clear(&pos);
	hm_spin_unlock(&file->dirty_lock);
}

static void start_with_base_pages(struct env *env)
{
	env_start(env, 8, 1, BYTES(8));
	bring(env->file, P(4) - 1, HM_ACCESS(.size = HM_SIZE_BASE));
	bring(env->file, P(4) - 2, HM_ACCESS(.size = HM_SIZE_BASE));
}

/*
 * A device stores to a dirty page that moves, and syncs the file after the claim has ended. The sync
 * finds the page, although the first store has not set the dirty bit yet.
 */
static void test_walk_finds_a_dirty_page_after_a_failed_move(void **state)
{
	struct hm_unit unit;
	struct env env;
	u32 to;

	start_with_base_pages(&env);
	store_without_bit(env.file, P(4) - 1);
	assert_int_equal(hm_peek(env.file, P(4) - 1, &unit), HM_DIRTY);
	to = hm_move_claim(env.cache, unit.frame, &unit);
	assert_int_not_equal(to, HM_NO_FRAME_ID);
	assert_int_equal(next_dirty(env.file, 0, ~0ull), ~0ull);
	assert_false(hm_move_done(&unit, to, false));
	assert_int_equal(next_dirty(env.file, 0, ~0ull), P(4) - 1);
	write_all(env.file);
	env_end(&env);
}

/* A confirmation sets the missing bit of a dirty page only, and needs no index node. */
static void test_confirmed_dirty_page_is_found(void **state)
{
	struct env env;

	start_with_base_pages(&env);
	store_without_bit(env.file, P(4) - 1);
	assert_false(hm_confirm_dirty(env.file, P(4) - 2));
	assert_false(hm_confirm_dirty(env.file, P(6)));
	assert_int_equal(next_dirty(env.file, 0, ~0ull), ~0ull);
	assert_true(hm_confirm_dirty(env.file, P(4) - 1));
	assert_int_equal(next_dirty(env.file, 0, ~0ull), P(4) - 1);
	write_all(env.file);
	env_end(&env);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_dirty_pages_are_counted_by_file_and_cache),
	cmocka_unit_test(test_walk_finds_each_dirty_unit_once_in_offset_order),
	cmocka_unit_test(test_walk_end_is_exclusive),
	cmocka_unit_test(test_complete_walk_clears_summary_bits_of_clean_subtrees),
	cmocka_unit_test(test_partial_walk_keeps_summary_bits),
	cmocka_unit_test(test_walk_clears_bit_of_clean_unit),
	cmocka_unit_test(test_age_counts_from_first_store_to_clean_file),
	cmocka_unit_test(test_random_stores_and_write_backs_match_array),
	cmocka_unit_test(test_walk_finds_a_dirty_page_after_a_failed_move),
	cmocka_unit_test(test_confirmed_dirty_page_is_found),
};

int main(void)
{
	return cmocka_run_group_tests_name("dirty", tests, NULL, NULL);
}
