// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* Folios and their memory: see folio.h. */
#include "world.h"

#define MAX_FOLIOS 1024u

/* A block of memory consists of one folio with all its pages, or of one folio for each page. */
static struct block {
	struct folio folio[HM_BLOCK_PAGES];
	struct page page[HM_BLOCK_PAGES];
} blocks[MAX_FOLIOS];
static u64 memory[MAX_FOLIOS][HM_BLOCK_PAGES * WORDS];
static u32 next_folio;

void folios_forget(void)
{
	u32 i, n;

	for (i = 0; i < MAX_FOLIOS; i++)
		for (n = 0; n < HM_BLOCK_PAGES; n++)
			blocks[i].folio[n].is_free = true;
	for (i = 0; i < MAX_FOLIOS; i++)
		for (n = 0; n < HM_BLOCK_PAGES; n++)
			blocks[i].page[n].broken = false;
}

static struct block *block_of(const struct page *page)
{
	return &blocks[((const char *)page - (const char *)blocks) / sizeof(blocks[0])];
}

static bool block_is_free(const struct block *block)
{
	u32 i;

	for (i = 0; i < HM_BLOCK_PAGES; i++)
		if (!block->folio[i].is_free)
			return false;
	return true;
}

static bool block_is_broken(const struct block *block)
{
	u32 i;

	for (i = 0; i < HM_BLOCK_PAGES; i++)
		if (block->page[i].broken)
			return true;
	return false;
}

/* Poison a page, as after a memory error. */
void folio_break_page(struct page *page)
{
	page->broken = true;
}

/* Initialize the folio that begins at page @i of a block. */
static void new_folio(struct block *block, u32 i, u32 order)
{
	block->folio[i] = (struct folio){ .order = order,
					  .refs.value = 1,
					  .memory = memory[block - blocks] + i * WORDS,
					  .page = &block->page[i] };
}

struct page *alloc_pages_node(int node, gfp_t gfp, u32 order)
{
	u32 not_promoted = w.s.alloc_error_percent, i;
	struct block *block;

	(void)node;
	sim_step();
	memory_pressure(gfp);
	if (!(gfp & __GFP_DIRECT_RECLAIM) || gfp & __GFP_NORETRY)
		not_promoted *= 4;
	if (w.running && sim_chance(not_promoted))
		return NULL;
	/* Take the block that was freed first, to detect a use after free. */
	for (i = 0; i < MAX_FOLIOS; i++) {
		block = &blocks[next_folio++ % MAX_FOLIOS];
		if (block_is_free(block) && !block_is_broken(block))
			break;
	}
	sim_check(block_is_free(block), "the model has no memory left: folios leak");
	new_folio(block, 0, order);
	for (i = 0; i < HM_BLOCK_PAGES; i++)
		block->page[i].folio = &block->folio[0];
	memset(block->folio[0].memory, 0xa5, PMD_SIZE);
	return &block->page[0];
}

void split_page(struct page *page, u32 order)
{
	struct block *block = block_of(page);
	u32 i;

	sim_check(block->folio[0].order == order, "split_page() of a part of a block");
	block->folio[0].order = 0;
	for (i = 1; i < HM_BLOCK_PAGES; i++) {
		new_folio(block, i, 0);
		block->page[i].folio = &block->folio[i];
	}
}

static void free_folio(struct folio *folio)
{
	sim_check(!folio->mapping, "a folio in the page cache was freed");
	sim_check(!folio->mapcount, "a mapped folio was freed");
	sim_check(!folio->lock.held, "a locked folio was freed");
	folio->is_free = true;
	memset(folio->memory, 0xdb, folio_size(folio));
}

void __free_pages(struct page *page, u32 order)
{
	struct block *block = block_of(page);
	u32 i;

	for (i = 1; i < 1u << order; i++) {
		sim_check(!block->folio[i].is_free && !block->folio[i].refs.value,
			  "a block was freed while one of its pages is in use");
		free_folio(&block->folio[i]);
	}
	folio_put(page->folio);
}

void __free_page(struct page *page)
{
	folio_put(page->folio);
}

struct shrinker *hugemap_shrinker_new(void *data, long batch, hugemap_shrink_t *count,
				      hugemap_shrink_t *scan, const char *name)
{
	w.shrinker = (struct shrinker){ data, count, scan };
	return &w.shrinker;
}

void hugemap_shrinker_free(struct shrinker *shrinker)
{
	/* Wait for running scans. */
	while (w.shrinking)
		sim_yield();
	shrinker->scan = NULL;
}

