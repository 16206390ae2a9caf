// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Read-ahead and write-behind: what a stream needs next.
 *
 * After opts.stream_min faults in sequence (one fewer at the start of the file) the engine brings
 * in a window ahead of the stream. The window doubles each time the stream reaches the marker,
 * which lies half a window before the end. So the engine reads the second half while the stream
 * uses the first one, and the stream never waits. Write-behind writes the pages that a writing
 * stream has left.
 *
 * With HM_SIZE_AUTO the block in which a stream is recognised is read in base pages, because some
 * of them are cached already. The windows there end with the block. The next blocks come as huge
 * units.
 */
#include "cache.h"
#include "file.h"
#include "index.h"
#include "pool.h"
#include "readahead.h"
#include "stream.h"

#define FIRST_WINDOW_HUGE (4u * HM_BLOCK_PAGES)
#define FIRST_WINDOW_BASE 32u
/*
 * The first window of a stream of base pages with HM_SIZE_AUTO. Many such streams end soon. If one
 * does not, its next block comes as a huge unit anyway.
 */
#define FIRST_WINDOW_AUTO 4u

/*
 * The clock hand passes the streams of a file once in this many noted faults of a CPU: a stream
 * must continue at least once between two passes. The number is odd, so that if a program reads two
 * files in turn the hand does not always pass the same one.
 */
#define FAULTS_PER_PASS 17u

/*
 * A stream causes no fault while it uses its window. It survives one more pass of the clock hand
 * for each HM_STREAMS pages of its window: in the time in which it uses these pages, other faults
 * advance the hand by about one pass.
 */
#define PAGES_PER_PASS HM_STREAMS

/* Write-behind stays this many pages behind a writer of base pages. */
#define BEHIND_LAG_BASE 64u

/*
 * Has the stream accessed a quarter of the pool? The size of the file alone does not show that its
 * streams are long. Short streams occur in large files, too, for example in consecutive pages of a
 * tree that are used again and again. Their units are cached like all others.
 */
static bool hm_readahead_is_large(const struct hm_file *file, const struct hm_stream *s)
{
	return s->next - s->first >= hm_pool_frames(file->cache) * HM_BLOCK_PAGES / 4;
}

/* With HM_SIZE_AUTO a window ends at the end of a block, or in the block of the last fault. */
static u64 hm_readahead_window_end(const struct hm_stream *s, u64 end)
{
	return hm_block_of(end) == hm_block_of(s->next - 1) ? end : hm_block_start(end);
}

static void hm_readahead_plan_ahead(struct hm_file *file, struct hm_stream *s,
				    const struct hm_fault_range *range, u32 max,
				    struct hm_plan *plan)
{
	u64 npages = hm_file_npages(file), end;
	bool auto_size = range->auto_size;
	u32 first = s->step == 1 ? FIRST_WINDOW_BASE : FIRST_WINDOW_HUGE;

	if (auto_size)
		first = range->huge ? FIRST_WINDOW_HUGE : FIRST_WINDOW_AUTO;
	plan->start = s->ahead > s->next ? s->ahead : s->next;
	plan->end = plan->start;
	if (plan->start - s->next >= s->window / 2 && s->window)
		return; /* at least half of the window is still ahead */
	s->window = s->window ? s->window * 2 : first;
	/*
	 * In a huge unit the window starts large. The exception is the first block of a stream from
	 * the start of the file: it may have been promoted early, and the program may need nothing
	 * beyond it.
	 */
	if (range->huge && s->window < first && (s->first > 1 || hm_block_of(range->first)))
		s->window = first;
	if (s->window > max)
		s->window = max;
	s->window -= s->window % s->step;
	end = s->next + s->window;
	if (end > npages)
		end = npages;
	else if (auto_size)
		end = hm_readahead_window_end(s, end);
	if (end <= plan->start)
		return;
	plan->end = end;
	if (auto_size)
		plan->access.order = HM_ORDER_SEQUENTIAL;
	/* Promote the first block of a long stream. The next ones come as huge units. */
	if (auto_size && (!s->write || hm_stream_is_from_start(s)) && !range->huge &&
	    hm_stream_is_long(s) && s->window <= HM_BLOCK_PAGES && max >= HM_STREAM_LONG_WINDOW)
		plan->access.stream = true;
	if (auto_size && hm_readahead_is_large(file, s) && hm_stream_is_use_once(file))
		plan->access.use_once = true;
	plan->mark = plan->end;
	if (plan->end < npages) {
		plan->mark = s->next + s->window / 2 / s->step * s->step;
		if (auto_size)
			plan->mark = hm_readahead_window_end(s, plan->mark);
		if (plan->mark < plan->start)
			plan->mark = plan->start;
		if (plan->mark > plan->end)
			plan->mark = plan->end;
	}
	s->ahead = plan->end;
}

