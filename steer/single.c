// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Pages that are read one by one, in mode RANDOM. */
#include "single.h"

#include "part.h"

/* Reading a page by itself costs about as much as reading this many pages in order. */
#define PAGE_COST 50u
/* single_sweep() requests this many regions of a mapping at each look. */
#define SWEEP 8u

/*
 * Request a whole region as soon as the single pages that were read of it have cost as much. If the
 * mapping does not fit into memory, the region must also be hotter than the mean. A look goes
 * through a mapping from its start, so both the count of the region and the mean are those from
 * before this look.
 */
void single_count(struct hm_advisor *a, const struct hm_touch *run, u64 mean)
{
	struct hm_region *r = &a->region[run->start / REGION];

	/* Pages of the cache have cost nothing. */
	if (a->mode != HM_MODE_RANDOM || run->end - run->start > AROUND || a->facts.cached)
		return;
	if (r->look != (u16)a->look) {
		r->look = (u16)a->look;
		r->before = r->touched;
	}
	a->faults++;
	if (r->touched < 0xffff)
		r->touched++;
	if (r->asked || a->stride_seen >= STRIDE_SEEN || r->before < REGION_COST)
		return;
	if (a->count >= HM_ADVICES / 4)
		return;
	if (!policy_fits(a) && (r->before < 4 * mean || r->before < 2 * REGION_COST))
		return;
	r->asked = 1;
	policy_answer(a, HM_ADVICE_AHEAD, policy_region_down(run->start),
		      policy_region_up(run->end));
}

/*
 * As soon as the single pages of a mapping have cost as much as all of it, request all of it, a
 * part at each look. The mapping must fit into memory.
 */
void single_sweep(struct hm_advisor *a)
{
	u64 from, n;

	if (a->mode != HM_MODE_RANDOM || !policy_fits(a) || a->facts.cached ||
	    a->faults * PAGE_COST < a->end - a->first)
		return;
	for (n = 0; n < SWEEP && a->swept < a->end; a->swept += REGION) {
		struct hm_region *r = &a->region[a->swept / REGION];

		if (r->asked)
			continue;
		r->asked = 1;
		from = a->swept;
		policy_answer(a, HM_ADVICE_AHEAD, from, from + REGION);
		n++;
	}
}
