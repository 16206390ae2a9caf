// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Memory that the machine has found broken, and that is not used again: mm marks the
 * page, and leaves alone what is on no LRU list. To look at all pages of a huge folio
 * costs more than to evict it, so nobody looks before mm has told, by its tracepoint,
 * that some memory broke: what was broken before the pool was taken is not in it. (It
 * tells at the end, so what is evicted meanwhile may be used once more.)
 */
#include <linux/mm.h>
#include <linux/string.h>
#include <linux/tracepoint.h>

#include "mm.h"

static struct tracepoint *tells;
static bool may_be_poisoned = IS_ENABLED(CONFIG_MEMORY_FAILURE);

static void poison_memory_failed(void *data, unsigned long pfn, int type, int result)
{
	WRITE_ONCE(may_be_poisoned, true);
}

static void poison_find_event(struct tracepoint *tp, void *data)
{
	if (!strcmp(tp->name, "memory_failure_event"))
		tells = tp;
}

void hugemap_poison_setup(void)
{
	/* A kernel that does not tell is looked after, page by page. */
	if (!may_be_poisoned || !IS_ENABLED(CONFIG_TRACEPOINTS))
		return;
	for_each_kernel_tracepoint(poison_find_event, NULL);
	if (!tells)
		return;
	WRITE_ONCE(may_be_poisoned, false);
	if (tracepoint_probe_register(tells, poison_memory_failed, NULL)) {
		WRITE_ONCE(may_be_poisoned, true);
		tells = NULL;
	}
}

void hugemap_poison_teardown(void)
{
	if (!tells)
		return;
	tracepoint_probe_unregister(tells, poison_memory_failed, NULL);
	tracepoint_synchronize_unregister();
}

bool hugemap_may_be_poisoned(void)
{
	return unlikely(READ_ONCE(may_be_poisoned));
}

bool hugemap_is_poisoned(const struct folio *folio)
{
	u32 i;

	if (!hugemap_may_be_poisoned())
		return false;
	for (i = 0; i < folio_nr_pages((struct folio *)folio); i++)
		if (PageHWPoison(folio_page((struct folio *)folio, i)))
			return true;
	return false;
}
