// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Faults: a page goes from absent to cached, and from clean to dirty. For a cached unit hm_fault()
 * takes no lock, with the exceptions in state.h. A miss takes a frame from the free list of its
 * shard, and claims the unit with one compare-and-swap.
 */
#include "bits.h"
#include "cache.h"
#include "dirty.h"
#include "dirty_map.h"
#include "empty.h"
#include "evict.h"
#include "fault.h"
#include "file.h"
#include "holes.h"
#include "index.h"
#include "pool.h"
#include "promote.h"
#include "queue.h"
#include "stream.h"

/* Does a miss on this page bring in a base page instead of the block? */
static bool hm_fault_wants_base(const struct hm_pos *pos, u64 pgoff, struct hm_access access)
{
	u64 size = hm_atomic_read(&pos->file->size);

	if (hm_access_is_base(access))
		return true;
	/* The pages beyond the end of the file must raise SIGBUS; see hm_file_set_size(). */
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

/* A base page was brought in, or its first access came: its block may be worth a promotion. */
static void hm_fault_queue_promotion(const struct hm_pos *pos, struct hm_access access,
				     struct hm_unit *unit)
{
	if (pos->base && access.size == HM_SIZE_AUTO && hm_promote_queue(pos, access))
		unit->hints |= HM_HINT_PROMOTE;
}

/* A base page is brought in: record whether the program wants base pages in this block. */
static void hm_fault_note_hint(const struct hm_pos *pos, struct hm_access access)
{
	bool no_promote = access.size == HM_SIZE_BASE;

	if (no_promote != hm_bit_test(pos->leaf->no_promote, pos->leaf_slot))
		hm_promote_note(pos, no_promote);
}

/* Inlined into hm_fault(), this function would make each hit save and restore more registers. */
static noinline enum hm_outcome hm_fault_miss(struct hm_pos *pos, u64 word, struct hm_access access,
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
	/*
	 * Count before the frame gets its owner: desc->word never points to a node that is being
	 * removed. Count before the claim: a block with @resident 0 must have no cached page.
	 */
	if (!hm_index_count(pos)) {
		hm_pool_give(cache, frame);
		return HM_BUSY; /* its node is being removed: find it again */
	}
	if (!pos->base)
		hm_dirty_map_reset(cache, frame);
	desc = hm_desc_of(cache, frame);
	desc->priority = access.priority;
	/* HM_SIZE_AUTO brings in a block only for a stream, or at the request of the program. */
	desc->use_once = access.use_once || (!pos->base && access.size == HM_SIZE_AUTO &&
					     hm_stream_is_use_once(pos->file));
	hm_queue_own(pos, frame);

	filling = hm_word_with_frame(word, HM_FILLING, frame);
	if (access.ahead)
		filling |= HM_W_AHEAD;
	if (access.mark)
		filling |= HM_W_MARK;
	if (!hm_atomic_cas(pos->word, &word, filling)) {
		/* A late hm_queue_insert() for the previous use of the frame may have queued it. */
		hm_queue_forget(pos, frame);
		hm_index_uncount(pos);
		hm_empty_note(pos);
		hm_pool_give(cache, frame);
		return HM_BUSY; /* another task changed the word: read it again */
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
	return hm_holes_is_zero_fill(pos) ? HM_ZERO : HM_FILL;
}

/* Return the word of a cached unit after a store. @next: the word with the access recorded. */
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
	/* Set the bits before the word changes. Without a range the store may be to any page. */
	next &= ~HM_W_PARTIAL_DIRTY;
	if (!pos->base && access.npages)
		next |= hm_dirty_map_store(pos, word, pgoff, access);
	return next;
}

/* A store succeeded in changing the word from @word to @next: set the dirty bits and the hints. */
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
		/* The task that made the unit dirty may not have set the bits yet. */
		hm_dirty_ensure(pos);
	}
	if (next & HM_W_PARTIAL_DIRTY)
		unit->hints |= HM_HINT_PARTIAL;
}

/* Record an access to a cached unit, and the store. False: the word changed: read it again. */
static bool hm_fault_hit(const struct hm_pos *pos, u64 word, u64 pgoff, struct hm_access access,
			 struct hm_unit *unit)
{
	u64 next = (word | HM_W_REF) & ~(HM_W_AHEAD | HM_W_MARK);
	bool dirties = access.write && hm_word_state(word) == HM_CLEAN;
	bool above = false;

