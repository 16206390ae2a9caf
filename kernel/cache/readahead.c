// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Read-ahead and write-behind: what a stream needs next.
 *
 * After opts.stream_min faults in sequence (one fewer at the start of the file) a window is
 * brought in ahead of the stream. The window doubles each time the stream reaches the marker,
 * which lies half a window before the end. So the second half is read while the stream uses
 * the first one, and the stream never waits. Write-behind writes the pages that a writing
 * stream has left.
 *
 * With HM_SIZE_AUTO the block in which a stream is recognised is read in base pages, because
 * some of them are cached, in windows that end with the block. The next block, and those that
 * are read ahead from there on, come as huge units.
 */
#include "cache.h"
#include "file.h"
#include "index.h"
#include "pool.h"
#include "readahead.h"
#include "stream.h"

#define FIRST_WINDOW_HUGE (4u * HM_BLOCK_PAGES)
#define FIRST_WINDOW_BASE 32u
/* Many a stream of base pages ends soon; the next block of one that does not comes as a whole. */
#define FIRST_WINDOW_CHOSEN 4u

/*
 * After so many faults of a CPU that go on with none, a stream has to have gone on itself.
 * Odd: of two files that are read in turn, it is not always the same one that is asked.
 */
#define PASS_FAULTS 17u

/* Pages on their way that are worth one more passing of the hand: as many faults of others. */
#define LIFE HM_STREAMS

/* A writer of base pages is left this far behind before write-behind. */
#define BEHIND_LAG_BASE 64u

/*
 * Has it shown that it is? In a file that is, there are short ones, too, and what they bring in is
 * like anything else: of a tree, perhaps, of which pages in a row are used again and again.
 */
static bool hm_readahead_is_large(const struct hm_file *file, const struct hm_stream *s)
{
	return s->next - s->first >= hm_pool_frames(file->cache) * HM_BLOCK_PAGES / 4;
}

/*
 * Where units are chosen, a window ends where a block does, or in the block of the
 * last fault.
 */
static u64 hm_readahead_whole_blocks(const struct hm_stream *s, u64 end)
{
	return hm_block_of(end) == hm_block_of(s->next - 1) ? end : hm_block_start(end);
}

static void hm_readahead_plan_ahead(struct hm_file *file, struct hm_stream *s,
				    const struct hm_reach *at, u32 max, struct hm_plan *plan)
{
	u64 npages = hm_file_npages(file), end;
	bool chosen = at->chosen;
	u32 first = s->step == 1 ? FIRST_WINDOW_BASE : FIRST_WINDOW_HUGE;

	if (chosen)
		first = at->whole ? FIRST_WINDOW_HUGE : FIRST_WINDOW_CHOSEN;
	plan->start = s->ahead > s->next ? s->ahead : s->next;
	plan->end = plan->start;
	if (plan->start - s->next >= s->window / 2 && s->window)
		return; /* enough is on its way */
	s->window = s->window ? s->window * 2 : first;
	/* It was promoted early, perhaps, and nothing beyond it is wanted. */
	if (at->whole && s->window < first && (s->first > 1 || hm_block_of(at->first)))
		s->window = first;
	if (s->window > max)
		s->window = max;
	s->window -= s->window % s->step;
	end = s->next + s->window;
	if (end > npages)
		end = npages;
	else if (chosen)
		end = hm_readahead_whole_blocks(s, end);
	if (end <= plan->start)
		return;
	plan->end = end;
	if (chosen)
		plan->access.order = HM_ORDER_SEQUENTIAL;
	/* In its first block: those after it come as a whole. */
	if (chosen && (!s->write || hm_stream_is_from_start(s)) && !at->whole &&
	    hm_stream_is_long(s) && s->window <= HM_BLOCK_PAGES && max >= HM_STREAM_LONG_WINDOW)
		plan->access.stream = true;
	if (chosen && hm_readahead_is_large(file, s) && hm_stream_is_use_once(file))
		plan->access.use_once = true;
	plan->mark = plan->end;
	if (plan->end < npages) {
		plan->mark = s->next + s->window / 2 / s->step * s->step;
		if (chosen)
			plan->mark = hm_readahead_whole_blocks(s, plan->mark);
		if (plan->mark < plan->start)
			plan->mark = plan->start;
		if (plan->mark > plan->end)
			plan->mark = plan->end;
	}
	s->ahead = plan->end;
}

