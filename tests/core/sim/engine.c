// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The simulated engine: the same protocol as user/fault.c, fill.c, evict.c,
 * write.c, sync.c and stream.c.
 */
#include "world.h"

static u64 end_of_file(const struct store *store)
{
	return file_pages(store->file);
}

/* --- operations -------------------------------------------------------------------- */

struct op *engine_take_op(u32 spare)
{
	u32 free = 0, i;
	struct op *op = NULL;

	for (i = 0; i < MAX_OPS; i++) {
		if (w.op[i].used)
			continue;
		op = &w.op[i];
		free++;
	}
	if (free <= spare)
		return NULL;
	*op = (struct op){ .used = true, .finished = true, .claimed = true };
	return op;
}

static void submit(struct op *op)
{
	op->fails =
		sim_chance(op->type == OP_READ ? w.s.read_error_percent : w.s.write_error_percent);
	op->ends_short = sim_chance(w.s.short_percent);
	if (op->fails)
		w.counts[C_ERRORS]++;
	op->claimed = false;
	op->finished = false;
}

static void add_frames(struct op *op, const struct hm_unit *unit)
{
	u32 at = content_of(unit->frame), i;

	for (i = 0; i < unit->npages; i++)
		op->frame[op->npages++] = at + i;
	op->unit[op->units++] = *unit;
}

static bool start_read(struct store *store, const struct hm_unit *unit, bool demand, bool write)
{
	struct op *op = engine_take_op(demand ? 0 : MAX_OPS / 8);

	if (!op)
		return false;
	op->type = OP_READ;
	op->store = store;
	op->pgoff = unit->pgoff;
	op->demand = demand;
	op->demand_write = write;
	add_frames(op, unit);
	op->limit = op->npages;
	store->ops++;
	submit(op);
	return true;
}

/* --- faults ---------------------------------------------------------------------------- */

void engine_add_node(struct store *store, u64 pgoff, enum hm_node_kind kind)
{
	size_t bytes = (hm_node_bytes(kind) + 63) & ~(size_t)63;
	unsigned long hollow[HM_BITMAP_LONGS(HM_NODE_SLOTS)] = { 0 };
	void *mem = world_alloc(bytes);
	u64 start = hm_leaf_start(pgoff), i;

	for (i = 0; i < HM_NODE_SLOTS; i++) {
		u64 page = start + i * HM_BLOCK_PAGES;

		if (page < MAX_PAGES && device_block_is_hole(store->file, page))
			hollow[i / 64] |= 1ul << (i % 64);
	}
	hm_store_add_node(store->core, pgoff, kind, mem, kind == HM_NODE_LEAF ? hollow : NULL,
			  NULL);
}

static bool must_protect(struct store *store, const struct hm_unit *unit)
{
	struct hm_unit now;

	return hm_peek(store->core, unit->pgoff, &now) != HM_DIRTY;
}

static void unprotect(struct store *store, const struct hm_unit *unit)
{
	u64 i;

	for (i = unit->pgoff; i < unit->pgoff + unit->npages; i++)
		store->pte[i].writable = store->pte[i].present;
}

/* The block lock is held, and the core has said HIT under it. */
static void serve_hit(struct store *store, const struct hm_unit *unit, bool write)
{
	if (!place_of(unit)->mapped)
		page_install(store, unit, must_protect(store, unit));
	else if (write)
		unprotect(store, unit);
}

static bool is_hollow(struct store *store, const struct hm_unit *unit)
{
	u64 i;

	for (i = unit->pgoff; i < unit->pgoff + unit->npages; i++)
		if (i < end_of_file(store) && !store->file->page[i].hole)
			return false;
	return true;
}

static void fill_zero(const struct hm_unit *unit)
{
	u32 at = content_of(unit->frame);

	memset(&w.content[at], 0, unit->npages * sizeof(w.content[0]));
}

static void add_job(const struct job *job)
{
	if (w.njobs < MAX_JOBS)
		w.job[w.njobs++] = *job;
	else if (!job->behind)
		hm_readahead_stopped(job->store->core, &job->plan, job->pos);
}

