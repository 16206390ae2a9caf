// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The bits of the index for holes of the file: the units that have no data in the file
 * (@zero_fill), and those that may have pages without disk blocks (@needs_alloc).
 */
#include "bits.h"
#include "file.h"
#include "holes.h"
#include "index.h"
#include "state.h"

bool hm_holes_is_zero_fill(const struct hm_pos *pos)
{
	if (pos->base)
		return hm_bit_test(pos->base->zero_fill, pos->base_slot);
	return hm_bit_test(pos->leaf->zero_fill, pos->leaf_slot);
}

bool hm_is_zero_fill(struct hm_file *file, u64 pgoff)
{
	hm_index_guard();
	struct hm_pos pos;

	if (!hm_index_find(file, pgoff, &pos))
		return false;
	hm_index_word(&pos, pgoff);
	return hm_holes_is_zero_fill(&pos);
}

bool hm_needs_alloc(struct hm_file *file, u64 pgoff)
{
	hm_index_guard();
	struct hm_pos pos;

	if (!hm_atomic_read(&file->needs_alloc))
		return false;
	if (!hm_index_find(file, pgoff, &pos))
		return true;
	hm_index_word(&pos, pgoff);
	return hm_index_needs_alloc(&pos);
}

void hm_holes_set_data(const struct hm_pos *pos, bool all)
{
	bool filled;

	if (pos->base) {
		filled = hm_bit_clear(pos->base->zero_fill, pos->base_slot);
		hm_bit_clear(pos->base->needs_alloc, pos->base_slot);
	} else {
		filled = hm_bit_clear(pos->leaf->zero_fill, pos->leaf_slot);
		if (all)
			hm_bit_clear(pos->leaf->needs_alloc, pos->leaf_slot);
	}
	/* The unit leaves the cache later than this: see hm_file_prepare_node(). */
	if (filled)
		hm_atomic_add(hm_file_holes_filled(pos->file, pos->pgoff), 1);
}

/* The pages of a range in one block got data, or lost it. The caller holds node_lock. */
static void hm_holes_set_zero_fill(const struct hm_pos *pos, u64 first, u64 end, bool zero_fill)
{
	u64 start = hm_block_start(first);
	struct hm_base *base = hm_pos_base_node(pos);
	bool whole = first == start && end == start + HM_BLOCK_PAGES;

	/*
	 * The bit of the leaf means that the whole block has no data. If only a part of the block
	 * has no data, the bits of the pages of a split block record that. If a part gets data, the
	 * leaf's bit is cleared.
	 */
	if (whole && zero_fill)
		hm_bit_set(pos->leaf->zero_fill, pos->leaf_slot);
	else if (!zero_fill)
		hm_bit_clear(pos->leaf->zero_fill, pos->leaf_slot);
	/* Each page may have a hole, also beside data. */
	hm_bit_set(pos->leaf->needs_alloc, pos->leaf_slot);
	for (; base && first < end; first++) {
		hm_bit_set_to(base->zero_fill, (u32)(first - start), zero_fill);
		hm_bit_set(base->needs_alloc, (u32)(first - start));
	}
}

/*
 * Record that the lower file has disk blocks for the pages from @first to @end of one block. The
 * caller holds node_lock. Pages beyond the end of the file need no disk blocks: a writer that
 * extends the file sets the size first, and then records the new pages as holes, see
 * hm_file_add_node().
 */
static void hm_holes_set_allocated(const struct hm_pos *pos, u64 first, u64 end)
{
	u64 start = hm_block_start(first), all = hm_file_npages(pos->file);
	struct hm_base *base = hm_pos_base_node(pos);

	if (first == start && (end == start + HM_BLOCK_PAGES || end >= all))
		hm_bit_clear(pos->leaf->needs_alloc, pos->leaf_slot);
	for (; base && first < end; first++)
		hm_bit_clear(base->needs_alloc, (u32)(first - start));
}

/*
 * With @allocated, record that a range is allocated; otherwise record @zero_fill. Blocks without a
 * leaf are skipped.
 */
static void hm_holes_set_range(struct hm_file *file, u64 pgoff, u64 npages, bool allocated,
			       bool zero_fill)
{
	u64 end = pgoff + npages;

	while (pgoff < end && hm_block_of(pgoff) < HM_FILE_BLOCKS_MAX) {
		u64 next = hm_block_start(pgoff) + HM_BLOCK_PAGES;
		struct hm_pos pos;
		bool found;

		/*
		 * A leaf that is missing now gets its bits when it is added. They are current:
		 * hm_file_add_node() fails if the file grew, and the engine excludes hole punching
		 * and truncation by its invalidation lock.
		 */
		hm_spin_lock(&file->node_lock);
		found = hm_index_find(file, pgoff, &pos);
		if (next > end)
			next = end;
		if (found && allocated)
			hm_holes_set_allocated(&pos, pgoff, next);
		else if (found)
			hm_holes_set_zero_fill(&pos, pgoff, next, zero_fill);
		hm_spin_unlock(&file->node_lock);
		pgoff = found ? next : hm_index_next(&pos, pgoff);
	}
}

void hm_file_set_zero_fill(struct hm_file *file, u64 pgoff, u64 npages, bool zero_fill)
{
	if (npages)
		hm_atomic_set(&file->needs_alloc, 1);
	hm_holes_set_range(file, pgoff, npages, false, zero_fill);
}

u64 hm_file_grow(struct hm_file *file, u64 pgoff, u64 size)
{
	u64 next = hm_block_start(pgoff + HM_BLOCK_PAGES - 1);
	struct hm_pos pos;

	hm_assert(size <= HM_FILE_BLOCKS_MAX << HM_BLOCK_SHIFT);
	hm_atomic_set(&file->needs_alloc, 1);
	hm_spin_lock(&file->node_lock);
	if (pgoff < next && hm_index_find(file, pgoff, &pos))
		hm_holes_set_zero_fill(&pos, pgoff, next, true);
	/*
	 * A fault that sees the size sees the bits. hm_file_set_allocated() cannot clear them in
	 * between: with the old size it would do so for a block whose pages are all allocated.
	 */
	hm_atomic_set(&file->size, size);
	hm_spin_unlock(&file->node_lock);
	return next;
}

void hm_file_set_allocated(struct hm_file *file, u64 pgoff, u64 npages)
{
	hm_holes_set_range(file, pgoff, npages, true, false);
}
