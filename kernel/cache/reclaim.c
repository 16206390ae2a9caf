// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Reclaim: the choice of the clean units that leave the cache when frames are short, in batches of
 * contiguous runs.
 *
 * Reclaim works on one shard at a time. It claims units at the end of the inactive queue that were
 * not accessed there, and makes as many others inactive. It never chooses dirty units: write-back
 * makes them clean first.
 */
#include "access.h"
#include "cache.h"
#include "index.h"
#include "move.h"
#include "pool.h"
#include "queue.h"
#include "reclaim.h"

/* Rounds without a victim, because all units found were not clean, before reclaim gives up. */
#define RECLAIM_ROUNDS 32u

/*
 * How many accessed use-once units stay, because their readers may still use them: in all shards
 * together, but at least one in each.
 */
#define USE_ONCE_KEEP 4u
#define USE_ONCE_KEEP_BASE 128u
/* How long a use-once unit that was read ahead may wait for its first access. */
#define USE_ONCE_WAIT_MS 30000u

/*
 * Hysteresis between the kinds: reclaim evicts from the other kind only if its oldest unit is older
 * by this much. For a young pool the margin is smaller: the age of the oldest unit of this kind.
 */
#define OTHER_KIND_MARGIN_MS 1000u

/* Split frames that reclaim examines to find one that it can empty. */
#define ISOLATE_TRIES 8u
/* Dirty pages that move at most to empty a split frame. */
#define MOVES_MAX (HM_BLOCK_PAGES / 8)

/* Insert a victim in file and offset order, so that the engine can unmap neighbours together. */
static void hm_reclaim_insert_victim(struct hm_victim *victims, u32 *n,
				     const struct hm_victim *victim)
{
	u32 i = *n;

	while (i > 0) {
		const struct hm_unit *other = &victims[i - 1].unit;

		if (other->file->id < victim->unit.file->id ||
		    (other->file == victim->unit.file && other->pgoff < victim->unit.pgoff))
			break;
		victims[i] = victims[i - 1];
		i--;
	}
	victims[i] = *victim;
	(*n)++;
}

static struct hm_victim hm_reclaim_new_victim(const struct hm_desc *desc, enum hm_kind kind,
					      u32 frame, bool evict)
{
	return (struct hm_victim){
		.unit = { .file = desc->file,
			  .pgoff = desc->pgoff,
			  .npages = hm_kind_pages(kind),
			  .frame = frame },
		.evict = evict,
		.to = HM_NO_FRAME_ID,
	};
}

static void hm_reclaim_add_victim(struct hm_victim *victims, u32 *n, const struct hm_desc *desc,
				  enum hm_kind kind, u32 frame, bool evict)
{
	const struct hm_victim victim = hm_reclaim_new_victim(desc, kind, frame, evict);

	hm_reclaim_insert_victim(victims, n, &victim);
}

/* Add a base page of a container that reclaim empties. */
static void hm_reclaim_add_isolated(struct hm_victim *victims, u32 *n, const struct hm_desc *desc,
				    u32 frame)
{
	struct hm_victim victim = hm_reclaim_new_victim(desc, HM_BASE, frame, true);

	victim.isolated = true;
	hm_reclaim_insert_victim(victims, n, &victim);
}

/* The result of a check of a queued unit. */
enum unit_check {
	UNIT_IDLE, /* clean and not accessed; claimed, if the caller wanted that */
	UNIT_REFERENCED, /* it was accessed; its reference bit is clear now */
	UNIT_NOT_CLEAN,
};

/*
 * Check a queued unit. If it is clean and was accessed, clear its reference bit. If it was not
 * accessed and @claim is set, claim it for eviction.
 *
 * The caller holds queue_lock, so the frame keeps its owner (desc->word). But the word of the owner
 * may not contain this frame yet. Such a unit counts as not clean. Example, for a unit that leaves
 * the cache and gets the same frame again:
 *
 *   CPU 0: finishes a write-back of the unit, and is about to call hm_queue_insert()
 *   CPU 1: evicts the unit; hm_fault_miss() takes the same frame and sets desc->word
 *   CPU 0: hm_queue_insert() finds its unit in desc->word and queues the frame
 *   CPU 2: finds the frame here, before CPU 1 puts it into the word
 */
