/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What other files of the cache need of promotion. */
#ifndef HM_PROMOTE_H
#define HM_PROMOTE_H

#include "access.h"
#include "state.h"

bool hm_promote_queue(const struct hm_pos *pos, struct hm_access access);
void hm_promote_note(const struct hm_pos *pos, bool keep);
void hm_promote_forget(struct hm_file *file);

#endif /* HM_PROMOTE_H */
