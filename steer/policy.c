// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The policy of steering. A run of touched pages that grows is a stream. Runs that do not grow are
 * random accesses.
 *
 * A look extends the tracks that its runs continue, and starts a new track for each other run. A
 * new track replaces the one that has not grown for the longest time. Then the policy decides on a
 * mode for the mapping as a whole, and on a mode for the pages ahead of each stream (its area). The
 * rules rest on costs: to read a region at once costs about as much as to read a dozen single
 * pages.
 */
#include "policy.h"

#include <assert.h>

#define REGION ((u64)REGION_PAGES)

/*
 * A fault maps the cached pages among the 16 around it. So a run of up to 16 pages proves nothing.
 */
#define AROUND 16u
/* If single pages are read, a run of this length makes it worthwhile to read its region at once. */
#define LONG_RUN 24u
/*
 * A run of this length is a stream if the kernel reads ahead by its own guess, or reads whole
 * regions.
 */
#define NOTICED (REGION / 2)
#define REGIONS_NOTICED (5 * REGION)
/*
 * A stream of TRUSTED pages gets an area of 16 MB, a stream of PROVEN pages the rest of the
 * mapping.
 */
#define TRUSTED (2 * REGION)
#define PROVEN (8 * REGION)
/* If the mean length of runs is at least this, faults read whole regions. */
#define CHUNK_LEAST 20u
/* Reading a region at once costs as much as reading this many of its pages one by one. */
#define REGION_COST 12u
/* Reading a page by itself costs about as much as reading this many pages in order. */
#define PAGE_COST 50u
/*
 * The kernel soon reads all of a mapping up to this size by its own guesses, if it fits into
 * memory.
 */
#define SOON_READ (128 * REGION)
/* policy_sweep() requests this many regions of a mapping at each look. */
#define SWEEP 8u
/* A track that has not grown for this many looks is no evidence of the present accesses. */
#define RECENT 12u

/* policy_kick() makes a stream continue in huge pages from this distance ahead of it on. */
#define KICK (4 * REGION)
#define KICKS 4u
/* The most pages that are requested ahead of a stream if the caller cannot give modes. */
#define LAST_WINDOW (32 * REGION)
/* The area of a stream starts this far behind the stream. */
#define BEHIND (2 * REGION)
#define PROBE_FIRST_MS 1000u
#define PROBE_LAST_MS 30000u
#define STRIDE_SEEN 4
#define STRIDE_WINDOW 2048u

static u64 policy_least(u64 a, u64 b)
{
	return a < b ? a : b;
}

static u64 policy_most(u64 a, u64 b)
{
	return a > b ? a : b;
}

static u64 policy_region_up(u64 page)
{
	return (page + REGION - 1) / REGION * REGION;
}

static u64 policy_region_down(u64 page)
{
	return page / REGION * REGION;
}

/* If the window of the kernel is not known, assume a large one. */
static u64 policy_window(const struct hm_advisor *a)
{
	return a->facts.window ? a->facts.window : 4 * REGION;
}

static bool policy_by_pages(enum hm_mode mode)
{
	return mode == HM_MODE_NORMAL || mode == HM_MODE_RANDOM;
}

/* --- answers --- */

static struct hm_advice *policy_answer(struct hm_advisor *a, enum hm_advice_kind kind, u64 start,
				       u64 end)
{
	struct hm_advice *advice;

	start = policy_most(start, a->first);
	end = policy_least(end, a->end);
	if (start >= end || a->count == HM_ADVICES)
		return NULL;
	advice = &a->advice[a->count++];
	*advice = (struct hm_advice){ .kind = kind, .start = start, .end = end, .step = 1 };
	return advice;
}

static void policy_say_mode(struct hm_advisor *a, u64 start, u64 end, enum hm_mode mode)
{
	struct hm_advice *advice = policy_answer(a, HM_ADVICE_MODE, start, end);

	if (advice)
		advice->mode = mode;
}

/* --- tracks --- */

static bool policy_is_used(const struct hm_track *t)
{
	return t->grown;
}

static u64 policy_length(const struct hm_track *t)
{
	return t->next - t->start;
}

