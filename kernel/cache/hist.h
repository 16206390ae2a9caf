/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Latency histograms: logarithmic buckets, each cut into 32 linear ones, so
 * that a percentile is right to 3 %. The scheme of HdrHistogram, which is not
 * packaged for Debian 12 and could not be used in a kernel.
 *
 * Recording is one atomic add, from any thread. A histogram is plain memory,
 * zeroed to start with, and may be read from another process while it grows.
 */
#ifndef HM_HIST_H
#define HM_HIST_H

#include "port.h"

#define HM_HIST_SUB_BITS 5
#define HM_HIST_SUB (1u << HM_HIST_SUB_BITS)
#define HM_HIST_EXPONENTS 36u /* up to 2^40 ns, 18 minutes; more in the last one */
#define HM_HIST_BUCKETS (HM_HIST_EXPONENTS * HM_HIST_SUB)

struct hm_hist {
	hm_atomic_t bucket[HM_HIST_BUCKETS];
	hm_atomic_t count;
	hm_atomic_t max;
};

void hm_hist_record(struct hm_hist *hist, u64 value);

/**
 * hm_hist_percentile() - the value that a share of the records do not exceed
 * @hist: the histogram
 * @per_100000: the share; 50000 is the median
 *
 * Return: the upper end of the bucket, or 0 if nothing was recorded.
 */
u64 hm_hist_percentile(const struct hm_hist *hist, u32 per_100000);

#endif /* HM_HIST_H */
