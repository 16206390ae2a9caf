// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The policy of steering: runs that grow are streams, runs that do not are random.
 *
 * Each look extends the tracks that its runs go on with, begins new ones for the rest
 * (the least recent ones end), and decides for the mapping as a whole (its mode) and for
 * what lies before each stream (its area). The rules rest on costs: reading a region at
 * once costs about as much as a dozen single pages.
 */
#include "advice.h"

#define REGION ((u64)HM_BLOCK_PAGES)

/* A fault maps what is cached of the 16 pages around it: that much says nothing. */
#define AROUND 16u
/* A run that long is worth a region, where single pages are read. */
#define LONG_RUN 24u
/* ... and that long where the kernel reads ahead by itself, or in regions. */
#define NOTICED (REGION / 2)
#define REGIONS_NOTICED (5 * REGION)
/* From here on a stream is trusted with 16 MB, and with the rest of the mapping. */
#define TRUSTED (2 * REGION)
#define PROVEN (8 * REGION)
/* Runs of more than that are read a region at a time. */
#define CHUNK_LEAST 20u
/* A region of which that many pages were wanted one by one could have been read. */
#define REGION_COST 12u
/* One page costs about as much as so many that are read in order. */
#define PAGE_COST 50u
/* What fits into memory and is no larger, the kernel has soon read by its own guesses. */
#define SOON_READ (128 * REGION)
/* Of a larger one so many regions are read at a time. */
#define SWEEP 8u
/* Looks after which a track that does not grow says no more what is going on. */
#define RECENT 12u

#define FIRST_BATCH 4u
#define LAST_BATCH 16u
/* Stores are left alone that far behind; writes are begun in pieces of that. */
#define BEHIND (2 * REGION)
#define PIECE (4 * REGION)
/* What was scanned is dropped that far behind. */
#define DROP_LAG (16 * REGION)
#define PROBE_FIRST_MS 1000u
#define PROBE_LAST_MS 30000u
#define STRIDE_SEEN 4
#define STRIDE_WINDOW 2048u

static u64 least(u64 a, u64 b)
{
	return a < b ? a : b;
}

static u64 most(u64 a, u64 b)
{
	return a > b ? a : b;
}

static u64 region_up(u64 page)
{
	return (page + REGION - 1) / REGION * REGION;
}

static u64 region_down(u64 page)
{
	return page / REGION * REGION;
}

static bool by_pages(enum hm_mode mode)
{
	return mode == HM_MODE_NORMAL || mode == HM_MODE_RANDOM;
}

/* --- answers --- */

static struct hm_advice *answer(struct hm_advisor *a, enum hm_advice_kind kind, u64 start, u64 end)
{
	struct hm_advice *advice;

	start = most(start, a->first);
	end = least(end, a->end);
	if (start >= end || a->count == HM_ADVICES)
		return NULL;
	advice = &a->advice[a->count++];
	*advice = (struct hm_advice){ .kind = kind, .start = start, .end = end, .step = 1 };
	return advice;
}

static void say_mode(struct hm_advisor *a, u64 start, u64 end, enum hm_mode mode)
{
	struct hm_advice *advice = answer(a, HM_ADVICE_MODE, start, end);

	if (advice)
		advice->mode = mode;
}

/* --- tracks --- */

static bool is_used(const struct hm_track *t)
{
	return t->grown;
}

static u64 length(const struct hm_track *t)
{
	return t->next - t->start;
}

/* The whole mapping, areas included. */
static void change_mode(struct hm_advisor *a, enum hm_mode mode)
{
	u64 kept = mode == HM_MODE_HUGE ? LONG_RUN : PROVEN;
	u32 i;

	if (a->mode == mode)
		return;
	a->mode = mode;
	a->singles = a->chunks = 0;
	a->chunk_pages = 0;
	for (i = 0; i < HM_TRACKS; i++) {
		struct hm_track *t = &a->track[i];

		/* Other modes show other lengths: only what is a stream there, too, stays. */
		if (t->grown + 3 < a->look || length(t) < kept)
			*t = (struct hm_track){};
		t->area = t->back = 0;
	}
	say_mode(a, a->first, a->end, mode);
}

/* What was taken for a stream ends: what was advised before it is taken back. */
static void end_area(struct hm_advisor *a, struct hm_track *t)
{
	if (!t->area)
		return;
	say_mode(a, t->back, t->area, a->mode);
	t->area = t->back = 0;
}

/* A run of one region is all that can be seen of a single page in such modes. */
static bool is_single(const struct hm_advisor *a, const struct hm_track *t)
{
	return length(t) <= (by_pages(a->mode) ? AROUND : REGION);
}

