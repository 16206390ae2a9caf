/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Index nodes without a cached unit. */
#ifndef HM_EMPTY_H
#define HM_EMPTY_H

#include "state.h"

/*
 * A task has uncounted a unit: if a node has no unit now, add it to the list. Return false if the
 * list is full. Then the engine must call hm_file_keep_empty(). The caller keeps the file open.
 * Takes empty_lock.
 */
bool hm_empty_note(const struct hm_pos *pos);

/* A file is closed: remove its places from the list. Takes empty_lock. */
void hm_empty_forget(struct hm_file *file);

#endif /* HM_EMPTY_H */
