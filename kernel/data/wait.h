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

/* Wait until no task fills or evicts the unit. -ERESTARTSYS: a fatal signal. */
int hugemap_wait_unit(struct hugemap_inode *hi, u64 pgoff);

/*
 * Wait for the end of a write-back during which the page must not change, because the lower file
 * system or device computes checksums. -ERESTARTSYS: a fatal signal.
 */
int hugemap_wait_stable(struct hugemap_inode *hi, u64 pgoff);

/*
 * A store fault that has to wait does so without the fault lock. mm then repeats it, and it may
 * only try to take the invalidate_lock. A program that changes the lower file in a loop would hold
 * the lock, or wait for it, each time. So a fault that has waited is counted, and the next change
 * of the lower file yields to it for HZ / 10, before it takes the lock.
 *
 * hugemap_wait_store(): wait until no change is under way, and be counted. @again: the fault may be
 * counted already. -EINTR: a fatal signal.
 * hugemap_end_store(): the store has been allowed.
 * hugemap_yield_to_stores(): the caller is about to take the invalidate_lock exclusively, or to
 *	claim pages for an overwrite. It also yields to fills that wait for an overwrite, so the
 *	caller must not have a claim: such a fill may wait for it.
 */
int hugemap_wait_store(struct hugemap_inode *hi, bool again);
void hugemap_end_store(struct hugemap_inode *hi);
void hugemap_yield_to_stores(struct hugemap_inode *hi);

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
