// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * What must hold (design: invariants 1 to 6): each load sees the last store;
 * what a sync promised survives a power cut; each descriptor is told once of a
 * failed write; nothing is beyond the end of the file; and, when nothing is
 * under way, the books of the core agree with each other to the last page.
 */
#include "world.h"

#include "internal.h"

void model_store(struct store *store, u64 page, u32 at)
{
	struct model_page *m = &store->model[page];

	sim_check(page < file_pages(store->file), "a store beyond the end of the file");
	w.content[at] = ++w.version;
	m->latest = w.version;
	m->stored = true;
	w.counts[C_STORES]++;
}

void model_load(struct store *store, u64 page, u32 value)
{
	sim_check(page < file_pages(store->file), "a load beyond the end of the file");
	sim_check(value == store->model[page].latest, "page %llu of file %u holds %u, not %u",
		  (unsigned long long)page, store->index, value, store->model[page].latest);
	w.counts[C_LOADS]++;
}

/* Truncated or punched. */
void model_zero(struct store *store, u64 from, u64 to)
{
	u64 i;

	for (i = from; i < to && i < MAX_PAGES; i++) {
		store->model[i].latest = 0;
		store->model[i].zeroed = true;
		device_zero(store->file, i);
	}
}

/*
 * A run is about to be written, and is protected. If the write fails, all
 * descriptors must be told, if one of its units was never tried before, or was
 * stored to since it failed last.
 */
bool model_write_starts(struct store *store, u64 pgoff, u32 npages)
{
	bool fresh = false;
	u32 i;

	for (i = 0; i < npages && pgoff + i < MAX_PAGES; i++) {
		fresh |= store->model[pgoff + i].stored;
		store->model[pgoff + i].stored = false;
	}
	return fresh;
}

/* The core is about to hear of a failure: from now on they may be told. */
void model_write_fails(struct store *store, u32 told[2])
{
	u32 i;

	for (i = 0; i < 2; i++) {
		store->fd[i].may = true;
		told[i] = store->fd[i].told;
	}
}

/* It has heard: now they must be told, unless they were meanwhile. */
void model_write_failed(struct store *store, const u32 told[2], bool fresh)
{
	u32 i;

	for (i = 0; i < 2; i++) {
		store->fd[i].may = true;
		store->fd[i].must |= fresh && store->fd[i].told == told[i];
	}
}

void model_told(struct store *store, struct descriptor *fd, int err)
{
	(void)store;
	sim_check(err || !fd->must, "a failed write is not told");
	sim_check(!err || fd->may, "error %d is told, but no write has failed", err);
	fd->must = fd->may = false;
	fd->told += err != 0;
}

/* What survived is what was promised, or newer. */
void model_after_power_cut(struct file *file, struct model_page *model)
{
	u32 i;

	for (i = 0; i < file_pages(file); i++) {
		const struct model_page *m = &model[i];
		u32 value = file->page[i].value;

		sim_check(value <= m->latest || m->zeroed, "page %u: made-up data survived", i);
		if (value < m->durable && !m->zeroed)
			sim_fail(__FILE__, __LINE__,
				 "page %u: version %u was synced, %u survived the power cut", i,
				 m->durable, value);
	}
}

/* --- the audit ---------------------------------------------------------------------- */

struct audit {
	bool frame_used[MAX_FRAMES * (1 + HM_BLOCK_PAGES)];
	u64 resident, dirty;
};

static void audit_frame(struct audit *a, const struct hm_unit *unit, enum hm_state state)
{
	struct hm_desc *desc = hm_desc_of(w.cache, unit->frame);
	u32 first = content_of(unit->frame), i;

	sim_check(hm_frame_is_base(w.cache, unit->frame) == (unit->npages == 1),
		  "a frame of the wrong size");
	for (i = 0; i < unit->npages; i++) {
		sim_check(!a->frame_used[first + i], "a frame belongs to two units");
		a->frame_used[first + i] = true;
	}
	sim_check(desc->word && desc->pgoff == unit->pgoff, "a frame does not know its unit");
	sim_check(state != HM_CLEAN || hm_queued(desc), "clean page %llu is in no queue",
		  (unsigned long long)unit->pgoff);
}

static void audit_unit(struct audit *a, struct store *store, const struct hm_unit *unit,
		       enum hm_state state)
{
	struct hm_store *core = store->core;
	struct file *file = store->file;
	u64 i, at;

