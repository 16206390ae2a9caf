/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The dirty bits of the index, and the count of dirty pages. */
#ifndef HM_DIRTY_H
#define HM_DIRTY_H

#include "state.h"

/* Set the dirty bits of a unit in all levels of the index, from the bottom up. Takes no lock. */
void hm_dirty_ensure(const struct hm_pos *pos);

/* Clear the dirty bit of the unit itself. The caller holds dirty_lock. */
void hm_dirty_clear(const struct hm_pos *pos);

/*
 * Count a unit that is about to become dirty. Takes no lock.
 *
 * Return: true if the pool has more dirty pages than the limit; checked once in dirty_step pages.
 */
bool hm_dirty_add(const struct hm_pos *pos);

/* Subtract a unit that is neither dirty nor under write-back any more. Takes no lock. */
void hm_dirty_sub(const struct hm_pos *pos);

/**
 * hm_dirty_next() - find the first dirty bit of a range
 * @file: the file
 * @from: where to start
 * @end: where to stop
 * @pgoff: set to the first page of the unit; that of a huge unit may lie before @from
 *
 * The caller holds dirty_lock. The bit is a hint: check the state of the unit.
 *
 * Return: false if no bit is set.
 */
bool hm_dirty_next(struct hm_file *file, u64 from, u64 end, u64 *pgoff);

/*
 * Set the dirty bits of a unit after the caller's compare-and-swap made it dirty. The caller has
 * called hm_dirty_add() before that compare-and-swap: a dirty unit may be written at once, and the
 * count must never be too low.
 */
static inline void hm_dirty_mark(const struct hm_pos *pos)
{
	hm_race_point();
	hm_dirty_ensure(pos);
}

#endif /* HM_DIRTY_H */
