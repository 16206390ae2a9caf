// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "curve.h"

#define LEAST_SAMPLES 3u /* on each side */
#define MEGABYTE 1048576.0

void curve_add(struct curve *curve, uint64_t bytes, bool full)
{
	if (curve->n == CURVE_SAMPLES)
		return;
	curve->bytes[curve->n++] = bytes;
	if (full && !curve->full)
		curve->full = curve->n;
}

bool curve_sides(const struct curve *curve, double *before, double *after)
{
	unsigned int full = curve->full, left = curve->n - full;

	if (full < LEAST_SAMPLES || left < LEAST_SAMPLES)
		return false;
	*before = (double)curve->bytes[full - 1] / MEGABYTE / (full * CURVE_STEP_S);
	*after = (double)(curve->bytes[curve->n - 1] - curve->bytes[full - 1]) / MEGABYTE /
		 (left * CURVE_STEP_S);
	return *before > 0;
}
