// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Faults: the way of a page from absent to cached, and of a cached one to
 * dirty. hm_fault() takes no lock on a cached unit; a miss takes a frame from
 * the free list of its shard and claims the unit with one compare-and-swap.
 */
#include "bits.h"
#include "cache.h"
#include "dirty.h"
#include "dirty_map.h"
#include "evict.h"
#include "fault.h"
#include "file.h"
#include "index.h"
#include "pool.h"
#include "promote.h"
#include "queue.h"
#include "stream.h"

/* Does a miss on this page ask for a base page rather than for the block? */
static bool hm_fault_wants_base(const struct hm_pos *pos, u64 pgoff, struct hm_access access)
{
	u64 size = hm_atomic_read(&pos->file->size);

	if (hm_access_is_base(access))
		return true;
	/* The pages after the end of the store must not exist: invariant 3. */
	if (hm_block_of(pgoff) == size >> HM_BLOCK_SHIFT)
		return true;
	if (hm_bit_test(pos->leaf->read_failed, pos->leaf_slot))
		return true;
	if (access.size != HM_SIZE_AUTO)
		return false;
	if (pos->base && hm_atomic_read(&pos->base->resident))
		return true;
	if (access.order == HM_ORDER_SEQUENTIAL || access.promote)
		return false;
	return access.ahead || access.order == HM_ORDER_RANDOM ||
	       !hm_stream_reaches(pos->file, pgoff, false);
}

/* Something of a block came to be cached in base pages, or to be used. */
static void hm_fault_queue_promotion(const struct hm_pos *pos, struct hm_access access,
				     struct hm_unit *unit)
{
	if (pos->base && access.size == HM_SIZE_AUTO && hm_promote_queue(pos, access))
		unit->hints |= HM_HINT_PROMOTE;
}

/* A base page of a block comes in: has the program said that it wants one? */
static void hm_fault_note_hint(const struct hm_pos *pos, struct hm_access access)
{
	bool keep = access.size == HM_SIZE_BASE;

	if (keep != hm_bit_test(pos->leaf->no_promote, pos->leaf_slot))
		hm_promote_note(pos, keep);
}

static enum hm_outcome hm_fault_miss(struct hm_pos *pos, u64 word, struct hm_access access,
				     struct hm_unit *unit)
{
	struct hm_cache *cache = pos->file->cache;
	u32 hints = 0, frame;
	struct hm_desc *desc;
	u64 filling;

	frame = hm_pool_take(cache, hm_pos_kind(pos), access.ahead);
	if (frame == HM_NO_FRAME_ID) {
		unit->npages = hm_pos_pages(pos);
		unit->hints |= HM_HINT_RECLAIM;
		return HM_NO_FRAME;
	}
	if (!pos->base)
		hm_dirty_map_reset(cache, frame);
	desc = hm_desc_of(cache, frame);
	desc->priority = access.priority;
	/* A block that was chosen for a fault is of a stream, or somebody has asked for it. */
	desc->use_once = access.use_once || (!pos->base && access.size == HM_SIZE_AUTO &&
					     hm_stream_is_use_once(pos->file));
	hm_queue_own(pos, frame);

	filling = hm_word_with_frame(word, HM_FILLING, frame);
	if (access.ahead)
		filling |= HM_W_AHEAD;
	if (access.mark)
		filling |= HM_W_MARK;
	/* Before the claim: what counts nothing holds nothing. */
	if (pos->base)
		hm_atomic_add(&pos->base->resident, 1);
	if (!hm_atomic_cas(pos->word, &word, filling)) {
		if (pos->base)
			hm_atomic_add(&pos->base->resident, -1);
		/* A late hm_queue_insert() for an earlier stay may have queued it. */
		hm_queue_forget(pos, frame);
		hm_pool_give(cache, frame);
		return HM_BUSY; /* somebody was faster: look again */
	}
	if (hm_pool_low(cache, hm_pos_kind(pos)))
		hints |= HM_HINT_RECLAIM;
	if (!access.ahead)
		hints |= HM_HINT_READAHEAD;
	if (pos->base)
		hm_fault_note_hint(pos, access);
	hm_fault_queue_promotion(pos, access, unit);
	unit->frame = frame;
	unit->hints |= hints;
	return hm_index_is_zero_fill(pos) ? HM_ZERO : HM_FILL;
}