/* Change the mode of the whole mapping, including the areas of streams. */
static void policy_change_mode(struct hm_advisor *a, enum hm_mode mode)
{
	bool order = mode == HM_MODE_HUGE ||
		     (mode == HM_MODE_CHUNK && a->pattern == HM_PATTERN_BACKWARD);
	u64 kept = order ? LONG_RUN : PROVEN;
	u32 i;

	if (a->mode == mode)
		return;
	a->mode = mode;
	a->singles = a->chunks = 0;
	a->chunk_pages = 0;
	for (i = 0; i < HM_TRACKS; i++) {
		struct hm_track *t = &a->track[i];

		/*
		 * Runs have other lengths in another mode. Keep only the tracks that are streams
		 * there, too.
		 */
		if (t->grown + 3 < a->look || policy_length(t) < kept)
			*t = (struct hm_track){};
		t->area = t->back = 0;
	}
	policy_say_mode(a, a->first, a->end, mode);
}

/* A track ends: take back the advice for the pages ahead of it. */
static void policy_end_area(struct hm_advisor *a, struct hm_track *t)
{
	if (!t->area)
		return;
	policy_say_mode(a, t->back, t->area, a->mode);
	t->area = t->back = 0;
}

/* In a mode that reads whole regions, a single access appears as a run of up to one region. */
static bool policy_is_single(const struct hm_advisor *a, const struct hm_track *t)
{
	return policy_length(t) <= (policy_by_pages(a->mode) ? AROUND : REGION) ||
	       2 * t->pages < policy_length(t);
}

static void policy_retire(struct hm_advisor *a, struct hm_track *t)
{
	if (!policy_is_used(t))
		return;
	policy_end_area(a, t);
	if (policy_is_single(a, t)) {
		a->singles++;
	} else if (policy_length(t) < PROVEN) {
		a->chunks++;
		a->chunk_pages += policy_length(t);
	}
	*t = (struct hm_track){};
}

static void policy_new_track(struct hm_advisor *a, const struct hm_touch *run)
{
	struct hm_track *t, *victim = a->track;

	for (t = a->track; t < a->track + HM_TRACKS; t++)
		if (t->grown < victim->grown)
			victim = t;
	policy_retire(a, victim);
	*victim = (struct hm_track){
		.start = run->start,
		.next = run->end,
		.pages = run->end - run->start,
		.grown = a->look,
	};
}

/*
 * Has a track reached the region that policy_kick() requested? That region is mapped already, so no
 * run will show the accesses to it.
 */
static bool policy_is_kicked(const struct hm_track *t)
{
	return t->kicks && t->next < t->ahead && t->next + AROUND + REGION >= t->ahead;
}

/* Return 1 or -1 if a run continues a track upwards or downwards; else 0. */
static int policy_goes_on(const struct hm_track *t, const struct hm_touch *run)
{
	if (t->way >= 0 && run->start >= t->next &&
	    (run->start <= t->next + AROUND ||
	     (policy_is_kicked(t) && run->start <= t->ahead + AROUND)))
		return 1;
	if (t->way <= 0 && run->end <= t->start && run->end + AROUND >= t->start)
		return -1;
	return 0;
}

static bool policy_extend(struct hm_advisor *a, const struct hm_touch *run)
{
	struct hm_track *t;
	int way;

	for (t = a->track; t < a->track + HM_TRACKS; t++) {
		way = policy_is_used(t) ? policy_goes_on(t, run) : 0;
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
		if (policy_length(t) > AROUND && a->last >= t->start && a->last < t->next)
			a->stride = a->stride_seen = 0;
		return true;
	}
	return false;
}

/* --- strides --- */

/*
 * Does the run continue a stream? Then its distance from the last page of a stride is chance, and
 * no evidence that the stride goes on.
 */
static bool policy_is_streamed(const struct hm_advisor *a, const struct hm_touch *run)
{
	const struct hm_track *t;

	for (t = a->track; t < a->track + HM_TRACKS; t++)
		if (policy_is_used(t) && policy_length(t) > AROUND &&
		    (run->start == t->next || run->end == t->start))
			return true;
	return false;
}

/* Does a run continue the stride, at the same distance from the last page as before? */
static bool policy_stride_goes_on(struct hm_advisor *a, const struct hm_touch *run)
{
	if (!a->stride || (s64)(run->start - a->last) != a->stride || policy_is_streamed(a, run) ||
	    run->end - run->start > AROUND)
		return false;
	a->last = run->start;
	a->stride_seen++;
	a->stride_missed = 0;
	return true;
}

/* The run does not continue the stride. After STRIDE_SEEN such runs in a row the stride ends. */
static void policy_stride_misses(struct hm_advisor *a)
{
	if (!a->stride || ++a->stride_missed < STRIDE_SEEN)
		return;
	a->stride = 0;
	a->stride_seen = 0;
}

