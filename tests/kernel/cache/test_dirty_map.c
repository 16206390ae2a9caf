// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* The dirty map: the pages of a huge unit that are dirty and that write-back writes. */
#include "common.h"

#define STORE(n) HM_ACCESS(.write = true, .cached_only = true, .npages = (n))
#define AUTO HM_ACCESS(.size = HM_SIZE_AUTO)
#define MOST (HM_BLOCK_PAGES / 4)

/* Read clean blocks that are not adjacent, so that they form no stream. */
static void start(struct env *env, u32 blocks)
{
	u32 i;

	env_start(env, 16, 1, BYTES(64));
	for (i = 0; i < blocks; i++)
		bring(env->file, P(3 + 4 * i), HM_ACCESS_READ);
}

static u32 store(struct env *env, u64 pgoff, u32 npages)
{
	return touch(env->file, pgoff, STORE(npages)).hints & HM_HINT_PARTIAL;
}

struct taken {
	struct hm_unit unit;
	unsigned long pages[HM_BITMAP_LONGS(HM_BLOCK_PAGES)];
	u32 n;
};

static void claim(struct env *env, u64 block)
{
	struct hm_run run;
	u64 pos = P(block);

	assert_int_equal(hm_writeback(env->file, &pos, P(block + 1), BLOCK, true, &run), HM_WB_RUN);
	assert_int_equal(run.npages, BLOCK);
}

static struct taken take(struct env *env, u64 block, bool pinned)
{
	struct taken t;

	assert_int_equal(hm_peek(env->file, P(block), &t.unit), HM_WRITING);
	t.n = hm_writeback_pages(&t.unit, pinned, t.pages);
	return t;
}

static void done(struct env *env, u64 block, int err)
{
	hm_writeback_done(env->file, P(block), HM_BLOCK_PAGES, err);
	audit(env);
}

static struct taken write_block(struct env *env, u64 block)
{
	struct taken t;

	claim(env, block);
	t = take(env, block, false);
	done(env, block, 0);
	return t;
}

static bool has(const struct taken *t, u32 page)
{
	return hm_bit_test(t->pages, page);
}

/* Write-back writes only the stored pages. After a store without a range it writes the block. */
static void test_write_back_writes_only_stored_pages(void **state)
{
	struct taken t;
	struct env env;

	start(&env, 2);
	assert_int_equal(store(&env, P(3) + 5, 1), HM_HINT_PARTIAL);
	assert_int_equal(store(&env, P(3) + 5, 1), HM_HINT_PARTIAL);
	assert_int_equal(store(&env, P(3), 1), HM_HINT_PARTIAL);
	touch(env.file, P(3) + 1, HM_ACCESS_READ);
	t = write_block(&env, 3);
	assert_int_equal(t.n, 2);
	assert_true(has(&t, 0) && has(&t, 5));
	assert_int_equal(hm_cache_count(env.cache, HM_C_WRITTEN), 2);
	assert_int_equal(state_of(env.file, P(3)), HM_CLEAN);
	/* The map is empty after the write-back. */
	assert_int_equal(store(&env, P(3) + 7, 1), HM_HINT_PARTIAL);
	t = write_block(&env, 3);
	assert_int_equal(t.n, 1);
	assert_true(has(&t, 7));
	/* A store without a range, after one with a range and before another one. */
	assert_int_equal(store(&env, P(7), 1), HM_HINT_PARTIAL);
	touch(env.file, P(7), HM_ACCESS_WRITE);
	assert_int_equal(store(&env, P(7), 1), 0);
	assert_int_equal(write_block(&env, 7).n, BLOCK);
	env_end(&env);
}

/* Without hm_writeback_pages(), write-back writes the whole block and clears the map. */
static void test_write_back_without_map_writes_whole_block(void **state)
{
	struct env env;

	start(&env, 1);
	assert_int_equal(store(&env, P(3) + 5, 1), HM_HINT_PARTIAL);
	claim(&env, 3);
	done(&env, 3, 0);
	assert_int_equal(hm_cache_count(env.cache, HM_C_WRITTEN), BLOCK);
	assert_int_equal(store(&env, P(3) + 6, 1), HM_HINT_PARTIAL);
	assert_int_equal(write_block(&env, 3).n, 1);
	env_end(&env);
}