static void hm_readahead_plan_behind(struct hm_stream *s, const struct hm_fault_range *range,
				     struct hm_plan *plan)
{
	u64 first = range->first;
	u32 lag = s->step == 1 ? BEHIND_LAG_BASE : 0;
	u32 min = s->step == 1 ? BEHIND_LAG_BASE : s->step;

	/* Do not write the block that the stream still stores to: it would be written twice. */
	if (range->auto_size) {
		first = hm_block_start(first);
		lag = 0;
		min = 1;
	}
	if (first < s->behind + lag + min)
		return;
	plan->behind_start = s->behind;
	plan->behind_end = first - lag;
	s->behind = plan->behind_end;
}

static struct hm_fault_range hm_readahead_range_of(struct hm_file *file, u64 pgoff,
						   struct hm_access access)
{
	struct hm_fault_range range = {
		.step = hm_access_is_base(access) ? 1 : HM_BLOCK_PAGES,
		.block_offset = (u32)(pgoff - hm_block_start(pgoff)),
		.auto_size = access.size == HM_SIZE_AUTO,
	};
	struct hm_unit unit;

	if (range.auto_size) {
		range.step = 1;
		range.huge = hm_peek(file, pgoff, &unit) != HM_ABSENT && unit.npages > 1;
	}
	range.first = range.step == 1 && !range.huge ? pgoff : hm_block_start(pgoff);
	range.end = range.first + (range.huge ? HM_BLOCK_PAGES : range.step);
	return range;
}

bool hm_readahead(struct hm_file *file, u64 pgoff, struct hm_access access, struct hm_plan *plan)
{
	const struct hm_options *opts = &file->cache->opts;
	u32 kb = hm_access_is_base(access) ? opts->readahead_base_kb : opts->readahead_kb;
	u32 max = (u32)((u64)kb << 10 >> HM_PAGE_SHIFT);
	struct hm_fault_range range = hm_readahead_range_of(file, pgoff, access);
	struct hm_stream *s;
	bool second = false;

	/* Assign each field: compilers clear a whole struct with a slow string instruction. */
	plan->start = 0;
	plan->end = 0;
	plan->mark = 0;
	plan->behind_start = 0;
	plan->behind_end = 0;
	plan->access = access;
	if (access.order == HM_ORDER_SEQUENTIAL)
		plan->access.order = HM_ORDER_LEARN;
	plan->access.cached_only = false;
	if (!hm_stream_may_continue(file, &range)) {
		second = hm_stream_noted(file, &range);
		if (!second && opts->stream_min > 1 && access.order != HM_ORDER_SEQUENTIAL) {
			if (hm_stream_take_note(file, &range) % FAULTS_PER_PASS == 0)
				hm_stream_age_all(file);
			return false;
		}
	}
	hm_spin_lock(&file->stream_lock);
	s = hm_stream_find(file, &range);
	if (!s) {
		s = hm_stream_start(file, &range, second);
		hm_stream_publish_slot(file, s);
	} else {
		if (range.end > s->next) {
			s->next = range.end;
			s->seen++;
		}
		/*
		 * Random faults advance the clock hand. A stream with a large window faults
		 * rarely, so give it more passes before it expires.
		 */
		s->passes_left = 1 + (range.auto_size ? s->window / PAGES_PER_PASS : 0);
	}
	if (access.write)
		s->write = true;
	if (s->write)
		plan->access.write = true;
	if (s->seen >= opts->stream_min || access.order == HM_ORDER_SEQUENTIAL) {
		if (max >= range.step)
			hm_readahead_plan_ahead(file, s, &range, max, plan);
		if (s->write)
			hm_readahead_plan_behind(s, &range, plan);
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