static enum unit_check hm_reclaim_check_unit(struct hm_desc *desc, u32 frame, bool claim)
{
	hm_atomic_t *at = hm_ptr_read(&desc->word);
	u64 word = hm_atomic_read(at);

	for (;;) {
		if (hm_word_state(word) != HM_CLEAN || hm_word_frame(word) != frame)
			return UNIT_NOT_CLEAN;
		if (word & HM_W_REF) {
			if (hm_atomic_cas(at, &word, word & ~HM_W_REF))
				return UNIT_REFERENCED;
		} else if (!claim) {
			return UNIT_IDLE;
		} else if (hm_atomic_cas(at, &word, (word & ~HM_W_STATE) | HM_EVICTING)) {
			return UNIT_IDLE;
		}
	}
}

/*
 * Reclaim has unlinked a unit that is not clean. The task that makes it clean queues it again.
 * Until then reclaim cannot empty the container of the unit, so the pool may use the free base
 * frames there.
 */
static void hm_reclaim_unlinked_not_clean(struct hm_cache *cache, u32 frame)
{
	if (hm_frame_is_base(cache, frame))
		hm_pool_unisolate(cache, frame);
}

/*
 * Return the age of a stamp. If the clock ticked after @now was read, the stamp may be newer than
 * @now, by less than a minute: then return 0.
 */
static u32 hm_reclaim_age_since(u32 now, u32 stamp)
{
	return now - stamp < ~0u - 60000 ? now - stamp : 0;
}

/* Return the queue for a unit that was accessed while inactive. */
static enum hm_queue hm_reclaim_reactivation_queue(const struct hm_desc *desc)
{
	return desc->priority == HM_PRIORITY_HIGH ? HM_Q_HIGH : HM_Q_MAIN;
}

/* Claim up to @want units from the end of the inactive queue. The caller holds queue_lock. */
static u32 hm_reclaim_take_inactive(struct hm_cache *cache, struct hm_shard *shard,
				    enum hm_kind kind, u32 want, struct hm_victim *victims, u32 *n)
{
	struct hm_list *list = &shard->list[kind][HM_Q_INACTIVE];
	u32 count = hm_list_count(list);
	u32 budget = count < HM_SCAN_MAX ? count : HM_SCAN_MAX;
	u32 taken = 0;

	while (taken < want && budget-- > 0) {
		u32 frame = list->tail;
		struct hm_desc *desc = hm_desc_of(cache, frame);

		hm_queue_unlink(cache, shard, frame);
		switch (hm_reclaim_check_unit(desc, frame, true)) {
		case UNIT_IDLE:
			hm_reclaim_add_victim(victims, n, desc, kind, frame, true);
			taken++;
			break;
		case UNIT_REFERENCED:
			hm_queue_push(cache, shard, frame, hm_reclaim_reactivation_queue(desc),
				      false);
			hm_count(cache, HM_C_REACTIVATED, 1);
			break;
		case UNIT_NOT_CLEAN:
			hm_reclaim_unlinked_not_clean(cache, frame);
			break;
		}
	}
	return taken;
}

/* Count the accessed units among the oldest use-once units. The caller holds queue_lock. */
static u32 hm_reclaim_use_once_used(struct hm_cache *cache, const struct hm_list *list)
{
	u32 frame = list->tail, left = hm_list_count(list), used = 0;

	if (left > HM_SCAN_MAX)
		left = HM_SCAN_MAX;
	for (; left--; frame = hm_desc_of(cache, frame)->prev) {
		if (!(hm_atomic_read(hm_ptr_read(&hm_desc_of(cache, frame)->word)) & HM_W_AHEAD))
			used++;
	}
	return used;
}

/*
 * Claim up to @want use-once units, the oldest first, even if they were accessed: each is accessed
 * once. Keep the units that were accessed last, because their readers may still use them. Keep
 * unused read-ahead for USE_ONCE_WAIT_MS, then move it to probation. @all: no other unit is left,
 * so claim these as well.
 */
