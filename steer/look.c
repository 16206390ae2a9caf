// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Look at page tables, and compare them with the last look. */
#include "look.h"

#include "policy.h"
#include "call.h"
#include "record.h"
#include "uapi.h"

#define BITS (8 * sizeof(unsigned long))
#define PRESENT_BIT (1ull << 63)

void looker_open(struct looker *looker, int pagemap, void *buffer)
{
	struct pm_scan_arg arg = { .size = sizeof(arg), .start = 0, .end = 0, .vec = 0 };

	*looker = (struct looker){ .fd = pagemap, .buffer = buffer };
	looker->scan = call(SYS_ioctl, pagemap, (long)PAGEMAP_SCAN, (long)&arg, 0, 0, 0) >= 0;
}

static bool look_is_seen(const unsigned long *seen, uint64_t page)
{
	return seen[page / BITS] >> page % BITS & 1;
}

/* Find the first page from @page on whose bit in @seen is @wanted. Return @end if there is none. */
static uint64_t look_next_page(const unsigned long *seen, uint64_t page, uint64_t end, bool wanted)
{
	while (page < end) {
		unsigned long bits = wanted ? seen[page / BITS] : ~seen[page / BITS];

		bits >>= page % BITS;
		if (bits) {
			page += (uint64_t)__builtin_ctzl(bits);
			return page < end ? page : end;
		}
		page += BITS - page % BITS;
	}
	return end;
}

static void look_set_bits(unsigned long *seen, uint64_t page, uint64_t end, bool set)
{
	while (page < end) {
		uint64_t room = BITS - page % BITS, n = end - page < room ? end - page : room;
		unsigned long mask = (n == BITS ? ~0ul : (1ul << n) - 1) << page % BITS;

		if (set)
			seen[page / BITS] |= mask;
		else
			seen[page / BITS] &= ~mask;
		page += n;
	}
}

/* The pages from @from to @upto are not mapped now: clear their bits. */
static void look_mark_absent(unsigned long *seen, uint64_t from, uint64_t upto)
{
	while ((from = look_next_page(seen, from, upto, true)) < upto) {
		uint64_t end = look_next_page(seen, from, upto, false);

		look_set_bits(seen, from, end, false);
		from = end;
	}
}

/*
 * The pages from @page to @end are mapped now. Add those whose bits are not set yet to @runs, and
 * set their bits. Return false if @runs has no room.
 */
static bool look_mark_present(unsigned long *seen, uint64_t page, uint64_t end,
			      struct hm_touch *runs, uint32_t *n)
{
	while ((page = look_next_page(seen, page, end, false)) < end) {
		uint64_t stop = look_next_page(seen, page, end, true);

		if (*n && runs[*n - 1].end == page) {
			runs[*n - 1].end = stop;
		} else {
			if (*n == LOOK_RUNS)
				return false;
			runs[(*n)++] = (struct hm_touch){ page, stop };
		}
		look_set_bits(seen, page, stop, true);
		page = stop;
	}
	return true;
}

static uint64_t look_scan(const struct looker *looker, uint64_t start, uint64_t end, uint64_t base,
			  unsigned long *seen, struct hm_touch *runs, uint32_t *n, uint64_t *huge)
{
	struct page_region *vec = looker->buffer;
	struct pm_scan_arg arg = {
		.size = sizeof(arg),
		.end = end,
		.vec = (uint64_t)(uintptr_t)vec,
		.vec_len = LOOK_BYTES / sizeof(*vec),
		.category_mask = PAGE_IS_PRESENT,
		.return_mask = PAGE_IS_PRESENT | PAGE_IS_HUGE,
	};
	long i, got;

	while (start < end) {
		arg.start = start;
		got = call(SYS_ioctl, looker->fd, (long)PAGEMAP_SCAN, (long)&arg, 0, 0, 0);
		record_result(got);
		if (got < 0)
			return 0;
		for (i = 0; i < got; i++) {
			uint64_t first = (vec[i].start - base) / PAGE_BYTES;
			uint64_t last = (vec[i].end - base) / PAGE_BYTES;

			look_mark_absent(seen, (start - base) / PAGE_BYTES, first);
			if (!look_mark_present(seen, first, last, runs, n))
				return vec[i].start;
			if (vec[i].categories & PAGE_IS_HUGE)
				*huge += vec[i].end - vec[i].start;
			start = vec[i].end;
		}
		if (arg.walk_end <= start && !got)
			return 0;
		look_mark_absent(seen, (start - base) / PAGE_BYTES,
				 (arg.walk_end - base) / PAGE_BYTES);
		start = arg.walk_end > start ? arg.walk_end : start;
	}
	return end;
}

