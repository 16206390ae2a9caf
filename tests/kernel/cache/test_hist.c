// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Latency histograms: percentiles have an error of at most 3 % for any distribution. */
#include "common.h"

#include "hist.h"

static struct hm_hist *hist_new(void)
{
	return calloc(1, sizeof(struct hm_hist));
}

/* A percentile is never below the true value, and at most 1/32 above it. */
static void close_to(u64 got, u64 want)
{
	assert_in_range(got, want, want + want / 32);
}

static void test_empty_histogram_has_percentile_0(void **state)
{
	struct hm_hist *hist = hist_new();

	assert_int_equal(hm_hist_percentile(hist, 50000), 0);
	assert_int_equal(hm_hist_percentile(hist, 100000), 0);
	free(hist);
}

static void test_percentiles_of_one_record_are_that_record(void **state)
{
	static const u64 values[] = { 0, 1, 31, 32, 33, 1000, 123456789 };
	u32 i;

	for (i = 0; i < 7; i++) {
		struct hm_hist *hist = hist_new();

		hm_hist_record(hist, values[i]);
		assert_int_equal(hm_hist_percentile(hist, 0), values[i]);
		assert_int_equal(hm_hist_percentile(hist, 1), values[i]);
		assert_int_equal(hm_hist_percentile(hist, 50000), values[i]);
		assert_int_equal(hm_hist_percentile(hist, 100000), values[i]);
		assert_int_equal(hm_atomic_read(&hist->max), values[i]);
		assert_int_equal(hm_hist_count(hist), 1);
		free(hist);
	}
}

/* Each value below 64 has its own bucket, so percentiles are exact. */
static void test_values_below_64_are_exact(void **state)
{
	struct hm_hist *hist = hist_new();
	u64 i;

	for (i = 1; i <= 60; i++)
		hm_hist_record(hist, i);
	assert_int_equal(hm_hist_percentile(hist, 50000), 30);
	assert_int_equal(hm_hist_percentile(hist, 90000), 54);
	assert_int_equal(hm_hist_percentile(hist, 100000), 60);
	free(hist);
}

static void test_percentiles_of_uniform_values(void **state)
{
	struct hm_hist *hist = hist_new();
	u64 i;

	for (i = 100000; i >= 1; i--)
		hm_hist_record(hist, i * 10);
	close_to(hm_hist_percentile(hist, 1000), 10000);
	close_to(hm_hist_percentile(hist, 50000), 500000);
	close_to(hm_hist_percentile(hist, 99000), 990000);
	close_to(hm_hist_percentile(hist, 99900), 999000);
	assert_int_equal(hm_hist_percentile(hist, 100000), 1000000);
	free(hist);
}

/* The median of two groups, and the tail. */
static void test_tail_of_two_groups_is_found(void **state)
{
	struct hm_hist *hist = hist_new();
	u32 i;

	for (i = 0; i < 9990; i++)
		hm_hist_record(hist, 700);
	for (i = 0; i < 10; i++)
		hm_hist_record(hist, 5000000);
	close_to(hm_hist_percentile(hist, 50000), 700);
	close_to(hm_hist_percentile(hist, 99900), 700);
	close_to(hm_hist_percentile(hist, 99910), 5000000);
	free(hist);
}

static void test_values_next_to_powers_of_two_are_in_right_bucket(void **state)
{
	u32 shift;
	s64 d;

	for (shift = 1; shift < 40; shift++) {
		for (d = -1; d <= 1; d++) {
			struct hm_hist *hist = hist_new();
			u64 value = (1ull << shift) + (u64)d;

			hm_hist_record(hist, value);
			hm_hist_record(hist, 1ull << 41); /* else max would hide an error */
			close_to(hm_hist_percentile(hist, 50000), value);
			free(hist);
		}
	}
}

static void test_values_beyond_last_bucket_are_counted_in_it(void **state)
{
	struct hm_hist *hist = hist_new();

	hm_hist_record(hist, ~0ull);
	hm_hist_record(hist, 1ull << 60);
	assert_int_equal(hm_atomic_read(&hist->bucket[HM_HIST_BUCKETS - 1]), 2);
	assert_int_equal(hm_hist_count(hist), 2);
	assert_int_equal(hm_atomic_read(&hist->max), ~0ull);
	assert_int_equal(hm_hist_percentile(hist, 50000), ~0ull);
	free(hist);
}

static void test_histograms_of_cpus_add_up(void **state)
{
	struct hm_hist *all = hist_new(), *sum = hist_new(), *cpu[3];
	u64 i;

	for (i = 0; i < 3; i++)
		cpu[i] = hist_new();
	for (i = 1; i <= 3000; i++) {
		hm_hist_record(all, i * i);
		hm_hist_record(cpu[i / 1000 % 3], i * i);
	}
	for (i = 0; i < 3; i++) {
		hm_hist_add(sum, cpu[i]);
		free(cpu[i]);
	}
	assert_int_equal(hm_hist_count(sum), 3000);
	assert_memory_equal(sum, all, sizeof(*all));
	free(all);
	free(sum);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(test_empty_histogram_has_percentile_0),
	cmocka_unit_test(test_percentiles_of_one_record_are_that_record),
	cmocka_unit_test(test_values_below_64_are_exact),
	cmocka_unit_test(test_percentiles_of_uniform_values),
	cmocka_unit_test(test_tail_of_two_groups_is_found),
	cmocka_unit_test(test_values_next_to_powers_of_two_are_in_right_bucket),
	cmocka_unit_test(test_values_beyond_last_bucket_are_counted_in_it),
	cmocka_unit_test(test_histograms_of_cpus_add_up),
};

int main(void)
{
	return cmocka_run_group_tests_name("hist", tests, NULL, NULL);
}
