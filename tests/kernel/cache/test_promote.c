// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Promotion of base pages to a huge unit, and all events that can interrupt it. */
#include "common.h"

#define AUTO HM_ACCESS(.size = HM_SIZE_AUTO)
#define AUTO_AND(...) HM_ACCESS(.size = HM_SIZE_AUTO, __VA_ARGS__)
#define UTIL 75u
#define LEAST ((UTIL * HM_BLOCK_PAGES + 99) / 100)
#define FRAMES 24u

static void start(struct env *env)
{
	struct hm_options opts = options_for(FRAMES, 2);

	opts.promote_util = UTIL;
	env_init(env, &opts);
	env_open(env, BYTES(300) + HM_PAGE_SIZE);
}

/* Read the last @n pages of a block backwards, so that they form no stream. */
static u32 fill(struct hm_file *file, u64 block, u32 n, struct hm_access access)
{
	struct hm_unit unit;
	u32 hints = 0, i;

	for (i = 0; i < n; i++) {
		assert_int_equal(fault(file, P(block + 1) - 1 - i, access, &unit), HM_FILL);
		assert_int_equal(unit.npages, 1);
		hints |= unit.hints;
		hm_fill_done(&unit, 0, access.write);
	}
	return hints & HM_HINT_PROMOTE;
}

static void begin(struct env *env, struct hm_promotion *p)
{
	assert_true(hm_promote_pick(env->cache, p));
	assert_int_equal(hm_promote_begin(p, false), HM_PROMOTE_OK);
	assert_false(hm_frame_is_base(env->cache, p->unit.frame));
}

static u32 copy_all(struct hm_promotion *p)
{
	struct hm_unit unit;
	u32 at = 0, n = 0;

	while (hm_promote_copy(p, &at, &unit)) {
		assert_int_equal(unit.npages, 1);
		assert_int_equal(unit.pgoff, p->unit.pgoff + at - 1);
		n++;
	}
	return n;
}

static u32 pages(const struct hm_promotion *p, enum hm_promote_page what)
{
	struct hm_unit unit;
	u32 i, n = 0;

	for (i = 0; i < HM_BLOCK_PAGES; i++)
		n += hm_promote_page(p, i, &unit) == what;
	return n;
}

static u64 not_promoted(struct env *env, enum hm_counter why)
{
	return hm_cache_count(env->cache, why);
}

/* A block becomes a candidate once, when enough is cached, unless base pages were requested. */
static void test_block_is_candidate_once_enough_is_cached(void **state)
{
	struct hm_promotion p;
	struct env env;

	start(&env);
	assert_false(fill(env.file, 3, LEAST - 1, AUTO));
	assert_false(hm_promote_pick(env.cache, &p));
	assert_false(fill(env.file, 5, LEAST, HM_ACCESS(.size = HM_SIZE_BASE)));
	assert_true(fill(env.file, 7, LEAST, AUTO));
	fill(env.file, 9, LEAST + 1, AUTO);
	assert_true(hm_promote_pick(env.cache, &p));
	assert_ptr_equal(p.unit.file, env.file);
	assert_int_equal(p.unit.pgoff, P(7));
	hm_promote_abort(&p, HM_PROMOTE_GONE);
	assert_true(hm_promote_pick(env.cache, &p));
	assert_int_equal(p.unit.pgoff, P(9));
	hm_promote_abort(&p, HM_PROMOTE_GONE);
	assert_false(hm_promote_pick(env.cache, &p));
	/* An aborted candidate can become one again. */
	assert_int_equal(not_promoted(&env, HM_C_NOT_PROMOTED), 0);
	bring(env.file, P(7), AUTO);
	assert_true(hm_promote_pick(env.cache, &p));
	hm_promote_abort(&p, HM_PROMOTE_GONE);
	env_end(&env);
}

static void next_is(struct env *env, const struct hm_file *file)
{
	struct hm_promotion p;

	assert_true(hm_promote_pick(env->cache, &p));
	assert_ptr_equal(p.unit.file, file);
	hm_promote_abort(&p, HM_PROMOTE_GONE);
}

/* Blocks are picked in the order in which they became candidates, whatever their priority. */
static void test_candidates_are_picked_in_order_of_arrival(void **state)
{
	struct hm_file *other;
	struct env env;

	start(&env);
	other = env_open(&env, BYTES(20));
	fill(other, 3, LEAST, AUTO_AND(.priority = HM_PRIORITY_LOW));
	fill(env.file, 3, LEAST, AUTO);
	fill(other, 5, LEAST, AUTO_AND(.priority = HM_PRIORITY_HIGH));
	next_is(&env, other);
	next_is(&env, env.file);
	next_is(&env, other);
	env_end(&env);
}

