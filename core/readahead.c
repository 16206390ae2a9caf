// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Read-ahead and write-behind: streams are recognised by their faults.
 *
 * A stream is a run of faults, each at or shortly after the end of the last
 * one. After opts.stream_min of them (one fewer at the start of the store),
 * a window is brought in ahead of it, and doubled each time the stream gets
 * to the marker, which lies half a window before the end: so that the next
 * half is asked for while the other one is being used, and a stream never
 * waits. What a writing stream leaves behind is written while it writes.
 *
 * Random access matches no stream and costs nothing but this look.
 */
#include "internal.h"

#define FIRST_WINDOW_HUGE (4u * HM_BLOCK_PAGES)
#define FIRST_WINDOW_BASE 32u

/* A writer of base pages is left this far behind before write-behind. */
#define BEHIND_LAG_BASE 64u

/* Faults at @next, a step before it, or up to what is on its way, go on with it. */
static bool goes_on(const struct hm_stream *s, u64 first, u32 step)
{
	return first + step >= s->next && (first <= s->next || first <= s->ahead) &&
	       s->step == step;
}

static struct hm_stream *find_stream(struct hm_store *store, u64 first, u32 step)
{
	struct hm_stream *s = store->stream, *end = s + HM_STREAMS;

	/* Those that are not used have no step. */
	for (; s < end; s++) {
		if (goes_on(s, first, step)) {
			s->used = true;
			return s;
		}
	}
	return NULL;
}

/* Over the next one that has not gone on since the hand came by. */
static struct hm_stream *start_stream(struct hm_store *store, u64 first, u32 step)
{
	struct hm_stream *s;

	for (;;) {
		s = &store->stream[store->stream_hand++ % HM_STREAMS];
		if (!s->used)
			break;
		s->used = false;
	}
	*s = (struct hm_stream){
		.next = first + step,
		.ahead = first + step,
		.behind = first,
		.step = step,
		.seen = 1,
	};
	if (first == 0 && store->cache->opts.stream_min > 2)
		s->seen = 2; /* a start at the start is likely to go on */
	return s;
}

static void plan_ahead(struct hm_store *store, struct hm_stream *s, u32 max, struct hm_plan *plan)
{
	u64 npages = hm_store_npages(store), end;
	u32 first = s->step == 1 ? FIRST_WINDOW_BASE : FIRST_WINDOW_HUGE;

	plan->start = s->ahead > s->next ? s->ahead : s->next;
	plan->end = plan->start;
	if (plan->start - s->next >= s->window / 2 && s->window)
		return; /* enough is on its way */
	s->window = s->window ? s->window * 2 : first;
	if (s->window > max)
		s->window = max;
	s->window -= s->window % s->step;
	end = s->next + s->window < npages ? s->next + s->window : npages;
	if (end <= plan->start)
		return;
	plan->end = end;
	plan->mark = plan->end;
	if (plan->end < npages) {
		plan->mark = s->next + s->window / 2 / s->step * s->step;
		if (plan->mark < plan->start)
			plan->mark = plan->start;
	}
	s->ahead = plan->end;
}

static void plan_behind(struct hm_stream *s, u64 first, struct hm_plan *plan)
{
	u32 lag = s->step == 1 ? BEHIND_LAG_BASE : 0;
	u32 least = s->step == 1 ? BEHIND_LAG_BASE : s->step;

	if (first < s->behind + lag + least)
		return;
	plan->behind_start = s->behind;
	plan->behind_end = first - lag;
	s->behind = plan->behind_end;
}

bool hm_readahead(struct hm_store *store, u64 pgoff, u32 access, struct hm_plan *plan)
{
	const struct hm_options *opts = &store->cache->opts;
	u32 step = access & HM_ACCESS_BASE ? 1 : HM_BLOCK_PAGES;
	u32 kb = step == 1 ? opts->readahead_base_kb : opts->readahead_kb;
	u32 max = (u32)((u64)kb << 10 >> HM_PAGE_SHIFT);
	u64 first = pgoff - pgoff % step;
	struct hm_stream *s;

	*plan = (struct hm_plan){ .access = access & ~(u32)HM_ACCESS_SEQUENTIAL };
	hm_spin_lock(&store->stream_lock);
	s = find_stream(store, first, step);
	if (!s) {
		s = start_stream(store, first, step);
	} else if (first >= s->next) {
		s->next = first + step;
		s->seen++;
	}
	if (access & HM_ACCESS_WRITE)
		s->write = true;
	if (s->write)
		plan->access |= HM_ACCESS_WRITE;
	if (s->seen >= opts->stream_min || (access & HM_ACCESS_SEQUENTIAL)) {
		if (max >= step)
			plan_ahead(store, s, max, plan);
		if (s->write)
			plan_behind(s, first, plan);
	}
	hm_spin_unlock(&store->stream_lock);
	return plan->end > plan->start || plan->behind_end > plan->behind_start;
}

void hm_readahead_stopped(struct hm_store *store, const struct hm_plan *plan, u64 pgoff)
{
	u32 i;

	hm_spin_lock(&store->stream_lock);
	for (i = 0; i < HM_STREAMS; i++) {
		struct hm_stream *s = &store->stream[i];

		if (s->seen && s->ahead == plan->end && pgoff < s->ahead)
			s->ahead = pgoff > s->next ? pgoff : s->next;
	}
	hm_spin_unlock(&store->stream_lock);
}
