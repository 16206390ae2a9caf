/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The cost of a hint that the program has given for a whole mapping by madvise(2). The caller scans
 * the mapping now and then, and compares the accesses with the hint.
 */
#ifndef HM_STEER_HINT_H
#define HM_STEER_HINT_H

#include "policy.h"

#include <stddef.h>
#include <sys/mman.h>

/* The least time between two scans of a mapping with a hint. */
#define HINT_SCAN_NS 1000000000ull

/**
 * struct hint_counters - counters of the process
 * @faults: major faults
 * @read: pages that were read from devices
 * @mapped: pages of all steered mappings that scans have found newly mapped
 */
struct hint_counters {
	u64 faults, read, mapped;
};

/**
 * struct hint_use - accesses to a mapping while a hint covers it
 * @passes: scans of the whole mapping
 * @long_pages: pages that became mapped in runs longer than 2 MB
 * @medium_pages: pages in runs of more than 32 pages, up to 2 MB
 * @short_pages: pages in shorter runs
 * @runs: runs of up to 2 MB
 * @continued: those of @runs that begin behind a page that was mapped before
 * @faults: major faults of the process between these scans
 * @read: pages that the process has read from devices between these scans
 * @before: the counters of the process at the last scan
 * @mapped: pages of the mapping that became mapped since the last scan of the whole mapping
 * @total: faults, and pages that became mapped, so far
 * @reported: @total at the last report; 0 = none
 *
 * Pages of a huge folio become mapped together, so a run of 2 MB may be a single access under
 * MADV_HUGEPAGE.
 */
struct hint_use {
	u64 passes;
	u64 long_pages, medium_pages, short_pages;
	u64 runs, continued;
	u64 faults, read;
	struct hint_counters before;
	u64 mapped, total, reported;
};

/*
 * Add runs that became mapped since the last scan. @seen: a bit for each page that is mapped.
 * @first: the first page of the mapping
 */
void hint_count(struct hint_use *use, const struct hm_touch *runs, u32 n, const unsigned long *seen,
		u64 first);
/*
 * A scan has reached the end of the mapping. @now: the counters of the process. The first scan also
 * finds pages that were mapped before the hint, so its counts are dropped. For each page that became
 * mapped elsewhere, a fault and the read of a page are not counted: they may belong to that page.
 */
void hint_end_pass(struct hint_use *use, const struct hint_counters *now);
/* Return whether a mapping fits into memory beside others. @memory: bytes; 0 = not known */
static inline bool hint_fits(u64 bytes, u64 memory)
{
	return !memory || bytes <= memory / 2;
}

/*
 * Return whether the hint makes the program slower. @advice: the argument of madvise(2); @fits: the
 * file fits into memory, so a page that is read too early may still be used later.
 */
bool hint_hurts(const struct hint_use *use, int advice, bool fits);
/*
 * Return whether a hint that hurts is to be reported: the first time, and whenever the accesses
 * since then have doubled.
 */
bool hint_must_report(struct hint_use *use);
/*
 * Advice of one kind does not end that of the other one: 1 = order of accesses, 2 = huge pages. A
 * set of kinds is their sum.
 */
static inline unsigned int hint_kind(int advice)
{
	return advice == MADV_HUGEPAGE || advice == MADV_NOHUGEPAGE ? 2 : 1;
}

/* "MADV_RANDOM"; NULL for advice whose cost is not judged. */
const char *hint_name(int advice);
/*
 * Describe the cost in words. @window: pages that the kernel reads ahead by its own guess; 0 = not
 * known
 */
void hint_describe(const struct hint_use *use, int advice, u64 window, char *text, size_t size);

#endif /* HM_STEER_HINT_H */