/* If the program requests huge pages, a block is promoted however few of its pages are cached. */
static void test_request_promotes_with_few_pages_cached(void **state)
{
	struct hm_promotion p;
	struct hm_unit unit;
	struct env env;

	start(&env);
	fill(env.file, 3, 2, AUTO);
	assert_true(touch(env.file, P(4) - 1, AUTO_AND(.promote = true)).hints & HM_HINT_PROMOTE);
	/* The hint comes once. */
	assert_false(touch(env.file, P(4) - 1, AUTO_AND(.promote = true)).hints & HM_HINT_PROMOTE);
	begin(&env, &p);
	assert_int_equal(p.unit.pgoff, P(3));
	assert_int_equal(p.nmissing, HM_BLOCK_PAGES - 2);
	assert_int_equal(hm_promote_claim(&p), HM_PROMOTE_OK);
	hm_promote_commit(&p);
	/* A huge unit is no candidate. The request for a block ends when the block is evicted. */
	assert_false(touch(env.file, P(3), AUTO_AND(.promote = true)).hints & HM_HINT_PROMOTE);
	drop(env.file, P(3), P(4), false);
	fill(env.file, 3, LEAST, AUTO);
	drop(env.file, P(3), P(4) - LEAST / 2, false);
	assert_true(hm_promote_pick(env.cache, &p));
	assert_int_equal(hm_promote_begin(&p, false), HM_PROMOTE_COLD);
	drop(env.file, P(3), P(4), false);

	/* Read-ahead can request it too, and automatic promotion may be off. */
	env.cache->opts.promote_util = 0;
	fill(env.file, 5, 1, AUTO);
	assert_int_equal(fault(env.file, P(6) - 1, AUTO_AND(.promote = true, .ahead = true), &unit),
			 HM_HIT);
	assert_true(unit.hints & HM_HINT_PROMOTE);
	begin(&env, &p);
	hm_promote_abort(&p, HM_PROMOTE_GONE);
	/* The last, partial block of a file cannot be promoted. */
	bring(env.file, P(300), AUTO);
	assert_false(touch(env.file, P(300), AUTO_AND(.promote = true)).hints & HM_HINT_PROMOTE);
	env_end(&env);
}

/* If a program requests base pages, accesses of other programs do not promote them. */
static void test_request_for_base_pages_prevents_promotion(void **state)
{
	struct hm_promotion p;
	struct env env;
	u32 i;

	start(&env);
	fill(env.file, 3, 1, HM_ACCESS(.size = HM_SIZE_BASE));
	drop(env.file, P(4) - 1, P(4), false);
	/* The request ended with the eviction of the page. */
	assert_true(fill(env.file, 3, LEAST, AUTO));
	assert_true(hm_promote_pick(env.cache, &p));
	hm_promote_abort(&p, HM_PROMOTE_GONE);

	assert_false(fill(env.file, 7, 1, HM_ACCESS(.size = HM_SIZE_BASE)));
	for (i = 0; i < HM_BLOCK_PAGES - 1; i++)
		assert_false(bring(env.file, P(7) + i, AUTO).hints & HM_HINT_PROMOTE);
	/* The block became a candidate before the request for base pages. */
	fill(env.file, 9, HM_BLOCK_PAGES - 1, AUTO);
	bring(env.file, P(9), HM_ACCESS(.size = HM_SIZE_BASE));
	assert_true(hm_promote_pick(env.cache, &p));
	assert_int_equal(p.unit.pgoff, P(9));
	assert_int_equal(hm_promote_begin(&p, false), HM_PROMOTE_GONE);
	/* A later request for huge pages wins. */
	assert_true(touch(env.file, P(9), AUTO_AND(.promote = true)).hints & HM_HINT_PROMOTE);
	begin(&env, &p);
	hm_promote_abort(&p, HM_PROMOTE_GONE);
	env_end(&env);
}

static void test_util_0_promotes_nothing(void **state)
{
	struct hm_options opts = options_for(FRAMES, 1);
	struct hm_promotion p;
	struct env env;

	opts.promote_util = 0;
	env_init(&env, &opts);
	env_open(&env, BYTES(20));
	assert_false(fill(env.file, 3, HM_BLOCK_PAGES, AUTO));
	assert_false(hm_promote_pick(env.cache, &p));
	env_end(&env);
}

static void test_uninterrupted_promotion_commits(void **state)
{
	struct hm_promotion p;
	struct hm_unit unit;
	struct env env;

	start(&env);
	fill(env.file, 3, LEAST, AUTO);
	begin(&env, &p);
	assert_int_equal(p.nmissing, HM_BLOCK_PAGES - LEAST);
	assert_true(hm_bit_test(p.missing, 0));
	assert_false(hm_bit_test(p.missing, HM_BLOCK_PAGES - 1));
	assert_int_equal(hm_peek(env.file, P(3), &unit), HM_FILLING);
	assert_int_equal(hm_frame_offset(env.cache, unit.frame),
			 hm_frame_offset(env.cache, p.unit.frame));
	assert_int_equal(hm_peek(env.file, P(3) + 1, &unit), HM_FILLING);
	assert_int_equal(hm_frame_offset(env.cache, unit.frame),
			 hm_frame_offset(env.cache, p.unit.frame) + HM_PAGE_SIZE);
	assert_int_equal(copy_all(&p), LEAST);
	assert_int_equal(copy_all(&p), 0);
	assert_int_equal(hm_promote_claim(&p), HM_PROMOTE_OK);
	assert_int_equal(pages(&p, HM_PAGE_READ), HM_BLOCK_PAGES - LEAST);
	assert_int_equal(pages(&p, HM_PAGE_COPIED), LEAST);
	assert_int_equal(hm_promote_page(&p, HM_BLOCK_PAGES - 1, &unit), HM_PAGE_COPIED);
	assert_int_equal(unit.pgoff, P(4) - 1);
	assert_true(hm_frame_is_base(env.cache, unit.frame));
	assert_false(hm_promote_commit(&p));

	assert_int_equal(hm_peek(env.file, P(3) + 1, &unit), HM_CLEAN);
	assert_int_equal(unit.npages, HM_BLOCK_PAGES);
	assert_int_equal(unit.frame, p.unit.frame);
	assert_int_equal(hm_cache_free_pages(env.cache), P(FRAMES - 1));
	assert_int_equal(hm_cache_count(env.cache, HM_C_PROMOTED), 1);
	assert_false(hm_promote_pick(env.cache, &p));
	/* After its eviction the block can be promoted again. */
	assert_int_equal(drop(env.file, 0, ~0ull, false), 1);
	fill(env.file, 3, LEAST, AUTO);
	begin(&env, &p);
	hm_promote_abort(&p, HM_PROMOTE_FAILED);
	env_end(&env);
}

