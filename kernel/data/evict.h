/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* evict.c: eviction, waits for frames, invalidation. */
#ifndef HUGEMAP_DATA_EVICT_H
#define HUGEMAP_DATA_EVICT_H

#include "data.h"

/*
 * Make one attempt to evict for each kind of frame for which hm_reclaim_want() is not 0. Return
 * true if a unit has left: call again.
 */
bool hugemap_evict_ahead(struct hugemap_mount *mount);

/* Evict a few units. Return true if at least one has left the cache. */
bool hugemap_evict_some(struct hugemap_mount *mount, enum hm_kind kind);

/* hugemap_evict_some() for the shrinker, under pool_lock. Instead of a wait it returns false. */
bool hugemap_evict_quickly(struct hugemap_mount *mount, enum hm_kind kind);

/* Release the inodes whose last cached data the shrinker has evicted. May write and wait. */
void hugemap_put_idle(struct hugemap_mount *mount);

/* Report to the core the result for a unit that hm_reclaim() or hm_invalidate() has claimed. */
void hugemap_evict_report(struct hugemap_inode *hi, const struct hm_unit *unit,
			  enum hm_evict_result result);

/*
 * A claim of a unit has ended, and the unit stays. Report it to the core if a device made it dirty
 * meanwhile. The caller has a reference to the folio, and is in a section of hugemap_files_srcu or
 * holds the invalidate_lock exclusively.
 */
void hugemap_report_dirtied(struct hugemap_inode *hi, u64 pgoff, struct folio *folio);

/*
 * Wait until the core knows each unit that became dirty while it was claimed for eviction. A sync
 * calls this before it looks for dirty units of a file. It holds the invalidate_lock meanwhile, so
 * that no change of the lower file has a claim, or passes one to reclaim.
 */
void hugemap_wait_claims(struct hugemap_mount *mount);

/* Return true if hugemap_wait_claims() would wait. */
bool hugemap_claims_pending(struct hugemap_mount *mount);

/*
 * Drop the cached units of a range of pages: all of them, or the clean and unmapped ones outside of
 * blocks in demand (demand.c).
 */
void hugemap_invalidate(struct hugemap_inode *hi, u64 start, u64 end, bool all);

/**
 * hugemap_wait_frame() - a fault needs a frame and none is free
 * @mount: the mount
 * @kind: huge or base
 * @began: 0 at the first call, and kept by the caller for the next ones
 *
 * Evicts, or waits for write-back.
 *
 * Return: 0: try again; -EINTR; -ENOMEM: no frame has become free for HUGEMAP_FAULT_TIMEOUT_MS,
 * and neither I/O in flight, nor dirty units, nor the thaw of a lower file system can free one.
 */
int hugemap_wait_frame(struct hugemap_mount *mount, enum hm_kind kind, unsigned long *began);

/* When the module is loaded and unloaded. */
int hugemap_evict_setup(void);
void hugemap_evict_teardown(void);

#endif /* HUGEMAP_DATA_EVICT_H */
