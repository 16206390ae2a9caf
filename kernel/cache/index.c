// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The index: from a page of a file to the state word of its unit.
 *
 * As in the papers, it is a radix tree under RCU. A lookup is two to four dependent loads.
 *
 * hm_file_take_empty() removes nodes without cached units. Each leaf and each node of base pages
 * counts its units. A task counts a unit before it claims the absent unit:
 *
 *   CPU 0 (removal): changes the count from 0 to HM_NODE_DEAD; takes the node out of the index
 *   CPU 1 (fault): found the node before that; counts its unit; finds HM_NODE_DEAD, and repeats
 *                  the lookup
 *
 * If CPU 1 counts first, CPU 0 finds a count above 0, and the node stays.
 *
 * A block changes between "one unit" and "split into base pages" in two steps. The words of its
 * base pages are valid only while the word of the block is HM_SPLIT:
 *
 *   split: block ABSENT -> SPLIT, then each base word FROZEN -> ABSENT
 *   join:  each base word ABSENT -> FROZEN (undone if one is not absent),
 *          then block SPLIT -> ABSENT
 *
 * A task that reads a FROZEN word reads the word of the block again.
 */
#include "bits.h"
#include "file.h"
#include "index.h"
#include "state.h"

size_t hm_node_bytes(enum hm_node_kind kind)
{
	switch (kind) {
	case HM_NODE_ROOT:
		return sizeof(struct hm_root);
	case HM_NODE_DIR:
		return sizeof(struct hm_dir);
	case HM_NODE_LEAF:
		return sizeof(struct hm_leaf);
	case HM_NODE_HEAD:
		return offsetof(struct hm_leaf, block[HM_HEAD_BLOCKS]);
	case HM_NODE_BASE:
		return sizeof(struct hm_base);
	case HM_NODE_FIRST:
		return offsetof(struct hm_base, word[HM_FIRST_PAGES]);
	case HM_NODE_REST:
		return sizeof(struct hm_rest);
	}
	return 0;
}

/* The pages below a node. */
static u64 hm_index_pages(enum hm_node_kind kind)
{
	switch (kind) {
	case HM_NODE_ROOT:
		return HM_FILE_BLOCKS_MAX << HM_BLOCK_ORDER;
	case HM_NODE_DIR:
		return (u64)HM_NODE_SLOTS << (HM_NODE_ORDER + HM_BLOCK_ORDER);
	case HM_NODE_LEAF:
		return (u64)HM_NODE_SLOTS << HM_BLOCK_ORDER;
	case HM_NODE_HEAD:
		return (u64)HM_HEAD_BLOCKS << HM_BLOCK_ORDER;
	case HM_NODE_BASE:
	case HM_NODE_FIRST:
	case HM_NODE_REST:
		return HM_BLOCK_PAGES;
	}
	return 0;
}

u64 hm_node_start(u64 pgoff, enum hm_node_kind kind)
{
	return pgoff & ~(hm_index_pages(kind) - 1);
}

static inline bool hm_index_find_pos(struct hm_file *file, u64 pgoff, struct hm_pos *pos)
{
	u64 block = hm_block_of(pgoff);
	struct hm_dir **dir;

	pos->file = file;
	pos->leaf_slot = (u32)(block & (HM_NODE_SLOTS - 1));
	pos->base_slot = (u32)(pgoff & (HM_BLOCK_PAGES - 1));
	pos->base = NULL;
	pos->word = NULL;
	if (block < HM_HEAD_BLOCKS) {
		pos->dir = NULL;
		pos->leaf = hm_ptr_read(&file->head);
		pos->missing = HM_NODE_HEAD;
		return pos->leaf;
	}
	pos->missing = HM_NODE_ROOT;
	/* In the kernel an assertion only warns, so return before the lookup. */
	if (block >= HM_FILE_BLOCKS_MAX) {
		hm_assert(!"a lookup is for a page that a file can have");
		return false;
	}
	pos->dir_slot = (u32)((block >> HM_NODE_ORDER) & (HM_NODE_SLOTS - 1));
	pos->root_slot = (u32)(block >> (2 * HM_NODE_ORDER));
	dir = hm_file_dir(file, pos->root_slot);
	if (!dir)
		return false;
	pos->dir = hm_ptr_read(dir);
	pos->missing = HM_NODE_DIR;
	if (!pos->dir)
		return false;
	pos->leaf = hm_ptr_read(&pos->dir->leaf[pos->dir_slot]);
	pos->missing = HM_NODE_LEAF;
	return pos->leaf;
}

