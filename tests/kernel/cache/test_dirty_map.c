// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* What of a huge unit is dirty: which pages, until when, and what becomes of them. */
#include "common.h"

#define STORE(n) HM_ACCESS(.write = true, .cached_only = true, .npages = (n))
#define AUTO HM_ACCESS(.size = HM_SIZE_AUTO)
#define MOST (HM_BLOCK_PAGES / 4)

/* A clean block, and the next ones apart, so that no stream goes through them. */
static void start(struct env *env, u32 blocks)
{
	u32 i;

	env_start(env, 16, 1, BYTES(64));
	for (i = 0; i < blocks; i++)
		bring(env->file, P(3 + 4 * i), HM_ACCESS_READ);
}

static u32 file(struct env *env, u64 pgoff, u32 npages)
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

/* Only what is said to be stored to is written; and all where nothing is said. */
static void test_few(void **state)
{
	struct taken t;
	struct env env;

	start(&env, 2);
	assert_int_equal(file(&env, P(3) + 5, 1), HM_HINT_PARTIAL);
	assert_int_equal(file(&env, P(3) + 5, 1), HM_HINT_PARTIAL);
	assert_int_equal(file(&env, P(3), 1), HM_HINT_PARTIAL);
	touch(env.file, P(3) + 1, HM_ACCESS_READ);
	t = write_block(&env, 3);
	assert_int_equal(t.n, 2);
	assert_true(has(&t, 0) && has(&t, 5));
	assert_int_equal(hm_cache_count(env.cache, HM_C_WRITTEN), 2);
	assert_int_equal(state_of(env.file, P(3)), HM_CLEAN);
	/* Nothing is left of it. */
	assert_int_equal(file(&env, P(3) + 7, 1), HM_HINT_PARTIAL);
	t = write_block(&env, 3);
	assert_int_equal(t.n, 1);
	assert_true(has(&t, 7));
	/* A store that does not say where, before and after one that does. */
	assert_int_equal(file(&env, P(7), 1), HM_HINT_PARTIAL);
	touch(env.file, P(7), HM_ACCESS_WRITE);
	assert_int_equal(file(&env, P(7), 1), 0);
	assert_int_equal(write_block(&env, 7).n, BLOCK);
	env_end(&env);
}

/* Nobody asks for parts: all is written, and nothing is remembered. */
static void test_not_asked(void **state)
{
	struct env env;

	start(&env, 1);
	assert_int_equal(file(&env, P(3) + 5, 1), HM_HINT_PARTIAL);
	claim(&env, 3);
	done(&env, 3, 0);
	assert_int_equal(hm_cache_count(env.cache, HM_C_WRITTEN), BLOCK);
	assert_int_equal(file(&env, P(3) + 6, 1), HM_HINT_PARTIAL);
	assert_int_equal(write_block(&env, 3).n, 1);
	env_end(&env);
}

/* Stores to too many pages make the whole block dirty, until it is written. */
static void test_many(void **state)
{
	struct env env;
	u32 i;

	start(&env, 2);
	for (i = 0; i < MOST; i++)
		assert_int_equal(file(&env, P(3) + i * 2, 1), HM_HINT_PARTIAL);
	assert_int_equal(file(&env, P(3) + 1, 1), 0);
	assert_int_equal(file(&env, P(3) + 3, 1), 0);
	assert_int_equal(write_block(&env, 3).n, BLOCK);
	assert_int_equal(file(&env, P(3), 1), HM_HINT_PARTIAL);
	assert_int_equal(write_block(&env, 3).n, 1);
	/* A write that covers as much. */
	assert_int_equal(file(&env, P(7), MOST), HM_HINT_PARTIAL);
	assert_int_equal(write_block(&env, 7).n, MOST);
	assert_int_equal(file(&env, P(7), MOST + 1), 0);
	assert_int_equal(write_block(&env, 7).n, BLOCK);
	env_end(&env);
}

/* Files in a row, up or down, are of a stream that begins. */
static void test_row(void **state)
{
	struct env env;
	u32 i;

	if (MOST < 17)
		skip(); /* no block is that large */
	start(&env, 2);
	for (i = 0; i < 15; i++)
		assert_int_equal(file(&env, P(3) + 40 + i, 1), HM_HINT_PARTIAL);
	assert_int_equal(file(&env, P(3) + 40 + i, 1), 0);
	for (i = 0; i < 15; i++)
		assert_int_equal(file(&env, P(7) + 40 - i, 1), HM_HINT_PARTIAL);
	assert_int_equal(file(&env, P(7) + 40 - i, 1), 0);
	env_end(&env);
}

