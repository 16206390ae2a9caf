// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Promotion: the base pages of a block become one huge unit, in the background.
 *
 * A base page is cached because a program accessed it or read-ahead brought it in. So the words of
 * the base pages serve as a bitmap of the 512 accessed pages of a block, and eviction ages it. When
 * a share of opts.promote_util of the pages is cached, a fault makes the block a candidate, and a
 * worker of the engine promotes it. Programs use the block during the promotion:
 *
 *   missing pages:  ABSENT -> FILLING. The frame in the word is the page's place in the huge
 *                   frame, and the engine reads the page there
 *   other pages:    copied while programs use them. HM_W_COPIED works as a sequence lock: each
 *                   transition that makes the unit dirty or evicts it clears the flag
 *   claim:          CLEAN or DIRTY -> EVICTING, as for an eviction; all pages or none
 *   commit:         all words FROZEN, then the block SPLIT -> CLEAN or DIRTY
 *
 * Every step before the commit can be undone. The engine copies the pages with HM_PAGE_COPY after
 * it has claimed and unmapped them, when no task can store to them any more.
 */
#include "bits.h"
#include "cache.h"
#include "dirty.h"
#include "dirty_map.h"
#include "file.h"
#include "index.h"
#include "pool.h"
#include "promote.h"
#include "promotion.h"
#include "queue.h"
#include "stream.h"

/* After this many failures the block is no candidate any more, until a fault queues it again. */
#define TRIES_MAX 4u

/* --- candidates ----------------------------------------------------------------- */

/* Add a candidate. False: there is no room. */
static bool hm_promote_queue_candidate(struct hm_cache *cache, const struct hm_candidate *candidate)
{
	bool room;

	hm_spin_lock(&cache->promote_lock);
	room = cache->ncandidates < HM_CANDIDATES;
	if (room)
		cache->candidate[cache->ncandidates++] = *candidate;
	hm_spin_unlock(&cache->promote_lock);
	return room;
}

/* Remove candidate @i; the others keep their order. The caller holds promote_lock. */
static struct hm_candidate hm_promote_take_candidate(struct hm_cache *cache, u32 i)
{
	struct hm_candidate taken = cache->candidate[i];

	for (cache->ncandidates--; i < cache->ncandidates; i++)
		cache->candidate[i] = cache->candidate[i + 1];
	return taken;
}

void hm_promote_note(const struct hm_pos *pos, bool no_promote)
{
	if (no_promote)
		hm_bit_set(pos->leaf->no_promote, pos->leaf_slot);
	else if (hm_atomic_read(&pos->base->resident) <= 1)
		/* All pages with the old hint have left the cache: this is the first new page. */
		hm_bit_clear(pos->leaf->no_promote, pos->leaf_slot);
}

/* The block with the end of the file is never a huge unit, nor is a block whose read failed. */
static bool hm_promote_can_be_huge(const struct hm_pos *block)
{
	return hm_block_of(block->pgoff) < hm_atomic_read(&block->file->size) >> HM_BLOCK_SHIFT &&
	       !hm_bit_test(block->leaf->read_failed, block->leaf_slot);
}

/* Is a promotion worthwhile: for the program, for a stream, or by the share that is cached? */
static bool hm_promote_is_wanted(const struct hm_pos *pos, struct hm_access access)
{
	u32 util = pos->file->cache->opts.promote_util;

	if (access.promote) {
		if (hm_bit_test(pos->leaf->no_promote, pos->leaf_slot))
			hm_bit_clear(pos->leaf->no_promote, pos->leaf_slot);
		if (!hm_bit_test(pos->leaf->force_promote, pos->leaf_slot))
			hm_bit_set(pos->leaf->force_promote, pos->leaf_slot);
		return hm_promote_can_be_huge(pos);
	}
	return util && !hm_bit_test(pos->leaf->no_promote, pos->leaf_slot) &&
	       (access.stream ||
		hm_atomic_read(&pos->base->resident) * 100 >= (u64)util * HM_BLOCK_PAGES) &&
	       hm_promote_can_be_huge(pos);
}

