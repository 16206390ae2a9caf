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
		u64 start = hm_block_start(*at), word;
		struct hm_base *base;
		struct hm_pos pos;

		if (!hm_index_find(store, *at, &pos)) {
			*at = hm_index_next(&pos, *at);
			continue;
		}
		/* Not hm_index_word(), which waits for a split to end: nobody will end it. */
		word = hm_atomic_read(&pos.leaf->word[pos.leaf_slot]);
		base = hm_ptr_read(&pos.leaf->base[pos.leaf_slot]);
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
