// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Programs: loads and stores, syncs, advice. */
#include "world.h"

#include <errno.h>

#define LATER 100000u /* steps */

struct world w;
u64 counts[COUNTS];

/* --- who touches a mapping, so that nobody unmaps what is touched ---------------------- */

/* Some pages of a mapping that nobody unmaps meanwhile; *n: at most so many. */
struct mapped *map_hold(u32 *page, u32 *n, bool writable)
{
	struct mapped *map = &w.map[sim_below(MAX_MAPS)];
	u32 i;

	if (!map->used || (writable && !map->writable))
		return NULL;
	*page = sim_below(map->n);
	for (i = 0; i < *n && *page + i < map->n && map->live[*page + i]; i++)
		map->users[*page + i]++;
	*n = i;
	return i ? map : NULL;
}

void map_release(struct mapped *map, u32 page, u32 n)
{
	u32 i;

	for (i = 0; i < n; i++)
		map->users[page + i]--;
	sim_progress();
}

/* --- loads and stores --------------------------------------------------------------------- */

/* A pool full of what cannot be written, or is pinned, has no frame for other files either. */
static bool frames_are_stuck(void)
{
	u32 i;

	for (i = 0; i < MAX_FILES; i++)
		if (model_files[i].failures)
			return true;
	return device_was_full || others_pins;
}

/* A signal comes only where something is wrong with the file, or with what fills the pool. */
static void check_signal(struct mapped *map, u32 page, bool write, enum touch touch)
{
	struct os_file *file = &os_files[map->file];
	u64 at = map->pgoff + page;

	if (touch == TOUCH_SEGV) {
		sim_check(write && !map->writable, "SIGSEGV at page %llu of file %u",
			  (unsigned long long)at, map->file);
		return;
	}
	sim_check(touch == TOUCHED || at >= file_pages(file) || file->broken ||
			  file->bad_block[at / HM_BLOCK_PAGES] || frames_are_stuck(),
		  "SIGBUS at page %llu of file %u", (unsigned long long)at, map->file);
	if (touch == TOUCH_BUS)
		counts[C_BUSES]++;
}

/* False: a signal came. */
static bool touch(struct mapped *map, u32 page, bool write)
{
	char *at = map->addr + ((size_t)page << HM_PAGE_SHIFT);
	u64 pgoff = map->pgoff + page, value;
	enum touch touched;

	if (write && sim_chance(2))
		wait_for_page(at);
	touched = memory_touch(at, write);
	check_signal(map, page, write, touched);
	if (touched != TOUCHED)
		return false;
	/* Between a move and its protection it would land: a fault of the program's, see README. */
	if (write && !map->writable)
		return true;
	if (write && !model_files[map->file].page[pgoff].owned) {
		value = model_new_value(map->file, pgoff);
		memory_set_value(at, value);
		model_stored(map->file, pgoff, value);
		counts[C_STORES]++;
	} else {
		model_loaded(map->file, pgoff, memory_value(at));
		counts[C_LOADS]++;
	}
	return true;
}

static void pause_for_audit(void)
{
	w.acting--;
	while (w.pausing)
		sim_yield();
	w.acting++;
}

void program_main(void *arg)
{
	(void)arg;
	w.acting++;
	for (;;) {
		u32 page, n = sim_chance(w.s.sequential_percent) ? 1 + sim_below(40) : 1, i;
		bool write = sim_chance(w.s.write_percent);
		struct mapped *map;

		sim_yield();
		pause_for_audit();
		map = map_hold(&page, &n, false);
		if (!map)
			continue;
		/* Mostly in order; a store to a read-only mapping is a signal. */
		for (i = 0; i < n; i++)
			if (!touch(map, page + i, write && (map->writable || sim_chance(2))))
				break; /* in a pool that is full each may take seconds */
		map_release(map, page, n);
	}
}

/* --- errors --------------------------------------------------------------------------------- */

/*
 * A write of a block of the file that failed before a sync of that block began is told by
 * it, unless another one is told at this time; and nobody is told where nothing has failed.
 */
void check_told(struct mapped *map, int err)
{
	struct model_file *file = &model_files[map->file];

	/* The engine hears of a failure a little later than the model does. */
	sim_check(!err || map->cut || file->failures > map->told || os_files[map->file].broken ||
			  file->failed_step + LATER > map->told_step,
		  "error %d is told, but no write has failed", err);
}

void check_errors(struct mapped *map, const u64 *must, u64 from, u64 to, int err)
{
	struct model_file *file = &model_files[map->file];
	u64 block;

	if (err) {
		counts[C_ERRORS]++;
		check_told(map, err);
		memset(map->must, 0, sizeof(map->must));
		map->told = file->failures;
		map->told_step = sched_steps();
		return;
	}
	for (block = from / HM_BLOCK_PAGES; block <= (to - 1) / HM_BLOCK_PAGES; block++)
		sim_check(map->cut || map->syncing || !must[block] ||
				  map->must[block] != must[block],
			  "a failed write of block %llu of file %u is not told",
			  (unsigned long long)block, map->file);
}