static u32 hm_reclaim_take_use_once(struct hm_cache *cache, struct hm_shard *shard,
				    enum hm_kind kind, bool all, u32 want,
				    struct hm_victim *victims, u32 max, u32 *n)
{
	struct hm_list *list = &shard->list[kind][HM_Q_USE_ONCE];
	u32 keep_total = kind == HM_BASE ? USE_ONCE_KEEP_BASE : USE_ONCE_KEEP;
	u32 keep = keep_total / cache->nshards ?: 1;
	u32 now = (u32)hm_atomic_read(&cache->clock);
	u32 frame, next, left, used, taken = 0;

	hm_spin_lock(&shard->queue_lock);
	used = hm_reclaim_use_once_used(cache, list);
	left = hm_list_count(list) < HM_SCAN_MAX ? hm_list_count(list) : HM_SCAN_MAX;
	for (frame = list->tail; left-- && taken < want && *n < max; frame = next) {
		struct hm_desc *desc = hm_desc_of(cache, frame);
		bool ahead = hm_atomic_read(hm_ptr_read(&desc->word)) & HM_W_AHEAD;
		enum unit_check check;

		next = desc->prev;
		if (!all && (ahead ? hm_reclaim_age_since(now, desc->stamp) < USE_ONCE_WAIT_MS :
				     used <= keep))
			continue;
		hm_queue_unlink(cache, shard, frame);
		check = ahead && !all ? UNIT_REFERENCED : hm_reclaim_check_unit(desc, frame, true);
		if (check == UNIT_REFERENCED && !ahead)
			check = hm_reclaim_check_unit(desc, frame, true);
		if (check == UNIT_IDLE) {
			hm_reclaim_add_victim(victims, n, desc, kind, frame, true);
			taken++;
		} else if (check == UNIT_REFERENCED) {
			hm_queue_push(cache, shard, frame, HM_Q_PROBATION, false);
		} else {
			hm_reclaim_unlinked_not_clean(cache, frame);
		}
		used -= !ahead;
	}
	hm_spin_unlock(&shard->queue_lock);
	return taken;
}

static u32 hm_reclaim_use_once(struct hm_cache *cache, enum hm_kind kind, bool all, u32 want,
			       struct hm_victim *victims, u32 max, u32 *n)
{
	u32 taken = 0, i;

	for (i = 0; i < cache->nshards && taken < want; i++) {
		struct hm_shard *shard = &cache->shards[i];

		if (hm_list_count(&shard->list[kind][HM_Q_USE_ONCE]))
			taken += hm_reclaim_take_use_once(cache, shard, kind, all, want - taken,
							  victims, max, n);
	}
	return taken;
}

/* Count the queued units of a shard: the clean ones, and a few that are not clean any more. */
static u32 hm_reclaim_shard_clean(const struct hm_shard *shard, enum hm_kind kind)
{
	const struct hm_list *list = shard->list[kind];

	return hm_list_count(&list[HM_Q_PROBATION]) + hm_list_count(&list[HM_Q_MAIN]) +
	       hm_list_count(&list[HM_Q_INACTIVE]);
}

static u32 hm_reclaim_shard_unproven(const struct hm_shard *shard, enum hm_kind kind)
{
	const struct hm_list *list = shard->list[kind];

	return hm_list_count(&list[HM_Q_PROBATION]) + hm_list_count(&list[HM_Q_INACTIVE]);
}

/* Return true if no unit leaves the shard: all that are not of high priority are pinned. */
static bool hm_reclaim_none_leaves(const struct hm_shard *shard, enum hm_kind kind)
{
	u32 unproven = hm_reclaim_shard_unproven(shard, kind);

	return !hm_list_count(&shard->list[kind][HM_Q_MAIN]) &&
	       (!unproven || hm_queue_none_leaves(shard, kind, unproven));
}

/*
 * The shard is stuck: choose the queue that reclaim would not choose. HM_QUEUES: there is none, or
 * it is the turn of the usual queue. If no other unit of the shard leaves, it is the queue of high
 * priority, but only with @high. The caller holds queue_lock.
 */
static enum hm_queue hm_reclaim_stuck_donor(struct hm_shard *shard, enum hm_kind kind, bool high)
{
	const struct hm_list *list = shard->list[kind];

