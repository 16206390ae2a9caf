// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Hot pages of mappings in mode RANDOM.
 *
 * Since Linux 6.3, reclaim ignores the accessed bits of a mapping with MADV_RANDOM
 * (vma_has_recency()). So it evicts the pages of such a mapping nearly in the order in which they
 * were read, and a program whose hot pages almost fill the memory reads each of them again and
 * again.
 *
 * The monitor cannot see accessed bits. But it can see that a page was mapped, then was not, and is
 * mapped again soon afterwards: such a page is hot. MADV_POPULATE_READ of a mapped page does no
 * I/O, and calls folio_mark_accessed(). The second of these calls moves the folio to the active
 * list. (If lru_gen is enabled, the calls count as references of the folio.)
 *
 * A round goes through all mappings in mode RANDOM, region by region. It marks the hot pages as
 * accessed if an earlier round has shown lately that this pays, and records in @before which pages
 * are mapped. If a look finds a page newly mapped that has its bit in @before, the page was
 * unmapped since the last round, and the program has used it again.
 */
#include "hot.h"

#include "act.h"
#include "call.h"
#include "part.h"

#include <string.h>

/*
 * A round begins when the process has read a sixteenth of its memory. A page needs two marks, so
 * hot pages that fill 7/8 of the memory leave room for so many others before reclaim reaches them.
 */
#define HOT_ROUNDS 16u
/* A page that is not hot any more must not stay: each round forgets one word of bits in 64. */
#define HOT_FORGET 64u
/*
 * Rounds may take 1/HOT_SHARE of the time. The credit stops at HOT_CREDIT_NS, and the debt at
 * HOT_DEBT_NS.
 */
#define HOT_SHARE 20
#define HOT_CREDIT_NS ((s64)10000000)
#define HOT_DEBT_NS (20 * HOT_CREDIT_NS)
/* Regions without hot pages that a round passes before the time is charged. */
#define HOT_STEP 1024u
/* Looks may take HOT_LOOKS times as long while they find hot pages: see hot_is_worth(). */
#define HOT_LOOKS 5u
#define HOT_WORTH_NS 10000000000ull

#define HOT_BITS 64u
#define HOT_WORDS (REGION_PAGES / HOT_BITS)

_Static_assert(sizeof(unsigned long) * 8 == HOT_BITS, "a word has the bits of 64 pages");

static struct {
	bool begun; /* @read is valid */
	bool active;
	bool pays; /* it marks the hot pages */
	u32 number;
	u32 index; /* mapping at which it continues */
	u64 region; /* region at which it continues there */
	u64 read; /* pages that the process had read when it began */
	u64 found; /* pages that were found to be hot since it began */
	u64 pages; /* of the mappings that it has passed */
} hot_round;

static bool hot_works; /* the kernel can mark pages; otherwise there are no rounds */
static s64 hot_credit;
static u64 hot_last; /* time of the last call of hot_refresh() */
static u64 hot_read; /* pages that the program has read so far */
static u64 hot_fresh; /* pages that are read while a bit in @before is evidence */
static u64 hot_worth_at; /* time at which looks paid last; 0 = never */

void hot_begin(void)
{
	hot_works = act_can_mark();
	memset(&hot_round, 0, sizeof(hot_round));
	hot_credit = 0;
	hot_last = now_ns();
	hot_worth_at = 0;
}

u32 hot_looks(u64 now)
{
	return hot_worth_at && now - hot_worth_at < HOT_WORTH_NS ? HOT_LOOKS : 1;
}

/* Return whether reclaim evicts pages of this mapping regardless of their accessed bits. */
static bool hot_applies(const struct map *map)
{
	return map->advisor.mode == HM_MODE_RANDOM && !map->suspended && !map->orphan &&
	       !map->moving && !map_is_hinted(map) && !policy_fits(&map->advisor);
}

void hot_found(struct map *map, const struct hm_touch *runs, u32 n)
{
	const struct hm_touch *run;
	u64 page;

	if (!map->hot_used || !hot_applies(map) || hot_read - map->hot_passed > hot_fresh)
		return;
	for (run = runs; run < runs + n; run++) {
		for (page = run->start; page < run->end; page++) {
			unsigned long bit = 1ul << page % HOT_BITS;

			if (map->before[page / HOT_BITS] & bit) {
				map->hot[page / HOT_BITS] |= bit;
				hot_round.found++;
			}
		}
	}
}

/* The bits of the pages of a word that belong to the mapping. */
static unsigned long hot_mask(const struct map *map, u64 word)
{
	u64 page = word * HOT_BITS, first = map->advisor.first, end = map->advisor.end;
	unsigned long mask = ~0ul;

	if (page + HOT_BITS <= first || page >= end)
		return 0;
	if (page < first)
		mask &= ~0ul << (first - page);
	if (page + HOT_BITS > end)
		mask &= ~0ul >> (page + HOT_BITS - end);
	return mask;
}

/* Mark the hot pages of a word that are mapped. Return false if the monitor must not read now. */
static bool hot_mark(const struct map *map, u64 word)
{
	unsigned long left = map->hot[word] & map->seen[word] & hot_mask(map, word), run;
	u64 page = word * HOT_BITS;
	u32 first, n;

	while (left) {
		first = (u32)__builtin_ctzl(left);
		run = ~(left >> first);
		n = run ? (u32)__builtin_ctzl(run) : HOT_BITS;
		if (!act_mark_accessed(map, page + first, page + first + n))
			return false;
		left &= first + n == HOT_BITS ? 0 : ~0ul << (first + n);
	}
	return true;
}

