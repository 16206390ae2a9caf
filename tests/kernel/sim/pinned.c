// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * A few clean pages are pinned, and the cache has no other units. A task evicts. It must give up
 * after a few attempts for each page, because it evicts again after a wait in which it can be killed.
 */
#include "world.h"

#include "data/evict.h"

#define PINNED_PAGES 3u
/* Each page becomes inactive in one round, and is tried in the next. */
#define PASS_ROUNDS (2 * PINNED_PAGES)
#define ROUNDS_MAX (4 * PASS_ROUNDS)

static struct mm_struct *mm;
static u32 evicting_task, rounds;
static bool ended;

static void pin_page(u64 page)
{
	unsigned long address = mm->vma[0].vm_start + (page << PAGE_SHIFT);

	while (!mm_pin(mm, address, false))
		sim_check(!mm_fault(mm, address, FAULT_FLAG_USER | FAULT_FLAG_ALLOW_RETRY),
			  "a fault failed");
	w.pins++;
}

static void pinned_race_point(const char *text)
{
	if (sched_self() == evicting_task && !strcmp(text, "evict: claimed, not locked"))
		rounds++;
}

static void pinned_main(void *arg)
{
	u32 i;

	(void)arg;
	for (i = 0; i < PINNED_PAGES; i++)
		pin_page(i * HM_BLOCK_PAGES);
	rounds = 0;
	sim_check(!hugemap_evict_some(w.mount, HM_BASE), "a pinned page has left");
	sim_check(rounds > 0, "no page was tried");
	sim_check(rounds <= ROUNDS_MAX, "%u pinned pages were tried in %u rounds", PINNED_PAGES,
		  rounds);
	ended = true;
	sched_stop();
}

static void pinned_scenario(struct scenario *s)
{
	progress_scenario(s);
	s->page = HUGEMAP_PAGE_4K;
	s->maps = MAPS_ONE;
}

static void pinned_spawn(void)
{
	mm = world_map_file(0);
	evicting_task = sched_spawned();
	sched_spawn("evicting", pinned_main, NULL);
	machine_spawn();
	w.programs_left = 0;
}

static const struct play pinned_play = { pinned_scenario, pinned_spawn, pinned_race_point };

static int run(u64 seed)
{
	world_play(&pinned_play, seed);
	return !ended;
}

bool pinned_run(u64 from, u64 to)
{
	return world_all_hold(run, from, to);
}