bool hm_promote_queue(const struct hm_pos *pos, struct hm_access access)
{
	struct hm_cache *cache = pos->file->cache;
	const struct hm_candidate candidate = {
		.file = pos->file,
		.pgoff = hm_block_start(pos->pgoff),
		.stream = access.stream,
	};

	if (!hm_promote_is_wanted(pos, access))
		return false;
	if (hm_bit_test(pos->leaf->queued, pos->leaf_slot) ||
	    hm_bit_set(pos->leaf->queued, pos->leaf_slot))
		return false;
	if (hm_promote_queue_candidate(cache, &candidate))
		return true;
	hm_bit_clear(pos->leaf->queued, pos->leaf_slot);
	return false;
}

void hm_promote_forget(struct hm_file *file)
{
	struct hm_cache *cache = file->cache;
	u32 i = 0;

	hm_spin_lock(&cache->promote_lock);
	while (i < cache->ncandidates) {
		if (cache->candidate[i].file == file)
			hm_promote_take_candidate(cache, i);
		else
			i++;
	}
	hm_spin_unlock(&cache->promote_lock);
}

bool hm_promote_pick(struct hm_cache *cache, struct hm_promotion *p)
{
	u64 now = hm_atomic_read(&cache->clock);
	bool found;
	u32 i = 0;

	hm_spin_lock(&cache->promote_lock);
	while (i < cache->ncandidates && cache->candidate[i].after > now)
		i++;
	found = i < cache->ncandidates;
	if (found) {
		struct hm_candidate taken = hm_promote_take_candidate(cache, i);

		*p = (struct hm_promotion){
			.unit = { .file = taken.file,
				  .pgoff = taken.pgoff,
				  .npages = HM_BLOCK_PAGES,
				  .frame = HM_NO_FRAME_ID },
			.tries = taken.tries,
			.stream = taken.stream,
			.picked = true,
		};
	}
	hm_spin_unlock(&cache->promote_lock);
	return found;
}

/* --- pages of the block ------------------------------------------------------------- */

static bool hm_promote_find_leaf(const struct hm_promotion *p, struct hm_pos *pos)
{
	if (!hm_index_find(p->unit.file, p->unit.pgoff, pos))
		return false;
	pos->pgoff = p->unit.pgoff;
	pos->word = &hm_pos_block(pos)->word;
	return true;
}

/* Find the block of a promotion. False: it has no node of base pages. */
static bool hm_promote_find_block(const struct hm_promotion *p, struct hm_pos *pos)
{
	return hm_promote_find_leaf(p, pos) && hm_pos_base_node(pos);
}

/* Return the position of a base page of a block. */
static struct hm_pos hm_promote_page_of(const struct hm_pos *block, u32 i)
{
	struct hm_pos page = *block;

	page.base = hm_pos_base_node(block);
	page.base_slot = i;
	page.pgoff = block->pgoff + i;
	page.word = hm_base_word(page.base, page.pgoff);
	return page;
}

static bool hm_promote_is_set(const unsigned long *map, u32 i)
{
	return map[i / HM_BITS_PER_LONG] >> (i % HM_BITS_PER_LONG) & 1;
}

static void hm_promote_set(unsigned long *map, u32 i)
{
	map[i / HM_BITS_PER_LONG] |= 1ul << (i % HM_BITS_PER_LONG);
}

/* Does the file allow the block to be a huge unit? */
static enum hm_promote_result hm_promote_check_file(const struct hm_pos *block)
{
	const struct hm_base *base = hm_pos_base_node(block);

	if (!hm_promote_can_be_huge(block))
		return HM_PROMOTE_GONE;
	/*
	 * Write-back of a huge unit may write pages that are not dirty now, and could find no space
	 * for them. Dirty base pages are allocated already.
	 */
	return hm_bits_count(base->needs_alloc) ? HM_PROMOTE_NEEDS_ALLOC : HM_PROMOTE_OK;
}

/* Stores to this many pages from the first page on are those of a stream. */
#define STORED_PREFIX_MIN (HM_BLOCK_PAGES / 32 + 1)

/*
 * Check that programs accessed enough base pages and, if they stored to some, to enough of them.
 * @stream: a stream will access the rest of the block. It suffices that no page was stored to, or
 * that the pages that were stored to form a prefix of the block.
 */
static enum hm_promote_result hm_promote_check_use(const struct hm_pos *block, bool stream)
{
	u32 util = block->file->cache->opts.promote_util;
	u32 min = (util * HM_BLOCK_PAGES + 99) / 100;
	u32 accessed = 0, stored = 0, prefix = 0, i;

