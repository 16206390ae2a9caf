// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Read-ahead and write-behind: for streams, not for random access. */
#include "common.h"

#define KB_PER_BLOCK (HM_BLOCK_SIZE / 1024)

/* The options are in KiB. Convert from blocks and base pages, so that both block sizes work. */
static void start(struct env *env, u32 window_blocks, u32 window_base, u64 blocks)
{
	struct hm_options opts = options_for(64, 1);

	opts.readahead_kb = window_blocks * KB_PER_BLOCK;
	opts.readahead_base_kb = window_base * (HM_PAGE_SIZE / 1024);
	env_init(env, &opts);
	env_open(env, BYTES(blocks));
}

static bool ask(struct hm_file *file, u64 pgoff, struct hm_access access, struct hm_plan *plan)
{
	bool some = hm_readahead(file, pgoff, access, plan);

	/* Invariants of each plan. */
	assert_int_equal(some, plan->end > plan->start || plan->behind_end > plan->behind_start);
	assert_true(plan->end >= plan->start && plan->behind_end >= plan->behind_start);
	if (plan->end > plan->start) {
		assert_true(plan->end <= hm_file_npages(file));
		assert_true(plan->mark >= plan->start && plan->mark <= plan->end);
		assert_true(plan->start > pgoff);
	}
	return some;
}

/*
 * A reader with an engine: it faults on uncached pages and on the marker. Counts the faults that
 * wait for the device.
 */
struct reader {
	u64 next; /* the next page to read */
	u64 ahead; /* pages before this one were read */
	u64 mark;
	u64 misses;
	u64 plans;
	u64 longest; /* most pages in one plan */
};

static void read_on(struct hm_file *file, struct reader *r, struct hm_access access, u64 step)
{
	struct hm_plan plan;

	if (r->next >= r->ahead)
		r->misses++;
	if ((r->next >= r->ahead || r->next == r->mark) && ask(file, r->next, access, &plan)) {
		if (plan.end > plan.start) {
			assert_true(plan.start == r->ahead || r->next >= r->ahead);
			assert_int_equal((plan.end - plan.start) % step, 0);
			assert_int_equal((plan.mark - plan.start) % step, 0);
			r->plans++;
			r->ahead = plan.end;
			r->mark = plan.mark;
			if (plan.end - plan.start > r->longest)
				r->longest = plan.end - plan.start;
		}
	}
	r->next += step;
}

/* A stream waits for its first units only. Its windows grow up to the limit. */
static void test_stream_waits_for_its_first_units_only(void **state)
{
	struct reader r = { .next = P(10) };
	struct env env;
	u32 i;

	start(&env, 16, 512, 300);
	for (i = 0; i < 280; i++)
		read_on(env.file, &r, HM_ACCESS_READ, BLOCK);
	assert_int_equal(r.misses, 3); /* stream_min */
	assert_in_range(r.ahead, P(290), P(290 + 16));
	assert_in_range(r.longest, P(8), P(16));
	/* Each plan covers half a window, not one block. */
	assert_in_range(r.plans, 280 / 16, 280 / 8 + 4);
	env_end(&env);
}

static void test_stream_of_base_pages_waits_for_first_ones_only(void **state)
{
	struct reader r = { .next = 10 };
	u64 total = P(64);
	struct env env;

	start(&env, 16, 128, 70);
	while (r.next < total)
		read_on(env.file, &r, HM_ACCESS(.size = HM_SIZE_BASE), 1);
	assert_int_equal(r.misses, 3);
	assert_in_range(r.longest, 64, 128);
	env_end(&env);
}

static void test_stream_at_file_start_is_found_one_fault_earlier(void **state)
{
	struct reader r = { 0 };
	struct env env;
	u32 i;

	start(&env, 16, 512, 64);
	for (i = 0; i < 40; i++)
		read_on(env.file, &r, HM_ACCESS_READ, BLOCK);
	assert_int_equal(r.misses, 2);
	env_end(&env);
}

