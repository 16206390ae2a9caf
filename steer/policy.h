/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The policy of steering: find the pattern of accesses to a mapping, and the advice that helps.
 *
 * The caller (steer/) scans the page tables of a mapping at intervals, and reports the pages that
 * were mapped since the last scan. One such report is a *look*. The answers to it are advice for
 * the kernel's page cache. The policy makes no system call and allocates no memory.
 *
 * The first mode is NORMAL, in which the kernel reads ahead by its own guess. In mode RANDOM the
 * looks show most, because the kernel maps each touched page by itself. So when accesses are no
 * longer in order, the policy first changes to RANDOM, and then to the mode that fits the accesses
 * in these looks. docs/design/steering.md explains the rules.
 *
 * Pages are counted from the 2 MB boundary at or below the start of the mapping, so that
 * REGION_PAGES of them, aligned, are a *region*. One thread at a time may use an advisor.
 */
#ifndef HM_ADVICE_H
#define HM_ADVICE_H

#include "types.h"

/* Tracks of a mapping: runs of pages that are followed at the same time. */
#define HM_TRACKS 16u
/* The largest number of pieces of advice that one hm_advisor_look() returns. */
#define HM_ADVICES 128u

/* The pages that a fault reads. */
enum hm_mode {
	HM_MODE_NORMAL, /* as the kernel chooses without advice */
	HM_MODE_RANDOM, /* the page of the fault */
	HM_MODE_HUGE, /* the region of the fault and the next ones */
	HM_MODE_CHUNK, /* the region of the fault */
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
	HM_ADVICE_MODE, /* from now on, faults in the range read according to .mode */
	HM_ADVICE_AHEAD, /* read each .step-th page of the range */
};

struct hm_advice {
	enum hm_advice_kind kind;
	enum hm_mode mode;
	u64 start, end; /* pages */
	s64 step; /* for HM_ADVICE_AHEAD; 1: all pages */
};

/* Pages that are mapped now and were not at the last look. */
struct hm_touch {
	u64 start, end;
};

/* The policy's record of a region. */
struct hm_region {
	u16 touched; /* single pages that were mapped; stops at 0xffff */
	u16 before; /* the value of @touched before the look @look */
	u16 look; /* low bits of the last look that touched the region */
	u16 asked : 1; /* the whole region was requested */
};

/* A run of pages that grows, at one end. */
struct hm_track {
	u64 start, next; /* the range that it has passed */
	u64 pages; /* pages of the range that were touched */
	u64 ahead; /* requested up to here; 0 = nothing */
	u64 area; /* the end of its area, which has another mode than the mapping; 0 = none */
	u64 back; /* the start of the area */
	u64 grown; /* the look in which it grew last; 0 = not used */
	int way; /* 1: upwards; -1: downwards; 0: it has not grown yet */
	u64 kick; /* the start of the region that stream_kick() has changed; 0 = none */
	u32 kicks; /* calls of stream_kick() that changed a region */
};

/**
 * struct hm_shared - the mappings of a process among which its memory is divided
 * @pages: pages of all mappings that the process has accessed at random lately
 * @faults: single pages of them that were touched
 */
struct hm_shared {
	u64 pages, faults;
};

/**
 * struct hm_facts - facts that looks do not show; the caller may change them between looks
 * @memory: pages that can be cached at the same time; 0 = not known
 * @window: the most pages that the kernel reads ahead by its own guess; 0 = not known
 * @read: pages that the process has read from devices so far; 0 = not known
 * @read_at_start: the value of @read shortly before the mapping was made; 0 = not known
 * @used: pages that the process has mapped so far
 * @shared: the sum of hm_advisor_share() over the mappings of the process; 0 = this one is alone
 * @writable: stores are possible
 * @small: the kernel gives this file no huge folios, or reads single pages in mode CHUNK
 * @small_writes: the program syncs small pieces, and each piece makes a whole folio dirty:
 *	with huge folios it would write more
 * @outside: the caller cannot give modes, so the pages ahead of a stream are requested instead
 * @waits: the process waits for most of the time that its reads take
 * @cached: the process has read nothing from a device lately, so no page is requested
 * @crowded: pages that are read push other pages out that are read again, so whole regions are
 *	requested only if they are hot
 */
struct hm_facts {
	u64 memory, window;
	u64 read, read_at_start, used;
	struct hm_shared shared;
	bool writable, small, small_writes, outside, waits, cached, crowded;
};

/**
 * struct hm_advisor - one mapping
 * @first: its first page
 * @end: the page after its last one
 * @facts: see struct hm_facts; the caller sets them
 */
struct hm_advisor {
	u64 first, end;
	struct hm_facts facts;
	enum hm_mode mode; /* of the mapping outside of the areas of tracks */
	enum hm_pattern pattern;
	u64 look;
	u64 look_ms; /* the time of the last look */
	struct hm_region *region;
	struct hm_track track[HM_TRACKS];
	u32 singles, chunks; /* tracks that ended recently */
	u64 chunk_pages;
	u64 probe_at, probe_ms; /* next test of the choice of chunks, and the delay before it */
	u64 faults; /* single pages that were touched */
	u64 read, used; /* lately, by the process: pages read, pages mapped */
	u64 used_here; /* those of @used that belong to this mapping */
	u64 read_before, used_before; /* the values of .facts at the last look */
	u64 read_first; /* pages that may have been read for it before the first look */
	u64 swept; /* all regions up to here were requested */
	u64 last; /* first page of the last new track, or last page of the stride */
	s64 stride, stride_seen; /* distance of its pages, 0 = none; pages seen at that distance */
	u32 stride_missed; /* runs elsewhere since the last page of the stride */
	u64 stride_at, stride_ahead, stride_window;
	u32 count;
	struct hm_advice *advice;
};

/**
 * hm_advisor_init() - prepare an advisor for a mapping
 * @a: the advisor, zeroed except for .facts
 * @first: its first page
 * @end: the page after its last one
 * @region: zeroed memory of the caller, one for each region up to @end
 * @advice: HM_ADVICES of them, for the answers; several advisors may share them
 */
void hm_advisor_init(struct hm_advisor *a, u64 first, u64 end, struct hm_region *region,
		     struct hm_advice *advice);

/**
 * hm_advisor_look() - take the runs mapped since the last look, and answer with advice
 * @a: the advisor; .advice[0] to .advice[.count - 1] are the answers, in order
 * @runs: new runs, ascending
 * @n: number of runs; if 0, nothing happens
 * @now_ms: the time, which never goes back. Calls with the same time are one look
 */
void hm_advisor_look(struct hm_advisor *a, const struct hm_touch *runs, u32 n, u64 now_ms);

/**
 * hm_advisor_share() - add a mapping to the mappings among which memory is divided
 * @a: the advisor
 * @now_ms: the time, as in hm_advisor_look()
 * @sum: the sum so far
 *
 * A mapping that is read in order does not count, because it needs each page only once.
 */
void hm_advisor_share(const struct hm_advisor *a, u64 now_ms, struct hm_shared *sum);

/*
 * The number of pages to request by one call. The kernel would read only its window of a longer
 * piece.
 */
static inline u64 hm_advisor_piece(const struct hm_advisor *a)
{
	u64 window = a->facts.window;

	return window < 32 ? 32 : window < REGION_PAGES ? window : REGION_PAGES;
}

/* Returns the pattern of accesses in a few words. */
const char *hm_advisor_why(const struct hm_advisor *a);
/* Returns the reason for the mode of the mapping, which may have changed before the pattern has. */
const char *hm_advisor_reason(const struct hm_advisor *a);

#endif /* HM_ADVICE_H */
