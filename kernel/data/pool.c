// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The pool of a mount: memory that is allocated at mount. Its size is the hard limit of the cached
 * data. slot.c allocates the memory of each slot.
 */
#include <linux/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "evict.h"
#include "pool.h"
#include "slot.h"

/* A mount leaves 1/KEPT_FREE of RAM to others. */
#define KEPT_FREE 64u
/*
 * Slots that are taken before the available memory is checked again, and failures that are
 * tolerated.
 */
#define LOOK_AGAIN 16u

/*
 * If the pool took the last memory, Linux would kill other programs, even though the pool itself
 * allocates with __GFP_RETRY_MAYFAIL.
 */
bool hugemap_pool_fits(u32 slots, u32 part)
{
	u64 left = totalram_pages() / part, wanted = (u64)slots * HM_BLOCK_PAGES;

	return si_mem_available() >= (long)(wanted + left);
}

static int pool_short_of_memory(struct fs_context *fc, u32 got, u32 wanted)
{
	if (!hugemap_pool_fits(wanted - got, KEPT_FREE))
		hugemap_errorfc(
			fc,
			"no memory for a pool of %llu MB: %ld MB are available: ask for less (pool=), or free some",
			(u64)wanted * 2, max(si_mem_available(), 0l) >> (20 - PAGE_SHIFT));
	else
		hugemap_errorfc(
			fc,
			"only %llu MB of contiguous memory for a pool of %llu MB: ask for less (pool=), or free memory and write 1 to /proc/sys/vm/compact_memory",
			(u64)got * 2, (u64)wanted * 2);
	return -ENOMEM;
}

/* The slot has memory: make its frames known to the core. */
static void pool_online_one(struct hugemap_mount *mount, u32 frame)
{
	mount->slots[frame].offline = false;
	WRITE_ONCE(mount->noffline, mount->noffline - 1);
	hm_frame_online(mount->cache, frame, mount->slots[frame].split);
}

/* The core has taken the frame out of use. */
static void pool_note_offline(struct hugemap_mount *mount, u32 frame)
{
	mount->slots[frame].offline = true;
	WRITE_ONCE(mount->noffline, mount->noffline + 1);
}

/* Allocate memory for offline slots: for @more of them or for none. */
static int pool_online(struct hugemap_mount *mount, u32 more, struct fs_context *fc)
{
	u32 taken = 0, failed = 0, i, n;
	int err = 0;

	for (i = 0; taken < more && i < mount->nslots && !err; i++) {
		if (!mount->slots[i].offline)
			continue;
		/* Other tasks allocate memory at the same time, so check now and then. */
		if (taken % LOOK_AGAIN == 0 && !hugemap_pool_fits(more - taken, KEPT_FREE))
			break;
		if (hugemap_slot_take(mount, &mount->slots[i], true)) {
			/* Each failure may take long. */
			if (++failed == LOOK_AGAIN)
				break;
			continue;
		}
		taken++;
		if (fatal_signal_pending(current))
			err = -EINTR;
		cond_resched();
	}
	if (!err && taken < more)
		err = pool_short_of_memory(fc, mount->nslots - mount->noffline + taken,
					   mount->nslots - mount->noffline + more);
	for (n = 0; n < mount->nslots; n++) {
		struct hugemap_slot *slot = &mount->slots[n];

		if (!slot->offline || !hugemap_slot_has_memory(slot))
			continue;
		if (err) {
			hugemap_slot_give(slot);
			continue;
		}
		pool_online_one(mount, n);
	}
	return err;
}

/* Take @less frames out of use. Wait until that many can be freed. */
static int pool_offline(struct hugemap_mount *mount, u32 less, struct fs_context *fc)
{
	u32 *frames = kvmalloc_array(less, sizeof(*frames), GFP_KERNEL), n = 0;
	int err = frames ? 0 : -ENOMEM;
	unsigned long began = 0;

	while (!err && n < less) {
		frames[n] = hm_frame_offline(mount->cache);
		if (frames[n] != HM_NO_FRAME_ID)
			n++;
		else
			err = hugemap_wait_frame(mount, HM_HUGE, &began);
		cond_resched();
	}
	if (err == -ENOMEM)
		hugemap_errorfc(
			fc, "the pool cannot shrink: its pages are pinned, or cannot be written");
	while (n--) {
		if (err)
			hm_frame_online(mount->cache, frames[n], mount->slots[frames[n]].split);
		else
			pool_note_offline(mount, frames[n]);
	}
	if (!err) {
		u32 i;

		for (i = 0; i < mount->nslots; i++) {
			if (mount->slots[i].offline)
				hugemap_slot_give(&mount->slots[i]);
		}
	}
	kvfree(frames);
	return err;
}

int hugemap_pool_resize(struct hugemap_mount *mount, u64 bytes, struct fs_context *fc)
{
	u32 asked = mount->opts.pool >> HM_BLOCK_SHIFT, wanted = bytes >> HM_BLOCK_SHIFT, now;
	int err = 0;

	if (wanted > mount->nslots) {
		hugemap_errorfc(
			fc,
			"the pool can grow to %u MB, twice its size at mount: unmount, and mount again with more",
			mount->nslots * 2);
		return -EINVAL;
	}
	mutex_lock(&mount->pool_lock);
	now = hugemap_pool_slots(mount);
	if (wanted < now)
		err = pool_offline(mount, now - wanted, fc);
	else if (wanted > asked)
		err = pool_online(mount, wanted - now, fc);
	if (!err)
		WRITE_ONCE(mount->opts.pool, bytes);
	mutex_unlock(&mount->pool_lock);
	return err;
}

bool hugemap_pool_shed(struct hugemap_mount *mount)
{
	u32 frame = hm_frame_offline(mount->cache);

	if (frame == HM_NO_FRAME_ID)
		return false;
	pool_note_offline(mount, frame);
	hugemap_slot_give(&mount->slots[frame]);
	return true;
}

u32 hugemap_pool_take_back(struct hugemap_mount *mount, u32 more)
{
	u32 taken = 0, i;

	for (i = 0; taken < more && i < mount->nslots; i++) {
		if (!mount->slots[i].offline)
			continue;
		if (hugemap_slot_take(mount, &mount->slots[i], false))
			break;
		pool_online_one(mount, i);
		taken++;
		cond_resched();
	}
	return taken;
}

int hugemap_pool_take(struct hugemap_mount *mount, struct fs_context *fc)
{
	u32 wanted = mount->opts.pool >> HM_BLOCK_SHIFT, i;

	mount->slots = kvcalloc(mount->nslots, sizeof(*mount->slots), GFP_KERNEL);
	if (!mount->slots)
		return -ENOMEM;
	for (i = 0; i < mount->nslots; i++) {
		u32 frame = hm_frame_offline(mount->cache);

		if (WARN_ON_ONCE(frame == HM_NO_FRAME_ID))
			return -EIO;
		pool_note_offline(mount, frame);
	}
	return pool_online(mount, wanted, fc);
}

/* The mount has ended, so no lookup of a frame is under way. */
void hugemap_pool_give(struct hugemap_mount *mount)
{
	u32 i;

	for (i = 0; mount->slots && i < mount->nslots; i++) {
		hugemap_slot_end(&mount->slots[i]);
		cond_resched();
	}
	kvfree(mount->slots);
	mount->slots = NULL;
}
