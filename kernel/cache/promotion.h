/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * Promotion: the base pages of a block become one huge unit, while programs use them.
 *
 * The calls of one promotion, in order; one task makes them:
 *
 *	hm_promote_pick()	choose a block
 *	hm_promote_begin()	take a huge frame; the missing pages become HM_FILLING
 *		The engine gets memory for the frame. It reads the missing pages into their
 *		places in the frame (page i at i * 4 KB), and zeroes those that are
 *		hm_is_zero_fill().
 *	hm_promote_copy()	the next page to copy while programs use it; repeat
 *	hm_promote_claim()	claim all base pages, or none
 *		The engine stops all use of the pages: it locks, unmaps and freezes them.
 *	hm_promote_page()	page by page: does it still have to be copied?
 *	hm_promote_commit()	the block is one huge unit; the base frames are free
 *
 * From hm_promote_pick() on, hm_promote_abort() may end the promotion at any point, and must
 * end it if hm_promote_commit() does not. It leaves everything as it was. Only when
 * hm_promote_begin() fails, the promotion has ended already.
 *
 * The locks in the module: hm_promote_begin() runs under the shared invalidate_lock, which is
 * released before the reads. The copy of a page needs a reference to its folio, but not the folio
 * lock. The claim needs the shared invalidate_lock, taken by a trylock, and a section of
 * hugemap_files_srcu. The steps after the claim are: folio_trylock() of all base folios in order,
 * one unmap_mapping_pages(), folio_ref_freeze() of all folios, the copies, the exchange in i_pages,
 * unfreeze, unlock, commit.
 */
#ifndef HM_PROMOTION_H
#define HM_PROMOTION_H

#include "types.h"

/**
 * enum hm_promote_result - why a promotion did not happen
 * @HM_PROMOTE_OK: no failure so far
 * @HM_PROMOTE_COLD: too few pages of the block were accessed
 * @HM_PROMOTE_DIRTY: some pages are dirty, and write-back would have to write all of them
 * @HM_PROMOTE_NEEDS_ALLOC: the file may lack blocks for some of it
 * @HM_PROMOTE_BUSY: a page is being filled, written or evicted, or has just left
 * @HM_PROMOTE_NO_FRAME: no huge frame is free
 * @HM_PROMOTE_PINNED: (from the engine) a page is pinned
 * @HM_PROMOTE_FAILED: (from the engine) memory is short, or a page cannot be read
 * @HM_PROMOTE_GONE: the block is no candidate any more; not counted
 *
 * The cache retries later, except after HM_PROMOTE_GONE.
 */
enum hm_promote_result {
	HM_PROMOTE_OK,
	HM_PROMOTE_COLD,
	HM_PROMOTE_DIRTY,
	HM_PROMOTE_NEEDS_ALLOC,
	HM_PROMOTE_BUSY,
	HM_PROMOTE_NO_FRAME,
	HM_PROMOTE_PINNED,
	HM_PROMOTE_FAILED,
	HM_PROMOTE_GONE,
};

/**
 * struct hm_promotion - one promotion; about 2.3 KB, too large for a kernel stack
 * @unit: the block as it will be: .file, .pgoff and .npages are valid from
 *	hm_promote_pick() on, .frame (the huge one) from hm_promote_begin() on
 * @missing: a bit for each page that is not cached: the engine reads it. Faults on these
 *	pages get HM_BUSY until the promotion ends. hm_peek() reports their places in the
 *	huge frame.
 * @nmissing: how many bits are set in @missing
 *
 * The fields below @missing belong to the cache.
 */
struct hm_promotion {
	struct hm_unit unit;
	u32 nmissing;
	unsigned long missing[HM_BITMAP_LONGS(HM_BLOCK_PAGES)];

	u32 tries;
	bool picked, begun, claimed;
	bool stream;
	u32 ndirty;
	unsigned long copied[HM_BITMAP_LONGS(HM_BLOCK_PAGES)];
	unsigned long changed[HM_BITMAP_LONGS(HM_BLOCK_PAGES)];
	u32 frame[HM_BLOCK_PAGES];
};

/**
 * hm_promote_pick() - choose the next block to promote
 * @cache: the cache
 * @p: set to the block
 *
 * Blocks are picked in the order in which they became candidates. A worker of the engine calls this
 * after HM_HINT_PROMOTE, and every opts.promote_interval_ms for retries. The caller excludes
 * hm_file_destroy() during the call, and keeps the file until the promotion has ended.
 *
 * Return: false if no block waits, or none is due.
 */
bool hm_promote_pick(struct hm_cache *cache, struct hm_promotion *p);

