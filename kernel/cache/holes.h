/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* Holes of the file: the units that have no data there. */
#ifndef HM_HOLES_H
#define HM_HOLES_H

#include "state.h"

/* Does the file have no data at this unit? Takes no lock. */
bool hm_holes_is_zero_fill(const struct hm_pos *pos);

/* The unit was written: the file has data there. @all: all its pages were. Takes no lock. */
void hm_holes_set_data(const struct hm_pos *pos, bool all);

#endif /* HM_HOLES_H */