	if (access.write)
		next = hm_fault_mark_stored(pos, word, next, pgoff, access);
	/*
	 * A store to a few pages of a huge unit must not set the reference bit: one hot 4 KB page
	 * would keep 2 MB in memory.
	 */
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
 * Another task fills or evicts the unit: set HM_W_WAIT, so that this task is woken. A fault that
 * waits for a fill counts as the first access of the unit, and takes the read-ahead marker. A fault
 * with .cached_only does neither, because its caller repeats the fault. Return false if the word
 * changed: the caller reads it again.
 */
static bool hm_fault_busy(const struct hm_pos *pos, u64 word, struct hm_access access,
			  struct hm_unit *unit)
{
	bool accessed = hm_word_state(word) == HM_FILLING && !access.cached_only;
	u64 next = word | HM_W_WAIT;

	if (access.ahead)
		return true;
	if (accessed)
		next &= ~(HM_W_AHEAD | HM_W_MARK);
	if (next != word && !hm_atomic_cas(pos->word, &word, next))
		return false;
	if (accessed && (word & HM_W_AHEAD))
		hm_count(pos->file->cache, HM_C_AHEAD_USED, 1);
	if (accessed && (word & HM_W_MARK))
		unit->hints |= HM_HINT_READAHEAD;
	return true;
}

/* A store follows in another call: note why that call may have to wait. */
static void hm_fault_note_obstacles(const struct hm_pos *pos, u64 word, struct hm_unit *unit)
{
	if (hm_index_needs_alloc(pos))
		unit->hints |= HM_HINT_NEEDS_ALLOC;
	if (hm_word_state(word) == HM_WRITING)
		unit->hints |= HM_HINT_WRITING;
}

/*
 * Try a fault with the current word of the unit. @again is set if the word changed: find it again.
 */
static enum hm_outcome hm_fault_try(struct hm_pos *pos, u64 pgoff, struct hm_access access,
				    struct hm_unit *unit, bool *again)
{
	u64 word = hm_index_word(pos, pgoff);
	enum hm_outcome outcome;

	*again = false;
	/*
	 * No base page of the block is cached, and this fault brings in the whole block: join it.
	 */
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
			if (hm_index_split(pos, word))
				break;
			unit->err = pos->missing;
			return HM_NO_NODE;
		}
		if (!pos->word) {
			unit->err = pos->missing;
			return HM_NO_NODE;
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
		if (access.write) {
			if (access.allocated_only && hm_index_needs_alloc(pos))
				return HM_NEEDS_ALLOC;
			if (access.stable && hm_word_state(word) == HM_WRITING)
				return HM_STABLE;
		} else if (access.npages) {
			hm_fault_note_obstacles(pos, word, unit);
		}
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
		hm_index_uncount(pos);
		hm_empty_note(pos);
		return HM_ERROR;
	case HM_SPLIT:
	case HM_FROZEN:
		hm_assert(!"hm_index_word() looks below these");
	}
	*again = true;
	return HM_BUSY;
}

static void hm_fault_count_faults(struct hm_cache *cache, enum hm_counter kind, u32 n)
{
	struct hm_shard *shard = hm_local_shard(cache);

	hm_atomic_count(&shard->count[HM_C_FAULTS], n);
	hm_atomic_count(&shard->count[kind], n);
}

static void hm_fault_count_outcome(struct hm_cache *cache, enum hm_outcome outcome,
				   struct hm_access access)
{
	switch (outcome) {
	case HM_HIT:
		if (!access.ahead && !access.again)
			hm_fault_count_faults(cache, HM_C_HITS, 1);
		break;
	case HM_FILL:
	case HM_ZERO:
		if (access.ahead)
			hm_count(cache, HM_C_AHEAD, 1);
		else
			hm_fault_count_faults(cache,
					      outcome == HM_FILL ? HM_C_FILLS : HM_C_ZERO_FILLS, 1);
		break;
	default:
		break;
	}
}

enum hm_outcome hm_fault(struct hm_file *file, u64 pgoff, struct hm_access access,
			 struct hm_unit *unit)
{
	hm_index_guard();
	enum hm_outcome outcome;
	struct hm_pos pos;
	bool again;

	if (pgoff >= hm_file_npages(file))
		return HM_BEYOND;
	unit->hints = 0;
	unit->err = 0;
	do {
		if (!hm_index_find(file, pgoff, &pos)) {
			unit->file = file;
			unit->err = pos.missing;
			return access.cached_only ? HM_MISS : HM_NO_NODE;
		}
		outcome = hm_fault_try(&pos, pgoff, access, unit, &again);
	} while (again);
	hm_fault_count_outcome(file->cache, outcome, access);
	return outcome;
}

