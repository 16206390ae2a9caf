/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Latency histograms: logarithmic buckets, each divided into 32 linear ones, so that a percentile
 * is exact to 3 %. The scheme is that of HdrHistogram, which is not packaged for Debian 12 and
 * cannot be used in a kernel.
 *
 * Any thread may record a value, with atomic adds and no lock. A histogram is plain memory that
 * starts as zeroes. Another process may read it while it grows.
 */
#ifndef HM_HIST_H
#define HM_HIST_H

#include "port.h"

#define HM_HIST_SUB_BITS 5
#define HM_HIST_SUB (1u << HM_HIST_SUB_BITS)
#define HM_HIST_EXPONENTS 36u /* up to 2^40 ns, 18 minutes; the last bucket counts longer times */
#define HM_HIST_BUCKETS (HM_HIST_EXPONENTS * HM_HIST_SUB)

struct hm_hist {
	hm_atomic_t bucket[HM_HIST_BUCKETS];
	hm_atomic_t max;
};

/* Add a value to a histogram. Takes no lock. */
void hm_hist_record(struct hm_hist *hist, u64 value);
/* Add all records of another histogram, such as that of another CPU. */
void hm_hist_add(struct hm_hist *to, const struct hm_hist *from);
u64 hm_hist_count(const struct hm_hist *hist);

/**
 * hm_hist_percentile() - the value that a share of the records do not exceed
 * @hist: the histogram
 * @per_100000: the share; 50000 is the median
 *
 * Return: the upper end of the bucket, or 0 if nothing was recorded.
 */
u64 hm_hist_percentile(const struct hm_hist *hist, u32 per_100000);

#endif /* HM_HIST_H */