static void policy_stride_begin(struct hm_advisor *a, const struct hm_touch *run)
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
static void policy_stride_ahead(struct hm_advisor *a)
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

/* --- service of a stream --- */

/* Return the first page in the direction of a track that was not requested yet. */
static u64 policy_edge(const struct hm_track *t)
{
	if (t->way < 0)
		return t->ahead ? policy_least(t->ahead, t->start) : t->start;
	return policy_most(t->ahead, t->next);
}

/*
 * The kernel continues a stream with the page size with which it started, even against advice. If
 * one region ahead of the stream is requested that is not cached yet, the kernel reads on from
 * there in huge pages. That region lies beyond the two windows that the kernel may request before
 * the advice arrives. The try has failed if the stream is a region beyond the requested one and
 * does not end at the boundary of a region, as it would with huge pages. The next try is then
 * farther ahead.
 */
static void policy_kick(struct hm_advisor *a, struct hm_track *t)
{
	u64 to = a->mode == HM_MODE_HUGE ? a->end : t->area;
	u64 at = policy_region_up(t->next + (policy_most(KICK, 2 * policy_window(a)) << t->kicks));

	if (t->way < 0 || t->kicks == KICKS || at + REGION > to)
		return;
	if (t->kicks && (t->next < t->ahead + REGION || t->next % REGION == 0))
		return;
	t->kicks++;
	t->ahead = at + REGION;
	policy_answer(a, HM_ADVICE_FILL, at, at + REGION);
}

/*
 * If no mode can be given, request a window of pages ahead of a stream. The windows of all streams
 * together take at most a quarter of memory. The next request follows when the stream has used half
 * of its window.
 */