/* A promoted unit is in the main queue, so a scan does not evict it. */
static void test_promoted_unit_is_in_main_queue(void **state)
{
	struct hm_promotion p;
	struct env env;

	start(&env);
	fill(env.file, 3, LEAST, AUTO);
	begin(&env, &p);
	copy_all(&p);
	assert_int_equal(hm_promote_claim(&p), HM_PROMOTE_OK);
	hm_promote_commit(&p);
	assert_int_equal(hm_atomic_read(&hm_desc_of(env.cache, p.unit.frame)->where) & 0xff,
			 HM_Q_MAIN);
	env_end(&env);
}

/*
 * A page that was stored to after its copy is copied again, and the huge unit is dirty.
 *
 *			base pages	  copies in the huge frame (x: stale)
 *	begin		c c c c c c c c   . . . . . . . .
 *	store to 1	c d c c c c c c   . . . . . . . .
 *	copy		c d c c c c c c   c . c c c c c c   dirty pages are not copied yet
 *	stores to 2, 3	c d d d c c c c   c . x x c c c c
 *	write-back of 3	c d d c c c c c   c . x x c c c c
 *	claim		e e e e e e e e   c . x x c c c c   1, 2 and 3 are copied now
 *	commit		D - - - - - - -
 */
static void test_page_stored_to_after_copy_is_copied_again(void **state)
{
	struct hm_promotion p;
	struct hm_unit unit;
	struct env env;

	start(&env);
	fill(env.file, 3, HM_BLOCK_PAGES, AUTO);
	begin(&env, &p);
	touch(env.file, P(3) + 1, HM_ACCESS_WRITE);
	assert_int_equal(copy_all(&p), HM_BLOCK_PAGES - 1);
	touch(env.file, P(3) + 2, HM_ACCESS_WRITE);
	/* This page is clean after write-back, but its copy is stale. */
	touch(env.file, P(3) + 3, HM_ACCESS_WRITE);
	write_range(env.file, P(3) + 3, P(3) + 4);
	assert_int_equal(hm_promote_claim(&p), HM_PROMOTE_OK);
	assert_int_equal(pages(&p, HM_PAGE_COPY), 3);
	assert_int_equal(hm_promote_page(&p, 0, &unit), HM_PAGE_COPIED);
	assert_int_equal(hm_promote_page(&p, 1, &unit), HM_PAGE_COPY);
	assert_int_equal(hm_promote_page(&p, 2, &unit), HM_PAGE_COPY);
	assert_int_equal(hm_promote_page(&p, 3, &unit), HM_PAGE_COPY);
	assert_int_equal(hm_file_dirty_pages(env.file), 2);
	hm_promote_commit(&p);
	assert_int_equal(state_of(env.file, P(3)), HM_DIRTY);
	assert_int_equal(hm_file_dirty_pages(env.file), HM_BLOCK_PAGES);
	audit(&env);
	assert_int_equal(write_all(env.file), 1);
	assert_int_equal(hm_file_dirty_pages(env.file), 0);
	env_end(&env);
}

/* The engine reports a page that a device has written: the huge unit is dirty. */
static void test_page_written_by_device_makes_unit_dirty(void **state)
{
	struct hm_promotion p;
	struct env env;

	start(&env);
	fill(env.file, 3, LEAST, AUTO);
	begin(&env, &p);
	copy_all(&p);
	assert_int_equal(hm_promote_claim(&p), HM_PROMOTE_OK);
	hm_promote_dirty(&p, 0);
	hm_promote_commit(&p);
	assert_int_equal(state_of(env.file, P(3)), HM_DIRTY);
	assert_int_equal(hm_file_dirty_pages(env.file), HM_BLOCK_PAGES);
	audit(&env);
	write_all(env.file);
	env_end(&env);
}

/*
 * If a page was evicted, the claim fails and changes nothing. A later promotion copies again.
 *
 *			base pages	  copies in the huge frame
 *	begin		f c c c c c c c   . . . . . . . .   page 0 is read into the huge frame
 *	store to 7	f c c c c c c d   . . . . . . . .
 *	copy		f c c c c c c d   . c c c c c c .
 *	6 is evicted	f c c c c c . d   . c c c c c c .
 *	claim: BUSY	f c c c c c . d   . c c c c c c .
 *	abort		. c c c c c . d			    the huge frame is free again
 */
