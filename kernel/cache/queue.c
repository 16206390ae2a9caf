// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The queues of clean units, and the ghosts of evicted ones.
 *
 * The papers use LRU by fault time, which a single scan flushes. Here, similar to S3-FIFO, a unit
 * starts on probation, and enters the main queue only when it proves to be used again:
 *
 *   filled --> probation --.                 .--> evicted, leaves a ghost
 *                          +--> inactive ----+
 *   ghost ---> main -------'        |
 *               ^--- accessed ------'
 *
 * An inactive unit is unmapped but keeps its frame, so an access causes a fault without I/O: the
 * queue measures recency without accessed bits. If a unit is read again soon after its eviction,
 * and its ghost still exists, it enters the main queue at once.
 *
 * A stream that is larger than the pool would evict all units on probation, and its own units would
 * be evicted before a second scan. So its units have a queue of their own, the use-once queue, and
 * make room only for each other. The units that the stream brought in first stay cached, and a
 * second scan finds them.
 *
 * A unit that is not clean may still be in a queue; see hm_queue_insert().
 */
#include "access.h"
#include "queue.h"

void hm_queue_note_oldest(struct hm_cache *cache, struct hm_shard *shard, enum hm_kind kind,
			  enum hm_queue queue)
{
	u32 tail = shard->list[kind][queue].tail;
	u64 unit = HM_NO_OLDEST;
	hm_atomic_t *oldest;

	if (queue == HM_Q_USE_ONCE)
		return;
	oldest = &shard->oldest[kind][queue - HM_Q_PROBATION];
	if (tail != HM_NO_FRAME_ID)
		unit = (u64)tail << 32 | hm_desc_of(cache, tail)->stamp;
	if (hm_atomic_read(oldest) != unit)
		hm_atomic_set(oldest, unit);
}

void hm_queue_push(struct hm_cache *cache, struct hm_shard *shard, u32 frame, enum hm_queue queue,
		   bool at_tail)
{
	enum hm_kind kind = hm_frame_kind(cache, frame);
	struct hm_list *list = &shard->list[kind][queue];
	struct hm_desc *desc = hm_desc_of(cache, frame);
	u32 *end = at_tail ? &list->tail : &list->head;

	hm_assert(!hm_queued(desc));
	hm_atomic_set(&desc->where, hm_where(cache, shard, queue));
	desc->stamp = (u32)hm_atomic_read(&cache->clock);
	desc->next = at_tail ? HM_NO_FRAME_ID : list->head;
	desc->prev = at_tail ? list->tail : HM_NO_FRAME_ID;
	if (!hm_list_count(list)) {
		list->head = frame;
		list->tail = frame;
	} else if (at_tail) {
		hm_desc_of(cache, list->tail)->next = frame;
	} else {
		hm_desc_of(cache, list->head)->prev = frame;
	}
	*end = frame;
	hm_atomic_set(&list->count, hm_list_count(list) + 1);
	if (list->tail == frame)
		hm_queue_note_oldest(cache, shard, kind, queue);
}

void hm_queue_unlink(struct hm_cache *cache, struct hm_shard *shard, u32 frame)
{
	enum hm_kind kind = hm_frame_kind(cache, frame);
	struct hm_desc *desc = hm_desc_of(cache, frame);
	enum hm_queue queue = (enum hm_queue)(hm_atomic_read(&desc->where) & 0xff);
	struct hm_list *list = &shard->list[kind][queue];

	hm_assert(queue != HM_Q_NONE && hm_list_count(list) > 0);
	hm_assert(hm_atomic_read(&desc->where) == hm_where(cache, shard, queue));
	if (desc->next == HM_NO_FRAME_ID) {
		list->tail = desc->prev;
		hm_queue_note_oldest(cache, shard, kind, queue);
	} else {
		hm_desc_of(cache, desc->next)->prev = desc->prev;
	}
	if (desc->prev == HM_NO_FRAME_ID)
		list->head = desc->next;
	else
		hm_desc_of(cache, desc->prev)->next = desc->next;
	hm_atomic_set(&list->count, hm_list_count(list) - 1);
	hm_atomic_set(&desc->where, HM_Q_NONE);
}

/*
 * The unit may have been evicted, and even filled again, since it became clean. Insert the frame
 * only if desc->word shows that it still belongs to the unit.
 */
static void hm_queue_insert_at(const struct hm_pos *pos, u32 frame, bool proven, bool may_be_tail)
{
	struct hm_cache *cache = pos->file->cache;
	struct hm_shard *shard = hm_shard_of(cache, pos->file, pos->pgoff);
	struct hm_desc *desc = hm_desc_of(cache, frame);

	hm_spin_lock(&shard->queue_lock);
	if (hm_ptr_read(&desc->word) == pos->word && !hm_queued(desc)) {
		bool low = desc->priority == HM_PRIORITY_LOW;
		enum hm_queue queue = proven && !low ? HM_Q_MAIN : HM_Q_PROBATION;

		if (desc->use_once && !proven)
			queue = HM_Q_USE_ONCE;
		if (desc->priority == HM_PRIORITY_HIGH)
			queue = HM_Q_HIGH;
		hm_queue_push(cache, shard, frame, queue, low && may_be_tail);
	}
	hm_spin_unlock(&shard->queue_lock);
}