bool hm_index_find(struct hm_file *file, u64 pgoff, struct hm_pos *pos)
{
	return hm_index_find_pos(file, pgoff, pos);
}

u64 hm_index_next(const struct hm_pos *pos, u64 pgoff)
{
	return hm_node_start(pgoff, pos->missing) + hm_index_pages(pos->missing);
}

u64 hm_index_word(struct hm_pos *pos, u64 pgoff)
{
	for (;;) {
		u64 word;

		pos->base = NULL;
		pos->pgoff = hm_block_start(pgoff);
		pos->word = &hm_pos_block(pos)->word;
		word = hm_atomic_read(pos->word);
		if (hm_word_state(word) != HM_SPLIT)
			return word;

		pos->base = hm_pos_base_node(pos);
		if (!pos->base)
			continue; /* it was removed after a join of the block: read again */
		pos->pgoff = pgoff;
		pos->word = hm_base_word(pos->base, pgoff);
		/* A missing word is frozen as long as the first one: its bits are not valid yet. */
		word = hm_atomic_read(pos->word ? pos->word : &pos->base->word[0]);
		if (hm_word_state(word) == HM_FROZEN) {
			hm_relax(); /* another CPU splits or joins the block: a short loop */
			continue;
		}
		if (pos->word)
			return word;
		pos->missing = HM_NODE_REST;
		return HM_ABSENT;
	}
}

static hm_atomic_t *hm_index_counter(const struct hm_pos *pos)
{
	return pos->base ? &pos->base->resident : &pos->leaf->resident;
}

static bool hm_index_count_in(hm_atomic_t *resident)
{
	if (!(hm_atomic_add(resident, 1) & HM_NODE_DEAD))
		return true;
	hm_atomic_add(resident, -1);
	return false;
}

bool hm_index_count(const struct hm_pos *pos)
{
	return hm_index_count_in(hm_index_counter(pos));
}

void hm_index_uncount(const struct hm_pos *pos)
{
	hm_atomic_add(hm_index_counter(pos), -1);
}

bool hm_index_split(struct hm_pos *pos, u64 word)
{
	struct hm_base *base = hm_pos_base_node(pos);
	bool zero_fill, needs_alloc;
	u32 i, words;

	hm_assert(hm_word_state(word) == HM_ABSENT);
	pos->missing = pos->pgoff ? HM_NODE_BASE : HM_NODE_FIRST;
	if (!base)
		return false;
	/*
	 * The leaf counts a split block as one unit. The count of the base node only keeps that
	 * node in the index during this function.
	 */
	if (!hm_index_count_in(&pos->leaf->resident))
		return true;
	if (!hm_index_count_in(&base->resident))
		goto uncount;
	hm_stay_begin();
	if (!hm_atomic_cas(&hm_pos_block(pos)->word, &word, hm_word_to(word, HM_SPLIT))) {
		hm_stay_end();
		hm_atomic_add(&base->resident, -1);
		goto uncount;
	}
	hm_race_point();
	zero_fill = hm_bit_test(pos->leaf->zero_fill, pos->leaf_slot);
	needs_alloc = hm_bit_test(pos->leaf->needs_alloc, pos->leaf_slot);
	/* No task reads the bits of frozen words, and no frozen page is dirty. */
	memset(base->dirty, 0, sizeof(base->dirty));
	memset(base->zero_fill, zero_fill ? 0xff : 0, sizeof(base->zero_fill));
	/* A block with data and holes keeps the bits of its pages from hm_file_add_node(). */
	if (zero_fill || !needs_alloc)
		memset(base->needs_alloc, needs_alloc ? 0xff : 0, sizeof(base->needs_alloc));
	/*
	 * hm_holes_set_zero_fill() on another CPU may change needs_alloc at the same time:
	 *
	 *   CPU 0 (this one): reads the bit of the block, which is clear
	 *   CPU 1: sets the bit of the block, then the bits of its pages
	 *   CPU 0: the memset() above clears the bits of the pages
	 *
	 * So read the bit of the block again, and if it is set, set the bits of all pages.
	 * hm_bit_clear() serves only as a full barrier in front of that read: its bit is clear
	 * already, or is set again below.
	 */
	if (!needs_alloc) {
		hm_bit_clear(base->needs_alloc, 0);
		if (hm_bit_test(pos->leaf->needs_alloc, pos->leaf_slot))
			memset(base->needs_alloc, 0xff, sizeof(base->needs_alloc));
	}
	/* hm_index_add_rest() waits for the first word. So the loop thaws a rest that is here now. */
	words = hm_base_words(base, pos->pgoff);
	for (i = 0; i < words; i++) {
		hm_atomic_t *at = hm_base_word(base, pos->pgoff + i);

		word = hm_atomic_read(at);
		hm_assert(hm_word_state(word) == HM_FROZEN);
		hm_atomic_set(at, hm_word_gone(word));
	}
	hm_stay_end();
	hm_atomic_add(&base->resident, -1);
	hm_count(pos->file->cache, HM_C_SPLITS, 1);
	return true;

uncount:
	hm_atomic_add(&pos->leaf->resident, -1);
	return true;
}