static void hm_readahead_plan_behind(struct hm_stream *s, const struct hm_reach *at,
				     struct hm_plan *plan)
{
	u64 first = at->first;
	u32 lag = s->step == 1 ? BEHIND_LAG_BASE : 0;
	u32 least = s->step == 1 ? BEHIND_LAG_BASE : s->step;

	/* A block that is half written would be written twice. */
	if (at->chosen) {
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

static struct hm_reach hm_readahead_reach_of(struct hm_file *file, u64 pgoff,
					     struct hm_access access)
{
	struct hm_reach at = {
		.step = hm_access_is_base(access) ? 1 : HM_BLOCK_PAGES,
		.into = (u32)(pgoff - hm_block_start(pgoff)),
		.chosen = access.size == HM_SIZE_AUTO,
	};
	struct hm_unit unit;

	if (at.chosen) {
		at.step = 1;
		at.whole = hm_peek(file, pgoff, &unit) != HM_ABSENT && unit.npages > 1;
	}
	at.first = at.step == 1 && !at.whole ? pgoff : hm_block_start(pgoff);
	at.end = at.first + (at.whole ? HM_BLOCK_PAGES : at.step);
	return at;
}

bool hm_readahead(struct hm_file *file, u64 pgoff, struct hm_access access, struct hm_plan *plan)
{
	const struct hm_options *opts = &file->cache->opts;
	u32 kb = hm_access_is_base(access) ? opts->readahead_base_kb : opts->readahead_kb;
	u32 max = (u32)((u64)kb << 10 >> HM_PAGE_SHIFT);
	struct hm_reach at = hm_readahead_reach_of(file, pgoff, access);
	struct hm_stream *s;
	bool second = false;

	/* Not as one: compilers clear it with a string instruction. */
	plan->start = 0;
	plan->end = 0;
	plan->mark = 0;
	plan->behind_start = 0;
	plan->behind_end = 0;
	plan->access = access;
	if (access.order == HM_ORDER_SEQUENTIAL)
		plan->access.order = HM_ORDER_LEARN;
	plan->access.cached_only = false;
	if (!hm_stream_may_continue(file, &at)) {
		second = hm_stream_noted(file, &at);
		if (!second && opts->stream_min > 1 && access.order != HM_ORDER_SEQUENTIAL) {
			if (hm_stream_take_note(file, &at) % PASS_FAULTS == 0)
				hm_stream_pass_all(file);
			return false;
		}
	}
	hm_spin_lock(&file->stream_lock);
	s = hm_stream_find(file, &at);
	if (!s) {
		s = hm_stream_start(file, &at, second);
		hm_stream_begin_or_end(file, s);
	} else {
		if (at.end > s->next) {
			s->next = at.end;
			s->seen++;
		}
		/* Where random faults pass, too, the more, the longer until it comes by again. */
		s->lives = 1 + (at.chosen ? s->window / LIFE : 0);
	}
	if (access.write)
		s->write = true;
	if (s->write)
		plan->access.write = true;
	if (s->seen >= opts->stream_min || access.order == HM_ORDER_SEQUENTIAL) {
		if (max >= at.step)
			hm_readahead_plan_ahead(file, s, &at, max, plan);
		if (s->write)
			hm_readahead_plan_behind(s, &at, plan);
	}
	hm_stream_publish_span(file, s);
	hm_spin_unlock(&file->stream_lock);
	return plan->end > plan->start || plan->behind_end > plan->behind_start;
}

void hm_readahead_stopped(struct hm_file *file, const struct hm_plan *plan, u64 pgoff)
{
	u32 i;

	hm_spin_lock(&file->stream_lock);
	for (i = 0; i < HM_STREAMS; i++) {
		struct hm_stream *s = &file->stream[i];

		if (s->step && s->ahead == plan->end && pgoff < s->ahead) {
			s->ahead = pgoff > s->next ? pgoff : s->next;
			hm_stream_publish_span(file, s);
		}
	}
	hm_spin_unlock(&file->stream_lock);
}
