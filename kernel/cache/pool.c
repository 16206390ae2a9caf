// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The pool: free lists of frames, one set per shard (the papers: per-core free
 * lists). A frame that a shard lacks is stolen from another one, and always
 * goes home to the shard that it came from.
 *
 * Base frames are carved out of huge ones: a carved frame keeps a bitmap of its
 * free base frames, and becomes a huge frame again when all of them are back.
 */
#include "cache.h"
#include "pool.h"
#include "state.h"

/*
 * Neighbours have different homes: whichever frames have memory, each shard has
 * its part of it.
 */
static struct hm_shard *hm_pool_home_of(struct hm_cache *cache, u32 huge)
{
	return &cache->shards[huge % cache->nshards];
}

bool hm_frame_is_base(const struct hm_cache *cache, u32 frame)
{
	return hm_frame_kind(cache, frame) == HM_BASE;
}

/* The huge frame that a base frame lies in; a huge frame itself. */
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

/* Free frames of a kind; frames that are carved count as base frames only. */
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

/* Huge frames that have memory: a cache may have been made for more. */
u64 hm_pool_frames(const struct hm_cache *cache)
{
	return cache->nframes - hm_atomic_read(&cache->offline);
}

/* Huge frames to keep free: of a pool that has given most of its memory back, not all. */
u64 hm_pool_free_target(const struct hm_cache *cache)
{
	u64 most = hm_pool_frames(cache) / 4;

	return cache->opts.free_target < most ? cache->opts.free_target : most;
}

/* Pages that a shard, or all of them, should have free for a kind. */
static u64 hm_pool_node_free_target(const struct hm_cache *cache, enum hm_kind kind)
{
	return kind == HM_BASE ? cache->opts.evict_batch * 2 :
				 hm_pool_free_target(cache) * HM_BLOCK_PAGES;
}

/*
 * For the fault path: a cheap look at the shard of this CPU; at the others only if
 * that is low, as it may just be that this CPU has used up its own.
 */
bool hm_pool_low(struct hm_cache *cache, enum hm_kind kind)
{
	struct hm_shard *shard = hm_local_shard(cache);
	u64 free = hm_atomic_read(&shard->nfree[HM_HUGE]) * HM_BLOCK_PAGES;
	u64 all;

	if (kind == HM_BASE)
		free += hm_atomic_read(&shard->nfree[HM_BASE]);
	if (free > hm_pool_node_free_target(cache, kind) / cache->nshards)
		return false;
	all = hm_pool_free(cache, HM_HUGE) * HM_BLOCK_PAGES;
	if (kind == HM_BASE)
		all += hm_pool_free(cache, HM_BASE);
	return all <= hm_pool_node_free_target(cache, kind);
}

/* The list of carved frames; pool_lock of their home shard is held. */
static void hm_pool_partial_link(struct hm_cache *cache, struct hm_shard *shard, u32 huge)
{
	struct hm_container *container = &cache->container[huge];

	container->prev = HM_NO_FRAME_ID;
	container->next = shard->partial;
	if (container->next != HM_NO_FRAME_ID)
		cache->container[container->next].prev = huge;
	shard->partial = huge;
}

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

static void hm_pool_push_huge(struct hm_cache *cache, struct hm_shard *shard, u32 huge)
{
	hm_atomic_t *list = &shard->free[cache->container[huge].base_backed ? HM_BASE : HM_HUGE];

	cache->desc[huge].next = (u32)hm_atomic_read(list);
	hm_atomic_set(list, huge);
	hm_pool_count_free(shard, HM_HUGE, 1);
}

static u32 hm_pool_take_free_from(struct hm_cache *cache, struct hm_shard *shard,
				  enum hm_kind made_of)
{
	hm_atomic_t *list = &shard->free[made_of];
	u32 frame;

