// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Who acts in the simulated world, and what a seed makes of it. */
#include "world.h"

#include <stdlib.h>

struct world w;

static struct store *any_store(void)
{
	return &w.stores[sim_below(w.s.nfiles)];
}

/* --- programs ------------------------------------------------------------------- */

static void program(void *arg)
{
	u32 id = (u32)(uintptr_t)arg;
	struct store *store = any_store();
	u64 page = 0;
	u32 left = 0;
	bool write = false;
	u32 access = 0;

	for (;;) {
		sim_yield();
		if (!left) {
			store = &w.stores[(id + sim_below(2)) % w.s.nfiles];
			left = 1 + sim_below(40);
			page = sim_below(MAX_PAGES);
			if (sim_chance(w.s.hot_percent))
				page = sim_below(8);
			write = sim_chance(w.s.write_percent);
			access = sim_chance(w.s.base_percent) ? HM_ACCESS_BASE : 0;
			if (w.s.hints && sim_chance(20))
				access |= HM_ACCESS_SEQUENTIAL;
			if (sim_chance(w.s.priority_percent))
				access |= sim_chance(50) ? HM_ACCESS_HIGH : HM_ACCESS_LOW;
			if (!sim_chance(w.s.sequential_percent))
				left = 1;
		}
		left--;
		if (page >= MAX_PAGES)
			page = 0;
		engine_touch(store, page, write, access);
		page++;
	}
}

/* --- the disturber ----------------------------------------------------------------- */

/* fsync(): what it promises is durable from now on. */
static void sync_file(struct store *store)
{
	struct descriptor *fd = &store->fd[sim_below(2)];
	u32 before[MAX_PAGES];
	u64 size = store->file->size;
	int err, told;
	u32 i;

	for (i = 0; i < MAX_PAGES; i++)
		before[i] = store->model[i].latest;
	sim_note("sync of file %u", store->index);
	err = engine_sync(store, 0, ~0ull);
	sim_note("sync of file %u: %d", store->index, err);
	told = hm_store_error_check(store->core, &fd->seen);
	/* A write of its own that failed tells as well as the sequence does. */
	if (told || !err)
		model_told(store, fd, told);
	if (err || told || size != store->file->size)
		return;
	device_flush(store->file);
	for (i = 0; i < MAX_PAGES; i++) {
		struct model_page *m = &store->model[i];

		if (m->latest < before[i])
			continue; /* punched meanwhile */
		m->durable = before[i];
		m->zeroed = false;
	}
	w.counts[C_SYNCS]++;
}

static u64 pages_of(u64 bytes)
{
	return (bytes + HM_PAGE_SIZE - 1) >> HM_PAGE_SHIFT;
}

/* One try of user/resize.c's shrink(); the maps lock is held for writing. */
static bool shrink(struct store *store, u64 size)
{
	u64 end = pages_of(hm_store_size(store->core));
	u64 block = size / HM_BLOCK_SIZE * HM_BLOCK_PAGES, from = pages_of(size);
	struct hm_unit unit;
	bool all = true;

	if (hm_store_size(store->core) > size) {
		if (store->shrink_end < end)
			store->shrink_end = end;
		hm_store_set_size(store->core, size);
	}
	if (size % HM_BLOCK_SIZE && hm_peek(store->core, block, &unit) != HM_ABSENT &&
	    unit.npages > 1) {
		all = engine_drop(store, block, block + 1, false);
		if (hm_peek(store->core, block, &unit) != HM_ABSENT && unit.npages > 1)
			all = false;
		from = block + HM_BLOCK_PAGES;
	}
	all &= engine_drop(store, from, store->shrink_end, true);
	if (all)
		store->shrink_end = 0;
	return all;
}

static void grow(struct store *store, u64 size)
{
	u64 old = hm_store_size(store->core);
	u64 first = (old + HM_BLOCK_SIZE - 1) / HM_BLOCK_SIZE * HM_BLOCK_PAGES;

	if (first < pages_of(size))
		hm_store_set_hollow(store->core, first, pages_of(size) - first, true);
	hm_store_set_size(store->core, size);
}