	if (!(shard->turn[kind]++ % 2))
		return HM_QUEUES;
	if (hm_list_count(&list[HM_Q_MAIN]))
		return HM_Q_MAIN;
	if (high && hm_list_count(&list[HM_Q_HIGH]) && hm_reclaim_none_leaves(shard, kind))
		return HM_Q_HIGH;
	return HM_QUEUES;
}

/*
 * Choose the queue from which a unit becomes inactive: probation if it has its share, else the main
 * queue. Units of high priority become inactive only if @high is set and no other unit is left. In
 * a stuck shard, every other unit comes from the main queue.
 */
static enum hm_queue hm_reclaim_donor_queue(struct hm_cache *cache, struct hm_shard *shard,
					    enum hm_kind kind, bool high)
{
	struct hm_list *list = shard->list[kind];
	u64 all = hm_reclaim_shard_clean(shard, kind);
	u64 probation = hm_list_count(&list[HM_Q_PROBATION]);
	enum hm_queue queue = HM_QUEUES;

	if (hm_queue_is_stuck(shard, kind))
		queue = hm_reclaim_stuck_donor(shard, kind, high);
	if (queue != HM_QUEUES)
		return queue;
	if (!hm_list_count(&list[HM_Q_MAIN]))
		return high && !probation ? HM_Q_HIGH : HM_Q_PROBATION;
	if (!probation)
		return HM_Q_MAIN;
	return probation * 100 >= all * cache->opts.probation_ratio ? HM_Q_PROBATION : HM_Q_MAIN;
}

/*
 * A unit has just become inactive. Make the units after it in the file inactive, too, if they
 * entered the same queue within a second after it. The caller holds queue_lock.
 */
static u32 hm_reclaim_take_neighbours(struct hm_cache *cache, struct hm_shard *shard, u32 frame,
				      enum hm_queue queue, u32 want, struct hm_victim *victims,
				      u32 *n)
{
	enum hm_kind kind = hm_frame_kind(cache, frame);
	struct hm_desc *desc = hm_desc_of(cache, frame);
	struct hm_file *file = desc->file;
	u64 pgoff = desc->pgoff;
	u32 stamp = desc->stamp;
	u32 taken = 0;

	while (taken < want) {
		struct hm_desc *other;
		struct hm_pos pos;
		u64 word;

		pgoff += hm_kind_pages(kind);
		if (hm_block_of(pgoff) >= HM_FILE_BLOCKS_MAX ||
		    hm_shard_of(cache, file, pgoff) != shard || !hm_index_find(file, pgoff, &pos))
			break;
		word = hm_index_word(&pos, pgoff);
		if (hm_word_state(word) != HM_CLEAN || (word & HM_W_REF) ||
		    hm_pos_kind(&pos) != kind)
			break;
		other = hm_desc_of(cache, hm_word_frame(word));
		if (hm_ptr_read(&other->word) != pos.word ||
		    hm_atomic_read(&other->where) != hm_where(cache, shard, queue) ||
		    other->stamp - stamp > 1000)
			break;
		hm_queue_unlink(cache, shard, hm_word_frame(word));
		hm_queue_push(cache, shard, hm_word_frame(word), HM_Q_INACTIVE, false);
		hm_reclaim_add_victim(victims, n, other, kind, hm_word_frame(word), false);
		taken++;
	}
	return taken;
}

/* Make up to @want units of a shard inactive. The caller holds queue_lock. */
static u32 hm_reclaim_make_inactive(struct hm_cache *cache, struct hm_shard *shard,
				    enum hm_kind kind, bool high, u32 want,
				    struct hm_victim *victims, u32 *n)
{
	u32 budget = HM_SCAN_MAX;
	u32 taken = 0;

	while (taken < want && budget-- > 0) {
		enum hm_queue queue = hm_reclaim_donor_queue(cache, shard, kind, high);
		struct hm_list *list = &shard->list[kind][queue];
		u32 frame = list->tail, stamp;
		struct hm_desc *desc;

		if (!hm_list_count(list))
			break;
		desc = hm_desc_of(cache, frame);
		stamp = desc->stamp;
		hm_queue_unlink(cache, shard, frame);
		if (hm_reclaim_check_unit(desc, frame, false) == UNIT_NOT_CLEAN) {
			hm_reclaim_unlinked_not_clean(cache, frame);
			continue;
		}
		hm_queue_push(cache, shard, frame, HM_Q_INACTIVE, false);
		hm_reclaim_add_victim(victims, n, desc, kind, frame, false);
		taken++;
		desc->stamp = stamp; /* its neighbours are compared with the old stamp */
		hm_queue_note_oldest(cache, shard, kind, HM_Q_INACTIVE);
		taken += hm_reclaim_take_neighbours(cache, shard, frame, queue, want - taken,
						    victims, n);
	}
	hm_count(cache, HM_C_DEACTIVATED, taken);
	return taken;
}