static void test_eviction_of_a_page_fails_the_claim(void **state)
{
	struct hm_promotion p;
	struct env env;
	u64 free;

	start(&env);
	fill(env.file, 3, LEAST + 1, AUTO);
	free = hm_cache_free_pages(env.cache);
	begin(&env, &p);
	touch(env.file, P(4) - 1, HM_ACCESS_WRITE);
	copy_all(&p);
	drop(env.file, P(4) - 2, P(4) - 1, false);
	assert_int_equal(hm_promote_claim(&p), HM_PROMOTE_BUSY);
	assert_false(hm_promote_abort(&p, HM_PROMOTE_BUSY));
	assert_int_equal(not_promoted(&env, HM_C_NOT_PROMOTED_BUSY), 1);
	assert_int_equal(hm_cache_free_pages(env.cache), free + 1);
	assert_int_equal(state_of(env.file, P(3)), HM_ABSENT);
	assert_int_equal(state_of(env.file, P(4) - 1), HM_DIRTY);
	audit(&env);
	/* The promotion is tried again, and does not use the old copies. */
	write_all(env.file);
	assert_false(hm_promote_pick(env.cache, &p));
	hm_cache_tick(env.cache, 5000);
	assert_true(hm_promote_pick(env.cache, &p));
	assert_int_equal(hm_promote_begin(&p, true), HM_PROMOTE_OK);
	assert_int_equal(hm_promote_claim(&p), HM_PROMOTE_OK);
	assert_int_equal(pages(&p, HM_PAGE_COPY), LEAST);
	hm_promote_commit(&p);
	env_end(&env);
}

/* A promotion that is aborted after its claim, for a pinned page, restores all states. */
static void test_abort_after_claim_restores_all_states(void **state)
{
	struct hm_promotion p;
	struct hm_unit unit;
	struct env env;

	start(&env);
	fill(env.file, 3, LEAST, AUTO);
	begin(&env, &p);
	touch(env.file, P(4) - 1, HM_ACCESS_WRITE);
	copy_all(&p);
	assert_int_equal(hm_promote_claim(&p), HM_PROMOTE_OK);
	assert_int_equal(fault(env.file, P(4) - 2, AUTO, &unit), HM_BUSY);
	assert_true(hm_promote_abort(&p, HM_PROMOTE_PINNED));
	assert_int_equal(state_of(env.file, P(4) - 1), HM_DIRTY);
	assert_int_equal(state_of(env.file, P(4) - 2), HM_CLEAN);
	assert_int_equal(hm_file_dirty_pages(env.file), 1);
	audit(&env);
	assert_int_equal(write_all(env.file), 1);
	env_end(&env);
}

/* After a pinned page, a promotion can give up its claim and claim again. It keeps its copies. */
static void test_claim_can_be_repeated_after_a_pinned_page(void **state)
{
	struct hm_promotion p;
	struct hm_unit unit;
	struct env env;

	start(&env);
	fill(env.file, 3, LEAST, AUTO);
	begin(&env, &p);
	copy_all(&p);
	assert_int_equal(hm_promote_claim(&p), HM_PROMOTE_OK);
	assert_int_equal(fault(env.file, P(4) - 1, AUTO, &unit), HM_BUSY);
	assert_true(hm_promote_unclaim(&p));
	/* All pages can be used again, and a store is noticed. */
	touch(env.file, P(4) - 1, HM_ACCESS_WRITE);
	assert_int_equal(state_of(env.file, P(4) - 2), HM_CLEAN);
	assert_int_equal(fault(env.file, P(3), AUTO, &unit), HM_BUSY);
	assert_int_equal(hm_promote_claim(&p), HM_PROMOTE_OK);
	assert_int_equal(pages(&p, HM_PAGE_COPIED), LEAST - 1);
	assert_int_equal(pages(&p, HM_PAGE_COPY), 1);
	assert_true(hm_promote_commit(&p));
	assert_int_equal(hm_file_dirty_pages(env.file), HM_BLOCK_PAGES);
	audit(&env);
	assert_int_equal(write_all(env.file), 1);
	env_end(&env);
}

/* A fault on a page that the promotion reads is woken when the promotion ends in any way. */
static void test_waiter_is_woken_however_promotion_ends(void **state)
{
	struct hm_promotion p;
	struct hm_unit unit;
	struct env env;
	u32 commit;

	start(&env);
	for (commit = 0; commit < 2; commit++) {
		fill(env.file, 3 + commit, LEAST, AUTO);
		begin(&env, &p);
		assert_int_equal(fault(env.file, P(3 + commit), AUTO, &unit), HM_BUSY);
		copy_all(&p);
		assert_int_equal(hm_promote_claim(&p), HM_PROMOTE_OK);
		if (commit) {
			assert_true(hm_promote_commit(&p));
			touch(env.file, P(3 + commit), AUTO);
		} else {
			assert_true(hm_promote_abort(&p, HM_PROMOTE_FAILED));
			assert_int_equal(not_promoted(&env, HM_C_NOT_PROMOTED_FAILED), 1);
			bring(env.file, P(3 + commit), AUTO);
		}
	}
	env_end(&env);
}

