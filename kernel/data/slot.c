// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The memory of a slot: a PMD-order compound folio, or 512 base pages if the core has split the
 * huge frame. The folio of an unused frame has one reference and no ->mapping, and is on no list of
 * mm. A frame whose folio was orphaned has no memory until it is used again.
 *
 * If possible, base pages are allocated as one block and then split. So a slot that changes its
 * page size returns as much contiguous memory to mm as it takes, and the pool keeps its huge frames
 * on a fragmented machine.
 *
 * Freed memory is free at once. A lookup may still try to get a reference to the folio, as in the
 * page cache: it fails, or the lookup then finds that the folio holds another page. The lookup also
 * reads the table of base pages, so that table stays with the slot until the mount has ended.
 */
#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/topology.h>

#include "owner.h"
#include "slot.h"

static_assert(HUGEMAP_MM_BLOCK_ORDER == HM_BLOCK_ORDER);

/* A failed fault or mount does less harm than a program that the OOM killer ends. */
#define GFP_POOL (GFP_KERNEL | __GFP_NOWARN | __GFP_RETRY_MAYFAIL)
/*
 * Three ways to allocate a block: from free memory only; the same, and kswapd is woken to free some
 * for the next time; or with one attempt to reclaim and compact.
 */
#define GFP_POOL_NORECLAIM ((GFP_KERNEL | __GFP_NOWARN) & ~__GFP_RECLAIM)
#define GFP_POOL_KSWAPD_ONLY ((GFP_KERNEL | __GFP_NOWARN) & ~__GFP_DIRECT_RECLAIM)
#define GFP_POOL_NORETRY (GFP_KERNEL | __GFP_NOWARN | __GFP_NORETRY)

/* With page=auto one of this many slots starts as base pages, the others as huge folios. */
#define BASE_BACKED_RATIO 19u

/*
 * The shards of the core are the CPUs, and adjacent slots belong to successive shards. So a CPU
 * first takes memory of its own node.
 */
static int slot_node(const struct hugemap_mount *mount, const struct hugemap_slot *slot)
{
	int cpu = (slot - mount->slots) % hm_cache_options(mount->cache)->cpus;

	if (mount->opts.node != NUMA_NO_NODE)
		return mount->opts.node;
	return cpu_possible(cpu) ? cpu_to_mem(cpu) : first_online_node;
}

/* --- huge ------------------------------------------------------------------------- */

static struct folio *slot_new_huge(int node, gfp_t gfp)
{
	struct folio *huge = __folio_alloc_node(gfp, HM_BLOCK_ORDER, node);

	if (huge)
		hugemap_folio_own(huge, HUGEMAP_OWNER_NONE, HUGEMAP_OWNER_POOL);
	return huge;
}

static void slot_put_huge(struct folio *huge)
{
	if (!huge)
		return;
	hugemap_folio_own(huge, HUGEMAP_OWNER_POOL, HUGEMAP_OWNER_NONE);
	hugemap_mm_put_folio(huge);
}

/* --- base pages ------------------------------------------------------------------- */

static struct page *slot_new_page(int node, gfp_t gfp)
{
	struct folio *folio = __folio_alloc_node(gfp, 0, node);

	if (!folio)
		return NULL;
	hugemap_folio_own(folio, HUGEMAP_OWNER_NONE, HUGEMAP_OWNER_POOL);
	return folio_page(folio, 0);
}

/* Allocate the base pages of a slot as one block. */
static bool slot_take_contiguous(struct hugemap_slot *slot, int node, gfp_t gfp)
{
	struct page *page = alloc_pages_node(node, gfp, HM_BLOCK_ORDER);
	u32 i;

	if (!page)
		return false;
	hugemap_mm_split_block(page);
	/*
	 * Set this before the pages: each page may be used, and orphaned, as soon as it is in the
	 * table.
	 */
	WRITE_ONCE(slot->contiguous, true);
	for (i = 0; i < HM_BLOCK_PAGES; i++) {
		hugemap_folio_own(page_folio(page + i), HUGEMAP_OWNER_NONE, HUGEMAP_OWNER_POOL);
		/* Release: a lookup that sees the page sees its owner. */
		smp_store_release(&slot->base[i], page + i);
	}
	return true;
}