static void take_hints(struct store *store, const struct hm_unit *unit, u64 page, u32 access)
{
	struct job job = { .store = store };

	if (!(unit->hints & HM_HINT_READAHEAD) ||
	    !hm_readahead(store->core, page, access, &job.plan))
		return;
	sim_check(job.plan.start <= job.plan.end, "a plan ends before it starts");
	job.pos = job.plan.start;
	if (job.plan.end > job.plan.start)
		add_job(&job);
	job.behind = true;
	job.pos = job.plan.behind_start;
	if (job.plan.behind_end > job.plan.behind_start)
		add_job(&job);
}

/* HM_ZERO is believed only if the file still has no data there. */
static enum hm_outcome ask(struct store *store, u64 page, u32 access, struct hm_unit *unit)
{
	enum hm_outcome outcome;

	while ((outcome = hm_fault(store->core, page, access, unit)) == HM_NO_NODE)
		engine_add_node(store, page, (enum hm_node_kind)unit->err);
	if (outcome == HM_ZERO && !is_hollow(store, unit)) {
		hm_store_set_hollow(store->core, page & ~(u64)(HM_BLOCK_PAGES - 1), HM_BLOCK_PAGES,
				    false);
		outcome = HM_FILL;
	}
	return outcome;
}

enum served {
	SERVED,
	LATER,
	NO_FRAME,
	BUS
};

static enum served serve(struct store *store, u64 page, u32 access, struct hm_unit *unit,
			 enum hm_outcome *outcome, bool *waits)
{
	bool write = access & HM_ACCESS_WRITE;

	*outcome = ask(store, page, access, unit);
	switch (*outcome) {
	case HM_HIT:
		serve_hit(store, unit, write);
		return SERVED;
	case HM_FILL:
		*waits = start_read(store, unit, true, write);
		if (*waits)
			return SERVED;
		if (hm_fill_cancel(unit))
			page_wake(store, unit->pgoff, unit->npages);
		return LATER;
	case HM_ZERO:
		fill_zero(unit);
		if (hm_fill_done(unit, 0, write ? HM_FILL_DIRTY : 0))
			page_wake(store, unit->pgoff, unit->npages);
		serve_hit(store, unit, write);
		return SERVED;
	case HM_BUSY:
		*waits = true;
		return SERVED;
	case HM_NO_FRAME:
		return NO_FRAME;
	case HM_BEYOND:
		sim_check(page >= end_of_file(store), "a page of the file is said to be beyond");
		return BUS;
	case HM_ERROR:
		sim_check(unit->err == -5, "a read failed with %d", unit->err);
		return BUS;
	default:
		sim_fail(__FILE__, __LINE__, "outcome %d", *outcome);
	}
}

static enum served fault(struct store *store, u64 page, u32 access)
{
	struct hm_unit unit = { .npages = 1 };
	enum hm_outcome outcome;
	enum served served;
	bool waits = false;

	/* A thread in a fault can be woken from the moment that it faults. */
	sim_prepare(store, page);
	sim_read_lock(&w.maps);
	if (store->resizing) {
		sim_read_unlock(&w.maps);
		sim_yield();
		return LATER;
	}
	sim_lock(block_lock(store, page));
	served = serve(store, page, access, &unit, &outcome, &waits);
	sim_unlock(block_lock(store, page));
	if (outcome != HM_BEYOND && outcome != HM_NO_FRAME)
		take_hints(store, &unit, page, access);
	if (served == NO_FRAME && !engine_evict(unit.npages == 1 ? HM_BASE : HM_HUGE)) {
		w.pressed = true;
		served = LATER;
	}
	sim_read_unlock(&w.maps);
	if (waits) {
		sim_note("waits for page %llu of file %u, %s", (unsigned long long)page,
			 store->index, outcome == HM_BUSY ? "busy" : "read");
		sim_sleep();
		return LATER;
	}
	return served == NO_FRAME ? LATER : served;
}

/* A load or a store of a program, with all the faults that it takes. */
enum touch engine_touch(struct store *store, u64 page, bool write, u32 access)
{
	u32 tries;

