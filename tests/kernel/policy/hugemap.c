// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The cache under a trace, with an engine that carries out its decisions like kernel/data,
 * but without data: page tables have three bits per page and one per block, I/O only counts,
 * and background work is done between two accesses. Accesses and I/O advance the clock.
 */
#include <stdlib.h>
#include <string.h>

#include "policy.h"

#define MAX_VICTIMS 128u
#define ROUNDS 256u
#define AROUND 8u /* cached pages that a read fault also maps on each side */
#define NS_ACCESS 1000ull
#define NS_IO 80000ull
#define NS_PAGE 2000ull
#define MERGED_PAGES 4u /* most clean pages between two dirty parts of one write */

/* Bits of a page table. */
#define MAPPED 1u
#define WRITABLE 2u
#define LARGE 4u

struct engine {
	struct hm_cache *cache;
	struct hm_file *file;
	const struct trace *trace;
	u8 *table; /* page table bits of each page */
	u8 *paged; /* for each block: a page table maps it, and nothing frees that table */
	enum hm_size size;
	u64 ns, ticked; /* the time, and the time of the last background work */
	bool second, promote, reclaim;
	struct result r;
};

static void *zeroed(size_t size)
{
	void *mem = aligned_alloc(64, (size + 63) & ~(size_t)63);

	if (!mem)
		abort();
	return memset(mem, 0, (size + 63) & ~(size_t)63);
}

/* Count one I/O. @waits: the access waits for it. */
static void io(struct engine *e, u64 pages, bool store, bool waits)
{
	if (store) {
		e->r.written += pages;
	} else {
		e->r.read += pages;
		if (e->second)
			e->r.read_second += pages;
	}
	if (waits)
		e->ns += NS_IO + pages * NS_PAGE;
}

static void unmap(struct engine *e, u64 pgoff, u32 npages)
{
	memset(e->table + pgoff, 0, npages);
}

/* --- evict.c ----------------------------------------------------------------------- */

static u32 evict_batch(struct engine *e, enum hm_kind kind, u32 *chosen)
{
	struct hm_victim victim[MAX_VICTIMS];
	u32 want = hm_cache_options(e->cache)->evict_batch, freed = 0, i;

	*chosen = hm_reclaim(e->cache, kind, want, victim, MAX_VICTIMS);
	for (i = 0; i < *chosen; i++) {
		struct hm_unit *unit = &victim[i].unit;

		if (!victim[i].evict && hm_referenced(e->file, unit->pgoff))
			continue;
		unmap(e, unit->pgoff, unit->npages);
		if (victim[i].to != HM_NO_FRAME_ID) {
			hm_move_done(unit, victim[i].to, true);
		} else if (victim[i].evict) {
			hm_evict_done(unit, HM_EVICTED);
			freed++;
		}
	}
	return freed;
}

static bool evict_some(struct engine *e, enum hm_kind kind)
{
	u32 round, chosen = 1;

	for (round = 0; round < ROUNDS && chosen; round++) {
		if (evict_batch(e, kind, &chosen))
			return true;
	}
	return false;
}

static void evict_ahead(struct engine *e)
{
	bool some;
	u32 kind;

	e->reclaim = false;
	do {
		some = false;
		for (kind = 0; kind < HM_KINDS; kind++)
			some |= hm_reclaim_want(e->cache, (enum hm_kind)kind) &&
				evict_some(e, (enum hm_kind)kind);
	} while (some);
}

/* --- writeback.c ---------------------------------------------------------------------- */

static void protect(struct engine *e, u64 pgoff, u32 npages)
{
	while (npages--)
		e->table[pgoff++] &= (u8)~WRITABLE;
}

/*
 * The number of pages to write for a run. If only a few parts of a huge unit are dirty, write only
 * those.
 */
static u64 pages_of(struct engine *e, const struct hm_run *run)
{
	unsigned long pages[HM_BITMAP_LONGS(HM_BLOCK_PAGES)];
	u32 written = 0, end = 0, i;
	struct hm_unit unit;

	if (run->kind == HM_BASE || e->size != HM_SIZE_AUTO)
		return run->npages;
	hm_peek(e->file, run->pgoff, &unit);
	hm_writeback_pages(&unit, false, pages);
	for (i = 0; i < HM_BLOCK_PAGES; i++) {
		if (!(pages[i / HM_BITS_PER_LONG] >> i % HM_BITS_PER_LONG & 1))
			continue;
		written += end && i - end <= MERGED_PAGES ? i - end + 1 : 1;
		end = i + 1;
	}
	return written > HM_BLOCK_PAGES / 2 ? run->npages : written;
}

