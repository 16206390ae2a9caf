// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The pool needs to know when mm marks one of its pages as poisoned, so that it does not use the
 * page again. mm handles only pages of the LRU lists and of the buddy allocator, and frames of the
 * pool are on neither, so this file listens to the tracepoint memory_failure_event. A notifier
 * chain for memory failures, called with the page, would replace this file.
 *
 * To examine all pages of a huge folio costs more than to evict it. So no page is examined before
 * the tracepoint has fired once: memory that failed before the pool was taken is not in the pool.
 * mm fires the tracepoint when it has handled the failure, so a folio that is evicted before that
 * may be used once more.
 */
#include <linux/mm.h>
#include <linux/string.h>
#include <linux/tracepoint.h>

#include "mm.h"

static struct tracepoint *failure_event;
static bool may_be_poisoned = IS_ENABLED(CONFIG_MEMORY_FAILURE);

static void poison_memory_failed(void *data, unsigned long pfn, int type, int result)
{
	WRITE_ONCE(may_be_poisoned, true);
}

static void poison_find_event(struct tracepoint *tp, void *data)
{
	if (!strcmp(tp->name, "memory_failure_event"))
		failure_event = tp;
}

void hugemap_poison_setup(void)
{
	/* Without the tracepoint, may_be_poisoned stays true and each page is examined. */
	if (!may_be_poisoned || !IS_ENABLED(CONFIG_TRACEPOINTS))
		return;
	for_each_kernel_tracepoint(poison_find_event, NULL);
	if (!failure_event)
		return;
	WRITE_ONCE(may_be_poisoned, false);
	if (tracepoint_probe_register(failure_event, poison_memory_failed, NULL)) {
		WRITE_ONCE(may_be_poisoned, true);
		failure_event = NULL;
	}
}

void hugemap_poison_teardown(void)
{
	if (!failure_event)
		return;
	tracepoint_probe_unregister(failure_event, poison_memory_failed, NULL);
	tracepoint_synchronize_unregister();
}

/* Return false if no memory of this machine can have failed since the module was loaded. */
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

/*
 * Put the last reference of a folio that has left the pool. When a base page is freed, mm withholds
 * it if it is poisoned. It does not do so for a page within a huge folio, so a poisoned huge folio
 * keeps its reference and is lost.
 */
void hugemap_mm_put_folio(struct folio *folio)
{
	if (folio_order(folio) && hugemap_is_poisoned(folio))
		pr_warn("hugemap: 2 MB of broken memory are not used any more\n");
	else
		folio_put(folio);
}