	sim_check(state == HM_CLEAN || state == HM_DIRTY, "page %llu is in state %d at rest",
		  (unsigned long long)unit->pgoff, state);
	sim_check(unit->npages == 1 || unit->pgoff + unit->npages <= file->size >> HM_PAGE_SHIFT,
		  "the block at the end of the file is cached whole");
	audit_frame(a, unit, state);
	a->resident += unit->npages;
	if (state == HM_DIRTY) {
		a->dirty += unit->npages;
		sim_check(hm_dirty_next(core, unit->pgoff, unit->pgoff + unit->npages, &at),
			  "dirty page %llu has no dirty bit", (unsigned long long)unit->pgoff);
	}
	for (i = unit->pgoff; i < unit->pgoff + unit->npages; i++) {
		u32 value = w.content[content_of(unit->frame) + (i - unit->pgoff)];
		const struct pte *pte = &store->pte[i];

		sim_check(value == store->model[i].latest, "cached page %llu holds %u, not %u",
			  (unsigned long long)i, value, store->model[i].latest);
		sim_check(state == HM_DIRTY || value == file->page[i].value,
			  "clean page %llu is not what the device has", (unsigned long long)i);
		sim_check(!pte->writable || state == HM_DIRTY,
			  "stores to clean page %llu would go unseen", (unsigned long long)i);
	}
}

static void audit_store(struct audit *a, struct store *store)
{
	u64 page = 0, dirty = a->dirty;

	while (page < MAX_PAGES) {
		struct hm_unit unit;
		enum hm_state state = hm_peek(store->core, page, &unit);

		if (state == HM_ABSENT || state == HM_FAILED) {
			/* Nothing may be mapped; the file has the data. */
			sim_check(!store->pte[page].present, "page %llu is mapped but absent",
				  (unsigned long long)page);
			if (page < file_pages(store->file))
				sim_check(store->file->page[page].value ==
						  store->model[page].latest,
					  "page %llu was lost", (unsigned long long)page);
			page++;
			continue;
		}
		sim_check(page < file_pages(store->file), "page %llu beyond the end is cached",
			  (unsigned long long)page);
		audit_unit(a, store, &unit, state);
		page = unit.pgoff + unit.npages;
	}
	sim_check(a->dirty - dirty == hm_store_dirty_pages(store->core),
		  "the count of dirty pages of a store is wrong");
}

static void audit_counters(void)
{
	u64 faults = hm_cache_count(w.cache, HM_C_FAULTS);
	u64 parts = hm_cache_count(w.cache, HM_C_HITS) + hm_cache_count(w.cache, HM_C_FILLS) +
		    hm_cache_count(w.cache, HM_C_ZEROS);

	sim_check(parts == faults, "hits, fills and zeros are %llu, faults %llu",
		  (unsigned long long)parts, (unsigned long long)faults);
	sim_check(hm_cache_count(w.cache, HM_C_AHEAD_USED) +
				  hm_cache_count(w.cache, HM_C_AHEAD_WASTED) <=
			  hm_cache_count(w.cache, HM_C_AHEAD),
		  "more was used or wasted than was brought in ahead");
}

/* Free base frames that are handed out to nobody, until their frame is empty. */
static u64 draining_pages(void)
{
	u64 pages = 0;
	u32 i;

	for (i = 0; i < w.opts.pool_frames; i++)
		if (w.cache->carve[i].draining)
			pages += w.cache->carve[i].nfree;
	return pages;
}

void model_audit(void)
{
	u64 free = hm_cache_free_pages(w.cache) + draining_pages();
	struct audit a = { 0 };
	u32 i;

	for (i = 0; i < w.s.nfiles; i++)
		if (w.stores[i].core)
			audit_store(&a, &w.stores[i]);
	sim_check(a.resident + free == (u64)w.opts.pool_frames * HM_BLOCK_PAGES,
		  "%llu pages are cached and %llu free, of %u", (unsigned long long)a.resident,
		  (unsigned long long)free, w.opts.pool_frames * HM_BLOCK_PAGES);
	sim_check(a.dirty == hm_cache_dirty_pages(w.cache), "the count of dirty pages is wrong");
	audit_counters();
	w.counts[C_AUDITS]++;
}
