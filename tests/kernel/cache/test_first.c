// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* The index: the words of the first pages of a file, and the rest of the first block. */
#include "common.h"

#define FIRST ((u64)HM_FIRST_PAGES)

static const struct hm_access load = { .size = HM_SIZE_BASE };
static const struct hm_access store = { .size = HM_SIZE_BASE, .write = true };

static size_t slab_object(size_t bytes)
{
	return (bytes + 63) & ~(size_t)63;
}

/* struct hm_file has a pointer in front of it in the engine, and is aligned. */
static void test_file_with_one_cached_page_takes_at_most_5_kb(void **state)
{
	size_t bytes = 64 + slab_object(hm_file_bytes());
	struct env env;

	env_start(&env, 8, 1, 100);
	bring(env.file, 0, load);
	assert_int_equal(hm_cache_index_bytes(env.cache),
			 hm_node_bytes(HM_NODE_HEAD) + hm_node_bytes(HM_NODE_FIRST));
	bytes += slab_object(hm_node_bytes(HM_NODE_HEAD));
	bytes += slab_object(hm_node_bytes(HM_NODE_FIRST));
	print_message("%zu bytes\n", bytes);
	assert_true(bytes <= 5000);
	env_end(&env);
}

/* A page of the rest is absent without a word. Only a fault that brings it in requires the rest. */
static void test_rest_is_added_by_the_first_fault_on_one_of_its_pages(void **state)
{
	struct hm_unit unit, first;
	enum hm_node_kind kind;
	struct env env;
	u64 bytes;

	env_start(&env, 8, 1, BYTES(4));
	first = bring(env.file, FIRST - 1, load);
	bytes = hm_cache_index_bytes(env.cache);

	assert_int_equal(state_of(env.file, FIRST), HM_ABSENT);
	assert_false(hm_referenced(env.file, FIRST));
	assert_int_equal(hm_fault(env.file, FIRST, HM_ACCESS(.cached_only = true), &unit), HM_MISS);
	assert_true(around(env.file, FIRST - 1, &unit));
	assert_false(around(env.file, FIRST, &unit));
	assert_false(hm_file_lacks_node(env.file, FIRST - 1, &kind));
	assert_true(hm_file_lacks_node(env.file, FIRST, &kind));
	assert_int_equal(kind, HM_NODE_REST);
	assert_int_equal(hm_fault(env.file, FIRST, load, &unit), HM_NO_NODE);
	assert_int_equal(unit.err, HM_NODE_REST);
	assert_int_equal(hm_cache_index_bytes(env.cache), bytes);

	bring(env.file, FIRST, store);
	assert_int_equal(hm_cache_index_bytes(env.cache), bytes + hm_node_bytes(HM_NODE_REST));
	assert_false(hm_file_lacks_node(env.file, BLOCK - 1, &kind));
	assert_int_equal(state_of(env.file, BLOCK - 1), HM_ABSENT);
	assert_int_equal(touch(env.file, FIRST - 1, load).frame, first.frame);
	audit(&env);
	assert_int_equal(write_all(env.file), 1);
	env_end(&env);
}

/* hm_fault_around() maps pages on both sides of the limit, and stops at missing words. */
static void test_fault_around_crosses_the_limit(void **state)
{
	u64 page, first, last;
	struct hm_unit unit;
	struct env env;

	env_start(&env, 8, 1, BYTES(4));
	for (page = 0; page < FIRST; page++)
		bring(env.file, page, load);
	first = 0;
	last = BLOCK - 1;
	assert_true(hm_fault_around(env.file, 1, &first, &last, &unit));
	assert_int_equal(first, 0);
	assert_int_equal(last, FIRST - 1);

	bring(env.file, FIRST, load);
	bring(env.file, FIRST + 1, load);
	first = 0;
	last = BLOCK - 1;
	assert_true(hm_fault_around(env.file, FIRST, &first, &last, &unit));
	assert_int_equal(first, 0);
	assert_int_equal(last, FIRST + 1);
	env_end(&env);
}

/*
 * The block joins and splits, without the rest and with it.
 *
 *	| c . . .|no rest |	one page
 *	| C - - - - - - - |	a fault for a huge unit
 *	| . . . .|. c . . |	the rest is added
 *	| C - - - - - - - |
 *	| d . . .|. d . . |	all words are thawed again
 */
static void test_block_joins_and_splits_with_and_without_its_rest(void **state)
{
	struct env env;

	env_start(&env, 8, 1, BYTES(4));
	bring(env.file, 0, load);
	drop(env.file, 0, BLOCK, false);
	assert_int_equal(bring(env.file, FIRST, HM_ACCESS_READ).npages, BLOCK);
	audit(&env);
	drop(env.file, 0, BLOCK, false);

	bring(env.file, FIRST + 1, load);
	audit(&env);
	drop(env.file, 0, BLOCK, false);
	assert_int_equal(bring(env.file, 0, HM_ACCESS_READ).npages, BLOCK);
	audit(&env);
	drop(env.file, 0, BLOCK, false);

	bring(env.file, 0, store);
	bring(env.file, FIRST + 1, store);
	audit(&env);
	assert_int_equal(write_all(env.file), 2);
	assert_int_equal(hm_cache_count(env.cache, HM_C_SPLITS), 3);
	assert_int_equal(hm_cache_count(env.cache, HM_C_JOINS), 2);
	env_end(&env);
}

