// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Page tables, as the user-space engine has them: a unit cannot be installed
 * protected, so a store may slip in before it is protected. See user/page.c.
 */
#include "world.h"

struct sim_lock *block_lock(struct store *store, u64 pgoff)
{
	return &store->block[pgoff / HM_BLOCK_PAGES];
}

struct place *place_of(const struct hm_unit *unit)
{
	return &w.places[unit->frame];
}

static void set_ptes(struct store *store, const struct hm_unit *unit, bool present, bool writable)
{
	u32 at = content_of(unit->frame);
	u64 i;

	for (i = 0; i < unit->npages; i++)
		store->pte[unit->pgoff + i] = (struct pte){ present, writable, at + (u32)i };
}

static u64 hash(const struct hm_unit *unit)
{
	u32 at = content_of(unit->frame), i;
	u64 sum = 0;

	for (i = 0; i < unit->npages; i++)
		sum = sum * 1000003 + w.content[at + i];
	return sum;
}

void page_install(struct store *store, const struct hm_unit *unit, bool protect)
{
	u64 before = hash(unit);
	u32 window;
	struct hm_unit again;

	sim_check(!place_of(unit)->mapped, "a unit is mapped twice");
	*place_of(unit) = (struct place){ .mapped = true, .pgoff = unit->pgoff };
	if (protect)
		w.window[sched_self()]++;
	set_ptes(store, unit, true, true);
	if (!protect)
		return;
	/* The window, sometimes a long one. */
	for (window = sim_chance(10) ? sim_below(60) : 1; window; window--)
		sim_yield();
	set_ptes(store, unit, true, false);
	if (hash(unit) != before) {
		sim_note("a store slipped into %llu", (unsigned long long)unit->pgoff);
		if (hm_fault(store->core, unit->pgoff, HM_ACCESS_WRITE, &again) != HM_HIT)
			place_of(unit)->stored = true;
	}
	w.window[sched_self()]++;
}

/* A sync waits for the windows that are open when it begins: see user/sync.c. */
void page_wait_for_windows(void)
{
	u32 before[SIM_COROUTINES], i;

	memcpy(before, w.window, sizeof(before));
	for (i = 0; i < SIM_COROUTINES; i++)
		while (before[i] & 1 && w.window[i] == before[i])
			sim_yield();
}

void page_remove(struct store *store, const struct hm_unit *unit)
{
	struct place *place = place_of(unit);

	if (!place->mapped)
		return;
	sim_check(place->pgoff == unit->pgoff, "a frame is mapped elsewhere");
	set_ptes(store, unit, false, false);
	place->mapped = false;
}

void page_wake(struct store *store, u64 pgoff, u32 npages)
{
	sim_wake(store, pgoff, pgoff + npages);
}
