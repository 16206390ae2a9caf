/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * The model's memory: pages, and folios with references, locks, pins and contents. An
 * allocation may have to reclaim. A page has PAGE_SIZE bytes of real memory.
 */
#ifndef SIM_KERNEL_FOLIO_H
#define SIM_KERNEL_FOLIO_H

#include "cache/cache.h"
#include "task.h"

#define PAGE_SHIFT HM_PAGE_SHIFT
#define PAGE_SIZE (1ul << PAGE_SHIFT)
#define PAGE_MASK (~(PAGE_SIZE - 1))
#define PMD_SHIFT HM_BLOCK_SHIFT
#define PMD_SIZE (1ul << PMD_SHIFT)
#define PMD_MASK (~(PMD_SIZE - 1))
#define WORDS (PAGE_SIZE / sizeof(u64)) /* units of one load or store */

struct address_space;
struct folio;

struct page {
	struct folio *folio;
	bool broken; /* poisoned: the engine must not use it again */
};

struct folio {
	struct address_space *mapping;
	pgoff_t index;
	u32 order;
	atomic_t refs;
	u32 dma_pins; /* FOLL_PIN references among @refs */
	int mapcount; /* page table entries */
	void *private;
	struct list_head lru;
	struct sim_lock lock;
	bool dirty, uptodate, is_free;
	u64 *memory;
	struct page *page;
};

/* --- folios ------------------------------------------------------------------------- */

#define NUMA_NO_NODE (-1)
#define cpu_possible(cpu) ((cpu) >= 0)
#define cpu_to_mem(cpu) 0
#define first_online_node 0

struct page *alloc_pages_node(int node, gfp_t gfp, u32 order);

void __free_page(struct page *page);
/* Make separate pages of a block. */
void split_page(struct page *page, u32 order);
/* Free a block as one piece again. All its pages but the first must be frozen. */
void __free_pages(struct page *page, u32 order);
#define PageHWPoison(page) ((page)->broken)
#define folio_test_mlocked(f) false
#define totalram_pages() 0ul
#define si_mem_available() LONG_MAX

#define page_folio(p) ((p)->folio)
#define folio_page(f, n) (&(f)->page[n])
#define folio_page_idx(f, p) ((size_t)((p) - (f)->page))
#define folio_order(f) ((f)->order)
#define folio_test_large(f) ((f)->order > 0)
#define folio_nr_pages(f) (1ul << (f)->order)
#define folio_size(f) (PAGE_SIZE << (f)->order)

static inline struct folio *__folio_alloc_node(gfp_t gfp, u32 order, int node)
{
	struct page *page = alloc_pages_node(node, gfp, order);

	return page ? page_folio(page) : NULL;
}
#define folio_pos(f) ((loff_t)((f)->index << PAGE_SHIFT))
#define SECTOR_SIZE sizeof(u64) /* alignment of the model's direct I/O */
#define folio_pfn(f) ((unsigned long)(f))
#define folio_mapcount(f) (sim_step(), READ_ONCE((f)->mapcount))
#define folio_mapped(f) (READ_ONCE((f)->mapcount) > 0)

void folio_get(struct folio *folio);
void folio_ref_add(struct folio *folio, long n);
#define folio_ref_sub(folio, n) folio_ref_add(folio, -(long)(n))
bool folio_try_get(struct folio *folio);
void folio_put(struct folio *folio);
bool folio_ref_freeze(struct folio *folio, int count);
void folio_ref_unfreeze(struct folio *folio, int count);
#define folio_maybe_dma_pinned(f) (READ_ONCE((f)->dma_pins) > 0)
int folio_ref_count(const struct folio *folio);
void folio_lock(struct folio *folio);
bool folio_trylock(struct folio *folio);
void folio_unlock(struct folio *folio);
#define folio_test_locked(f) ((f)->lock.held)
#define folio_test_dirty(f) READ_ONCE((f)->dirty)
#define folio_test_set_dirty(f) xchg(&(f)->dirty, true)
#define folio_clear_dirty(f) WRITE_ONCE((f)->dirty, false)
#define folio_mark_uptodate(f) WRITE_ONCE((f)->uptodate, true)
#define flush_dcache_folio(f) ((void)(f))
#define folio_clear_uptodate(f) WRITE_ONCE((f)->uptodate, false)
void folio_mark_dirty(struct folio *folio);
void *folio_address(struct folio *folio);
void folio_zero_range(struct folio *folio, size_t start, size_t length);
void clear_highpage(struct page *page);
void copy_highpage(struct page *to, struct page *from);

/* Check an access to kernel memory: a folio must not be freed. */
void memory_check(const void *at);
bool memory_is_folios(const void *at);

/* --- for the simulator ----------------------------------------------------------------- */

void folio_check_alive(const struct folio *folio);
void folio_break_page(struct page *page); /* poison a page */
void folios_forget(void); /* free all */
u32 folios_in_use(void);

/* --- reclaim ------------------------------------------------------------------------ */

struct shrink_control {
	gfp_t gfp_mask;
	unsigned long nr_to_scan;
};

struct shrinker;
typedef unsigned long hugemap_shrink_t(struct shrinker *shrinker, struct shrink_control *sc);

struct shrinker {
	void *data;
	hugemap_shrink_t *count, *scan;
};

#define SHRINK_STOP (~0ul)
#define SHRINK_EMPTY (~0ul - 1)
#define hugemap_shrinker_data(shrinker) ((shrinker)->data)
#define hugemap_account_reclaimed(pages) ((void)(current->reclaimed += (pages)))
struct shrinker *hugemap_shrinker_new(void *data, long batch, hugemap_shrink_t *count,
				      hugemap_shrink_t *scan, const char *name);
void hugemap_shrinker_free(struct shrinker *shrinker);

/* Allocations call this with any locks held. It may call the shrinker. */
void memory_pressure(gfp_t gfp);
void shrink(gfp_t gfp);

#endif /* SIM_KERNEL_FOLIO_H */
