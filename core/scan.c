// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * A walk over everything that is cached, by somebody who must not take a lock:
 * all other threads are dead, perhaps in the middle of a critical section.
 */
#include "internal.h"

static bool interesting(struct hm_unit *unit, struct hm_store *store, u64 pgoff, u32 npages,
			u64 word)
{
	if (!hm_state_resident(hm_word_state(word)))
		return false;
	*unit = (struct hm_unit){
		.store = store,
		.pgoff = pgoff,
		.npages = npages,
		.frame = hm_word_frame(word),
	};
	return true;
}

bool hm_scan(struct hm_store *store, u64 *at, struct hm_unit *unit, enum hm_state *state)
{
	while (hm_block_of(*at) < HM_STORE_MAX_BLOCKS) {
		u64 block = hm_block_of(*at), start = hm_block_start(*at), word;
		struct hm_dir *dir = hm_ptr_read(&store->dir[block >> (2 * HM_NODE_ORDER)]);
		struct hm_leaf *leaf;
		struct hm_base *base;
		u32 slot = (u32)(block & (HM_NODE_SLOTS - 1));

		if (!dir) {
			*at = ((block >> (2 * HM_NODE_ORDER)) + 1)
			      << (2 * HM_NODE_ORDER + HM_BLOCK_ORDER);
			continue;
		}
		leaf = hm_ptr_read(&dir->leaf[(block >> HM_NODE_ORDER) & (HM_NODE_SLOTS - 1)]);
		if (!leaf) {
			*at = hm_leaf_start(*at) + ((u64)HM_NODE_SLOTS << HM_BLOCK_ORDER);
			continue;
		}
		word = hm_atomic_read(&leaf->word[slot]);
		base = hm_ptr_read(&leaf->base[slot]);
		if (hm_word_state(word) != HM_SPLIT || !base) {
			*at = start + HM_BLOCK_PAGES;
			*state = hm_word_state(word);
			if (interesting(unit, store, start, HM_BLOCK_PAGES, word))
				return true;
			continue;
		}
		word = hm_atomic_read(&base->word[*at - start]);
		*state = hm_word_state(word);
		(*at)++;
		if (interesting(unit, store, *at - 1, 1, word))
			return true;
	}
	return false;
}
