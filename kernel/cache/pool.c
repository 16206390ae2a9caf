// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The pool: free lists of frames, one set per shard (the papers: per-core free
 * lists). A frame that a shard lacks is stolen from another one, and always
 * goes home to the shard that it came from.
 *
 * Base frames are carved out of huge ones: a carved frame keeps a bitmap of its
 * free base frames, and becomes a huge frame again when all of them are back.
 */
#include "internal.h"

/*
 * Neighbours have different homes: whichever frames have memory, each shard has
 * its part of it.
 */
static struct hm_shard *home_of(struct hm_cache *cache, u32 huge)
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

static void count_free(struct hm_shard *shard, enum hm_kind kind, s64 delta)
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

u64 hm_cache_huge_pages(struct hm_cache *cache)
{
	u64 carved = hm_cache_count(cache, HM_C_CARVED) - hm_cache_count(cache, HM_C_REJOINED);
	u64 others = carved + hm_pool_free(cache, HM_HUGE) + hm_atomic_read(&cache->parked);

	/* They change while they are added up. */
	return others < cache->nframes ? (cache->nframes - others) * HM_BLOCK_PAGES : 0;
}

/* Huge frames that have memory: a cache may have been made for more. */
u64 hm_pool_frames(const struct hm_cache *cache)
{
	return cache->nframes - hm_atomic_read(&cache->parked);
}

/* Huge frames to keep free: of a pool that has given most of its memory back, not all. */
u64 hm_pool_free_target(const struct hm_cache *cache)
{
	u64 most = hm_pool_frames(cache) / 4;

	return cache->opts.free_target < most ? cache->opts.free_target : most;
}

/* Pages that a shard, or all of them, should have free for a kind. */
static u64 free_target(const struct hm_cache *cache, enum hm_kind kind)
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
	if (free > free_target(cache, kind) / cache->nshards)
		return false;
	all = hm_pool_free(cache, HM_HUGE) * HM_BLOCK_PAGES;
	if (kind == HM_BASE)
		all += hm_pool_free(cache, HM_BASE);
	return all <= free_target(cache, kind);
}

/* The list of carved frames; pool_lock of their home shard is held. */
static void partial_link(struct hm_cache *cache, struct hm_shard *shard, u32 huge)
{
	struct hm_carve *carve = &cache->carve[huge];

	carve->prev = HM_NO_FRAME_ID;
	carve->next = shard->partial;
	if (carve->next != HM_NO_FRAME_ID)
		cache->carve[carve->next].prev = huge;
	shard->partial = huge;
}

static void partial_unlink(struct hm_cache *cache, struct hm_shard *shard, u32 huge)
{
	struct hm_carve *carve = &cache->carve[huge];

	if (carve->prev == HM_NO_FRAME_ID)
		shard->partial = carve->next;
	else
		cache->carve[carve->prev].next = carve->next;
	if (carve->next != HM_NO_FRAME_ID)
		cache->carve[carve->next].prev = carve->prev;
}

static void push_huge(struct hm_cache *cache, struct hm_shard *shard, u32 huge)
{
	hm_atomic_t *list = &shard->free[cache->carve[huge].pages ? HM_BASE : HM_HUGE];

	cache->desc[huge].next = (u32)hm_atomic_read(list);
	hm_atomic_set(list, huge);
	count_free(shard, HM_HUGE, 1);
}

static u32 take_free_from(struct hm_cache *cache, struct hm_shard *shard, enum hm_kind made_of)
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
		count_free(shard, HM_HUGE, -1);
	}
	hm_spin_unlock(&shard->pool_lock);
	return frame;
}

static u32 take_huge_from(struct hm_cache *cache, struct hm_shard *shard)
{
	return take_free_from(cache, shard, HM_HUGE);
}

static u32 take_pages_from(struct hm_cache *cache, struct hm_shard *shard)
{
	return take_free_from(cache, shard, HM_BASE);
}

u32 hm_pool_base_frame(const struct hm_cache *cache, u32 huge, u32 slot)
{
	return cache->nframes + (huge << HM_BLOCK_ORDER) + slot;
}