/* Stores to many pages make the whole block dirty until its write-back. */
static void test_stores_to_many_pages_dirty_whole_block(void **state)
{
	struct env env;
	u32 i;

	start(&env, 2);
	for (i = 0; i < MOST; i++)
		assert_int_equal(store(&env, P(3) + i * 2, 1), HM_HINT_PARTIAL);
	assert_int_equal(store(&env, P(3) + 1, 1), 0);
	assert_int_equal(store(&env, P(3) + 3, 1), 0);
	assert_int_equal(write_block(&env, 3).n, BLOCK);
	assert_int_equal(store(&env, P(3), 1), HM_HINT_PARTIAL);
	assert_int_equal(write_block(&env, 3).n, 1);
	/* One write of many pages has the same effect. */
	assert_int_equal(store(&env, P(7), MOST), HM_HINT_PARTIAL);
	assert_int_equal(write_block(&env, 7).n, MOST);
	assert_int_equal(store(&env, P(7), MOST + 1), 0);
	assert_int_equal(write_block(&env, 7).n, BLOCK);
	env_end(&env);
}

#if HM_BLOCK_ORDER > 6 /* in a smaller block, 16 stores are MOST already */
/* 16 stores in a row, in either direction, are the start of a stream: the whole block is dirty. */
static void test_sixteen_stores_in_a_row_dirty_whole_block(void **state)
{
	struct env env;
	u32 i;

	start(&env, 2);
	for (i = 0; i < 15; i++)
		assert_int_equal(store(&env, P(3) + 40 + i, 1), HM_HINT_PARTIAL);
	assert_int_equal(store(&env, P(3) + 40 + i, 1), 0);
	for (i = 0; i < 15; i++)
		assert_int_equal(store(&env, P(7) + 40 - i, 1), HM_HINT_PARTIAL);
	assert_int_equal(store(&env, P(7) + 40 - i, 1), 0);
	env_end(&env);
}
#endif

/* After stores to all pages of a block in order, the next block belongs to the stream. */
static void test_block_stored_in_order_makes_next_block_whole(void **state)
{
	struct env env;
	u32 i;

	env_start(&env, 16, 1, BYTES(64));
	for (i = 3; i < 6; i++)
		bring(env.file, P(i), HM_ACCESS_READ);
	assert_true(store(&env, P(3), 1));
	for (i = 1; i < HM_BLOCK_PAGES; i++)
		store(&env, P(3) + i, 1);
	/* Read-ahead has not seen this stream. Small blocks have too few pages for a row. */
	assert_int_equal(store(&env, P(4), 1) == 0, HM_BLOCK_PAGES > 16);
	/* A descending row does not count. */
	for (i = HM_BLOCK_PAGES; i-- > 1;)
		store(&env, P(5) + i, 1);
	write_block(&env, 3);
	assert_true(write_block(&env, 4).n == HM_BLOCK_PAGES || HM_BLOCK_PAGES <= 16);
	env_end(&env);
}

/* In a stream of stores, the first store to the next block makes it dirty as a whole. */
static void test_stream_of_stores_dirties_whole_blocks(void **state)
{
	struct hm_plan plan;
	struct env env;
	u32 i;

	env_start(&env, 16, 1, BYTES(64));
	for (i = 3; i < 10; i++)
		bring(env.file, P(i), HM_ACCESS_READ);
	for (i = 3; i < 5; i++) {
		assert_int_equal(store(&env, P(i), 1), HM_HINT_PARTIAL);
		hm_readahead(env.file, P(i), HM_ACCESS(.size = HM_SIZE_AUTO, .write = true), &plan);
	}
	for (i = 5; i < 7; i++) {
		assert_int_equal(store(&env, P(i), 1), 0);
		hm_readahead(env.file, P(i), HM_ACCESS(.size = HM_SIZE_AUTO, .write = true), &plan);
	}
	/* The fault of the first store meets the read-ahead marker before the store. */
	hm_readahead(env.file, P(7), AUTO, &plan);
	assert_int_equal(store(&env, P(7), 1), 0);
	/* A store to another place is not part of the stream. */
	assert_int_equal(store(&env, P(9) + 1, 1), HM_HINT_PARTIAL);
	env_end(&env);
}

