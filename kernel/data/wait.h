/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* wait.c: wait queues of units and frames, and wake-ups of the threads of a mount. */
#ifndef HUGEMAP_DATA_WAIT_H
#define HUGEMAP_DATA_WAIT_H

#include "data.h"

/* The queue of the tasks that wait until a unit is filled, evicted or written. */
wait_queue_head_t *hugemap_wait_of(struct hugemap_mount *mount, const struct hm_file *hfile,
				   u64 pgoff);
void hugemap_wake(struct hugemap_mount *mount, const struct hm_file *hfile, u64 pgoff);
void hugemap_wake_unit(struct hugemap_mount *mount, const struct hm_unit *unit);

/* Return true if no task fills, writes or evicts the unit. */
bool hugemap_unit_idle(struct hugemap_inode *hi, u64 pgoff);

/* Wait until no task fills or evicts the unit. -EINTR: a fatal signal. */
int hugemap_wait_unit(struct hugemap_inode *hi, u64 pgoff);

/*
 * Wait for the end of a write-back during which the page must not change, because the lower file
 * system or device computes checksums. -EINTR: a fatal signal.
 */
int hugemap_wait_stable(struct hugemap_inode *hi, u64 pgoff);

/* Wake the tasks that wait for a frame: one became free, or a unit became clean. */
void hugemap_progress(struct hugemap_mount *mount);

void hugemap_wake_writer(struct hugemap_mount *mount);
void hugemap_wake_reclaimer(struct hugemap_mount *mount);
void hugemap_wake_promoter(struct hugemap_mount *mount);

/* Wake the threads that the hints of hm_fault() name. */
void hugemap_wake_by_hints(struct hugemap_mount *mount, u32 hints);

static inline void hugemap_take_hints(struct hugemap_inode *hi, const struct hm_unit *unit)
{
	/* Most faults have none of these hints. */
	if (unit->hints & (HM_HINT_WRITEBACK | HM_HINT_RECLAIM | HM_HINT_PROMOTE))
		hugemap_wake_by_hints(hugemap_of(hi), unit->hints);
}

#endif /* HUGEMAP_DATA_WAIT_H */