static void test_stream_is_found_after_stream_min_faults(void **state)
{
	u32 min;

	for (min = 1; min <= 8; min++) {
		struct hm_options opts = options_for(64, 1);
		struct reader r = { .next = P(5) };
		struct env env;
		u32 i;

		opts.stream_min = min;
		opts.readahead_kb = 16 * KB_PER_BLOCK;
		env_init(&env, &opts);
		env_open(&env, BYTES(100));
		for (i = 0; i < 40; i++)
			read_on(env.file, &r, HM_ACCESS_READ, BLOCK);
		assert_int_equal(r.misses, min);
		env_end(&env);
	}
}

/* The number of published streams, which faults of other CPUs compare with. */
static u32 streams_of(const struct hm_file *file)
{
	u32 i, n = 0;

	for (i = 0; i < HM_STREAMS; i++) {
		bool used = hm_atomic_read(&file->spans) >> i & 1;

		assert_int_equal(used, hm_atomic_read(&file->span[i]) != 0);
		n += used;
	}
	return n;
}

/* Random access gets no read-ahead, and publishes no stream. */
static void test_random_access_gets_no_readahead(void **state)
{
	struct hm_plan plan;
	struct env env;
	u32 seed = 7, i;
	u64 last[16] = { 0 };

	start(&env, 16, 512, 500);
	for (i = 0; i < 5000; i++) {
		u64 block;
		bool near;
		u32 j;

		do { /* avoid random neighbours, which look like a stream */
			seed = seed * 1664525u + 1013904223u;
			block = 2 + (seed >> 8) % 490;
			near = false;
			for (j = 0; j < 16; j++)
				near |= block + 2 >= last[j] && block <= last[j] + 2;
		} while (near);
		last[i % 16] = block;
		assert_false(ask(env.file, P(block) + seed % BLOCK, HM_ACCESS_READ, &plan));
		assert_int_equal(streams_of(env.file), 0);
	}
	env_end(&env);
}

static void test_backward_access_gets_no_readahead(void **state)
{
	struct hm_plan plan;
	struct env env;
	u32 i;

	start(&env, 16, 512, 100);
	for (i = 90; i > 10; i -= 2)
		assert_false(ask(env.file, P(i), HM_ACCESS_READ, &plan));
	env_end(&env);
}

static void test_repeated_access_gets_no_readahead(void **state)
{
	struct hm_plan plan;
	struct env env;
	u32 i;

	start(&env, 16, 512, 100);
	for (i = 0; i < 20; i++)
		assert_false(ask(env.file, P(20) + i % HM_BLOCK_PAGES, HM_ACCESS_READ, &plan));
	env_end(&env);
}

/*
 * The marker is half a window before the end of the window, so that the next one is read in time.
 */
static void test_marker_is_half_a_window_before_end(void **state)
{
	struct reader r = { .next = P(1) };
	struct env env;
	u32 i;

	start(&env, 16, 512, 500);
	for (i = 0; i < 400; i++) {
		u64 before = r.plans, ahead = r.ahead;

		read_on(env.file, &r, HM_ACCESS_READ, BLOCK);
		if (r.plans == before || r.plans == 1)
			continue;
		/* The last window has pages left; the marker is before the end of the new one. */
		assert_true(ahead - r.next >= P(1));
		if (r.plans > 4)
			assert_in_range(ahead - r.next, P(6), P(9));
		assert_true(r.mark < r.ahead);
	}
	assert_true(r.plans > 20);
	env_end(&env);
}

/*
 * A fault before the marker, as of a reader whose units were evicted, gets no plan, and the window
 * does not grow. M is the block with the marker:
 *
 *	block              4  5  6  7  8  9 10 11 12 13 14 15 16 17
 *	faults at 4 to 6   C  C  C  F  F  M  F                       the window: 4 blocks
 *	faults at 7 and 8  C  C  C  C  C  M  F                       no plan
 *	fault at 9         C  C  C  C  C  C  F  F  F  F  F  F  F  F  the next one: 8
 */
