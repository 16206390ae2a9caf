// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The reclaimer thread of a mount: it evicts before frames run out, frees orphans, adjusts the
 * size of the pool and releases inodes.
 */
#include <linux/freezer.h>
#include <linux/kthread.h>

#include "evict.h"
#include "orphan.h"
#include "reclaimer.h"
#include "shrink.h"

int hugemap_reclaimer(void *arg)
{
	struct hugemap_mount *mount = arg;

	set_freezable();
	while (!kthread_should_stop()) {
		long timeout;

		timeout = hugemap_orphan_reap(mount) || hugemap_pool_is_off(mount) ?
				  HZ :
				  MAX_SCHEDULE_TIMEOUT;
		wait_event_freezable_timeout(mount->reclaim_wait,
					     READ_ONCE(mount->reclaim) || kthread_should_stop(),
					     timeout);
		WRITE_ONCE(mount->reclaim, false);
		hugemap_put_idle(mount);
		hugemap_pool_adjust(mount);
		while (hugemap_evict_ahead(mount) && !kthread_should_stop())
			cond_resched();
	}
	return 0;
}
