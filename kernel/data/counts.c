// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Sums of the counters and histograms of all CPUs. */
#include <linux/percpu.h>

#include "data.h"

u64 hugemap_counted(const struct hugemap_mount *mount, enum hugemap_counter counter)
{
	u64 sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += READ_ONCE(per_cpu_ptr(mount->counts, cpu)->value[counter]);
	return sum;
}

/*
 * Sum the ended I/Os first. The result is at least the number of I/Os in flight at the barrier:
 * both counters only grow, and each I/O starts before it ends. So if the sums are equal, no I/O was
 * in flight at the barrier.
 *
 * One counter per CPU that a start increments and an end decrements could have the sum 0 although
 * there is always an I/O in flight. Example: I/O A has started on CPU 1. The caller reads 0 on CPU
 * 0. I/O B starts on CPU 0. I/O A ends on CPU 1. The caller reads 0 on CPU 1.
 */
u64 hugemap_in_flight(const struct hugemap_mount *mount)
{
	u64 ended = hugemap_counted(mount, HUGEMAP_C_IOS_ENDED);

	smp_mb(); /* pairs with io_ended() */
	return hugemap_counted(mount, HUGEMAP_C_READ_IOS) +
	       hugemap_counted(mount, HUGEMAP_C_WRITE_IOS) - ended;
}

void hugemap_recorded(const struct hugemap_mount *mount, enum hugemap_histogram histogram,
		      struct hm_hist *sum)
{
	int cpu;

	for_each_possible_cpu(cpu)
		hm_hist_add(sum, per_cpu_ptr(mount->hist[histogram], cpu));
}
