// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * A page is claimed twice, and a device stores to it during the first claim:
 *
 *   first task: claims the page; cannot take it, because the device has it pinned; ends its claim
 *   device:     stores to the page during this claim, and sets the dirty flag
 *   sync:       begins after the store
 *   second:     reclaim claims the page before the first task has reported the store to the core
 *
 * The first task and reclaim stay at race points, so that each run has this order. The sync must
 * write the store, although reclaim reports it only after the sync has looked for dirty pages.
 *
 * In two more orders, no task claims the page again. Instead, a third task makes the page dirty,
 * before the claim or just after it. This task sets the dirty bit only after the sync has
 * looked for dirty pages.
 */
#include "world.h"

#include "data/change.h"
#include "data/evict.h"

#include <stdio.h>

#define PAGE (HM_BLOCK_PAGES + 3) /* the page that is claimed twice */
#define SYNC_YIELDS 3000u /* a sync has looked for dirty pages after this many */
#define SECOND_YIELDS 50000u

enum phase {
	START, /* the page is cached, clean and pinned */
	STORED, /* claimed; the device has stored to it */
	RELEASED, /* the first claim has ended, and nothing is reported */
	AGAIN, /* reclaim has claimed the page */
};

enum late {
	NEVER,
	BEFORE,
	AFTER
}; /* when the third task makes the page dirty */

struct first {
	const char *name;
	void (*run)(void);
	const char *claimed, *released; /* race points during the claim and after it */
	enum late late;
};

static struct mm_struct *mm;
static struct page *pinned;
static enum phase phase;
static bool ready, first_over, synced, is_late;
static u32 first_task, sync_task, second_task, late_task;
static const struct first *first;
static bool of_mount; /* sync(2) instead of fsync(2) */

/* --- the device ---------------------------------------------------------------------- */

static unsigned long address_of(u64 page)
{
	return mm->vma[0].vm_start + (page << PAGE_SHIFT);
}

static void access_page(u64 page, bool write)
{
	u32 flags = FAULT_FLAG_USER | FAULT_FLAG_ALLOW_RETRY | (write ? FAULT_FLAG_WRITE : 0);

	while (!mm_word(mm, address_of(page), write))
		sim_check(!mm_fault(mm, address_of(page), flags), "a fault failed");
}

static void pin_page(void)
{
	while (!(pinned = mm_pin(mm, address_of(PAGE), true)))
		access_page(PAGE, true);
	w.pins++;
}

static u64 *device_word(void)
{
	struct folio *folio = pinned->folio;

	return &folio->memory[(size_t)(pinned - folio->page) * WORDS];
}

/* The first task runs this in a section of SRCU, where it must not wait for the folio lock. */
static void device_stores(void)
{
	*device_word() = ++w.version;
	folio_mark_dirty(pinned->folio);
}

/* --- the order of the run ---------------------------------------------------------------- */

static bool has_state(enum hm_state state)
{
	struct hm_unit unit;

	return hm_peek(w.file[0].hi->hfile, PAGE, &unit) == state;
}

static bool is_claimed(void)
{
	return has_state(HM_EVICTING);
}

/* The first task passes a race point. The promoter is the first task only while it promotes. */
static void first_passes(const char *text)
{
	u32 left;

	if (phase == START && !strcmp(text, first->claimed) && is_claimed()) {
		device_stores();
		phase = STORED;
	} else if (phase == STORED && !strcmp(text, first->released) && !is_claimed()) {
		/* Meanwhile the sync begins to wait. */
		for (left = SYNC_YIELDS; left; left--)
			sim_yield();
		phase = RELEASED;
		for (left = SECOND_YIELDS; left && phase == RELEASED && !is_late; left--)
			sim_yield();
	}
}

static void claims_race_point(const char *text)
{
	u32 left = SYNC_YIELDS;

	if (!ready)
		return;
	if (sched_self() == second_task) {
		if (phase == RELEASED && !strcmp(text, "evict: claimed, not locked") &&
		    is_claimed()) {
			phase = AGAIN;
			while (left-- && !synced)
				sim_yield();
		}
	} else if (sched_self() == late_task) {
		if (!is_late && !strcmp(text, CORE_RACE_POINT) && has_state(HM_DIRTY)) {
			is_late = true;
			/* A sync that writes the page may wait for the folio lock of this task. */
			while (left-- && !synced)
				sim_yield();
		}
	} else if (sched_self() == sync_task) {
		/* A sync of all files looks at the file after the change has ended. */
		while (first->run && left-- && !first_over &&
		       !strcmp(text, "sync: at a file, without a reference"))
			sim_yield();
	} else if (!first->run || sched_self() == first_task) {
		first_passes(text);
	}
}

/* --- tasks -------------------------------------------------------------------------------- */