void hm_index_join_frozen(const struct hm_pos *pos, struct hm_base *base, u64 word)
{
	hm_atomic_t *block = &hm_pos_block(pos)->word;
	u64 old;

	hm_bit_set_to(pos->leaf->zero_fill, pos->leaf_slot,
		      hm_bits_count(base->zero_fill) == HM_BLOCK_PAGES);
	hm_bit_set_to(pos->leaf->needs_alloc, pos->leaf_slot, hm_bits_count(base->needs_alloc));
	hm_bit_clear(pos->leaf->no_promote, pos->leaf_slot);
	hm_bit_clear(pos->leaf->force_promote, pos->leaf_slot);
	old = hm_atomic_read(block);
	hm_assert(hm_word_state(old) == HM_SPLIT);
	hm_atomic_set(block, word ? (old & HM_W_SEQ) | word : hm_word_gone(old));
	if (!word)
		hm_atomic_add(&pos->leaf->resident, -1);
}

bool hm_index_join(struct hm_pos *pos)
{
	u64 word, start = hm_block_start(pos->pgoff);
	struct hm_base *base;
	u32 i, words;
	hm_atomic_t *at;

	/* Exclude hm_holes_set_zero_fill(): the join would overwrite its bit for the block. */
	hm_spin_lock(&pos->file->node_lock);
	base = hm_pos_base_node(pos);
	if (!base) {
		hm_spin_unlock(&pos->file->node_lock);
		return false;
	}
	hm_stay_begin();
	words = hm_base_words(base, start);
	for (i = 0; i < words; i++) {
		at = hm_base_word(base, start + i);
		word = hm_atomic_read(at);
		if (hm_word_state(word) != HM_ABSENT ||
		    !hm_atomic_cas(at, &word, hm_word_to(word, HM_FROZEN)))
			break;
	}
	if (i < words) {
		while (i-- > 0) {
			at = hm_base_word(base, start + i);
			hm_atomic_set(at, hm_word_gone(hm_atomic_read(at)));
		}
		hm_stay_end();
		hm_spin_unlock(&pos->file->node_lock);
		return false;
	}
	hm_index_join_frozen(pos, base, 0);
	hm_stay_end();
	hm_spin_unlock(&pos->file->node_lock);
	hm_count(pos->file->cache, HM_C_JOINS, 1);
	return true;
}

bool hm_file_lacks_node(struct hm_file *file, u64 pgoff, enum hm_node_kind *kind)
{
	hm_index_guard();
	struct hm_pos pos;

	if (hm_index_find(file, pgoff, &pos))
		hm_index_word(&pos, pgoff);
	*kind = pos.missing;
	return !pos.word;
}

/* The pointer to the leaf of a position. */
static struct hm_leaf **hm_index_leaf_slot(const struct hm_pos *pos)
{
	return pos->dir ? &pos->dir->leaf[pos->dir_slot] : &pos->file->head;
}