static void retire(struct hm_advisor *a, struct hm_track *t)
{
	if (!is_used(t))
		return;
	end_area(a, t);
	if (is_single(a, t)) {
		a->singles++;
	} else if (length(t) < PROVEN) {
		a->chunks++;
		a->chunk_pages += length(t);
	}
	*t = (struct hm_track){};
}

static struct hm_track *new_track(struct hm_advisor *a, const struct hm_touch *run)
{
	struct hm_track *t, *victim = a->track;

	for (t = a->track; t < a->track + HM_TRACKS; t++)
		if (t->grown < victim->grown)
			victim = t;
	retire(a, victim);
	*victim = (struct hm_track){
		.start = run->start,
		.next = run->end,
		.pages = run->end - run->start,
		.behind = run->start,
		.grown = a->look,
	};
	return victim;
}

/* Does a run go on with a track, or lie in what was asked for on its way? */
static int goes_on(const struct hm_track *t, const struct hm_touch *run)
{
	if (t->way >= 0 && run->start >= t->next &&
	    run->start <= most(t->next, t->way ? t->ahead : 0) + AROUND)
		return 1;
	if (t->way <= 0 && run->end <= t->start &&
	    run->end + AROUND >= (t->way && t->ahead ? least(t->start, t->ahead) : t->start))
		return -1;
	return 0;
}

static bool extend(struct hm_advisor *a, const struct hm_touch *run)
{
	struct hm_track *t;
	int way;

	for (t = a->track; t < a->track + HM_TRACKS; t++) {
		way = is_used(t) ? goes_on(t, run) : 0;
		if (!way)
			continue;
		if (way > 0)
			t->next = run->end;
		else
			t->start = run->start;
		if (!t->way && way < 0) {
			t->ahead = 0;
			t->behind = t->next;
		}
		t->way = way;
		t->pages += run->end - run->start;
		t->grown = a->look;
		return true;
	}
	return false;
}

/* --- strides --- */

/* A stream passes each multiple of any distance. */
static bool is_streamed(const struct hm_advisor *a, const struct hm_touch *run)
{
	const struct hm_track *t;

	for (t = a->track; t < a->track + HM_TRACKS; t++)
		if (is_used(t) && length(t) > AROUND &&
		    (run->start == t->next || run->end == t->start))
			return true;
	return false;
}

/* Is this page as far from the last one as that was from the one before? */
static bool stride_goes_on(struct hm_advisor *a, const struct hm_touch *run)
{
	if (!a->stride || (s64)(run->start - a->last) != a->stride || is_streamed(a, run))
		return false;
	a->last = run->start;
	a->stride_seen++;
	a->stride_missed = 0;
	return true;
}

/* Where much else is touched in between, it is none. */
static void stride_misses(struct hm_advisor *a)
{
	if (!a->stride || ++a->stride_missed < STRIDE_SEEN)
		return;
	a->stride = 0;
	a->stride_seen = 0;
}

static void stride_begin(struct hm_advisor *a, const struct hm_touch *run)
{
	s64 distance = (s64)(run->start - a->last);

	a->last = run->start;
	a->stride = distance > (s64)AROUND || distance < -(s64)AROUND ? distance : 0;
	a->stride_seen = 1;
	a->stride_missed = 0;
	a->stride_window = 0;
	a->stride_ahead = 0;
}

/* Reads so many of the next ones that they come in time; twice as many each time. */
static void stride_ahead(struct hm_advisor *a)
{
	u64 step = (u64)(a->stride > 0 ? a->stride : -a->stride);
	u64 from, to, room;
	struct hm_advice *advice;

	if (a->stride_seen < STRIDE_SEEN)
		return;
	room = (a->stride > 0 ? a->end - a->last : a->last - a->first) / step;
	if (a->stride_ahead > (u64)a->stride_seen + a->stride_window / 2)
		return;
	a->stride_window = a->stride_window ? least(2 * a->stride_window, STRIDE_WINDOW) : AROUND;
	from = most(a->stride_ahead, (u64)a->stride_seen) - (u64)a->stride_seen;
	to = least(room, a->stride_window);
	if (from >= to)
		return;
	a->stride_ahead = (u64)a->stride_seen + to;
	if (a->stride > 0)
		advice = answer(a, HM_ADVICE_AHEAD, a->last + (from + 1) * step,
				a->last + to * step + 1);
	else
		advice = answer(a, HM_ADVICE_AHEAD, a->last - to * step,
				a->last - (from + 1) * step + 1);
	if (advice)
		advice->step = (s64)step;
}

/* --- what a stream gets --- */

