// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The pool: free lists of frames, one set per shard (the papers have per-core free lists). A CPU
 * whose shard has no free frame takes one from another shard. A freed frame always returns to its
 * home shard.
 *
 * Base frames are made by a split of a huge frame. A split frame has a bitmap of its free base
 * frames, and is merged into a huge frame when all of them are free.
 */
#include "cache.h"
#include "pool.h"
#include "state.h"

/* Neighbouring frames have different homes, so each shard has its share of any range of memory. */
static struct hm_shard *hm_pool_home_of(struct hm_cache *cache, u32 huge)
{
	return &cache->shards[huge % cache->nshards];
}

bool hm_frame_is_base(const struct hm_cache *cache, u32 frame)
{
	return hm_frame_kind(cache, frame) == HM_BASE;
}

u32 hm_pool_container(const struct hm_cache *cache, u32 frame)
{
	if (frame < cache->nframes)
		return frame;
	return (frame - cache->nframes) >> HM_BLOCK_ORDER;
}

u64 hm_frame_offset(const struct hm_cache *cache, u32 frame)
{
	if (frame < cache->nframes)
		return (u64)frame << HM_BLOCK_SHIFT;
	return (u64)(frame - cache->nframes) << HM_PAGE_SHIFT;
}

static void hm_pool_count_free(struct hm_shard *shard, enum hm_kind kind, s64 delta)
{
	hm_atomic_count(&shard->nfree[kind], delta);
}

u64 hm_pool_free(struct hm_cache *cache, enum hm_kind kind)
{
	u64 sum = 0;
	u32 i;

	for (i = 0; i < cache->nshards; i++)
		sum += hm_atomic_read(&cache->shards[i].nfree[kind]);
	return sum;
}

u64 hm_cache_free_pages(struct hm_cache *cache)
{
	return hm_pool_free(cache, HM_HUGE) * HM_BLOCK_PAGES + hm_pool_free(cache, HM_BASE);
}

u64 hm_pool_frames(const struct hm_cache *cache)
{
	return cache->nframes - hm_atomic_read(&cache->offline);
}

/* The limit of a quarter matters in a pool that has given most of its memory back. */
u64 hm_pool_free_target(const struct hm_cache *cache)
{
	u64 max = hm_pool_frames(cache) / 4;

	return cache->opts.free_target < max ? cache->opts.free_target : max;
}

/* Pages that should be free for a kind, in all shards together. */
static u64 hm_pool_free_target_pages(const struct hm_cache *cache, enum hm_kind kind)
{
	return kind == HM_BASE ? cache->opts.evict_batch * 2 :
				 hm_pool_free_target(cache) * HM_BLOCK_PAGES;
}

/*
 * Read the counters of this CPU's shard first, and those of the others only if the shard has too
 * few: this CPU may have used up its own frames while others have many.
 */
bool hm_pool_low(struct hm_cache *cache, enum hm_kind kind)
{
	struct hm_shard *shard = hm_local_shard(cache);
	u64 free = hm_atomic_read(&shard->nfree[HM_HUGE]) * HM_BLOCK_PAGES;
	u64 all;

	if (kind == HM_BASE)
		free += hm_atomic_read(&shard->nfree[HM_BASE]);
	if (free > hm_pool_free_target_pages(cache, kind) / cache->nshards)
		return false;
	all = hm_pool_free(cache, HM_HUGE) * HM_BLOCK_PAGES;
	if (kind == HM_BASE)
		all += hm_pool_free(cache, HM_BASE);
	return all <= hm_pool_free_target_pages(cache, kind);
}

/* Add a split frame to the list of its home shard. The caller holds the shard's pool_lock. */
static void hm_pool_partial_link(struct hm_cache *cache, struct hm_shard *shard, u32 huge)
{
	struct hm_container *container = &cache->container[huge];

	container->prev = HM_NO_FRAME_ID;
	container->next = shard->partial;
	if (container->next != HM_NO_FRAME_ID)
		cache->container[container->next].prev = huge;
	shard->partial = huge;
}

/* Remove a split frame from the list of its home shard. The caller holds the shard's pool_lock. */
static void hm_pool_partial_unlink(struct hm_cache *cache, struct hm_shard *shard, u32 huge)
{
	struct hm_container *container = &cache->container[huge];

	if (container->prev == HM_NO_FRAME_ID)
		shard->partial = container->next;
	else
		cache->container[container->prev].next = container->next;
	if (container->next != HM_NO_FRAME_ID)
		cache->container[container->next].prev = container->prev;
}