static bool hm_index_add_leaf(struct hm_file *file, const struct hm_pos *pos, struct hm_leaf *leaf,
			      const unsigned long *zero_fill, const unsigned long *needs_alloc)
{
	u32 i;

	if (zero_fill)
		memcpy(leaf->zero_fill, zero_fill, sizeof(leaf->zero_fill));
	if (!needs_alloc)
		needs_alloc = zero_fill;
	for (i = 0; needs_alloc && i < HM_BITMAP_LONGS(HM_NODE_SLOTS); i++) {
		leaf->needs_alloc[i] = needs_alloc[i];
		if (needs_alloc[i])
			hm_atomic_set(&file->needs_alloc, 1);
	}
	return hm_ptr_install(hm_index_leaf_slot(pos), leaf);
}

static bool hm_index_add_base(const struct hm_pos *pos, u64 pgoff, struct hm_base *base,
			      const unsigned long *needs_alloc)
{
	u32 i, words = hm_base_words(base, hm_block_start(pgoff));

	hm_assert(pos->leaf);
	for (i = 0; i < words; i++)
		hm_atomic_set(&base->word[i], HM_FROZEN);
	if (needs_alloc)
		memcpy(base->needs_alloc, needs_alloc, sizeof(base->needs_alloc));
	/*
	 * The block has holes, but the caller names no page with one: it does not know them, or it
	 * looked before a hole was made. So every page may be one.
	 */
	if (hm_bit_test(pos->leaf->needs_alloc, pos->leaf_slot) &&
	    !hm_bits_count(base->needs_alloc))
		memset(base->needs_alloc, 0xff, sizeof(base->needs_alloc));
	return hm_ptr_install(&hm_pos_block(pos)->base, base);
}

/*
 * Add the other words of the first block, which is split. A split by another CPU may still run, and
 * clears the bits of all pages of the block:
 *
 *   CPU 0 (split): changes the word of the block to HM_SPLIT
 *   CPU 1: would add the rest now; a store to one of its pages sets the dirty bit of the page
 *   CPU 0: clears the dirty bits, so write-back does not find the page
 *
 * So wait in hm_index_word() until the split thaws the first word, which it does afterwards. The
 * caller holds node_lock: the block is not joined, and its node is not removed.
 */
static bool hm_index_add_rest(struct hm_pos *pos, struct hm_rest *rest)
{
	hm_index_word(pos, 0);
	return pos->base && hm_ptr_install(&pos->base->rest, rest);
}

/*
 * Return true if the size has changed from @then to another size, and the end of the file was
 * within the range of a leaf or of a base node at any time in between. Roots, directories and the
 * rest of the first block have no bitmaps.
 */
static bool hm_index_range_changed(const struct hm_file *file, u64 pgoff, enum hm_node_kind kind,
				   u64 then)
{
	u64 now = hm_atomic_read(&file->size), start = hm_node_start(pgoff, kind);

	if (now == then || kind <= HM_NODE_DIR || kind == HM_NODE_REST)
		return false;
	return (now < then ? now : then) < (start + hm_index_pages(kind)) << HM_PAGE_SHIFT &&
	       (now < then ? then : now) > start << HM_PAGE_SHIFT;
}

static void hm_index_link(struct hm_file *file, struct hm_node *node, enum hm_node_kind kind)
{
	node->prev = NULL;
	node->next = file->nodes;
	if (node->next)
		node->next->prev = node;
	file->nodes = node;
	node->bytes = (u32)hm_node_bytes(kind);
	file->node_bytes += node->bytes;
	if (!file->uncounted)
		hm_atomic_count(&hm_local_shard(file->cache)->index_bytes, node->bytes);
}

static void hm_index_unlink(struct hm_file *file, struct hm_node *node)
{
	if (node->prev)
		node->prev->next = node->next;
	else
		file->nodes = node->next;
	if (node->next)
		node->next->prev = node->prev;
	file->node_bytes -= node->bytes;
	if (!file->uncounted)
		hm_atomic_count(&hm_local_shard(file->cache)->index_bytes, -(s64)node->bytes);
}

void hm_file_uncount_index(struct hm_file *file)
{
	hm_spin_lock(&file->node_lock);
	if (!file->uncounted)
		hm_atomic_count(&hm_local_shard(file->cache)->index_bytes, -(s64)file->node_bytes);
	file->uncounted = true;
	hm_spin_unlock(&file->node_lock);
}