/*
 * A store during write-back: if it comes before hm_writeback_pages(), this write-back writes the
 * page; otherwise the next one does.
 *
 *				    pages 0-7	    written
 *	store to 1		D   . d . . . . . .
 *	claim			W   . d . . . . . .
 *	store to 2		W   . d d . . . . .
 *	hm_writeback_pages()	W   . . . . . . . .  1 2
 *	end			D   . d d . . . . .	    it was stored to: both again
 *	claim, _pages()		W   . . . . . . . .  1 2
 *	store to 4		W   . . . . d . . .
 *	end			D   . . . . d . . .
 *	next write-back		C   . . . . . . . .  4
 */
static void test_store_during_write_back_is_written_next(void **state)
{
	struct taken t;
	struct env env;

	start(&env, 2);
	store(&env, P(3) + 1, 1);
	claim(&env, 3);
	assert_int_equal(store(&env, P(3) + 2, 1), HM_HINT_PARTIAL);
	t = take(&env, 3, false);
	assert_int_equal(t.n, 2);
	assert_true(has(&t, 1) && has(&t, 2));
	done(&env, 3, 0);
	/* The unit stays dirty, as the order of the store and the copy is unknown. */
	assert_int_equal(state_of(env.file, P(3)), HM_DIRTY);
	claim(&env, 3);
	t = take(&env, 3, false);
	assert_int_equal(t.n, 2);
	assert_int_equal(store(&env, P(3) + 4, 1), HM_HINT_PARTIAL);
	done(&env, 3, 0);
	assert_int_equal(state_of(env.file, P(3)), HM_DIRTY);
	t = write_block(&env, 3);
	assert_int_equal(t.n, 1);
	assert_true(has(&t, 4));
	/* After a whole write-back with a store to a page, the next one writes that page. */
	touch(env.file, P(7), HM_ACCESS_WRITE);
	claim(&env, 7);
	assert_int_equal(take(&env, 7, false).n, BLOCK);
	assert_int_equal(store(&env, P(7) + 3, 1), HM_HINT_PARTIAL);
	done(&env, 7, 0);
	assert_int_equal(write_block(&env, 7).n, 1);
	/* A store without a range during write-back makes the whole block dirty. */
	store(&env, P(7) + 3, 1);
	claim(&env, 7);
	assert_int_equal(take(&env, 7, false).n, 1);
	touch(env.file, P(7), HM_ACCESS_WRITE);
	done(&env, 7, 0);
	assert_int_equal(write_block(&env, 7).n, BLOCK);
	env_end(&env);
}

/* After a failed write-back, its pages and the pages that were stored since are dirty. */
static void test_failed_write_back_keeps_its_pages_dirty(void **state)
{
	struct taken t;
	struct env env;

	start(&env, 2);
	store(&env, P(3) + 1, 1);
	claim(&env, 3);
	take(&env, 3, false);
	store(&env, P(3) + 6, 1);
	done(&env, 3, -EIO);
	t = write_block(&env, 3);
	assert_int_equal(t.n, 2);
	assert_true(has(&t, 1) && has(&t, 6));
	assert_int_equal(state_of(env.file, P(3)), HM_CLEAN);
	touch(env.file, P(7), HM_ACCESS_WRITE);
	claim(&env, 7);
	take(&env, 7, false);
	store(&env, P(7) + 6, 1);
	done(&env, 7, -EIO);
	assert_int_equal(write_block(&env, 7).n, BLOCK);
	env_end(&env);
}

/*
 * A device may write to a pinned unit without notice. The unit is dirty as a whole until a
 * write-back finds it unpinned.
 *
 *				    pages 0-7	    written
 *	store to 0		D   d . . . . . . .
 *	write-back, pinned	W   . . . . . . . .  0
 *	store to 1		W   d d d d d d d d	    the device may have written any page
 *	write-back, pinned	W   . . . . . . . .  all
 *	store to 0		D   d d d d d d d d
 *	write-back, unpinned	C   . . . . . . . .  all
 *	store to 0		D   d . . . . . . .
 */
static void test_pinned_unit_is_dirty_as_a_whole(void **state)
{
	struct env env;

	start(&env, 1);
	assert_int_equal(store(&env, P(3), 1), HM_HINT_PARTIAL);
	claim(&env, 3);
	assert_int_equal(take(&env, 3, true).n, 1);
	assert_int_equal(store(&env, P(3) + 1, 1), 0);
	done(&env, 3, 0);
	claim(&env, 3);
	assert_int_equal(take(&env, 3, true).n, BLOCK);
	done(&env, 3, 0);
	assert_int_equal(store(&env, P(3), 1), 0);
	assert_int_equal(write_block(&env, 3).n, BLOCK);
	assert_int_equal(store(&env, P(3), 1), HM_HINT_PARTIAL);
	env_end(&env);
}

