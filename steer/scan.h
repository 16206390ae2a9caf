/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Scan the mappings for touched pages, pass the pages to the policy, and carry out its answers. */
#ifndef HM_STEER_SCAN_H
#define HM_STEER_SCAN_H

#include "look.h"
#include "policy.h"

struct map;

struct scan_buffers {
	struct hm_touch runs[LOOK_RUNS];
	u64 looks[LOOK_BYTES / 8];
};

/* Count the pages that the process has read so far. The caller is about to start the monitor. */
void scan_count_reads(void);
/* Prepare the scans in a new monitor thread. Return false if it cannot read the page tables. */
bool scan_begin(struct scan_buffers *buffers);
/* Forget the credit and the debts of the parent, in a child of fork(). */
void scan_forget(void);
/*
 * Scan if the process had page faults since the last scan, and if the credit allows it. Return the
 * nanoseconds to wait before the next call.
 */
u64 scan_run(u64 now);
/* The thread has taken events since the last call of a function here: charge the time to them. */
void scan_owe_events(void);
/* Returns whether scans or events have cost so much that a new mapping must wait. */
bool scan_is_overdrawn(void);
/*
 * The program has made a mapping since the last scan. Its pages were not read before that scan,
 * unless it @existed before it was reported.
 */
void scan_add(struct map *map, bool existed);
/* A new mapping has come, so restart frequent scans. */
void scan_soon(void);

#endif /* HM_STEER_SCAN_H */