static void policy_read_before(struct hm_advisor *a, struct hm_track *t)
{
	u64 streams = !t->ahead, room, from, to;
	u32 i;

	for (i = 0; i < HM_TRACKS; i++)
		streams += a->track[i].ahead && a->track[i].grown + RECENT >= a->look;
	room = a->facts.memory ? a->facts.memory / 4 / streams : LAST_WINDOW;
	room = policy_most(policy_region_down(policy_least(room, LAST_WINDOW)), 2 * REGION);
	from = policy_edge(t);
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
static u64 policy_up_to_others(const struct hm_advisor *a, const struct hm_track *t, u64 to)
{
	const struct hm_track *o;

	for (o = a->track; o < a->track + HM_TRACKS; o++)
		if (policy_is_used(o) && o != t && o->start >= t->next && o->start < to)
			to = o->start;
	return policy_region_down(to) > t->next ? policy_region_down(to) : to;
}

/* Extend the area of a stream: faults ahead of the stream read whole regions. */
static void policy_widen_area(struct hm_advisor *a, struct hm_track *t)
{
	u64 trust = policy_length(t) >= PROVEN	? a->end :
		    policy_length(t) >= TRUSTED ? 8 * REGION :
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
	to = policy_up_to_others(a, t, from + trust > a->end ? a->end : from + trust);
	if (from >= to)
		return;
	if (t->area && t->area >= policy_least(from + REGION, a->end))
		return;
	policy_say_mode(a, t->area ? t->area : from, to, HM_MODE_HUGE);
	t->back = t->area ? t->back : from;
	t->area = to;
}

/* Give the part of an area that a stream has left the mode of the mapping again. */
static void policy_shrink_area(struct hm_advisor *a, struct hm_track *t)
{
	u64 to;

	if (!t->area || t->way < 0 || t->next < t->back + 32 * REGION)
		return;
	to = policy_region_down(t->next) - BEHIND;
	policy_say_mode(a, t->back, to, a->mode);
	t->back = to;
}

static u64 policy_noticed(const struct hm_advisor *a)
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
static bool policy_is_noticed(const struct hm_advisor *a, const struct hm_track *t)
{
	u64 dense = policy_length(t) < REGION ? policy_length(t) / 2 : policy_length(t) / 8;

	return policy_length(t) >= policy_noticed(a) && t->pages >= dense;
}

/* If faults read single pages, request the rest of the region at once. */
static void policy_rest_of_region(struct hm_advisor *a, struct hm_track *t)
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

static void policy_serve(struct hm_advisor *a, struct hm_track *t)
{
	if (a->facts.small_writes)
		return;
	if (!t->area && !policy_is_noticed(a, t))
		return;
	if (a->mode == HM_MODE_RANDOM && policy_length(t) < TRUSTED)
		policy_rest_of_region(a, t);
	if (a->mode == HM_MODE_RANDOM && policy_length(t) < REGION)
		return;
	policy_widen_area(a, t);
	if (policy_length(t) >= TRUSTED && !a->facts.outside && !a->facts.small)
		policy_kick(a, t);
	if (policy_length(t) >= TRUSTED && a->facts.outside && !a->facts.writable)
		policy_read_before(a, t);
	policy_shrink_area(a, t);
}

/* --- pattern of a mapping --- */

struct view {
	u32 singles, chunks; /* tracks that have ended, or do not grow now */
	u64 chunk_pages;
	u32 streams, backward; /* tracks that grow */
	u32 proven;
	u32 fresh; /* tracks that started in this look */
};

static struct view policy_take_view(struct hm_advisor *a)
{
	struct view v = { .singles = a->singles,
			  .chunks = a->chunks,
			  .chunk_pages = a->chunk_pages };
	struct hm_track *t;

	for (t = a->track; t < a->track + HM_TRACKS; t++) {
		if (!policy_is_used(t) || t->grown + RECENT < a->look)
			continue;
		if (policy_is_noticed(a, t) && (t->way || policy_length(t) >= REGION) &&
		    t->grown + 3 >= a->look) {
			v.streams++;
			v.backward += t->way < 0;
			v.proven += policy_length(t) >= PROVEN;
		} else if (t->grown == a->look) {
			v.fresh++;
		} else if (policy_is_single(a, t)) {
			v.singles++;
		} else if (policy_length(t) < PROVEN) {
			v.chunks++;
			v.chunk_pages += policy_length(t);
		}
	}
	return v;
}

static bool policy_fits(const struct hm_advisor *a)
{
	return !a->facts.crowded && a->facts.memory && a->end - a->first < a->facts.memory / 2;
}

/*
 * If most runs have the length of chunks, let faults read whole regions. A run that ends costs the
 * pages that were read beyond it: about half a region, or the pages that the kernel has read ahead
 * by its own guess.
 */
static void policy_decide_chunks(struct hm_advisor *a, const struct view *v, u64 now_ms)
{
	enum hm_mode mode;

	if (v->chunks < 2 || v->singles > v->chunks || v->chunk_pages / v->chunks < CHUNK_LEAST)
		return;
	a->pattern = HM_PATTERN_CHUNKS;
	mode = policy_window(a) < REGION / 4 || a->facts.small_writes ? HM_MODE_NORMAL :
									HM_MODE_CHUNK;
	if (a->mode == mode)
		return;
	a->probe_ms = a->probe_ms ? policy_least(2 * a->probe_ms, PROBE_LAST_MS) : PROBE_FIRST_MS;
	a->probe_at = now_ms + a->probe_ms;
	policy_change_mode(a, mode);
}

/* For a backward stream, only the region of the fault is read: the next one is of no use. */
static void policy_read_in_order(struct hm_advisor *a)
{
	enum hm_mode mode = a->pattern == HM_PATTERN_BACKWARD ? HM_MODE_CHUNK : HM_MODE_HUGE;

	a->probe_at = 0;
	policy_change_mode(a, mode);
}

static void policy_decide(struct hm_advisor *a, u64 now_ms)
{
	struct view v = policy_take_view(a);
	u32 jumps = v.singles + v.chunks;
	struct hm_track *t;
	enum hm_pattern seen = a->pattern;
	enum hm_mode before = a->mode;

	/* A proven stream outweighs the tracks that ended before it. */
	if (v.proven) {
		a->singles /= 2;
		a->chunks /= 2;
		a->chunk_pages /= 2;
	}

	if (a->facts.small_writes) {
		for (t = a->track; t < a->track + HM_TRACKS; t++)
			policy_end_area(a, t);
		if (!policy_by_pages(a->mode)) {
			policy_change_mode(a, HM_MODE_NORMAL);
			return;
		}
	}
	if (a->stride_seen >= STRIDE_SEEN) {
		a->pattern = HM_PATTERN_STRIDED;
		policy_change_mode(a, HM_MODE_RANDOM);
		return;
	}
	switch (a->mode) {
	case HM_MODE_NORMAL:
		if (now_ms < a->probe_at)
			break;
		if (policy_fits(a) && a->end - a->first <= SOON_READ) {
			if (jumps >= 3 && !v.proven)
				a->pattern = HM_PATTERN_RANDOM;
		} else if (jumps >= 2 && jumps + v.fresh >= 3 && !v.proven) {
			if (v.singles < v.chunks)
				policy_decide_chunks(a, &v, now_ms);
			if (a->mode == HM_MODE_NORMAL && v.singles >= v.chunks) {
				a->pattern = HM_PATTERN_RANDOM;
				policy_change_mode(a, HM_MODE_RANDOM);
			}
		}
		break;
	case HM_MODE_HUGE:
		/*
		 * The accesses jump from region to region. Mode RANDOM shows which pages are
		 * touched.
		 */
		if (jumps >= 3 && !v.proven)
			policy_change_mode(a, HM_MODE_RANDOM);
		break;
	case HM_MODE_RANDOM:
		if (!v.streams && jumps >= 3)
			a->pattern = HM_PATTERN_RANDOM;
		policy_decide_chunks(a, &v, now_ms);
		break;
	case HM_MODE_CHUNK:
		if (a->probe_at ? now_ms >= a->probe_at : jumps >= 3 && !v.proven)
			policy_change_mode(a, HM_MODE_RANDOM);
		break;
	default:
		break;
	}
	if (v.streams && jumps < 3 && a->mode == before) {
		a->pattern = v.streams == v.backward ? HM_PATTERN_BACKWARD :
			     v.streams > 1	     ? HM_PATTERN_STREAMS :
						       HM_PATTERN_STREAM;
		if (v.proven && !a->facts.small_writes &&
		    (policy_by_pages(a->mode) || a->pattern == seen))
			policy_read_in_order(a);
	}
}

/* --- pages that are read one by one --- */

/*
 * Request a whole region as soon as the single pages that were read of it have cost as much. If the
 * mapping does not fit into memory, the region must also be hotter than the mean. A look goes
 * through a mapping from its start, so both the count of the region and the mean are those from
 * before this look.
 */
static void policy_count_pages(struct hm_advisor *a, const struct hm_touch *run, u64 mean)
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
static void policy_sweep(struct hm_advisor *a)
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

/* --- the interface --- */

void hm_advisor_init(struct hm_advisor *a, u64 first, u64 end, struct hm_region *region,
		     struct hm_advice *advice)
{
	assert(first < end && first < REGION);
	a->first = first;
	a->end = end;
	a->region = region;
	a->advice = advice;
}

void hm_advisor_look(struct hm_advisor *a, const struct hm_touch *runs, u32 n, u64 now_ms)
{
	u64 mean = a->faults / (a->end / REGION + 1);
	struct hm_track *t;
	bool next;
	u32 i;

	a->count = 0;
	if (!n)
		return;
	/* A round of scans arrives in several calls with the same time, which are one look. */
	next = !a->look || now_ms != a->look_ms;
	a->look += next;
	a->look_ms = now_ms;
	for (i = 0; i < n; i++) {
		assert(runs[i].start < runs[i].end && runs[i].end <= a->end);
		policy_count_pages(a, &runs[i], mean);
		if (policy_stride_goes_on(a, &runs[i]) && a->stride_seen >= STRIDE_SEEN)
			continue;
		if (a->last != runs[i].start)
			policy_stride_misses(a);
		if (policy_extend(a, &runs[i]))
			continue;
		if (a->last != runs[i].start)
			policy_stride_begin(a, &runs[i]);
		policy_new_track(a, &runs[i]);
	}
	/* Tracks that ended long ago count for less and less. */
	if (next && a->look % (4 * RECENT) == 0) {
		a->singles /= 2;
		a->chunks /= 2;
		a->chunk_pages /= 2;
	}
	policy_decide(a, now_ms);
	if (next)
		policy_sweep(a);
	policy_stride_ahead(a);
	for (t = a->track; t < a->track + HM_TRACKS; t++)
		if (policy_is_used(t) && t->grown == a->look)
			policy_serve(a, t);
}

const char *hm_advisor_why(const struct hm_advisor *a)
{
	static const char *const why[] = {
		[HM_PATTERN_UNKNOWN] = "too little was touched to tell",
		[HM_PATTERN_STREAM] = "it is read or written in order",
		[HM_PATTERN_STREAMS] = "several streams go through it",
		[HM_PATTERN_BACKWARD] = "it is gone through backward",
		[HM_PATTERN_STRIDED] = "pages are as far from each other as the ones before",
		[HM_PATTERN_CHUNKS] = "runs of pages here and there",
		[HM_PATTERN_RANDOM] = "single pages here and there",
	};

	return why[a->pattern];
}