static void resize(struct store *store)
{
	u64 old = store->file->size, size = (u64)sim_below(MAX_PAGES) * HM_PAGE_SIZE;
	u64 block = size / HM_BLOCK_SIZE * HM_BLOCK_PAGES;
	bool done = false;

	if (sim_chance(30))
		size += 1 + sim_below(HM_PAGE_SIZE - 1);
	sim_note("file %u: %llu to %llu bytes", store->index, (unsigned long long)old,
		 (unsigned long long)size);
	store->resizing = true;
	while (!done) {
		sim_write_lock(&w.maps);
		if (size < hm_store_size(store->core) || store->shrink_end) {
			done = shrink(store, size);
		} else {
			store->file->size = size;
			grow(store, size);
			done = true;
		}
		if (done && size < old) {
			store->file->size = size;
			model_zero(store, pages_of(size), MAX_PAGES);
		}
		if (done)
			store->resizing = false;
		sim_write_unlock(&w.maps);
		if (!done)
			engine_sync(store, block, block + HM_BLOCK_PAGES);
		sim_yield();
	}
	w.counts[C_RESIZES]++;
}

/* Whole pages of whole blocks, so that no unit is cut. */
static void punch(struct store *store)
{
	u64 from = sim_below(BLOCKS) * (u64)HM_BLOCK_PAGES;
	u64 to = from + (1 + sim_below(4)) * (u64)HM_BLOCK_PAGES;
	bool done = false;

	store->resizing = true;
	while (!done) {
		sim_write_lock(&w.maps);
		if (to > file_pages(store->file))
			to = file_pages(store->file) / HM_BLOCK_PAGES * HM_BLOCK_PAGES;
		done = to <= from || engine_drop(store, from, to, true);
		if (done && to > from) {
			model_zero(store, from, to);
			hm_store_set_hollow(store->core, from, to - from, true);
		}
		if (done)
			store->resizing = false;
		sim_write_unlock(&w.maps);
		sim_yield();
	}
}

/* pread() and pwrite(), as user/access.c does them: on the frame, or the file. */
static void access_file(struct store *store)
{
	u64 page = sim_below(MAX_PAGES), i;
	bool write = sim_chance(50);
	enum hm_state state;
	struct hm_unit unit;

	sim_read_lock(&w.maps);
	sim_lock(block_lock(store, page));
	state = hm_peek(store->core, page, &unit);
	if (page >= file_pages(store->file) || store->resizing || state == HM_FILLING ||
	    state == HM_EVICTING)
		goto out;
	if (state == HM_ABSENT || state == HM_FAILED) {
		if (!write) {
			model_load(store, page, store->file->page[page].value);
			goto out;
		}
		store->model[page].latest = ++w.version;
		store->model[page].stored = true;
		device_write(store->file, page, w.version);
		hm_store_set_hollow(store->core, page & ~(u64)(HM_BLOCK_PAGES - 1), HM_BLOCK_PAGES,
				    false);
		goto out;
	}
	if (!write) {
		model_load(store, page, w.content[content_of(unit.frame) + (page - unit.pgoff)]);
	} else if (hm_fault(store->core, page, HM_ACCESS_WRITE | HM_ACCESS_BASE, &unit) == HM_HIT) {
		for (i = unit.pgoff; i < unit.pgoff + unit.npages; i++)
			store->pte[i].writable = store->pte[i].present;
		model_store(store, page, content_of(unit.frame) + (u32)(page - unit.pgoff));
	}
out:
	sim_unlock(block_lock(store, page));
	sim_read_unlock(&w.maps);
}

/* --- everything at rest ---------------------------------------------------------------- */

static bool at_rest(void)
{
	u32 i;

	for (i = 0; i < MAX_OPS; i++)
		if (w.op[i].used)
			return false;
	return true;
}

/* Takes the maps lock for writing when no operation is under way. */
static void rest(void)
{
	for (;;) {
		sim_write_lock(&w.maps);
		if (at_rest())
			return;
		sim_write_unlock(&w.maps);
		sim_yield();
	}
}

static void audit(void)
{
	rest();
	model_audit();
	sim_write_unlock(&w.maps);
}

/* Everything written, and nothing mapped: what a child, or nobody, may use. */
static void settle(struct store *store)
{
	u64 page;

	store->resizing = true; /* faults wait */
	for (;;) {
		struct hm_unit unit;

		engine_sync(store, 0, ~0ull);
		rest();
		for (page = 0; page < MAX_PAGES; page = unit.pgoff + unit.npages) {
			enum hm_state state = hm_peek(store->core, page, &unit);

			if (state == HM_CLEAN || state == HM_DIRTY)
				page_remove(store, &unit);
		}
		if (!hm_store_dirty_pages(store->core))
			return;
		sim_write_unlock(&w.maps);
	}
}

