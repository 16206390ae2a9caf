// SPDX-License-Identifier: GPL-2.0-only OR MIT
#include "hint.h"

#include "say.h"

#include <sys/mman.h>

/* A run of at most this many pages is an access to a single place. */
#define HINT_SHORT 32u
/* Fewer pages in order, or fewer single places, prove nothing. */
#define HINT_PAGES 1024u
#define HINT_PLACES 64u
/* Accesses of one kind must outnumber those of the other kind so many times. */
#define HINT_TIMES 3u
/* The program must wait for one in so many single places. The others may be cached. */
#define HINT_CACHED 4u
/* Reads beyond the used pages cost little up to this multiple of these pages. */
#define HINT_READ_TIMES 4u
/* After so many scans the counts are halved, so that the latest accesses count most. */
#define HINT_MEMORY 16u

static bool hint_is_mapped(const unsigned long *seen, u64 page)
{
	return seen[page / (8 * sizeof(*seen))] >> page % (8 * sizeof(*seen)) & 1;
}

void hint_count(struct hint_use *use, const struct hm_touch *runs, u32 n, const unsigned long *seen,
		u64 first)
{
	u32 i;

	for (i = 0; i < n; i++) {
		u64 start = runs[i].start, pages = runs[i].end - start;

		use->mapped += pages;
		use->runs += pages <= REGION_PAGES;
		use->continued += pages <= REGION_PAGES && start > first &&
				  hint_is_mapped(seen, start - 1);
		if (pages <= HINT_SHORT)
			use->short_pages += pages;
		else if (pages <= REGION_PAGES)
			use->medium_pages += pages;
		else
			use->long_pages += pages;
	}
}

static void hint_halve(struct hint_use *use)
{
	use->long_pages /= 2;
	use->medium_pages /= 2;
	use->short_pages /= 2;
	use->runs /= 2;
	use->continued /= 2;
	use->faults /= 2;
	use->read /= 2;
}

void hint_end_pass(struct hint_use *use, const struct hint_counters *now)
{
	u64 faults = now->faults - use->before.faults;
	u64 elsewhere = now->mapped - use->before.mapped - use->mapped;
	u64 read = now->read - use->before.read;

	if (use->passes++) {
		faults -= elsewhere < faults ? elsewhere : faults;
		read -= elsewhere < read ? elsewhere : read;
		use->faults += faults;
		use->total += faults + use->mapped;
		use->read += read;
	} else {
		use->long_pages = use->medium_pages = use->short_pages = 0;
		use->runs = use->continued = 0;
	}
	use->mapped = 0;
	use->before = *now;
	if (use->passes % HINT_MEMORY == 0)
		hint_halve(use);
}

static u64 hint_ordered(const struct hint_use *use)
{
	return use->long_pages + use->medium_pages;
}

/* The program waits for each page of a file that it reads in order. */
static bool hint_random_hurts(const struct hint_use *use)
{
	u64 ordered = hint_ordered(use);

	return ordered >= HINT_PAGES && ordered > HINT_TIMES * use->short_pages &&
	       use->faults >= ordered / 2;
}

/* A slow stream also maps short runs, and each of them continues the one before. */
static bool hint_jumps(const struct hint_use *use)
{
	return use->runs > HINT_TIMES * use->continued;
}

/* Return whether the program reads single places from a device. Some of them may be cached. */
static bool hint_has_places(const struct hint_use *use)
{
	return use->runs >= HINT_PLACES && hint_jumps(use) &&
	       use->faults >= use->runs / HINT_CACHED;
}

/* The kernel reads far more than the program uses. */
static bool hint_sequential_hurts(const struct hint_use *use)
{
	return hint_has_places(use) && use->short_pages > HINT_TIMES * hint_ordered(use) &&
	       use->read > HINT_READ_TIMES * use->short_pages;
}

static bool hint_huge_hurts(const struct hint_use *use)
{
	return hint_has_places(use) &&
	       use->short_pages + use->medium_pages > HINT_TIMES * use->long_pages &&
	       use->read > use->faults * (REGION_PAGES / 2);
}

bool hint_hurts(const struct hint_use *use, int advice, bool fits)
{
	switch (advice) {
	case MADV_RANDOM:
		return hint_random_hurts(use);
	case MADV_SEQUENTIAL:
		return !fits && hint_sequential_hurts(use);
	case MADV_HUGEPAGE:
		return !fits && hint_huge_hurts(use);
	default:
		return false;
	}
}

bool hint_must_report(struct hint_use *use)
{
	if (use->total < 2 * use->reported)
		return false;
	use->reported = use->total;
	return true;
}

const char *hint_name(int advice)
{
	switch (advice) {
	case MADV_RANDOM:
		return "MADV_RANDOM";
	case MADV_SEQUENTIAL:
		return "MADV_SEQUENTIAL";
	case MADV_HUGEPAGE:
		return "MADV_HUGEPAGE";
	default:
		return NULL;
	}
}

static void hint_describe_random(const struct hint_use *use, u64 window, struct say *say)
{
	u64 reads = use->faults < hint_ordered(use) ? use->faults : hint_ordered(use);

	/* Reads at random that fill a range between two scans leave runs, too. */
	if (hint_jumps(use) && use->medium_pages > use->long_pages)
		say_text(say, "the program reads runs of pages, ");
	else
		say_text(say, "the program reads it in order, ");
	say_number(say, reads);
	say_text(say, " reads of 4 KB");
	if (window < 2)
		return;
	say_text(say, "; without it ");
	say_number(say, (reads + window - 1) / window);
	say_text(say, " of ");
	say_number(say, window * 4);
	say_text(say, " KB");
}

void hint_describe(const struct hint_use *use, int advice, u64 window, char *text, size_t size)
{
	struct say say;

	say_into(&say, text, size);
	if (advice == MADV_RANDOM) {
		hint_describe_random(use, window, &say);
		return;
	}
	say_text(&say, "the program reads single places, ");
	say_number(&say, use->read / 256);
	say_text(&say, " MB for ");
	say_number(&say, use->runs);
	say_text(&say, " places");
}