/* The word of a cached unit after a store to it; @next: after the touch. */
static u64 hm_fault_mark_stored(const struct hm_pos *pos, u64 word, u64 next, u64 pgoff,
				struct hm_access access)
{
	switch (hm_word_state(word)) {
	case HM_CLEAN:
		next = (next & ~(HM_W_STATE | HM_W_COPIED)) | HM_DIRTY | HM_W_STORED;
		break;
	case HM_WRITING:
		next |= HM_W_REDIRTY;
		break;
	default:
		next &= ~HM_W_WRITE_FAILED;
	}
	/* Before the word says so; whoever does not say which pages means all. */
	next &= ~HM_W_PARTIAL_DIRTY;
	if (!pos->base && access.npages)
		next |= hm_dirty_map_store(pos, word, pgoff, access);
	return next;
}

/* The same unit is dirty since now, or was so before. */
static void hm_fault_note_store(const struct hm_pos *pos, u64 word, u64 next, bool above,
				struct hm_unit *unit)
{
	if (hm_word_state(word) == HM_CLEAN) {
		hm_dirty_mark(pos);
		hm_count(pos->file->cache, HM_C_DIRTIED, 1);
		unit->hints |= HM_HINT_READAHEAD;
		if (above)
			unit->hints |= HM_HINT_WRITEBACK;
	} else if (hm_word_state(word) == HM_DIRTY) {
		/* Whoever made it dirty may not have set the bits yet. */
		hm_dirty_ensure(pos);
	}
	if (next & HM_W_PARTIAL_DIRTY)
		unit->hints |= HM_HINT_PARTIAL;
}

/*
 * A unit is cached: note the touch, and the store if it is one. False: its
 * word changed meanwhile, look again.
 */
static bool hm_fault_hit(const struct hm_pos *pos, u64 word, u64 pgoff, struct hm_access access,
			 struct hm_unit *unit)
{
	u64 next = (word | HM_W_REF) & ~(HM_W_AHEAD | HM_W_MARK);
	bool dirties = access.write && hm_word_state(word) == HM_CLEAN;
	bool above = false;

	if (access.write)
		next = hm_fault_mark_stored(pos, word, next, pgoff, access);
	/* A store to a few pages is no reason to keep all of a huge unit in memory. */
	if (!pos->base && access.npages && (!access.write || next & HM_W_PARTIAL_DIRTY))
		next = (next & ~HM_W_REF) | (word & HM_W_REF);
	if (dirties)
		above = hm_dirty_add(pos);
	if (next != word && !hm_atomic_cas(pos->word, &word, next)) {
		if (dirties)
			hm_dirty_sub(pos);
		return false;
	}
	if (access.write)
		hm_fault_note_store(pos, word, next, above, unit);
	if (word & HM_W_AHEAD) {
		hm_count(pos->file->cache, HM_C_AHEAD_USED, 1);
		hm_fault_queue_promotion(pos, access, unit);
	}
	if (word & HM_W_MARK)
		unit->hints |= HM_HINT_READAHEAD;
	return true;
}

/*
 * A unit is on its way in or out: ask to be told. False: look again. Who asks only for what
 * is cached comes back for it, and is told of the marker then.
 */
static bool hm_fault_busy(const struct hm_pos *pos, u64 word, struct hm_access access,
			  struct hm_unit *unit)
{
	bool used = hm_word_state(word) == HM_FILLING && !access.cached_only;
	u64 next = word | HM_W_WAIT;

	if (access.ahead)
		return true;
	if (used)
		next &= ~(HM_W_AHEAD | HM_W_MARK);
	if (next != word && !hm_atomic_cas(pos->word, &word, next))
		return false;
	if (used && (word & HM_W_AHEAD))
		hm_count(pos->file->cache, HM_C_AHEAD_USED, 1);
	if (used && (word & HM_W_MARK))
		unit->hints |= HM_HINT_READAHEAD;
	return true;
}

/* One look at the unit's word; HM_BUSY with *again: something changed. */
static enum hm_outcome hm_fault_try(struct hm_pos *pos, u64 pgoff, struct hm_access access,
				    struct hm_unit *unit, bool *again)
{
	u64 word = hm_index_word(pos, pgoff);
	enum hm_outcome outcome;

