// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Tracks of a mapping: runs that grow at one end. A new track replaces the oldest one. */
#include "track.h"

void track_end_kick(struct hm_advisor *a, struct hm_track *t)
{
	if (t->kick)
		policy_say_mode(a, t->kick, t->kick + REGION,
				t->kick < t->area ? HM_MODE_HUGE : a->mode);
	t->kick = 0;
}

void track_end_area(struct hm_advisor *a, struct hm_track *t)
{
	track_end_kick(a, t);
	if (!t->area)
		return;
	policy_say_mode(a, t->back, t->area, a->mode);
	t->area = t->back = 0;
}

bool track_is_single(const struct hm_advisor *a, const struct hm_track *t)
{
	return track_length(t) <= (policy_by_pages(a->mode) ? AROUND : REGION) ||
	       2 * t->pages < track_length(t);
}

static void track_retire(struct hm_advisor *a, struct hm_track *t)
{
	if (!track_is_used(t))
		return;
	track_end_area(a, t);
	if (track_is_single(a, t)) {
		a->singles++;
	} else if (track_length(t) < PROVEN) {
		a->chunks++;
		a->chunk_pages += track_length(t);
	}
	*t = (struct hm_track){};
}

void track_begin(struct hm_advisor *a, const struct hm_touch *run)
{
	struct hm_track *t, *victim = a->track;

	for (t = a->track; t < a->track + HM_TRACKS; t++)
		if (t->grown < victim->grown)
			victim = t;
	track_retire(a, victim);
	*victim = (struct hm_track){
		.start = run->start,
		.next = run->end,
		.pages = run->end - run->start,
		.grown = a->look,
	};
}

/* Return 1 or -1 if a run continues a track upwards or downwards; else 0. */
static int track_goes_on(const struct hm_track *t, const struct hm_touch *run)
{
	if (t->way >= 0 && run->start >= t->next && run->start <= t->next + AROUND)
		return 1;
	if (t->way <= 0 && run->end <= t->start && run->end + AROUND >= t->start)
		return -1;
	return 0;
}

bool track_extend(struct hm_advisor *a, const struct hm_touch *run)
{
	struct hm_track *t;
	int way;

	for (t = a->track; t < a->track + HM_TRACKS; t++) {
		way = track_is_used(t) ? track_goes_on(t, run) : 0;
		if (!way)
			continue;
		if (way > 0)
			t->next = run->end;
		else
			t->start = run->start;
		if (!t->way && way < 0)
			t->ahead = 0;
		t->way = way;
		t->pages += run->end - run->start;
		t->grown = a->look;
		/*
		 * The last page of the stride belongs to this track, which is no single page: there
		 * is no stride.
		 */
		if (track_length(t) > AROUND && a->last >= t->start && a->last < t->next)
			a->stride = a->stride_seen = 0;
		return true;
	}
	return false;
}
