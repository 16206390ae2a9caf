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
 *
 * Where the core chooses what a miss brings in (HM_ACCESS_AUTO), this is what it
 * goes by: streams are counted in base pages. The block in which one is seen is read
 * in base pages, some of which are there, in windows that do not leave it; the next
 * one, and what is read ahead from there on, comes as a whole.
 */
#include "internal.h"

#define FIRST_WINDOW_HUGE (4u * HM_BLOCK_PAGES)
#define FIRST_WINDOW_BASE 32u
/* Many a stream of base pages ends soon; the next block of one that does not comes as a whole. */
#define FIRST_WINDOW_CHOSEN 4u

/* Pages on their way that are worth one more passing of the hand: as many faults of others. */
#define LIFE HM_STREAMS

/* A writer of base pages is left this far behind before write-behind. */
#define BEHIND_LAG_BASE 64u

/* What faults: a unit, or a part of it that is worth one step. */
struct reach {
	u64 first, end;
	u32 step;
	bool whole; /* chosen, and a block */
};

/* Faults at @next, a step before it, or up to what is on its way, go on with it. */
static bool goes_on(const struct hm_stream *s, const struct reach *at)
{
	return at->end >= s->next && (at->first <= s->next || at->first <= s->ahead) &&
	       s->step == at->step;
}

static struct hm_stream *find_stream(struct hm_store *store, const struct reach *at)
{
	struct hm_stream *s = store->stream, *end = s + HM_STREAMS;

	/* Those that are not used have no step. */
	for (; s < end; s++) {
		if (goes_on(s, at))
			return s;
	}
	return NULL;
}

/*
 * Does a miss at a page go on with a stream, forward? Then it is one by that, if not
 * before. (A page that is read again and again does not.)
 */
bool hm_stream_goes_on(struct hm_store *store, u64 pgoff)
{
	const struct reach at = { .first = pgoff, .end = pgoff + 1, .step = 1 };
	bool found = false;
	u32 i;

	hm_spin_lock(&store->stream_lock);
	for (i = 0; i < HM_STREAMS && !found; i++) {
		const struct hm_stream *s = &store->stream[i];

		found = goes_on(s, &at) && pgoff >= s->next &&
			s->seen + 1 >= store->cache->opts.stream_min;
	}
	hm_spin_unlock(&store->stream_lock);
	return found;
}

/* Over the next one that has not gone on since the hand came by. */
static struct hm_stream *start_stream(struct hm_store *store, const struct reach *at)
{
	struct hm_stream *s;

	for (;;) {
		s = &store->stream[store->stream_hand++ % HM_STREAMS];
		if (!s->lives)
			break;
		s->lives--;
	}
	*s = (struct hm_stream){
		.next = at->end,
		.ahead = at->end,
		.behind = at->first,
		.step = at->step,
		.seen = 1,
	};
	if (at->first == 0 && store->cache->opts.stream_min > 2)
		s->seen = 2; /* a start at the start is likely to go on */
	return s;
}

/*
 * Has a stream to make room for itself? There is none left, and its file would take a good
 * part of all.
 */
bool hm_stream_passes(struct hm_store *store)
{
	struct hm_cache *cache = store->cache;
	u64 room = (u64)(cache->opts.free_target + cache->opts.evict_batch) * HM_BLOCK_PAGES;

	return hm_store_npages(store) > hm_pool_frames(cache) * HM_BLOCK_PAGES / 2 &&
	       hm_cache_free_pages(cache) <= room;
}

/*
 * Where units are chosen, a window ends where a block does, or in the block of the
 * last fault.
 */
static u64 whole_blocks(const struct hm_stream *s, u64 end)
{
	return hm_block_of(end) == hm_block_of(s->next - 1) ? end : hm_block_start(end);
}

static void plan_ahead(struct hm_store *store, struct hm_stream *s, const struct reach *at, u32 max,
		       struct hm_plan *plan)
{
	u64 npages = hm_store_npages(store), end;
	bool chosen = hm_is_auto(plan->access);
	u32 first = s->step == 1 ? FIRST_WINDOW_BASE : FIRST_WINDOW_HUGE;

