// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* The model of Linux's page cache: which pages a fault reads, maps and evicts. */
#include "world.h"

#define FIFO (64 * PAGES)

void world_make(struct world *w, u64 pages, u64 memory, bool writable)
{
	*w = (struct world){
		.pages = pages, .memory = memory, .window = 2048, .period_ns = 1000000
	};
	w->region = test_calloc(pages / REGION + 2, sizeof(*w->region));
	w->mode = test_calloc(pages, 1);
	w->cached = test_calloc(pages, 1);
	w->mapped = test_calloc(pages, 1);
	w->seen = test_calloc(pages, 1);
	w->a.facts.memory = memory;
	w->a.facts.window = w->window;
	w->a.facts.writable = writable;
	hm_advisor_init(&w->a, 0, pages, w->region, w->advice);
	w->fifo = test_calloc(FIFO, sizeof(*w->fifo));
}

void world_end(struct world *w)
{
	test_free(w->region);
	test_free(w->mode);
	test_free(w->cached);
	test_free(w->mapped);
	test_free(w->seen);
	test_free(w->fifo);
}

static void world_cache_evict(struct world *w)
{
	while (w->held > w->memory) {
		u64 page = w->fifo[w->out++ % FIFO];

		if (!w->cached[page])
			continue;
		w->cached[page] = w->mapped[page] = 0;
		w->held--;
	}
}

static void world_cache_read(struct world *w, u64 page, u64 end)
{
	end = end < w->pages ? end : w->pages;
	for (; page < end; page++) {
		if (w->cached[page])
			continue;
		w->cached[page] = 1;
		assert_true(w->in - w->out < FIFO);
		w->fifo[w->in++ % FIFO] = (u32)page;
		w->read++;
		w->held++;
	}
}

static void world_map_pages(struct world *w, u64 page, u64 end)
{
	for (; page < end && page < w->pages; page++)
		w->mapped[page] |= w->cached[page];
}

/* A change of the mode has a reason that does not contradict the mode. */
static void world_check_reason(const struct hm_advisor *a)
{
	bool single = a->pattern == HM_PATTERN_STRIDED || a->pattern == HM_PATTERN_RANDOM;

	if ((a->mode == HM_MODE_RANDOM && !single) ||
	    (a->mode == HM_MODE_NORMAL && a->facts.small_writes))
		assert_string_not_equal(hm_advisor_reason(a), hm_advisor_why(a));
}

static void world_do_advice(struct world *w)
{
	u32 i;
	u64 page;

	assert_true(w->a.count <= HM_ADVICES);
	for (i = 0; i < w->a.count; i++) {
		const struct hm_advice *advice = &w->a.advice[i];
		u64 step = (u64)(advice->step < 0 ? -advice->step : advice->step);

		assert_true(advice->start >= w->a.first);
		assert_true(advice->start < advice->end && advice->end <= w->pages);
		switch (advice->kind) {
		case HM_ADVICE_MODE:
			if (advice->start == 0 && advice->end == w->pages) {
				world_check_reason(&w->a);
				w->modes++;
			}
			memset(w->mode + advice->start, (int)advice->mode,
			       advice->end - advice->start);
			break;
		case HM_ADVICE_AHEAD:
			w->ahead += (advice->end - advice->start) / step;
			for (page = advice->start; page < advice->end; page += step)
				world_cache_read(w, page, page + 1);
			break;
		}
	}
	world_cache_evict(w);
}

static void world_take_look(struct world *w)
{
	static struct hm_touch runs[65536];
	u64 page;
	u32 n = 0;

	for (page = 0; page < w->pages; page++) {
		/* Most groups of 64 pages have not changed. */
		if (page % 64 == 0 && page + 64 <= w->pages &&
		    !memcmp(w->mapped + page, w->seen + page, 64)) {
			page += 63;
			continue;
		}
		if (w->mapped[page] && !w->seen[page]) {
			w->a.facts.used++;
			if (n && runs[n - 1].end == page)
				runs[n - 1].end++;
			else
				runs[n++] = (struct hm_touch){ page, page + 1 };
		}
		w->seen[page] = w->mapped[page];
	}
	w->looks += n > 0;
	w->a.facts.read = w->holes ? 1 : w->read;
	hm_advisor_look(&w->a, runs, n, w->now_ns / 1000000);
	if (n)
		world_do_advice(w);
}

static void world_take_fault(struct world *w, u64 page)
{
	u64 region = page - page % REGION, around = page - page % AROUND, before;

	if (!w->cached[page]) {
		before = w->read;
		w->faults++;
		switch (w->mode[page]) {
		case HM_MODE_NORMAL:
			world_cache_read(w, page > w->window / 2 ? page - w->window / 2 : 0,
					 page + w->window / 2);
			break;
		case HM_MODE_RANDOM:
			world_cache_read(w, page, page + 1);
			break;
		case HM_MODE_HUGE:
			world_cache_read(w, region, region + 2 * REGION);
			break;
		case HM_MODE_CHUNK:
			world_cache_read(w, region, region + REGION);
			break;
		}
		w->now_ns += 80000 + (w->read - before) * 1500;
	}
	w->now_ns += 1000;
	if (w->mode[page] == HM_MODE_HUGE || w->mode[page] == HM_MODE_CHUNK)
		world_map_pages(w, region, region + REGION);
	else
		world_map_pages(w, around, around + AROUND);
	world_cache_evict(w);
}

/* There is a look only after page faults. */
void world_access(struct world *w, u64 page)
{
	w->wanted++;
	w->now_ns += 300;
	if (!w->mapped[page]) {
		world_take_fault(w, page);
		w->faulted = true;
	}
	if (w->faulted && w->now_ns - w->looked_ns >= w->period_ns) {
		w->looked_ns = w->now_ns;
		w->faulted = false;
		world_take_look(w);
	}
}
