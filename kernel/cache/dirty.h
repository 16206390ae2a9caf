/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The dirty bits of the index, and the count of dirty pages. */
#ifndef HM_DIRTY_H
#define HM_DIRTY_H

#include "state.h"

void hm_dirty_ensure(const struct hm_pos *pos);
void hm_dirty_clear(const struct hm_pos *pos);
bool hm_dirty_add(const struct hm_pos *pos);
void hm_dirty_sub(const struct hm_pos *pos);
bool hm_dirty_next(struct hm_file *file, u64 from, u64 end, u64 *pgoff);

/*
 * A unit was made dirty by a transition of its word that the caller won. It was counted
 * before that: it may be written as soon as it is dirty, and the count is never too low.
 */
static inline void hm_dirty_mark(const struct hm_pos *pos)
{
	hm_race_point();
	hm_dirty_ensure(pos);
}

#endif /* HM_DIRTY_H */