static void fork_point(struct store *store)
{
	u32 i;

	settle(store);
	for (i = 0; i < file_pages(store->file); i++)
		sim_check(store->file->page[i].value == store->model[i].latest,
			  "page %u: a child would not see the last store", i);
	store->resizing = false;
	sim_write_unlock(&w.maps);
	w.counts[C_FORKS]++;
}

static void open_store(struct store *store)
{
	void *mem = world_alloc(hm_store_bytes());
	u32 i;

	store->core = hm_store_init(w.cache, mem, store->file->size);
	sim_check(store->core, "a store cannot be opened");
	for (i = 0; i < 2; i++)
		store->fd[i] = (struct descriptor){
			.seen = hm_store_error_sample(store->core),
		};
	for (i = 0; i < MAX_PAGES; i++)
		store->model[i].stored = true;
}

static void reopen(struct store *store)
{
	u32 kept = 0, i;

	settle(store);
	sim_check(engine_drop(store, 0, MAX_PAGES, true), "a store at rest cannot be emptied");
	for (i = 0; i < w.njobs; i++)
		if (w.job[i].store != store)
			w.job[kept++] = w.job[i];
	w.njobs = kept;
	model_audit();
	hm_store_destroy(store->core);
	while (hm_store_take_node(store->core))
		;
	store->wb_pos = 0;
	open_store(store);
	store->resizing = false;
	sim_write_unlock(&w.maps);
	/* Whoever waited for a page of it looks again. */
	page_wake(store, 0, MAX_PAGES);
	w.counts[C_REOPENS]++;
}

static void disturb(struct store *store, u32 dice)
{
	const struct scenario *s = &w.s;
	const struct {
		u32 weight;
		void (*act)(struct store *store);
	} choices[] = {
		{ s->resizes, sim_chance(60) ? resize : punch },
		{ s->reopens, reopen },
		{ s->forks, fork_point },
		{ s->syncs, sync_file },
		{ s->accesses, access_file },
	};
	u32 i;

	for (i = 0; i < sizeof(choices) / sizeof(choices[0]); i++) {
		if (dice < choices[i].weight) {
			choices[i].act(store);
			return;
		}
		dice -= choices[i].weight;
	}
	audit();
}

static void disturber(void *arg)
{
	const struct scenario *s = &w.s;
	u32 all = s->resizes + s->reopens + s->forks + s->syncs + s->accesses + 4;

	(void)arg;
	for (;;) {
		struct store *store = any_store();
		u32 dice = sim_below(all), pause = sim_below(200);

		while (pause--)
			sim_yield();
		disturb(store, dice);
		if (sim_chance(5))
			store->file->bad_read = sim_chance(50) ? sim_below(MAX_PAGES) : MAX_PAGES;
		sim_progress();
	}
}

/* The engine's clock. */
static void clock_main(void *arg)
{
	(void)arg;
	for (;;) {
		u32 pause = sim_below(400);

		while (pause--)
			sim_yield();
		w.now_ms += sim_below(300);
		hm_cache_tick(w.cache, w.now_ms);
	}
}

/* --- the beginning ------------------------------------------------------------------------- */

static void choose_scenario(struct scenario *s)
{
	static const u32 rates[] = { 0, 0, 1, 5, 30 };

	*s = (struct scenario){
		.switch_every = 1u << sim_below(6),
		.stall_every = sim_chance(30) ? 0 : 100u << sim_below(8),
		.cpus = 1 + sim_below(4),
		.nfiles = 1 + sim_below(MAX_FILES),
		.npages = 16 + sim_below(MAX_PAGES - 16),
		.pool_frames = 4 + sim_below(MAX_FRAMES - 4),
		.programs = 1 + sim_below(6),
		.evict_batch = 1 + sim_below(6),
		.write_percent = 10 + sim_below(80),
		.sequential_percent = sim_below(101),
		.hot_percent = sim_below(60),
		.base_percent = sim_chance(40) ? 0 : sim_below(101),
		.priority_percent = sim_chance(50) ? 0 : sim_below(50),
		.read_error_percent = rates[sim_below(5)],
		.write_error_percent = rates[sim_below(5)],
		.short_percent = rates[sim_below(5)],
		.resizes = sim_chance(50) ? sim_below(10) : 0,
		.reopens = sim_chance(30) ? sim_below(4) : 0,
		.forks = sim_chance(30) ? sim_below(4) : 0,
		.syncs = sim_below(10),
		.accesses = sim_below(10),
		.hints = sim_chance(50),
		.holes = sim_chance(60),
	};
	if (sim_chance(50))
		s->pool_frames = 4 + sim_below(6); /* short of memory */
}

