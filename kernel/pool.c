// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The frames of a mount. They are taken from the kernel once, at mount, and are
 * the hard limit of what the mount caches: PMD-order compound folios, or base
 * pages where the core has carved a slot. A frame at rest has one reference, no
 * ->mapping, and is on no list of mm. A frame whose folio was abandoned has no memory
 * until it is used again.
 *
 * A slot that turns from huge to base pages, or back, gets new memory and gives
 * the old back after an RCU grace period: a lookup may still try to get a
 * reference to it, and will find that it is not what it looked for.
 */
#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/topology.h>

#include "data.h"

#define HUGE_ORDER (PMD_SHIFT - PAGE_SHIFT)
/* A pool leaves this part of the machine's memory to everybody else. */
#define KEPT_FREE 64u
/* Slots that are taken without a look at what is left, or tried in vain. */
#define LOOK_AGAIN 16u
/* A fault, or a mount, that fails is less harm than a program that is killed for it. */
#define POOL_GFP (GFP_KERNEL | __GFP_NOWARN | __GFP_RETRY_MAYFAIL)

static_assert(HUGE_ORDER == HM_BLOCK_ORDER);

/*
 * The core's shards are the CPUs, and slots in a row belong to one after the other:
 * a CPU takes memory of its own node first.
 */
static int slot_node(const struct hugemap_mount *mount, u32 slot)
{
	int cpu = slot % hm_cache_options(mount->cache)->cpus;

	if (mount->opts.node != NUMA_NO_NODE)
		return mount->opts.node;
	return cpu_possible(cpu) ? cpu_to_mem(cpu) : first_online_node;
}

static struct folio *new_huge(int node, gfp_t more)
{
	struct page *page;

	page = alloc_pages_node(node, GFP_KERNEL | __GFP_COMP | __GFP_NOWARN | more, HUGE_ORDER);
	if (!page)
		return NULL;
	hugemap_folio_own(page_folio(page), HUGEMAP_NOBODYS, HUGEMAP_POOLS);
	return page_folio(page);
}

static void put_huge(struct folio *huge)
{
	if (!huge)
		return;
	hugemap_folio_own(huge, HUGEMAP_POOLS, HUGEMAP_NOBODYS);
	folio_put(huge);
}

static struct page *new_page(int node)
{
	struct page *page = alloc_pages_node(node, POOL_GFP, 0);

	if (page)
		hugemap_folio_own(page_folio(page), HUGEMAP_NOBODYS, HUGEMAP_POOLS);
	return page;
}

static void put_base(struct page **base)
{
	u32 i;

	for (i = 0; base && i < HM_BLOCK_PAGES; i++) {
		if (!base[i])
			continue;
		hugemap_folio_own(page_folio(base[i]), HUGEMAP_POOLS, HUGEMAP_NOBODYS);
		__free_page(base[i]);
	}
	kvfree(base);
}

static struct page **new_base(int node)
{
	struct page **base = kvcalloc(HM_BLOCK_PAGES, sizeof(*base), GFP_KERNEL);
	u32 i;

	if (!base)
		return NULL;
	for (i = 0; i < HM_BLOCK_PAGES; i++) {
		base[i] = new_page(node);
		if (!base[i]) {
			put_base(base);
			return NULL;
		}
	}
	return base;
}

struct folio *hugemap_frame_folio(struct hugemap_mount *mount, u32 frame)
{
	u64 offset = hm_frame_offset(mount->cache, frame);
	struct hugemap_slot *slot = &mount->slots[offset >> HM_BLOCK_SHIFT];
	struct page **base, *page;

	if (!hm_frame_is_base(mount->cache, frame))
		return READ_ONCE(slot->huge);
	base = READ_ONCE(slot->base);
	if (!base)
		return NULL;
	page = READ_ONCE(base[(offset >> HM_PAGE_SHIFT) & HUGEMAP_BLOCK_MASK]);
	return page ? page_folio(page) : NULL;
}

