/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Scan the mappings for touched pages, pass them to the policy, and carry its answers out. */
#ifndef HM_STEER_SCAN_H
#define HM_STEER_SCAN_H

#include "look.h"
#include "policy.h"

struct scan_buffers {
	struct hm_touch runs[LOOK_RUNS];
	u64 looks[LOOK_BYTES / 8];
};

/* Begin in a new thread. Returns false if the page tables cannot be read. */
bool scan_begin(struct scan_buffers *buffers);
/*
 * Scan if there were page faults, and if the credit allows it. Returns the nanoseconds to wait
 * before the next call.
 */
u64 scan_run(u64 now);
/* A mapping is new, so scans may find something again. */
void scan_soon(void);

#endif /* HM_STEER_SCAN_H */