	for (tries = 0;; tries++) {
		const struct pte *pte = &store->pte[page];

		if (pte->present && (pte->writable || !write)) {
			if (write)
				model_store(store, page, pte->at);
			else
				model_load(store, page, w.content[pte->at]);
			sim_progress();
			return TOUCHED;
		}
		if (fault(store, page, access | (write ? HM_ACCESS_WRITE : 0)) == BUS)
			return TOUCH_BUS;
		sim_check(tries < 100000, "a fault on page %llu is never served",
			  (unsigned long long)page);
		sim_yield();
	}
}

/* --- eviction ---------------------------------------------------------------------------- */

static struct store *store_of(const struct hm_store *core)
{
	u32 i = 0;

	while (w.stores[i].core != core)
		i++;
	return &w.stores[i];
}

static void check_victims(const struct hm_victim *v, u32 n)
{
	u32 i;

	for (i = 1; i < n; i++)
		sim_check(v[i - 1].unit.store != v[i].unit.store ||
				  v[i - 1].unit.pgoff < v[i].unit.pgoff,
			  "victims are not sorted");
}

static bool take_away(const struct hm_victim *victim)
{
	struct store *store = store_of(victim->unit.store);
	const struct hm_unit *unit = &victim->unit;
	enum hm_evict_result result = HM_EVICTED;
	struct hm_unit now;

	sim_lock(block_lock(store, unit->pgoff));
	if (victim->evict) {
		if (place_of(unit)->stored)
			result = HM_EVICT_DIRTY;
		else if (sim_chance(3))
			result = HM_EVICT_BUSY; /* pinned */
		else
			page_remove(store, unit);
		place_of(unit)->stored = false;
		sim_note("evict %llu+%u of file %u: %d", (unsigned long long)unit->pgoff,
			 unit->npages, store->index, result);
		if (hm_evict_done(unit, result))
			page_wake(store, unit->pgoff, unit->npages);
	} else if (hm_peek(store->core, unit->pgoff, &now) == HM_CLEAN &&
		   now.frame == unit->frame && !hm_referenced(store->core, unit->pgoff)) {
		page_remove(store, unit);
	}
	sim_unlock(block_lock(store, unit->pgoff));
	return victim->evict && result == HM_EVICTED;
}

/* Returns true if a frame was freed; the maps lock is held for reading. */
bool engine_evict(enum hm_kind kind)
{
	struct hm_victim victims[16];
	u32 round, freed = 0, n, i;

	for (round = 0; round < 3 && !freed; round++) {
		n = hm_reclaim(w.cache, kind, w.s.evict_batch, victims, 16);
		if (!n)
			break;
		check_victims(victims, n);
		for (i = 0; i < n; i++)
			freed += take_away(&victims[i]);
	}
	return freed;
}

void engine_reclaim(void *arg)
{
	(void)arg;
	for (;;) {
		enum hm_kind kind = sim_chance(50) ? HM_HUGE : HM_BASE;

		sim_read_lock(&w.maps);
		if (hm_reclaim_want(w.cache, kind) && sim_chance(30))
			engine_evict(kind);
		sim_read_unlock(&w.maps);
		sim_yield();
	}
}

/* --- writing -------------------------------------------------------------------------------- */

static void collect(struct op *op, u64 pgoff)
{
	struct store *store = op->store;
	struct hm_unit unit;
	u64 i;

	sim_lock(block_lock(store, pgoff));
	sim_check(hm_peek(store->core, pgoff, &unit) == HM_WRITING, "a run holds another state");
	add_frames(op, &unit);
	for (i = pgoff; i < pgoff + unit.npages; i++)
		store->pte[i].writable = false;
	sim_unlock(block_lock(store, pgoff));
}

static bool nothing_to_write(const struct op *op)
{
	u32 i;

	for (i = 0; i < op->units; i++)
		if (!hm_hollow(op->store->core, op->unit[i].pgoff))
			return false;
	for (i = 0; i < op->npages; i++)
		if (w.content[op->frame[i]])
			return false;
	return true;
}

static void write_finish(struct op *op, int err)
{
	struct store *store = op->store;
	u32 told[2];

	sim_note("wrote %llu+%u of file %u: %d", (unsigned long long)op->pgoff, op->npages,
		 store->index, err);
	if (err < 0)
		model_write_fails(store, told);
	hm_writeback_done(store->core, op->pgoff, op->npages, err);
	if (err < 0)
		model_write_failed(store, told, op->fresh);
	if (op->sync_ops) {
		--*op->sync_ops;
		if (err < 0)
			*op->sync_err = err;
	}
	store->ops--;
	op->used = false;
	sim_progress();
}