/* Put a huge frame on a free list of its home shard. The caller holds the shard's pool_lock. */
static void hm_pool_push_huge(struct hm_cache *cache, struct hm_shard *shard, u32 huge)
{
	hm_atomic_t *list = &shard->free[cache->container[huge].base_backed ? HM_BASE : HM_HUGE];

	cache->desc[huge].next = (u32)hm_atomic_read(list);
	hm_atomic_set(list, huge);
	hm_pool_count_free(shard, HM_HUGE, 1);
}

/* Take a huge frame of a shard whose memory is a huge folio (HM_HUGE) or base pages (HM_BASE). */
static u32 hm_pool_take_free_from(struct hm_cache *cache, struct hm_shard *shard,
				  enum hm_kind backing)
{
	hm_atomic_t *list = &shard->free[backing];
	u32 frame;

	/* Do not take the lock for an empty list. */
	if (hm_atomic_read(list) == HM_NO_FRAME_ID)
		return HM_NO_FRAME_ID;
	hm_spin_lock(&shard->pool_lock);
	frame = (u32)hm_atomic_read(list);
	if (frame != HM_NO_FRAME_ID) {
		hm_atomic_set(list, cache->desc[frame].next);
		hm_pool_count_free(shard, HM_HUGE, -1);
	}
	hm_spin_unlock(&shard->pool_lock);
	return frame;
}

static u32 hm_pool_take_huge_from(struct hm_cache *cache, struct hm_shard *shard)
{
	return hm_pool_take_free_from(cache, shard, HM_HUGE);
}

static u32 hm_pool_take_base_backed_from(struct hm_cache *cache, struct hm_shard *shard)
{
	return hm_pool_take_free_from(cache, shard, HM_BASE);
}

u32 hm_pool_base_frame(const struct hm_cache *cache, u32 huge, u32 slot)
{
	return cache->nframes + (huge << HM_BLOCK_ORDER) + slot;
}

/* Take the base frame with the lowest number, so that pages that are read together lie together. */
static u32 hm_pool_take_base_from(struct hm_cache *cache, struct hm_shard *shard)
{
	struct hm_container *container;
	u32 frame = HM_NO_FRAME_ID;
	u32 huge, i;

	if (!hm_atomic_read(&shard->nfree[HM_BASE]))
		return HM_NO_FRAME_ID;
	hm_spin_lock(&shard->pool_lock);
	huge = shard->partial;
	if (huge != HM_NO_FRAME_ID) {
		container = &cache->container[huge];
		hm_assert(container->split && !container->isolated && container->nfree > 0);
		for (i = container->low; !container->free[i]; i++)
			hm_assert(i + 1 < HM_BITMAP_LONGS(HM_BLOCK_PAGES));
		container->low = i;
		frame = hm_pool_base_frame(cache, huge,
					   i * HM_BITS_PER_LONG + hm_ctz(container->free[i]));
		container->free[i] &= container->free[i] - 1;
		hm_pool_count_free(shard, HM_BASE, -1);
		if (--container->nfree == 0)
			hm_pool_partial_unlink(cache, shard, huge);
	}
	hm_spin_unlock(&shard->pool_lock);
	return frame;
}

/* Split a huge frame that the caller has taken. Return its first base frame, taken as well. */
static u32 hm_pool_split_frame(struct hm_cache *cache, u32 huge)
{
	struct hm_shard *home = hm_pool_home_of(cache, huge);
	struct hm_container *container = &cache->container[huge];
	u32 i;

	hm_spin_lock(&home->pool_lock);
	hm_assert(!container->split);
	container->split = true;
	container->base_backed = true;
	for (i = 0; i < HM_BLOCK_PAGES; i++)
		container->free[i / HM_BITS_PER_LONG] |= 1ul << (i % HM_BITS_PER_LONG);
	container->free[0] &= ~1ul;
	container->nfree = HM_BLOCK_PAGES - 1;
	container->low = 0;
	hm_pool_count_free(home, HM_BASE, HM_BLOCK_PAGES - 1);
	hm_pool_partial_link(cache, home, huge);
	hm_spin_unlock(&home->pool_lock);
	hm_count(cache, HM_C_FRAMES_SPLIT, 1);
	return hm_pool_base_frame(cache, huge, 0);
}

/*
 * Take a frame from any shard. Each CPU tries the shards in an order of its own, starting with its
 * own shard and its neighbours. So if only a few shards have frames, the CPUs whose shards are
 * empty do not all contend for the same one.
 */
static u32 hm_pool_take_from_any(struct hm_cache *cache,
				 u32 (*take)(struct hm_cache *cache, struct hm_shard *shard))
{
	u32 start = hm_cpu() % cache->nshards, end = 1;
	u32 i, frame;

	while (end < cache->nshards)
		end *= 2;
	for (i = 0; i < end; i++) {
		if ((start ^ i) >= cache->nshards)
			continue;
		frame = take(cache, &cache->shards[start ^ i]);
		if (frame != HM_NO_FRAME_ID)
			return frame;
	}
	return HM_NO_FRAME_ID;
}