/* A page in the rest keeps the block split, also if a fault for a huge unit is on a first page. */
static void test_page_of_the_rest_keeps_the_block_split(void **state)
{
	struct env env;

	env_start(&env, 8, 1, BYTES(4));
	bring(env.file, BLOCK - 1, store);
	assert_int_equal(bring(env.file, 0, HM_ACCESS_READ).npages, 1);
	assert_int_equal(state_of(env.file, BLOCK - 1), HM_DIRTY);
	assert_int_equal(write_all(env.file), 1);
	env_end(&env);
}

/* Without memory for the rest, the block is picked again later. */
static void test_promotion_without_memory_for_the_rest_is_tried_again(void **state)
{
	const struct hm_access wanted = { .size = HM_SIZE_AUTO, .promote = true };
	static struct hm_promotion p;
	enum hm_node_kind kind;
	struct hm_unit unit;
	struct env env;

	env_start(&env, 8, 1, BYTES(4));
	bring(env.file, 0, load);
	assert_int_equal(hm_fault(env.file, 0, wanted, &unit), HM_HIT);
	assert_true(unit.hints & HM_HINT_PROMOTE);
	assert_true(hm_promote_pick(env.cache, &p));
	assert_int_equal(hm_promote_begin(&p, false), HM_PROMOTE_FAILED);
	assert_int_equal(hm_cache_count(env.cache, HM_C_NOT_PROMOTED_FAILED), 1);
	assert_false(hm_promote_pick(env.cache, &p));

	hm_cache_tick(env.cache, 1000000);
	assert_true(hm_file_lacks_node(env.file, BLOCK - 1, &kind));
	add_node(env.file, BLOCK - 1, kind, NULL, NULL);
	assert_true(hm_promote_pick(env.cache, &p));
	assert_int_equal(hm_promote_begin(&p, false), HM_PROMOTE_OK);
	hm_promote_abort(&p, HM_PROMOTE_GONE);
	env_end(&env);
}

/* A promotion needs all words. The engine adds them before hm_promote_begin(). */
static void test_promotion_begins_only_with_all_words(void **state)
{
	static struct hm_promotion p;
	enum hm_node_kind kind;
	struct env env;
	u64 page;

	env_start(&env, 8, 1, BYTES(4));
	bring(env.file, 0, store);
	p = (struct hm_promotion){ .unit = { .file = env.file } };
	assert_int_equal(hm_promote_begin(&p, true), HM_PROMOTE_FAILED);
	assert_int_equal(state_of(env.file, 0), HM_DIRTY);

	assert_true(hm_file_lacks_node(env.file, BLOCK - 1, &kind));
	add_node(env.file, BLOCK - 1, kind, NULL, NULL);
	p = (struct hm_promotion){ .unit = { .file = env.file } };
	assert_int_equal(hm_promote_begin(&p, true), HM_PROMOTE_OK);
	assert_int_equal(p.nmissing, BLOCK - 1);
	assert_int_equal(hm_promote_claim(&p), HM_PROMOTE_OK);
	hm_promote_commit(&p);
	for (page = 0; page < BLOCK; page++)
		assert_true(hm_state_resident(state_of(env.file, page)));
	audit(&env);
	assert_int_equal(write_all(env.file), 1);
	env_end(&env);
}

/* The file grows page by page, each a hole: first pages, the rest, and other blocks. */
static void test_file_grows_page_by_page(void **state)
{
	const u64 pages = P(1) + BLOCK / 2;
	struct env env;
	u64 page;

	env_start(&env, 8, 1, 0);
	for (page = 0; page < pages; page++) {
		u32 frame;

		hm_file_set_size(env.file, (page + 1) << HM_PAGE_SHIFT);
		hm_file_set_zero_fill(env.file, page, 1, true);
		frame = bring(env.file, page, store).frame;
		/* The last page of the old size keeps its frame and its state. */
		if (page) {
			assert_int_not_equal(touch(env.file, page - 1, load).frame, frame);
			assert_int_equal(state_of(env.file, page - 1), HM_DIRTY);
			assert_true(hm_needs_alloc(env.file, page));
		}
	}
	assert_int_equal(hm_file_dirty_pages(env.file), pages);
	audit(&env);
	write_all(env.file);
	assert_int_equal(hm_file_dirty_pages(env.file), 0);
	hm_file_set_allocated(env.file, 0, pages);
	assert_false(hm_needs_alloc(env.file, FIRST));
	env_end(&env);
}

/* Shrink a file by truncation: the engine drops the pages beyond the new end. */
static void truncate_to(struct env *env, u64 pages)
{
	hm_file_set_size(env->file, pages << HM_PAGE_SHIFT);
	drop(env->file, pages, ~0ull, true);
}

