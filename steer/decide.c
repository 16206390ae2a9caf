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

#include "single.h"
#include "stream.h"
#include "stride.h"
#include "track.h"

#include <assert.h>

/* If the mean length of runs is at least this, faults read whole regions. */
#define CHUNK_LEAST 20u
/*
 * The kernel soon reads all of a mapping up to this size by its own guesses, if it fits into
 * memory.
 */
#define SOON_READ (128 * REGION)
/*
 * The policy judges the kernel's guess after this many windows were read. From then on the process
 * must use 2 of 3 pages that it reads. Reads more than USE_MEMORY windows of 512 KB or more ago
 * count for little.
 */
#define USE_TRIAL 32u
#define USE_MEMORY 64u
/* After this many used pages, a process that has read few of them uses holes or cached pages. */
#define USE_UNREAD 64u
/* A mapping without an access for that long leaves its memory to the others. */
#define SHARE_MS 10000u
#define PROBE_FIRST_MS 1000u
#define PROBE_LAST_MS 30000u

/* --- pattern of a mapping --- */

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
		if (t->grown + 3 < a->look || track_length(t) < kept)
			*t = (struct hm_track){};
		t->area = t->back = t->kick = 0;
	}
	policy_say_mode(a, a->first, a->end, mode);
}

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
		if (!track_is_used(t) || t->grown + RECENT < a->look)
			continue;
		if (stream_is_noticed(a, t) && (t->way || track_length(t) >= REGION) &&
		    t->grown + 3 >= a->look) {
			v.streams++;
			v.backward += t->way < 0;
			v.proven += track_length(t) >= PROVEN;
		} else if (t->grown == a->look) {
			v.fresh++;
		} else if (track_is_single(a, t)) {
			v.singles++;
		} else if (track_length(t) < PROVEN) {
			v.chunks++;
			v.chunk_pages += track_length(t);
		}
	}
	return v;
}

/*
 * Are the runs long enough for whole regions? If the kernel reads only little ahead, a region
 * gains nothing on a device that costs by the byte, such as zram. If the program waits for its
 * reads, one region costs less than sixteen windows. A run costs about one region more than its
 * own pages, so it must have that length, and memory must suffice.
 */