	for (i = 0; i < HM_BLOCK_PAGES; i++) {
		u64 word = hm_atomic_read(hm_promote_page_of(block, i).word);

		if (hm_word_state(word) == HM_FILLING || hm_state_resident(hm_word_state(word)))
			accessed += !(word & HM_W_AHEAD);
		stored += word & HM_W_STORED || hm_word_state(word) == HM_DIRTY ||
			  hm_word_state(word) == HM_WRITING;
		prefix += stored == i + 1;
	}
	if (accessed < min && !stream)
		return HM_PROMOTE_COLD;
	if (stream && stored == prefix && (!stored || stored >= STORED_PREFIX_MIN))
		return HM_PROMOTE_OK;
	/*
	 * The stream may only read this block, and other tasks store to a few of its pages. A huge
	 * unit would make their write-back larger, so the limits for stores apply to a stream, too.
	 */
	return stored && (stored < min || accessed < min) ? HM_PROMOTE_DIRTY : HM_PROMOTE_OK;
}

/* Clear a flag in the words of all base pages, so that it only records later events. */
static void hm_promote_clear_flag(const struct hm_pos *block, u64 flag)
{
	u32 i;

	for (i = 0; i < HM_BLOCK_PAGES; i++) {
		hm_atomic_t *at = hm_promote_page_of(block, i).word;
		u64 word = hm_atomic_read(at);

		while ((word & flag) && !hm_atomic_cas(at, &word, word & ~flag))
			;
	}
}

/* --- the steps of a promotion --------------------------------------------------------- */

/* Claim the missing pages: the engine reads each into its place in the huge frame. */
static enum hm_promote_result hm_promote_claim_missing(struct hm_promotion *p,
						       const struct hm_pos *block)
{
	struct hm_cache *cache = block->file->cache;
	u32 i;

	for (i = 0; i < HM_BLOCK_PAGES; i++) {
		u32 place = hm_pool_base_frame(cache, p->unit.frame, i);
		struct hm_pos page = hm_promote_page_of(block, i);
		u64 word = hm_atomic_read(page.word);

		if (hm_word_state(word) == HM_FROZEN || hm_word_state(word) == HM_FAILED)
			return HM_PROMOTE_GONE;
		if (hm_word_state(word) != HM_ABSENT)
			continue;
		/* Count before the claim, as hm_fault_miss() does. */
		hm_atomic_add(&page.base->resident, 1);
		if (hm_atomic_cas(page.word, &word, hm_word_with_frame(word, HM_FILLING, place))) {
			hm_promote_set(p->missing, i);
			p->nmissing++;
		} else {
			hm_atomic_add(&page.base->resident, -1);
		}
	}
	return HM_PROMOTE_OK;
}

enum hm_promote_result hm_promote_begin(struct hm_promotion *p, bool force)
{
	hm_index_guard();
	struct hm_cache *cache = p->unit.file->cache;
	enum hm_promote_result why = HM_PROMOTE_GONE;
	struct hm_base *base;
	struct hm_pos block;

	hm_assert(p->unit.pgoff % HM_BLOCK_PAGES == 0 && !p->begun);
	p->unit.npages = HM_BLOCK_PAGES;
	p->unit.frame = HM_NO_FRAME_ID;
	p->unit.hints = 0;
	if (!hm_promote_find_block(p, &block))
		goto not_promoted;
	if (hm_bit_set(block.leaf->promoting, block.leaf_slot)) {
		why = HM_PROMOTE_BUSY;
		goto not_promoted;
	}
	/* From here on the node of base pages stays, unless its removal has begun. */
	base = hm_pos_base_node(&block);
	if (!base || hm_atomic_read(&base->resident) & HM_NODE_DEAD)
		goto not_begun;
	if (hm_base_words(base, p->unit.pgoff) < HM_BLOCK_PAGES) {
		/* The engine had no memory for the rest. Without a split there is no base page. */
		if (hm_word_state(hm_atomic_read(block.word)) == HM_SPLIT)
			why = HM_PROMOTE_FAILED;
		goto not_begun;
	}
	p->begun = true;
	if (hm_word_state(hm_atomic_read(block.word)) != HM_SPLIT)
		goto not_promoted;
	force |= hm_bit_test(block.leaf->force_promote, block.leaf_slot);
	/* Promotion of this block, or of all, may have been turned off after it was queued. */
	if (!force &&
	    (!cache->opts.promote_util || hm_bit_test(block.leaf->no_promote, block.leaf_slot)))
		goto not_promoted;
	why = hm_promote_check_file(&block);
	if (!why && !force)
		why = hm_promote_check_use(&block, p->stream);
	if (why)
		goto not_promoted;
	p->unit.frame = hm_pool_take(cache, HM_HUGE, true);
	why = HM_PROMOTE_NO_FRAME;
	if (p->unit.frame == HM_NO_FRAME_ID)
		goto not_promoted;
	hm_dirty_map_reset(cache, p->unit.frame);
	why = hm_promote_claim_missing(p, &block);
	if (!why)
		return HM_PROMOTE_OK;
	goto not_promoted;
not_begun:
	hm_bit_clear(block.leaf->promoting, block.leaf_slot);
not_promoted:
	hm_promote_abort(p, why);
	return why;
}