/* The file shrinks into the rest, into the first pages and to nothing, and grows again. */
static void test_file_shrinks_and_grows(void **state)
{
	const u64 sizes[] = { BLOCK + 3, FIRST + 2, FIRST, 1, 0 };
	struct hm_unit unit;
	struct env env;
	u32 i, round;
	u64 page;

	env_start(&env, 8, 1, 0);
	for (round = 0; round < 2; round++) {
		hm_file_set_size(env.file, BYTES(2));
		hm_file_set_zero_fill(env.file, 0, 2 * BLOCK, true);
		for (page = 0; page < BLOCK + 8; page++)
			bring(env.file, page, store);
		write_all(env.file);
		for (i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
			truncate_to(&env, sizes[i]);
			assert_int_equal(hm_fault(env.file, sizes[i], load, &unit), HM_BEYOND);
			for (page = 0; page < sizes[i]; page++)
				assert_int_equal(state_of(env.file, page), HM_CLEAN);
			for (; page < BLOCK + 8; page++)
				assert_int_equal(state_of(env.file, page), HM_ABSENT);
			audit(&env);
		}
	}
	env_end(&env);
}

/* A hole that is punched across the limit has no data afterwards on both sides. */
static void test_hole_crosses_the_limit(void **state)
{
	struct env env;
	u64 page;

	env_start(&env, 8, 1, BYTES(4));
	for (page = 0; page < BLOCK; page++)
		bring(env.file, page, store);
	write_all(env.file);
	drop(env.file, FIRST - 2, FIRST + 2, true);
	hm_file_set_zero_fill(env.file, FIRST - 2, 4, true);
	for (page = 0; page < BLOCK; page++)
		assert_int_equal(hm_is_zero_fill(env.file, page),
				 page >= FIRST - 2 && page < FIRST + 2);
	env_end(&env);
}

/* The rest leaves with its node, and the shrinker counts its bytes. */
static void test_empty_bytes_include_the_rest(void **state)
{
	const u64 first = hm_node_bytes(HM_NODE_FIRST), rest = hm_node_bytes(HM_NODE_REST);
	void *nodes[HM_EMPTY_NODES];
	struct env env;
	u32 n;

	env_start(&env, 8, 1, BYTES(4));
	bring(env.file, 0, load);
	drop(env.file, 0, 1, true);
	assert_true(hm_file_keep_empty(env.file, 0));
	assert_int_equal(hm_cache_empty_bytes(env.cache), first);
	bring(env.file, FIRST, load);
	assert_int_equal(hm_cache_empty_bytes(env.cache), 0);
	drop(env.file, FIRST, FIRST + 1, true);
	assert_int_equal(hm_cache_empty_bytes(env.cache), first + rest);

	assert_true(hm_cache_take_empty(env.cache, nodes, &n));
	assert_int_equal(n, 3);
	while (n-- > 0)
		free(nodes[n]);
	assert_int_equal(hm_cache_index_bytes(env.cache), 0);
	bring(env.file, FIRST, load);
	env_end(&env);
}

/* The rest is refused if the block is not split: the fault is repeated, and finds the huge unit. */
static void test_rest_of_a_joined_block_is_refused(void **state)
{
	void *mem = calloc(1, hm_node_bytes(HM_NODE_REST));
	struct hm_unit unit;
	struct env env;

	env_start(&env, 8, 1, BYTES(4));
	bring(env.file, 0, load);
	assert_int_equal(hm_fault(env.file, FIRST, load, &unit), HM_NO_NODE);
	drop(env.file, 0, 1, true);
	bring(env.file, 0, HM_ACCESS_READ);
	assert_false(hm_file_add_node(env.file, FIRST, HM_NODE_REST, mem, hm_file_size(env.file),
				      NULL, NULL));
	assert_int_equal(touch(env.file, FIRST, load).npages, BLOCK);
	free(mem);
	env_end(&env);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_file_with_one_cached_page_takes_at_most_5_kb),
	cmocka_unit_test(test_rest_is_added_by_the_first_fault_on_one_of_its_pages),
	cmocka_unit_test(test_fault_around_crosses_the_limit),
	cmocka_unit_test(test_block_joins_and_splits_with_and_without_its_rest),
	cmocka_unit_test(test_page_of_the_rest_keeps_the_block_split),
	cmocka_unit_test(test_promotion_without_memory_for_the_rest_is_tried_again),
	cmocka_unit_test(test_promotion_begins_only_with_all_words),
	cmocka_unit_test(test_file_grows_page_by_page),
	cmocka_unit_test(test_file_shrinks_and_grows),
	cmocka_unit_test(test_hole_crosses_the_limit),
	cmocka_unit_test(test_empty_bytes_include_the_rest),
	cmocka_unit_test(test_rest_of_a_joined_block_is_refused),
};

int main(void)
{
	return cmocka_run_group_tests_name("first", tests, NULL, NULL);
}