void shrink(gfp_t gfp)
{
	u64 floor = hugemap_pool_floor(&w.mount->opts) >> PMD_SHIFT;
	struct shrink_control sc = { gfp, 1 + sim_lower(2 * HM_BLOCK_PAGES) };
	u64 before = hugemap_pool_slots(w.mount);
	unsigned long freed = 0;

	if (!w.shrinker.scan || current->reclaims)
		return;
	current->reclaims = true;
	w.shrinking++;
	current->reclaimed = 0;
	if (w.shrinker.count(&w.shrinker, &sc) != SHRINK_EMPTY)
		freed = w.shrinker.scan(&w.shrinker, &sc);
	sim_check(current->reclaimed == (freed == SHRINK_STOP ? 0 : freed),
		  "the shrinker accounted %lu pages and returned %lu", current->reclaimed, freed);
	w.shrinking--;
	current->reclaims = false;
	/* A concurrent remount may have changed the size of the pool and its floor. */
	sim_check(hugemap_pool_slots(w.mount) >= min(before, floor) || w.s.pools || w.s.pipes ||
			  w.s.dmas,
		  "the pool has %u slots, below its floor of %llu", hugemap_pool_slots(w.mount),
		  (unsigned long long)floor);
}

void memory_pressure(gfp_t gfp)
{
	if (w.running && gfp & __GFP_DIRECT_RECLAIM && sim_chance(w.s.pressure))
		shrink(gfp);
}

u32 folios_in_use(void)
{
	u32 i, n = 0;

	for (i = 0; i < MAX_FOLIOS; i++)
		n += !block_is_free(&blocks[i]) && !block_is_broken(&blocks[i]);
	return n;
}

void folio_check_alive(const struct folio *folio)
{
	sim_check(!folio->is_free, "a folio of block %u was used after it was freed",
		  (u32)(block_of(folio->page) - blocks));
}

bool memory_is_folios(const void *at)
{
	const char *p = at, *base = (const char *)memory;

	return p >= base && p < base + sizeof(memory);
}

void memory_check(const void *at)
{
	const char *p = at, *base = (const char *)memory;

	if (memory_is_folios(at))
		folio_check_alive(blocks[(size_t)(p - base) / sizeof(memory[0])]
					  .page[(size_t)(p - base) % sizeof(memory[0]) / PAGE_SIZE]
					  .folio);
}

void folio_get(struct folio *folio)
{
	folio_check_alive(folio);
	sim_check(atomic_add_return(1, &folio->refs) > 1, "folio_get() of a frozen folio");
}

void folio_ref_add(struct folio *folio, long n)
{
	folio_check_alive(folio);
	sim_check(atomic_add_return(n, &folio->refs) > 0, "folio_ref_add() of a frozen folio");
}

bool folio_try_get(struct folio *folio)
{
	sim_step();
	if (folio->refs.value <= 0)
		return false;
	folio->refs.value++;
	return true;
}

void folio_put(struct folio *folio)
{
	int left;

	folio_check_alive(folio);
	left = atomic_add_return(-1, &folio->refs);
	sim_check(left >= 0, "folio_put() without a reference");
	if (!left)
		free_folio(folio);
}

int folio_ref_count(const struct folio *folio)
{
	return atomic_read(&folio->refs);
}

bool folio_ref_freeze(struct folio *folio, int count)
{
	sim_step();
	folio_check_alive(folio);
	if (folio->refs.value != count)
		return false;
	folio->refs.value = 0;
	return true;
}

void folio_ref_unfreeze(struct folio *folio, int count)
{
	sim_check(!folio->refs.value, "folio_ref_unfreeze() of a folio that is not frozen");
	sim_step();
	folio->refs.value = count;
}

void folio_lock(struct folio *folio)
{
	folio_check_alive(folio);
	sim_check(!current->in_srcu || !folio->mapping,
		  "a task waits for a cached folio in a section of SRCU");
	sim_lock(&folio->lock);
	folio_check_alive(folio);
}

bool folio_trylock(struct folio *folio)
{
	sim_step();
	if (folio->lock.held)
		return false;
	folio->lock.held = true;
	return true;
}

void folio_unlock(struct folio *folio)
{
	folio_check_alive(folio);
	sim_unlock(&folio->lock);
}

void folio_mark_dirty(struct folio *folio)
{
	struct address_space *mapping = smp_load_acquire(&folio->mapping);

	if (mapping)
		mapping->a_ops->dirty_folio(mapping, folio);
}

void *folio_address(struct folio *folio)
{
	folio_check_alive(folio);
	return folio->memory;
}

void folio_zero_range(struct folio *folio, size_t start, size_t length)
{
	size_t at;

	for (at = start; at < start + length; at += sizeof(u64)) {
		folio_check_alive(folio);
		folio->memory[at / sizeof(u64)] = 0;
		sim_step();
	}
}

void clear_highpage(struct page *page)
{
	size_t at = (size_t)(page - page->folio->page) * PAGE_SIZE;

	folio_zero_range(page->folio, at, PAGE_SIZE);
}

/* Other tasks run during the copy, so it may mix old and new words. */
void copy_highpage(struct page *to, struct page *from)
{
	size_t into = (size_t)(to - to->folio->page) * PAGE_SIZE / sizeof(u64);
	size_t of = (size_t)(from - from->folio->page) * PAGE_SIZE / sizeof(u64);
	size_t i;

	for (i = 0; i < PAGE_SIZE / sizeof(u64); i++) {
		folio_check_alive(to->folio);
		folio_check_alive(from->folio);
		to->folio->memory[into + i] = from->folio->memory[of + i];
		sim_step();
	}
}