static void test_fault_before_marker_gets_no_plan(void **state)
{
	struct hm_plan plan, none;
	struct env env;

	start(&env, 16, 512, 100);
	ask(env.file, P(4), HM_ACCESS_READ, &plan);
	ask(env.file, P(5), HM_ACCESS_READ, &plan);
	assert_true(ask(env.file, P(6), HM_ACCESS_READ, &plan));
	assert_int_equal(plan.end, P(11)); /* 4 blocks */
	assert_int_equal(plan.mark, P(9));
	assert_false(ask(env.file, P(7), HM_ACCESS_READ, &none));
	assert_false(ask(env.file, P(8), HM_ACCESS_READ, &none));
	assert_true(ask(env.file, plan.mark, HM_ACCESS_READ, &plan));
	assert_int_equal(plan.start, P(11));
	assert_int_equal(plan.end, P(18)); /* 8 blocks */
	env_end(&env);
}

/* A window ends at the end of the file. The last one has no marker. */
static void test_window_ends_at_end_of_file(void **state)
{
	struct hm_plan plan;
	struct env env;
	u32 i;

	start(&env, 16, 512, 6);
	hm_file_set_size(env.file, BYTES(5) + 3 * HM_PAGE_SIZE);
	for (i = 1; i < 3; i++)
		assert_false(ask(env.file, P(i), HM_ACCESS_READ, &plan));
	assert_true(ask(env.file, P(3), HM_ACCESS_READ, &plan));
	assert_int_equal(plan.start, P(4));
	assert_int_equal(plan.end, P(5) + 3);
	assert_int_equal(plan.mark, plan.end);
	assert_false(ask(env.file, P(4), HM_ACCESS_READ, &plan));
	assert_false(ask(env.file, P(5), HM_ACCESS_READ, &plan));
	env_end(&env);
}

/* HM_STREAMS interleaved streams miss no more than single ones. */
static void test_interleaved_streams_miss_no_more_than_one(void **state)
{
	struct reader r[HM_STREAMS] = { 0 };
	struct env env;
	u32 i, j;

	start(&env, 8, 512, 512);
	for (j = 0; j < HM_STREAMS; j++)
		r[j].next = P(1 + j * 31);
	for (i = 0; i < 22; i++)
		for (j = 0; j < HM_STREAMS; j++)
			read_on(env.file, &r[j], HM_ACCESS_READ, BLOCK);
	for (j = 0; j < HM_STREAMS; j++)
		assert_int_equal(r[j].misses, 3);
	env_end(&env);
}

static void test_random_faults_do_not_retire_active_stream(void **state)
{
	struct reader r = { .next = P(1) };
	struct env env;
	u32 i, seed = 3;

	start(&env, 8, 512, 512);
	for (i = 0; i < 100; i++) {
		struct hm_plan plan;

		read_on(env.file, &r, HM_ACCESS_READ, BLOCK);
		seed = seed * 1664525u + 1013904223u;
		ask(env.file, P(150 + (seed >> 8) % 350 / 5 * 5), HM_ACCESS_READ, &plan);
	}
	assert_int_equal(r.misses, 3);
	env_end(&env);
}

/* Random faults on a file retire a stream of this file that has ended. */
static void test_random_faults_retire_ended_stream(void **state)
{
	struct hm_file *file[2];
	struct hm_plan plan;
	struct env env;
	u32 i, j;

	start(&env, 8, 512, 512);
	file[0] = env.file;
	file[1] = env_open(&env, BYTES(512));
	for (i = 0; i < 2; i++) {
		for (j = 10; j < 13; j++)
			ask(file[i], P(j), HM_ACCESS_READ, &plan);
		assert_int_equal(streams_of(file[i]), 1);
		assert_true(plan.end > P(13));
	}
	/* The faults alternate between the files. */
	for (i = 0; i < 100; i++)
		assert_false(ask(file[i % 2], P(30 + 4 * i), HM_ACCESS_READ, &plan));
	for (i = 0; i < 2; i++) {
		assert_int_equal(streams_of(file[i]), 0);
		assert_false(ask(file[i], P(13), HM_ACCESS_READ, &plan));
	}
	env_end(&env);
}