/* May a unit be mapped by the fault of a neighbour? Only a fault of its own may find the marker. */
static bool hm_fault_mappable(u64 word)
{
	return hm_state_resident(hm_word_state(word)) && hm_word_state(word) != HM_EVICTING &&
	       !(word & HM_W_MARK);
}

/* Record a read of the unit at @pos. False: it is not cached, or it has the marker. */
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

/* Touch a base page that was not accessed, or is not mappable. */
static noinline u64 hm_fault_touch_new_base(struct hm_pos *pos, u64 pgoff, u64 stop)
{
	struct hm_unit unit = { .hints = 0 };
	u64 word;

	pos->base_slot = (u32)(pgoff & (HM_BLOCK_PAGES - 1));
	do {
		word = hm_atomic_read(pos->word);
		if (!hm_fault_mappable(word) || word & stop)
			return 0;
	} while (!hm_fault_hit(pos, word, pgoff, HM_ACCESS_READ, &unit));
	return word;
}

/*
 * The same as hm_fault_touch_pos(), for a base page of a block that was split when @pos was set. It
 * is shorter because a row has many pages. If the block has been joined, the words of its base
 * pages are frozen, which is not mappable. @stop: flags of units that are left out as well. Return
 * the word of the page, or 0.
 */
static inline u64 hm_fault_touch_base(struct hm_pos *pos, u64 pgoff, u64 stop)
{
	u64 word;

	pos->word = hm_base_word(pos->base, pgoff);
	if (!pos->word)
		return 0;
	word = hm_atomic_read(pos->word);
	if ((word & (HM_W_REF | HM_W_AHEAD)) == HM_W_REF && hm_fault_mappable(word))
		return word;
	return hm_fault_touch_new_base(pos, pgoff, stop);
}

bool hm_fault_around(struct hm_file *file, u64 pgoff, u64 *first, u64 *last, struct hm_unit *unit)
{
	hm_index_guard();
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
	while (low > start && hm_fault_touch_base(&pos, low - 1, 0))
		low--;
	while (high < end && hm_fault_touch_base(&pos, high + 1, 0))
		high++;
	*first = low;
	*last = high;
	return true;
}

u32 hm_fault_row(struct hm_file *file, u64 pgoff, u32 *frame, u32 n)
{
	hm_index_guard();
	u64 end = hm_block_start(pgoff) + HM_BLOCK_PAGES, npages = hm_file_npages(file);
	struct hm_pos pos;
	u32 found = 0;

	if (pgoff >= npages || !hm_index_find(file, pgoff, &pos))
		return 0;
	hm_index_word(&pos, pgoff);
	if (!pos.base)
		return 0;
	if (end > npages)
		end = npages;
	while (found < n && pgoff + found < end) {
		u64 word = hm_fault_touch_base(&pos, pgoff + found, HM_W_AHEAD);

		if (!word)
			break;
		frame[found++] = hm_word_frame(word);
	}
	hm_fault_count_faults(file->cache, HM_C_HITS, found);
	return found;
}

bool hm_fill_cancel(const struct hm_unit *unit)
{
	hm_index_guard();
	struct hm_pos pos;
	bool waited;
	u64 word;

	if (!hm_index_find(unit->file, unit->pgoff, &pos))
		hm_assert(!"a unit that is being filled has an index leaf");
	word = hm_index_word(&pos, unit->pgoff);
	hm_assert(hm_word_state(word) == HM_FILLING && hm_word_frame(word) == unit->frame);
	waited = hm_unit_gone(&pos, unit->frame);
	hm_empty_note(&pos);
	return waited;
}

/* The engine could not read the data; see hm_fill_done(). Return: true if a task waits. */
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
	if (hm_word_state(next) == HM_ABSENT) {
		hm_index_uncount(pos);
		hm_empty_note(pos);
	}
	hm_pool_give(pos->file->cache, frame);
	return word & HM_W_WAIT;
}

bool hm_fill_done(const struct hm_unit *unit, int err, bool dirty)
{
	hm_index_guard();
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
	/* All pages of the block have been read: the error has passed. */
	if (pos.base && hm_bit_test(pos.leaf->read_failed, pos.leaf_slot) &&
	    hm_atomic_read(&pos.base->resident) == HM_BLOCK_PAGES)
		hm_bit_clear(pos.leaf->read_failed, pos.leaf_slot);
	return word & HM_W_WAIT;
}