/*
 * Take a base frame from a huge frame that this CPU has split for itself. Otherwise all CPUs would
 * take from the frame that was split first, and contend for the lock of its home shard. Do so only
 * with at least 8 frames per CPU: then this splits at most an eighth of the pool.
 */
static u32 hm_pool_take_base_local(struct hm_cache *cache)
{
	struct hm_shard *shard = hm_local_shard(cache);
	u32 frame;

	if (hm_pool_frames(cache) < 8 * cache->nshards)
		return HM_NO_FRAME_ID;
	frame = hm_pool_take_base_from(cache, shard);
	if (frame != HM_NO_FRAME_ID)
		return frame;
	frame = hm_pool_take_base_backed_from(cache, shard);
	if (frame == HM_NO_FRAME_ID)
		frame = hm_pool_take_huge_from(cache, shard);
	return frame == HM_NO_FRAME_ID ? frame : hm_pool_split_frame(cache, frame);
}

/*
 * Take a huge frame. Prefer one whose memory already is a huge folio (HM_HUGE) or base pages
 * (HM_BASE), as the caller needs; otherwise the engine must allocate it again.
 */
static u32 hm_pool_take_huge_frame(struct hm_cache *cache, enum hm_kind backing)
{
	u32 frame = hm_pool_take_from_any(
		cache, backing == HM_HUGE ? hm_pool_take_huge_from : hm_pool_take_base_backed_from);

	if (frame == HM_NO_FRAME_ID)
		frame = hm_pool_take_from_any(cache, backing == HM_HUGE ?
							     hm_pool_take_base_backed_from :
							     hm_pool_take_huge_from);
	return frame;
}

u32 hm_pool_take_split(struct hm_cache *cache)
{
	return hm_pool_take_from_any(cache, hm_pool_take_base_from);
}

static u32 hm_pool_take_kind(struct hm_cache *cache, enum hm_kind kind, bool ahead)
{
	u32 frame;

	/* If this CPU's shard has enough free frames, do not read the other counters. */
	if (ahead && hm_atomic_read(&hm_local_shard(cache)->nfree[HM_HUGE]) <= cache->reserve &&
	    hm_cache_free_pages(cache) <= (u64)cache->reserve * HM_BLOCK_PAGES)
		return HM_NO_FRAME_ID;
	if (kind == HM_BASE) {
		frame = hm_pool_take_base_local(cache);
		if (frame == HM_NO_FRAME_ID)
			frame = hm_pool_take_split(cache);
		if (frame == HM_NO_FRAME_ID) {
			frame = hm_pool_take_huge_frame(cache, HM_BASE);
			if (frame != HM_NO_FRAME_ID)
				frame = hm_pool_split_frame(cache, frame);
		}
	} else {
		frame = hm_pool_take_huge_frame(cache, HM_HUGE);
		if (frame != HM_NO_FRAME_ID)
			cache->container[frame].base_backed = false;
	}
	return frame;
}

u32 hm_pool_take(struct hm_cache *cache, enum hm_kind kind, bool ahead)
{
	u32 frame = hm_pool_take_kind(cache, kind, ahead);

	if (frame == HM_NO_FRAME_ID && kind == HM_HUGE && !hm_atomic_read(&cache->huge_short))
		hm_atomic_set(&cache->huge_short, 1);
	return frame;
}

void hm_pool_give(struct hm_cache *cache, u32 frame)
{
	u32 huge = hm_pool_container(cache, frame);
	struct hm_shard *home = hm_pool_home_of(cache, huge);
	struct hm_container *container = &cache->container[huge];
	u32 slot;

	hm_spin_lock(&home->pool_lock);
	if (hm_frame_kind(cache, frame) == HM_HUGE) {
		hm_assert(!container->split);
		hm_pool_push_huge(cache, home, huge);
		hm_spin_unlock(&home->pool_lock);
		return;
	}
	slot = (frame - cache->nframes) & (HM_BLOCK_PAGES - 1);
	hm_assert(container->split);
	hm_assert(!(container->free[slot / HM_BITS_PER_LONG] >> (slot % HM_BITS_PER_LONG) & 1));
	container->free[slot / HM_BITS_PER_LONG] |= 1ul << (slot % HM_BITS_PER_LONG);
	container->nfree++;
	if (slot / HM_BITS_PER_LONG < container->low)
		container->low = slot / HM_BITS_PER_LONG;
	if (!container->isolated)
		hm_pool_count_free(home, HM_BASE, 1);
	if (container->nfree == HM_BLOCK_PAGES) {
		if (!container->isolated) {
			hm_pool_count_free(home, HM_BASE, -(s64)HM_BLOCK_PAGES);
			if (HM_BLOCK_PAGES > 1)
				hm_pool_partial_unlink(cache, home, huge);
		}
		memset(container->free, 0, sizeof(container->free));
		container->nfree = 0;
		container->split = false;
		if (container->isolated)
			hm_atomic_set(&cache->isolate_skip, 0);
		container->isolated = false;
		hm_count(cache, HM_C_FRAMES_MERGED, 1);
		hm_pool_push_huge(cache, home, huge);
	} else if (container->nfree == 1 && !container->isolated) {
		hm_pool_partial_link(cache, home, huge);
	}
	hm_spin_unlock(&home->pool_lock);
}