static void write_back(struct engine *e, u64 pos, u64 end)
{
	struct hm_run run;

	while (hm_writeback(e->file, &pos, end, 256, true, &run) == HM_WB_RUN) {
		protect(e, run.pgoff, run.npages);
		io(e, pages_of(e, &run), true, false);
		hm_writeback_done(e->file, run.pgoff, run.npages, 0);
	}
}

static void wait_frame(struct engine *e, enum hm_kind kind)
{
	if (!evict_some(e, kind))
		write_back(e, 0, ~0ull);
}

/* --- fill.c -------------------------------------------------------------------------------- */

static enum hm_outcome get_unit(struct engine *e, u64 page, struct hm_access access,
				struct hm_unit *unit)
{
	enum hm_outcome out;

	while ((out = hm_fault(e->file, page, access, unit)) == HM_NO_NODE) {
		void *mem = zeroed(hm_node_bytes((enum hm_node_kind)unit->err));

		hm_file_add_node(e->file, page, (enum hm_node_kind)unit->err, mem,
				 hm_file_size(e->file), NULL, NULL);
	}
	return out;
}

static void read_ahead(struct engine *e, u64 page, struct hm_access access)
{
	struct hm_plan plan;
	struct hm_unit unit;
	u64 at;

	if (!hm_readahead(e->file, page, access, &plan))
		return;
	if (plan.behind_end > plan.behind_start)
		write_back(e, plan.behind_start, plan.behind_end);
	access = plan.access;
	access.write = false;
	access.ahead = true;
	for (at = plan.start; at < plan.end; at = unit.pgoff + unit.npages) {
		enum hm_outcome out;

		access.mark = at == plan.mark;
		out = get_unit(e, at, access, &unit);
		if (out == HM_FILL) {
			io(e, unit.npages, false, false);
			hm_fill_done(&unit, 0, false);
		} else if (out != HM_HIT) {
			hm_readahead_stopped(e->file, &plan, at);
			e->reclaim = true;
			break;
		}
	}
}

/* --- promote.c ------------------------------------------------------------------------------ */

static void promote(struct engine *e)
{
	struct hm_promotion p;
	enum hm_promote_result why;
	struct hm_unit page;
	u32 at;

	e->promote = false;
	while (hm_promote_pick(e->cache, &p)) {
		why = hm_promote_begin(&p, false);
		if (why == HM_PROMOTE_NO_FRAME)
			evict_some(e, HM_HUGE);
		if (why)
			continue;
		io(e, p.nmissing, false, false);
		e->r.beyond_all += p.nmissing;
		/* A stream will read the missing pages anyway, so they do not count. */
		if (!p.stream && p.nmissing > e->r.beyond)
			e->r.beyond = p.nmissing;
		for (at = 0; hm_promote_copy(&p, &at, &page);)
			;
		why = hm_promote_claim(&p);
		if (why) {
			hm_promote_abort(&p, why);
			continue;
		}
		unmap(e, p.unit.pgoff, HM_BLOCK_PAGES);
		hm_promote_commit(&p);
	}
}

/* --- fault.c ---------------------------------------------------------------------------------- */

/*
 * Map the unit, and the cached pages around it. After one page of a block was mapped, the block has
 * a page table, and mm never maps that block by one entry again. A store to a block that is
 * dirty as a whole maps all of its pages by that table.
 */
static void map(struct engine *e, u64 page, bool store, const struct hm_unit *unit)
{
	u64 first = page & ~(u64)(2 * AROUND - 1), last = first + 2 * AROUND - 1, i;
	struct hm_unit row;
	u8 *paged = &e->paged[page / HM_BLOCK_PAGES];
	bool whole = unit->npages > 1, part = unit->hints & HM_HINT_PARTIAL;

	if (part && !*paged)
		unmap(e, unit->pgoff, unit->npages);
	if (!whole || part)
		*paged = 1;
	if (whole && !part && *paged && store && !e->table[page]) {
		memset(e->table + unit->pgoff, MAPPED | WRITABLE, unit->npages);
		return;
	}
	if (whole && !*paged) {
		memset(e->table + unit->pgoff, MAPPED | LARGE | (store ? WRITABLE : 0),
		       unit->npages);
		return;
	}
	e->table[page] |= MAPPED | (store ? WRITABLE : 0);
	if (store || !hm_fault_around(e->file, page, &first, &last, &row))
		return;
	for (i = first; i <= last && i < e->trace->pages; i++)
		e->table[i] |= MAPPED;
}