/* A unit whose eviction failed is dirty as a whole. A unit that was read again has an empty map. */
static void test_failed_eviction_dirties_whole_block(void **state)
{
	struct hm_unit unit;
	struct env env;
	u64 pos = P(3);

	start(&env, 1);
	assert_int_equal(hm_invalidate(env.file, &pos, P(4), false, &unit), HM_INV_UNIT);
	hm_evict_done(&unit, HM_EVICT_DIRTY);
	assert_int_equal(store(&env, P(3), 1), 0);
	assert_int_equal(write_block(&env, 3).n, BLOCK);
	store(&env, P(3), 1);
	assert_int_equal(drop(env.file, P(3), P(4), true), 1);
	bring(env.file, P(3), HM_ACCESS_READ);
	assert_int_equal(store(&env, P(3) + 2, 1), HM_HINT_PARTIAL);
	assert_int_equal(write_block(&env, 3).n, 1);
	env_end(&env);
}

/*
 * A partial write-back of a hole gives the block data, and leaves the other pages unallocated.
 * A whole one allocates all of them.
 */
static void test_partial_write_back_of_hole_allocates_only_its_pages(void **state)
{
	struct env env;

	env_start(&env, 16, 1, BYTES(64));
	bring(env.file, P(1), HM_ACCESS_READ);
	hm_file_set_zero_fill(env.file, P(3), BLOCK, true);
	bring(env.file, P(3), HM_ACCESS_READ);
	assert_true(hm_is_zero_fill(env.file, P(3)) && hm_needs_alloc(env.file, P(3)));
	store(&env, P(3) + 1, 1);
	write_block(&env, 3);
	assert_false(hm_is_zero_fill(env.file, P(3)));
	assert_true(hm_needs_alloc(env.file, P(3)));
	touch(env.file, P(3), HM_ACCESS_WRITE);
	write_block(&env, 3);
	assert_false(hm_needs_alloc(env.file, P(3)));
	env_end(&env);
}

static void reclaim_once(struct env *env)
{
	struct hm_victim victims[MAX_VICTIMS];
	u32 evicted;

	reclaim(env->cache, HM_HUGE, 1, victims, &evicted);
}

/* A store to a few pages does not keep a huge unit in the cache. A read or a larger store does. */
static void test_sparse_store_does_not_keep_unit_cached(void **state)
{
	struct env env;
	u32 i;

	start(&env, 3);
	for (i = 0; i < 8 && !hm_cache_count(env.cache, HM_C_EVICTIONS); i++) {
		touch(env.file, P(3), HM_ACCESS(.npages = 1));
		store(&env, P(3), 1);
		write_block(&env, 3);
		touch(env.file, P(7) + 1, HM_ACCESS_READ);
		touch(env.file, P(11), HM_ACCESS(.npages = 1));
		store(&env, P(11), MOST + 1);
		write_block(&env, 11);
		reclaim_once(&env);
	}
	assert_int_equal(state_of(env.file, P(3)), HM_ABSENT);
	assert_int_equal(state_of(env.file, P(7)), HM_CLEAN);
	assert_int_equal(state_of(env.file, P(11)), HM_CLEAN);
	env_end(&env);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_write_back_writes_only_stored_pages),
		cmocka_unit_test(test_write_back_without_map_writes_whole_block),
		cmocka_unit_test(test_stores_to_many_pages_dirty_whole_block),
#if HM_BLOCK_ORDER > 6
		cmocka_unit_test(test_sixteen_stores_in_a_row_dirty_whole_block),
#endif
		cmocka_unit_test(test_stream_of_stores_dirties_whole_blocks),
		cmocka_unit_test(test_block_stored_in_order_makes_next_block_whole),
		cmocka_unit_test(test_store_during_write_back_is_written_next),
		cmocka_unit_test(test_failed_write_back_keeps_its_pages_dirty),
		cmocka_unit_test(test_pinned_unit_is_dirty_as_a_whole),
		cmocka_unit_test(test_failed_eviction_dirties_whole_block),
		cmocka_unit_test(test_partial_write_back_of_hole_allocates_only_its_pages),
		cmocka_unit_test(test_sparse_store_does_not_keep_unit_cached),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
