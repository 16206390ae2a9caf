/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
#ifndef HM_STEER_STREAM_H
#define HM_STEER_STREAM_H

#include "policy.h"

/* Return whether a track is a stream by its length and density. */
bool stream_is_noticed(const struct hm_advisor *a, const struct hm_track *t);
/* Advise for the pages ahead of a track that has grown in this look. */
void stream_serve(struct hm_advisor *a, struct hm_track *t);

#endif /* HM_STEER_STREAM_H */