/* The word after the last one of a region. The bitmaps end with the mapping. */
static u64 hot_words_end(const struct map *map, u64 region)
{
	return policy_least((region + 1) * HOT_WORDS, (map->advisor.end + HOT_BITS - 1) / HOT_BITS);
}

static bool hot_has_pages(const struct map *map, u64 region)
{
	unsigned long bits = 0;
	u64 word;

	for (word = region * HOT_WORDS; word < hot_words_end(map, region); word++)
		bits |= map->hot[word] & hot_mask(map, word);
	return bits;
}

/* Return false if the round must stop in this region. */
static bool hot_pass_region(struct map *map, u64 region,
			    void (*look)(struct map *map, u64 start, u64 end))
{
	u64 start = region * REGION, word;
	bool hot = hot_has_pages(map, region), marks = hot && hot_round.pays;

	/* A page that was evicted since the last look would be read, so look again. */
	if (marks) {
		look(map, policy_most(start, map->advisor.first),
		     policy_least(start + REGION, map->advisor.end));
		if (!hot_applies(map))
			return false;
	}
	for (word = region * HOT_WORDS; word < hot_words_end(map, region); word++) {
		unsigned long seen = map->seen[word] & hot_mask(map, word);

		if (hot && word % HOT_FORGET == hot_round.number % HOT_FORGET)
			map->hot[word] = 0;
		if (marks && !hot_mark(map, word))
			return false;
		/* A store would allocate memory for this part of the bitmap. */
		if (map->before[word] != seen)
			map->before[word] = seen;
	}
	return true;
}

/* Continue the round in a mapping. Return false if it must stop for now. */
static bool hot_pass(struct map *map, void (*look)(struct map *map, u64 start, u64 end))
{
	u64 regions = (map->advisor.end + REGION - 1) / REGION;
	u64 begin = now_ns(), cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID), used;
	u64 before_ns = act_ns, before_cpu_ns = act_cpu_ns;
	bool goes_on = true;
	u32 passed = 0;

	map->hot_used = true;
	while (goes_on && hot_round.region < regions && passed < HOT_STEP) {
		if (map->advisor.region[hot_round.region].touched) {
			passed += hot_has_pages(map, hot_round.region) ? HOT_STEP / 8 : 1;
			goes_on = hot_pass_region(map, hot_round.region, look);
		} else {
			passed++;
		}
		hot_round.region += goes_on;
	}
	used = now_ns() - begin;
	hot_credit -= (s64)used;
	/* The process may have been stopped for an hour. */
	if (hot_credit < -HOT_DEBT_NS)
		hot_credit = -HOT_DEBT_NS;
	/* The advice that the looks led to is a part of this time. */
	act_ns = before_ns + used;
	act_cpu_ns = before_cpu_ns + clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
	if (!goes_on || hot_round.region < regions)
		return goes_on;
	map->hot_passed = hot_read;
	hot_round.pages += map->advisor.end - map->advisor.first;
	hot_round.region = 0;
	hot_round.index++;
	return true;
}

/*
 * Return whether some pages are used more often than others. If the program used all pages of its
 * mappings equally often, a page that was evicted during the last round would have been read again
 * since with a probability of about @read / (pages that are not cached) / 2.
 */
static bool hot_is_worth(u64 read, u64 memory)
{
	u64 pages = hot_round.pages;

	return pages > memory && hot_round.found * (pages - memory) > read * read;
}

/* Begin a round if the program has read enough since the last one. */
static bool hot_may_begin(u64 now, u64 memory)
{
	u64 read = hot_read - hot_round.read;

	if (!hot_round.begun) {
		hot_round.begun = true;
		hot_round.read = hot_read;
		return false;
	}
	if (!memory || read < memory / HOT_ROUNDS)
		return false;
	if (hot_is_worth(read, memory))
		hot_worth_at = now;
	hot_round.pays = hot_looks(now) > 1;
	hot_round.found = 0;
	hot_round.pages = 0;
	hot_round.read = hot_read;
	hot_round.number++;
	hot_round.index = 0;
	hot_round.region = 0;
	hot_round.active = true;
	return true;
}

void hot_refresh(u64 now, u64 read, u64 memory, void (*look)(struct map *map, u64 start, u64 end))
{
	struct map *map;

	if (!hot_works)
		return;
	hot_credit += (s64)((now - hot_last) / HOT_SHARE);
	if (hot_credit > HOT_CREDIT_NS)
		hot_credit = HOT_CREDIT_NS;
	hot_last = now;
	hot_read = read;
	hot_fresh = 2 * memory / HOT_ROUNDS;
	if (!hot_round.active && !hot_may_begin(now, memory))
		return;
	while (hot_credit > 0 && act_may_read()) {
		map = map_next(hot_round.index);
		if (!map) {
			hot_round.active = false;
			return;
		}
		if (map->index != hot_round.index || !hot_applies(map))
			hot_round.region = 0;
		hot_round.index = map->index;
		if (!hot_applies(map))
			hot_round.index++;
		else if (!hot_pass(map, look))
			return;
	}
}