/* The core has carved a huge frame: its slot becomes base pages. */
static int carve(struct hugemap_mount *mount, struct hugemap_slot *slot)
{
	struct folio *huge = slot->huge;
	struct page **base;

	base = new_base(slot_node(mount, slot - mount->slots));
	if (!base)
		return -ENOMEM;
	WRITE_ONCE(slot->base, base);
	WRITE_ONCE(slot->huge, NULL);
	synchronize_rcu_expedited();
	put_huge(huge);
	return 0;
}

/* All base pages of a slot are free: it is a huge frame again. */
static int reform(struct hugemap_mount *mount, struct hugemap_slot *slot)
{
	struct page **base = slot->base;
	struct folio *huge;

	huge = new_huge(slot_node(mount, slot - mount->slots), __GFP_NORETRY);
	if (!huge)
		return -ENOMEM;
	WRITE_ONCE(slot->huge, huge);
	WRITE_ONCE(slot->base, NULL);
	synchronize_rcu_expedited();
	put_base(base);
	return 0;
}

/* What was in its place was abandoned. */
static int fill_page(struct hugemap_mount *mount, struct hugemap_slot *slot, u32 i)
{
	struct page *page = slot->base[i];

	if (page)
		return 0;
	page = new_page(slot_node(mount, slot - mount->slots));
	if (!page)
		return -ENOMEM;
	WRITE_ONCE(slot->base[i], page);
	return 0;
}

int hugemap_frame_prepare(struct hugemap_mount *mount, const struct hm_unit *unit)
{
	u64 offset = hm_frame_offset(mount->cache, unit->frame);
	struct hugemap_slot *slot = &mount->slots[offset >> HM_BLOCK_SHIFT];
	bool base = hm_frame_is_base(mount->cache, unit->frame);
	int err = 0;

	if (likely(hugemap_frame_folio(mount, unit->frame)))
		return 0;
	mutex_lock(&mount->carve_lock);
	if (base && !slot->base)
		err = carve(mount, slot);
	else if (base)
		err = fill_page(mount, slot, (offset >> HM_PAGE_SHIFT) & HUGEMAP_BLOCK_MASK);
	else if (!slot->huge)
		err = reform(mount, slot);
	mutex_unlock(&mount->carve_lock);
	return err;
}

void hugemap_frame_empty(struct hugemap_mount *mount, const struct hm_unit *unit)
{
	u64 offset = hm_frame_offset(mount->cache, unit->frame);
	struct hugemap_slot *slot = &mount->slots[offset >> HM_BLOCK_SHIFT];

	if (hm_frame_is_base(mount->cache, unit->frame))
		WRITE_ONCE(slot->base[(offset >> HM_PAGE_SHIFT) & HUGEMAP_BLOCK_MASK], NULL);
	else
		WRITE_ONCE(slot->huge, NULL);
}

static int take_slot(struct hugemap_mount *mount, u32 i)
{
	struct hugemap_slot *slot = &mount->slots[i];

	if (mount->opts.page == HUGEMAP_PAGE_4K)
		slot->base = new_base(slot_node(mount, i));
	else
		slot->huge = new_huge(slot_node(mount, i), __GFP_RETRY_MAYFAIL);
	return slot->huge || slot->base ? 0 : -ENOMEM;
}

static void give_slot(struct hugemap_slot *slot)
{
	put_huge(slot->huge);
	put_base(slot->base);
	slot->huge = NULL;
	slot->base = NULL;
}

/*
 * Is there memory for so many slots, and some for everybody else? To take the last
 * of it would have others killed, even if we ask so that nobody is killed for us.
 */
static bool fits(u32 slots)
{
	u64 left = totalram_pages() / KEPT_FREE, wanted = (u64)slots * HM_BLOCK_PAGES;

	return si_mem_available() >= (long)(wanted + left);
}