static void evict(void)
{
	while (phase < RELEASED)
		hugemap_evict_some(w.mount, HM_BASE);
}

static ssize_t fail(void *arg)
{
	(void)arg;
	return -EIO;
}

/* A punch of another page of the block. The lower file system refuses it, and all pages stay. */
static void punch(void)
{
	struct inode *inode = &w.file[0].hi->vfs_inode;
	loff_t start = HM_BLOCK_PAGES << PAGE_SHIFT;

	inode_lock(inode);
	sim_check(hugemap_change_lower(inode, start, start + PAGE_SIZE, HUGEMAP_DISCARD, fail,
				       NULL) == -EIO,
		  "a failed punch succeeded");
	inode_unlock(inode);
}

static const struct first firsts[] = {
	{ "promotion", NULL, "promote: claimed, mapped", "promote: released, not reported as dirty",
	  NEVER },
	{ "eviction", evict, "evict: left, not absent yet", "evict: stays, not reported as dirty",
	  NEVER },
	{ "change", punch, "evict: left, not absent yet", "evict: stays, not reported as dirty",
	  NEVER },
	{ "promotion of a page without a dirty bit", NULL, "promote: claimed, mapped",
	  "promote: released, not reported as dirty", BEFORE },
	{ "promotion before a store without a dirty bit", NULL, "promote: claimed, mapped",
	  "promote: released, not reported as dirty", AFTER },
};

/* A share of 0 turns promotion off. */
static void set_promotion(u32 util)
{
	struct hm_options opts = *hm_cache_options(w.mount->cache);

	opts.promote_util = util;
	hm_cache_set_options(w.mount->cache, &opts);
}

static void first_main(void *arg)
{
	struct file *file = w.file[0].fd[0];

	(void)arg;
	set_promotion(0);
	pin_page();
	sim_check(!file->f_op->fsync(file, 0, LLONG_MAX, 0), "fsync() failed");
	ready = true;
	if (first->run) {
		first->run();
	} else {
		while (first->late == BEFORE && !is_late)
			sim_yield();
		set_promotion(1);
		access_page(PAGE + 1, false);
	}
	first_over = true;
}

static void second_main(void *arg)
{
	(void)arg;
	while (phase < AGAIN && !first->late) {
		if (phase == RELEASED)
			hugemap_evict_some(w.mount, HM_BASE);
		sim_yield();
	}
}

static void late_main(void *arg)
{
	(void)arg;
	while (first->late == BEFORE ? !ready : phase < RELEASED)
		sim_yield();
	if (first->late == BEFORE)
		folio_mark_dirty(pinned->folio);
	else if (first->late == AFTER)
		access_page(PAGE, true);
}

static void sync_main(void *arg)
{
	struct file *file = w.file[0].fd[1];
	struct disk_file *disk = w.file[0].disk;
	int err;

	(void)arg;
	while (phase < STORED)
		sim_yield();
	err = of_mount ? hugemap_data_sync(w.mount) : file->f_op->fsync(file, 0, LLONG_MAX, 0);
	synced = true;
	sim_check(!err, "a sync failed with %d", err);
	sim_check(first->late ? is_late : phase == AGAIN, "the tasks did not meet");
	sim_check(disk->word[PAGE * WORDS].value == *device_word(),
		  "a sync has not written the store of a device");
	sched_stop();
}

static void claims_scenario(struct scenario *s)
{
	progress_scenario(s);
	s->page = HUGEMAP_PAGE_AUTO;
	s->maps = MAPS_ONE;
	s->solid = true;
}

static void claims_spawn(void)
{
	mm = world_map_file(VM_WRITE | VM_MAYWRITE);
	first_task = sched_spawned();
	sched_spawn("first", first_main, NULL);
	second_task = sched_spawned();
	sched_spawn("second", second_main, NULL);
	late_task = sched_spawned();
	sched_spawn("late", late_main, NULL);
	sync_task = sched_spawned();
	sched_spawn("sync", sync_main, NULL);
	machine_spawn();
	w.programs_left = 0;
}

static const struct play claims_play = { claims_scenario, claims_spawn, claims_race_point };

static int run(u64 seed)
{
	world_play(&claims_play, seed);
	return !synced;
}

bool claims_run(u64 from, u64 to)
{
	u32 failures = 0, runs = 0, i;
	u64 seed;

	for (i = 0; i < 2 * ARRAY_SIZE(firsts); i++) {
		first = &firsts[i / 2];
		of_mount = i % 2;
		seed = world_first_failure(run, from, to);
		runs += (u32)(min(seed, to) - from + 1);
		if (seed > to)
			continue;
		failures++;
		printf("%s beside a sync of %s, seed %llu: failed\n", first->name,
		       of_mount ? "all files" : "the file", (unsigned long long)seed);
	}
	printf("%u runs, %u orders failed\n", runs, failures);
	return !failures;
}