/*
 * At least two blocks may be dirty: a store that crosses a block boundary needs both dirty at the
 * same time, and would never succeed if each was written back at once.
 */
u64 hm_pool_dirty_limit(const struct hm_cache *cache)
{
	u64 frames = hm_pool_frames(cache);
	u64 pages = frames * HM_BLOCK_PAGES * cache->opts.dirty_ratio / 100;

	return pages < 2 * HM_BLOCK_PAGES ? 2 * HM_BLOCK_PAGES : pages;
}

/* Take the frame from the shard with the most free ones, so that all shards shrink. */
u32 hm_frame_offline(struct hm_cache *cache)
{
	struct hm_shard *fullest = cache->shards;
	u32 frame, i;

	for (i = 1; i < cache->nshards; i++) {
		if (hm_atomic_read(&cache->shards[i].nfree[HM_HUGE]) >
		    hm_atomic_read(&fullest->nfree[HM_HUGE]))
			fullest = &cache->shards[i];
	}
	frame = hm_pool_take_huge_from(cache, fullest);
	if (frame == HM_NO_FRAME_ID)
		frame = hm_pool_take_huge_frame(cache, HM_HUGE);
	if (frame != HM_NO_FRAME_ID)
		hm_atomic_add(&cache->offline, 1);
	return frame;
}

void hm_frame_online(struct hm_cache *cache, u32 frame, bool base_backed)
{
	hm_assert(!hm_frame_is_base(cache, frame) && hm_atomic_read(&cache->offline));
	hm_atomic_add(&cache->offline, -1);
	cache->container[frame].base_backed = base_backed;
	hm_pool_give(cache, frame);
}

bool hm_pool_is_split(struct hm_cache *cache, u32 huge, bool isolated)
{
	struct hm_shard *home = hm_pool_home_of(cache, huge);
	const struct hm_container *container = &cache->container[huge];
	bool is;

	hm_spin_lock(&home->pool_lock);
	is = container->split && (container->isolated || !isolated);
	hm_spin_unlock(&home->pool_lock);
	return is;
}

void hm_pool_isolate(struct hm_cache *cache, u32 huge)
{
	struct hm_shard *home = hm_pool_home_of(cache, huge);
	struct hm_container *container = &cache->container[huge];

	hm_spin_lock(&home->pool_lock);
	if (container->split && !container->isolated) {
		container->isolated = true;
		hm_pool_count_free(home, HM_BASE, -(s64)container->nfree);
		if (container->nfree)
			hm_pool_partial_unlink(cache, home, huge);
	}
	hm_spin_unlock(&home->pool_lock);
}

bool hm_pool_unisolate(struct hm_cache *cache, u32 frame)
{
	u32 huge = hm_pool_container(cache, frame);
	struct hm_shard *home = hm_pool_home_of(cache, huge);
	struct hm_container *container = &cache->container[huge];
	bool isolated;

	hm_spin_lock(&home->pool_lock);
	isolated = container->isolated;
	if (isolated) {
		container->isolated = false;
		hm_pool_count_free(home, HM_BASE, (s64)container->nfree);
		if (container->nfree)
			hm_pool_partial_link(cache, home, huge);
	}
	hm_spin_unlock(&home->pool_lock);
	return isolated;
}

void hm_pool_init(struct hm_cache *cache)
{
	u32 i;

	for (i = 0; i < cache->nshards; i++) {
		struct hm_shard *shard = &cache->shards[i];

		hm_spin_init(&shard->pool_lock);
		hm_atomic_set(&shard->free[HM_HUGE], HM_NO_FRAME_ID);
		hm_atomic_set(&shard->free[HM_BASE], HM_NO_FRAME_ID);
		shard->partial = HM_NO_FRAME_ID;
	}
	/* Push in reverse, so that frames are taken in address order. */
	for (i = cache->nframes; i-- > 0;)
		hm_pool_push_huge(cache, hm_pool_home_of(cache, i), i);
}
