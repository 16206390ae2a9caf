// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Out of the cache: eviction of what hm_reclaim() chose, in runs that are
 * unmapped together (one TLB flush for a run and a VMA), and invalidation.
 *
 * files_lock is held for reading around each batch: a store whose units are
 * victims, and its inode, cannot go away meanwhile.
 */
#include <linux/mempool.h>
#include <linux/mm.h>
#include <linux/pagemap.h>

#include "evict.h"
#include "folio.h"
#include "index.h"
#include "slot.h"
#include "trace.h"
#include "wait.h"

#define MAX_VICTIMS 128u
#define ROUNDS 3u
#define MANY_ROUNDS 256u
#define DROP_BATCH 32u /* units while others wait for files_lock */

/* What one round works on: too large for the stack. */
struct batch {
	struct hm_victim victim[MAX_VICTIMS];
	struct folio *folio[MAX_VICTIMS];
	struct inode *idle[MAX_VICTIMS]; /* nothing of them is cached any more */
	u32 nidle;
};

static mempool_t *batches;

int hugemap_evict_setup(void)
{
	batches = mempool_create_kmalloc_pool(4, sizeof(struct batch));
	return batches ? 0 : -ENOMEM;
}

void hugemap_evict_teardown(void)
{
	mempool_destroy(batches);
}

/* Somebody holds it. While it was claimed it may have become dirty. */
static void evict_stay(struct hugemap_inode *hi, const struct hm_unit *unit)
{
	struct hugemap_mount *mount = hugemap_of(hi);
	struct folio *folio = hugemap_frame_folio(mount, unit->frame);
	struct hm_unit ignored;

	/* It is not ours any more when the core knows. */
	folio_get(folio);
	hugemap_count(mount, HUGEMAP_C_PINNED, 1);
	hm_evict_done(unit, HM_EVICT_BUSY);
	/*
	 * Pairs with hugemap_dirty_folio(), which sets the flag and then finds
	 * the unit claimed: one of us sees the other.
	 */
	if (folio_test_dirty(folio))
		hm_fault(hi->hfile, unit->pgoff,
			 HM_ACCESS(.write = true, .cached_only = true, .again = true), &ignored);
	folio_put(folio);
}

void hugemap_evict_report(struct hugemap_inode *hi, const struct hm_unit *unit,
			  enum hm_evict_result result)
{
	struct hugemap_mount *mount = hugemap_of(hi);

	trace_hugemap_evict(&hi->vfs_inode, unit->pgoff, unit->npages, result);
	hugemap_race_point("evict: left, not absent yet");
	if (hugemap_may_be_poisoned() && (result == HM_EVICTED || result == HM_EVICT_DISCARD))
		hugemap_frame_check(mount, unit);
	if (result == HM_EVICT_BUSY)
		evict_stay(hi, unit);
	else
		hm_evict_done(unit, result);
	hugemap_race_point("evict: absent, nobody woken");
	hugemap_wake_unit(mount, unit);
	if (result == HM_EVICT_DISCARD)
		hugemap_progress(mount);
}

/* Unmapped, locked and claimed: may it leave? Unlocks the folio; the caller tells of frames. */
static void evict_leave(struct hugemap_inode *hi, struct folio *folio, const struct hm_unit *unit,
			u32 *freed)
{
	if (folio_test_dirty(folio)) {
		folio_unlock(folio);
		hugemap_evict_report(hi, unit, HM_EVICT_DIRTY);
	} else if (hugemap_folio_remove(hi, folio)) {
		folio_unlock(folio);
		hugemap_evict_report(hi, unit, HM_EVICTED);
		(*freed)++;
	} else {
		folio_unlock(folio);
		hugemap_evict_report(hi, unit, HM_EVICT_BUSY);
	}
}

/* Became inactive: out of the page tables, unless it was used since. */
static bool evict_may_unmap(const struct hm_victim *victim)
{
	const struct hm_unit *unit = &victim->unit;
	struct hm_unit now;

	return victim->evict ||
	       (hm_peek(unit->file, unit->pgoff, &now) == HM_CLEAN && now.frame == unit->frame &&
		!hm_referenced(unit->file, unit->pgoff));
}

/*
 * The folio of a victim, locked; with a reference, if it is not claimed. NULL: it stays, and
 * where it is mapped, if it is. mlock(): mm forgets the lock with the mapping.
 *
 * What only becomes inactive is locked as well until the TLBs are flushed. mm counts a huge
 * entry as gone before it flushes: write-back would find nothing to protect meanwhile, and a
 * store by way of a TLB would be seen by nobody.
 */