static uint64_t look_read(const struct looker *looker, uint64_t start, uint64_t end, uint64_t base,
			  unsigned long *seen, struct hm_touch *runs, uint32_t *n)
{
	const uint64_t *entry = looker->buffer;
	long i, got;

	while (start < end) {
		uint64_t pages = (end - start) / PAGE_BYTES;

		if (pages > LOOK_BYTES / sizeof(*entry))
			pages = LOOK_BYTES / sizeof(*entry);
		got = call(SYS_pread64, looker->fd, (long)entry, (long)(pages * sizeof(*entry)),
			   (long)(start / PAGE_BYTES * sizeof(*entry)), 0, 0);
		record_result(got);
		got /= (long)sizeof(*entry);
		if (got <= 0)
			return 0;
		for (i = 0; i < got; i++, start += PAGE_BYTES) {
			uint64_t page = (start - base) / PAGE_BYTES;

			if (!(entry[i] & PRESENT_BIT)) {
				if (look_is_seen(seen, page))
					look_set_bits(seen, page, page + 1, false);
			} else if (!look_mark_present(seen, page, page + 1, runs, n)) {
				return start;
			}
		}
	}
	return end;
}

uint64_t look(const struct looker *looker, uint64_t start, uint64_t end, uint64_t base,
	      unsigned long *seen, struct hm_touch *runs, uint32_t *n, uint64_t *huge)
{
	if (looker->scan)
		return look_scan(looker, start, end, base, seen, runs, n, huge);
	return look_read(looker, start, end, base, seen, runs, n);
}

/*
 * Compute the window before a stream: the rest of the pages that the policy has requested before
 * it, and some more pages. Return false if the stream has ended or the window is empty.
 */
static bool look_window(const struct hm_advisor *a, const struct hm_track *t, struct hm_touch *w)
{
	const uint64_t room = 16 * REGION_PAGES;

	if (!t->grown || !t->way || t->grown + 3 < a->look)
		return false;
	if (t->way > 0) {
		w->start = t->next;
		w->end = (t->ahead > t->next ? t->ahead : t->next) + room;
	} else {
		w->end = t->start;
		w->start = t->ahead && t->ahead < t->start ? t->ahead : t->start;
		w->start = w->start > room ? w->start - room : 0;
	}
	w->start = w->start < a->first ? a->first : w->start;
	w->end = w->end > a->end ? a->end : w->end;
	return w->start < w->end;
}

uint32_t look_windows(const struct hm_advisor *a, struct hm_touch *window)
{
	uint32_t count = 0, n = 0, i, at;
	struct hm_touch one;
	uint64_t from = 0;

	for (i = 0; i < HM_TRACKS; i++) {
		if (!look_window(a, &a->track[i], &one))
			continue;
		/* Insert the window in ascending order, as the policy expects of runs. */
		for (at = count++; at && window[at - 1].start > one.start; at--)
			window[at] = window[at - 1];
		window[at] = one;
	}
	for (i = 0; i < count; i++) {
		one = window[i];
		one.start = one.start > from ? one.start : from;
		if (one.start >= one.end)
			continue;
		from = one.end;
		window[n++] = one;
	}
	return n;
}
