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

/* --- stores and changes of the lower file ---------------------------------------------- */

/* A task that is repeating a fault needs a CPU once. It may also have been killed. */
#define STORE_TICKS (HZ / 10)

/* All changes and stores of a file use the queue of its first block. */
static wait_queue_head_t *wait_of_stores(struct hugemap_inode *hi)
{
	return hugemap_wait_of(hugemap_of(hi), hi->hfile, 0);
}

int hugemap_wait_store(struct hugemap_inode *hi, bool again)
{
	struct address_space *mapping = hi->vfs_inode.i_mapping;
	struct hugemap_data *data = hi->data;
	int err = 0;

	/* Before the lock: the holder may take it again as soon as it has released it. */
	atomic_inc(&data->stores_waiting);
	if (down_read_killable(&mapping->invalidate_lock)) {
		err = -EINTR;
	} else {
		WRITE_ONCE(data->stores_until, jiffies + STORE_TICKS);
		if (!again || !atomic_read(&data->stores_allowed))
			atomic_inc(&data->stores_allowed);
		filemap_invalidate_unlock_shared(mapping);
	}
	atomic_dec(&data->stores_waiting);
	return err;
}

void hugemap_end_store(struct hugemap_inode *hi)
{
	/* Several faults may end here that were counted once, and the reverse. */
	if (atomic_dec_if_positive(&hi->data->stores_allowed) == 0 &&
	    wq_has_sleeper(wait_of_stores(hi)))
		wake_up_all(wait_of_stores(hi));
}

void hugemap_yield_to_stores(struct hugemap_inode *hi)
{
	struct hugemap_data *data = hi->data;

	if (!atomic_read(&data->stores_waiting) && !atomic_read(&data->stores_allowed) &&
	    !atomic_read(&data->fills_waiting))
		return;
	hugemap_race_point("change: stores go first");
	wait_event_killable_timeout(*wait_of_stores(hi),
				    !atomic_read(&data->stores_waiting) &&
					    !atomic_read(&data->stores_allowed) &&
					    !atomic_read(&data->fills_waiting),
				    STORE_TICKS);
	/* The tasks of expired faults were killed, or have unmapped the file. */
	if (!time_before(jiffies, READ_ONCE(data->stores_until)))
		atomic_set(&data->stores_allowed, 0);
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