bool hm_promote_copy(struct hm_promotion *p, u32 *at, struct hm_unit *unit)
{
	struct hm_pos block;

	hm_promote_find_block(p, &block);
	for (; *at < HM_BLOCK_PAGES; (*at)++) {
		struct hm_pos page = hm_promote_page_of(&block, *at);
		u64 word = hm_atomic_read(page.word);

		while (hm_word_state(word) == HM_CLEAN && !(word & HM_W_COPIED)) {
			if (!hm_atomic_cas(page.word, &word, word | HM_W_COPIED))
				continue;
			(*at)++;
			unit->hints = 0;
			unit->err = 0;
			hm_unit_set(unit, &page, hm_word_frame(word));
			return true;
		}
	}
	return false;
}

/*
 * Return a claimed page to its state before the claim. Return true if a task waits for it. A dirty
 * page may lack its dirty bit: see hm_confirm_dirty().
 */
static bool hm_promote_unclaim_page(const struct hm_pos *page)
{
	u64 word = hm_atomic_read(page->word), next;

	do {
		next = hm_word_to(word, word & HM_W_REDIRTY ? HM_DIRTY : HM_CLEAN) |
		       (word & (HM_W_AHEAD | HM_W_MARK | HM_W_REF | HM_W_STORED |
				HM_W_WRITE_FAILED | HM_W_COPIED));
	} while (!hm_atomic_cas(page->word, &word, next));
	if (hm_word_state(next) == HM_CLEAN)
		hm_queue_insert(page, hm_word_frame(next), false);
	return word & HM_W_WAIT;
}

/* Claim a base page. False: it is neither clean nor dirty, or its write failed. */
static bool hm_promote_claim_page(struct hm_promotion *p, const struct hm_pos *page, u32 i)
{
	u64 word = hm_atomic_read(page->word), next;

	do {
		/* A page whose write failed would make the whole huge unit unwritable. */
		if (hm_word_state(word) == HM_DIRTY && !(word & HM_W_WRITE_FAILED))
			next = (word & ~HM_W_STATE) | HM_EVICTING | HM_W_REDIRTY;
		else if (hm_word_state(word) == HM_CLEAN)
			next = (word & ~HM_W_STATE) | HM_EVICTING;
		else
			return false;
	} while (!hm_atomic_cas(page->word, &word, next));
	p->frame[i] = hm_word_frame(next);
	if (next & HM_W_COPIED)
		hm_promote_set(p->copied, i);
	if (next & HM_W_REDIRTY) {
		p->ndirty++;
		hm_promote_set(p->changed, i);
	}
	return true;
}

/* Release the first @n pages of the block. Return true if a task waits for one of them. */
static bool hm_promote_unclaim_pages(struct hm_promotion *p, const struct hm_pos *block, u32 n)
{
	bool waited = false;

	p->claimed = false;
	while (n-- > 0) {
		struct hm_pos page = hm_promote_page_of(block, n);

		if (!hm_promote_is_set(p->missing, n))
			waited |= hm_promote_unclaim_page(&page);
	}
	return waited;
}

enum hm_promote_result hm_promote_claim(struct hm_promotion *p)
{
	struct hm_pos block;
	enum hm_promote_result why;
	u32 i;

