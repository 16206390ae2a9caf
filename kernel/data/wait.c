// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Wait queues and wake-ups: tasks wait for units that are filled, evicted or written, and for
 * frames; the threads of a mount wait for work.
 */
#include <linux/hash.h>
#include <linux/sched/signal.h>
#include <linux/wait.h>

#include "wait.h"

/* --- units -------------------------------------------------------------------------- */

wait_queue_head_t *hugemap_wait_of(struct hugemap_mount *mount, const struct hm_file *hfile,
				   u64 pgoff)
{
	u64 key = (u64)(uintptr_t)hfile ^ (pgoff >> HM_BLOCK_ORDER) * 0x9e3779b97f4a7c15ull;

	return &mount->waits[hash_64(key, ilog2(HUGEMAP_WAITS))];
}

void hugemap_wake(struct hugemap_mount *mount, const struct hm_file *hfile, u64 pgoff)
{
	wait_queue_head_t *wait = hugemap_wait_of(mount, hfile, pgoff);

	/* wq_has_sleeper() has a full barrier, which pairs with the one in wait_event(). */
	if (wq_has_sleeper(wait))
		wake_up_all(wait);
}

void hugemap_wake_unit(struct hugemap_mount *mount, const struct hm_unit *unit)
{
	hugemap_wake(mount, unit->file, unit->pgoff);
}

static bool wait_unit_settled(enum hm_state state)
{
	return state != HM_FILLING && state != HM_EVICTING;
}

bool hugemap_unit_idle(struct hugemap_inode *hi, u64 pgoff)
{
	struct hm_unit unit;
	enum hm_state state = hm_peek(hi->hfile, pgoff, &unit);

	return wait_unit_settled(state) && state != HM_WRITING;
}

int hugemap_wait_unit(struct hugemap_inode *hi, u64 pgoff)
{
	wait_queue_head_t *wait = hugemap_wait_of(hugemap_of(hi), hi->hfile, pgoff);
	struct hm_unit unit;

	return wait_event_killable(*wait, wait_unit_settled(hm_peek(hi->hfile, pgoff, &unit)));
}

int hugemap_wait_stable(struct hugemap_inode *hi, u64 pgoff)
{
	wait_queue_head_t *wait = hugemap_wait_of(hugemap_of(hi), hi->hfile, pgoff);
	struct hm_unit unit;

	return wait_event_killable(*wait, likely(!hi->data->stable) ||
						  hm_peek(hi->hfile, pgoff, &unit) != HM_WRITING);
}

/* --- frames, and the threads of a mount ------------------------------------------------ */

void hugemap_progress(struct hugemap_mount *mount)
{
	WRITE_ONCE(mount->progress, jiffies);
	atomic_inc(&mount->freed);
	if (wq_has_sleeper(&mount->frames_wait))
		wake_up_all(&mount->frames_wait);
}

void hugemap_wake_writer(struct hugemap_mount *mount)
{
	if (!READ_ONCE(mount->write) && !xchg(&mount->write, true))
		wake_up(&mount->writer_wait);
}

void hugemap_wake_reclaimer(struct hugemap_mount *mount)
{
	if (!READ_ONCE(mount->reclaim) && !xchg(&mount->reclaim, true))
		wake_up(&mount->reclaim_wait);
}

void hugemap_wake_promoter(struct hugemap_mount *mount)
{
	if (!xchg(&mount->promote, true))
		wake_up(&mount->promote_wait);
}

void hugemap_wake_by_hints(struct hugemap_mount *mount, u32 hints)
{
	if (hints & HM_HINT_WRITEBACK)
		hugemap_wake_writer(mount);
	if (hints & HM_HINT_RECLAIM)
		hugemap_wake_reclaimer(mount);
	if (hints & HM_HINT_PROMOTE)
		hugemap_wake_promoter(mount);
}
