/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Candidates for promotion, as the fault path and the file table see them. */
#ifndef HM_PROMOTE_H
#define HM_PROMOTE_H

#include "access.h"
#include "state.h"

/*
 * A base page was brought in or accessed: make its block a candidate if it is worth a promotion.
 * May take promote_lock. Return: true if the block became a candidate in this call.
 */
bool hm_promote_queue(const struct hm_pos *pos, struct hm_access access);

/*
 * A base page was brought in: record whether the program wants base pages in its block.
 * @no_promote: it does, and this takes effect at once. False takes effect only if all earlier base
 * pages of the block have left the cache. Takes no lock.
 */
void hm_promote_note(const struct hm_pos *pos, bool no_promote);

/* A file is closed: remove its candidates. Takes promote_lock. */
void hm_promote_forget(struct hm_file *file);

#endif /* HM_PROMOTE_H */