static void test_page_under_write_back_cannot_be_claimed(void **state)
{
	struct hm_promotion p;
	struct hm_run run;
	struct env env;
	u64 pos = 0;

	start(&env);
	fill(env.file, 3, HM_BLOCK_PAGES, AUTO_AND(.write = true));
	assert_int_equal(hm_writeback(env.file, &pos, ~0ull, 1, true, &run), HM_WB_RUN);
	begin(&env, &p);
	assert_int_equal(copy_all(&p), 0);
	assert_int_equal(hm_promote_claim(&p), HM_PROMOTE_BUSY);
	hm_writeback_done(env.file, run.pgoff, run.npages, 0);
	assert_int_equal(hm_promote_claim(&p), HM_PROMOTE_OK);
	assert_int_equal(pages(&p, HM_PAGE_COPY), HM_BLOCK_PAGES);
	hm_promote_commit(&p);
	audit(&env);
	assert_int_equal(write_all(env.file), 1);
	env_end(&env);
}

/*
 * A second claim ignores the results of the first one, which failed.
 *
 *			base pages	  copies in the huge frame (x: stale)
 *	copy		c c c c c c c c   c c c c c c c c
 *	stores to 1, 7	c d c c c c c d   c x c c c c c x
 *	write-back of 7	c d c c c c c w   c x c c c c c x
 *	claim: BUSY	c d c c c c c w   c x c c c c c x   page 0 was found to be copied
 *	store to 0	d d c c c c c w   x x c c c c c x
 *	claim: OK	e e e e e e e e   x x c c c c c x   page 0 has to be copied again
 */
static void test_second_claim_ignores_failed_first_one(void **state)
{
	struct hm_promotion p;
	struct hm_unit unit;
	struct hm_run run;
	struct env env;
	u64 pos = P(4) - 1;

	start(&env);
	fill(env.file, 3, HM_BLOCK_PAGES, AUTO);
	begin(&env, &p);
	copy_all(&p);
	touch(env.file, P(3) + 1, HM_ACCESS_WRITE);
	touch(env.file, P(4) - 1, HM_ACCESS_WRITE);
	assert_int_equal(hm_writeback(env.file, &pos, ~0ull, 1, true, &run), HM_WB_RUN);
	assert_int_equal(hm_promote_claim(&p), HM_PROMOTE_BUSY);
	touch(env.file, P(3), HM_ACCESS_WRITE);
	hm_writeback_done(env.file, run.pgoff, run.npages, 0);
	assert_int_equal(hm_promote_claim(&p), HM_PROMOTE_OK);
	assert_int_equal(hm_promote_page(&p, 0, &unit), HM_PAGE_COPY);
	hm_promote_commit(&p);
	assert_int_equal(hm_file_dirty_pages(env.file), HM_BLOCK_PAGES);
	write_all(env.file);
	env_end(&env);
}

/* Reclaim takes no claimed page, and finds all of them after the promotion was aborted. */
static void test_reclaim_skips_claimed_pages_until_abort(void **state)
{
	struct hm_victim victims[MAX_VICTIMS];
	struct hm_promotion p;
	struct env env;
	u32 i;

	start(&env);
	fill(env.file, 3, LEAST, AUTO);
	begin(&env, &p);
	assert_int_equal(hm_promote_claim(&p), HM_PROMOTE_OK);
	for (i = 0; i < 100; i++)
		assert_int_equal(hm_reclaim(env.cache, HM_BASE, 32, victims, MAX_VICTIMS), 0);
	hm_promote_abort(&p, HM_PROMOTE_PINNED);
	audit(&env);
	assert_int_equal(evict(env.cache, HM_BASE, LEAST), LEAST);
	env_end(&env);
}

static void test_sync_does_not_skip_claimed_dirty_pages(void **state)
{
	struct hm_promotion p;
	struct hm_run run;
	struct env env;
	u64 pos = 0;

	start(&env);
	fill(env.file, 3, HM_BLOCK_PAGES, AUTO_AND(.write = true));
	begin(&env, &p);
	assert_int_equal(hm_promote_claim(&p), HM_PROMOTE_OK);
	assert_int_equal(hm_writeback(env.file, &pos, ~0ull, 1, true, &run), HM_WB_BUSY);
	assert_int_equal(pos, P(3));
	pos = 0;
	assert_int_equal(hm_writeback(env.file, &pos, ~0ull, 1, false, &run), HM_WB_DONE);
	hm_promote_commit(&p);
	pos = P(3);
	assert_int_equal(hm_writeback(env.file, &pos, ~0ull, 1, true, &run), HM_WB_RUN);
	assert_int_equal(run.npages, HM_BLOCK_PAGES);
	hm_writeback_done(env.file, run.pgoff, run.npages, 0);
	env_end(&env);
}

