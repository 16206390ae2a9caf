/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The cost of a hint that the program has given for a whole mapping by madvise(2). The caller scans
 * the mapping now and then, and compares the accesses with the hint.
 */
#ifndef HM_STEER_HINT_H
#define HM_STEER_HINT_H

#include "policy.h"

#include <stddef.h>

/* The least time between two scans of a mapping with a hint. */
#define HINT_SCAN_NS 1000000000ull

/**
 * struct hint_use - accesses to a mapping while a hint covers it
 * @passes: scans of the whole mapping
 * @long_pages: pages that became mapped in runs longer than 2 MB
 * @medium_pages: pages in runs of more than 32 pages, up to 2 MB
 * @short_pages: pages in shorter runs
 * @runs: runs of up to 2 MB
 * @faults: major faults of the process between these scans
 * @read: pages that the process has read from devices between these scans
 * @faults_before, @read_before: the counters of the process at the last scan
 * @reported: accesses at the last report; 0 = none
 *
 * Pages of a huge folio become mapped together, so a run of 2 MB may be a single access under
 * MADV_HUGEPAGE.
 */
struct hint_use {
	u64 passes;
	u64 long_pages, medium_pages, short_pages;
	u64 runs;
	u64 faults, read;
	u64 faults_before, read_before;
	u64 reported;
};

/* Add runs that became mapped since the last scan. */
void hint_count(struct hint_use *use, const struct hm_touch *runs, u32 n);
/*
 * A scan has reached the end of the mapping. @faults, @read: the counters of the process. The first
 * scan also finds pages that were mapped before the hint, so its counts are dropped.
 */
void hint_end_pass(struct hint_use *use, u64 faults, u64 read);
/*
 * Return whether the hint makes the program slower. @advice: the argument of madvise(2); @fits: the
 * file fits into memory, so a page that is read too early may still be used later.
 */
bool hint_hurts(const struct hint_use *use, int advice, bool fits);
/*
 * Return whether a hint that hurts is to be reported: the first time, and whenever its counts have
 * doubled.
 */
bool hint_must_report(struct hint_use *use);
/* "MADV_RANDOM"; NULL for advice whose cost is not judged. */
const char *hint_name(int advice);
/*
 * Describe the cost in words. @window: pages that the kernel reads ahead by its own guess; 0 = not
 * known
 */
void hint_describe(const struct hint_use *use, int advice, u64 window, char *text, size_t size);

#endif /* HM_STEER_HINT_H */
