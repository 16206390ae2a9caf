// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Hybrid page sizes: what a miss brings in where the core chooses. */
#include "common.h"

#define AUTO HM_ACCESS(.size = HM_SIZE_AUTO)
#define AUTO_AND(...) HM_ACCESS(.size = HM_SIZE_AUTO, __VA_ARGS__)

/* A program that touches pages, and the engine under it. */
struct reader {
	struct env env;
	u64 misses; /* that somebody waited for */
	u64 pages; /* read from the store */
	u64 huge; /* blocks */
	u64 behind; /* everything below this was written behind */
	bool refuse; /* what is promoted, when all of it was claimed */
};

static void start(struct reader *r, u32 frames, u64 blocks)
{
	struct hm_options opts = options_for(frames, 1);

	memset(r, 0, sizeof(*r));
	opts.readahead_kb = (u32)(16 * (HM_BLOCK_SIZE / 1024));
	env_init(&r->env, &opts);
	env_open(&r->env, BYTES(blocks) + HM_PAGE_SIZE);
}

static void count(struct reader *r, const struct hm_unit *unit)
{
	r->pages += unit->npages;
	r->huge += unit->npages > 1;
}

static void read_ahead(struct reader *r, u64 page, struct hm_access access)
{
	struct hm_promotion p = {};
	struct hm_plan plan;
	struct hm_unit unit;
	u64 at;

	if (!hm_readahead(r->env.file, page, access, &plan))
		return;
	if (plan.behind_end > plan.behind_start) {
		/* Whole blocks, once. */
		assert_int_equal(plan.behind_end % BLOCK, 0);
		assert_true(plan.behind_start >= r->behind);
		r->behind = plan.behind_end;
		write_range(r->env.file, plan.behind_start, plan.behind_end);
	}
	access = plan.access;
	access.ahead = true;
	for (at = plan.start; at < plan.end; at = unit.pgoff + unit.npages) {
		enum hm_outcome out;

		access.mark = at == plan.mark;
		out = fault(r->env.file, at, access, &unit);
		if (out == HM_NO_FRAME) {
			hm_readahead_stopped(r->env.file, &plan, at);
			break;
		}
		if (out == HM_FILL) {
			assert_false(hm_fill_done(&unit, 0, false));
			count(r, &unit);
		}
		if (r->refuse && unit.hints & HM_HINT_PROMOTE && hm_promote_pick(r->env.cache, &p))
			assert_int_equal(hm_promote_begin(&p, false), HM_PROMOTE_OK);
	}
	if (p.begun)
		hm_promote_abort(&p, HM_PROMOTE_PINNED);
}

/* Returns the size of the unit, in pages. */
static u32 read_page(struct reader *r, u64 page, struct hm_access access)
{
	struct hm_unit unit;
	enum hm_outcome out;

	while ((out = fault(r->env.file, page, access, &unit)) == HM_NO_FRAME)
		evict(r->env.cache, HM_HUGE, 1);
	if (out == HM_FILL) {
		assert_false(hm_fill_done(&unit, 0, access.write));
		count(r, &unit);
		r->misses++;
	} else {
		assert_int_equal(out, HM_HIT);
	}
	if (unit.hints & HM_HINT_READAHEAD)
		read_ahead(r, page, access);
	while (hm_reclaim_want(r->env.cache, HM_HUGE) && evict(r->env.cache, HM_HUGE, 1))
		;
	return unit.npages;
}

static void end(struct reader *r)
{
	write_all(r->env.file);
	env_end(&r->env);
}

/* What the access says otherwise wins. */
static void test_classes(void **state)
{
	struct reader r;

	start(&r, 64, 100);
	assert_int_equal(read_page(&r, P(3) + 1, HM_ACCESS_READ), BLOCK);
	assert_int_equal(read_page(&r, P(5) + 1, HM_ACCESS(.size = HM_SIZE_BASE)), 1);
	assert_int_equal(read_page(&r, P(7) + 1, AUTO), 1);
	assert_int_equal(
		read_page(&r, P(50) + 1,
			  HM_ACCESS(.size = HM_SIZE_AUTO_BASE, .order = HM_ORDER_SEQUENTIAL)),
		1);
	assert_int_equal(read_page(&r, P(70) + 1, AUTO_AND(.order = HM_ORDER_SEQUENTIAL)), BLOCK);
	/* What is there is there. */
	assert_int_equal(read_page(&r, P(3) + 5, AUTO), BLOCK);
	assert_int_equal(read_page(&r, P(7) + 2, HM_ACCESS_READ), 1);
	assert_int_equal(read_page(&r, P(7) + 3, AUTO_AND(.order = HM_ORDER_SEQUENTIAL)), 1);
	/* The block with the end of the store. */
	assert_int_equal(read_page(&r, P(100), AUTO_AND(.order = HM_ORDER_SEQUENTIAL)), 1);
	end(&r);
}

