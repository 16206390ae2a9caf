/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
#ifndef HM_STEER_STRIDE_H
#define HM_STEER_STRIDE_H

#include "policy.h"

/* Return whether the run continues the stride at the same distance from the last page. */
bool stride_goes_on(struct hm_advisor *a, const struct hm_touch *run);
/* Return whether the kernel has mapped the run's pages together with the stride's last page. */
bool stride_is_around(const struct hm_advisor *a, const struct hm_touch *run);
/* The run does not continue the stride. After STRIDE_SEEN such runs in a row the stride ends. */
void stride_misses(struct hm_advisor *a);
void stride_begin(struct hm_advisor *a, const struct hm_touch *run);
/* Request the next pages of a stride before they are touched, twice as many each time. */
void stride_ahead(struct hm_advisor *a);

#endif /* HM_STEER_STRIDE_H */
