/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Give the kernel the advice that the policy and the hints of the program want. */
#ifndef HM_STEER_ACT_H
#define HM_STEER_ACT_H

#include "map.h"

/*
 * Find the file of a mapping, and its read-ahead setting. Return false if it must not be steered.
 */
bool act_settle(struct map *map);
/*
 * Return whether a fault in mode CHUNK can read a whole region: from Linux 5.18 on, with
 * transparent huge pages. Other kernels read one page. Figures are from Linux 6.18.
 */
bool act_reads_regions(void);

/*
 * Give the kernel the advice of a mapping that is wanted and that it does not have yet. Return
 * false if an event came in between: the caller takes the event and calls again.
 */
bool act_sync(struct map *map);
/* Call act_sync() for all mappings. Forget each orphan whose advice is taken back. */
bool act_sync_all(void);

/* Replace hints of the program that make it slower. */
extern bool act_override_hints;
/*
 * Take the program's hint for a whole mapping back, so that the policy decides. Return false, and
 * let the hint count, if an event waits or the kernel reports an error.
 */
bool act_replace_hint(struct map *map);

/* Carry out the policy's answers to the last look at a mapping. */
void act_advices(struct map *map);

/* Return false if an event waits or the monitor must end. */
bool act_may_read(void);

/* Return whether the kernel has MADV_POPULATE_READ (Linux 5.14). A filter may refuse it, too. */
bool act_can_mark(void);
/*
 * Mark the pages of a range as accessed. They were mapped at the last look. Return false if an
 * event waits or the monitor must end.
 */
bool act_mark_accessed(const struct map *map, u64 start, u64 end);

/* Return whether the monitor is giving advice in a range that is about to go; see act.c. */
bool act_is_advising(u64 start, u64 bytes);
/* Reset the state in a child of fork(), which has no monitor. */
void act_forget(void);

/* Time and processor time that act_advices() has taken. */
extern u64 act_ns, act_cpu_ns;
/* Bytes that act_advices() has requested ahead of their use. */
extern u64 act_ahead_bytes;
/*
 * The monitor is about to end: act_sync() takes all advice back, and act_advices() reads nothing
 * ahead.
 */
extern bool act_ending;

#endif /* HM_STEER_ACT_H */