/* A stream belongs to the file: it continues when its reader changes the CPU. */
static void test_stream_continues_when_reader_changes_cpu(void **state)
{
	struct hm_options opts = options_for(64, 4);
	struct reader r = { .next = P(1) };
	struct env env;
	u32 i;

	opts.readahead_kb = 8 * KB_PER_BLOCK;
	env_init(&env, &opts);
	env_open(&env, BYTES(512));
	for (i = 0; i < 400; i++) {
		/* The second fault must be on the CPU of the first one. */
		hm_test_cpu = i < 2 ? 0 : i % 4;
		read_on(env.file, &r, HM_ACCESS_READ, BLOCK);
	}
	assert_int_equal(r.misses, 3);
	assert_int_equal(streams_of(env.file), 1);
	hm_test_cpu = 0;
	env_end(&env);
}

static void test_streams_of_pages_and_blocks_are_separate(void **state)
{
	struct hm_plan plan;
	struct env env;

	start(&env, 16, 512, 64);
	assert_false(ask(env.file, P(4), HM_ACCESS_READ, &plan));
	assert_false(ask(env.file, P(5), HM_ACCESS_READ, &plan));
	assert_false(ask(env.file, P(6), HM_ACCESS(.size = HM_SIZE_BASE), &plan));
	assert_true(ask(env.file, P(6), HM_ACCESS_READ, &plan));
	assert_int_equal(plan.start, P(7));
	env_end(&env);
}

/* POSIX_FADV_SEQUENTIAL starts read-ahead at the first fault. The plan keeps the priority. */
static void test_fadv_sequential_starts_readahead_at_first_fault(void **state)
{
	struct hm_plan plan;
	struct env env;

	start(&env, 16, 512, 64);
	assert_true(ask(env.file, P(7),
			HM_ACCESS(.order = HM_ORDER_SEQUENTIAL, .priority = HM_PRIORITY_LOW),
			&plan));
	assert_int_equal(plan.start, P(8));
	assert_true(plan.end > plan.start);
	assert_int_equal(plan.access.priority, HM_PRIORITY_LOW);
	assert_int_equal(plan.access.order, HM_ORDER_LEARN);
	env_end(&env);
}

static void test_window_of_0_turns_readahead_off(void **state)
{
	struct hm_plan plan;
	struct env env;
	u32 i;

	start(&env, 0, 0, 64);
	for (i = 0; i < 20; i++) {
		assert_false(ask(env.file, P(i), HM_ACCESS(.order = HM_ORDER_SEQUENTIAL), &plan));
		assert_false(ask(env.file, P(30) + i, HM_ACCESS(.size = HM_SIZE_BASE), &plan));
	}
	env_end(&env);
	/* Write-behind stays on. */
	start(&env, 0, 0, 64);
	for (i = 0; i < 5; i++)
		ask(env.file, P(i), HM_ACCESS_WRITE, &plan);
	assert_int_equal(plan.behind_start, P(3));
	assert_int_equal(plan.behind_end, P(4));
	env_end(&env);
}

/* If the engine cannot complete a plan, the next plan starts where it stopped. */
static void test_next_plan_starts_where_last_one_stopped(void **state)
{
	struct hm_plan plan, again;
	struct env env;

	start(&env, 16, 512, 64);
	ask(env.file, P(4), HM_ACCESS_READ, &plan);
	ask(env.file, P(5), HM_ACCESS_READ, &plan);
	assert_true(ask(env.file, P(6), HM_ACCESS_READ, &plan));
	assert_int_equal(plan.start, P(7));
	hm_readahead_stopped(env.file, &plan, P(8));
	assert_true(ask(env.file, P(8), HM_ACCESS_READ, &again));
	assert_int_equal(again.start, P(9));
	assert_true(again.end >= plan.end);
	/* The engine read no page of the plan. */
	hm_readahead_stopped(env.file, &again, again.start);
	assert_true(ask(env.file, P(9), HM_ACCESS_READ, &plan));
	assert_int_equal(plan.start, P(10));
	env_end(&env);
}

/*
 * A stream may skip a few blocks. A jump to another place does not move its window.
 */
static void test_stream_may_skip_blocks_but_not_jump(void **state)
{
	struct hm_plan plan;
	struct env env;

	start(&env, 16, 512, 200);
	ask(env.file, P(4), HM_ACCESS_READ, &plan);
	ask(env.file, P(5), HM_ACCESS_READ, &plan);
	assert_true(ask(env.file, P(6), HM_ACCESS_READ, &plan));
	assert_true(ask(env.file, plan.mark + BLOCK, HM_ACCESS_READ, &plan));
	assert_false(ask(env.file, P(150), HM_ACCESS_READ, &plan));
	assert_false(ask(env.file, P(150) + 1, HM_ACCESS_READ, &plan));
	env_end(&env);
}