static u32 hm_reclaim_shard(struct hm_cache *cache, struct hm_shard *shard, enum hm_kind kind,
			    bool high, u32 want, struct hm_victim *victims, u32 max, u32 *n)
{
	struct hm_list *list = shard->list[kind];
	u32 taken, target, room, inactive;

	hm_spin_lock(&shard->queue_lock);
	room = (max - *n) / 2;
	taken = hm_reclaim_take_inactive(cache, shard, kind, want < room ? want : room, victims, n);
	target = (u32)((u64)hm_reclaim_shard_clean(shard, kind) * cache->opts.inactive_ratio / 100);
	if (target < want - taken)
		target = want - taken;
	inactive = hm_list_count(&list[HM_Q_INACTIVE]);
	if (inactive < target) {
		room = max - *n;
		target -= inactive;
		hm_reclaim_make_inactive(cache, shard, kind, high, target < room ? target : room,
					 victims, n);
	}
	hm_spin_unlock(&shard->queue_lock);
	return taken;
}

/* Every so many calls, a stuck shard may be the first one again: its pins may have ended. */
#define STUCK_CALLS 4u

/* Return true if the shard has units, and most of them can leave. */
static bool hm_reclaim_is_useful(const struct hm_shard *shard, enum hm_kind kind)
{
	return !hm_queue_is_stuck(shard, kind) && hm_reclaim_shard_clean(shard, kind);
}

/*
 * Return the shard to start with: the one with the most unproven units. Otherwise a shard to which
 * the current scan adds no units would lose its hot units. Among shards with about as many, take
 * the next in turn, so that tasks that reclaim at the same time use different shards. Skip shards
 * in which most units stay. If no other shard has units, take all of them in turn, because each one
 * may have units that can leave. The counts are a hint, read without the lock.
 */
static u32 hm_reclaim_first_shard(struct hm_cache *cache, enum hm_kind kind)
{
	u32 start = (u32)hm_atomic_add(&cache->evict_cursor[kind], 1), first = start, max_units = 0;
	bool useful = false, found = false;
	u32 i;

	for (i = 0; i < cache->nshards; i++) {
		const struct hm_shard *shard = &cache->shards[(start + i) % cache->nshards];
		u32 units = hm_reclaim_shard_unproven(shard, kind);
		bool skip = !hm_reclaim_is_useful(shard, kind);

		useful |= !skip;
		if (start % STUCK_CALLS && skip)
			continue;
		if (!found || units > max_units + max_units / 4) {
			first = start + i;
			max_units = units;
		}
		found = true;
	}
	return useful ? first : start;
}

/* Return true if no unit leaves any shard, so that units of high priority may become inactive. */
static bool hm_reclaim_none_leaves_any(const struct hm_cache *cache, enum hm_kind kind)
{
	u32 i;

	for (i = 0; i < cache->nshards; i++)
		if (!hm_reclaim_none_leaves(&cache->shards[i], kind))
			return false;
	return true;
}

static void hm_reclaim_kind(struct hm_cache *cache, enum hm_kind kind, u32 want,
			    struct hm_victim *victims, u32 max, u32 *n)
{
	u32 cursor = hm_reclaim_first_shard(cache, kind), taken = 0, high, i;

	for (high = hm_reclaim_none_leaves_any(cache, kind); high < 2 && !*n; high++) {
		for (i = 0; i < cache->nshards && taken < want && *n + 2 <= max; i++)
			taken += hm_reclaim_shard(cache,
						  &cache->shards[(cursor + i) % cache->nshards],
						  kind, high, want - taken, victims, max, n);
	}
}

