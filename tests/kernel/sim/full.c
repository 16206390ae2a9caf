// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * A store to a clean huge unit of a hole. The disk has room for a page, but not for the unit:
 *
 *   writer: finds no room for the unit, and claims it, to replace it by base pages
 *   holder: has a reference to the unit, as GUP has for a moment, so the unit stays
 *   writer: tries again, and the holder puts its reference during one of the attempts
 *
 * The store must succeed, because there is room for the page. If the holder keeps its reference,
 * the store must fail after a bounded number of attempts.
 */
#include "world.h"

#include "data/fill.h"
#include "data/folio.h"

#include <stdio.h>

#define PAGE (HM_BLOCK_PAGES + 3) /* the page to which the writer stores */
#define SPARE_BLOCKS 64u /* kernel/data/reserve.c keeps them free */
#define KEPT 1000u /* attempts; the writer gives up before */

struct way {
	const char *name;
	int (*store)(void);
};

static struct mm_struct *mm;
static struct folio *held;
static u32 writer, attempts, held_attempts;
static const struct way *way;
static bool ended;

/* --- the writer ---------------------------------------------------------------------- */

static int store_by_fault(void)
{
	unsigned long address = mm->vma[0].vm_start + (PAGE << PAGE_SHIFT);
	int err = 0;

	while (!err && !mm_word(mm, address, true))
		err = mm_fault(mm, address,
			       FAULT_FLAG_USER | FAULT_FLAG_ALLOW_RETRY | FAULT_FLAG_WRITE);
	return err;
}

static int store_by_write(void)
{
	struct file *file = w.file[0].fd[0];
	struct kiocb iocb = { .ki_filp = file, .ki_pos = PAGE * PAGE_SIZE };
	u64 word = ++w.version;
	struct kvec kvec = { &word, sizeof(word) };
	struct iov_iter iter;
	ssize_t n;

	iov_iter_kvec(&iter, ITER_SOURCE, &kvec, 1, kvec.iov_len);
	n = file->f_op->write_iter(&iocb, &iter);
	return n == sizeof(word) ? 0 : (int)n;
}

static const struct way ways[] = {
	{ "a fault", store_by_fault },
	{ "write(2)", store_by_write },
};

/* The holder acts at the end of an attempt, as another CPU would. */
static void full_race_point(const char *text)
{
	if (sched_self() != writer || !held || strcmp(text, "evict: left, not absent yet"))
		return;
	if (++attempts < held_attempts)
		return;
	folio_put(held);
	held = NULL;
}

/* Leave room for all blocks of a huge unit but one. */
static void fill_disk(void)
{
	lower_set_room((w.s.extents ? SPARE_BLOCKS : 0) + HM_BLOCK_SIZE / w.s.lower_block - 1);
}

static void cache_huge_unit(void)
{
	struct hugemap_inode *hi = w.file[0].hi;
	struct hm_unit unit = { .npages = 1 };

	sim_check(!hugemap_fill_page(hi, PAGE, HM_ACCESS(.size = HM_SIZE_HUGE)), "no huge unit");
	sim_check(hm_peek(hi->hfile, PAGE, &unit) == HM_CLEAN && unit.npages > 1, "no huge unit");
	held = hugemap_unit_folio(hi, &unit);
	sim_check(held, "the huge unit has left");
}

static void full_main(void *arg)
{
	int err;

	(void)arg;
	cache_huge_unit();
	fill_disk();
	err = way->store();
	if (held_attempts < KEPT)
		sim_check(!err, "a store failed with %d, though there is room for its page", err);
	else
		sim_check(err == -ENOSPC || err == -EIO, "a store returned %d on a full disk", err);
	sim_check(attempts > 0, "no attempt was made to drop the unit");
	ended = true;
	sched_stop();
}

static void full_scenario(struct scenario *s)
{
	progress_scenario(s);
	s->page = HUGEMAP_PAGE_AUTO;
	s->maps = MAPS_ONE;
	s->holes = true;
	s->solid = false;
}

static void full_spawn(void)
{
	mm = world_map_file(VM_WRITE | VM_MAYWRITE);
	writer = sched_spawned();
	sched_spawn("writer", full_main, NULL);
	machine_spawn();
	w.programs_left = 0;
}

static const struct play full_play = { full_scenario, full_spawn, full_race_point };

static int run(u64 seed)
{
	world_play(&full_play, seed);
	return !ended;
}

static bool run_seeds(u64 from, u64 to)
{
	u64 seed = world_first_failure(run, from, to);

	if (seed <= to)
		printf("%s, a reference for %u attempts, seed %llu: failed\n", way->name,
		       held_attempts, (unsigned long long)seed);
	return seed > to;
}

bool full_run(u64 from, u64 to)
{
	static const u32 holds[] = { 1, HUGEMAP_PIN_RETRIES, KEPT };
	u32 failures = 0, i, k;

	for (i = 0; i < ARRAY_SIZE(ways); i++) {
		for (k = 0; k < ARRAY_SIZE(holds); k++) {
			way = &ways[i];
			held_attempts = holds[k];
			failures += !run_seeds(from, to);
		}
	}
	printf("%zu orders, %u failed\n", ARRAY_SIZE(ways) * ARRAY_SIZE(holds), failures);
	return !failures;
}