/*
 * A leaf may be added and removed again while a task prepares one for the same place:
 *
 *   CPU 0: finds out which blocks are holes
 *   CPU 1: adds a leaf; a program stores to a hole; the unit is written, and leaves with the leaf
 *   CPU 0: would add a leaf in which the block still is a hole, and reads would return zeros
 *
 * Write-back counts the holes that it fills in @holes_filled, so CPU 0 finds another count.
 */
void hm_file_prepare_node(struct hm_file *file, u64 pgoff, void *mem)
{
	struct hm_node *node = mem;

	node->filled = (u32)hm_atomic_read(hm_file_holes_filled(file, pgoff));
}

static bool hm_index_hole_filled(struct hm_file *file, u64 pgoff, enum hm_node_kind kind,
				 const struct hm_node *node)
{
	return (kind == HM_NODE_LEAF || kind == HM_NODE_HEAD) &&
	       node->filled != (u32)hm_atomic_read(hm_file_holes_filled(file, pgoff));
}

bool hm_file_add_node(struct hm_file *file, u64 pgoff, enum hm_node_kind kind, void *mem, u64 size,
		      const unsigned long *zero_fill, const unsigned long *needs_alloc)
{
	struct hm_pos pos = { .leaf = NULL };
	bool added = false;

	if (kind < HM_NODE_BASE)
		hm_assert((kind == HM_NODE_HEAD) == (hm_block_of(pgoff) < HM_HEAD_BLOCKS));
	else
		hm_assert((kind == HM_NODE_BASE) == (hm_block_of(pgoff) > 0));
	/*
	 * A writer that extends the file sets the size first, then records its holes under
	 * node_lock. So either the size has changed here, or the writer finds the new node.
	 */
	hm_spin_lock(&file->node_lock);
	/* The node above may have been removed since the fault. */
	if (!hm_index_find(file, pgoff, &pos) && pos.missing < kind)
		goto out;
	if (hm_index_range_changed(file, pgoff, kind, size) ||
	    hm_index_hole_filled(file, pgoff, kind, mem))
		goto out;
	switch (kind) {
	case HM_NODE_ROOT:
		added = hm_ptr_install(&file->root, (struct hm_root *)mem);
		break;
	case HM_NODE_DIR:
		added = hm_ptr_install(hm_file_dir(file, pos.root_slot), (struct hm_dir *)mem);
		break;
	case HM_NODE_LEAF:
	case HM_NODE_HEAD:
		added = hm_index_add_leaf(file, &pos, mem, zero_fill, needs_alloc);
		break;
	case HM_NODE_BASE:
	case HM_NODE_FIRST:
		added = hm_index_add_base(&pos, pgoff, mem, needs_alloc);
		pos.leaf->nbase += added;
		break;
	case HM_NODE_REST:
		added = hm_index_add_rest(&pos, mem);
		break;
	}
	if (added)
		hm_index_link(file, mem, kind);
out:
	hm_spin_unlock(&file->node_lock);
	return added;
}

/*
 * Remove the node of base pages of a block, if no base page is cached. The caller holds node_lock.
 * A promotion relies on the node. It sets its bit first and then reads the count, and this function
 * does so in the reverse order, so at least one of the two gives up.
 */
static struct hm_base *hm_index_take_base(const struct hm_pos *pos)
{
	struct hm_base *base = hm_pos_base_node(pos);
	u64 none = 0;

	if (!base || !hm_atomic_cas(&base->resident, &none, HM_NODE_DEAD))
		return NULL;
	if (hm_bit_test(pos->leaf->promoting, pos->leaf_slot)) {
		hm_atomic_add(&base->resident, -(s64)HM_NODE_DEAD);
		return NULL;
	}
	/* A walk over the dirty units must not find a split block without the node. */
	hm_spin_lock(&pos->file->dirty_lock);
	if (hm_word_state(hm_atomic_read(&hm_pos_block(pos)->word)) == HM_SPLIT)
		hm_index_join_frozen(pos, base, 0);
	hm_ptr_set(&hm_pos_block(pos)->base, NULL);
	hm_spin_unlock(&pos->file->dirty_lock);
	pos->leaf->nbase--;
	hm_bit_clear(pos->leaf->queued, pos->leaf_slot);
	hm_index_unlink(pos->file, &base->node);
	if (base->rest)
		hm_index_unlink(pos->file, &base->rest->node);
	return base;
}

