// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* The index: blocks that split into base pages and join again, their sequence numbers and holes. */
#include "common.h"

static void test_base_page_splits_its_block(void **state)
{
	struct hm_unit unit;
	struct env env;

	env_start(&env, 8, 1, BYTES(4));
	unit = bring(env.file, P(1) + 3, HM_ACCESS(.size = HM_SIZE_BASE));
	assert_int_equal(unit.npages, 1);
	assert_int_equal(unit.pgoff, P(1) + 3);
	assert_true(hm_frame_is_base(env.cache, unit.frame));
	assert_int_equal(hm_cache_count(env.cache, HM_C_SPLITS), 1);
	assert_int_equal(state_of(env.file, P(1) + 2), HM_ABSENT);
	assert_int_equal(state_of(env.file, P(1) + 4), HM_ABSENT);
	/* While a page is cached, a fault for a whole block gets a base page. */
	unit = bring(env.file, P(1) + 5, HM_ACCESS_READ);
	assert_int_equal(unit.npages, 1);
	/* Other blocks are not split. */
	unit = bring(env.file, P(2), HM_ACCESS_READ);
	assert_int_equal(unit.npages, HM_BLOCK_PAGES);
	/* A fault for a base page finds a cached huge unit. */
	unit = touch(env.file, P(2) + 7, HM_ACCESS(.size = HM_SIZE_BASE));
	assert_int_equal(unit.npages, HM_BLOCK_PAGES);
	env_end(&env);
}

/*
 * A split block joins at the first fault for a huge unit after all its pages were evicted.
 *
 *	| c . . . . . . d |	two base pages
 *	| . . . . . . . d |	page 0 is evicted
 *	| . c . . . . . d |	a fault for a huge unit: page 7 keeps the block split
 *	| . . . . . . . . |	all pages are evicted
 *	| D - - - - - - - |	a store for a huge unit
 *
 * A join that did not check every page would lose data.
 */
static void test_split_block_joins_when_all_pages_have_left(void **state)
{
	struct hm_unit unit;
	struct env env;

	env_start(&env, 8, 1, BYTES(4));
	bring(env.file, P(1), HM_ACCESS(.size = HM_SIZE_BASE));
	bring(env.file, P(1) + BLOCK - 1, HM_ACCESS(.size = HM_SIZE_BASE, .write = true));
	drop(env.file, P(1), P(1) + 1, false);
	unit = bring(env.file, P(1) + 1, HM_ACCESS_READ);
	assert_int_equal(unit.npages, 1);
	assert_int_equal(hm_cache_count(env.cache, HM_C_JOINS), 0);
	assert_int_equal(state_of(env.file, P(1) + BLOCK - 1), HM_DIRTY);
	audit(&env);

	assert_int_equal(drop(env.file, P(1), P(2), true), 2);
	/* A fault for a base page does not join it. */
	unit = bring(env.file, P(1) + 1, HM_ACCESS(.size = HM_SIZE_BASE));
	assert_int_equal(hm_cache_count(env.cache, HM_C_JOINS), 0);
	drop(env.file, P(1), P(2), true);
	/* A fault for cached pages only does not join it. */
	assert_int_equal(hm_fault(env.file, P(1) + 1, HM_ACCESS(.cached_only = true), &unit),
			 HM_MISS);
	assert_int_equal(hm_cache_count(env.cache, HM_C_JOINS), 0);
	unit = bring(env.file, P(1) + 1, HM_ACCESS_WRITE);
	assert_int_equal(unit.npages, HM_BLOCK_PAGES);
	assert_true(unit.hints & HM_HINT_JOINED);
	assert_int_equal(hm_cache_count(env.cache, HM_C_JOINS), 1);
	audit(&env);

	/* The walk finds its data as one unit, and the block can split again. */
	assert_int_equal(write_all(env.file), 1);
	drop(env.file, P(1), P(2), false);
	unit = bring(env.file, P(1) + 1, HM_ACCESS(.size = HM_SIZE_BASE, .write = true));
	assert_int_equal(unit.npages, 1);
	assert_int_equal(hm_cache_count(env.cache, HM_C_SPLITS), 2);
	env_end(&env);
}

static void test_filling_page_keeps_block_split(void **state)
{
	struct hm_unit filling, unit;
	struct env env;

	env_start(&env, 8, 1, BYTES(4));
	assert_int_equal(fault(env.file, P(1) + 2, HM_ACCESS(.size = HM_SIZE_BASE), &filling),
			 HM_FILL);
	unit = bring(env.file, P(1) + 6, HM_ACCESS_READ);
	assert_int_equal(unit.npages, 1);
	assert_false(hm_fill_done(&filling, 0, false));
	env_end(&env);
}

