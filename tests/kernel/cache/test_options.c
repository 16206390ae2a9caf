// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Options: the documented defaults, and an error message for each bad value. */
#include "common.h"

static void test_defaults_are_those_of_options_h(void **state)
{
	struct hm_options opts;

	memset(&opts, 0xff, sizeof(opts)); /* every field must be set */
	hm_options_init(&opts);
	assert_int_equal(opts.pool_frames, 0);
	assert_int_equal(opts.cpus, 1);
	assert_int_equal(opts.dirty_ratio, 75);
	assert_int_equal(opts.dirty_expire_ms, 5000);
	assert_int_equal(opts.evict_batch, 16);
	assert_int_equal(opts.probation_ratio, 10);
	assert_int_equal(opts.inactive_ratio, 12);
	assert_int_equal(opts.readahead_kb, 32768);
	assert_int_equal(opts.readahead_base_kb, 2048);
	assert_int_equal(opts.stream_min, 3);
	assert_int_equal(opts.promote_util, 90);
	assert_int_equal(opts.promote_interval_ms, 1000);
	opts.pool_frames = 1024;
	assert_null(hm_options_check(&opts));
	assert_int_equal(opts.free_target, 16);
}

/* 0 selects the default, except in the fields where it means never or none. */
static void test_zero_means_default_never_or_none(void **state)
{
	struct hm_options opts = { .pool_frames = 1024 };

	assert_null(hm_options_check(&opts));
	assert_int_equal(opts.cpus, 1);
	assert_int_equal(opts.dirty_ratio, 75);
	assert_int_equal(opts.evict_batch, 16);
	assert_int_equal(opts.free_target, 16);
	assert_int_equal(opts.probation_ratio, 10);
	assert_int_equal(opts.inactive_ratio, 12);
	assert_int_equal(opts.stream_min, 3);
	assert_int_equal(opts.dirty_expire_ms, 0); /* never */
	assert_int_equal(opts.promote_interval_ms, 1000);
	assert_int_equal(opts.promote_util, 0); /* never */
	assert_int_equal(opts.readahead_kb, 0); /* none */
	assert_int_equal(opts.readahead_base_kb, 0);
}

static void assert_refused(const struct hm_options *given, const char *word)
{
	struct hm_options opts = *given;
	const char *why = hm_options_check(&opts);

	assert_non_null(why);
	assert_non_null(strstr(why, word)); /* the message names the setting */
	assert_non_null(strchr(why, ' ')); /* and has more than one word */
}

static void test_values_beyond_limits_are_refused(void **state)
{
	struct hm_options opts;

	opts = options_for(0, 1);
	assert_refused(&opts, "pool");
	opts = options_for(3, 1);
	assert_refused(&opts, "at least 4");
	opts = options_for((1u << 22) + 1, 1);
	assert_refused(&opts, "8 TB");
	opts = options_for(64, 1);
	opts.dirty_ratio = 96;
	assert_refused(&opts, "dirty_ratio");
	opts = options_for(64, 1);
	opts.probation_ratio = 91;
	assert_refused(&opts, "probation_ratio");
	opts = options_for(64, 1);
	opts.inactive_ratio = 91;
	assert_refused(&opts, "inactive_ratio");
	opts = options_for(64, 1);
	opts.evict_batch = 257;
	assert_refused(&opts, "evict_batch");
	opts = options_for(64, 1);
	opts.promote_util = 101;
	assert_refused(&opts, "promote_util");
}

static void test_values_at_limits_are_accepted(void **state)
{
	struct hm_options opts = options_for(4, 1);

	opts.dirty_ratio = 95;
	opts.probation_ratio = 90;
	opts.inactive_ratio = 90;
	opts.evict_batch = 256;
	opts.promote_util = 100;
	assert_null(hm_options_check(&opts));
	assert_int_equal(opts.promote_util, 100);
	assert_int_equal(opts.dirty_ratio, 95);
	assert_int_equal(opts.probation_ratio, 90);
	assert_int_equal(opts.inactive_ratio, 90);
	assert_int_equal(opts.evict_batch, 256);
	opts = options_for(1u << 22, 1);
	assert_null(hm_options_check(&opts));
}

/*
 * More shards than frames would leave shards without frames. A free target of the whole pool
 * would keep reclaim busy for ever.
 */
static void test_shards_and_free_target_fit_the_pool(void **state)
{
	struct hm_options opts = options_for(6, 100);

	assert_null(hm_options_check(&opts));
	assert_int_equal(opts.cpus, 6);
	assert_int_equal(opts.free_target, 1);
	opts = options_for(100, 4);
	opts.free_target = 80;
	assert_null(hm_options_check(&opts));
	assert_int_equal(opts.free_target, 25);
	opts = options_for(100, 4);
	opts.free_target = 7;
	assert_null(hm_options_check(&opts));
	assert_int_equal(opts.free_target, 7);
	opts = options_for(100, 4);
	opts.evict_batch = 5;
	assert_null(hm_options_check(&opts));
	assert_int_equal(opts.free_target, 5);
}

static void test_cache_copies_its_options(void **state)
{
	struct hm_options opts = options_for(8, 2);
	struct env env;

	opts.evict_batch = 3;
	env_init(&env, &opts);
	opts.evict_batch = 99;
	assert_int_equal(hm_cache_options(env.cache)->evict_batch, 3);
	assert_int_equal(hm_cache_options(env.cache)->pool_frames, 8);
	env_end(&env);
}

/* hm_cache_bytes() covers all tables of the cache, and they do not overlap. */
static void test_tables_fit_into_cache_bytes(void **state)
{
	static const u32 frames[] = { 4, 5, 7, 64, 97 };
	static const u32 cpus[] = { 1, 2, 3, 16 };
	u32 i, j, k;

	for (i = 0; i < 5; i++) {
		for (j = 0; j < 4; j++) {
			struct hm_options opts = options_for(frames[i], cpus[j]);
			struct env env;
			u64 last;

			env_init(&env, &opts);
			env_open(&env, BYTES(frames[i] + 1));
			/* Use all frames as huge frames and then as base frames. */
			for (k = 0; k < frames[i]; k++)
				bring(env.file, P(k), HM_ACCESS_READ);
			audit(&env);
			drop(env.file, 0, P(frames[i]), true);
			for (last = 0; last < P(frames[i]); last++)
				bring(env.file, last, HM_ACCESS(.size = HM_SIZE_BASE));
			env_end(&env);
		}
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_defaults_are_those_of_options_h),
	cmocka_unit_test(test_zero_means_default_never_or_none),
	cmocka_unit_test(test_values_beyond_limits_are_refused),
	cmocka_unit_test(test_values_at_limits_are_accepted),
	cmocka_unit_test(test_shards_and_free_target_fit_the_pool),
	cmocka_unit_test(test_cache_copies_its_options),
	cmocka_unit_test(test_tables_fit_into_cache_bytes),
};

int main(void)
{
	return cmocka_run_group_tests_name("options", tests, NULL, NULL);
}