	/* Nobody takes a lock to find nothing. */
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

static u32 hm_pool_take_pages_from(struct hm_cache *cache, struct hm_shard *shard)
{
	return hm_pool_take_free_from(cache, shard, HM_BASE);
}

u32 hm_pool_base_frame(const struct hm_cache *cache, u32 huge, u32 slot)
{
	return cache->nframes + (huge << HM_BLOCK_ORDER) + slot;
}

/* Lowest numbers first, so that pages read together lie together. */
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

/* Carve a huge frame that the caller has taken; returns its first base frame. */
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
 * Each CPU asks in an order of its own, its own shard and its neighbours' first: where few have
 * frames, those who find none in theirs do not all come to the same one next.
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
 * A frame that this CPU carves for itself. Else all CPUs take from the one frame that was
 * carved first, by its lock. Where that is an eighth of the pool at most.
 */
static u32 hm_pool_take_base_of_own(struct hm_cache *cache)
{
	struct hm_shard *shard = hm_local_shard(cache);
	u32 frame;

	if (hm_pool_frames(cache) < 8 * cache->nshards)
		return HM_NO_FRAME_ID;
	frame = hm_pool_take_base_from(cache, shard);
	if (frame != HM_NO_FRAME_ID)
		return frame;
	frame = hm_pool_take_pages_from(cache, shard);
	if (frame == HM_NO_FRAME_ID)
		frame = hm_pool_take_huge_from(cache, shard);
	return frame == HM_NO_FRAME_ID ? frame : hm_pool_split_frame(cache, frame);
}

/*
 * A whole huge frame, to be made of huge memory or of base pages: rather one that is, as
 * the engine has to exchange what is not.
 */
static u32 hm_pool_take_huge_frame(struct hm_cache *cache, enum hm_kind made_of)
{
	u32 frame = hm_pool_take_from_any(cache, made_of == HM_HUGE ? hm_pool_take_huge_from :
								      hm_pool_take_pages_from);

	if (frame == HM_NO_FRAME_ID)
		frame = hm_pool_take_from_any(cache, made_of == HM_HUGE ? hm_pool_take_pages_from :
									  hm_pool_take_huge_from);
	return frame;
}

/*
 * Take a frame, or HM_NO_FRAME_ID. Read-ahead leaves a reserve, so that a
 * demand fault does not have to wait for an eviction because of it.
 */
u32 hm_pool_take(struct hm_cache *cache, enum hm_kind kind, bool ahead)
{
	u32 frame;

	/* If this CPU has enough, the others need not be asked. */
	if (ahead && hm_atomic_read(&hm_local_shard(cache)->nfree[HM_HUGE]) <= cache->reserve &&
	    hm_cache_free_pages(cache) <= (u64)cache->reserve * HM_BLOCK_PAGES)
		return HM_NO_FRAME_ID;
	if (kind == HM_BASE) {
		frame = hm_pool_take_base_of_own(cache);
		if (frame == HM_NO_FRAME_ID)
			frame = hm_pool_take_from_any(cache, hm_pool_take_base_from);
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
		container->isolated = false;
		hm_count(cache, HM_C_FRAMES_MERGED, 1);
		hm_pool_push_huge(cache, home, huge);
	} else if (container->nfree == 1 && !container->isolated) {
		hm_pool_partial_link(cache, home, huge);
	}
	hm_spin_unlock(&home->pool_lock);
}

/*
 * Dirty pages above which write-back starts by itself. Two blocks may be: a store that
 * lies in both needs them at the same time, and would never get them if each was written
 * at once.
 */
u64 hm_pool_dirty_limit(const struct hm_cache *cache)
{
	u64 frames = hm_pool_frames(cache);
	u64 pages = frames * HM_BLOCK_PAGES * cache->opts.dirty_ratio / 100;

	return pages < 2 * HM_BLOCK_PAGES ? 2 * HM_BLOCK_PAGES : pages;
}

/* From the shard that has most, so that all of them become smaller. */
u32 hm_frame_offline(struct hm_cache *cache)
{
	struct hm_shard *most = cache->shards;
	u32 frame, i;

	for (i = 1; i < cache->nshards; i++) {
		if (hm_atomic_read(&cache->shards[i].nfree[HM_HUGE]) >
		    hm_atomic_read(&most->nfree[HM_HUGE]))
			most = &cache->shards[i];
	}
	frame = hm_pool_take_huge_from(cache, most);
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

/* Is a frame carved, and if @draining, becoming empty? */
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

/* From now on a carved frame hands out no base frames, so that it empties. */
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

/* A base frame cannot be freed now: those beside it are for use again. */
void hm_pool_unisolate(struct hm_cache *cache, u32 frame)
{
	u32 huge = hm_pool_container(cache, frame);
	struct hm_shard *home = hm_pool_home_of(cache, huge);
	struct hm_container *container = &cache->container[huge];

	hm_spin_lock(&home->pool_lock);
	if (container->isolated) {
		container->isolated = false;
		hm_pool_count_free(home, HM_BASE, (s64)container->nfree);
		if (container->nfree)
			hm_pool_partial_link(cache, home, huge);
	}
	hm_spin_unlock(&home->pool_lock);
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
	/* Backwards, so that the lists hand frames out in address order. */
	for (i = cache->nframes; i-- > 0;)
		hm_pool_push_huge(cache, hm_pool_home_of(cache, i), i);
}