	if (chosen)
		first = at->whole ? FIRST_WINDOW_HUGE : FIRST_WINDOW_CHOSEN;
	plan->start = s->ahead > s->next ? s->ahead : s->next;
	plan->end = plan->start;
	if (plan->start - s->next >= s->window / 2 && s->window)
		return; /* enough is on its way */
	s->window = s->window ? s->window * 2 : first;
	if (at->whole && s->window < first)
		s->window = first;
	if (s->window > max)
		s->window = max;
	s->window -= s->window % s->step;
	end = s->next + s->window;
	if (end > npages)
		end = npages;
	else if (chosen)
		end = whole_blocks(s, end);
	if (end <= plan->start)
		return;
	plan->end = end;
	if (chosen)
		plan->access |= HM_ACCESS_SEQUENTIAL;
	if (chosen && hm_stream_passes(store))
		plan->access |= HM_ACCESS_PASSING;
	plan->mark = plan->end;
	if (plan->end < npages) {
		plan->mark = s->next + s->window / 2 / s->step * s->step;
		if (chosen)
			plan->mark = whole_blocks(s, plan->mark);
		if (plan->mark < plan->start)
			plan->mark = plan->start;
		if (plan->mark > plan->end)
			plan->mark = plan->end;
	}
	s->ahead = plan->end;
}

static void plan_behind(struct hm_stream *s, u64 first, struct hm_plan *plan)
{
	bool chosen = hm_is_auto(plan->access);
	u32 lag = s->step == 1 ? BEHIND_LAG_BASE : 0;
	u32 least = s->step == 1 ? BEHIND_LAG_BASE : s->step;

	/* A block that is half written would be written twice. */
	if (chosen) {
		first = hm_block_start(first);
		lag = 0;
		least = 1;
	}
	if (first < s->behind + lag + least)
		return;
	plan->behind_start = s->behind;
	plan->behind_end = first - lag;
	s->behind = plan->behind_end;
}

static struct reach reach_of(struct hm_store *store, u64 pgoff, u32 access)
{
	struct reach at = { .step = access & HM_ACCESS_BASE ? 1 : HM_BLOCK_PAGES };
	struct hm_unit unit;

	if (hm_is_auto(access)) {
		at.step = 1;
		at.whole = hm_peek(store, pgoff, &unit) != HM_ABSENT && unit.npages > 1;
	}
	at.first = at.step == 1 && !at.whole ? pgoff : hm_block_start(pgoff);
	at.end = at.first + (at.whole ? HM_BLOCK_PAGES : at.step);
	return at;
}

bool hm_readahead(struct hm_store *store, u64 pgoff, u32 access, struct hm_plan *plan)
{
	const struct hm_options *opts = &store->cache->opts;
	u32 kb = access & HM_ACCESS_BASE ? opts->readahead_base_kb : opts->readahead_kb;
	u32 max = (u32)((u64)kb << 10 >> HM_PAGE_SHIFT);
	struct reach at = reach_of(store, pgoff, access);
	struct hm_stream *s;

	*plan = (struct hm_plan){ .access = access & ~(u32)HM_ACCESS_SEQUENTIAL };
	hm_spin_lock(&store->stream_lock);
	s = find_stream(store, &at);
	if (!s) {
		s = start_stream(store, &at);
	} else {
		if (at.end > s->next) {
			s->next = at.end;
			s->seen++;
		}
		/* Where random faults pass, too, the more, the longer until it comes by again. */
		s->lives = 1 + (hm_is_auto(access) ? s->window / LIFE : 0);
	}
	if (access & HM_ACCESS_WRITE)
		s->write = true;
	if (s->write)
		plan->access |= HM_ACCESS_WRITE;
	if (s->seen >= opts->stream_min || (access & HM_ACCESS_SEQUENTIAL)) {
		if (max >= at.step)
			plan_ahead(store, s, &at, max, plan);
		if (s->write)
			plan_behind(s, at.first, plan);
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
