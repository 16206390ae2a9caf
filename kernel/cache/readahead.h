/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Read-ahead of streams, and write-behind of streams that store. */
#ifndef HM_READAHEAD_H
#define HM_READAHEAD_H

#include "access.h"

/**
 * struct hm_plan - what a stream needs next
 * @start: the first base page to bring in: unit by unit, by hm_fault() with @access and
 *	.ahead
 * @end: the page after the last one; == @start if there is nothing to bring in
 * @mark: the page whose fault gets .mark
 * @access: for these faults
 * @behind_start: the first page that the stream has stored to and left
 * @behind_end: the page after the last one; write these back now if it is above
 *	@behind_start
 */
struct hm_plan {
	u64 start;
	u64 end;
	u64 mark;
	struct hm_access access;
	u64 behind_start;
	u64 behind_end;
};

/**
 * hm_readahead() - a fault had HM_HINT_READAHEAD
 * @file: the file
 * @pgoff: the page of the fault
 * @access: the access of the fault
 * @plan: filled in
 *
 * The cache recognises a stream by its faults alone. Each plan continues where the last one
 * of the stream ended. With HM_SIZE_AUTO a plan is the rest of a block in base pages, or
 * whole blocks.
 *
 * Return: true if there is something to do; false for random accesses.
 */
bool hm_readahead(struct hm_file *file, u64 pgoff, struct hm_access access, struct hm_plan *plan);

/**
 * hm_readahead_stopped() - the engine did not bring in all of a plan
 * @file: the file
 * @plan: the plan
 * @pgoff: the first page that was not brought in
 *
 * The stream continues from there at its next fault.
 */
void hm_readahead_stopped(struct hm_file *file, const struct hm_plan *plan, u64 pgoff);

#endif /* HM_READAHEAD_H */