static void test_unused_readahead_does_not_count(void **state)
{
	struct hm_promotion p;
	struct env env;
	u32 i;

	start(&env);
	assert_true(fill(env.file, 3, LEAST, AUTO_AND(.ahead = true)));
	assert_true(hm_promote_pick(env.cache, &p));
	assert_int_equal(hm_promote_begin(&p, false), HM_PROMOTE_COLD);
	assert_int_equal(not_promoted(&env, HM_C_NOT_PROMOTED), 1);
	assert_int_equal(not_promoted(&env, HM_C_NOT_PROMOTED_COLD), 1);
	for (i = 0; i < LEAST - 1; i++)
		touch(env.file, P(4) - 1 - i, HM_ACCESS_READ);
	hm_cache_tick(env.cache, 5000);
	assert_true(hm_promote_pick(env.cache, &p));
	assert_int_equal(hm_promote_begin(&p, false), HM_PROMOTE_COLD);
	touch(env.file, P(4) - LEAST, HM_ACCESS_READ);
	hm_cache_tick(env.cache, 10000);
	begin(&env, &p);
	hm_promote_abort(&p, HM_PROMOTE_GONE);
	/* After four failures the block is no candidate until one of its pages is touched. */
	fill(env.file, 5, HM_BLOCK_PAGES, AUTO_AND(.ahead = true));
	for (i = 0; i < 4; i++) {
		hm_cache_tick(env.cache, 20000 + i * 20000);
		assert_true(hm_promote_pick(env.cache, &p));
		assert_int_equal(hm_promote_begin(&p, false), HM_PROMOTE_COLD);
	}
	hm_cache_tick(env.cache, 1000000);
	assert_false(hm_promote_pick(env.cache, &p));
	assert_true(touch(env.file, P(5), AUTO).hints & HM_HINT_PROMOTE);
	env_end(&env);
}

static void test_block_with_ongoing_partial_stores_stays(void **state)
{
	struct hm_promotion p;
	struct env env;

	start(&env);
	fill(env.file, 3, HM_BLOCK_PAGES, AUTO);
	touch(env.file, P(3), HM_ACCESS_WRITE);
	write_all(env.file);
	assert_true(hm_promote_pick(env.cache, &p));
	assert_int_equal(hm_promote_begin(&p, false), HM_PROMOTE_DIRTY);
	assert_int_equal(not_promoted(&env, HM_C_NOT_PROMOTED_DIRTY), 1);
	hm_cache_tick(env.cache, 5000);
	touch(env.file, P(3) + 1, HM_ACCESS_WRITE);
	assert_true(hm_promote_pick(env.cache, &p));
	assert_int_equal(hm_promote_begin(&p, false), HM_PROMOTE_DIRTY);
	write_all(env.file);
	hm_cache_tick(env.cache, 10000);
	begin(&env, &p);
	hm_promote_abort(&p, HM_PROMOTE_GONE);
	/* A page that stays dirty counts as stored to. */
	touch(env.file, P(3) + 1, HM_ACCESS_WRITE);
	fill(env.file, 5, HM_BLOCK_PAGES, AUTO);
	touch(env.file, P(5), HM_ACCESS_WRITE);
	assert_true(hm_promote_pick(env.cache, &p));
	assert_int_equal(hm_promote_begin(&p, false), HM_PROMOTE_DIRTY);
	hm_cache_tick(env.cache, 15000);
	assert_true(hm_promote_pick(env.cache, &p));
	assert_int_equal(hm_promote_begin(&p, false), HM_PROMOTE_DIRTY);
	/* A forced promotion ignores stores. */
	touch(env.file, P(3) + 1, HM_ACCESS_WRITE);
	p = (struct hm_promotion){ .unit = { .file = env.file, .pgoff = P(3) } };
	assert_int_equal(hm_promote_begin(&p, true), HM_PROMOTE_OK);
	assert_int_equal(hm_promote_claim(&p), HM_PROMOTE_OK);
	hm_promote_commit(&p);
	write_all(env.file);
	env_end(&env);
}

static void test_block_with_unallocated_pages_stays(void **state)
{
	struct hm_promotion p;
	struct env env;

	start(&env);
	fill(env.file, 3, HM_BLOCK_PAGES, AUTO);
	hm_file_set_zero_fill(env.file, P(3) + 5, 1, true);
	assert_true(hm_promote_pick(env.cache, &p));
	assert_int_equal(hm_promote_begin(&p, false), HM_PROMOTE_NEEDS_ALLOC);
	assert_int_equal(not_promoted(&env, HM_C_NOT_PROMOTED_NEEDS_ALLOC), 1);
	hm_file_set_allocated(env.file, P(3) + 5, 1);
	hm_cache_tick(env.cache, 5000);
	begin(&env, &p);
	hm_file_set_zero_fill(env.file, P(3) + 6, 1, true);
	assert_int_equal(hm_promote_claim(&p), HM_PROMOTE_NEEDS_ALLOC);
	hm_promote_abort(&p, HM_PROMOTE_NEEDS_ALLOC);
	hm_file_set_allocated(env.file, P(3) + 6, 1);
	hm_cache_tick(env.cache, 10000);
	begin(&env, &p);
	assert_int_equal(hm_promote_claim(&p), HM_PROMOTE_OK);
	hm_promote_commit(&p);
	/* After the promotion no page of it is a hole. */
	assert_false(hm_is_zero_fill(env.file, P(3) + 5));
	assert_false(hm_needs_alloc(env.file, P(3) + 5));
	env_end(&env);
}