/* The unit of a kind that has been queued longest; HM_NO_FRAME_ID if none is queued. */
struct oldest {
	u32 frame;
	u32 age; /* ms */
};

/* Update @oldest with the oldest units of one shard. */
static void hm_reclaim_oldest_of_shard(const struct hm_shard *shard, enum hm_kind kind, u32 now,
				       struct oldest *oldest)
{
	u32 q;

	for (q = 0; q < HM_AGED_QUEUES; q++) {
		u64 unit = hm_atomic_read(&shard->oldest[kind][q]);
		u32 age = hm_reclaim_age_since(now, (u32)unit);

		if (unit != HM_NO_OLDEST && (oldest->frame == HM_NO_FRAME_ID || age > oldest->age))
			*oldest = (struct oldest){ .frame = (u32)(unit >> 32), .age = age };
	}
}

/*
 * Find the oldest unit of each kind. queue_lock is not held, so a unit may have left its queue by
 * the time at which reclaim uses the result.
 */
static void hm_reclaim_find_oldest(struct hm_cache *cache, struct oldest oldest[HM_KINDS])
{
	u32 now = (u32)hm_atomic_read(&cache->clock), kind, i;

	for (kind = 0; kind < HM_KINDS; kind++)
		oldest[kind] = (struct oldest){ .frame = HM_NO_FRAME_ID };
	for (i = 0; i < cache->nshards; i++) {
		for (kind = 0; kind < HM_KINDS; kind++)
			hm_reclaim_oldest_of_shard(&cache->shards[i], (enum hm_kind)kind, now,
						   &oldest[kind]);
	}
}

/*
 * Should reclaim evict from the kind that is short? Without the margin, in a pool where all units
 * are younger than a second, a block that was just brought in would be the oldest huge unit, and
 * would be evicted for its own base pages.
 */
static bool hm_reclaim_from_own_kind(const struct oldest *own, const struct oldest *other)
{
	if (own->frame == HM_NO_FRAME_ID || other->frame == HM_NO_FRAME_ID)
		return own->frame != HM_NO_FRAME_ID;
	return other->age <=
	       own->age + (own->age < OTHER_KIND_MARGIN_MS ? own->age : OTHER_KIND_MARGIN_MS);
}

/*
 * Count the dirty pages that have to move before a split frame is empty. Its clean pages are
 * evicted. Return more than MOVES_MAX if the frame cannot be emptied.
 */
static u32 hm_reclaim_count_moves(struct hm_cache *cache, u32 huge)
{
	u32 frame = hm_pool_base_frame(cache, huge, 0), moves = 0, i;

	if (!hm_pool_is_split(cache, huge, false))
		return MOVES_MAX + 1;
	for (i = 0; i < HM_BLOCK_PAGES && moves <= MOVES_MAX; i++, frame++) {
		enum hm_move_page page = hm_move_check(cache, frame);

		if (page == HM_MOVE_BUSY)
			return MOVES_MAX + 1;
		moves += page == HM_MOVE_DIRTY;
	}
	return moves;
}

/*
 * Choose the split frame to empty. If one is isolated already, choose it. Otherwise choose among
 * the frame that contains the oldest base page and its neighbours: the one with the fewest dirty
 * pages, for which there must be free base frames. Pages move only if a task found no huge frame
 * since the last time: with page=4K they never move. Skip a frame with a page that can neither
 * leave nor move: reclaim would evict all clean pages of it and still gain no huge frame.
 */
static u32 hm_reclaim_pick_container(struct hm_cache *cache, u32 oldest)
{
	u64 now = hm_atomic_read(&cache->isolated), free = hm_pool_free(cache, HM_BASE);
	u32 most = hm_atomic_read(&cache->huge_short) ? MOVES_MAX : 0;
	u32 fewest = (free < most ? (u32)free : most) + 1;
	u32 start = hm_pool_container(cache, oldest) + (u32)hm_atomic_read(&cache->isolate_skip);
	u32 chosen = HM_NO_FRAME_ID, i;

	/*
	 * A frame stays isolated until reclaim finds a page in it that can neither leave nor move.
	 */
	if (hm_pool_is_split(cache, (u32)now, true))
		return (u32)now;
	for (i = 0; i < ISOLATE_TRIES && fewest; i++) {
		u32 huge = (start + i) % cache->nframes;
		u32 moves = hm_reclaim_count_moves(cache, huge);

		if (moves < fewest) {
			fewest = moves;
			chosen = huge;
		}
	}
	if (chosen == HM_NO_FRAME_ID)
		return chosen;
	if (fewest)
		hm_atomic_set(&cache->huge_short, 0);
	while (!hm_atomic_cas(&cache->isolated, &now, chosen))
		;
	/* No task empties the previous frame any more: the pool may use its free frames. */
	if (now != chosen)
		hm_pool_unisolate(cache, hm_pool_base_frame(cache, (u32)now, 0));
	return chosen;
}