/* A block that is stored to page by page, the first one: the next one is of the stream. */
static void test_first_of_stream(void **state)
{
	struct env env;
	u32 i;

	env_start(&env, 16, 1, BYTES(64));
	for (i = 3; i < 6; i++)
		bring(env.file, P(i), HM_ACCESS_READ);
	assert_true(file(&env, P(3), 1));
	for (i = 1; i < HM_BLOCK_PAGES; i++)
		file(&env, P(3) + i, 1);
	/* Nobody has told a stream of it; in small blocks there are not as many in a row. */
	assert_int_equal(file(&env, P(4), 1) == 0, HM_BLOCK_PAGES > 16);
	/* Not one that comes down. */
	for (i = HM_BLOCK_PAGES; i-- > 1;)
		file(&env, P(5) + i, 1);
	write_block(&env, 3);
	assert_true(write_block(&env, 4).n == HM_BLOCK_PAGES || HM_BLOCK_PAGES <= 16);
	env_end(&env);
}

/* Where a stream of stores goes on, the next block is whole from its first store on. */
static void test_stream(void **state)
{
	struct hm_plan plan;
	struct env env;
	u32 i;

	env_start(&env, 16, 1, BYTES(64));
	for (i = 3; i < 10; i++)
		bring(env.file, P(i), HM_ACCESS_READ);
	for (i = 3; i < 5; i++) {
		assert_int_equal(file(&env, P(i), 1), HM_HINT_PARTIAL);
		hm_readahead(env.file, P(i), HM_ACCESS(.size = HM_SIZE_AUTO, .write = true), &plan);
	}
	for (i = 5; i < 7; i++) {
		assert_int_equal(file(&env, P(i), 1), 0);
		hm_readahead(env.file, P(i), HM_ACCESS(.size = HM_SIZE_AUTO, .write = true), &plan);
	}
	/* The fault of the first store to this one comes to the marker, and says so before. */
	hm_readahead(env.file, P(7), AUTO, &plan);
	assert_int_equal(file(&env, P(7), 1), 0);
	/* Elsewhere it is as before. */
	assert_int_equal(file(&env, P(9) + 1, 1), HM_HINT_PARTIAL);
	env_end(&env);
}

/* Stored to while it is written: before it is taken it is in this write, after it in the next. */
static void test_meanwhile(void **state)
{
	struct taken t;
	struct env env;

	start(&env, 2);
	file(&env, P(3) + 1, 1);
	claim(&env, 3);
	assert_int_equal(file(&env, P(3) + 2, 1), HM_HINT_PARTIAL);
	t = take(&env, 3, false);
	assert_int_equal(t.n, 2);
	assert_true(has(&t, 1) && has(&t, 2));
	done(&env, 3, 0);
	/* Once more, as it is not known when it was. */
	assert_int_equal(state_of(env.file, P(3)), HM_DIRTY);
	claim(&env, 3);
	t = take(&env, 3, false);
	assert_int_equal(t.n, 2);
	assert_int_equal(file(&env, P(3) + 4, 1), HM_HINT_PARTIAL);
	done(&env, 3, 0);
	assert_int_equal(state_of(env.file, P(3)), HM_DIRTY);
	t = write_block(&env, 3);
	assert_int_equal(t.n, 1);
	assert_true(has(&t, 4));
	/* All of it is written, and a page is stored to meanwhile: that page. */
	touch(env.file, P(7), HM_ACCESS_WRITE);
	claim(&env, 7);
	assert_int_equal(take(&env, 7, false).n, BLOCK);
	assert_int_equal(file(&env, P(7) + 3, 1), HM_HINT_PARTIAL);
	done(&env, 7, 0);
	assert_int_equal(write_block(&env, 7).n, 1);
	/* And a store meanwhile that does not say where. */
	file(&env, P(7) + 3, 1);
	claim(&env, 7);
	assert_int_equal(take(&env, 7, false).n, 1);
	touch(env.file, P(7), HM_ACCESS_WRITE);
	done(&env, 7, 0);
	assert_int_equal(write_block(&env, 7).n, BLOCK);
	env_end(&env);
}

