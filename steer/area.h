/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What lies at an address, as /proc/self/maps tells. */
#ifndef HM_STEER_AREA_H
#define HM_STEER_AREA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct area {
	uint64_t dev, ino; /* of the file; 0 = none */
	char path[160]; /* the end of it, if it is longer */
};

/* False: nothing lies there. */
bool area_at(uint64_t address, struct area *area);

#endif /* HM_STEER_AREA_H */
