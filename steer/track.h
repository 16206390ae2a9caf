/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Tracks of a mapping. A look extends the tracks that its runs continue, and begins new ones. */
#ifndef HM_STEER_TRACK_H
#define HM_STEER_TRACK_H

#include "part.h"

static inline bool track_is_used(const struct hm_track *t)
{
	return t->grown;
}

static inline u64 track_length(const struct hm_track *t)
{
	return t->next - t->start;
}

/* Take back the advice of stream_kick(). */
void track_end_kick(struct hm_advisor *a, struct hm_track *t);
/* A track ends: take back the advice for the pages ahead of it. */
void track_end_area(struct hm_advisor *a, struct hm_track *t);
/* In a mode that reads whole regions, a single access appears as a run of up to one region. */
bool track_is_single(const struct hm_advisor *a, const struct hm_track *t);
/* Begin a track in place of the one that has not grown for the longest time. */
void track_begin(struct hm_advisor *a, const struct hm_touch *run);
/* Return whether the run continues a track. */
bool track_extend(struct hm_advisor *a, const struct hm_touch *run);

#endif /* HM_STEER_TRACK_H */