static void slot_put_base(struct hugemap_slot *slot)
{
	struct page *first = slot->base[0];
	u32 i;

	for (i = 0; i < HM_BLOCK_PAGES; i++) {
		if (slot->base[i])
			hugemap_folio_own(page_folio(slot->base[i]), HUGEMAP_OWNER_POOL,
					  HUGEMAP_OWNER_NONE);
	}
	if (slot->contiguous && hugemap_mm_merge_block(first)) {
		for (i = 0; i < HM_BLOCK_PAGES; i++)
			WRITE_ONCE(slot->base[i], NULL);
		__free_pages(first, HM_BLOCK_ORDER);
		return;
	}
	for (i = 0; i < HM_BLOCK_PAGES; i++) {
		struct page *page = slot->base[i];

		WRITE_ONCE(slot->base[i], NULL);
		if (page)
			__free_page(page);
	}
}

/* Allocate a base page that is missing, or that was orphaned. */
static int slot_fill_page(struct hugemap_slot *slot, u32 i, int node, gfp_t gfp)
{
	struct page *page;

	if (slot->base[i])
		return 0;
	page = slot_new_page(node, gfp);
	if (!page)
		return -ENOMEM;
	smp_store_release(&slot->base[i], page);
	return 0;
}

static int slot_take_scattered(struct hugemap_slot *slot, int node, gfp_t gfp)
{
	int err = 0;
	u32 i;

	for (i = 0; i < HM_BLOCK_PAGES && !err; i++)
		err = slot_fill_page(slot, i, node, gfp);
	return err;
}

static int slot_need_table(struct hugemap_slot *slot)
{
	struct page **base;

	if (slot->base)
		return 0;
	base = kvcalloc(HM_BLOCK_PAGES, sizeof(*base), GFP_POOL);
	if (!base)
		return -ENOMEM;
	/* Release: a lookup that sees the table sees that it is empty. */
	smp_store_release(&slot->base, base);
	return 0;
}

/* --- a slot ------------------------------------------------------------------------- */

bool hugemap_slot_has_memory(const struct hugemap_slot *slot)
{
	return slot->huge || slot->split;
}

/*
 * With page=auto the first fill may need base pages or a block, so both kinds are ready. It is
 * expensive to exchange the memory of a split frame where mm clears pages at allocation
 * (init_on_alloc). BASE_BACKED_RATIO is a prime, so that the base pages are not all of the same
 * CPU.
 */
static bool slot_begins_as_pages(const struct hugemap_mount *mount, const struct hugemap_slot *slot)
{
	if (mount->opts.page != HUGEMAP_PAGE_AUTO)
		return mount->opts.page == HUGEMAP_PAGE_4K;
	return (slot - mount->slots) % BASE_BACKED_RATIO == BASE_BACKED_RATIO - 1;
}

int hugemap_slot_take(struct hugemap_mount *mount, struct hugemap_slot *slot, bool insist)
{
	gfp_t gfp = insist ? GFP_POOL : GFP_POOL_KSWAPD_ONLY;
	int node = slot_node(mount, slot), err;

	if (!slot_begins_as_pages(mount, slot)) {
		smp_store_release(&slot->huge, slot_new_huge(node, gfp));
		return slot->huge ? 0 : -ENOMEM;
	}
	if (slot_need_table(slot))
		return -ENOMEM;
	slot->split = true;
	if (slot_take_contiguous(slot, node, insist ? GFP_POOL_NORETRY : GFP_POOL_KSWAPD_ONLY))
		return 0;
	err = slot_take_scattered(slot, node, gfp);
	if (err)
		hugemap_slot_give(slot);
	return err;
}

void hugemap_slot_give(struct hugemap_slot *slot)
{
	struct folio *huge = slot->huge;

	WRITE_ONCE(slot->huge, NULL);
	slot_put_huge(huge);
	if (slot->split)
		slot_put_base(slot);
	slot->split = false;
	slot->contiguous = false;
}

void hugemap_slot_end(struct hugemap_slot *slot)
{
	hugemap_slot_give(slot);
	kvfree(slot->base);
	slot->base = NULL;
}

/*
 * The core has split a huge frame: the slot becomes base pages. If there is no other free block,
 * free the slot's own and allocate it again at once. Pages that cannot be allocated now are
 * allocated when their frames are used.
 */
