// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "attach_state.h"

#include "hint.h"

#include <sys/mman.h>

/* A process with fewer faults that wait, in all and a second, hardly waits for a device. */
#define USAGE_WAITS 100u
#define USAGE_WAITS_PER_S 10.0

const char *watched_pattern_name(enum hm_pattern pattern)
{
	static const char *const names[] = {
		[HM_PATTERN_UNKNOWN] = "not clear", [HM_PATTERN_STREAM] = "stream",
		[HM_PATTERN_STREAMS] = "streams",   [HM_PATTERN_BACKWARD] = "backward",
		[HM_PATTERN_STRIDED] = "strided",   [HM_PATTERN_CHUNKS] = "chunks",
		[HM_PATTERN_RANDOM] = "random",
	};

	return names[pattern];
}

enum hm_pattern watched_pattern(const struct watched *map)
{
	enum hm_pattern most = HM_PATTERN_UNKNOWN, pattern;

	for (pattern = HM_PATTERN_STREAM; pattern <= HM_PATTERN_RANDOM; pattern++)
		if (map->scans[pattern] > (most ? map->scans[most] : 0))
			most = pattern;
	return most;
}

/*
 * The pattern shows which kind of accesses the new pages belong to. The runs of pages do not: this
 * command scans so often that an access in order appears as many short runs.
 */
static struct hint_use watched_hint_use(const struct attach *attach, const struct watched *map)
{
	struct hint_use use = {
		.faults = attach->now.major - attach->begin.major,
		.read = (attach->now.read_bytes - attach->begin.read_bytes) / PAGE_BYTES,
	};

	switch (watched_pattern(map)) {
	case HM_PATTERN_STREAM:
	case HM_PATTERN_STREAMS:
	case HM_PATTERN_BACKWARD:
		use.long_pages = map->touched;
		break;
	case HM_PATTERN_RANDOM:
	case HM_PATTERN_CHUNKS:
		use.short_pages = map->touched;
		/* Each place maps a region under MADV_HUGEPAGE, and some pages otherwise. */
		use.runs = map->area.hints & HINT_HUGE ? map->touched / REGION_PAGES : map->touched;
		break;
	default:
		break;
	}
	return use;
}

const char *watched_hint_cost(const struct attach *attach, const struct watched *map, char *text,
			      size_t size)
{
	static const struct {
		unsigned int hint;
		int advice;
	} hints[] = {
		{ HINT_RANDOM, MADV_RANDOM },
		{ HINT_SEQUENTIAL, MADV_SEQUENTIAL },
		{ HINT_HUGE, MADV_HUGEPAGE },
	};
	struct hint_use use = watched_hint_use(attach, map);
	bool fits = hint_fits(watched_bytes(map), attach->memory);
	size_t i;

	/* The monitor of `hugemap run` may have given the advice. */
	if (attach->steered)
		return NULL;
	for (i = 0; i < sizeof(hints) / sizeof(hints[0]); i++) {
		if (!(map->area.hints & hints[i].hint) || !hint_hurts(&use, hints[i].advice, fits))
			continue;
		hint_describe(&use, hints[i].advice, map->advisor.facts.window, text, size);
		return hint_name(hints[i].advice);
	}
	return NULL;
}

/* The number of bits from bit @from on, below bit @to. */
static uint64_t watched_count(const unsigned long *bits, uint64_t from, uint64_t to)
{
	uint64_t n = 0, word, end;

	for (; from < to; from = end) {
		end = (from / 64 + 1) * 64 < to ? (from / 64 + 1) * 64 : to;
		word = bits[from / 64] >> from % 64;
		if (end - from < 64)
			word &= (1ull << (end - from)) - 1;
		n += (uint64_t)__builtin_popcountl(word);
	}
	return n;
}

uint64_t watched_resident(const struct watched *map, uint64_t column[PICTURE_COLUMNS])
{
	uint64_t pages = map->picture.pages, first = map->advisor.first, n = 0;
	unsigned int i;

	for (i = 0; i < PICTURE_COLUMNS; i++) {
		column[i] = map->seen ?
				    watched_count(map->seen, first + picture_first_page(pages, i),
						  first + picture_first_page(pages, i + 1)) :
				    0;
		n += column[i];
	}
	return n;
}

bool usage_waits(const struct usage *from, const struct usage *to)
{
	uint64_t major = to->major - from->major;

	return major >= USAGE_WAITS || (double)major >= USAGE_WAITS_PER_S * (to->at - from->at);
}

bool usage_reads(const struct usage *from, const struct usage *to)
{
	uint64_t touched = (to->touched - from->touched) * PAGE_BYTES;

	return touched && to->read_bytes - from->read_bytes >= touched / 4;
}
