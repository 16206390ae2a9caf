// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Hybrid page sizes: the cache chooses the size of the unit that a miss reads. */
#include "common.h"

#define AUTO HM_ACCESS(.size = HM_SIZE_AUTO)
#define AUTO_AND(...) HM_ACCESS(.size = HM_SIZE_AUTO, __VA_ARGS__)

/* A program that accesses pages, and its engine. */
struct reader {
	struct env env;
	u64 misses; /* faults that waited for a read */
	u64 pages; /* pages read from the file */
	u64 huge; /* blocks read as huge units */
	u64 behind; /* write-behind has written all pages before this one */
	bool refuse; /* abort promotions after the pages were claimed */
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
		/* Write-behind covers whole blocks, each once. */
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

static void test_access_overrides_chosen_size(void **state)
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
	/* Cached units keep their size. */
	assert_int_equal(read_page(&r, P(3) + 5, AUTO), BLOCK);
	assert_int_equal(read_page(&r, P(7) + 2, HM_ACCESS_READ), 1);
	assert_int_equal(read_page(&r, P(7) + 3, AUTO_AND(.order = HM_ORDER_SEQUENTIAL)), 1);
	/* The block with the end of the file is read in base pages. */
	assert_int_equal(read_page(&r, P(100), AUTO_AND(.order = HM_ORDER_SEQUENTIAL)), 1);
	end(&r);
}

static void test_requested_order_and_size_override_stream(void **state)
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
	/*
	 * A stream ends at the previous block. An access that requests random order
	 * (HM_ORDER_RANDOM) does not continue it, so it reads a page. An access without a request
	 * continues it and reads a block.
	 */
	for (i = 4; i; i--)
		hm_readahead(r.env.file, P(50) - i, AUTO, &plan);
	assert_int_equal(read_page(&r, P(50), AUTO_AND(.order = HM_ORDER_RANDOM)), 1);
	for (i = 4; i; i--)
		hm_readahead(r.env.file, P(60) - i, AUTO, &plan);
	assert_int_equal(read_page(&r, P(60), AUTO), BLOCK);
	/* A block with cached base pages stays split for now. */
	assert_int_equal(read_page(&r, P(50) + 1, AUTO_AND(.promote = true)), 1);
	end(&r);
}

/* Read-ahead outside of a stream reads base pages, unless the access requests more. */
static void test_readahead_outside_stream_reads_base_pages(void **state)
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

static void test_random_access_reads_single_pages(void **state)
{
	u32 seed = 5, i;
	struct reader r;

	start(&r, 64, 400);
	for (i = 0; i < 1000; i++) {
		seed = seed * 1664525u + 1013904223u;
		/* Even pages only: a random neighbour would look like a stream. */
		assert_int_equal(read_page(&r, (u64)(seed >> 8) % (P(400) / 2) * 2, AUTO), 1);
	}
	assert_int_equal(r.pages, r.misses);
	end(&r);
}

static void test_stride_is_no_stream(void **state)
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

static void test_stream_reads_blocks_from_second_block_on(void **state)
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
	/* stream_min misses, and maybe one at the end of the first block. Read-ahead is in time. */
	assert_in_range(r.misses, 3, 4);
	/* Only the stream's pages and the last read-ahead window are read. */
	assert_in_range(r.pages, P(140) - 3, P(140) - 3 + P(16));
	end(&r);
}

/*
 * A long stream requests the promotion of its first block before it has touched most of the
 * block. A stream of stores does not, as it may be one more record. If promotion is off, no stream
 * does.
 */
static void test_long_stream_promotes_its_first_block(void **state)
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
			/* The next fault is in the next block, which belongs to the stream. */
			assert_int_equal(read_page(&r, P(4), AUTO), BLOCK);
		}
		end(&r);
	}
}

