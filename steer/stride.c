// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Strides: pages at a constant distance. */
#include "stride.h"

#include "track.h"

#define STRIDE_WINDOW 2048u

/*
 * Does the run continue a stream? Then its distance from the last page of a stride is chance, and
 * no evidence that the stride goes on.
 */
static bool stride_is_chance(const struct hm_advisor *a, const struct hm_touch *run)
{
	const struct hm_track *t;

	for (t = a->track; t < a->track + HM_TRACKS; t++)
		if (track_is_used(t) && track_length(t) > AROUND &&
		    (run->start == t->next || run->end == t->start))
			return true;
	return false;
}

/* Does a run continue the stride, at the same distance from the last page as before? */
bool stride_goes_on(struct hm_advisor *a, const struct hm_touch *run)
{
	if (!a->stride || (s64)(run->start - a->last) != a->stride || stride_is_chance(a, run) ||
	    run->end - run->start > AROUND)
		return false;
	a->last = run->start;
	a->stride_seen++;
	a->stride_missed = 0;
	return true;
}

/*
 * Does a run lie in the pages that the kernel has mapped with the last page of the stride? It maps
 * up to AROUND cached pages, except for the one that starts its next read: they are two runs.
 */
bool stride_is_around(const struct hm_advisor *a, const struct hm_touch *run)
{
	return a->stride_seen >= STRIDE_SEEN && run->start > a->last &&
	       run->end <= a->last + AROUND;
}

/* The run does not continue the stride. After STRIDE_SEEN such runs in a row the stride ends. */
void stride_misses(struct hm_advisor *a)
{
	if (!a->stride || ++a->stride_missed < STRIDE_SEEN)
		return;
	a->stride = 0;
	a->stride_seen = 0;
}

void stride_begin(struct hm_advisor *a, const struct hm_touch *run)
{
	s64 distance = (s64)(run->start - a->last);

	a->last = run->start;
	a->stride = distance > (s64)AROUND || distance < -(s64)AROUND ? distance : 0;
	a->stride_seen = 1;
	a->stride_missed = 0;
	a->stride_window = 0;
	a->stride_ahead = 0;
}

/*
 * Request the next pages of a stride before they are touched. The number of pages doubles each
 * time.
 */
void stride_ahead(struct hm_advisor *a)
{
	u64 step = (u64)(a->stride > 0 ? a->stride : -a->stride);
	u64 from, to, room;
	struct hm_advice *advice;

	if (a->stride_seen < STRIDE_SEEN || a->facts.cached)
		return;
	room = (a->stride > 0 ? a->end - a->last : a->last - a->first) / step;
	if (a->stride_ahead > (u64)a->stride_seen + a->stride_window / 2)
		return;
	a->stride_window = a->stride_window ? policy_least(2 * a->stride_window, STRIDE_WINDOW) :
					      AROUND;
	from = policy_most(a->stride_ahead, (u64)a->stride_seen) - (u64)a->stride_seen;
	to = policy_least(room, a->stride_window);
	if (from >= to)
		return;
	a->stride_ahead = (u64)a->stride_seen + to;
	if (a->stride > 0)
		advice = policy_answer(a, HM_ADVICE_AHEAD, a->last + (from + 1) * step,
				       a->last + to * step + 1);
	else
		advice = policy_answer(a, HM_ADVICE_AHEAD, a->last - to * step,
				       a->last - (from + 1) * step + 1);
	if (advice)
		advice->step = (s64)step;
}