static struct folio *evict_lock_victim(struct hugemap_inode *hi, const struct hm_victim *victim)
{
	const struct hm_unit *unit = &victim->unit;
	struct folio *folio;

	if (victim->evict)
		folio = hugemap_frame_folio(hugemap_of(hi), unit->frame);
	else
		folio = hugemap_unit_folio(hi, unit);
	if (folio && (victim->evict || folio_mapped(folio)) && !folio_test_mlocked(folio) &&
	    folio_trylock(folio)) {
		if (victim->evict || hugemap_folio_is(hi, folio, unit->pgoff))
			return folio;
		folio_unlock(folio);
	}
	if (victim->evict)
		hugemap_evict_report(hi, unit, HM_EVICT_BUSY);
	else if (folio)
		folio_put(folio);
	return NULL;
}

/* Victims that follow each other in one store: from the first on, how many? */
static u32 evict_run_length(const struct hm_victim *victims, u32 n)
{
	u32 i;

	for (i = 1; i < n; i++) {
		const struct hm_unit *a = &victims[i - 1].unit, *b = &victims[i].unit;

		if (a->file != b->file || a->pgoff + a->npages != b->pgoff)
			break;
	}
	return i;
}

/*
 * An inode that nobody uses stays while data of it is cached. When the last of it
 * has left, the last iput() puts it where it can be reclaimed.
 */
static void evict_note_idle(struct batch *batch, struct inode *inode)
{
	if (atomic_read(&inode->i_count) || !mapping_empty(inode->i_mapping))
		return;
	if (igrab(inode))
		batch->idle[batch->nidle++] = inode;
}

static void evict_unmap_run(struct hugemap_inode *hi, u64 start, u64 end)
{
	hugemap_count(hugemap_of(hi), HUGEMAP_C_UNMAPS, 1);
	unmap_mapping_pages(hi->vfs_inode.i_mapping, start, end - start, false);
}

static void evict_run(struct hugemap_inode *hi, const struct hm_victim *victims,
		      struct folio **folio, u32 n, u32 *freed)
{
	u64 start = victims[0].unit.pgoff, end = start;
	bool unmap = false;
	u32 i;

	hugemap_race_point("evict: claimed, not locked");
	for (i = 0; i < n; i++) {
		folio[i] = evict_lock_victim(hi, &victims[i]);
		if (!folio[i] && unmap)
			evict_unmap_run(hi, start, end);
		end += victims[i].unit.npages;
		if (folio[i]) {
			unmap = unmap || (folio_mapped(folio[i]) && evict_may_unmap(&victims[i]));
		} else {
			start = end;
			unmap = false;
		}
	}
	hugemap_race_point("evict: locked, mapped");
	if (unmap)
		evict_unmap_run(hi, start, end);
	hugemap_race_point("evict: unmapped, not frozen");
	for (i = 0; i < n; i++) {
		if (!folio[i])
			continue;
		if (victims[i].evict) {
			evict_leave(hi, folio[i], &victims[i].unit, freed);
		} else {
			folio_unlock(folio[i]);
			folio_put(folio[i]);
		}
	}
}

/* The last iput() of an inode may write and wait: the thread of the mount does it. */
static void evict_idle_inodes(struct hugemap_mount *mount, struct batch *batch)
{
	u32 i;

	spin_lock(&mount->idle_lock);
	/* The reference that evict_note_idle() took keeps it from being noted again. */
	for (i = 0; i < batch->nidle; i++)
		list_add_tail(&hugemap_inode(batch->idle[i])->idle, &mount->idle);
	spin_unlock(&mount->idle_lock);
}

void hugemap_put_idle(struct hugemap_mount *mount)
{
	struct hugemap_inode *hi;

	do {
		spin_lock(&mount->idle_lock);
		hi = list_first_entry_or_null(&mount->idle, struct hugemap_inode, idle);
		if (hi)
			list_del_init(&hi->idle);
		spin_unlock(&mount->idle_lock);
		if (hi)
			iput(&hi->vfs_inode);
	} while (hi);
}

/* The files_lock is held for reading. */
static u32 evict_batch(struct hugemap_mount *mount, struct batch *batch, enum hm_kind kind,
		       u32 want, u32 *chosen)
{
	struct hugemap_inode *hi;
	u32 freed = 0, i = 0, n;

	batch->nidle = 0;
	n = hm_reclaim(mount->cache, kind, want, batch->victim, MAX_VICTIMS);
	while (i < n) {
		u32 length = evict_run_length(&batch->victim[i], n - i);

		hi = hugemap_inode_of_file(batch->victim[i].unit.file);
		evict_run(hi, &batch->victim[i], &batch->folio[i], length, &freed);
		evict_note_idle(batch, &hi->vfs_inode);
		i += length;
	}
	/* Once for all: each of those who wait looks for itself. */
	if (freed)
		hugemap_progress(mount);
	*chosen = n;
	return freed;
}