/* From where on nothing was asked for yet, on the way of a track. */
static u64 edge(const struct hm_track *t)
{
	if (t->way < 0)
		return t->ahead ? least(t->ahead, t->start) : t->start;
	return most(t->ahead, t->next);
}

/* What all streams have before them takes a quarter of memory at most. */
static u32 largest_batch(const struct hm_advisor *a)
{
	u64 regions = a->memory ? a->memory / REGION : 1024;
	u32 streams = 0, i;

	for (i = 0; i < HM_TRACKS; i++)
		streams += a->track[i].batch && a->track[i].grown + RECENT >= a->look;
	return (u32)most(2, least(regions / (8 * most(streams, 1)), LAST_BATCH));
}

/*
 * A stream goes on with the pages that the kernel began with, whatever is advised. One
 * region that is missing on its way, and is asked for, makes it begin with huge ones.
 */
static void kick(struct hm_advisor *a, struct hm_track *t, u64 end)
{
	u64 at = region_up(edge(t)) + FIRST_BATCH * REGION;

	if (t->batch || t->way < 0 || at + REGION > end)
		return;
	t->batch = FIRST_BATCH;
	answer(a, HM_ADVICE_FILL, at, at + REGION);
}

/*
 * Batches of regions are read and mapped, but for the last region of each: the fault
 * there tells where the stream is. Two batches are kept before it.
 */
static void fill(struct hm_advisor *a, struct hm_track *t)
{
	bool everywhere = a->mode == HM_MODE_HUGE;
	u32 largest = largest_batch(a), n;
	u64 from = everywhere ? a->first : t->back, to = everywhere ? a->end : t->area;
	u64 at, size, wanted;

	if (a->busy) {
		kick(a, t, to);
		return;
	}
	/* Elsewhere it would be read page by page. */
	if (t->way >= 0) {
		wanted = t->next + 2 * (u64)(t->batch ? t->batch : FIRST_BATCH) * REGION;
		at = region_up(edge(t));
		for (n = 0; n < 2 && at < wanted && at < to; n++, at += size) {
			t->batch = t->batch ? (u32)least(2 * t->batch, largest) : FIRST_BATCH;
			size = least(t->batch * REGION, to - at);
			if (size <= REGION)
				return;
			answer(a, HM_ADVICE_FILL, at, at + size - REGION);
			t->ahead = at + size;
		}
		return;
	}
	for (n = 0; n < 2; n++) {
		at = region_down(edge(t));
		wanted = 2 * (u64)(t->batch ? t->batch : FIRST_BATCH) * REGION;
		if (at <= from || at + wanted <= t->start)
			return;
		t->batch = t->batch ? (u32)least(2 * t->batch, largest) : FIRST_BATCH;
		size = least(t->batch * REGION, at - region_down(from));
		if (size <= REGION)
			return;
		answer(a, HM_ADVICE_FILL, at - size + REGION, at);
		answer(a, HM_ADVICE_AHEAD, at - size, at - size + REGION);
		t->ahead = at - size;
		if (!t->ahead)
			return;
	}
}

/* As far as the next one's beginning, what is before a stream is its own. */
static u64 up_to_others(const struct hm_advisor *a, const struct hm_track *t, u64 to)
{
	const struct hm_track *o;

	for (o = a->track; o < a->track + HM_TRACKS; o++)
		if (is_used(o) && o != t && o->start >= t->next && o->start < to)
			to = o->start;
	return region_down(to) > t->next ? region_down(to) : to;
}

/* Regions before a stream are read as a stream's are. */
static void widen_area(struct hm_advisor *a, struct hm_track *t)
{
	u64 trust = length(t) >= PROVEN ? a->end : length(t) >= TRUSTED ? 8 * REGION : 2 * REGION;
	u64 from, to;

	if (a->mode == HM_MODE_HUGE)
		return;
	if (t->way < 0) {
		to = region_down(t->start);
		from = to > trust ? to - trust : 0;
		if (t->back && t->back + REGION <= t->start && t->back)
			return;
		say_mode(a, from, t->area ? t->back : to, HM_MODE_HUGE);
		t->area = t->area ? t->area : to;
		t->back = from;
		return;
	}
	from = region_up(t->next);
	to = up_to_others(a, t, from + trust > a->end ? a->end : from + trust);
	if (from >= to)
		return;
	if (t->area && t->area >= least(from + REGION, a->end))
		return;
	say_mode(a, t->area ? t->area : from, to, HM_MODE_HUGE);
	t->back = t->area ? t->back : from;
	t->area = to;
}

