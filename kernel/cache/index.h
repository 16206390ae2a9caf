/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* From a page of a file to the state word of its unit. */
#ifndef HM_INDEX_H
#define HM_INDEX_H

#include "bits.h"
#include "state.h"

/*
 * Nodes that the function finds from here on stay in memory until it returns, but may be removed
 * from the index. A unit that is not absent keeps its nodes in the index.
 */
static inline void hm_index_guard_end(const bool *guard)
{
	hm_read_end();
}

#define hm_index_guard()     \
	const bool hm_guard_ \
		__attribute__((cleanup(hm_index_guard_end), unused)) = (hm_read_begin(), true)

/*
 * Count a unit before it leaves the state HM_ABSENT. False: its node is being removed, so find it
 * again. hm_index_uncount(): after the unit has become absent.
 */
bool hm_index_count(const struct hm_pos *pos);
void hm_index_uncount(const struct hm_pos *pos);

/*
 * Find the leaf above a page. Takes no lock. Return: false if there is none: pos->missing is the
 * kind of the node that is missing.
 */
bool hm_index_find(struct hm_file *file, u64 pgoff, struct hm_pos *pos);

/* After hm_index_find() returned false: return the first page that another node may cover. */
u64 hm_index_next(const struct hm_pos *pos, u64 pgoff);

/*
 * Read the word of the unit that contains a page, and set @pos to it. @pos comes from
 * hm_index_find(). Takes no lock, but spins while another CPU splits or joins the block. If the
 * node with the word is missing, the unit is absent: pos->word is NULL, and pos->missing the node.
 */
u64 hm_index_word(struct hm_pos *pos, u64 pgoff);

/*
 * Split a block whose word is @word, an absent one. Takes no lock. Return: false if the node for
 * its base pages is missing: pos->missing is its kind. After true the caller finds the page again:
 * the block was split by this or another CPU, or another CPU has claimed it, or its node is being
 * removed.
 */
bool hm_index_split(struct hm_pos *pos, u64 word);

/* Join a split block. Takes node_lock. Return: false if one of its base pages is cached. */
bool hm_index_join(struct hm_pos *pos);

/**
 * hm_index_join_frozen() - make one unit of a block whose base words are all frozen
 * @pos: the block
 * @base: the node of its base pages
 * @word: the state, frame and flags of the block, without a sequence number; 0 = absent
 *
 * The caller holds node_lock, and has frozen all base words itself, so no other task can change
 * the block.
 */
void hm_index_join_frozen(const struct hm_pos *pos, struct hm_base *base, u64 word);

/* The bytes of the lowest node above the page, if the node has no unit; a hint. */
u32 hm_index_empty_bytes(const struct hm_pos *pos);
/* The page that names that node in the list: the same for each page below it. */
u64 hm_index_empty_place(const struct hm_pos *pos, u64 pgoff);

/*
 * May write-back of this unit need blocks that the file does not have yet? @pos is set to the word
 * of the unit. Takes no lock.
 */
static inline bool hm_index_needs_alloc(const struct hm_pos *pos)
{
	/* Most files have no holes. The flag is set before the bits are. */
	if (!hm_atomic_read(&pos->file->needs_alloc))
		return false;
	if (pos->base)
		return hm_bit_test(pos->base->needs_alloc, pos->base_slot);
	return hm_bit_test(pos->leaf->needs_alloc, pos->leaf_slot);
}

#endif /* HM_INDEX_H */
