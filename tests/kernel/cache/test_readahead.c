// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Read-ahead and write-behind: streams are seen, random access is not. */
#include "common.h"

#define KB_PER_BLOCK (HM_BLOCK_SIZE / 1024)

/* Some sizes are in KiB: windows of some blocks, whatever a block is. */
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

	/* A plan is sane whatever it is. */
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
 * A reader as the engine makes it: faults where nothing was brought in, or at
 * the marker. Counts the faults that had to wait for the device.
 */
struct reader {
	u64 next; /* page */
	u64 ahead; /* brought in below this */
	u64 mark;
	u64 misses;
	u64 plans;
	u64 longest; /* pages in one plan */
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

/* A stream waits for its first units only; the windows grow up to the cap. */
static void test_stream(void **state)
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
	/* In steps of half a window, not block by block. */
	assert_in_range(r.plans, 280 / 16, 280 / 8 + 4);
	env_end(&env);
}

static void test_stream_of_base_pages(void **state)
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

/* At the start of a store one fault less makes a stream. */
static void test_from_the_start(void **state)
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

/* stream_min is what the option says. */
static void test_stream_min(void **state)
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

/* Streams that faults of other CPUs look at. */
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

/* Random access gets nothing, ever, and is nothing that others see. */
static void test_random(void **state)
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

		do { /* chance neighbours are not random access */
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

/* Backwards is no stream that this knows: nothing is read in vain. */
static void test_backwards(void **state)
{
	struct hm_plan plan;
	struct env env;
	u32 i;

	start(&env, 16, 512, 100);
	for (i = 90; i > 10; i -= 2)
		assert_false(ask(env.file, P(i), HM_ACCESS_READ, &plan));
	env_end(&env);
}

/* The same block again and again is no stream. */
static void test_same_place(void **state)
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
 * The marker lies before the end, so that half a window is still there when
 * the next one is asked for.
 */
static void test_marker_in_time(void **state)
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
		/* Asked for with this much left, and marked before its end. */
		assert_true(ahead - r.next >= P(1));
		if (r.plans > 4)
			assert_in_range(ahead - r.next, P(6), P(9));
		assert_true(r.mark < r.ahead);
	}
	assert_true(r.plans > 20);
	env_end(&env);
}

/*
 * Asked before the marker, as by a reader whose units were evicted: enough is
 * on its way, so there is nothing to do, and the window does not grow.
 */
static void test_enough(void **state)
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

/* Windows end with the store, with nothing to mark after that. */
static void test_end_of_file(void **state)
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

/* As many streams as there are slots, interleaved, each as good as alone. */
static void test_streams_interleaved(void **state)
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

/* Random faults in between push idle streams out, not the one that runs. */
static void test_stream_among_random(void **state)
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

/* A stream that has ended is forgotten, by random faults of its own file, among others'. */
static void test_stream_is_over(void **state)
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
	/* Each is passed twice. */
	for (i = 0; i < 100; i++)
		assert_false(ask(file[i % 2], P(30 + 4 * i), HM_ACCESS_READ, &plan));
	for (i = 0; i < 2; i++) {
		assert_int_equal(streams_of(file[i]), 0);
		assert_false(ask(file[i], P(13), HM_ACCESS_READ, &plan));
	}
	env_end(&env);
}

/* A stream is the file's: whoever reads it moves, and others go on with it. */
static void test_reader_moves(void **state)
{
	struct hm_options opts = options_for(64, 4);
	struct reader r = { .next = P(1) };
	struct env env;
	u32 i;

	opts.readahead_kb = 8 * KB_PER_BLOCK;
	env_init(&env, &opts);
	env_open(&env, BYTES(512));
	for (i = 0; i < 400; i++) {
		/* But its second fault is seen as that where the first was. */
		hm_test_cpu = i < 2 ? 0 : i % 4;
		read_on(env.file, &r, HM_ACCESS_READ, BLOCK);
	}
	assert_int_equal(r.misses, 3);
	assert_int_equal(streams_of(env.file), 1);
	hm_test_cpu = 0;
	env_end(&env);
}

/* Streams of base pages and of blocks at one place are two. */
static void test_kinds_apart(void **state)
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

/* The program said SEQUENTIAL: no need to learn. Its other wishes go along. */
static void test_sequential_hint(void **state)
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

/* 0 = no read-ahead; less than a block is none for blocks. */
static void test_switched_off(void **state)
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
	/* Write-behind is another thing: it goes on. */
	start(&env, 0, 0, 64);
	for (i = 0; i < 5; i++)
		ask(env.file, P(i), HM_ACCESS_WRITE, &plan);
	assert_int_equal(plan.behind_start, P(3));
	assert_int_equal(plan.behind_end, P(4));
	env_end(&env);
}

/* A plan that could not be carried out: the stream goes on where it stopped. */
static void test_stopped(void **state)
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
	/* Nothing at all was brought in. */
	hm_readahead_stopped(env.file, &again, again.start);
	assert_true(ask(env.file, P(9), HM_ACCESS_READ, &plan));
	assert_int_equal(plan.start, P(10));
	env_end(&env);
}

/*
 * A reader that skips a little stays a stream; one that jumps away does not
 * drag the window along.
 */
static void test_skips(void **state)
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

/* What a writing stream leaves behind is written: whole blocks, each once. */
static void test_write_behind(void **state)
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
			/* Never the block that is being written to. */
			assert_true(behind <= P(i));
		}
		/* What is brought in ahead will be stored to. */
		if (plan.end > plan.start)
			assert_true(plan.access.write);
	}
	assert_int_equal(behind, P(39));
	env_end(&env);
}

/* A reader leaves nothing to write. */
static void test_reader_writes_nothing(void **state)
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

/* A writer of base pages gets a lag, so that pages are written once. */
static void test_write_behind_base(void **state)
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
	assert_in_range(writes, 8, 14); /* in pieces of 64 */
	env_end(&env);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_stream),
	cmocka_unit_test(test_stream_of_base_pages),
	cmocka_unit_test(test_from_the_start),
	cmocka_unit_test(test_stream_min),
	cmocka_unit_test(test_random),
	cmocka_unit_test(test_backwards),
	cmocka_unit_test(test_same_place),
	cmocka_unit_test(test_marker_in_time),
	cmocka_unit_test(test_enough),
	cmocka_unit_test(test_end_of_file),
	cmocka_unit_test(test_streams_interleaved),
	cmocka_unit_test(test_stream_among_random),
	cmocka_unit_test(test_stream_is_over),
	cmocka_unit_test(test_reader_moves),
	cmocka_unit_test(test_kinds_apart),
	cmocka_unit_test(test_sequential_hint),
	cmocka_unit_test(test_switched_off),
	cmocka_unit_test(test_stopped),
	cmocka_unit_test(test_skips),
	cmocka_unit_test(test_write_behind),
	cmocka_unit_test(test_reader_writes_nothing),
	cmocka_unit_test(test_write_behind_base),
};

int main(void)
{
	return cmocka_run_group_tests_name("readahead", tests, NULL, NULL);
}
