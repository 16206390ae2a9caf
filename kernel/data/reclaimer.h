/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* reclaimer.c: the thread that keeps frames free. */
#ifndef HUGEMAP_DATA_RECLAIMER_H
#define HUGEMAP_DATA_RECLAIMER_H

#include "data.h"

/* The reclaimer thread of a mount. */
int hugemap_reclaimer(void *mount);

#endif /* HUGEMAP_DATA_RECLAIMER_H */