static void fault(struct engine *e, u64 page, bool store)
{
	bool parts = e->size == HM_SIZE_AUTO;
	struct hm_access access =
		HM_ACCESS(.size = e->size, .write = store, .npages = store && parts);
	u32 tries = 0;
	struct hm_unit unit;
	bool waited = false;

	e->r.faults++;
	for (;;) {
		enum hm_outcome out = get_unit(e, page, access, &unit);

		e->promote |= unit.hints & HM_HINT_PROMOTE;
		if (out == HM_NO_FRAME) {
			if (++tries > 10000)
				abort();
			wait_frame(e, unit.npages == 1 ? HM_BASE : HM_HUGE);
			continue;
		}
		if (out == HM_FILL) {
			waited = true;
			io(e, unit.npages, false, true);
			hm_fill_done(&unit, 0, store && !parts);
		} else if (out != HM_HIT) {
			abort();
		}
		e->reclaim |= unit.hints & HM_HINT_RECLAIM;
		if (unit.hints & HM_HINT_READAHEAD)
			read_ahead(e, page, access);
		if (unit.hints & HM_HINT_WRITEBACK)
			write_back(e, 0, ~0ull);
		if (out == HM_HIT)
			break;
		access.again = true;
	}
	e->r.hits += !waited;
	map(e, page, store, &unit);
}

static void background(struct engine *e)
{
	bool expired;

	hm_cache_tick(e->cache, e->ns / 1000000);
	if (hm_writeback_pick(e->cache, NULL, &expired))
		write_back(e, 0, ~0ull);
	promote(e);
	e->ticked = e->ns;
}

static u64 cached(struct engine *e)
{
	u64 all = 0, pgoff = 0;
	struct hm_unit unit;

	while (pgoff < e->trace->pages) {
		enum hm_state state = hm_peek(e->file, pgoff, &unit);

		if (state == HM_CLEAN || state == HM_DIRTY)
			all += unit.npages;
		pgoff = unit.pgoff + unit.npages;
	}
	return all;
}

static void end(struct engine *e)
{
	enum hm_invalidated inv;
	struct hm_unit unit;
	void *node;
	u64 pos = 0;

	while ((inv = hm_invalidate(e->file, &pos, ~0ull, true, &unit)) != HM_INV_DONE) {
		if (inv == HM_INV_BUSY)
			abort();
		if (inv == HM_INV_UNIT)
			hm_evict_done(&unit, HM_EVICT_DISCARD);
	}
	hm_file_destroy(e->file);
	while ((node = hm_file_take_node(e->file)))
		free(node);
	free(e->file);
	free(e->cache);
	free(e->table);
	free(e->paged);
}

struct result run_core(const struct trace *trace, const struct limits *limits, enum hm_size size)
{
	struct engine e = { .trace = trace, .size = size, .ns = 1000000 };
	u64 blocks = (trace->pages + HM_BLOCK_PAGES - 1) / HM_BLOCK_PAGES + 1, at = 0, i;
	struct hm_options opts;

	hm_options_init(&opts);
	opts.pool_frames = limits->frames;
	opts.promote_util = limits->util;
	/* Small pools keep the ratios that the defaults have in large ones. */
	if (opts.evict_batch > limits->frames / 16)
		opts.evict_batch = limits->frames < 32 ? 1 : limits->frames / 16;
	if (opts.readahead_kb > limits->frames / 8 * (HM_BLOCK_SIZE >> 10))
		opts.readahead_kb = limits->frames / 8 * (HM_BLOCK_SIZE >> 10);
	if (hm_options_check(&opts))
		abort();
	e.cache = hm_cache_init(zeroed(hm_cache_bytes(&opts)), &opts);
	/* The last, incomplete block is never huge, so the trace must not use it. */
	e.file = hm_file_init(e.cache, zeroed(hm_file_bytes()),
			      ((blocks - 1) << HM_BLOCK_SHIFT) + HM_PAGE_SIZE);
	e.table = zeroed(blocks * HM_BLOCK_PAGES);
	e.paged = zeroed(blocks);
	background(&e);
	for (i = 0; i < trace->total; i++, at = trace_next(trace, at)) {
		u32 page = trace->access[at] >> 1;
		u8 needed = trace->access[at] & 1 ? MAPPED | WRITABLE : MAPPED;

		e.ns += NS_ACCESS;
		if ((e.table[page] & needed) == needed) {
			e.r.hits++;
		} else {
			e.second = trace->second && i >= trace->second && i < trace->n;
			fault(&e, page, trace->access[at] & 1);
		}
		e.r.huge += e.table[page] / LARGE;
		if (e.reclaim)
			evict_ahead(&e);
		if (e.promote || e.ns - e.ticked > 1000000)
			background(&e);
	}
	e.r.cached = cached(&e);
	write_back(&e, 0, ~0ull);
	e.r.promoted = hm_cache_count(e.cache, HM_C_PROMOTED);
	end(&e);
	return e.r;
}