/* The sequence number changes each time, so that a CAS with an old word fails. */
static void test_each_transition_changes_sequence_number(void **state)
{
	struct hm_pos pos;
	struct env env;
	u64 before, after;

	env_start(&env, 8, 1, BYTES(4));
	bring(env.file, 0, HM_ACCESS_READ);
	assert_true(hm_index_find(env.file, 0, &pos));
	before = hm_index_word(&pos, 0);
	drop(env.file, 0, BLOCK, true);
	bring(env.file, 0, HM_ACCESS_READ);
	after = hm_index_word(&pos, 0);
	assert_int_equal(hm_word_frame(before), hm_word_frame(after));
	assert_int_equal(hm_word_state(before), hm_word_state(after));
	assert_int_not_equal(before & HM_W_SEQ, after & HM_W_SEQ);
	env_end(&env);
}

/* The sequence number wraps around without changing the state. */
static void test_sequence_number_wraps_without_state_change(void **state)
{
	struct env env;
	u32 i;

	env_start(&env, 8, 1, BYTES(4));
	for (i = 0; i < (1u << 16) + 10; i++) {
		struct hm_unit unit;

		assert_int_equal(fault(env.file, 0, HM_ACCESS_READ, &unit), HM_FILL);
		hm_fill_cancel(&unit);
	}
	assert_int_equal(state_of(env.file, 0), HM_ABSENT);
	env_end(&env);
}

/*
 * "Needs an allocation" and "has no data" are separate properties. A block with data and a hole
 * must be allocated before a store, but not filled with zeros.
 */
static void test_unallocated_and_without_data_are_separate(void **state)
{
	unsigned long zero_fill[HM_BITMAP_LONGS(HM_NODE_SLOTS)] = { 1ul << 1 };
	unsigned long needs_alloc[HM_BITMAP_LONGS(HM_NODE_SLOTS)] = { 3ul << 1 };
	unsigned long in_block[HM_BITMAP_LONGS(HM_BLOCK_PAGES)] = { 1ul << 5 };
	struct hm_unit unit;
	struct env env;

	env_start(&env, 8, 1, BYTES(8));
	if (HM_HEAD_BLOCKS <= 6) {
		add_node(env.file, P(6), HM_NODE_DIR, NULL, NULL);
		add_node(env.file, P(6), HM_NODE_LEAF, NULL, NULL);
	}
	add_node(env.file, 0, HM_NODE_HEAD, zero_fill, needs_alloc);
	assert_false(hm_needs_alloc(env.file, P(0)));
	assert_true(hm_needs_alloc(env.file, P(1)));
	assert_true(hm_needs_alloc(env.file, P(2)));
	assert_false(hm_is_zero_fill(env.file, P(2)));
	/* The block is allocated, and still has no data. */
	hm_file_set_allocated(env.file, P(1), BLOCK);
	assert_false(hm_needs_alloc(env.file, P(1)));
	assert_int_equal(fault(env.file, P(1), HM_ACCESS_READ, &unit), HM_ZERO);
	assert_false(hm_fill_done(&unit, 0, false));
	/* The allocation of a part of a block that is not split is not recorded. */
	hm_file_set_allocated(env.file, P(2), BLOCK / 2);
	assert_true(hm_needs_alloc(env.file, P(2)));
	/* In a split block it is recorded for each page; the base node brings the initial state. */
	add_node(env.file, P(2), HM_NODE_BASE, NULL, in_block);
	assert_int_equal(fault(env.file, P(2) + 5, HM_ACCESS(.size = HM_SIZE_BASE), &unit),
			 HM_FILL);
	assert_false(hm_fill_done(&unit, 0, false));
	assert_false(hm_needs_alloc(env.file, P(2) + 4));
	assert_true(hm_needs_alloc(env.file, P(2) + 5));
	hm_file_set_allocated(env.file, P(2) + 5, 1);
	assert_false(hm_needs_alloc(env.file, P(2) + 5));
	/* Written pages are allocated. */
	hm_file_set_zero_fill(env.file, P(3), BLOCK, true);
	assert_true(hm_needs_alloc(env.file, P(3)));
	bring(env.file, P(3), HM_ACCESS_WRITE);
	write_all(env.file);
	assert_false(hm_needs_alloc(env.file, P(3)));
	/* A block with some data may have holes. */
	hm_file_set_zero_fill(env.file, P(4), BLOCK, true);
	hm_file_set_zero_fill(env.file, P(4), BLOCK / 2, false);
	assert_true(hm_needs_alloc(env.file, P(4)));
	assert_false(hm_is_zero_fill(env.file, P(4)));
	/* The last block is allocated up to the end of the file, until the file grows. */
	hm_file_set_size(env.file, BYTES(6) + 3 * HM_PAGE_SIZE + 1);
	hm_file_set_zero_fill(env.file, P(6), BLOCK, true);
	hm_file_set_allocated(env.file, P(6), 3);
	assert_true(hm_needs_alloc(env.file, P(6)));
	hm_file_set_allocated(env.file, P(6), 4);
	assert_false(hm_needs_alloc(env.file, P(6)));
	hm_file_set_size(env.file, BYTES(6) + 4 * HM_PAGE_SIZE + 1);
	hm_file_set_zero_fill(env.file, P(6) + 4, BLOCK - 4, true);
	assert_true(hm_needs_alloc(env.file, P(6)));
	/* A block with the old end needs blocks as soon as the file has its new size. */
	hm_file_set_allocated(env.file, P(6), 5);
	assert_false(hm_needs_alloc(env.file, P(6)));
	assert_int_equal(hm_file_grow(env.file, P(6) + 5, BYTES(8)), P(7));
	assert_int_equal(hm_file_size(env.file), BYTES(8));
	assert_true(hm_needs_alloc(env.file, P(6)));
	hm_file_set_allocated(env.file, P(6), BLOCK);
	assert_int_equal(hm_file_grow(env.file, P(7), BYTES(8)), P(7));
	assert_false(hm_needs_alloc(env.file, P(6)));
	/* After a split, each page is allocated and without data, like the block. */
	hm_file_set_zero_fill(env.file, P(5), BLOCK, true);
	hm_file_set_allocated(env.file, P(5), BLOCK);
	add_node(env.file, P(5), HM_NODE_BASE, NULL, NULL);
	assert_int_equal(fault(env.file, P(5) + 1, HM_ACCESS(.size = HM_SIZE_BASE), &unit),
			 HM_ZERO);
	assert_false(hm_fill_done(&unit, 0, false));
	assert_true(hm_is_zero_fill(env.file, P(5)));
	assert_false(hm_needs_alloc(env.file, P(5)));
	/* A page with data has a hole after a punch of a part of it. */
	hm_file_set_zero_fill(env.file, P(5) + 2, 1, false);
	assert_false(hm_is_zero_fill(env.file, P(5) + 2));
	assert_true(hm_needs_alloc(env.file, P(5) + 2));
	assert_false(hm_needs_alloc(env.file, P(5) + 3));
	env_end(&env);
}