/* What the program says of the order or the size, even where a stream goes on. */
static void test_said(void **state)
{
	struct hm_plan plan;
	struct reader r;
	u32 i;

	start(&r, 64, 100);
	assert_int_equal(read_page(&r, P(3) + 1, AUTO_AND(.promote = true)), BLOCK);
	assert_int_equal(read_page(&r, P(7) + 1,
				   AUTO_AND(.promote = true, .order = HM_ORDER_RANDOM)),
			 BLOCK);
	assert_int_equal(
		read_page(&r, P(9) + 1, HM_ACCESS(.size = HM_SIZE_AUTO_BASE, .promote = true)), 1);
	/* A stream up to the block before: without a word, the next page would come as a block. */
	for (i = 4; i; i--)
		hm_readahead(r.env.file, P(50) - i, AUTO, &plan);
	assert_int_equal(read_page(&r, P(50), AUTO_AND(.order = HM_ORDER_RANDOM)), 1);
	for (i = 4; i; i--)
		hm_readahead(r.env.file, P(60) - i, AUTO, &plan);
	assert_int_equal(read_page(&r, P(60), AUTO), BLOCK);
	/* A block of which something is cached in base pages stays so, for now. */
	assert_int_equal(read_page(&r, P(50) + 1, AUTO_AND(.promote = true)), 1);
	end(&r);
}

/* Ahead of nobody's stream, a page is a page. */
static void test_ahead_alone(void **state)
{
	struct reader r;

	start(&r, 64, 100);
	read_page(&r, P(3) - 2, AUTO);
	read_page(&r, P(3) - 1, AUTO);
	assert_int_equal(bring(r.env.file, P(3), AUTO_AND(.ahead = true)).npages, 1);
	assert_int_equal(bring(r.env.file, P(4),
			       AUTO_AND(.ahead = true, .order = HM_ORDER_SEQUENTIAL))
				 .npages,
			 BLOCK);
	assert_int_equal(bring(r.env.file, P(5), AUTO_AND(.ahead = true, .promote = true)).npages,
			 BLOCK);
	end(&r);
}

/* Random access reads what it asks for. */
static void test_random(void **state)
{
	u32 seed = 5, i;
	struct reader r;

	start(&r, 64, 400);
	for (i = 0; i < 1000; i++) {
		seed = seed * 1664525u + 1013904223u;
		/* Chance neighbours are not random access. */
		assert_int_equal(read_page(&r, (u64)(seed >> 8) % (P(400) / 2) * 2, AUTO), 1);
	}
	assert_int_equal(r.pages, r.misses);
	end(&r);
}

/* A stride is not a stream, although each page is in the next block but few. */
static void test_stride(void **state)
{
	struct reader r;
	u64 page;

	start(&r, 64, 200);
	for (page = 0; page < P(200); page += 2)
		read_page(&r, page, AUTO);
	assert_int_equal(r.huge, 0);
	assert_int_equal(r.pages, P(200) / 2);
	end(&r);
}

/* Where the second block of a stream begins, it is one of blocks. */
static void test_stream(void **state)
{
	struct reader r;
	u64 page;

	start(&r, 64, 200);
	for (page = P(10) + 3; page < P(150); page++) {
		u32 npages = read_page(&r, page, AUTO);

		assert_int_equal(npages, page < P(11) ? 1 : BLOCK);
		if (page == P(11))
			assert_true(r.misses <= 4);
	}
	/* stream_min, and perhaps one where the first block ends; the rest was there in time. */
	assert_in_range(r.misses, 3, 4);
	/* Nothing is read that it does not come to, but what is ahead of it. */
	assert_in_range(r.pages, P(140) - 3, P(140) - 3 + P(16));
	end(&r);
}

