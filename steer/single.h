/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
#ifndef HM_STEER_SINGLE_H
#define HM_STEER_SINGLE_H

#include "policy.h"

/* Count a run of a look, and request its region if that costs less. @mean: pages of a region. */
void single_count(struct hm_advisor *a, const struct hm_touch *run, u64 mean);
/* Request the rest of a mapping that fits into memory, a part at each look. */
void single_sweep(struct hm_advisor *a);

#endif /* HM_STEER_SINGLE_H */