static bool policy_reads_regions(const struct hm_advisor *a, u64 length)
{
	if (a->facts.small_writes)
		return false;
	return policy_window(a) >= REGION / 4 ||
	       (a->facts.waits && !a->facts.cached && !a->facts.small && policy_fits(a) &&
		length >= REGION);
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
	mode = policy_reads_regions(a, v->chunk_pages / v->chunks) ? HM_MODE_CHUNK : HM_MODE_NORMAL;
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

/* Count the pages that the process has read and used since the first look. */
static void policy_count_use(struct hm_advisor *a, const struct hm_touch *runs, u32 n)
{
	u64 memory = USE_MEMORY * policy_most(policy_window(a), REGION / 4);
	u32 i;

	if (a->look > 1) {
		for (i = 0; i < n; i++)
			a->used_here += runs[i].end - runs[i].start;
		a->read += a->facts.read - a->read_before;
		a->used += a->facts.used - a->used_before;
	} else {
		a->read_first = a->facts.read - a->facts.read_at_start;
	}
	a->read_before = a->facts.read;
	a->used_before = a->facts.used;
	/* One look may report all reads of a long pause, with the use of their pages. */
	while (a->read > memory) {
		a->read /= 2;
		a->used /= 2;
		a->used_here /= 2;
	}
	/* Pages that were cached before are used without a read. Do not count more than reads. */
	a->used = policy_least(a->used, memory);
	a->used_here = policy_least(a->used_here, memory);
}

/*
 * Return whether the program uses pages of this mapping that it has not read: pages of holes, or
 * pages that were cached. Otherwise it cannot use more pages here than the process reads. The kernel
 * may have read two windows for each of @streams before the first look.
 */
static bool policy_uses_unread(const struct hm_advisor *a, u32 streams)
{
	u64 before = policy_least(a->read_first, 2 * policy_window(a) * policy_most(streams, 1));
	u64 used = a->used - policy_least(a->used, before);
	u64 here = a->used_here - policy_least(a->used_here, before);

	return here >= USE_UNREAD && here > a->read && a->read < used / 16;
}

/*
 * Return whether a mapping with accesses that jump keeps the kernel's guess. The kernel reads a
 * mapping that fits into memory at most once, so its guess costs only the pages that the program
 * never uses. Mode RANDOM costs a wait for each page. The accesses also jump if several threads
 * read the columns of a table in order: there the program soon uses most of the pages. Without
 * reads the file is in memory already, or it has holes, and the guess would fill memory with zeroes.
 * The kernel has read up to two windows, or two huge folios, before each of @streams. The program
 * will soon use these pages. They are at most half of all reads: otherwise many streams would excuse
 * any reads beside them.
 */
static bool policy_guess_pays(const struct hm_advisor *a, u32 streams)
{
	u64 soon_used = 2ull * streams * policy_most(policy_window(a), REGION);

	if (!policy_fits(a))
		return false;
	if (a->end - a->first <= SOON_READ)
		return true;
	if (a->facts.writable || !a->facts.read || (!a->read && a->facts.cached))
		return false;
	if (policy_uses_unread(a, streams))
		return false;
	soon_used = policy_least(soon_used, a->read / 2);
	return a->read <= USE_TRIAL * policy_window(a) || 2 * a->read <= 3 * (a->used + soon_used);
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
			track_end_area(a, t);
		if (!policy_by_pages(a->mode)) {
			policy_change_mode(a, HM_MODE_NORMAL);
			return;
		}
	}
	if (a->stride_seen >= STRIDE_SEEN &&
	    (a->mode != HM_MODE_NORMAL || !policy_guess_pays(a, v.streams))) {
		a->pattern = HM_PATTERN_STRIDED;
		policy_change_mode(a, HM_MODE_RANDOM);
		return;
	}
	switch (a->mode) {
	case HM_MODE_NORMAL:
		if (now_ms < a->probe_at)
			break;
		if (policy_guess_pays(a, v.streams)) {
			if (jumps >= 3 && !v.proven)
				a->pattern = HM_PATTERN_RANDOM;
			if (policy_window(a) < REGION / 4 && a->facts.waits && !v.proven)
				policy_decide_chunks(a, &v, now_ms);
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

/*
 * The mode of cached pages changes little, so a mapping without reads keeps its first mode. A
 * program that touches most pages of a cached file between two looks leaves runs as long as those
 * of a stream. New files are written without reads, so their modes must follow the program.
 */
static bool policy_is_settled(const struct hm_advisor *a)
{
	return a->facts.cached && !a->facts.writable && a->mode != HM_MODE_NORMAL;
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
	const struct hm_shared *shared = &a->facts.shared;
	u64 mean = policy_most(a->faults, shared->faults) / (policy_pages(a) / REGION + 1);
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
	policy_count_use(a, runs, n);
	for (i = 0; i < n; i++) {
		assert(runs[i].start < runs[i].end && runs[i].end <= a->end);
		single_count(a, &runs[i], mean);
		if (stride_is_around(a, &runs[i]))
			continue;
		if (stride_goes_on(a, &runs[i]) && a->stride_seen >= STRIDE_SEEN)
			continue;
		if (a->last != runs[i].start)
			stride_misses(a);
		if (track_extend(a, &runs[i]))
			continue;
		if (a->last != runs[i].start)
			stride_begin(a, &runs[i]);
		track_begin(a, &runs[i]);
	}
	/* Tracks that ended long ago count for less and less. */
	if (next && a->look % (4 * RECENT) == 0) {
		a->singles /= 2;
		a->chunks /= 2;
		a->chunk_pages /= 2;
	}
	if (policy_is_settled(a))
		return;
	policy_decide(a, now_ms);
	if (next)
		single_sweep(a);
	stride_ahead(a);
	for (t = a->track; t < a->track + HM_TRACKS; t++)
		if (track_is_used(t) && t->grown == a->look)
			stream_serve(a, t);
}

void hm_advisor_share(const struct hm_advisor *a, u64 now_ms, struct hm_shared *sum)
{
	if (!a->look || a->mode == HM_MODE_HUGE || now_ms - a->look_ms > SHARE_MS)
		return;
	sum->pages += a->end - a->first;
	sum->faults += a->faults;
}

const char *hm_advisor_why(const struct hm_advisor *a)
{
	static const char *const why[] = {
		[HM_PATTERN_UNKNOWN] = "the program accessed too few pages",
		[HM_PATTERN_STREAM] = "the program accesses it in order",
		[HM_PATTERN_STREAMS] = "the program accesses several parts in order",
		[HM_PATTERN_BACKWARD] = "the program accesses it backward",
		[HM_PATTERN_STRIDED] = "the program accesses pages at a fixed distance",
		[HM_PATTERN_CHUNKS] = "the program accesses runs of pages at random places",
		[HM_PATTERN_RANDOM] = "the program accesses single pages at random places",
	};

	return why[a->pattern];
}

const char *hm_advisor_reason(const struct hm_advisor *a)
{
	if (a->mode == HM_MODE_NORMAL && a->facts.small_writes)
		return "the program syncs few pages at a time";
	if (a->mode != HM_MODE_RANDOM)
		return hm_advisor_why(a);
	switch (a->pattern) {
	case HM_PATTERN_STREAM:
	case HM_PATTERN_STREAMS:
	case HM_PATTERN_BACKWARD:
		return "the program no longer accesses it in order";
	case HM_PATTERN_CHUNKS:
		return "they show whether the program still accesses runs of pages";
	default:
		return hm_advisor_why(a);
	}
}
