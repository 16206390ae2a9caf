/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What a mapping is used for, and what would help: the policy of steering.
 *
 * Whoever looks at a mapping now and then (steer/) says which pages have come to be
 * mapped since the last look; the answers are advice for a page cache that somebody
 * else owns. Nothing here knows about system calls, and nothing allocates.
 *
 * The first guess is the kernel's own. RANDOM is the mode in which most can be seen,
 * as each page that is touched is mapped by itself; so it comes first where order ends,
 * and gives way to what is seen then. See ARCHITECTURE.md for the rules.
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
	HM_ADVICE_MODE, /* faults in the range read as .mode says, from now on */
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

/* What is known of a region. */
struct hm_region {
	u16 touched; /* pages that came to be mapped, one by one, saturating */
	u16 before; /* ... before the look in which some came last */
	u16 look; /* which that is, its low bits */
	u16 asked : 1; /* all of it was asked for */
};

/* A run of pages that grows, at one end. */
struct hm_track {
	u64 start, next; /* what it has passed */
	u64 pages; /* seen */
	u64 ahead; /* asked for up to here, or the end of the region that was; 0 = nothing */
	u64 area; /* the end of what is in another mode than the mapping, 0 = none */
	u64 back; /* ... and where that begins */
	u32 grown; /* the look in which it grew last; 0 = not used */
	int way; /* 1, -1; 0 = it has not grown yet */
	u32 kicks; /* tries to make it go on in huge pages */
};

/**
 * struct hm_facts - what pages do not tell; may change from look to look
 * @memory: pages that can be cached at a time, as far as known
 * @window: pages that the kernel reads ahead by itself, at most; 0 = not known
 * @writable: stores are possible
 * @small: huge folios do not come
 * @small_writes: the program syncs small pieces, and each piece makes a whole folio dirty:
 *	with huge folios it would write more
 * @outside: nobody can give modes: what is before a stream is asked for instead
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
	u64 probe_at, probe_ms; /* when what was decided for chunks is put to the test */
	u64 faults; /* pages seen, one by one */
	u64 swept; /* up to here all was asked for */
	u64 last; /* where the last new track began */
	s64 stride, stride_seen; /* from there to the next; 0 = none */
	u32 stride_missed; /* runs since then that were elsewhere */
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
 * hm_advisor_look() - what was mapped since the last look, and what to do
 * @a: the advisor; .advice[0] to .advice[.count - 1] are the answers, in order
 * @runs: new runs, ascending
 * @n: how many; if 0, nothing happens
 * @now_ms: the time; only forward. Calls with the same time are one look
 */
void hm_advisor_look(struct hm_advisor *a, const struct hm_touch *runs, u32 n, u64 now_ms);

/* Pages to ask for by one call: of a longer piece the kernel reads its window only. */
static inline u64 hm_advisor_piece(const struct hm_advisor *a)
{
	u64 window = a->facts.window;

	return window < 32 ? 32 : window < REGION_PAGES ? window : REGION_PAGES;
}

/* What the mode and the tracks say, in a few words. */
const char *hm_advisor_why(const struct hm_advisor *a);

#endif /* HM_ADVICE_H */