	hm_assert(p->begun && !p->claimed);
	hm_promote_find_block(p, &block);
	why = hm_promote_check_file(&block);
	if (why)
		return why;
	memset(p->copied, 0, sizeof(p->copied));
	memset(p->changed, 0, sizeof(p->changed));
	p->ndirty = 0;
	for (i = 0; i < HM_BLOCK_PAGES; i++) {
		struct hm_pos page = hm_promote_page_of(&block, i);

		if (!hm_promote_is_set(p->missing, i) && !hm_promote_claim_page(p, &page, i)) {
			hm_promote_unclaim_pages(p, &block, i);
			return HM_PROMOTE_BUSY;
		}
	}
	p->claimed = true;
	return HM_PROMOTE_OK;
}

bool hm_promote_unclaim(struct hm_promotion *p)
{
	struct hm_pos block;

	hm_assert(p->claimed);
	hm_promote_find_block(p, &block);
	return hm_promote_unclaim_pages(p, &block, HM_BLOCK_PAGES);
}

enum hm_promote_page hm_promote_page(const struct hm_promotion *p, u32 i, struct hm_unit *unit)
{
	hm_assert(p->claimed && i < HM_BLOCK_PAGES);
	if (hm_promote_is_set(p->missing, i))
		return HM_PAGE_READ;
	*unit = (struct hm_unit){
		.file = p->unit.file,
		.pgoff = p->unit.pgoff + i,
		.npages = 1,
		.frame = p->frame[i],
	};
	return hm_promote_is_set(p->copied, i) ? HM_PAGE_COPIED : HM_PAGE_COPY;
}

/* The flags that the word of the block inherits from its base words, and whether a task waits. */
struct sum {
	bool waited;
	u64 flags;
};

/* Freeze the word of a claimed page. Other tasks only add HM_W_WAIT to it. */
static void hm_promote_freeze_page(const struct hm_pos *page, struct sum *sum)
{
	u64 word = hm_atomic_read(page->word);

	while (!hm_atomic_cas(page->word, &word, (word & HM_W_SEQ) | HM_FROZEN))
		;
	sum->waited |= !!(word & HM_W_WAIT);
	sum->flags |= word & (HM_W_MARK | HM_W_STORED);
}

/*
 * Make the huge frame the frame of the block. The base frames have no owner from here on, but are
 * not on a free list yet.
 */
static void hm_promote_change_frame(const struct hm_promotion *p, const struct hm_pos *block)
{
	struct hm_cache *cache = block->file->cache;
	struct hm_desc *desc = hm_desc_of(cache, p->unit.frame);
	u32 i;

	desc->priority = HM_PRIORITY_NORMAL;
	desc->use_once = false;
	for (i = 0; i < HM_BLOCK_PAGES; i++) {
		struct hm_pos page = hm_promote_page_of(block, i);

		if (hm_promote_is_set(p->missing, i))
			continue;
		desc->priority |= hm_desc_of(cache, p->frame[i])->priority;
		hm_queue_forget(&page, p->frame[i]);
	}
	/* A block with pages of high and of low priority gets normal priority. */
	if (desc->priority == (HM_PRIORITY_HIGH | HM_PRIORITY_LOW))
		desc->priority = HM_PRIORITY_NORMAL;
	hm_queue_own(block, p->unit.frame);
}

/*
 * The last step of a promotion, whatever its result: another promotion of the block may begin.
 * After a failure the block becomes a candidate again, after a delay that doubles with each try.
 */
static void hm_promote_finish(struct hm_promotion *p, const struct hm_pos *block,
			      enum hm_promote_result why)
{
	/* The leaf may be removed as soon as the block is not being promoted any more. */
	hm_index_guard();
	struct hm_cache *cache = p->unit.file->cache;
	u32 interval = cache->opts.promote_interval_ms;
	const struct hm_candidate again = {
		.file = p->unit.file,
		.pgoff = p->unit.pgoff,
		.after = hm_atomic_read(&cache->clock) + ((u64)interval << p->tries),
		.tries = p->tries + 1,
	};

	if (p->begun)
		hm_bit_clear(block->leaf->promoting, block->leaf_slot);
	p->begun = false;
	p->claimed = false;
	if (!p->picked)
		return;
	p->picked = false;
	if (why == HM_PROMOTE_OK || why == HM_PROMOTE_GONE || again.tries >= TRIES_MAX ||
	    !hm_promote_queue_candidate(cache, &again))
		hm_bit_clear(block->leaf->queued, block->leaf_slot);
}