/* Write-behind writes the blocks that a stream of stores has left, each once. */
static void test_write_behind_writes_each_left_block_once(void **state)
{
	struct hm_plan plan;
	struct env env;
	u64 behind = P(3);
	u32 i;

	start(&env, 16, 512, 64);
	for (i = 3; i < 40; i++) {
		ask(env.file, P(i), HM_ACCESS_WRITE, &plan);
		if (plan.behind_end > plan.behind_start) {
			assert_int_equal(plan.behind_start, behind);
			behind = plan.behind_end;
			/* It never includes the block that the stream stores to. */
			assert_true(behind <= P(i));
		}
		/* Read-ahead is for stores, too. */
		if (plan.end > plan.start)
			assert_true(plan.access.write);
	}
	assert_int_equal(behind, P(39));
	env_end(&env);
}

static void test_stream_of_reads_gets_no_write_behind(void **state)
{
	struct hm_plan plan;
	struct env env;
	u32 i;

	start(&env, 16, 512, 64);
	for (i = 3; i < 40; i++) {
		ask(env.file, P(i), HM_ACCESS_READ, &plan);
		assert_int_equal(plan.behind_start, plan.behind_end);
		assert_false(plan.access.write);
	}
	env_end(&env);
}

/* Write-behind of base pages lags behind the stream, so that each page is written once. */
static void test_write_behind_of_base_pages_lags_behind(void **state)
{
	struct hm_plan plan;
	struct env env;
	u64 behind = 5;
	u32 i, writes = 0;

	start(&env, 16, 512, 128);
	for (i = 5; i < 900; i++) {
		ask(env.file, i, HM_ACCESS(.size = HM_SIZE_BASE, .write = true), &plan);
		if (plan.behind_end == plan.behind_start)
			continue;
		assert_int_equal(plan.behind_start, behind);
		behind = plan.behind_end;
		assert_true(behind + 64 <= i);
		writes++;
	}
	assert_in_range(behind, 900 - 3 * 64, 900 - 64);
	assert_in_range(writes, 8, 14); /* 64 pages each */
	env_end(&env);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_stream_waits_for_its_first_units_only),
	cmocka_unit_test(test_stream_of_base_pages_waits_for_first_ones_only),
	cmocka_unit_test(test_stream_at_file_start_is_found_one_fault_earlier),
	cmocka_unit_test(test_stream_is_found_after_stream_min_faults),
	cmocka_unit_test(test_random_access_gets_no_readahead),
	cmocka_unit_test(test_backward_access_gets_no_readahead),
	cmocka_unit_test(test_repeated_access_gets_no_readahead),
	cmocka_unit_test(test_marker_is_half_a_window_before_end),
	cmocka_unit_test(test_fault_before_marker_gets_no_plan),
	cmocka_unit_test(test_window_ends_at_end_of_file),
	cmocka_unit_test(test_interleaved_streams_miss_no_more_than_one),
	cmocka_unit_test(test_random_faults_do_not_retire_active_stream),
	cmocka_unit_test(test_random_faults_retire_ended_stream),
	cmocka_unit_test(test_stream_continues_when_reader_changes_cpu),
	cmocka_unit_test(test_streams_of_pages_and_blocks_are_separate),
	cmocka_unit_test(test_fadv_sequential_starts_readahead_at_first_fault),
	cmocka_unit_test(test_window_of_0_turns_readahead_off),
	cmocka_unit_test(test_next_plan_starts_where_last_one_stopped),
	cmocka_unit_test(test_stream_may_skip_blocks_but_not_jump),
	cmocka_unit_test(test_write_behind_writes_each_left_block_once),
	cmocka_unit_test(test_stream_of_reads_gets_no_write_behind),
	cmocka_unit_test(test_write_behind_of_base_pages_lags_behind),
};

int main(void)
{
	return cmocka_run_group_tests_name("readahead", tests, NULL, NULL);
}