/*
 * The block in which a stream begins: a long one has the rest of it promoted, before most of it
 * has been touched. Not for one that stores, which may be one more record; nor if promotion is
 * off.
 */
static void test_first_block(void **state)
{
	const struct {
		u32 util;
		bool write, promoted;
	} tries[] = {
		{ 90, false, true },
		{ 90, true, false },
		{ 0, false, false },
	};
	struct hm_promotion p;
	struct reader r;
	bool promoted;
	u64 page, i;

	for (i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
		start(&r, 64, 100);
		r.env.cache->opts.promote_util = tries[i].util;
		for (page = P(3); page < P(3) + BLOCK * 7 / 16; page++)
			read_page(&r, page, AUTO_AND(.write = tries[i].write));
		promoted = hm_promote_pick(r.env.cache, &p) && !hm_promote_begin(&p, false);
		assert_int_equal(promoted, tries[i].promoted);
		if (promoted) {
			assert_int_equal(p.unit.pgoff, P(3));
			assert_int_equal(hm_promote_claim(&p), HM_PROMOTE_OK);
			hm_promote_commit(&p);
			/* Nothing tells of its pages until the next block, which is a stream's. */
			assert_int_equal(read_page(&r, P(4), AUTO), BLOCK);
		}
		end(&r);
	}
}

/* The first one of a file that is read, or stored to, from its start: soon, if all in order. */
static void test_first_of_file(void **state)
{
	const struct {
		bool write;
		u64 before; /* a page that was stored to before */
		enum hm_promote_result why;
	} tries[] = {
		{ false, 0, HM_PROMOTE_OK },
		{ true, 0, HM_PROMOTE_OK },
		{ false, BLOCK - 1, HM_PROMOTE_DIRTY },
		{ true, BLOCK - 1, HM_PROMOTE_DIRTY },
	};
	struct hm_promotion p;
	struct reader r;
	u64 page, i;

	for (i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
		start(&r, 64, 100);
		r.env.cache->opts.promote_util = 90;
		if (tries[i].before)
			read_page(&r, tries[i].before, AUTO_AND(.write = true));
		for (page = 0; page < BLOCK / 8 + 2; page++)
			read_page(&r, page, AUTO_AND(.write = tries[i].write));
		assert_true(hm_promote_pick(r.env.cache, &p));
		assert_int_equal(hm_promote_begin(&p, false), tries[i].why);
		if (!tries[i].why) {
			assert_int_equal(p.unit.pgoff, 0);
			assert_int_equal(hm_promote_claim(&p), HM_PROMOTE_OK);
			hm_promote_commit(&p);
			assert_int_equal(read_page(&r, BLOCK, AUTO_AND(.write = tries[i].write)),
					 BLOCK);
		}
		end(&r);
	}
}

/* It is refused when what is ahead was claimed for it: that is read ahead again. */
static void test_first_block_refused(void **state)
{
	struct reader r;
	u64 page;

	start(&r, 64, 100);
	r.env.cache->opts.promote_util = 90;
	r.refuse = true;
	for (page = P(3); page < P(4); page++)
		read_page(&r, page, AUTO);
	assert_int_not_equal(hm_cache_count(r.env.cache, HM_C_NOT_PROMOTED_PINNED), 0);
	assert_in_range(r.misses, 2, BLOCK / 8 + 8);
	end(&r);
}

/* Beginning near the end of its first block, it waits no more often. */
static void test_stream_from_the_end(void **state)
{
	struct reader r;
	u64 page;

	start(&r, 64, 200);
	for (page = P(11) - 4; page < P(50); page++)
		read_page(&r, page, AUTO);
	assert_in_range(r.misses, 3, 4);
	end(&r);
}

/* Two pages in a row are none, wherever they are. */
static void test_pairs(void **state)
{
	struct reader r;
	u32 i;

	start(&r, 64, 200);
	for (i = 1; i < 60; i++) {
		read_page(&r, P(i * 3) - 1, AUTO);
		assert_int_equal(read_page(&r, P(i * 3), AUTO), 1);
	}
	assert_int_equal(r.pages, r.misses);
	end(&r);
}

/* A second stream that comes to what others have read of a block fills it up. */
static void test_stream_through_base_pages(void **state)
{
	struct reader r;
	u64 page;

	start(&r, 64, 200);
	read_page(&r, P(14) + 3, AUTO);
	for (page = P(10); page < P(20); page++)
		assert_int_equal(read_page(&r, page, AUTO),
				 page < P(11) || page >> HM_BLOCK_ORDER == 14 ? 1 : BLOCK);
	assert_in_range(r.misses, 4, 5);
	end(&r);
}