/* The first block of a file is promoted early if its first pages are accessed in order. */
static void test_first_block_of_file_is_promoted_early(void **state)
{
	const struct {
		bool write;
		u64 before; /* a page that the test stores to first */
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

/* If a promotion fails after the stream's read-ahead was claimed for it, read-ahead is repeated. */
static void test_readahead_is_repeated_after_failed_promotion(void **state)
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

/* A stream that begins near the end of its first block does not miss more often. */
static void test_stream_from_end_of_block_misses_no_more(void **state)
{
	struct reader r;
	u64 page;

	start(&r, 64, 200);
	for (page = P(11) - 4; page < P(50); page++)
		read_page(&r, page, AUTO);
	assert_in_range(r.misses, 3, 4);
	end(&r);
}

/* Two adjacent pages are not a stream, even across the border of a block. */
static void test_two_adjacent_pages_are_no_stream(void **state)
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

/* A stream that meets a split block reads the rest of it in base pages. */
static void test_stream_reads_rest_of_split_block_in_base_pages(void **state)
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

/* Repeated faults on a page, and backward access, are not a stream. */
static void test_repeated_or_backward_faults_are_no_stream(void **state)
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

static void test_random_faults_do_not_end_stream(void **state)
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

/* Random faults inside the window of a stream do not extend its read-ahead. */
static void test_random_faults_do_not_extend_readahead(void **state)
{
	struct reader r;
	u64 page, pages;
	u32 i;

	start(&r, 128, 400);
	for (page = P(10); page < P(20); page++)
		read_page(&r, page, AUTO);
	/* A stream does not enter a block in its middle. */
	pages = r.pages;
	for (i = 0; i < 40; i++)
		read_page(&r, P(20 + i * 7 % 12) + BLOCK / 2, AUTO);
	assert_in_range(r.pages, pages, pages + 12);
	/* After eviction, random faults read single pages. */
	drop(r.env.file, 0, ~0ull, false);
	pages = r.pages;
	for (i = 0; i < 40; i++)
		read_page(&r, P(20 + i * 7 % 12) + 2 + i % (BLOCK / 4), AUTO);
	assert_in_range(r.pages, pages, pages + 40);
	/* The stream misses once in each of these blocks, and continues. */
	drop(r.env.file, 0, ~0ull, false);
	r.misses = 0;
	for (page = P(20); page < P(60); page++)
		read_page(&r, page, AUTO);
	assert_in_range(r.misses, 1, 16);
	end(&r);
}

/* Write-behind writes each block when a stream of stores has filled it. */
static void test_write_behind_writes_each_filled_block(void **state)
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

/* A block without cached pages can be read as a whole again. */
static void test_empty_split_block_is_read_whole_again(void **state)
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

/* The second and third scan of a file of twice the pool find a part of it cached. */
static void test_second_scan_of_larger_file_finds_part_cached(void **state)
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

static void test_fitting_file_stays_cached_after_larger_scan(void **state)
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

/* If no other unit is left, reclaim evicts all use-once units, and old unused read-ahead. */
static void test_all_use_once_units_leave_if_no_other_is_left(void **state)
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

static bool is_use_once(struct reader *r, u64 page)
{
	struct hm_unit unit;

	assert_int_equal(fault(r->env.file, page, HM_ACCESS_READ, &unit), HM_HIT);
	return hm_desc_of(r->env.cache, unit.frame)->use_once;
}

/* In a full pool, the units of a short stream are not use-once. */
static void test_short_stream_is_not_use_once(void **state)
{
	struct reader r;
	u64 page;

	start(&r, 32, 200);
	for (page = P(1); page < P(65); page += BLOCK)
		read_page(&r, page, HM_ACCESS_READ);
	for (page = P(100); page < P(100) + 8; page++)
		read_page(&r, page, AUTO);
	assert_false(is_use_once(&r, P(100) + 7));
	for (page = P(120); page < P(140); page++)
		read_page(&r, page, AUTO);
	assert_true(is_use_once(&r, P(140) - 1));
	end(&r);
}

/* Reclaim does not evict a new huge unit instead of older base pages, even if all are young. */
static void test_new_huge_unit_outlives_older_base_pages(void **state)
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
	cmocka_unit_test(test_access_overrides_chosen_size),
	cmocka_unit_test(test_requested_order_and_size_override_stream),
	cmocka_unit_test(test_readahead_outside_stream_reads_base_pages),
	cmocka_unit_test(test_random_access_reads_single_pages),
	cmocka_unit_test(test_stride_is_no_stream),
	cmocka_unit_test(test_stream_reads_blocks_from_second_block_on),
	cmocka_unit_test(test_long_stream_promotes_its_first_block),
	cmocka_unit_test(test_readahead_is_repeated_after_failed_promotion),
	cmocka_unit_test(test_first_block_of_file_is_promoted_early),
	cmocka_unit_test(test_stream_from_end_of_block_misses_no_more),
	cmocka_unit_test(test_two_adjacent_pages_are_no_stream),
	cmocka_unit_test(test_stream_reads_rest_of_split_block_in_base_pages),
	cmocka_unit_test(test_repeated_or_backward_faults_are_no_stream),
	cmocka_unit_test(test_random_faults_do_not_end_stream),
	cmocka_unit_test(test_random_faults_do_not_extend_readahead),
	cmocka_unit_test(test_write_behind_writes_each_filled_block),
	cmocka_unit_test(test_empty_split_block_is_read_whole_again),
	cmocka_unit_test(test_second_scan_of_larger_file_finds_part_cached),
	cmocka_unit_test(test_fitting_file_stays_cached_after_larger_scan),
	cmocka_unit_test(test_all_use_once_units_leave_if_no_other_is_left),
	cmocka_unit_test(test_short_stream_is_not_use_once),
	cmocka_unit_test(test_new_huge_unit_outlives_older_base_pages),
};

int main(void)
{
	return cmocka_run_group_tests_name("hybrid", tests, NULL, NULL);
}