/* Lowest numbers first, so that pages read together lie together. */
static u32 take_base_from(struct hm_cache *cache, struct hm_shard *shard)
{
	struct hm_carve *carve;
	u32 frame = HM_NO_FRAME_ID;
	u32 huge, i;

	if (!hm_atomic_read(&shard->nfree[HM_BASE]))
		return HM_NO_FRAME_ID;
	hm_spin_lock(&shard->pool_lock);
	huge = shard->partial;
	if (huge != HM_NO_FRAME_ID) {
		carve = &cache->carve[huge];
		hm_assert(carve->carved && !carve->draining && carve->nfree > 0);
		for (i = carve->low; !carve->free[i]; i++)
			hm_assert(i + 1 < HM_BITMAP_LONGS(HM_BLOCK_PAGES));
		carve->low = i;
		frame = hm_pool_base_frame(cache, huge,
					   i * HM_BITS_PER_LONG + hm_ctz(carve->free[i]));
		carve->free[i] &= carve->free[i] - 1;
		count_free(shard, HM_BASE, -1);
		if (--carve->nfree == 0)
			partial_unlink(cache, shard, huge);
	}
	hm_spin_unlock(&shard->pool_lock);
	return frame;
}

/* Carve a huge frame that the caller has taken; returns its first base frame. */
static u32 carve_up(struct hm_cache *cache, u32 huge)
{
	struct hm_shard *home = home_of(cache, huge);
	struct hm_carve *carve = &cache->carve[huge];
	u32 i;

	hm_spin_lock(&home->pool_lock);
	hm_assert(!carve->carved);
	carve->carved = true;
	carve->pages = true;
	for (i = 0; i < HM_BLOCK_PAGES; i++)
		carve->free[i / HM_BITS_PER_LONG] |= 1ul << (i % HM_BITS_PER_LONG);
	carve->free[0] &= ~1ul;
	carve->nfree = HM_BLOCK_PAGES - 1;
	carve->low = 0;
	count_free(home, HM_BASE, HM_BLOCK_PAGES - 1);
	partial_link(cache, home, huge);
	hm_spin_unlock(&home->pool_lock);
	hm_count(cache, HM_C_CARVED, 1);
	return hm_pool_base_frame(cache, huge, 0);
}

/*
 * Each CPU asks in an order of its own, its own shard and its neighbours' first: where few have
 * frames, those who find none in theirs do not all come to the same one next.
 */
static u32 take_from_any(struct hm_cache *cache,
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
static u32 take_base_of_own(struct hm_cache *cache)
{
	struct hm_shard *shard = hm_local_shard(cache);
	u32 frame;

	if (hm_pool_frames(cache) < 8 * cache->nshards)
		return HM_NO_FRAME_ID;
	frame = take_base_from(cache, shard);
	if (frame != HM_NO_FRAME_ID)
		return frame;
	frame = take_pages_from(cache, shard);
	if (frame == HM_NO_FRAME_ID)
		frame = take_huge_from(cache, shard);
	return frame == HM_NO_FRAME_ID ? frame : carve_up(cache, frame);
}

/*
 * A whole huge frame, to be made of huge memory or of base pages: rather one that is, as
 * the engine has to exchange what is not.
 */
static u32 take_whole(struct hm_cache *cache, enum hm_kind made_of)
{
	u32 frame = take_from_any(cache, made_of == HM_HUGE ? take_huge_from : take_pages_from);

	if (frame == HM_NO_FRAME_ID)
		frame = take_from_any(cache, made_of == HM_HUGE ? take_pages_from : take_huge_from);
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
		frame = take_base_of_own(cache);
		if (frame == HM_NO_FRAME_ID)
			frame = take_from_any(cache, take_base_from);
		if (frame == HM_NO_FRAME_ID) {
			frame = take_whole(cache, HM_BASE);
			if (frame != HM_NO_FRAME_ID)
				frame = carve_up(cache, frame);
		}
	} else {
		frame = take_whole(cache, HM_HUGE);
		if (frame != HM_NO_FRAME_ID) {
			cache->carve[frame].pages = false;
			hm_dirty_map_reset(cache, frame);
		}
	}
	return frame;
}