/* The same page again and again does not go forward, nor does one back. */
static void test_not_forward(void **state)
{
	struct reader r;
	u32 i;

	start(&r, 64, 200);
	for (i = 0; i < 5; i++) {
		read_page(&r, P(10), AUTO);
		drop(r.env.file, 0, ~0ull, false);
	}
	read_page(&r, P(10) + 1, AUTO);
	drop(r.env.file, 0, ~0ull, false);
	read_page(&r, P(10) + 1, AUTO);
	for (i = 5; i > 0; i--)
		read_page(&r, P(20 + i), AUTO);
	assert_int_equal(r.huge, 0);
	assert_int_equal(r.pages, r.misses);
	end(&r);
}

/* Random faults between its own do not end a stream that has much on its way. */
static void test_stream_beside_random(void **state)
{
	struct reader r;
	u32 seed = 5;
	u64 page;

	start(&r, 128, 400);
	for (page = P(10); page < P(100); page++) {
		read_page(&r, page, AUTO);
		if (page < P(20) || page % 2)
			continue;
		seed = seed * 1664525u + 1013904223u;
		read_page(&r, P(200) + (u64)(seed >> 8) % (P(200) / 2) * 2, AUTO);
	}
	assert_in_range(r.huge, 89, 89 + 16);
	end(&r);
}

/* Random faults among what it has on its way do not have more of it read. */
static void test_random_ahead(void **state)
{
	struct reader r;
	u64 page, pages;
	u32 i;

	start(&r, 128, 400);
	for (page = P(10); page < P(20); page++)
		read_page(&r, page, AUTO);
	/* Nobody comes to the middle of a block first. */
	pages = r.pages;
	for (i = 0; i < 40; i++)
		read_page(&r, P(20 + i * 7 % 12) + BLOCK / 2, AUTO);
	assert_in_range(r.pages, pages, pages + 12);
	/* What has left is read a page at a time. */
	drop(r.env.file, 0, ~0ull, false);
	pages = r.pages;
	for (i = 0; i < 40; i++)
		read_page(&r, P(20 + i * 7 % 12) + 2 + i % (BLOCK / 4), AUTO);
	assert_in_range(r.pages, pages, pages + 40);
	/* The stream itself waits for each of those once more, and goes on. */
	drop(r.env.file, 0, ~0ull, false);
	r.misses = 0;
	for (page = P(20); page < P(60); page++)
		read_page(&r, page, AUTO);
	assert_in_range(r.misses, 1, 16);
	end(&r);
}

/* What a writer leaves behind is written when its block is full. */
static void test_write_behind(void **state)
{
	struct reader r;
	u64 page;

	start(&r, 64, 200);
	for (page = P(10); page < P(30); page++)
		read_page(&r, page, AUTO_AND(.write = true));
	assert_true(r.behind >= P(28));
	assert_int_equal(hm_cache_count(r.env.cache, HM_C_WRITTEN), r.behind - P(10));
	end(&r);
}

/* A block of which nothing is left may come as a whole. */
static void test_whole_again(void **state)
{
	struct reader r;

	start(&r, 64, 200);
	read_page(&r, P(10), AUTO);
	drop(r.env.file, 0, ~0ull, false);
	assert_int_equal(read_page(&r, P(10) + 1, AUTO_AND(.order = HM_ORDER_SEQUENTIAL)), BLOCK);
	assert_int_equal(hm_cache_count(r.env.cache, HM_C_JOINS), 1);
	end(&r);
}

static void scan(struct reader *r, u64 blocks, struct hm_access access)
{
	u64 page;

	for (page = 0; page < P(blocks); page++)
		read_page(r, page, access);
}

/* A file of two pools: the second scan finds a part of it, the third one no less. */
static void test_scan_twice(void **state)
{
	struct reader r;
	u64 first, second;

	start(&r, 128, 256);
	scan(&r, 256, AUTO);
	first = r.pages;
	scan(&r, 256, AUTO);
	second = r.pages - first;
	assert_in_range(first, P(256), P(256) + 8);
	assert_in_range(second, P(256) / 2, P(256) * 3 / 4);
	scan(&r, 256, AUTO);
	assert_in_range(r.pages - first - second, P(256) / 2, P(256) * 8 / 10);
	end(&r);
}