	*again = false;
	/* Whoever will fill it joins it. */
	if (pos->base && !access.cached_only && !hm_fault_wants_base(pos, pgoff, access) &&
	    !hm_atomic_read(&pos->base->resident)) {
		if (hm_index_join(pos))
			unit->hints |= HM_HINT_JOINED;
		word = hm_index_word(pos, pgoff);
	}
	hm_unit_set(unit, pos, hm_word_frame(word));
	switch (hm_word_state(word)) {
	case HM_ABSENT:
		if (access.cached_only)
			return HM_MISS;
		if (!pos->base && hm_fault_wants_base(pos, pgoff, access)) {
			if (!hm_index_split(pos, word)) {
				unit->err = HM_NODE_BASE;
				return HM_NO_NODE;
			}
			break;
		}
		outcome = hm_fault_miss(pos, word, access, unit);
		if (outcome == HM_BUSY)
			break;
		return outcome;
	case HM_FILLING:
	case HM_EVICTING:
		if (!hm_fault_busy(pos, word, access, unit))
			break;
		return HM_BUSY;
	case HM_CLEAN:
	case HM_DIRTY:
	case HM_WRITING:
		if (!access.ahead && !hm_fault_hit(pos, word, pgoff, access, unit))
			break;
		if (access.promote)
			hm_fault_queue_promotion(pos, access, unit);
		return HM_HIT;
	case HM_FAILED:
		unit->err = -(int)hm_word_frame(word);
		unit->frame = HM_NO_FRAME_ID;
		if (!hm_atomic_cas(pos->word, &word, hm_word_gone(word)))
			break;
		if (pos->base)
			hm_atomic_add(&pos->base->resident, -1);
		return HM_ERROR;
	case HM_SPLIT:
	case HM_FROZEN:
		hm_assert(!"hm_index_word() looks below these");
	}
	*again = true;
	return HM_BUSY;
}

static void hm_fault_count_fault(struct hm_cache *cache, enum hm_counter kind)
{
	struct hm_shard *shard = hm_local_shard(cache);

	hm_atomic_count(&shard->count[HM_C_FAULTS], 1);
	hm_atomic_count(&shard->count[kind], 1);
}

static void hm_fault_count_outcome(struct hm_cache *cache, enum hm_outcome outcome,
				   struct hm_access access)
{
	switch (outcome) {
	case HM_HIT:
		if (!access.ahead && !access.again)
			hm_fault_count_fault(cache, HM_C_HITS);
		break;
	case HM_FILL:
	case HM_ZERO:
		if (access.ahead)
			hm_count(cache, HM_C_AHEAD, 1);
		else
			hm_fault_count_fault(cache,
					     outcome == HM_FILL ? HM_C_FILLS : HM_C_ZERO_FILLS);
		break;
	default:
		break;
	}
}

enum hm_outcome hm_fault(struct hm_file *file, u64 pgoff, struct hm_access access,
			 struct hm_unit *unit)
{
	enum hm_outcome outcome;
	struct hm_pos pos;
	bool again;

	if (pgoff >= hm_file_npages(file))
		return HM_BEYOND;
	unit->hints = 0;
	unit->err = 0;
	if (!hm_index_find(file, pgoff, &pos)) {
		unit->file = file;
		unit->err = pos.missing;
		return access.cached_only ? HM_MISS : HM_NO_NODE;
	}
	do {
		outcome = hm_fault_try(&pos, pgoff, access, unit, &again);
	} while (again);
	hm_fault_count_outcome(file->cache, outcome, access);
	return outcome;
}

/* May a unit be mapped beside a fault? The marker must be seen by a fault of its own. */
static bool hm_fault_mappable(u64 word)
{
	return hm_state_resident(hm_word_state(word)) && hm_word_state(word) != HM_EVICTING &&
	       !(word & HM_W_MARK);
}

/* A touch of a unit that is cached, at a position that is set. */
static bool hm_fault_touch_pos(struct hm_pos *pos, u64 pgoff, struct hm_unit *unit)
{
	u64 word;

	for (;;) {
		word = hm_index_word(pos, pgoff);
		if (!hm_fault_mappable(word))
			return false;
		hm_unit_set(unit, pos, hm_word_frame(word));
		if (hm_fault_hit(pos, word, pgoff, HM_ACCESS_READ, unit))
			return true;
	}
}

static bool hm_fault_find_and_touch(struct hm_file *file, u64 pgoff, struct hm_pos *pos,
				    struct hm_unit *unit)
{
	if (pgoff >= hm_file_npages(file) || !hm_index_find(file, pgoff, pos))
		return false;
	unit->hints = 0;
	unit->err = 0;
	return hm_fault_touch_pos(pos, pgoff, unit);
}