/* Holes in parts of blocks are recorded in split blocks only. */
static void test_partial_holes_are_recorded_in_split_blocks_only(void **state)
{
	struct hm_unit unit;
	struct env env;

	env_start(&env, 16, 1, BYTES(8));
	add_node(env.file, 0, HM_NODE_HEAD, NULL, NULL);
	/* In a block that is not split, a partial hole is not recorded, but partial data is. */
	hm_file_set_zero_fill(env.file, P(1) + 1, 3, true);
	assert_false(hm_is_zero_fill(env.file, P(1) + 2));
	hm_file_set_zero_fill(env.file, P(2), BLOCK, true);
	assert_true(hm_is_zero_fill(env.file, P(2) + 1));
	hm_file_set_zero_fill(env.file, P(2) + 1, 1, false);
	assert_false(hm_is_zero_fill(env.file, P(2)));
	/* A split block records the holes of each page, also over the border of a block. */
	bring(env.file, P(3) + 1, HM_ACCESS(.size = HM_SIZE_BASE));
	hm_file_set_zero_fill(env.file, P(3) + 2, BLOCK, true);
	assert_false(hm_is_zero_fill(env.file, P(3)));
	assert_true(hm_is_zero_fill(env.file, P(3) + 2));
	assert_true(hm_is_zero_fill(env.file, P(4) - 1));
	assert_int_equal(fault(env.file, P(3) + 3, HM_ACCESS(.size = HM_SIZE_BASE), &unit),
			 HM_ZERO);
	assert_false(hm_fill_done(&unit, 0, false));
	env_end(&env);
}

/*
 * The leaf brings the holes, a split passes them on to the pages, and a join combines them. In
 * block 3, with z for a page without data:
 *
 *	leaf node added		  z - - - - - - -
 *	split, page 0 written	  . z z z z z z z
 *	all pages evicted, joined . - - - - - - -	some data: the block is read
 *
 * In block 2:
 *
 *	leaf node added		  z - - - - - - -
 *	split, page 1 read	  z z z z z z z z
 *	all pages evicted, joined z - - - - - - -	no data: the block is zeroed
 */
