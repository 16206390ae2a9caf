/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * For behaviours that mount by themselves: low onto high, each in a directory of the
 * behaviour's own.
 */
#ifndef TESTS_KERNEL_PLACES_H
#define TESTS_KERNEL_PLACES_H

#include "common.h"

static char low[600], high[600];

static inline void make_places(void)
{
	snprintf(low, sizeof(low), "%s/low", work_lower);
	snprintf(high, sizeof(high), "%s/high", work_dir);
	/* Without a mount it may be the directory that is there already. */
	MUST(mkdir(work_lower, 0755) < 0 && errno != EEXIST ? -1 : 0);
	MUST(mkdir(low, 0755));
	MUST(mkdir(high, 0755));
}

/* For what Linux itself cannot show. */
static inline void need_places(void)
{
	need_type();
	make_places();
}

#endif /* TESTS_KERNEL_PLACES_H */