void hm_queue_insert(const struct hm_pos *pos, u32 frame, bool proven)
{
	hm_queue_insert_at(pos, frame, proven, true);
}

void hm_queue_insert_last(const struct hm_pos *pos, u32 frame)
{
	hm_queue_insert_at(pos, frame, false, false);
}

static hm_atomic_t *hm_queue_stayed(const struct hm_pos *pos)
{
	struct hm_shard *shard = hm_shard_of(pos->file->cache, pos->file, pos->pgoff);

	return &shard->stayed[hm_pos_kind(pos)];
}

/* More units than a batch of reclaim; a shard has fewer huge units. */
static u32 hm_queue_stuck_limit(enum hm_kind kind)
{
	return kind == HM_BASE ? 64 : 8;
}

void hm_queue_note_stay(const struct hm_pos *pos)
{
	hm_atomic_add(hm_queue_stayed(pos), 1);
}

/*
 * While half of the units stay, the shard remains stuck. When the pins have ended, it is no longer
 * stuck after some units have left.
 */
void hm_queue_note_left(const struct hm_pos *pos)
{
	u32 most = 2 * hm_queue_stuck_limit(hm_pos_kind(pos));
	hm_atomic_t *at = hm_queue_stayed(pos);
	u64 stayed = hm_atomic_read(at);

	while (stayed && !hm_atomic_cas(at, &stayed, (stayed < most ? stayed : most) - 1))
		;
}

bool hm_queue_is_stuck(const struct hm_shard *shard, enum hm_kind kind)
{
	return hm_atomic_read(&shard->stayed[kind]) >= hm_queue_stuck_limit(kind);
}

bool hm_queue_none_leaves(const struct hm_shard *shard, enum hm_kind kind, u32 units)
{
	return hm_atomic_read(&shard->stayed[kind]) >= 2 * (hm_queue_stuck_limit(kind) + units);
}

void hm_queue_clear_use_once(const struct hm_pos *pos, u32 frame)
{
	struct hm_cache *cache = pos->file->cache;
	struct hm_shard *shard = hm_shard_of(cache, pos->file, pos->pgoff);

	hm_spin_lock(&shard->queue_lock);
	hm_desc_of(cache, frame)->use_once = false;
	hm_spin_unlock(&shard->queue_lock);
}

void hm_queue_forget(const struct hm_pos *pos, u32 frame)
{
	struct hm_cache *cache = pos->file->cache;
	struct hm_shard *shard = hm_shard_of(cache, pos->file, pos->pgoff);
	struct hm_desc *desc = hm_desc_of(cache, frame);

	hm_spin_lock(&shard->queue_lock);
	hm_assert(hm_ptr_read(&desc->word) == pos->word);
	if (hm_queued(desc))
		hm_queue_unlink(cache, shard, frame);
	hm_ptr_set(&desc->word, NULL);
	hm_spin_unlock(&shard->queue_lock);
}

/*
 * Ghosts: a table of fingerprints of evicted units, each with the time of its eviction. The clock
 * counts evicted blocks. A ghost expires when as many blocks have been evicted after it as the pool
 * has frames.
 */
static u64 hm_queue_ghost_hash(const struct hm_pos *pos)
{
	u64 hash = pos->pgoff * 2 + (pos->base ? 1 : 0);

	hash = (hash ^ pos->file->id * 0xd6e8feb86659fd93ull) * 0x9e3779b97f4a7c15ull;
	hash ^= hash >> 29;
	hash *= 0xbf58476d1ce4e5b9ull;
	return hash ^ (hash >> 32);
}

static hm_atomic_t *hm_queue_ghost_slot(const struct hm_pos *pos, u64 hash)
{
	struct hm_cache *cache = pos->file->cache;

	return &cache->ghosts[(hash >> 32) & (cache->nghosts - 1)];
}

/* A CPU advances the clock once per block of evicted pages, to write to the shared line rarely. */
void hm_ghost_add(const struct hm_pos *pos)
{
	struct hm_cache *cache = pos->file->cache;
	u64 hash = hm_queue_ghost_hash(pos), pages = hm_pos_pages(pos);
	u64 gone = hm_atomic_add(&hm_local_shard(cache)->gone_pages, (s64)pages);

	if (gone % HM_BLOCK_PAGES < pages)
		hm_atomic_add(&cache->ghost_clock, 1);
	hm_atomic_set(hm_queue_ghost_slot(pos, hash),
		      (hash << 32) | (hm_atomic_read(&cache->ghost_clock) & 0xffffffff));
}

bool hm_ghost_take(const struct hm_pos *pos)
{
	struct hm_cache *cache = pos->file->cache;
	u64 hash = hm_queue_ghost_hash(pos);
	hm_atomic_t *slot = hm_queue_ghost_slot(pos, hash);
	u64 now = hm_atomic_read(&cache->ghost_clock);
	u64 ghost = hm_atomic_read(slot);

	if (!ghost || (u32)(ghost >> 32) != (u32)hash)
		return false;
	hm_atomic_cas(slot, &ghost, 0);
	return (u32)now - (u32)ghost <= cache->nframes;
}
