// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Delays at race points; see race.h. The seed, the name of the point and the number of earlier
 * passes decide whether a pass is delayed, so a seed is worth repeating, although the
 * interleaving differs.
 */
#include <linux/delay.h>
#include <linux/hash.h>
#include <linux/kernel.h>
#include <linux/llist.h>
#include <linux/module.h>
#include <linux/stringhash.h>

#include "race.h"

/* A spinning task blocks its CPU. */
#define MAX_SPIN_US 200u

static unsigned long race;
module_param(race, ulong, 0644);
MODULE_PARM_DESC(race, "seed of delays at race points; 0: none");

static unsigned int race_permille = 20;
module_param(race_permille, uint, 0644);
MODULE_PARM_DESC(race_permille, "delayed passes of a thousand");

static unsigned int race_us = 4000;
module_param(race_us, uint, 0644);
MODULE_PARM_DESC(race_us, "the longest delay, microseconds");

static LLIST_HEAD(passed);

static u64 race_roll(const struct hugemap_race_point *point, u32 pass)
{
	u64 x = READ_ONCE(race) * GOLDEN_RATIO_64;

	x = (x ^ full_name_hash(NULL, point->name, strlen(point->name))) * GOLDEN_RATIO_64;
	x = ((x ^ (x >> 29)) + pass) * GOLDEN_RATIO_64;
	x = (x ^ (x >> 32)) * GOLDEN_RATIO_64;
	return x ^ (x >> 29);
}

void hugemap_race_point_pass(struct hugemap_race_point *point, bool may_sleep)
{
	u32 pass = atomic_inc_return(&point->passed), us;
	u64 roll;

	if (may_sleep)
		might_sleep();
	if (!atomic_read(&point->listed) && !atomic_xchg(&point->listed, 1))
		llist_add(&point->all, &passed);
	if (!READ_ONCE(race))
		return;
	roll = race_roll(point, pass);
	if ((u32)roll % 1000 >= READ_ONCE(race_permille))
		return;
	atomic_inc(&point->delayed);
	us = 1 + (u32)(roll >> 32) % max(READ_ONCE(race_us), 1u);
	if (may_sleep)
		usleep_range(us, 2 * us);
	else
		udelay(min(us, MAX_SPIN_US));
}

/* All race points that were passed, with the counts of delays and passes. */
static int race_hits_get(char *buffer, const struct kernel_param *param)
{
	struct llist_node *node;
	int length = 0;

	for (node = READ_ONCE(passed.first); node; node = node->next) {
		struct hugemap_race_point *point =
			llist_entry(node, struct hugemap_race_point, all);

		length += scnprintf(buffer + length, PAGE_SIZE - length, "%d of %d: %s\n",
				    atomic_read(&point->delayed), atomic_read(&point->passed),
				    point->name);
	}
	return length;
}

static const struct kernel_param_ops race_hits_ops = { .get = race_hits_get };
module_param_cb(race_hits, &race_hits_ops, NULL, 0444);
MODULE_PARM_DESC(race_hits, "race points that were passed: delays of passes");