static void test_split_and_join_preserve_holes(void **state)
{
	unsigned long zero_fill[HM_BITMAP_LONGS(HM_NODE_SLOTS)] = { 1ul << 2 | 1ul << 3 };
	enum hm_node_kind kind;
	struct hm_unit unit;
	struct env env;
	u32 i;

	env_start(&env, 16, 1, BYTES(2 * HM_NODE_SLOTS));
	assert_int_equal(hm_node_start(P(HM_NODE_SLOTS) + P(3) + 1, HM_NODE_LEAF),
			 P(HM_NODE_SLOTS));
	assert_int_equal(hm_node_start(P(HM_NODE_SLOTS) - 1, HM_NODE_LEAF), 0);
	assert_false(hm_is_zero_fill(env.file, P(2)));
	assert_true(hm_file_lacks_node(env.file, P(2), &kind));
	assert_int_equal(kind, HM_NODE_HEAD);
	add_node(env.file, 0, HM_NODE_HEAD, zero_fill, NULL);
	assert_false(hm_file_lacks_node(env.file, P(2), &kind));
	assert_false(hm_is_zero_fill(env.file, P(1)));
	assert_true(hm_is_zero_fill(env.file, P(2)));
	assert_true(hm_is_zero_fill(env.file, P(3) + 1));
	assert_false(hm_is_zero_fill(env.file, P(4)));
	assert_int_equal(fault(env.file, P(2), HM_ACCESS_READ, &unit), HM_ZERO);
	assert_false(hm_fill_done(&unit, 0, false));
	assert_int_equal(fault(env.file, P(1), HM_ACCESS_READ, &unit), HM_FILL);
	assert_false(hm_fill_done(&unit, 0, false));
	assert_int_equal(hm_cache_count(env.cache, HM_C_ZERO_FILLS), 1);
	assert_int_equal(hm_cache_count(env.cache, HM_C_FILLS), 1);

	/* One page of a split block is written, the others still have no data. */
	assert_int_equal(fault(env.file, P(3), HM_ACCESS(.size = HM_SIZE_BASE, .write = true),
			       &unit),
			 HM_ZERO);
	assert_false(hm_fill_done(&unit, 0, true));
	assert_true(hm_is_zero_fill(env.file, P(3)));
	write_all(env.file);
	assert_false(hm_is_zero_fill(env.file, P(3)));
	assert_true(hm_is_zero_fill(env.file, P(3) + 1));
	drop(env.file, P(3), P(4), false);

	/* The joined block has some data, so it must be read. */
	assert_int_equal(fault(env.file, P(3), HM_ACCESS_READ, &unit), HM_FILL);
	assert_int_equal(unit.npages, HM_BLOCK_PAGES);
	assert_false(hm_fill_done(&unit, 0, false));
	drop(env.file, P(3), P(4), false);

	/* A block that was split and joined without a write is still a hole. */
	drop(env.file, P(2), P(3), false);
	assert_int_equal(fault(env.file, P(2) + 1, HM_ACCESS(.size = HM_SIZE_BASE), &unit),
			 HM_ZERO);
	assert_false(hm_fill_done(&unit, 0, false));
	drop(env.file, P(2), P(3), false);
	assert_int_equal(fault(env.file, P(2), HM_ACCESS_READ, &unit), HM_ZERO);
	assert_int_equal(unit.npages, HM_BLOCK_PAGES);
	assert_false(hm_fill_done(&unit, 0, false));

	/* Splitting a block with data does not use old bits from a time when it was a hole. */
	drop(env.file, 0, ~0ull, true);
	hm_file_set_zero_fill(env.file, P(2), BLOCK, false);
	for (i = 0; i < HM_BLOCK_PAGES; i++)
		assert_int_equal(fault(env.file, P(2) + i, HM_ACCESS(.size = HM_SIZE_BASE),
				       &unit) == HM_FILL &&
					 !hm_fill_done(&unit, 0, false),
				 true);
	env_end(&env);
}
static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_base_page_splits_its_block),
	cmocka_unit_test(test_split_block_joins_when_all_pages_have_left),
	cmocka_unit_test(test_filling_page_keeps_block_split),
	cmocka_unit_test(test_each_transition_changes_sequence_number),
	cmocka_unit_test(test_sequence_number_wraps_without_state_change),
	cmocka_unit_test(test_split_and_join_preserve_holes),
	cmocka_unit_test(test_partial_holes_are_recorded_in_split_blocks_only),
	cmocka_unit_test(test_unallocated_and_without_data_are_separate),
};

int main(void)
{
	return cmocka_run_group_tests_name("split", tests, NULL, NULL);
}