/* The block in which the file ends is not promoted, also if the file shrinks during a promotion. */
static void test_last_partial_block_is_not_promoted(void **state)
{
	struct hm_promotion p = { .unit = { .pgoff = P(300) } };
	struct env env;

	start(&env);
	p.unit.file = env.file;
	bring(env.file, P(300), AUTO);
	assert_int_equal(hm_promote_begin(&p, true), HM_PROMOTE_GONE);
	fill(env.file, 3, HM_BLOCK_PAGES, AUTO);
	begin(&env, &p);
	hm_file_set_size(env.file, BYTES(3) + HM_PAGE_SIZE);
	assert_int_equal(hm_promote_claim(&p), HM_PROMOTE_GONE);
	hm_promote_abort(&p, HM_PROMOTE_GONE);
	assert_int_equal(not_promoted(&env, HM_C_NOT_PROMOTED), 0);
	env_end(&env);
}

/* A block is not promoted if it is absent, huge or unreadable, or evicted since it was picked. */
static void test_absent_huge_or_unreadable_block_is_not_promoted(void **state)
{
	struct hm_promotion p;
	struct hm_unit unit;
	struct env env;

	start(&env);
	p = (struct hm_promotion){ .unit = { .file = env.file, .pgoff = P(3) } };
	assert_int_equal(hm_promote_begin(&p, true), HM_PROMOTE_GONE);
	bring(env.file, P(3), HM_ACCESS_READ);
	p = (struct hm_promotion){ .unit = { .file = env.file, .pgoff = P(3) } };
	assert_int_equal(hm_promote_begin(&p, true), HM_PROMOTE_GONE);
	assert_int_equal(fault(env.file, P(5), HM_ACCESS_READ, &unit), HM_FILL);
	hm_fill_done(&unit, -EIO, false);
	/* A block that cannot be read as a whole is no candidate. */
	fill(env.file, 5, HM_BLOCK_PAGES - 1, AUTO);
	assert_false(hm_promote_pick(env.cache, &p));
	p = (struct hm_promotion){ .unit = { .file = env.file, .pgoff = P(5) } };
	assert_int_equal(hm_promote_begin(&p, true), HM_PROMOTE_GONE);
	fill(env.file, 7, LEAST, AUTO);
	assert_true(hm_promote_pick(env.cache, &p));
	drop(env.file, P(7), P(8), false);
	assert_int_equal(fault(env.file, P(7), HM_ACCESS_READ, &unit), HM_FILL);
	assert_int_equal(hm_promote_begin(&p, false), HM_PROMOTE_GONE);
	hm_fill_done(&unit, 0, false);
	assert_false(hm_promote_pick(env.cache, &p));
	env_end(&env);
}

/* A block has one promotion at a time. Without a free huge frame none can begin. */
static void test_block_has_one_promotion_at_a_time(void **state)
{
	struct hm_promotion p, other;
	struct env env;
	u64 block;

	start(&env);
	fill(env.file, 3, LEAST, AUTO);
	begin(&env, &p);
	other = (struct hm_promotion){ .unit = { .file = env.file, .pgoff = P(3) } };
	assert_int_equal(hm_promote_begin(&other, true), HM_PROMOTE_BUSY);
	assert_int_equal(hm_promote_claim(&p), HM_PROMOTE_OK);
	hm_promote_commit(&p);

	fill(env.file, 5, HM_BLOCK_PAGES, AUTO);
	for (block = 10; hm_pool_free(env.cache, HM_HUGE); block++)
		bring(env.file, P(block), HM_ACCESS_READ);
	assert_true(hm_promote_pick(env.cache, &p));
	assert_int_equal(hm_promote_begin(&p, false), HM_PROMOTE_NO_FRAME);
	assert_int_equal(not_promoted(&env, HM_C_NOT_PROMOTED_NO_FRAME), 1);
	drop(env.file, P(10), P(11), false);
	hm_cache_tick(env.cache, 5000);
	begin(&env, &p);
	hm_promote_abort(&p, HM_PROMOTE_GONE);
	env_end(&env);
}

static void test_huge_unit_inherits_marker_and_priority(void **state)
{
	struct hm_promotion p;
	struct env env;

	start(&env);
	fill(env.file, 3, LEAST, AUTO_AND(.priority = HM_PRIORITY_LOW));
	bring(env.file, P(3), AUTO_AND(.priority = HM_PRIORITY_LOW, .ahead = true, .mark = true));
	begin(&env, &p);
	assert_int_equal(hm_promote_claim(&p), HM_PROMOTE_OK);
	hm_promote_commit(&p);
	assert_true(touch(env.file, P(3) + 1, AUTO).hints & HM_HINT_READAHEAD);
	assert_int_equal(hm_desc_of(env.cache, p.unit.frame)->priority, HM_PRIORITY_LOW);
	env_end(&env);
}

