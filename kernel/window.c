// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * How long a window stays open: see window.h. Which passes of a window are held up is
 * decided by the seed, its name and how often it was passed, so a seed is worth trying
 * again, though another interleaving follows.
 */
#include <linux/delay.h>
#include <linux/hash.h>
#include <linux/kernel.h>
#include <linux/llist.h>
#include <linux/module.h>
#include <linux/stringhash.h>

#include "window.h"

/* Who spins stops a whole CPU. */
#define MAX_SPIN_US 200u

static unsigned long windows;
module_param(windows, ulong, 0644);
MODULE_PARM_DESC(windows, "seed of delays where something is half done; 0: none");

static unsigned int windows_permille = 20;
module_param(windows_permille, uint, 0644);
MODULE_PARM_DESC(windows_permille, "how many passes of a thousand are delayed");

static unsigned int windows_us = 4000;
module_param(windows_us, uint, 0644);
MODULE_PARM_DESC(windows_us, "the longest delay, microseconds");

static LLIST_HEAD(passed);

static u64 dice(const struct hugemap_window *window, u32 pass)
{
	u64 x = READ_ONCE(windows) * GOLDEN_RATIO_64;

	x = (x ^ full_name_hash(NULL, window->name, strlen(window->name))) * GOLDEN_RATIO_64;
	x = ((x ^ (x >> 29)) + pass) * GOLDEN_RATIO_64;
	x = (x ^ (x >> 32)) * GOLDEN_RATIO_64;
	return x ^ (x >> 29);
}

void hugemap_window_pass(struct hugemap_window *window, bool may_sleep)
{
	u32 pass = atomic_inc_return(&window->passed), us;
	u64 roll;

	if (may_sleep)
		might_sleep();
	if (!atomic_read(&window->known) && !atomic_xchg(&window->known, 1))
		llist_add(&window->all, &passed);
	if (!READ_ONCE(windows))
		return;
	roll = dice(window, pass);
	if ((u32)roll % 1000 >= READ_ONCE(windows_permille))
		return;
	atomic_inc(&window->opened);
	us = 1 + (u32)(roll >> 32) % max(READ_ONCE(windows_us), 1u);
	if (may_sleep)
		usleep_range(us, 2 * us);
	else
		udelay(min(us, MAX_SPIN_US));
}

/* Each window that was passed: how often it was held open, of how many times. */
static int tell(char *buffer, const struct kernel_param *param)
{
	struct llist_node *node;
	int length = 0;

	for (node = READ_ONCE(passed.first); node; node = node->next) {
		struct hugemap_window *window = llist_entry(node, struct hugemap_window, all);

		length += scnprintf(buffer + length, PAGE_SIZE - length, "%d of %d: %s\n",
				    atomic_read(&window->opened), atomic_read(&window->passed),
				    window->name);
	}
	return length;
}

static const struct kernel_param_ops told = { .get = tell };
module_param_cb(windows_opened, &told, NULL, 0444);
MODULE_PARM_DESC(windows_opened, "which were passed, and how often they were held open");