enum hm_wb engine_write(struct store *store, u64 *pos, u64 end, bool wait, u32 *ops, int *err)
{
	enum hm_wb got;
	struct hm_run run;
	struct op *op;
	u64 at;

	op = engine_take_op(0);
	if (!op)
		return HM_WB_BUSY;
	got = hm_writeback(store->core, pos, end, HM_BLOCK_PAGES, wait, &run);
	if (got != HM_WB_RUN) {
		op->used = false;
		return got;
	}
	op->type = OP_WRITE;
	op->store = store;
	op->pgoff = run.pgoff;
	op->sync_ops = ops;
	op->sync_err = err;
	store->ops++;
	if (ops)
		++*ops;
	for (at = run.pgoff; at < run.pgoff + run.npages; at = op->pgoff + op->npages)
		collect(op, at);
	sim_check(op->npages == run.npages, "a run is longer than its units");
	op->fresh = model_write_starts(store, op->pgoff, op->npages);
	op->limit = 0;
	if (op->pgoff < end_of_file(store))
		op->limit = (u32)(end_of_file(store) - op->pgoff);
	if (op->limit > op->npages)
		op->limit = op->npages;
	if (!op->limit || nothing_to_write(op))
		write_finish(op, HM_WB_UNCHANGED);
	else if (!ops && sim_chance(2))
		write_finish(op, HM_WB_AGAIN);
	else
		submit(op);
	return got;
}

void engine_write_back(void *arg)
{
	(void)arg;
	for (;;) {
		struct hm_store *core;
		bool expired, pressed;
		struct store *store;

		sim_yield();
		if (sim_chance(80))
			continue;
		sim_read_lock(&w.maps);
		pressed = w.pressed;
		core = hm_writeback_pick(w.cache, &expired);
		store = core ? store_of(core) : &w.stores[sim_below(w.s.nfiles)];
		if ((core || pressed || sim_chance(2)) &&
		    engine_write(store, &store->wb_pos, ~0ull, false, NULL, NULL) == HM_WB_DONE) {
			store->wb_pos = 0;
			w.pressed = false;
		}
		sim_read_unlock(&w.maps);
	}
}

/* Write what is dirty in a range and wait for it: the errno of a failed write. */
int engine_sync(struct store *store, u64 pos, u64 end)
{
	bool walked = false;
	u32 ops = 0;
	int err = 0;

	page_wait_for_windows();
	while (!walked || ops) {
		sim_read_lock(&w.maps);
		if (!walked && engine_write(store, &pos, end, true, &ops, &err) == HM_WB_DONE)
			walked = true;
		sim_read_unlock(&w.maps);
		sim_yield();
	}
	return err;
}

/* --- completion ------------------------------------------------------------------------------- */

static void read_finish(struct op *op)
{
	struct store *store = op->store;
	int err = op->fails ? -5 : 0;
	u32 flags = 0, i;

	sim_lock(block_lock(store, op->pgoff));
	if (op->demand)
		flags = HM_FILL_WAITED | (op->demand_write && !err ? HM_FILL_DIRTY : 0);
	for (i = 0; i < op->units; i++) {
		struct hm_unit *unit = &op->unit[i];
		bool waited;

		if (err && op->units > 1)
			waited = hm_fill_cancel(unit);
		else
			waited = hm_fill_done(unit, err, flags);
		if (op->demand && !err)
			serve_hit(store, unit, op->demand_write);
		if (waited || op->demand)
			page_wake(store, unit->pgoff, unit->npages);
	}
	sim_unlock(block_lock(store, op->pgoff));
	store->ops--;
	op->used = false;
	sim_progress();
}

static void complete(struct op *op)
{
	if (!op->fails && op->done < op->limit) {
		op->ends_short = sim_chance(w.s.short_percent);
		op->claimed = false;
		op->finished = false; /* short: go on */
		return;
	}
	if (op->type == OP_READ)
		read_finish(op);
	else
		write_finish(op, op->fails ? -5 : 0);
}