/*
 * Claim the dirty pages of an isolated frame for a move. False: one of them could not be claimed.
 */
static bool hm_reclaim_move_dirty(struct hm_cache *cache, u32 huge, struct hm_victim *victims,
				  u32 max, u32 *n)
{
	u32 frame = hm_pool_base_frame(cache, huge, 0), i;

	for (i = 0; i < HM_BLOCK_PAGES && *n < max; i++, frame++) {
		struct hm_victim victim = { .evict = true };

		if (hm_move_check(cache, frame) != HM_MOVE_DIRTY)
			continue;
		victim.to = hm_move_claim(cache, frame, &victim.unit);
		if (victim.to == HM_NO_FRAME_ID)
			return false;
		hm_reclaim_insert_victim(victims, n, &victim);
	}
	return true;
}

/* Evict a page of an isolated frame. False: it can neither leave nor move. */
static bool hm_reclaim_evict_isolated(struct hm_cache *cache, u32 frame, struct hm_victim *victims,
				      u32 *n)
{
	struct hm_desc *desc = hm_desc_of(cache, frame);
	u64 where = hm_atomic_read(&desc->where);
	struct hm_shard *shard = &cache->shards[where >> 8];
	enum unit_check check = UNIT_IDLE;

	if (where == HM_Q_NONE)
		return true;
	hm_spin_lock(&shard->queue_lock);
	/* If the frame is still queued in this shard, queue_lock keeps it there. */
	where = hm_atomic_read(&desc->where);
	if (where != HM_Q_NONE && &cache->shards[where >> 8] == shard) {
		check = hm_reclaim_check_unit(desc, frame, true);
		if (check == UNIT_REFERENCED)
			check = hm_reclaim_check_unit(desc, frame, true);
		/* If it is not clean, the task that makes it clean queues it again. */
		if (check != UNIT_REFERENCED)
			hm_queue_unlink(cache, shard, frame);
		if (check == UNIT_IDLE)
			hm_reclaim_add_isolated(victims, n, desc, frame);
	}
	hm_spin_unlock(&shard->queue_lock);
	/* If it was stored to a moment ago, it moves in the next round. */
	return check != UNIT_NOT_CLEAN || hm_move_check(cache, frame) == HM_MOVE_DIRTY;
}

/*
 * Empty a split frame, so that it is merged into a huge frame. First its dirty pages move. In later
 * rounds, all clean base pages in it are claimed: so none is evicted in vain if a dirty page turns
 * out to be pinned. If a page can neither leave nor move, let the pool use the free base frames
 * again.
 */
static void hm_reclaim_isolate_container(struct hm_cache *cache, u32 huge,
					 struct hm_victim *victims, u32 max, u32 *n)
{
	u32 first = hm_pool_base_frame(cache, huge, 0), before = *n, i;
	bool empties;

	hm_pool_isolate(cache, huge);
	/*
	 * If another CPU chose another frame after hm_reclaim_pick_container(), reclaim empties
	 * that one first.
	 */
	empties = hm_atomic_read(&cache->isolated) == huge &&
		  hm_reclaim_move_dirty(cache, huge, victims, max, n);
	for (i = *n > before ? HM_BLOCK_PAGES : 0; i < HM_BLOCK_PAGES && *n < max; i++)
		empties &= hm_reclaim_evict_isolated(cache, first + i, victims, n);
	/*
	 * Without a victim, the remaining units are in no queue: they are being filled or written,
	 * or other tasks have claimed them.
	 */
	if (!empties || *n == before)
		hm_pool_unisolate(cache, first);
}