static u32 evict_round(struct hugemap_mount *mount, enum hm_kind kind, u32 want, u32 *chosen)
{
	struct batch *batch = mempool_alloc(batches, GFP_NOFS);
	u32 freed;

	down_read(&mount->files_lock);
	freed = evict_batch(mount, batch, kind, want, chosen);
	up_read(&mount->files_lock);
	while (batch->nidle)
		iput(batch->idle[--batch->nidle]);
	mempool_free(batch, batches);
	return freed;
}

bool hugemap_evict_quickly(struct hugemap_mount *mount)
{
	u32 want = hm_cache_options(mount->cache)->evict_batch, freed = 0, chosen = 1, round;
	struct batch *batch;

	if (!down_read_trylock(&mount->files_lock))
		return false;
	batch = mempool_alloc(batches, GFP_NOWAIT | __GFP_NOWARN);
	/* Units become inactive in one round and leave in the next. */
	for (round = 0; batch && chosen && !freed && round < ROUNDS; round++) {
		freed = evict_batch(mount, batch, HM_HUGE, want, &chosen);
		evict_idle_inodes(mount, batch);
	}
	up_read(&mount->files_lock);
	if (batch)
		mempool_free(batch, batches);
	return freed;
}

bool hugemap_evict_some(struct hugemap_mount *mount, enum hm_kind kind)
{
	u32 want = hm_cache_options(mount->cache)->evict_batch;
	u32 round, chosen;

	/*
	 * Units become inactive in one round and leave in the next. The oldest may all be
	 * locked in memory, or held: others come after them.
	 */
	for (round = 0; round < MANY_ROUNDS; round++) {
		if (evict_round(mount, kind, want, &chosen))
			return true;
		if (!chosen)
			return false;
	}
	return false;
}

bool hugemap_evict_ahead(struct hugemap_mount *mount)
{
	bool some = false;
	u32 kind;

	/* All that is there may be locked in memory, or held: not again and again. */
	for (kind = 0; kind < HM_KINDS; kind++)
		some |= hm_reclaim_want(mount->cache, kind) && hugemap_evict_some(mount, kind);
	return some;
}

/* --- waiting for frames -------------------------------------------------------------- */

/* Is anything on its way that may free a frame, or to be written, however long it takes? */
static bool evict_may_retry(struct hugemap_mount *mount)
{
	struct hugemap_inode *hi;
	bool hope = false;

	if (atomic_read(&mount->depth))
		return true;
	down_read(&mount->files_lock);
	list_for_each_entry(hi, &mount->files, files) {
		if (hm_file_dirty_pages(hi->hfile) && !READ_ONCE(hi->failures))
			hope = true;
		if (hi->lower && hi->lower->i_sb->s_writers.frozen != SB_UNFROZEN)
			hope = true;
	}
	up_read(&mount->files_lock);
	return hope;
}

int hugemap_wait_frame(struct hugemap_mount *mount, enum hm_kind kind, unsigned long *began)
{
	int freed = atomic_read(&mount->freed);
	unsigned long last;
	long left;

	if (!*began)
		*began = jiffies;
	if (hugemap_evict_some(mount, kind))
		return 0;
	atomic_inc(&mount->pressed);
	hugemap_wake_writer(mount);
	/* Not for ever: what comes free may be of the other kind. */
	left = wait_event_killable_timeout(mount->frames_wait, atomic_read(&mount->freed) != freed,
					   HZ / 10);
	atomic_dec(&mount->pressed);
	if (left < 0)
		return -EINTR;
	if (left)
		return 0;
	if (evict_may_retry(mount)) {
		/* What a slow disk has brought can be evicted only from then on. */
		*began = jiffies;
		return 0;
	}
	last = READ_ONCE(mount->progress);
	if (time_after(*began, last))
		last = *began;
	return time_after(jiffies, last + msecs_to_jiffies(HUGEMAP_FAULT_TIMEOUT_MS)) ? -ENOMEM : 0;
}

/* --- invalidation ---------------------------------------------------------------------------- */