/* Any operation that has ended and that nobody deals with yet. */
static struct op *any_finished(void)
{
	u32 start = sim_below(MAX_OPS), i;

	for (i = 0; i < MAX_OPS; i++) {
		struct op *op = &w.op[(start + i) % MAX_OPS];

		if (op->used && op->finished && !op->claimed)
			return op;
	}
	return NULL;
}

void engine_complete(void *arg)
{
	(void)arg;
	for (;;) {
		struct op *op;

		sim_yield();
		sim_read_lock(&w.maps);
		op = any_finished();
		if (op) {
			op->claimed = true;
			complete(op);
		}
		sim_read_unlock(&w.maps);
	}
}

/* --- read-ahead --------------------------------------------------------------- */

/* Returns false if the job has to wait, or sets *stop. */
static bool bring_in(struct job *job, bool *stop)
{
	struct store *store = job->store;
	bool write = job->plan.access & HM_ACCESS_WRITE;
	bool mark = job->pos == job->plan.mark;
	u32 access = job->plan.access | HM_ACCESS_AHEAD;
	enum hm_outcome outcome;
	struct hm_unit unit;
	bool good = true;

	access &= ~(u32)HM_ACCESS_WRITE;
	if (mark)
		access |= HM_ACCESS_MARK;
	sim_lock(block_lock(store, job->pos));
	outcome = ask(store, job->pos, access, &unit);
	switch (outcome) {
	case HM_FILL:
		if (start_read(store, &unit, false, false))
			break;
		if (hm_fill_cancel(&unit))
			page_wake(store, unit.pgoff, unit.npages);
		good = false;
		break;
	case HM_ZERO:
		fill_zero(&unit);
		if (hm_fill_done(&unit, 0, write && !mark ? HM_FILL_DIRTY : 0))
			page_wake(store, unit.pgoff, unit.npages);
		/* As in user/stream.c: ahead of a writer it is mapped at once. */
		if (write)
			page_install(store, &unit, must_protect(store, &unit));
		break;
	case HM_HIT:
	case HM_BUSY:
		break;
	case HM_NO_FRAME:
		good = false;
		*stop = sim_chance(30);
		break;
	default:
		*stop = true;
	}
	sim_unlock(block_lock(store, job->pos));
	if (good && !*stop)
		job->pos = unit.pgoff + unit.npages;
	return good;
}

static bool run_ahead(struct job *job)
{
	bool stop = false;

	while (job->pos < job->plan.end && !stop)
		if (!bring_in(job, &stop) && !stop)
			return false;
	if (stop)
		hm_readahead_stopped(job->store->core, &job->plan, job->pos);
	return true;
}

static bool run_behind(struct job *job)
{
	while (job->pos < job->plan.behind_end) {
		switch (engine_write(job->store, &job->pos, job->plan.behind_end, false, NULL,
				     NULL)) {
		case HM_WB_DONE:
			return true;
		case HM_WB_BUSY:
			return false; /* no operation is free */
		case HM_WB_RUN:
			break;
		}
	}
	return true;
}

void engine_run_jobs(void *arg)
{
	(void)arg;
	for (;;) {
		struct job job;
		bool over;

		sim_yield();
		if (!w.njobs)
			continue;
		sim_read_lock(&w.maps);
		if (w.njobs && !w.job[0].store->resizing) {
			job = w.job[0];
			w.njobs--;
			memmove(w.job, w.job + 1, w.njobs * sizeof(job));
			over = job.behind ? run_behind(&job) : run_ahead(&job);
			if (!over)
				add_job(&job);
		}
		sim_read_unlock(&w.maps);
	}
}

/* --- taking away, for truncation; the maps lock is held for writing --------- */

bool engine_drop(struct store *store, u64 pos, u64 end, bool discard)
{
	bool all = true;

	while (pos < end) {
		struct hm_unit unit;

		switch (hm_invalidate(store->core, &pos, end, discard, &unit)) {
		case HM_INV_DONE:
			return all;
		case HM_INV_BUSY:
			all = false;
			pos++;
			break;
		case HM_INV_UNIT:
			page_remove(store, &unit);
			if (hm_evict_done(&unit, HM_EVICT_DISCARD))
				page_wake(store, unit.pgoff, unit.npages);
			break;
		}
	}
	return all;
}