void hm_promote_dirty(struct hm_promotion *p, u32 i)
{
	hm_assert(p->claimed && i < HM_BLOCK_PAGES);
	hm_promote_set(p->changed, i);
}

bool hm_promote_commit(struct hm_promotion *p)
{
	struct hm_file *file = p->unit.file;
	struct hm_cache *cache = file->cache;
	struct sum sum = { .flags = HM_W_REF };
	struct hm_pos block, page;
	struct hm_base *base;
	bool dirty;
	u32 i;

	hm_assert(p->claimed);
	hm_promote_find_block(p, &block);
	base = hm_pos_base_node(&block);
	hm_promote_change_frame(p, &block);
	dirty = hm_bits_count(p->changed) > 0;
	if (dirty) {
		sum.flags |= HM_W_STORED;
		if (hm_dirty_map_promoted(p))
			sum.flags |= HM_W_PARTIAL_DIRTY;
		hm_dirty_add(&block);
	}

	hm_spin_lock(&file->node_lock);
	hm_stay_begin();
	for (i = 0; i < HM_BLOCK_PAGES; i++) {
		page = hm_promote_page_of(&block, i);
		hm_promote_freeze_page(&page, &sum);
	}
	hm_index_join_frozen(&block, base,
			     hm_word_with_frame(0, dirty ? HM_DIRTY : HM_CLEAN, p->unit.frame) |
				     sum.flags);
	hm_stay_end();
	hm_spin_unlock(&file->node_lock);

	hm_atomic_add(&base->resident, -(s64)HM_BLOCK_PAGES);
	if (dirty)
		hm_dirty_mark(&block);
	else
		hm_queue_insert(&block, p->unit.frame, true);
	for (i = 0; i < p->ndirty; i++)
		hm_dirty_sub(&page);
	for (i = 0; i < HM_BLOCK_PAGES; i++) {
		if (!hm_promote_is_set(p->missing, i))
			hm_pool_give(cache, p->frame[i]);
	}
	hm_count(cache, HM_C_PROMOTED, 1);
	if (p->stream)
		hm_stream_promoted(file, p->unit.pgoff, true);
	hm_promote_finish(p, &block, HM_PROMOTE_OK);
	return sum.waited;
}

/* Make a missing page absent again. Return true if a task waits for it. */
static bool hm_promote_give_up_fill(const struct hm_pos *page)
{
	u64 word = hm_atomic_read(page->word);

	while (!hm_atomic_cas(page->word, &word, hm_word_gone(word)))
		;
	hm_atomic_add(&page->base->resident, -1);
	return word & HM_W_WAIT;
}

bool hm_promote_abort(struct hm_promotion *p, enum hm_promote_result why)
{
	hm_index_guard();
	struct hm_cache *cache = p->unit.file->cache;
	bool waited = false;
	struct hm_pos block;
	u32 i;

	if (!hm_promote_find_leaf(p, &block))
		return false; /* the block has left the cache, and its bits with it */
	if (p->claimed)
		waited = hm_promote_unclaim_pages(p, &block, HM_BLOCK_PAGES);
	for (i = 0; p->begun && i < HM_BLOCK_PAGES; i++) {
		struct hm_pos page = hm_promote_page_of(&block, i);

		if (hm_promote_is_set(p->missing, i))
			waited |= hm_promote_give_up_fill(&page);
	}
	if (p->begun)
		hm_promote_clear_flag(&block,
				      HM_W_COPIED | (why == HM_PROMOTE_DIRTY ? HM_W_STORED : 0));
	if (p->unit.frame != HM_NO_FRAME_ID)
		hm_pool_give(cache, p->unit.frame);
	if (p->begun && p->stream && p->nmissing)
		hm_stream_promoted(block.file, p->unit.pgoff, false);
	if (why != HM_PROMOTE_GONE) {
		hm_count(cache, HM_C_NOT_PROMOTED, 1);
		hm_count(cache, (enum hm_counter)(HM_C_NOT_PROMOTED + why), 1);
	}
	hm_promote_finish(p, &block, why);
	return waited;
}