/*
 * Take a claimed unit away as a whole, although somebody may hold its folio: a device, a
 * pipe or a read keeps it then, and the frame is without memory for now. Once abandoned,
 * a folio is never looked at again: its references are not ours. @tries: how often somebody
 * was waited for; not for each unit of a file again.
 */
static void evict_discard(struct hugemap_inode *hi, const struct hm_unit *unit, u32 *tries)
{
	struct hugemap_mount *mount = hugemap_of(hi);
	struct folio *folio = hugemap_frame_folio(mount, unit->frame);

	for (;; (*tries)++) {
		folio_lock(folio);
		if (folio_mapped(folio))
			unmap_mapping_pages(hi->vfs_inode.i_mapping, unit->pgoff, unit->npages,
					    false);
		if (hugemap_folio_remove(hi, folio)) {
			folio_unlock(folio);
			return;
		}
		if (*tries >= HUGEMAP_PIN_RETRIES && !folio_mapped(folio)) {
			hugemap_folio_orphan(hi, folio);
			hugemap_frame_empty(mount, unit);
			folio_unlock(folio);
			folio_put(folio);
			return;
		}
		folio_unlock(folio);
		schedule_timeout_uninterruptible(1);
	}
}

/* A clean unit that somebody said is not needed. */
static void evict_drop(struct hugemap_inode *hi, const struct hm_unit *unit)
{
	struct folio *folio = hugemap_frame_folio(hugemap_of(hi), unit->frame);
	u32 freed = 0;

	folio_lock(folio);
	/* Who maps it wants it, whoever asks, and has a reference: as Linux has it. */
	evict_leave(hi, folio, unit, &freed);
	if (freed)
		hugemap_progress(hugemap_of(hi));
}

void hugemap_invalidate(struct hugemap_inode *hi, u64 start, u64 end, bool all)
{
	struct hugemap_mount *mount = hugemap_of(hi);
	u64 pos = start;
	u32 tries = 0;

	for (;;) {
		enum hm_invalidated found;
		struct hm_unit unit;
		u32 n;

		/* A sync waits for who has claimed a unit: see hugemap_wait_claims(). */
		down_read(&mount->files_lock);
		for (n = 0; n < DROP_BATCH; n++) {
			found = hm_invalidate(hi->hfile, &pos, end, all, &unit);
			if (found != HM_INV_UNIT || all)
				break;
			evict_drop(hi, &unit);
		}
		up_read(&mount->files_lock);
		switch (found) {
		case HM_INV_DONE:
			return;
		case HM_INV_UNIT:
			hugemap_race_point("invalidate: claimed, not locked");
			if (all) {
				evict_discard(hi, &unit, &tries);
				hugemap_evict_report(hi, &unit, HM_EVICT_DISCARD);
			}
			break;
		case HM_INV_BUSY:
			/* Filling, being written or evicted: each of them ends. */
			if (!all) {
				/* Nobody waits for others' I/O to drop what is clean. */
				hm_peek(hi->hfile, pos, &unit);
				pos = unit.pgoff + unit.npages;
				break;
			}
			wait_event(*hugemap_wait_of(mount, hi->hfile, pos),
				   hugemap_unit_idle(hi, pos));
			break;
		}
		cond_resched();
	}
}

void hugemap_wait_claims(struct hugemap_mount *mount)
{
	int dirtied = atomic_read(&mount->dirtied_claimed);

	if (READ_ONCE(mount->awaited) == dirtied)
		return;
	/* Claims last no longer than files_lock is held; each ends with the truth. */
	down_write(&mount->files_lock);
	up_write(&mount->files_lock);
	WRITE_ONCE(mount->awaited, dirtied);
}

/* Units of which a part is needed stay, as Linux has it. */
void hugemap_data_dontneed(struct inode *inode, loff_t start, loff_t end)
{
	struct hugemap_inode *hi = hugemap_inode(inode);
	u64 first = hugemap_pages(start), last = (u64)end >> HM_PAGE_SHIFT;
	loff_t size = i_size_read(inode);
	struct hm_unit unit;

	if (!hi->hfile || start < 0 || start >= min(end, size))
		return;
	unit = (struct hm_unit){ .pgoff = first, .npages = 1 };
	hm_peek(hi->hfile, first, &unit);
	if (unit.pgoff < first)
		first = unit.pgoff + unit.npages;
	if (end >= size) {
		last = hugemap_pages(size);
	} else {
		unit = (struct hm_unit){ .pgoff = last, .npages = 1 };
		hm_peek(hi->hfile, last, &unit);
		last = min(last, unit.pgoff);
	}
	if (first < last)
		hugemap_invalidate(hi, first, last, false);
}