static int slot_split(struct hugemap_slot *slot, int node)
{
	struct folio *huge = slot->huge;
	bool contiguous;

	if (slot_need_table(slot))
		return -ENOMEM;
	WRITE_ONCE(slot->huge, NULL);
	hugemap_race_point("carve: not huge, without base pages");
	slot->split = true;
	contiguous = slot_take_contiguous(slot, node, GFP_POOL_NORECLAIM);
	slot_put_huge(huge);
	if (!contiguous && !slot_take_contiguous(slot, node, GFP_POOL_NORECLAIM) &&
	    !slot_take_contiguous(slot, node, GFP_POOL_NORETRY))
		slot_take_scattered(slot, node, GFP_POOL);
	return 0;
}

/* All base pages of a slot are unused: make it a huge frame again, in the same way. */
static int slot_reform(struct hugemap_slot *slot, int node)
{
	struct folio *huge = slot_new_huge(node, GFP_POOL_NORECLAIM);

	if (!huge && slot->split && !slot->contiguous) {
		/* Scattered pages form no block when they are freed, so do not free them first. */
		huge = slot_new_huge(node, GFP_POOL_NORETRY);
		if (!huge)
			return -ENOMEM;
	}
	hugemap_slot_give(slot);
	hugemap_race_point("reform: no base pages, not huge");
	if (!huge)
		huge = slot_new_huge(node, GFP_POOL_NORECLAIM) ?:
			       slot_new_huge(node, GFP_POOL_NORETRY);
	smp_store_release(&slot->huge, huge);
	return huge ? 0 : -ENOMEM;
}

/* --- frames -------------------------------------------------------------------------- */

/*
 * Return the slot of a frame, and the page in it. This repeats the order of hm_frame_offset(),
 * because it is called several times for each fill and eviction: huge frames have the first
 * numbers, and base frames follow in the order of their pages.
 */
static struct hugemap_slot *slot_of(const struct hugemap_mount *mount, u32 frame, u32 *page)
{
	u32 base = frame - mount->nslots;

	if (frame < mount->nslots) {
		*page = 0;
		return &mount->slots[frame];
	}
	*page = base & HUGEMAP_BLOCK_MASK;
	return &mount->slots[base >> HM_BLOCK_ORDER];
}

struct folio *hugemap_frame_folio(struct hugemap_mount *mount, u32 frame)
{
	struct hugemap_slot *slot;
	struct page **base, *page;
	u32 i;

	if (frame < mount->nslots)
		return READ_ONCE(mount->slots[frame].huge);
	slot = slot_of(mount, frame, &i);
	base = READ_ONCE(slot->base);
	if (!base)
		return NULL;
	page = READ_ONCE(base[i]);
	return page ? page_folio(page) : NULL;
}

int hugemap_frame_prepare(struct hugemap_mount *mount, const struct hm_unit *unit)
{
	bool base = hm_frame_is_base(mount->cache, unit->frame);
	struct hugemap_slot *slot;
	int node, err = 0;
	u32 page;

	if (likely(hugemap_frame_folio(mount, unit->frame)))
		return 0;
	slot = slot_of(mount, unit->frame, &page);
	WARN_ON_ONCE((u64)(slot - mount->slots) * HM_BLOCK_PAGES + page !=
		     hm_frame_offset(mount->cache, unit->frame) >> HM_PAGE_SHIFT);
	node = slot_node(mount, slot);
	mutex_lock(&mount->split_lock);
	if (!base && !slot->huge)
		err = slot_reform(slot, node);
	else if (base && !slot->split)
		err = slot_split(slot, node);
	if (base && !err)
		err = slot_fill_page(slot, page, node, GFP_POOL);
	mutex_unlock(&mount->split_lock);
	return err;
}

void hugemap_frame_check(struct hugemap_mount *mount, const struct hm_unit *unit)
{
	struct folio *folio;

	if (!hugemap_may_be_poisoned())
		return;
	folio = hugemap_frame_folio(mount, unit->frame);
	/* The folio may have been orphaned. */
	if (!folio || !hugemap_is_poisoned(folio))
		return;
	hugemap_frame_empty(mount, unit);
	hugemap_folio_own(folio, HUGEMAP_OWNER_POOL, HUGEMAP_OWNER_NONE);
	hugemap_mm_put_folio(folio);
}

void hugemap_frame_empty(struct hugemap_mount *mount, const struct hm_unit *unit)
{
	u32 page;
	struct hugemap_slot *slot = slot_of(mount, unit->frame, &page);

	if (hm_frame_is_base(mount->cache, unit->frame)) {
		WRITE_ONCE(slot->base[page], NULL);
		WRITE_ONCE(slot->contiguous, false);
	} else {
		WRITE_ONCE(slot->huge, NULL);
	}
}