static int short_of_memory(struct fs_context *fc, u32 got, u32 wanted)
{
	if (!fits(wanted - got))
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

/* Give memory to parked frames. All of them or none. */
static int unpark(struct hugemap_mount *mount, u32 more, struct fs_context *fc)
{
	u32 taken = 0, failed = 0, i, n;
	int err = 0;

	for (i = 0; taken < more && i < mount->nslots && !err; i++) {
		if (!mount->slots[i].parked)
			continue;
		/* Others take some, too, meanwhile. */
		if (taken % LOOK_AGAIN == 0 && !fits(more - taken))
			break;
		if (take_slot(mount, i)) {
			/* Each try may take long. */
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
		err = short_of_memory(fc, mount->nslots - mount->nparked + taken,
				      mount->nslots - mount->nparked + more);
	for (n = 0; n < mount->nslots; n++) {
		struct hugemap_slot *slot = &mount->slots[n];

		if (!slot->parked || (!slot->huge && !slot->base))
			continue;
		if (err) {
			give_slot(slot);
			continue;
		}
		slot->parked = false;
		mount->nparked--;
		hm_frame_unpark(mount->cache, n);
	}
	return err;
}

/* Take @less frames out of the pool, as soon as they can be had. */
static int park(struct hugemap_mount *mount, u32 less, struct fs_context *fc)
{
	u32 *frames = kvmalloc_array(less, sizeof(*frames), GFP_KERNEL), n = 0;
	int err = frames ? 0 : -ENOMEM;
	unsigned long began = 0;

	while (!err && n < less) {
		frames[n] = hm_frame_park(mount->cache);
		if (frames[n] != HM_NO_FRAME_ID)
			n++;
		else
			err = hugemap_wait_frame(mount, HM_HUGE, &began);
		cond_resched();
	}
	if (err == -ENOMEM)
		hugemap_errorfc(
			fc,
			"the pool cannot shrink: what is in it is pinned, or cannot be written");
	while (n--) {
		struct hugemap_slot *slot = &mount->slots[frames[n]];

		if (err) {
			hm_frame_unpark(mount->cache, frames[n]);
			continue;
		}
		slot->parked = true;
		mount->nparked++;
	}
	if (!err) {
		u32 i;

		/* A late lookup may still try for a reference: see above. */
		synchronize_rcu();
		for (i = 0; i < mount->nslots; i++) {
			if (mount->slots[i].parked)
				give_slot(&mount->slots[i]);
		}
	}
	kvfree(frames);
	return err;
}

int hugemap_pool_resize(struct hugemap_mount *mount, u64 bytes, struct fs_context *fc)
{
	u32 now = mount->nslots - mount->nparked, wanted = bytes >> HM_BLOCK_SHIFT;

	if (wanted > mount->nslots) {
		hugemap_errorfc(
			fc,
			"the pool can grow to %u MB, twice what it was mounted with: unmount, and mount again with more",
			mount->nslots * 2);
		return -EINVAL;
	}
	if (wanted > now)
		return unpark(mount, wanted - now, fc);
	return wanted < now ? park(mount, now - wanted, fc) : 0;
}

int hugemap_pool_take(struct hugemap_mount *mount, struct fs_context *fc)
{
	u32 wanted = mount->opts.pool >> HM_BLOCK_SHIFT, i;

	mount->slots = kvcalloc(mount->nslots, sizeof(*mount->slots), GFP_KERNEL);
	if (!mount->slots)
		return -ENOMEM;
	for (i = 0; i < mount->nslots; i++) {
		u32 frame = hm_frame_park(mount->cache);

		if (WARN_ON_ONCE(frame == HM_NO_FRAME_ID))
			return -EIO;
		mount->slots[frame].parked = true;
		mount->nparked++;
	}
	return unpark(mount, wanted, fc);
}

/* The mount is gone: nobody looks up frames any more. */
void hugemap_pool_give(struct hugemap_mount *mount)
{
	u32 i;

	for (i = 0; mount->slots && i < mount->nslots; i++) {
		give_slot(&mount->slots[i]);
		cond_resched();
	}
	kvfree(mount->slots);
	mount->slots = NULL;
}