struct begun call_begun(void)
{
	return (struct begun){ .pins = others_pins_ever, .ms = clock_now_ms() };
}

/*
 * Only what is pinned by direct I/O, for long, makes a call give up. (EBUSY has another
 * reason where a file is mapped for reading only.)
 */
void check_busy(int err, struct begun begun, const char *what)
{
	sim_check(err != -EBUSY || others_pins || others_pins_ever != begun.pins ||
			  clock_now_ms() - begun.ms < 5000 || !strstr(hugemap_reason(), "pinned"),
		  "%s gives up, but nothing is pinned", what);
}

/* What each mapping is to be told of now. */
static void collect_failures(struct mapped *map)
{
	struct model_file *file = &model_files[map->file];
	u32 i;

	for (i = 0; i < MAX_BLOCKS; i++)
		if (file->failing[i] && file->failed_at[i] > map->told &&
		    file->failed_at[i] > map->known)
			map->must[i] = file->failed_at[i];
}

static void sync_map(struct mapped *map, u32 page, u32 n, int flags)
{
	struct model_file *file = &model_files[map->file];
	u64 least[MAX_PAGES], changes[MAX_PAGES], must[MAX_BLOCKS];
	u64 first = map->pgoff + page, i;
	int err;

	collect_failures(map);
	memcpy(must, map->must, sizeof(must));
	for (i = 0; i < n && first + i < MAX_PAGES; i++) {
		least[i] = model_least(map->file, first + i);
		changes[i] = file->page[first + i].changes;
	}
	sim_note("sync of pages %llu+%u of file %u", (unsigned long long)first, n, map->file);
	map->syncing++;
	err = hugemap_sync(map->addr + ((size_t)page << HM_PAGE_SHIFT), (size_t)n << HM_PAGE_SHIFT,
			   flags);
	map->syncing--;
	sim_note("sync of pages %llu+%u of file %u: %d", (unsigned long long)first, n, map->file,
		 err);
	counts[C_SYNCS]++;
	if (flags == MS_ASYNC)
		return;
	if (map->writable)
		check_errors(map, must, first, first + n, err);
	if (err || !map->writable)
		return;
	for (i = 0; i < n && first + i < MAX_PAGES; i++) {
		if (first + i >= file_pages(&os_files[map->file]))
			break;
		model_synced(map->file, first + i, least[i], changes[i]);
	}
}

/* hugemap_flush(): everybody finds it in the file. */
void flush_map(struct mapped *map, u32 page, u32 n)
{
	u64 least[MAX_PAGES], changes[MAX_PAGES], first = map->pgoff + page, i;
	int err;

	for (i = 0; i < n && first + i < MAX_PAGES; i++) {
		least[i] = model_least(map->file, first + i);
		changes[i] = model_files[map->file].page[first + i].changes;
	}
	err = hugemap_flush(w.fd[map->file][0], (off_t)(first << HM_PAGE_SHIFT),
			    (off_t)((u64)n << HM_PAGE_SHIFT));
	for (i = 0; !err && i < n && first + i < MAX_PAGES; i++)
		model_check_file(map->file, first + i, least[i], changes[i]);
}

void sync_some(void)
{
	u32 page, n = sim_chance(50) ? MAX_PAGES : 1 + sim_below(20);
	struct mapped *map = map_hold(&page, &n, false);

	if (!map)
		return;
	if (sim_chance(20))
		flush_map(map, page, n);
	else
		sync_map(map, page, n, sim_chance(10) ? MS_ASYNC : MS_SYNC);
	map_release(map, page, n);
}

void advise_some(void)
{
	u32 page, n = 1 + sim_below(60);
	struct mapped *map = map_hold(&page, &n, false);
	struct hugemap_stat stat = { .size = sizeof(stat) };
	size_t bytes = (size_t)n << HM_PAGE_SHIFT;
	int err;
	char *at;
	u32 i;

	if (!map)
		return;
	at = map->addr + ((size_t)page << HM_PAGE_SHIFT);
	if (sim_chance(5))
		memory_lock(at, bytes);
	if (sim_chance(30)) {
		bool bad = machine.refuse_percent ||
			   map->pgoff + page + n > file_pages(&os_files[map->file]);

		err = hugemap_prefetch(at, bytes);
		for (i = 0; i < n; i++)
			bad |= os_files[map->file]
				       .bad_block[(map->pgoff + page + i) / HM_BLOCK_PAGES];
		bad |= os_files[map->file].broken || frames_are_stuck() ||
		       map->pgoff + page + n > file_pages(&os_files[map->file]);
		sim_check(!err || bad, "prefetch: %d", err);
	} else {
		err = hugemap_advise(
			at, bytes, (enum hugemap_advice)sim_below(HUGEMAP_ADVICE_PRIORITY_LOW + 1));
		sim_check(!err, "advice: %d", err);
	}
	err = sim_chance(5) ? hugemap_stat(at, &stat) : 0;
	sim_check(!err, "stat: %d", err);
	map_release(map, page, n);
}
