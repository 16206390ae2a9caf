/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/*
 * What the files of the data half share: see hugemap.h for the order of locks
 * and for what may be believed of a folio when.
 */
#ifndef HUGEMAP_DATA_H
#define HUGEMAP_DATA_H

#include <linux/bvec.h>
#include <linux/completion.h>
#include <linux/fs_context.h>
#include <linux/pagemap.h>

#include "cache/fault.h"
#include "cache/promotion.h"
#include "cache/readahead.h"
#include "cache/reclaim.h"
#include "cache/writeback.h"
#include "compat/compat.h"
#include "hugemap.h"
#include "mm/mm.h"
#include "race.h"

/* Errors in words: to who mounts, or to the log. */
#define hugemap_errorfc(fc, fmt, ...)                                \
	do {                                                         \
		if (fc)                                              \
			errorf(fc, "hugemap: " fmt, ##__VA_ARGS__);  \
		else                                                 \
			pr_err("hugemap: " fmt "\n", ##__VA_ARGS__); \
	} while (0)

/* Base pages of one I/O below; a huge unit is one segment. */
#define HUGEMAP_IO_SEGMENTS 256u
/* Writes in flight of one sync or of background write-back. */
#define HUGEMAP_WRITE_DEPTH 8u
/* Looks at a folio that somebody holds, a tick apart, before it is theirs. */
#define HUGEMAP_PIN_RETRIES 3u

/*
 * Who owns a folio of the pool; it is written into ->private, and asserted where it
 * changes. Other references are somebody's who looks, copies, or does I/O.
 *
 *   NOBODY --new_*()--> POOL --hugemap_folio_insert()--> UNIT
 *   UNIT --hugemap_folio_remove()--> POOL --put_*()--> NOBODY, freed
 *   UNIT --hugemap_folio_orphan()--> OTHERS: it is whose reference it still has, until
 *   there is none --hugemap_orphan_reap()--> NOBODY, freed
 */
enum hugemap_owner {
	HUGEMAP_OWNER_NONE,
	HUGEMAP_OWNER_POOL,
	HUGEMAP_OWNER_CACHE,
	HUGEMAP_OWNER_EXTERNAL,
};

static inline void hugemap_folio_own(struct folio *folio, enum hugemap_owner from,
				     enum hugemap_owner to)
{
	WARN_ON_ONCE((unsigned long)folio->private != from);
	folio->private = (void *)(unsigned long)to;
}

/* How long a fault waits for a frame while all of the pool is dirty and cannot
 * be written, before it fails.
 */
#define HUGEMAP_FAULT_TIMEOUT_MS 5000u

/* --- pool.c -------------------------------------------------------------------- */

int hugemap_pool_take(struct hugemap_mount *mount, struct fs_context *fc);
void hugemap_pool_give(struct hugemap_mount *mount);

/*
 * Grow or shrink, by remount. All of it or nothing; may wait for write-back. What others
 * have got of it for now is not asked back here: see shrink.c.
 */
int hugemap_pool_resize(struct hugemap_mount *mount, u64 bytes, struct fs_context *fc);

/* For shrink.c, with pool_lock held: give a free slot's memory back, if there is one. */
bool hugemap_pool_shed(struct hugemap_mount *mount);
/* The same: take memory for so many, without much ado. How many were had. */
u32 hugemap_pool_take_back(struct hugemap_mount *mount, u32 more);
/* Is there memory for so many slots, beside a part of the machine's for everybody else? */
bool hugemap_pool_fits(u32 slots, u32 part);

/* --- shrink.c ---------------------------------------------------------------------- */

int hugemap_shrink_start(struct hugemap_mount *mount);
void hugemap_shrink_stop(struct hugemap_mount *mount);
/* Is the pool not as large as it should be now? */
bool hugemap_pool_is_off(const struct hugemap_mount *mount);
/* Make it so, as far as memory allows; from time to time. */
void hugemap_pool_adjust(struct hugemap_mount *mount);

/* --- orphan.c ------------------------------------------------------------------------ */

/* A folio is abandoned; with a reference. */
void hugemap_orphan_add(struct hugemap_mount *mount, struct folio *folio);
/* Free what nobody holds any more. Is there something else? */
bool hugemap_orphan_reap(struct hugemap_mount *mount);
void hugemap_orphan_end(struct hugemap_mount *mount);
/* How large the pool may be with what is held beside it, in slots. */
u32 hugemap_pool_wanted(const struct hugemap_mount *mount);

/* --- slot.c: the memory of a slot, and frames in it ---------------------------- */

/*
 * Have memory for a slot that has none, as the mount's page size asks for. @insist:
 * look for long, else only among what is free. 0 or -ENOMEM.
 */
int hugemap_slot_take(struct hugemap_mount *mount, struct hugemap_slot *slot, bool insist);
/* No frame of it is in use: its memory, if it has any, is free. */
void hugemap_slot_give(struct hugemap_slot *slot);
/* The same, when nobody looks frames up any more. */
void hugemap_slot_end(struct hugemap_slot *slot);
bool hugemap_slot_has_memory(const struct hugemap_slot *slot);

/* The folio of a frame, without a reference: only under RCU, or if it is yours. */
struct folio *hugemap_frame_folio(struct hugemap_mount *mount, u32 frame);

/*
 * Make the memory of a frame that was just taken what its kind asks for: a slot
 * that was huge becomes base pages, or the other way round. May sleep. -ENOMEM.
 */
int hugemap_frame_prepare(struct hugemap_mount *mount, const struct hm_unit *unit);

/*
 * The folio of a frame was abandoned: the frame has no memory, until
 * hugemap_frame_prepare() finds some. Never fails, and takes none.
 */
void hugemap_frame_empty(struct hugemap_mount *mount, const struct hm_unit *unit);

/* A unit has left, and its frame is still claimed: broken memory is not used again. */
void hugemap_frame_check(struct hugemap_mount *mount, const struct hm_unit *unit);

/* --- folio.c: units and their folios -------------------------------------------- */

/* The folio of a unit that the core said is cached, with a reference; or NULL. */
struct folio *hugemap_unit_folio(struct hugemap_inode *hi, const struct hm_unit *unit);

/* Is it still that unit's? The folio is locked. */
bool hugemap_folio_is(const struct hugemap_inode *hi, const struct folio *folio, u64 pgoff);

/*
 * The folio of a page that is cached, with a reference; NULL: it is not, or not
 * now. With .write it is a store. @unit has the hints of hm_fault().
 */
struct folio *hugemap_find(struct hugemap_inode *hi, u64 pgoff, struct hm_access access,
			   struct hm_unit *unit);

/* The same, and locked: it is that page's until it is unlocked. */
struct folio *hugemap_find_locked(struct hugemap_inode *hi, u64 pgoff, struct hm_access access,
				  struct hm_unit *unit);

/* Units in a row have their data: their folios join the file. */
void hugemap_folio_insert(struct hugemap_inode *hi, const struct hm_unit *units, u32 n);

/*
 * The unit leaves: folio locked and unmapped. False if somebody holds it.
 */
bool hugemap_folio_remove(struct hugemap_inode *hi, struct folio *folio);

/*
 * The base pages of a block, locked and unmapped, NULL where one was not cached: all frozen
 * and not in i_pages any more. False if somebody holds one. Takes no memory.
 */
bool hugemap_folio_freeze_range(struct hugemap_inode *hi, struct folio *const *base);

/* Then: they give way to the huge folio of @unit, which has their data. */
void hugemap_folio_replace(struct hugemap_inode *hi, const struct hm_unit *unit,
			   struct folio *const *base);

/* The same, for a folio that somebody holds: it is nobody's now, and theirs. */
void hugemap_folio_orphan(struct hugemap_inode *hi, struct folio *folio);

static inline u64 hugemap_pages(loff_t size)
{
	return ((u64)size + HM_PAGE_SIZE - 1) >> HM_PAGE_SHIFT;
}

static inline struct hugemap_mount *hugemap_of(const struct hugemap_inode *hi)
{
	return hugemap_mount(hi->vfs_inode.i_sb);
}

/* --- change.c: and hugemap_change_lower() ------------------------------------------ */

/*
 * What is clean of a range of bytes, in whole blocks, goes, and is read again: it may not
 * be what it is below. But not what somebody holds, who may be a device that has written
 * into it and not told yet.
 */
void hugemap_drop_clean(struct hugemap_inode *hi, loff_t start, loff_t last);

/* --- wait.c ------------------------------------------------------------------------ */

/* Who waits for a unit to be filled or evicted, or for a write-back to end. */
wait_queue_head_t *hugemap_wait_of(struct hugemap_mount *mount, const struct hm_file *hfile,
				   u64 pgoff);
void hugemap_wake(struct hugemap_mount *mount, const struct hm_file *hfile, u64 pgoff);
void hugemap_wake_unit(struct hugemap_mount *mount, const struct hm_unit *unit);

/* Does nobody fill, write or evict the unit? */
bool hugemap_unit_idle(struct hugemap_inode *hi, u64 pgoff);

/* Until nobody fills or evicts the unit; -EINTR if a fatal signal comes. */
int hugemap_wait_unit(struct hugemap_inode *hi, u64 pgoff);

/* A frame came free, or a unit clean. */
void hugemap_progress(struct hugemap_mount *mount);

void hugemap_wake_writer(struct hugemap_mount *mount);
void hugemap_wake_reclaimer(struct hugemap_mount *mount);
void hugemap_wake_promoter(struct hugemap_mount *mount);

/* What hm_fault() said: wake the threads of the mount. */
void hugemap_wake_by_hints(struct hugemap_mount *mount, u32 hints);

static inline void hugemap_take_hints(struct hugemap_inode *hi, const struct hm_unit *unit)
{
	/* Most faults have none of them. */
	if (unit->hints & (HM_HINT_WRITEBACK | HM_HINT_RECLAIM | HM_HINT_PROMOTE))
		hugemap_wake_by_hints(hugemap_of(hi), unit->hints);
}

/* --- aops.c ------------------------------------------------------------------------ */

extern const struct address_space_operations hugemap_aops;

/* --- store.c ----------------------------------------------------------------------- */

/* The core's memory for a store, and the way back from it. */
struct hugemap_file_mem {
	struct hugemap_inode *hi;
	u8 core[] __aligned(64);
};

/* The inode of a store that the core named: a unit of it is claimed. */
static inline struct hugemap_inode *hugemap_inode_of_file(const struct hm_file *hfile)
{
	return container_of((const u8 *)hfile, struct hugemap_file_mem, core[0])->hi;
}

int hugemap_add_node(struct hugemap_inode *hi, u64 pgoff, enum hm_node_kind kind);

/* hm_file_set_zero_fill(), which may be long. */
void hugemap_note_zero_fill(struct hugemap_inode *hi, u64 pgoff, u64 npages, bool zero_fill);

bool hugemap_is_writing(struct hugemap_inode *hi, u64 pgoff);

/* May the page not be stored to before its write-back has ended? Its folio is locked. */
static inline bool hugemap_stable_write_pending(struct hugemap_inode *hi, u64 pgoff)
{
	return unlikely(hi->stable) && hugemap_is_writing(hi, pgoff);
}

/* Until it may, as far as can be seen. -EINTR if a fatal signal comes. */
int hugemap_wait_stable(struct hugemap_inode *hi, u64 pgoff);

/* How a file is accessed, by the mount's options, its priority and the program's advice. */
struct hm_access hugemap_access(const struct file *file);
/* The same for a fault of a mapping: advice for its range comes first. */
struct hm_access hugemap_access_in(const struct vm_area_struct *vma);

/* The same for a store to a cached unit, to so many pages and no others. Its folio is locked. */
static inline struct hm_access hugemap_store_access(const struct hugemap_inode *hi, size_t npages)
{
	struct hm_access access = HM_ACCESS(.write = true, .cached_only = true, .again = true);

	if (hugemap_of(hi)->opts.page == HUGEMAP_PAGE_AUTO)
		access.npages = npages;
	return access;
}

/*
 * Let the lower file have room for units that are, or have, holes there. For who
 * holds neither a fault lock nor the invalidate_lock. 0, or -ENOSPC and others.
 */
int hugemap_reserve(struct hugemap_inode *hi, u64 pgoff, u64 npages);

int hugemap_file_setup(void);
void hugemap_file_teardown(void);

/* --- io.c ---------------------------------------------------------------------------- */

struct hugemap_io {
	struct kiocb iocb;
	refcount_t refs;
	struct hugemap_inode *hi;
	struct completion done;
	struct work_struct work; /* read-ahead: ends in a workqueue */
	struct hm_unit unit; /* read: what is filled */
	struct hm_run run; /* write */
	loff_t end; /* read: where the lower file ended when it began */
	ssize_t result;
	loff_t pos;
	size_t bytes;
	size_t written; /* of them, by writes that were short */
	u64 started_ns;
	bool write;
	bool ahead;
	u32 nsegments, max_segments;
	struct bio_vec *segment;
};

/* For HUGEMAP_IO_SEGMENTS, and freed by who waited for it. */
struct hugemap_io *hugemap_io_new(struct hugemap_inode *hi, gfp_t gfp);
/* One in the caller's own memory, who waits for it. */
void hugemap_io_init(struct hugemap_io *io, struct hugemap_inode *hi, struct bio_vec *segment,
		     u32 max_segments);
void hugemap_io_free(struct hugemap_io *io);

static inline bool hugemap_io_full(const struct hugemap_io *io)
{
	return io->nsegments == io->max_segments;
}

/* Some pages of a folio, from @first on. In line: once for each page that is written. */
static inline void hugemap_io_add_pages(struct hugemap_io *io, struct folio *folio, u32 first,
					u32 npages)
{
	size_t bytes = (size_t)npages << HM_PAGE_SHIFT;

	WARN_ON_ONCE(hugemap_io_full(io));
	bvec_set_page(&io->segment[io->nsegments++], folio_page(folio, first), bytes, 0);
	io->bytes += bytes;
}

static inline void hugemap_io_add(struct hugemap_io *io, struct folio *folio)
{
	hugemap_io_add_pages(io, folio, 0, folio_nr_pages(folio));
}

/*
 * The next pages of a block to read or write at once: no further apart than that, and what lies
 * between as well, as an I/O costs disks and processors about what 16 KB do. False: there are
 * none from *first on.
 */
bool hugemap_next_run(const unsigned long *pages, u32 *first, u32 *end);

/* Start; io->done is completed, or io->work is queued, when it is over. */
void hugemap_io_submit(struct hugemap_io *io, loff_t pos, size_t bytes);

/* 0 or a negative errno; a short read has been zeroed to its end. */
int hugemap_io_wait(struct hugemap_io *io);
int hugemap_io_result(struct hugemap_io *io);

/*
 * Read a part of the unit at @pgoff again, in bytes from its start. Its folio has a
 * reference and is not locked: it is, page by page, if it is still that unit's.
 */
int hugemap_io_refresh(struct hugemap_inode *hi, struct folio *folio, u64 pgoff, size_t offset,
		       size_t bytes);

/* Write the end of a file, which direct I/O cannot: not a multiple of a sector. */
int hugemap_io_write_tail(struct hugemap_inode *hi, struct page *page, loff_t pos, size_t bytes);

int hugemap_io_setup(void);
void hugemap_io_teardown(void);

/* --- worker.c ------------------------------------------------------------------------ */

typedef int (*hugemap_work_fn)(struct hugemap_inode *hi, u64 pgoff, u64 npages,
			       struct hm_access access);

/*
 * Have it done by a worker, with this task's credentials, and wait for what it returns.
 * -EINTR, while it goes on, if a fatal signal comes.
 */
int hugemap_by_worker(struct hugemap_inode *hi, hugemap_work_fn fn, u64 pgoff, u64 npages,
		      struct hm_access access);

/* --- fill.c ------------------------------------------------------------------------- */

/*
 * Have a page cached. Sleeps; takes mapping->invalidate_lock itself. 0; -ENODATA
 * beyond the end; -EINTR; or why it could not be read.
 */
int hugemap_fill_page(struct hugemap_inode *hi, u64 pgoff, struct hm_access access);

/*
 * A fault had HM_HINT_READAHEAD. Readers' I/O is started here, by the file system
 * below, which may sleep; what concerns writers is queued.
 */
void hugemap_read_ahead(struct hugemap_inode *hi, u64 pgoff, struct hm_access access);

/* The same, all of it queued: for who holds a fault lock. */
void hugemap_queue_ahead(struct hugemap_inode *hi, u64 pgoff, struct hm_access access);

/* The same for write(2), which needs nothing ahead. */
void hugemap_write_behind(struct hugemap_inode *hi, u64 pgoff, struct hm_access access);

/* hm_fault(), with the index nodes that it asks for. invalidate_lock is held. */
enum hm_outcome hugemap_cache_fault(struct hugemap_inode *hi, u64 pgoff, struct hm_access access,
				    struct hm_unit *unit);

/* hm_fill_cancel(), and whoever waits looks again. */
void hugemap_fill_cancel(struct hugemap_inode *hi, const struct hm_unit *unit);

/* --- promote.c --------------------------------------------------------------------- */

size_t hugemap_promotion_bytes(void);

/* The thread that promotes; @mount. */
int hugemap_promoter(void *mount);

/* --- evict.c ------------------------------------------------------------------------ */

/* Restore the stock of free frames. False: nothing was to be done, or could be. */
bool hugemap_evict_ahead(struct hugemap_mount *mount);

/* Free some frames; false: nothing clean is left. */
bool hugemap_evict_some(struct hugemap_mount *mount, enum hm_kind kind);
/* The same for who reclaims memory, and must not wait. False: not now, either. */
bool hugemap_evict_quickly(struct hugemap_mount *mount);
/* Inodes of which reclaim has taken the last data: they are let go, which may wait. */
void hugemap_put_idle(struct hugemap_mount *mount);

/* A unit that was claimed, by hm_reclaim() or hm_invalidate(): what has come of it. */
void hugemap_evict_report(struct hugemap_inode *hi, const struct hm_unit *unit,
			  enum hm_evict_result result);

/*
 * Until every unit that became dirty while it was claimed, to be evicted, is known to
 * be dirty. For a sync, before it looks.
 */
void hugemap_wait_claims(struct hugemap_mount *mount);

/* Drop what is cached in a range of pages: all of it, or what is clean and not mapped. */
void hugemap_invalidate(struct hugemap_inode *hi, u64 start, u64 end, bool discard);

/*
 * A fault needs a frame and none is free: evict, or wait for write-back. 0: ask
 * again. -EINTR; -ENOMEM when nothing has come free for long, though nothing below
 * is on its way or frozen. @began: 0 at first, and kept for the caller.
 */
int hugemap_wait_frame(struct hugemap_mount *mount, enum hm_kind kind, unsigned long *began);

int hugemap_evict_setup(void);
void hugemap_evict_teardown(void);

/* --- writeback.c -------------------------------------------------------------------- */

/* What is written of a file before others are looked at again. */
#define HUGEMAP_CHUNK_PAGES (64u * HM_BLOCK_PAGES)

/*
 * Write dirty units from *pos on, in order, up to @end or about @budget pages;
 * the caller has write access below and holds the invalidate_lock, shared or
 * not. @wait: as a sync has to, which passes nothing. 0 or the first error; *pos
 * is where to go on. (Without @wait, what makes the lower file longer is gone on with from
 * anywhere.)
 *
 * It is done by a worker, whoever asks: not with a caller's limits, signals or rights.
 */
int hugemap_write_pages(struct hugemap_inode *hi, u64 *pos, u64 end, u64 budget, bool wait);

/* The same, for who holds nothing. */
int hugemap_write_some(struct hugemap_inode *hi, u64 *pos, u64 end, u64 budget, bool wait);

/* All of a range, as a sync does; the caller holds what hugemap_write_pages() needs. */
int hugemap_write_range(struct hugemap_inode *hi, u64 start, u64 end);

/* Dirtied outside of a fault: GUP, DMA, zap. May be called under spinlocks. */
bool hugemap_dirty_folio(struct address_space *mapping, struct folio *folio);

/* --- writer.c ---------------------------------------------------------------------- */

int hugemap_writer(void *arg);
/* What it has a worker do: hugemap_inode.chunk. */
void hugemap_chunk_work(struct work_struct *work);

#endif /* HUGEMAP_DATA_H */
