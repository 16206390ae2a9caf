/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The policy of steering: find the pattern of accesses to a mapping, and the advice that helps.
 *
 * The caller looks at a mapping at intervals (steer/) and reports the pages that were newly
 * mapped since the last look. The answers are advice for the page cache, which belongs to the
 * kernel. The policy makes no system call and allocates no memory.
 *
 * The first mode is NORMAL, which leaves the guess to the kernel. RANDOM is the mode that shows
 * most, because each touched page is mapped by itself. So the policy first changes to RANDOM if
 * the order of accesses ends, and then to the mode that fits the accesses that RANDOM shows. See
 * ARCHITECTURE.md for the rules.
 *
 * Pages are counted from the 2 MB boundary at or below the start of the mapping, so
 * that REGION_PAGES of them, aligned, are a *region*. One caller at a time.
 */
#ifndef HM_ADVICE_H
#define HM_ADVICE_H

#include "types.h"

/* Runs of pages that are followed at a time. */
#define HM_TRACKS 16u
/* Answers to one look, at most. */
#define HM_ADVICES 128u

/* How a fault shall read. */
enum hm_mode {
	HM_MODE_NORMAL, /* as the kernel does without advice */
	HM_MODE_RANDOM, /* this page */
	HM_MODE_HUGE, /* this region and the next ones */
	HM_MODE_CHUNK, /* this region */
	HM_MODES,
};

enum hm_pattern {
	HM_PATTERN_UNKNOWN,
	HM_PATTERN_STREAM,
	HM_PATTERN_STREAMS,
	HM_PATTERN_BACKWARD,
	HM_PATTERN_STRIDED,
	HM_PATTERN_CHUNKS,
	HM_PATTERN_RANDOM,
};

enum hm_advice_kind {
	HM_ADVICE_MODE, /* faults in the range read in the way of .mode, from now on */
	HM_ADVICE_AHEAD, /* .count pages, .step apart, from .start on: read them */
	HM_ADVICE_FILL, /* read the range and map it, in huge pages where they come */
};

struct hm_advice {
	enum hm_advice_kind kind;
	enum hm_mode mode;
	u64 start, end; /* pages */
	s64 step; /* AHEAD */
};

/* Pages that are mapped now and were not at the last look. */
struct hm_touch {
	u64 start, end;
};

/* The policy's record of a region. */
struct hm_region {
	u16 touched; /* pages that came to be mapped, one by one, saturating */
	u16 before; /* ... before the look in which some came last */
	u16 look; /* which that is, its low bits */
	u16 asked : 1; /* all of it was requested */
};

/* A run of pages that grows, at one end. */
struct hm_track {
	u64 start, next; /* the range that it has passed */
	u64 pages; /* seen */
	u64 ahead; /* requested up to here, or the end of the requested region; 0 = nothing */
	u64 area; /* the end of its area, which has another mode than the mapping; 0 = none */
	u64 back; /* ... and the start of the area */
	u32 grown; /* the look in which it grew last; 0 = not used */
	int way; /* 1, -1; 0 = it has not grown yet */
	u32 kicks; /* tries to make it go on in huge pages */
};

/**
 * struct hm_facts - facts that pages do not show; may change from look to look
 * @memory: pages that can be cached at a time, as far as known
 * @window: pages that the kernel reads ahead by itself, at most; 0 = not known
 * @writable: stores are possible
 * @small: huge folios do not come
 * @small_writes: the program syncs small pieces, and each piece makes a whole folio dirty:
 *	with huge folios it would write more
 * @outside: the caller cannot give modes, so the pages before a stream are requested instead
 */
struct hm_facts {
	u64 memory, window;
	bool writable, small, small_writes, outside;
};

/**
 * struct hm_advisor - one mapping
 * @first: its first page
 * @end: the page after its last one
 * @facts: the caller's
 */
struct hm_advisor {
	u64 first, end;
	struct hm_facts facts;
	enum hm_mode mode; /* of all but the areas of tracks */
	enum hm_pattern pattern;
	u32 look;
	u64 look_ms; /* when it was */
	struct hm_region *region;
	struct hm_track track[HM_TRACKS];
	u32 singles, chunks; /* tracks that ended, lately */
	u64 chunk_pages;
	u64 probe_at, probe_ms; /* when the decision for chunks is put to the test */
	u64 faults; /* pages seen, one by one */
	u64 swept; /* all regions up to here were requested */
	u64 last; /* where the last new track began */
	s64 stride, stride_seen; /* from there to the next; 0 = none */
	u32 stride_missed; /* runs elsewhere since the last page of the stride */
	u64 stride_at, stride_ahead, stride_window;
	u32 count;
	struct hm_advice *advice;
};

/**
 * hm_advisor_init() - a mapping that nothing is known of
 * @a: the advisor, all zeros but its facts
 * @first: its first page
 * @end: the page after its last one
 * @region: one for each region up to @end, all zeros; the caller's
 * @advice: HM_ADVICES of them, for the answers; several advisors may share them
 */
void hm_advisor_init(struct hm_advisor *a, u64 first, u64 end, struct hm_region *region,
		     struct hm_advice *advice);

/**
 * hm_advisor_look() - take the runs mapped since the last look, and answer with advice
 * @a: the advisor; .advice[0] to .advice[.count - 1] are the answers, in order
 * @runs: new runs, ascending
 * @n: how many; if 0, nothing happens
 * @now_ms: the time; only forward. Calls with the same time are one look
 */
void hm_advisor_look(struct hm_advisor *a, const struct hm_touch *runs, u32 n, u64 now_ms);

/* Pages to request by one call: the kernel reads no more than its window of a longer piece. */
static inline u64 hm_advisor_piece(const struct hm_advisor *a)
{
	u64 window = a->facts.window;

	return window < 32 ? 32 : window < REGION_PAGES ? window : REGION_PAGES;
}

/* Returns the pattern of accesses in a few words. */
const char *hm_advisor_why(const struct hm_advisor *a);

#endif /* HM_ADVICE_H */