/* The delay doubles after each failed promotion, and does not delay other candidates. */
static void test_delay_doubles_after_each_failure(void **state)
{
	u64 now = 1, wait = 1000;
	struct hm_promotion p;
	struct env env;
	u32 i;

	start(&env);
	hm_cache_tick(env.cache, now);
	fill(env.file, 3, LEAST, AUTO);
	for (i = 0; i < 4; i++) {
		begin(&env, &p);
		hm_promote_abort(&p, HM_PROMOTE_PINNED);
		hm_cache_tick(env.cache, now + wait - 1);
		assert_false(hm_promote_pick(env.cache, &p));
		if (i == 1) {
			fill(env.file, 5, LEAST, AUTO);
			assert_true(hm_promote_pick(env.cache, &p));
			assert_int_equal(p.unit.pgoff, P(5));
			hm_promote_abort(&p, HM_PROMOTE_GONE);
		}
		now += wait;
		hm_cache_tick(env.cache, now);
		wait *= 2;
	}
	/* After four failures the block leaves the list, so that it does not crowd out others. */
	assert_int_equal(not_promoted(&env, HM_C_NOT_PROMOTED_PINNED), 4);
	assert_false(hm_promote_pick(env.cache, &p));
	drop(env.file, P(4) - 1, P(4), false);
	assert_true(fill(env.file, 3, 1, AUTO));
	assert_true(hm_promote_pick(env.cache, &p));
	hm_promote_abort(&p, HM_PROMOTE_GONE);
	/* A candidate from before promotion was turned off is not promoted. */
	fill(env.file, 7, LEAST, AUTO);
	env.cache->opts.promote_util = 0;
	assert_true(hm_promote_pick(env.cache, &p));
	assert_int_equal(hm_promote_begin(&p, false), HM_PROMOTE_GONE);
	env_end(&env);
}

/* Closing a file removes its candidates, and no others. */
static void test_closing_file_removes_its_candidates(void **state)
{
	struct hm_promotion p;
	struct hm_file *other;
	struct env env;

	start(&env);
	other = env_open(&env, BYTES(20));
	fill(other, 3, LEAST, AUTO);
	fill(env.file, 5, LEAST, AUTO);
	fill(other, 4, LEAST, AUTO);
	env_close(&env, other);
	assert_true(hm_promote_pick(env.cache, &p));
	assert_int_equal(p.unit.pgoff, P(5));
	hm_promote_abort(&p, HM_PROMOTE_GONE);
	assert_false(hm_promote_pick(env.cache, &p));
	env_end(&env);
}

/* If the list of candidates is full, a later fault adds the block. */
static void test_full_candidate_list_delays_block(void **state)
{
	struct hm_options opts = options_for(HM_CANDIDATES + 8, 1);
	struct hm_promotion p;
	struct env env;
	u64 block;
	u32 n = 0;

	opts.promote_util = 1;
	env_init(&env, &opts);
	env_open(&env, BYTES(2 * HM_CANDIDATES));
	for (block = 0; block < HM_CANDIDATES + 4; block++)
		fill(env.file, block, 6, AUTO);
	while (hm_promote_pick(env.cache, &p)) {
		hm_promote_abort(&p, HM_PROMOTE_GONE);
		n++;
	}
	assert_int_equal(n, HM_CANDIDATES);
	bring(env.file, P(HM_CANDIDATES + 3), AUTO);
	assert_true(hm_promote_pick(env.cache, &p));
	assert_int_equal(p.unit.pgoff, P(HM_CANDIDATES + 3));
	hm_promote_abort(&p, HM_PROMOTE_GONE);
	env_end(&env);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_block_is_candidate_once_enough_is_cached),
	cmocka_unit_test(test_candidates_are_picked_in_order_of_arrival),
	cmocka_unit_test(test_util_0_promotes_nothing),
	cmocka_unit_test(test_uninterrupted_promotion_commits),
	cmocka_unit_test(test_promoted_unit_is_in_main_queue),
	cmocka_unit_test(test_page_stored_to_after_copy_is_copied_again),
	cmocka_unit_test(test_page_written_by_device_makes_unit_dirty),
	cmocka_unit_test(test_eviction_of_a_page_fails_the_claim),
	cmocka_unit_test(test_abort_after_claim_restores_all_states),
	cmocka_unit_test(test_claim_can_be_repeated_after_a_pinned_page),
	cmocka_unit_test(test_waiter_is_woken_however_promotion_ends),
	cmocka_unit_test(test_page_under_write_back_cannot_be_claimed),
	cmocka_unit_test(test_second_claim_ignores_failed_first_one),
	cmocka_unit_test(test_reclaim_skips_claimed_pages_until_abort),
	cmocka_unit_test(test_sync_does_not_skip_claimed_dirty_pages),
	cmocka_unit_test(test_unused_readahead_does_not_count),
	cmocka_unit_test(test_block_with_ongoing_partial_stores_stays),
	cmocka_unit_test(test_block_with_unallocated_pages_stays),
	cmocka_unit_test(test_last_partial_block_is_not_promoted),
	cmocka_unit_test(test_absent_huge_or_unreadable_block_is_not_promoted),
	cmocka_unit_test(test_block_has_one_promotion_at_a_time),
	cmocka_unit_test(test_huge_unit_inherits_marker_and_priority),
	cmocka_unit_test(test_delay_doubles_after_each_failure),
	cmocka_unit_test(test_closing_file_removes_its_candidates),
	cmocka_unit_test(test_full_candidate_list_delays_block),
	cmocka_unit_test(test_request_promotes_with_few_pages_cached),
	cmocka_unit_test(test_request_for_base_pages_prevents_promotion),
};

int main(void)
{
	return cmocka_run_group_tests_name("promote", tests, NULL, NULL);
}