/*
 * Return true if base pages must leave because the index is too large. This is so only while more
 * than twice probation_ratio percent of the base pages in the probation, main and inactive queues
 * are not in main. Below that, units of the main queue would leave.
 */
static bool hm_reclaim_for_index(const struct hm_cache *cache)
{
	u64 unproven = 0, all = 0;
	u32 i;

	if (!hm_cache_index_excess(cache))
		return false;
	for (i = 0; i < cache->nshards; i++) {
		unproven += hm_reclaim_shard_unproven(&cache->shards[i], HM_BASE);
		all += hm_reclaim_shard_clean(&cache->shards[i], HM_BASE);
	}
	return unproven * 100 > all * 2 * cache->opts.probation_ratio;
}

u32 hm_reclaim_want(struct hm_cache *cache, enum hm_kind kind)
{
	u64 target = hm_pool_free_target(cache);
	u64 free = hm_pool_free(cache, HM_HUGE);

	if (kind == HM_BASE) {
		if (hm_reclaim_for_index(cache))
			return cache->opts.evict_batch;
		target = cache->opts.evict_batch * 2;
		free = hm_cache_free_pages(cache);
	}
	if (free >= target)
		return 0;
	return cache->opts.evict_batch;
}

u32 hm_reclaim(struct hm_cache *cache, enum hm_kind kind, u32 want, struct hm_victim *victims,
	       u32 max)
{
	hm_index_guard();
	u32 round, n = 0;

	hm_assert(max >= 4 && want > 0);
	if (kind == HM_BASE && hm_reclaim_for_index(cache)) {
		hm_reclaim_kind(cache, HM_BASE, want, victims, max, &n);
		if (n)
			return n;
	}
	if (hm_reclaim_use_once(cache, kind, false, want, victims, max, &n) ||
	    (kind == HM_BASE && hm_reclaim_use_once(cache, HM_HUGE, false, 1, victims, max, &n)))
		return n;
	/*
	 * The queues contain some units that are not clean any more. A round that finds only such
	 * units unlinks them, and the next round continues with the rest.
	 */
	for (round = 0; round < RECLAIM_ROUNDS && !n; round++) {
		enum hm_kind other_kind = kind == HM_HUGE ? HM_BASE : HM_HUGE;
		struct oldest oldest[HM_KINDS];
		const struct oldest *own = &oldest[kind];
		const struct oldest *other = &oldest[other_kind];

		hm_reclaim_find_oldest(cache, oldest);
		if (own->frame == HM_NO_FRAME_ID && other->frame == HM_NO_FRAME_ID) {
			if (!hm_reclaim_use_once(cache, kind, true, want, victims, max, &n))
				hm_reclaim_use_once(cache, other_kind, true, want, victims, max,
						    &n);
			break;
		}
		if (hm_reclaim_from_own_kind(own, other)) {
			hm_reclaim_kind(cache, kind, want, victims, max, &n);
		} else if (kind == HM_HUGE) {
			u32 huge = hm_reclaim_pick_container(cache, other->frame);

			if (huge != HM_NO_FRAME_ID) {
				hm_reclaim_isolate_container(cache, huge, victims, max, &n);
			} else if (own->frame != HM_NO_FRAME_ID &&
				   (own->age >= OTHER_KIND_MARGIN_MS ||
				    !hm_pool_free(cache, HM_HUGE))) {
				hm_reclaim_kind(cache, HM_HUGE, want, victims, max, &n);
			} else if (hm_cache_free_pages(cache) <
				   hm_pool_free_target(cache) * HM_BLOCK_PAGES) {
				hm_reclaim_kind(cache, HM_BASE, want, victims, max, &n);
			} else {
				break;
			}
		} else {
			hm_reclaim_kind(cache, HM_HUGE, 1, victims, max, &n);
		}
	}
	/*
	 * Use-once units that may be in use, and unused read-ahead, are evicted only for a task
	 * that waits for a frame, not to keep frames free.
	 */
	if (!n && (kind == HM_BASE || !hm_pool_free(cache, HM_HUGE)))
		hm_reclaim_use_once(cache, kind, true, want, victims, max, &n);
	return n;
}
