// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Count the cached pages of a file, for statistics. The call sets no reference bit, moves no unit
 * in a queue and counts no fault. It takes no lock, so the sums may mix states of different times.
 */
#include "bits.h"
#include "file.h"
#include "index.h"
#include "state.h"

static void hm_cached_add_block(const struct hm_pos *pos, struct hm_cached *sum)
{
	enum hm_state state = hm_word_state(hm_atomic_read(&hm_pos_block(pos)->word));

	if (state == HM_SPLIT) {
		const struct hm_base *base = hm_pos_base_node(pos);
		s64 resident;

		if (!base)
			return; /* the block was joined, and the node removed */
		resident = (s64)(hm_atomic_read(&base->resident) & ~HM_NODE_DEAD);

		/* A fault that loses the race for a page counts it in @resident for a moment. */
		sum->base += resident < HM_BLOCK_PAGES ? (u64)resident : HM_BLOCK_PAGES;
		sum->dirty += hm_bits_count(base->dirty);
	} else if (hm_state_resident(state)) {
		sum->huge += HM_BLOCK_PAGES;
		if (state == HM_DIRTY || state == HM_WRITING)
			sum->dirty += HM_BLOCK_PAGES;
	}
}

u64 hm_cached(struct hm_file *file, u64 pgoff, u64 end, struct hm_cached *sum)
{
	hm_index_guard();
	struct hm_pos pos;
	u32 n;

	pgoff = hm_block_start(pgoff);
	for (n = 0; pgoff < end && n < HM_NODE_SLOTS; n++) {
		if (hm_block_of(pgoff) >= HM_FILE_BLOCKS_MAX)
			return end;
		if (hm_index_find(file, pgoff, &pos)) {
			hm_cached_add_block(&pos, sum);
			pgoff += HM_BLOCK_PAGES;
		} else {
			pgoff = hm_index_next(&pos, pgoff);
		}
	}
	return pgoff;
}