/* What could not be written is dirty still, beside what was stored to since. */
static void test_failure(void **state)
{
	struct taken t;
	struct env env;

	start(&env, 2);
	file(&env, P(3) + 1, 1);
	claim(&env, 3);
	take(&env, 3, false);
	file(&env, P(3) + 6, 1);
	done(&env, 3, -EIO);
	t = write_block(&env, 3);
	assert_int_equal(t.n, 2);
	assert_true(has(&t, 1) && has(&t, 6));
	assert_int_equal(state_of(env.file, P(3)), HM_CLEAN);
	touch(env.file, P(7), HM_ACCESS_WRITE);
	claim(&env, 7);
	take(&env, 7, false);
	file(&env, P(7) + 6, 1);
	done(&env, 7, -EIO);
	assert_int_equal(write_block(&env, 7).n, BLOCK);
	env_end(&env);
}

/* Somebody holds it, who may store to it and tell when nobody listens: all, until he has gone. */
static void test_held(void **state)
{
	struct env env;

	start(&env, 1);
	assert_int_equal(file(&env, P(3), 1), HM_HINT_PARTIAL);
	claim(&env, 3);
	assert_int_equal(take(&env, 3, true).n, 1);
	assert_int_equal(file(&env, P(3) + 1, 1), 0);
	done(&env, 3, 0);
	claim(&env, 3);
	assert_int_equal(take(&env, 3, true).n, BLOCK);
	done(&env, 3, 0);
	assert_int_equal(file(&env, P(3), 1), 0);
	assert_int_equal(write_block(&env, 3).n, BLOCK);
	assert_int_equal(file(&env, P(3), 1), HM_HINT_PARTIAL);
	env_end(&env);
}

/* It leaves, or is claimed and stays: what a device did is not known. */
static void test_claimed(void **state)
{
	struct hm_unit unit;
	struct env env;
	u64 pos = P(3);

	start(&env, 1);
	assert_int_equal(hm_invalidate(env.file, &pos, P(4), false, &unit), HM_INV_UNIT);
	hm_evict_done(&unit, HM_EVICT_DIRTY);
	assert_int_equal(file(&env, P(3), 1), 0);
	assert_int_equal(write_block(&env, 3).n, BLOCK);
	file(&env, P(3), 1);
	assert_int_equal(drop(env.file, P(3), P(4), true), 1);
	bring(env.file, P(3), HM_ACCESS_READ);
	assert_int_equal(file(&env, P(3) + 2, 1), HM_HINT_PARTIAL);
	assert_int_equal(write_block(&env, 3).n, 1);
	env_end(&env);
}

/* Of a block that holds no data, what is written does; and the room of the rest is not known. */
static void test_holes(void **state)
{
	struct env env;

	env_start(&env, 16, 1, BYTES(64));
	bring(env.file, P(1), HM_ACCESS_READ);
	hm_file_set_zero_fill(env.file, P(3), BLOCK, true);
	bring(env.file, P(3), HM_ACCESS_READ);
	assert_true(hm_is_zero_fill(env.file, P(3)) && hm_needs_alloc(env.file, P(3)));
	file(&env, P(3) + 1, 1);
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

/* A store to a few pages does not keep a huge unit in memory; a read, or a larger store, does. */
static void test_no_touch(void **state)
{
	struct env env;
	u32 i;

	start(&env, 3);
	for (i = 0; i < 8 && !hm_cache_count(env.cache, HM_C_EVICTED); i++) {
		touch(env.file, P(3), HM_ACCESS(.npages = 1));
		file(&env, P(3), 1);
		write_block(&env, 3);
		touch(env.file, P(7) + 1, HM_ACCESS_READ);
		touch(env.file, P(11), HM_ACCESS(.npages = 1));
		file(&env, P(11), MOST + 1);
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
		cmocka_unit_test(test_few),	  cmocka_unit_test(test_not_asked),
		cmocka_unit_test(test_many),	  cmocka_unit_test(test_row),
		cmocka_unit_test(test_stream),	  cmocka_unit_test(test_first_of_stream),
		cmocka_unit_test(test_meanwhile), cmocka_unit_test(test_failure),
		cmocka_unit_test(test_held),	  cmocka_unit_test(test_claimed),
		cmocka_unit_test(test_holes),	  cmocka_unit_test(test_no_touch),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