/**
 * hm_promote_begin() - take a huge frame, and claim the missing pages
 * @p: from hm_promote_pick(); or zeroed, with .unit.file and .unit.pgoff set, a multiple of
 *	HM_BLOCK_PAGES below the end of the file
 * @force: promote it however few of its pages were accessed or written
 *
 * This is a fault on each missing page, so the caller holds the lock that keeps truncation
 * and hole punching away from faults. It may release the lock before the I/O: both wait for
 * pages that are HM_FILLING. After HM_PROMOTE_NO_FRAME the caller may evict, and try again.
 *
 * Return: HM_PROMOTE_OK; or why it failed, and the promotion has ended.
 */
enum hm_promote_result hm_promote_begin(struct hm_promotion *p, bool force);

/**
 * hm_promote_copy() - the next page that can be copied while programs use it
 * @p: the promotion; the missing pages have been read
 * @at: 0 at the first call; moved past the page that is returned
 * @unit: filled in
 *
 * The engine copies the page from its frame to its place in the huge frame, and reports nothing.
 * The page may be evicted at any time: the engine takes a reference, checks that the frame still
 * has the page, and skips the page if not. If the page is stored to, evicted or written during or
 * after the copy, the cache discards the copy. Dirty pages are not copied ahead, because programs
 * may store to them without a fault.
 *
 * Return: false if no page is left.
 */
bool hm_promote_copy(struct hm_promotion *p, u32 *at, struct hm_unit *unit);

/**
 * hm_promote_claim() - claim all base pages of the block, or none
 * @p: the promotion; the missing pages have been read without an error
 *
 * From here to hm_promote_commit() or hm_promote_abort() the caller holds the lock that keeps
 * truncation and hole punching away. It must not wait for that lock, because its holder may
 * wait for the pages that are HM_FILLING here: abort instead. It also holds the lock that a
 * sync takes to wait for units claimed for eviction, because a claimed page may be dirty, or
 * a device may make it dirty.
 *
 * Faults on the pages get HM_BUSY. Programs continue to use existing mappings, including
 * writable ones of dirty pages, until the engine unmaps the block.
 *
 * Return: HM_PROMOTE_OK. HM_PROMOTE_BUSY: a page is being written, or has left: the caller
 * may wait and claim again, or abort. Otherwise: abort. After a failure the engine checks
 * for pages that a device made dirty, as after hm_promote_abort().
 */
enum hm_promote_result hm_promote_claim(struct hm_promotion *p);

/**
 * enum hm_promote_page - what to do with a claimed page
 * @HM_PAGE_READ: it was missing, and its data is in the huge frame
 * @HM_PAGE_COPIED: its copy is valid; hm_promote_commit() frees its frame
 * @HM_PAGE_COPY: copy it now
 */
enum hm_promote_page {
	HM_PAGE_READ,
	HM_PAGE_COPIED,
	HM_PAGE_COPY,
};

/**
 * hm_promote_page() - what to do with a page of a claimed block
 * @p: the promotion
 * @i: which page, below HM_BLOCK_PAGES
 * @unit: the page and its base frame; not set for HM_PAGE_READ
 *
 * Call it when no task can store to the page any more: it is unmapped and its folio is
 * frozen. A page whose folio is dirty has to be copied whatever the answer is: a device
 * stored to it.
 *
 * Return: see enum hm_promote_page.
 */
enum hm_promote_page hm_promote_page(const struct hm_promotion *p, u32 i, struct hm_unit *unit);

/* The folio of page @i of a claimed block turned out to be dirty. */
void hm_promote_dirty(struct hm_promotion *p, u32 i);

/**
 * hm_promote_unclaim() - a page is pinned for a moment: release all claimed pages
 * @p: the promotion, whose pages are claimed
 *
 * Pages that were read or copied keep that state: the caller may claim again, or abort.
 * Afterwards the engine checks for pages that a device made dirty, as after
 * hm_promote_abort().
 *
 * Return: true if a task got HM_BUSY: wake the waiters of the block.
 */
bool hm_promote_unclaim(struct hm_promotion *p);

/**
 * hm_promote_commit() - the block is one huge unit from here on
 * @p: the promotion; all data is in the huge frame
 *
 * Before the call: lookups find the huge frame (its folio is in i_pages); the base frames
 * belong to the pool again: they are in no table, not referenced and not locked. The cache
 * may reuse them when the call returns.
 *
 * Return: true if a task got HM_BUSY: wake the waiters of the block, including those that
 * wait for a write-back of any of its pages.
 */
bool hm_promote_commit(struct hm_promotion *p);

/**
 * hm_promote_abort() - end a promotion and leave everything as it was
 * @p: the promotion, at any point; lookups do not find the huge frame
 * @why: the reason, which is counted. A missing page whose read failed is absent again.
 *
 * Claimed pages are clean or dirty as before. Afterwards the engine checks, as after
 * HM_EVICT_BUSY, whether a device made a page dirty, and reports it by hm_fault() with
 * .write and .cached_only.
 *
 * Return: true if a task got HM_BUSY: wake the waiters of the block.
 */
bool hm_promote_abort(struct hm_promotion *p, enum hm_promote_result why);

#endif /* HM_PROMOTION_H */