/*
 * A touch of a base page of a block that was seen split: what hm_fault_touch_pos() does, in
 * short for the many pages of a row. If the block has been joined since, the words
 * of its base pages say that nothing is there.
 */
static bool hm_fault_touch_base(struct hm_pos *pos, u64 pgoff)
{
	struct hm_unit unit = { .hints = 0 };
	u64 word;

	pos->base_slot = (u32)(pgoff & (HM_BLOCK_PAGES - 1));
	pos->word = &pos->base->word[pos->base_slot];
	for (;;) {
		word = hm_atomic_read(pos->word);
		if (!hm_fault_mappable(word))
			return false;
		if ((word & (HM_W_REF | HM_W_AHEAD)) == HM_W_REF ||
		    hm_fault_hit(pos, word, pgoff, HM_ACCESS_READ, &unit))
			return true;
	}
}

bool hm_fault_around(struct hm_file *file, u64 pgoff, u64 *first, u64 *last, struct hm_unit *unit)
{
	u64 low = pgoff, high = pgoff, start, end, npages = hm_file_npages(file);
	struct hm_pos pos;

	hm_assert(*first <= pgoff && pgoff <= *last);
	if (!hm_fault_find_and_touch(file, pgoff, &pos, unit))
		return false;
	start = hm_block_start(pgoff);
	end = start + HM_BLOCK_PAGES - 1;
	if (*first > start)
		start = *first;
	if (*last < end)
		end = *last;
	if (end >= npages)
		end = npages - 1;
	if (unit->npages > 1) {
		*first = start;
		*last = end;
		return true;
	}
	while (low > start && hm_fault_touch_base(&pos, low - 1))
		low--;
	while (high < end && hm_fault_touch_base(&pos, high + 1))
		high++;
	*first = low;
	*last = high;
	return true;
}

bool hm_fill_cancel(const struct hm_unit *unit)
{
	struct hm_pos pos;
	u64 word;

	if (!hm_index_find(unit->file, unit->pgoff, &pos))
		hm_assert(!"a unit that is being filled has an index leaf");
	word = hm_index_word(&pos, unit->pgoff);
	hm_assert(hm_word_state(word) == HM_FILLING && hm_word_frame(word) == unit->frame);
	return hm_unit_gone(&pos, unit->frame);
}

/* The frame could not be filled; see hm_fill_done(). */
static bool hm_fault_fill_failed(const struct hm_pos *pos, u64 word, u32 frame, int err)
{
	u64 next;

	hm_count(pos->file->cache, HM_C_READ_ERRORS, 1);
	hm_queue_forget(pos, frame);
	if (!pos->base)
		hm_bit_set(pos->leaf->read_failed, pos->leaf_slot);
	do {
		if (pos->base && (word & HM_W_WAIT))
			next = hm_word_with_frame(word, HM_FAILED, (u32)-err);
		else
			next = hm_word_gone(word);
	} while (!hm_atomic_cas(pos->word, &word, next));
	if (pos->base && hm_word_state(next) == HM_ABSENT)
		hm_atomic_add(&pos->base->resident, -1);
	hm_pool_give(pos->file->cache, frame);
	return word & HM_W_WAIT;
}

bool hm_fill_done(const struct hm_unit *unit, int err, bool dirty)
{
	struct hm_pos pos;
	bool proven;
	u64 word, next;

	if (!hm_index_find(unit->file, unit->pgoff, &pos))
		hm_assert(!"a unit that is being filled has an index leaf");
	word = hm_index_word(&pos, unit->pgoff);
	hm_assert(hm_word_state(word) == HM_FILLING && hm_word_frame(word) == unit->frame);
	hm_assert(hm_pos_pages(&pos) == unit->npages);
	if (err)
		return hm_fault_fill_failed(&pos, word, unit->frame, err);

	proven = hm_ghost_take(&pos);
	if (proven)
		hm_count(unit->file->cache, HM_C_GHOSTS, 1);
	if (dirty)
		hm_dirty_add(&pos);
	do {
		next = hm_word_to(word, HM_CLEAN) | (word & (HM_W_AHEAD | HM_W_MARK));
		if (dirty)
			next = (next & ~HM_W_STATE) | HM_DIRTY | HM_W_STORED;
	} while (!hm_atomic_cas(pos.word, &word, next));
	if (dirty)
		hm_dirty_mark(&pos);
	else
		hm_queue_insert(&pos, unit->frame, proven);
	return word & HM_W_WAIT;
}
