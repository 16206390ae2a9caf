/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* The numbers of a mount at two times, and rates from them. */
#ifndef CLI_MOUNT_SAMPLE_H
#define CLI_MOUNT_SAMPLE_H

#include <stdint.h>

#include "mounts.h"

#define SAMPLE_SHORT_SECONDS 0.5 /* for rates, if the user gives no interval */

/**
 * struct mount_sample - the numbers of a mount at two times
 * @now: as read last
 * @before: as read the time before that
 * @seconds: between @before and @now; 0 = there are no rates
 */
struct mount_sample {
	struct mount_numbers now, before;
	double seconds;
};

/* Growth of a number per second. */
double sample_rate(const struct mount_sample *sample, enum mount_count count);
double sample_percent(uint64_t part, uint64_t whole);
struct json_t;
/* Add all numbers, rates and percentages to an object. */
void sample_add_json(struct json_t *object, const struct mount_sample *sample);

#endif /* CLI_MOUNT_SAMPLE_H */