/* A file that is not that large stays, whatever was there before. */
static void test_scan_that_fits(void **state)
{
	struct hm_file *other;
	struct reader r;
	u64 first;

	start(&r, 128, 256);
	other = env_open(&r.env, BYTES(60));
	scan(&r, 256, AUTO);
	r.env.file = other;
	scan(&r, 59, AUTO);
	first = r.pages;
	scan(&r, 59, AUTO);
	assert_in_range(r.pages - first, 0, P(2));
	r.env.file = r.env.all[0];
	end(&r);
}

/* When nothing else is left, what passes goes, all of it; and what nobody came to, with time. */
static void test_passing_goes(void **state)
{
	struct reader r;
	u32 use_once;

	start(&r, 128, 256);
	scan(&r, 250, AUTO);
	use_once = hm_list_count(&r.env.cache->shards->list[HM_HUGE][HM_Q_USE_ONCE]);
	assert_in_range(use_once, 4, 64);
	hm_cache_tick(r.env.cache, 60000);
	evict(r.env.cache, HM_HUGE, ~0u);
	assert_int_equal(hm_pool_free(r.env.cache, HM_HUGE), 128);
	end(&r);
}

static bool passes(struct reader *r, u64 page)
{
	struct hm_unit unit;

	assert_int_equal(fault(r->env.file, page, HM_ACCESS_READ, &unit), HM_HIT);
	return hm_desc_of(r->env.cache, unit.frame)->use_once;
}

/* In a pool that is full, what a short stream has brought in is as anything else. */
static void test_short_stream_stays(void **state)
{
	struct reader r;
	u64 page;

	start(&r, 32, 200);
	for (page = P(1); page < P(65); page += BLOCK)
		read_page(&r, page, HM_ACCESS_READ);
	for (page = P(100); page < P(100) + 8; page++)
		read_page(&r, page, AUTO);
	assert_false(passes(&r, P(100) + 7));
	for (page = P(120); page < P(140); page++)
		read_page(&r, page, AUTO);
	assert_true(passes(&r, P(140) - 1));
	end(&r);
}

/* A block that has just come does not leave for older base pages, however young all are. */
static void test_new_block_stays(void **state)
{
	struct hm_file *other;
	struct reader r;
	u64 page;

	start(&r, 16, 100);
	other = env_open(&r.env, BYTES(6));
	for (page = P(20); page < P(30); page++)
		read_page(&r, page, HM_ACCESS(.size = HM_SIZE_BASE));
	hm_cache_tick(r.env.cache, 500);
	r.env.file = other;
	assert_int_equal(read_page(&r, P(3), AUTO_AND(.order = HM_ORDER_SEQUENTIAL)), BLOCK);
	hm_cache_tick(r.env.cache, 510);
	r.misses = 0;
	for (page = P(3); page < P(3) + 4; page++) {
		evict(r.env.cache, HM_HUGE, 1);
		read_page(&r, page, AUTO);
	}
	assert_int_equal(r.misses, 0);
	r.env.file = r.env.all[0];
	end(&r);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_classes),
	cmocka_unit_test(test_said),
	cmocka_unit_test(test_ahead_alone),
	cmocka_unit_test(test_random),
	cmocka_unit_test(test_stride),
	cmocka_unit_test(test_stream),
	cmocka_unit_test(test_first_block),
	cmocka_unit_test(test_first_block_refused),
	cmocka_unit_test(test_first_of_file),
	cmocka_unit_test(test_stream_from_the_end),
	cmocka_unit_test(test_pairs),
	cmocka_unit_test(test_stream_through_base_pages),
	cmocka_unit_test(test_not_forward),
	cmocka_unit_test(test_stream_beside_random),
	cmocka_unit_test(test_random_ahead),
	cmocka_unit_test(test_write_behind),
	cmocka_unit_test(test_whole_again),
	cmocka_unit_test(test_scan_twice),
	cmocka_unit_test(test_scan_that_fits),
	cmocka_unit_test(test_passing_goes),
	cmocka_unit_test(test_short_stream_stays),
	cmocka_unit_test(test_new_block_stays),
};

int main(void)
{
	return cmocka_run_group_tests_name("hybrid", tests, NULL, NULL);
}