void hm_pool_give(struct hm_cache *cache, u32 frame)
{
	u32 huge = hm_pool_container(cache, frame);
	struct hm_shard *home = home_of(cache, huge);
	struct hm_carve *carve = &cache->carve[huge];
	u32 slot;

	hm_spin_lock(&home->pool_lock);
	if (hm_frame_kind(cache, frame) == HM_HUGE) {
		hm_assert(!carve->carved);
		push_huge(cache, home, huge);
		hm_spin_unlock(&home->pool_lock);
		return;
	}
	slot = (frame - cache->nframes) & (HM_BLOCK_PAGES - 1);
	hm_assert(carve->carved);
	hm_assert(!(carve->free[slot / HM_BITS_PER_LONG] >> (slot % HM_BITS_PER_LONG) & 1));
	carve->free[slot / HM_BITS_PER_LONG] |= 1ul << (slot % HM_BITS_PER_LONG);
	carve->nfree++;
	if (slot / HM_BITS_PER_LONG < carve->low)
		carve->low = slot / HM_BITS_PER_LONG;
	if (!carve->draining)
		count_free(home, HM_BASE, 1);
	if (carve->nfree == HM_BLOCK_PAGES) {
		if (!carve->draining) {
			count_free(home, HM_BASE, -(s64)HM_BLOCK_PAGES);
			if (HM_BLOCK_PAGES > 1)
				partial_unlink(cache, home, huge);
		}
		memset(carve->free, 0, sizeof(carve->free));
		carve->nfree = 0;
		carve->carved = false;
		carve->draining = false;
		hm_count(cache, HM_C_REJOINED, 1);
		push_huge(cache, home, huge);
	} else if (carve->nfree == 1 && !carve->draining) {
		partial_link(cache, home, huge);
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

bool hm_cache_dirty_above_limit(const struct hm_cache *cache)
{
	return hm_cache_dirty_pages(cache) > hm_pool_dirty_limit(cache);
}

/* From the shard that has most, so that all of them become smaller. */
u32 hm_frame_park(struct hm_cache *cache)
{
	struct hm_shard *most = cache->shards;
	u32 frame, i;

	for (i = 1; i < cache->nshards; i++) {
		if (hm_atomic_read(&cache->shards[i].nfree[HM_HUGE]) >
		    hm_atomic_read(&most->nfree[HM_HUGE]))
			most = &cache->shards[i];
	}
	frame = take_huge_from(cache, most);
	if (frame == HM_NO_FRAME_ID)
		frame = take_whole(cache, HM_HUGE);
	if (frame != HM_NO_FRAME_ID)
		hm_atomic_add(&cache->parked, 1);
	return frame;
}

void hm_frame_unpark(struct hm_cache *cache, u32 frame, bool pages)
{
	hm_assert(!hm_frame_is_base(cache, frame) && hm_atomic_read(&cache->parked));
	hm_atomic_add(&cache->parked, -1);
	cache->carve[frame].pages = pages;
	hm_pool_give(cache, frame);
}

/* Is a frame carved, and if @draining, becoming empty? */
bool hm_pool_carved(struct hm_cache *cache, u32 huge, bool draining)
{
	struct hm_shard *home = home_of(cache, huge);
	const struct hm_carve *carve = &cache->carve[huge];
	bool is;

	hm_spin_lock(&home->pool_lock);
	is = carve->carved && (carve->draining || !draining);
	hm_spin_unlock(&home->pool_lock);
	return is;
}

/* From now on a carved frame hands out no base frames, so that it empties. */
void hm_pool_drain(struct hm_cache *cache, u32 huge)
{
	struct hm_shard *home = home_of(cache, huge);
	struct hm_carve *carve = &cache->carve[huge];

	hm_spin_lock(&home->pool_lock);
	if (carve->carved && !carve->draining) {
		carve->draining = true;
		count_free(home, HM_BASE, -(s64)carve->nfree);
		if (carve->nfree)
			partial_unlink(cache, home, huge);
	}
	hm_spin_unlock(&home->pool_lock);
}

/* A base frame cannot be freed now: those beside it are for use again. */
void hm_pool_stay(struct hm_cache *cache, u32 frame)
{
	u32 huge = hm_pool_container(cache, frame);
	struct hm_shard *home = home_of(cache, huge);
	struct hm_carve *carve = &cache->carve[huge];

	hm_spin_lock(&home->pool_lock);
	if (carve->draining) {
		carve->draining = false;
		count_free(home, HM_BASE, (s64)carve->nfree);
		if (carve->nfree)
			partial_link(cache, home, huge);
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
		push_huge(cache, home_of(cache, i), i);
}
