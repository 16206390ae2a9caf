// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Service of a stream: the mode of its area, and requests ahead of it. */
#include "stream.h"

#include "track.h"

/*
 * A run of this length is a stream if the kernel reads ahead by its own guess, or reads whole
 * regions.
 */
#define NOTICED (REGION / 2)
#define REGIONS_NOTICED (5 * REGION)
/* stream_kick() makes a stream continue in huge pages from this distance ahead of it on. */
#define KICK (4 * REGION)
#define KICKS 4u
/* The most pages that are requested ahead of a stream if the caller cannot give modes. */
#define LAST_WINDOW (32 * REGION)
/* The area of a stream starts this far behind the stream. */
#define BEHIND (2 * REGION)

/* Return the first page in the direction of a track that was not requested yet. */
static u64 stream_edge(const struct hm_track *t)
{
	if (t->way < 0)
		return t->ahead ? policy_least(t->ahead, t->start) : t->start;
	return policy_most(t->ahead, t->next);
}

/*
 * The kernel continues a stream with the page size with which it started, even against advice,
 * because it reads ahead before the program needs the next page. It does not read ahead in mode
 * CHUNK. So one region with this mode makes the program wait for a page at its end, and the kernel
 * reads on from there in huge pages. That region lies beyond the two windows that the kernel may
 * request before the advice arrives. The try has failed if the stream is a region beyond it and
 * does not end at the boundary of a region, as it would with huge pages. The next try is then
 * farther ahead.
 */
static void stream_kick(struct hm_advisor *a, struct hm_track *t)
{
	u64 to = a->mode == HM_MODE_HUGE ? a->end : t->area;
	u64 at = policy_region_up(t->next + (policy_most(KICK, 2 * policy_window(a)) << t->kicks));

	if (t->way >= 0 && t->kick && t->next < t->kick + 2 * REGION)
		return;
	track_end_kick(a, t);
	if (t->way < 0 || t->kicks == KICKS || at + 2 * REGION > to ||
	    (t->kicks && t->next % REGION == 0))
		return;
	t->kicks++;
	t->kick = at;
	policy_say_mode(a, at, at + REGION, HM_MODE_CHUNK);
}

/*
 * If no mode can be given, request a window of pages ahead of a stream. The windows of all streams
 * together take at most a quarter of memory. The next request follows when the stream has used half
 * of its window.
 */
static void stream_read_before(struct hm_advisor *a, struct hm_track *t)
{
	u64 streams = !t->ahead, room, from, to;
	u32 i;

	for (i = 0; i < HM_TRACKS; i++)
		streams += a->track[i].ahead && a->track[i].grown + RECENT >= a->look;
	room = a->facts.memory ? a->facts.memory / 4 / streams : LAST_WINDOW;
	room = policy_most(policy_region_down(policy_least(room, LAST_WINDOW)), 2 * REGION);
	from = stream_edge(t);
	if (t->way < 0) {
		to = t->start > room ? policy_region_down(t->start - room) : 0;
		if (to + room / 2 >= from && (to || t->ahead == 1))
			return;
		policy_answer(a, HM_ADVICE_AHEAD, to, from);
	} else {
		to = policy_region_down(t->next + room);
		if (to < from + room / 2)
			return;
		policy_answer(a, HM_ADVICE_AHEAD, from, to);
	}
	t->ahead = policy_most(to, 1);
}

/* The pages ahead of a stream belong to it up to the start of the next track. */
static u64 stream_up_to_others(const struct hm_advisor *a, const struct hm_track *t, u64 to)
{
	const struct hm_track *o;

	for (o = a->track; o < a->track + HM_TRACKS; o++)
		if (track_is_used(o) && o != t && o->start >= t->next && o->start < to)
			to = o->start;
	return policy_region_down(to) > t->next ? policy_region_down(to) : to;
}

/* Extend the area of a stream: faults ahead of the stream read whole regions. */
static void stream_widen_area(struct hm_advisor *a, struct hm_track *t)
{
	u64 trust = track_length(t) >= PROVEN  ? a->end :
		    track_length(t) >= TRUSTED ? 8 * REGION :
						 2 * REGION;
	u64 from, to;

	if (a->mode == HM_MODE_HUGE)
		return;
	if (t->way < 0) {
		if (a->mode == HM_MODE_CHUNK)
			return;
		to = policy_region_down(t->start);
		from = to > trust ? to - trust : 0;
		if (t->back && t->back + REGION <= t->start)
			return;
		policy_say_mode(a, from, t->area ? t->back : to, HM_MODE_CHUNK);
		t->area = t->area ? t->area : to;
		t->back = from;
		return;
	}
	from = policy_region_up(t->next);
	to = stream_up_to_others(a, t, from + trust > a->end ? a->end : from + trust);
	if (from >= to)
		return;
	if (t->area && t->area >= policy_least(from + REGION, a->end))
		return;
	policy_say_mode(a, t->area ? t->area : from, to, HM_MODE_HUGE);
	t->back = t->area ? t->back : from;
	t->area = to;
}

/* Give the part of an area that a stream has left the mode of the mapping again. */
static void stream_shrink_area(struct hm_advisor *a, struct hm_track *t)
{
	u64 to;

	if (!t->area || t->way < 0 || t->next < t->back + 32 * REGION)
		return;
	to = policy_region_down(t->next) - BEHIND;
	policy_say_mode(a, t->back, to, a->mode);
	t->back = to;
}

static u64 stream_noticed(const struct hm_advisor *a)
{
	switch (a->mode) {
	case HM_MODE_RANDOM:
		return LONG_RUN;
	case HM_MODE_NORMAL:
		return a->pattern == HM_PATTERN_CHUNKS ? TRUSTED : NOTICED;
	default:
		return REGIONS_NOTICED;
	}
}

/*
 * Random accesses that happen to lie near each other form a track, too, but few of its pages are
 * touched.
 */
bool stream_is_noticed(const struct hm_advisor *a, const struct hm_track *t)
{
	u64 dense = track_length(t) < REGION ? track_length(t) / 2 : track_length(t) / 8;

	return track_length(t) >= stream_noticed(a) && t->pages >= dense;
}

/* If faults read single pages, request the rest of the region at once. */
static void stream_rest_of_region(struct hm_advisor *a, struct hm_track *t)
{
	u64 to;

	if (a->facts.cached)
		return;
	if (t->way < 0) {
		to = policy_region_down(t->start);
		if (t->ahead && t->ahead <= policy_most(to, 1))
			return;
		policy_answer(a, HM_ADVICE_AHEAD, to, t->start);
		to = policy_most(to, 1);
	} else {
		to = policy_region_up(t->next);
		if (t->ahead >= to)
			return;
		policy_answer(a, HM_ADVICE_AHEAD, t->next, to);
	}
	t->ahead = to;
}

void stream_serve(struct hm_advisor *a, struct hm_track *t)
{
	if (a->facts.small_writes)
		return;
	if (!t->area && !stream_is_noticed(a, t))
		return;
	if (a->mode == HM_MODE_RANDOM && track_length(t) < TRUSTED)
		stream_rest_of_region(a, t);
	if (a->mode == HM_MODE_RANDOM && track_length(t) < REGION)
		return;
	stream_widen_area(a, t);
	if (a->facts.small)
		track_end_kick(a, t);
	else if (track_length(t) >= TRUSTED && !a->facts.outside)
		stream_kick(a, t);
	if (track_length(t) >= TRUSTED && a->facts.outside && !a->facts.writable)
		stream_read_before(a, t);
	stream_shrink_area(a, t);
}
