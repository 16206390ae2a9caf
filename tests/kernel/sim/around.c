// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The page table of a huge page exists, and a store maps all pages of the huge page by it, beside a
 * write-back:
 *
 *   writer: sets the huge page dirty, and unlocks its folio to map the pages
 *   sync:   writes the huge page back; most pages are not mapped yet, so it does not protect them
 *   writer: maps all pages, so that stores to them do not fault
 *
 * The two tasks wait for each other at race points. Then the writer stores to another page, and a
 * sync must write that store: the write-back must have left the huge page dirty.
 */
#include "world.h"

#include "data/fill.h"

#define PAGE HM_BLOCK_PAGES /* the first page of the huge page */
#define OTHER (PAGE + HM_BLOCK_PAGES - 1)
#define YIELDS 50000u /* most yields of a wait for the other task */

enum phase {
	START,
	UNLOCKED, /* the huge page is dirty, and its folio is unlocked */
	PROTECTED, /* the write-back has protected the pages that were mapped */
	MAPPED, /* all pages are mapped */
	SYNCED,
};

static struct mm_struct *mm;
static enum phase phase;
static u32 writer;
static bool ended;

static void await(enum phase next)
{
	u32 left;

	for (left = YIELDS; left && phase < next; left--)
		sim_yield();
}

static void store(u64 page, u64 value)
{
	unsigned long address = mm->vma[0].vm_start + (page << PAGE_SHIFT);
	u64 *word;

	while (!(word = mm_word(mm, address, true)))
		sim_check(!mm_fault(mm, address,
				    FAULT_FLAG_USER | FAULT_FLAG_ALLOW_RETRY | FAULT_FLAG_WRITE),
			  "a fault failed");
	*word = value;
}

static void sync_file(void)
{
	struct file *file = w.file[0].fd[0];

	sim_check(!file->f_op->fsync(file, 0, LLONG_MAX, 0), "fsync() failed");
}

static void around_race_point(const char *text)
{
	if (sched_self() == writer && phase == START &&
	    !strcmp(text, "first store: dirty, none of the block mapped")) {
		phase = UNLOCKED;
		await(PROTECTED);
	} else if (sched_self() != writer && phase == UNLOCKED &&
		   !strcmp(text, "write-back: protected, size not known")) {
		phase = PROTECTED;
		await(MAPPED);
	}
}

/* The first stores set single pages dirty, and make the page table. */
static void writer_main(void *arg)
{
	struct hugemap_inode *hi = w.file[0].hi;
	u64 page, value;

	(void)arg;
	sim_check(!hugemap_fill_page(hi, PAGE, HM_ACCESS(.size = HM_SIZE_HUGE)), "no huge page");
	for (page = PAGE; page < OTHER && phase == START; page++)
		store(page, ++w.version);
	sim_check(phase == PROTECTED, "the tasks did not meet");
	phase = MAPPED;
	await(SYNCED);
	value = ++w.version;
	store(OTHER, value);
	sync_file();
	sim_check(w.file[0].disk->word[OTHER * WORDS].value == value,
		  "a sync has not written a store");
	ended = true;
	sched_stop();
}

static void syncer_main(void *arg)
{
	(void)arg;
	while (phase < UNLOCKED)
		sim_yield();
	sync_file();
	phase = SYNCED;
}

static void around_scenario(struct scenario *s)
{
	progress_scenario(s);
	s->page = HUGEMAP_PAGE_AUTO;
	s->maps = MAPS_ONE;
	s->solid = true;
	s->stable = false;
}

static void around_spawn(void)
{
	mm = world_map_file(VM_WRITE | VM_MAYWRITE);
	writer = sched_spawned();
	sched_spawn("writer", writer_main, NULL);
	sched_spawn("syncer", syncer_main, NULL);
	machine_spawn();
	w.programs_left = 0;
}

static const struct play around_play = { around_scenario, around_spawn, around_race_point };

static int run(u64 seed)
{
	world_play(&around_play, seed);
	return !ended;
}

bool around_run(u64 from, u64 to)
{
	return world_all_hold(run, from, to);
}
