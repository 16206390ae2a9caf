/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* From a page of a file to the state word of its unit. */
#ifndef HM_INDEX_H
#define HM_INDEX_H

#include "state.h"

bool hm_index_find(struct hm_file *file, u64 pgoff, struct hm_pos *pos);
u64 hm_index_next(const struct hm_pos *pos, u64 pgoff);
u64 hm_index_word(struct hm_pos *pos, u64 pgoff);
bool hm_index_split(struct hm_pos *pos, u64 word);
bool hm_index_join(struct hm_pos *pos);
void hm_index_whole(const struct hm_pos *pos, struct hm_base *base, u64 now);
bool hm_index_is_zero_fill(const struct hm_pos *pos);
void hm_index_set_data(const struct hm_pos *pos, bool all);

#endif /* HM_INDEX_H */