/* The part of an area that a stream has left is as all the rest again. */
static void shrink_area(struct hm_advisor *a, struct hm_track *t)
{
	u64 to;

	if (!t->area || t->way < 0 || t->next < t->back + 32 * REGION)
		return;
	to = region_down(t->next) - BEHIND;
	say_mode(a, t->back, to, a->mode);
	t->back = to;
}

static void leave_behind(struct hm_advisor *a, struct hm_track *t)
{
	bool larger = a->memory && a->end - a->first > a->memory;
	u64 to;

	if (t->way < 0)
		return;
	if (a->writable) {
		if (length(t) < PROVEN || t->next < t->behind + BEHIND + PIECE)
			return;
		to = region_down(t->next - BEHIND);
		answer(a, HM_ADVICE_WRITE, t->behind, to);
		t->behind = to;
		return;
	}
	/* Of a scan that exceeds memory the beginning stays: the next one finds that. */
	if (!larger || t->next < t->behind + DROP_LAG + PIECE)
		return;
	to = region_down(t->next - DROP_LAG);
	if (length(t) > a->memory / 4 * 3)
		answer(a, HM_ADVICE_DROP, t->behind, to);
	t->behind = to;
}

static u64 noticed(const struct hm_advisor *a)
{
	switch (a->mode) {
	case HM_MODE_RANDOM:
		return LONG_RUN;
	case HM_MODE_NORMAL:
		return NOTICED;
	default:
		return REGIONS_NOTICED;
	}
}

static void serve(struct hm_advisor *a, struct hm_track *t)
{
	u64 to;

	if (length(t) < noticed(a) && !t->area)
		return;
	widen_area(a, t);
	/* What is left of this region is read at once. */
	if (a->mode == HM_MODE_RANDOM && length(t) < TRUSTED && !t->ahead) {
		to = t->way < 0 ? region_down(t->start) : region_up(t->next);
		if (t->way < 0)
			answer(a, HM_ADVICE_AHEAD, to, t->start);
		else
			answer(a, HM_ADVICE_AHEAD, t->next, to);
	}
	if (length(t) >= TRUSTED && !a->writable && !a->small)
		fill(a, t);
	leave_behind(a, t);
	shrink_area(a, t);
}

/* --- what the mapping is used for --- */

struct view {
	u32 singles, chunks; /* tracks that have ended, or stand still */
	u64 chunk_pages;
	u32 streams, backward; /* that grow */
	u32 proven;
	u32 fresh; /* that began in this look */
};

static struct view take_view(struct hm_advisor *a)
{
	struct view v = { .singles = a->singles,
			  .chunks = a->chunks,
			  .chunk_pages = a->chunk_pages };
	struct hm_track *t;

	for (t = a->track; t < a->track + HM_TRACKS; t++) {
		if (!is_used(t) || t->grown + RECENT < a->look)
			continue;
		if (length(t) >= noticed(a) && (t->way || length(t) >= REGION) &&
		    t->grown + 3 >= a->look) {
			v.streams++;
			v.backward += t->way < 0;
			v.proven += length(t) >= PROVEN;
		} else if (t->grown == a->look) {
			v.fresh++;
		} else if (is_single(a, t)) {
			v.singles++;
		} else if (length(t) < PROVEN) {
			v.chunks++;
			v.chunk_pages += length(t);
		}
	}
	return v;
}

static bool fits(const struct hm_advisor *a)
{
	return a->memory && a->end - a->first < a->memory / 2;
}

static void decide_chunks(struct hm_advisor *a, const struct view *v, u64 now_ms)
{
	if (v->chunks < 2 || v->singles > v->chunks || v->chunk_pages / v->chunks < CHUNK_LEAST)
		return;
	a->pattern = HM_PATTERN_CHUNKS;
	change_mode(a, HM_MODE_CHUNK);
	a->probe_ms = a->probe_ms ? least(2 * a->probe_ms, PROBE_LAST_MS) : PROBE_FIRST_MS;
	a->probe_at = now_ms + a->probe_ms;
}

