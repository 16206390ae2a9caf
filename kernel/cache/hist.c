// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "hist.h"

static u32 hm_hist_top_bit(u64 value)
{
	return 63u - (u32)__builtin_clzll(value);
}

/* Each value below HM_HIST_SUB has its own bucket. Each power of two above has 32 buckets. */
static u32 hm_hist_bucket_of(u64 value)
{
	u32 shift, bucket;

	if (value < HM_HIST_SUB)
		return (u32)value;
	shift = hm_hist_top_bit(value) - HM_HIST_SUB_BITS;
	bucket = (shift + 1) * HM_HIST_SUB + (u32)((value >> shift) - HM_HIST_SUB);
	return bucket < HM_HIST_BUCKETS ? bucket : HM_HIST_BUCKETS - 1;
}

static u64 hm_hist_bucket_end(u32 bucket)
{
	u32 shift;

	if (bucket < HM_HIST_SUB)
		return bucket;
	shift = bucket / HM_HIST_SUB - 1;
	return (((u64)bucket % HM_HIST_SUB + HM_HIST_SUB + 1) << shift) - 1;
}

static void hm_hist_raise(struct hm_hist *hist, u64 value)
{
	u64 max = hm_atomic_read(&hist->max);

	while (value > max && !hm_atomic_cas(&hist->max, &max, value))
		;
}

void hm_hist_record(struct hm_hist *hist, u64 value)
{
	hm_atomic_count(&hist->bucket[hm_hist_bucket_of(value)], 1);
	hm_hist_raise(hist, value);
}

void hm_hist_add(struct hm_hist *to, const struct hm_hist *from)
{
	u32 i;

	for (i = 0; i < HM_HIST_BUCKETS; i++)
		hm_atomic_count(&to->bucket[i], (s64)hm_atomic_read(&from->bucket[i]));
	hm_hist_raise(to, hm_atomic_read(&from->max));
}

u64 hm_hist_count(const struct hm_hist *hist)
{
	u64 total = 0;
	u32 i;

	for (i = 0; i < HM_HIST_BUCKETS; i++)
		total += hm_atomic_read(&hist->bucket[i]);
	return total;
}

u64 hm_hist_percentile(const struct hm_hist *hist, u32 per_100000)
{
	u64 max = hm_atomic_read(&hist->max);
	u64 total = hm_hist_count(hist), want, seen = 0;
	u32 i;

	if (!total)
		return 0;
	want = (total * per_100000 + 99999) / 100000;
	for (i = 0; i < HM_HIST_BUCKETS; i++) {
		seen += hm_atomic_read(&hist->bucket[i]);
		if (seen >= want && seen)
			return i < HM_HIST_BUCKETS - 1 && hm_hist_bucket_end(i) < max ?
				       hm_hist_bucket_end(i) :
				       max;
	}
	return max;
}