/* Remove a leaf without any unit. The caller holds node_lock. */
static struct hm_leaf *hm_index_take_leaf(const struct hm_pos *pos)
{
	struct hm_leaf *leaf = pos->leaf;
	u64 none = 0;

	if (leaf->nbase || !hm_atomic_cas(&leaf->resident, &none, HM_NODE_DEAD))
		return NULL;
	hm_spin_lock(&pos->file->dirty_lock);
	hm_ptr_set(hm_index_leaf_slot(pos), NULL);
	hm_spin_unlock(&pos->file->dirty_lock);
	hm_index_unlink(pos->file, &leaf->node);
	return leaf;
}

/* A removal that finds a promotion marks the node as dead for a moment, which is no unit. */
static bool hm_index_has_units(const hm_atomic_t *resident)
{
	return hm_atomic_read(resident) & ~HM_NODE_DEAD;
}

u32 hm_index_empty_bytes(const struct hm_pos *pos)
{
	const struct hm_base *base = hm_pos_base_node(pos);
	const struct hm_rest *rest = base ? hm_ptr_read(&base->rest) : NULL;

	if (base && hm_index_has_units(&base->resident))
		return 0;
	if (base)
		return base->node.bytes + (rest ? rest->node.bytes : 0);
	return hm_index_has_units(&pos->leaf->resident) ? 0 : pos->leaf->node.bytes;
}

/* A leaf is named by its last block, because the first blocks of a file are in the head. */
u64 hm_index_empty_place(const struct hm_pos *pos, u64 pgoff)
{
	u32 last = (pos->dir ? HM_NODE_SLOTS : HM_HEAD_BLOCKS) - 1;

	if (hm_pos_base_node(pos))
		return hm_block_start(pgoff);
	return hm_block_start(pgoff) + ((u64)(last - pos->leaf_slot) << HM_BLOCK_ORDER);
}

u32 hm_file_take_empty(struct hm_file *file, u64 pgoff, void *nodes[HM_EMPTY_NODES])
{
	hm_index_guard();
	struct hm_pos pos;
	u32 n = 0;

	if (!hm_index_find(file, pgoff, &pos) || !hm_index_empty_bytes(&pos))
		return 0;
	hm_spin_lock(&file->node_lock);
	if (hm_index_find(file, pgoff, &pos)) {
		struct hm_base *base = hm_index_take_base(&pos);

		nodes[n] = base;
		n += !!base;
		nodes[n] = base ? base->rest : NULL;
		n += !!nodes[n];
		nodes[n] = hm_index_take_leaf(&pos);
		n += !!nodes[n];
	}
	hm_spin_unlock(&file->node_lock);
	return n;
}

void *hm_file_take_node(struct hm_file *file)
{
	struct hm_node *node = file->nodes;

	if (node)
		hm_index_unlink(file, node);
	return node;
}

enum hm_state hm_peek(struct hm_file *file, u64 pgoff, struct hm_unit *unit)
{
	hm_index_guard();
	struct hm_pos pos;
	u64 word;

	unit->hints = hm_atomic_read(&file->needs_alloc) ? HM_HINT_NEEDS_ALLOC : 0;
	unit->err = 0;
	/* The caller may pass the page beyond the end of a file of the largest size. */
	if (hm_block_of(pgoff) >= HM_FILE_BLOCKS_MAX || !hm_index_find_pos(file, pgoff, &pos)) {
		unit->file = file;
		unit->pgoff = hm_block_start(pgoff);
		unit->npages = HM_BLOCK_PAGES;
		unit->frame = HM_NO_FRAME_ID;
		return HM_ABSENT;
	}
	word = hm_index_word(&pos, pgoff);
	hm_unit_set(unit, &pos, hm_word_frame(word));
	/* Test the unit that was found, even if the block has been split or joined after that. */
	if (unit->hints && !hm_index_needs_alloc(&pos))
		unit->hints = 0;
	return hm_word_state(word);
}

bool hm_referenced(struct hm_file *file, u64 pgoff)
{
	hm_index_guard();
	struct hm_pos pos;

	return hm_index_find(file, pgoff, &pos) && (hm_index_word(&pos, pgoff) & HM_W_REF);
}