static void decide(struct hm_advisor *a, u64 now_ms)
{
	struct view v = take_view(a);
	u32 jumps = v.singles + v.chunks;
	enum hm_mode before = a->mode;

	/* A stream that goes on and on outweighs what was before it. */
	if (v.proven) {
		a->singles /= 2;
		a->chunks /= 2;
		a->chunk_pages /= 2;
	}

	if (a->stride_seen >= STRIDE_SEEN) {
		a->pattern = HM_PATTERN_STRIDED;
		change_mode(a, HM_MODE_RANDOM);
		return;
	}
	switch (a->mode) {
	case HM_MODE_NORMAL:
		if (fits(a) && a->end - a->first <= SOON_READ) {
			if (jumps >= 3 && !v.proven)
				a->pattern = HM_PATTERN_RANDOM;
		} else if (jumps >= 2 && jumps + v.fresh >= 3 && !v.proven) {
			if (v.singles < v.chunks)
				decide_chunks(a, &v, now_ms);
			if (a->mode == HM_MODE_NORMAL && v.singles >= v.chunks) {
				a->pattern = HM_PATTERN_RANDOM;
				change_mode(a, HM_MODE_RANDOM);
			}
		}
		break;
	case HM_MODE_HUGE:
		/* Regions here and there: what of them is wanted is seen page by page. */
		if (jumps >= 3 && !v.proven)
			change_mode(a, HM_MODE_RANDOM);
		break;
	case HM_MODE_RANDOM:
		if (!v.streams && jumps >= 3)
			a->pattern = HM_PATTERN_RANDOM;
		decide_chunks(a, &v, now_ms);
		break;
	case HM_MODE_CHUNK:
		if (now_ms >= a->probe_at)
			change_mode(a, HM_MODE_RANDOM);
		break;
	default:
		break;
	}
	if (v.streams && jumps < 3 && a->mode == before) {
		a->pattern = v.streams == v.backward ? HM_PATTERN_BACKWARD :
			     v.streams > 1	     ? HM_PATTERN_STREAMS :
						       HM_PATTERN_STREAM;
		if (v.proven)
			change_mode(a, HM_MODE_HUGE);
	}
}

/* --- pages that are wanted one by one --- */

/*
 * A region of which as many single pages were read as would have paid for all of it is
 * read, if there is memory for regions that are like that.
 */
static void count_pages(struct hm_advisor *a, const struct hm_touch *run)
{
	u64 regions = a->end / REGION + 1, mean;
	struct hm_region *r = &a->region[run->start / REGION];

	if (a->mode != HM_MODE_RANDOM || run->end - run->start > AROUND)
		return;
	a->faults++;
	if (r->touched < 0xffff)
		r->touched++;
	mean = a->faults / regions;
	if (r->asked || a->stride_seen >= STRIDE_SEEN || r->touched < REGION_COST)
		return;
	if (a->count >= HM_ADVICES / 4)
		return;
	if (!fits(a) && (r->touched < 4 * mean || r->touched < 2 * REGION_COST))
		return;
	r->asked = 1;
	answer(a, HM_ADVICE_AHEAD, region_down(run->start), region_up(run->end));
}

/*
 * Once single pages have cost as much as all of it would have, all of it is read, a part
 * at each look, if it fits into memory.
 */
static void sweep(struct hm_advisor *a)
{
	u64 from, n;

	if (a->mode != HM_MODE_RANDOM || !fits(a) || a->faults * PAGE_COST < a->end - a->first)
		return;
	for (n = 0; n < SWEEP && a->swept < a->end; a->swept += REGION) {
		struct hm_region *r = &a->region[a->swept / REGION];

		if (r->asked)
			continue;
		r->asked = 1;
		from = a->swept;
		answer(a, HM_ADVICE_AHEAD, from, from + REGION);
		n++;
	}
}

/* --- the door --- */

void hm_advisor_init(struct hm_advisor *a, u64 first, u64 end, struct hm_region *region,
		     struct hm_advice *advice)
{
	hm_assert(first < end && first < REGION);
	a->first = first;
	a->end = end;
	a->region = region;
	a->advice = advice;
}

void hm_advisor_look(struct hm_advisor *a, const struct hm_touch *runs, u32 n, u64 now_ms)
{
	struct hm_track *t;
	u32 i;

	a->count = 0;
	if (!n)
		return;
	a->look++;
	for (i = 0; i < n; i++) {
		hm_assert(runs[i].start < runs[i].end && runs[i].end <= a->end);
		count_pages(a, &runs[i]);
		if (stride_goes_on(a, &runs[i]) && a->stride_seen >= STRIDE_SEEN)
			continue;
		if (a->last != runs[i].start)
			stride_misses(a);
		if (extend(a, &runs[i]))
			continue;
		if (a->last != runs[i].start)
			stride_begin(a, &runs[i]);
		new_track(a, &runs[i]);
	}
	/* What ended long ago counts for less and less. */
	if (a->look % (4 * RECENT) == 0) {
		a->singles /= 2;
		a->chunks /= 2;
		a->chunk_pages /= 2;
	}
	decide(a, now_ms);
	sweep(a);
	stride_ahead(a);
	for (t = a->track; t < a->track + HM_TRACKS; t++)
		if (is_used(t) && t->grown == a->look)
			serve(a, t);
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