/*
 * Whoever holds memory when the power fails is gone, so all of it belongs to
 * the world.
 */
void *world_alloc(size_t bytes)
{
	size_t all = (bytes + 64 + 63) & ~(size_t)63;
	struct memory *memory = aligned_alloc(64, all);

	memset(memory, 0, all);
	memory->next = w.memory;
	w.memory = memory;
	return (char *)memory + 64;
}

static void free_memory(void)
{
	struct memory *memory;

	while ((memory = w.memory)) {
		w.memory = memory->next;
		free(memory);
	}
}

/* A new cache over the files, as after a boot; all of them new, if fresh. */
void world_new(u64 seed, bool fresh)
{
	struct file files[MAX_FILES];
	u32 version = w.version, i, p;
	u64 counts[16];

	memcpy(files, w.files, sizeof(files));
	memcpy(counts, w.counts, sizeof(counts));
	free_memory();
	memset(&w, 0, sizeof(w));
	choose_scenario(&w.s);
	if (fresh) {
		memset(files, 0, sizeof(files));
		memset(counts, 0, sizeof(counts));
		version = 0;
	}
	(void)seed;
	memcpy(w.files, files, sizeof(files));
	memcpy(w.counts, counts, sizeof(counts));
	w.version = version;
	hm_options_init(&w.opts);
	w.opts.pool_frames = w.s.pool_frames;
	w.opts.cpus = w.s.cpus;
	w.opts.evict_batch = w.s.evict_batch;
	w.opts.free_target = 1 + sim_below(w.s.pool_frames / 4);
	w.opts.dirty_ratio = 10 + sim_below(85);
	w.opts.dirty_expire_ms = sim_chance(50) ? 0 : 1 + sim_below(5000);
	w.opts.readahead_kb = sim_chance(30) ? 0 : (1 + sim_below(8)) * (HM_BLOCK_SIZE >> 10);
	w.opts.readahead_base_kb = sim_chance(30) ? 0 : (1 + sim_below(8)) * 4;
	sim_check(!hm_options_check(&w.opts), "options are refused: %s", hm_options_check(&w.opts));
	w.cache = hm_cache_init(world_alloc(hm_cache_bytes(&w.opts)), &w.opts);
	w.places = world_alloc(w.opts.pool_frames * (1 + HM_BLOCK_PAGES) * sizeof(*w.places));
	w.now_ms = 1;
	hm_cache_tick(w.cache, w.now_ms);
	for (i = 0; i < w.s.nfiles; i++) {
		struct store *store = &w.stores[i];

		store->index = i;
		store->file = &w.files[i];
		if (fresh || !store->file->size) {
			store->file->size =
				(u64)w.s.npages * HM_PAGE_SIZE - sim_below(HM_PAGE_SIZE);
			for (p = 0; p < MAX_PAGES; p++)
				store->file->page[p].hole = w.s.holes;
		}
		store->file->bad_read = MAX_PAGES;
		for (p = 0; p < MAX_PAGES; p++) {
			store->model[p].latest = store->file->page[p].value;
			store->model[p].durable = store->file->page[p].value;
		}
		open_store(store);
	}
}

void actors_spawn(void)
{
	u32 i;

	sched_start(w.s.switch_every, w.s.stall_every, w.s.cpus);
	for (i = 0; i < w.s.programs; i++)
		sched_spawn("program", program, (void *)(uintptr_t)i);
	sched_spawn("disturber", disturber, NULL);
	sched_spawn("clock", clock_main, NULL);
	sched_spawn("reclaim", engine_reclaim, NULL);
	sched_spawn("writer", engine_write_back, NULL);
	sched_spawn("jobs", engine_run_jobs, NULL);
	sched_spawn("complete", engine_complete, NULL);
	sched_spawn("complete", engine_complete, NULL);
	sched_spawn("device", device_main, NULL);
}
