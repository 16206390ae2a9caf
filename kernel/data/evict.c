// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Eviction of the victims that hm_reclaim() has chosen, in runs that are unmapped together (one TLB
 * flush for each run and VMA); and invalidation.
 *
 * Each batch runs in a section of hugemap_files_srcu. It keeps the files of the victims, and their
 * inodes, in memory.
 */
#include <linux/lockdep.h>
#include <linux/mempool.h>
#include <linux/mm.h>
#include <linux/pagemap.h>

#include "demand.h"
#include "evict.h"
#include "folio.h"
#include "index.h"
#include "slot.h"
#include "trace.h"
#include "wait.h"

#define MAX_VICTIMS 128u
#define ROUNDS 3u
#define MANY_ROUNDS 256u
/* How long a task without a frame waits if units could have left but for a pin. */
#define PINNED_TICKS DIV_ROUND_UP(HZ, 100)
#define DROP_BATCH 32u /* units that are dropped in one section of hugemap_files_srcu */

/* The data of one round. It is too large for the stack. */
struct batch {
	struct hm_victim victim[MAX_VICTIMS];
	struct folio *folio[MAX_VICTIMS];
	struct inode *idle[MAX_VICTIMS]; /* inodes without any cached data left */
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

/*
 * The next claim of the unit may come before the report:
 *
 *   CPU 0: ends its claim of a unit to which a device has stored meanwhile; has not reported it yet
 *   CPU 1: reclaim begins a section of hugemap_files_srcu, and claims the unit
 *   CPU 2: a sync that began before this section waits only for the section of CPU 0
 *
 * CPU 1 finds the flag. CPU 0 counts the second claim before its own section ends, or before it
 * releases the invalidate_lock. So CPU 2 sees the count, and waits for the second claim as well.
 */
void hugemap_report_dirtied(struct hugemap_inode *hi, u64 pgoff, struct folio *folio)
{
	struct hugemap_mount *mount = hugemap_of(hi);
	struct hm_access access = HM_ACCESS(.write = true, .cached_only = true, .again = true);
	struct hm_unit ignored;

	if (!folio_test_dirty(folio) || hm_fault(hi->hfile, pgoff, access, &ignored) != HM_BUSY)
		return;
	atomic_inc(&mount->dirtied_claimed);
	atomic_inc(&mount->claimed_again);
}

/*
 * The unit stays: its folio is pinned, locked, mapped or mlocked. The unit may have become dirty
 * while it was claimed.
 */
static void evict_stay(struct hugemap_inode *hi, const struct hm_unit *unit,
		       enum hm_evict_result result)
{
	struct folio *folio = hugemap_frame_folio(hugemap_of(hi), unit->frame);

	/* After hm_evict_done() the unit is no longer claimed, so hold a reference. */
	folio_get(folio);
	hm_evict_done(unit, result);
	hugemap_race_point("evict: stays, not reported as dirty");
	/*
	 * The folio may become dirty at the same time, for example because a device unpins it:
	 *
	 *   CPU 0: hm_evict_done() ends the claim, then this tests the dirty flag
	 *   CPU 1: hugemap_dirty_folio() sets the flag, then tests whether the unit is claimed
	 *
	 * Both sides have full barriers. So CPU 0 sees the flag, or CPU 1 sees that the claim has
	 * ended and reports the store to the core itself.
	 */
	hugemap_report_dirtied(hi, unit->pgoff, folio);
	folio_put(folio);
}

static void evict_report(struct hugemap_inode *hi, const struct hm_unit *unit,
			 enum hm_evict_result result)
{
	struct hugemap_mount *mount = hugemap_of(hi);

	trace_hugemap_evict(&hi->vfs_inode, unit->pgoff, unit->npages, result);
	hugemap_race_point("evict: left, not absent yet");
	if (hugemap_may_be_poisoned() && (result == HM_EVICTED || result == HM_EVICT_DISCARD))
		hugemap_frame_check(mount, unit);
	if (result == HM_EVICT_BUSY || result == HM_EVICT_STAYS)
		evict_stay(hi, unit, result);
	else
		hm_evict_done(unit, result);
	hugemap_race_point("evict: absent, waiters not woken");
	hugemap_wake_unit(mount, unit);
	if (result == HM_EVICT_DISCARD)
		hugemap_progress(mount);
}

void hugemap_evict_report(struct hugemap_inode *hi, const struct hm_unit *unit,
			  enum hm_evict_result result)
{
	evict_report(hi, unit, result);
	if (result == HM_EVICT_DISCARD)
		hugemap_keep_index(hi, unit->pgoff);
}

/*
 * Let a claimed, locked and unmapped unit leave, if it is clean and not pinned. Unlock the folio.
 * The caller reports progress to the tasks that wait for frames. @stays: the result if it is pinned
 * or mapped.
 */
static void evict_leave(struct hugemap_inode *hi, struct folio *folio, const struct hm_unit *unit,
			enum hm_evict_result stays, u32 *freed)
{
	if (hugemap_folio_remove(hi, folio, true)) {
		folio_unlock(folio);
		evict_report(hi, unit, HM_EVICTED);
		(*freed)++;
	} else if (folio_test_dirty(folio)) {
		folio_unlock(folio);
		evict_report(hi, unit, HM_EVICT_DIRTY);
	} else {
		if (!folio_mapped(folio))
			hugemap_count(hugemap_of(hi), HUGEMAP_C_PINNED, 1);
		folio_unlock(folio);
		evict_report(hi, unit, stays);
	}
}

static void evict_report_move(struct hugemap_inode *hi, const struct hm_victim *victim, bool moved)
{
	hugemap_race_point("evict: moved, claimed");
	hm_move_done(&victim->unit, victim->to, moved);
	hugemap_wake_unit(hugemap_of(hi), &victim->unit);
}

/*
 * Move a claimed, locked and unmapped page to its new frame, unless it is pinned. Unlock the folio.
 * The copy is made while no task can store to the page. The data of a poisoned page is lost, so it
 * is not copied. A change of the lower file (data/change.c) holds the invalidate_lock exclusively:
 * without the trylock, it could look for the folio in the old frame, and not change the copy.
 */
static void evict_move(struct hugemap_inode *hi, struct folio *folio,
		       const struct hm_victim *victim)
{
	struct address_space *mapping = hi->vfs_inode.i_mapping;
	bool locked = filemap_invalidate_trylock_shared(mapping);
	struct hm_unit to = victim->unit;
	bool moved;

	to.frame = victim->to;
	moved = locked && !hugemap_is_poisoned(folio) && hugemap_folio_move(hi, folio, &to);
	folio_unlock(folio);
	evict_report_move(hi, victim, moved);
	if (locked)
		filemap_invalidate_unlock_shared(mapping);
}

/* A unit that becomes inactive is unmapped, unless it was accessed since it was chosen. */
static bool evict_may_unmap(const struct hm_victim *victim)
{
	const struct hm_unit *unit = &victim->unit;
	struct hm_unit now;

	return victim->evict ||
	       (hm_peek(unit->file, unit->pgoff, &now) == HM_CLEAN && now.frame == unit->frame &&
		!hm_referenced(unit->file, unit->pgoff));
}

/* Return false, and count it, if the page would move to a frame that has no memory yet. */
static bool evict_can_move(struct hugemap_mount *mount, const struct hm_victim *victim)
{
	if (victim->to == HM_NO_FRAME_ID || hugemap_frame_folio(mount, victim->to))
		return true;
	hugemap_count(mount, HUGEMAP_C_NOT_MOVED_NO_MEMORY, 1);
	return false;
}

/*
 * Return true if a locked VMA covers pages of the run, and some may be mapped. Most runs that leave
 * are unmapped already, and take no i_mmap_rwsem here.
 */
static bool evict_run_may_be_mlocked(struct hugemap_inode *hi, const struct hm_victim *victims,
				     u32 n)
{
	u64 start = victims[0].unit.pgoff;
	u64 end = victims[n - 1].unit.pgoff + victims[n - 1].unit.npages;
	bool mapped = false;
	u32 i;

	for (i = 0; i < n && !mapped; i++)
		mapped = !victims[i].evict ||
			 folio_mapped(hugemap_frame_folio(hugemap_of(hi), victims[i].unit.frame));
	return mapped && hugemap_mm_is_mlocked(hi->vfs_inode.i_mapping, start, end - start);
}

/*
 * Return true if mm has marked the folio, or if it is mapped and a locked VMA covers it. An
 * unmapped page of a locked VMA may leave: with MLOCK_ONFAULT most pages of a large VMA may be read
 * ahead and never accessed. @may_be_mlocked: see evict_lock_victim().
 */
static bool evict_is_mlocked(struct hugemap_inode *hi, struct folio *folio,
			     const struct hm_unit *unit, bool may_be_mlocked)
{
	if (folio_test_mlocked(folio))
		return true;
	return may_be_mlocked && folio_mapped(folio) &&
	       hugemap_mm_is_mlocked(hi->vfs_inode.i_mapping, unit->pgoff, unit->npages);
}

/* Return the result for a victim that does not leave. */
static enum hm_evict_result evict_stays(const struct hm_victim *victim)
{
	return victim->isolated ? HM_EVICT_BUSY : HM_EVICT_STAYS;
}

/*
 * Return the folio of a victim, locked. If the victim is not claimed, the folio has a reference.
 * NULL: the victim stays, and stays mapped. That includes folios locked by mlock(2), because mm
 * forgets the lock with the mapping. @may_be_mlocked: a locked VMA covers pages of the run.
 *
 * A folio that only becomes inactive stays locked until the TLBs are flushed. mm clears a huge
 * entry before it flushes. Without the lock, write-back would find nothing to protect in between,
 * and a store through a stale TLB entry would be lost.
 */
static struct folio *evict_lock_victim(struct hugemap_inode *hi, const struct hm_victim *victim,
				       bool may_be_mlocked)
{
	const struct hm_unit *unit = &victim->unit;
	struct folio *folio;

	if (victim->evict)
		folio = hugemap_frame_folio(hugemap_of(hi), unit->frame);
	else
		folio = hugemap_unit_folio(hi, unit);
	if (folio && (victim->evict || folio_mapped(folio)) &&
	    !evict_is_mlocked(hi, folio, unit, may_be_mlocked) &&
	    evict_can_move(hugemap_of(hi), victim) && folio_trylock(folio)) {
		if (victim->evict || hugemap_folio_is(hi, folio, unit->pgoff))
			return folio;
		folio_unlock(folio);
	}
	if (victim->to != HM_NO_FRAME_ID)
		evict_report_move(hi, victim, false);
	else if (victim->evict)
		evict_report(hi, unit, evict_stays(victim));
	else if (folio)
		folio_put(folio);
	return NULL;
}

/* Return the number of victims, from the first on, that are adjacent in one file. */
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
 * An unused inode stays in memory while data of it is cached. When the last data has left, iput()
 * makes the inode available to reclaim.
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
	bool unmap = false, may_be_mlocked;
	u32 i;

	hugemap_race_point("evict: claimed, not locked");
	may_be_mlocked = evict_run_may_be_mlocked(hi, victims, n);
	for (i = 0; i < n; i++) {
		folio[i] = evict_lock_victim(hi, &victims[i], may_be_mlocked);
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
		if (victims[i].to != HM_NO_FRAME_ID) {
			evict_move(hi, folio[i], &victims[i]);
		} else if (victims[i].evict) {
			evict_leave(hi, folio[i], &victims[i].unit, evict_stays(&victims[i]),
				    freed);
			hugemap_trim_index(hi->hfile, victims[i].unit.pgoff);
		} else {
			folio_unlock(folio[i]);
			folio_put(folio[i]);
		}
	}
}

/* The last iput() of an inode may write and wait, so the reclaimer does it. */
static void evict_idle_inodes(struct hugemap_mount *mount, struct batch *batch)
{
	u32 i;

	spin_lock(&mount->idle_lock);
	/*
	 * No inode is added twice: a listed inode has a reference, evict_note_idle() skips an inode
	 * with a reference, and pool_lock excludes other shrinkers.
	 */
	for (i = 0; i < batch->nidle; i++)
		list_add_tail(&hugemap_inode(batch->idle[i])->data->idle, &mount->idle);
	spin_unlock(&mount->idle_lock);
}

void hugemap_put_idle(struct hugemap_mount *mount)
{
	struct hugemap_data *data;

	do {
		spin_lock(&mount->idle_lock);
		data = list_first_entry_or_null(&mount->idle, struct hugemap_data, idle);
		if (data)
			list_del_init(&data->idle);
		spin_unlock(&mount->idle_lock);
		if (data)
			iput(&data->hi->vfs_inode);
	} while (data);
}

/* Choose and evict one batch of victims. The caller is in a section of hugemap_files_srcu. */
static u32 evict_batch(struct hugemap_mount *mount, struct batch *batch, enum hm_kind kind,
		       u32 want, u32 *chosen)
{
	struct hugemap_inode *hi;
	u32 freed = 0, i = 0, n;

	batch->nidle = 0;
	if (hm_cache_index_excess(mount->cache))
		hugemap_trim_empty(mount);
	n = hm_reclaim(mount->cache, kind, want, batch->victim, MAX_VICTIMS);
	while (i < n) {
		u32 length = evict_run_length(&batch->victim[i], n - i);

		hi = hugemap_inode_of_file(batch->victim[i].unit.file);
		evict_run(hi, &batch->victim[i], &batch->folio[i], length, &freed);
		evict_note_idle(batch, &hi->vfs_inode);
		i += length;
	}
	/* One wake-up for the batch: each waiting task looks for a frame itself. */
	if (freed)
		hugemap_progress(mount);
	*chosen = n;
	return freed;
}

/*
 * The rounds of a call in which nothing leaves. A unit that stays is queued again, behind the
 * others of its queue. So when a round claims the frame @mark of an earlier round again, the rounds
 * repeat themselves, and the call is over.
 *
 * The unit of @mark may become dirty, and is not claimed again then. So the frame of a later round
 * replaces it, each time after twice as many rounds.
 */
struct evict_pass {
	u32 mark; /* HM_NO_FRAME_ID: no unit was claimed and stayed */
	u32 rounds, renew; /* rounds so far, and the round that sets the next mark */
	bool over;
};

static void evict_note_round(struct evict_pass *pass, const struct batch *batch, u32 n)
{
	u32 claimed = HM_NO_FRAME_ID, i;

	pass->rounds++;
	pass->over = !n || pass->rounds == MANY_ROUNDS;
	for (i = 0; i < n; i++) {
		const struct hm_victim *victim = &batch->victim[i];

		if (!victim->evict || victim->to != HM_NO_FRAME_ID)
			continue;
		claimed = victim->unit.frame;
		pass->over |= claimed == pass->mark;
	}
	if (claimed != HM_NO_FRAME_ID && pass->rounds >= pass->renew) {
		pass->mark = claimed;
		pass->renew = 2 * pass->rounds;
	}
}

/* Return the number of units that have left. If it is 0, the round is noted in @pass. */
static u32 evict_round(struct hugemap_mount *mount, enum hm_kind kind, struct evict_pass *pass)
{
	u32 want = hm_cache_options(mount->cache)->evict_batch, freed, chosen;
	struct batch *batch = mempool_alloc(batches, GFP_NOFS);
	int idx;

	idx = srcu_read_lock(&hugemap_files_srcu);
	freed = evict_batch(mount, batch, kind, want, &chosen);
	srcu_read_unlock(&hugemap_files_srcu, idx);
	if (!freed)
		evict_note_round(pass, batch, chosen);
	while (batch->nidle)
		iput(batch->idle[--batch->nidle]);
	mempool_free(batch, batches);
	return freed;
}

bool hugemap_evict_quickly(struct hugemap_mount *mount, enum hm_kind kind)
{
	u32 want = hm_cache_options(mount->cache)->evict_batch, freed = 0, chosen = 1, round;
	struct batch *batch = mempool_alloc(batches, GFP_NOWAIT | __GFP_NOWARN);
	int idx = srcu_read_lock(&hugemap_files_srcu);

	lockdep_assert_held(&mount->pool_lock);
	/* Units become inactive in one round and leave in the next. */
	for (round = 0; batch && chosen && !freed && round < ROUNDS; round++) {
		freed = evict_batch(mount, batch, kind, want, &chosen);
		evict_idle_inodes(mount, batch);
	}
	srcu_read_unlock(&hugemap_files_srcu, idx);
	if (batch)
		mempool_free(batch, batches);
	return freed;
}

/* *stays: units were claimed, but all of them stay, for example because they are pinned. */
static bool evict_some(struct hugemap_mount *mount, enum hm_kind kind, bool *stays)
{
	struct evict_pass pass = { .mark = HM_NO_FRAME_ID };

	/*
	 * Units become inactive in one round and leave in the next. The oldest ones may all be
	 * mlocked or pinned, and others come after them.
	 */
	while (!pass.over)
		if (evict_round(mount, kind, &pass))
			return true;
	*stays = pass.mark != HM_NO_FRAME_ID;
	return false;
}

bool hugemap_evict_some(struct hugemap_mount *mount, enum hm_kind kind)
{
	bool stays;

	return evict_some(mount, kind, &stays);
}

bool hugemap_evict_ahead(struct hugemap_mount *mount)
{
	bool some = false;
	u32 kind;

	if (hm_cache_index_excess(mount->cache) ||
	    hm_cache_empty_count(mount->cache) > HM_EMPTY_MAX / 2)
		hugemap_trim_empty(mount);
	/* All units may be mlocked or pinned, so make only one attempt for each kind. */
	for (kind = 0; kind < HM_KINDS; kind++)
		some |= hm_reclaim_want(mount->cache, kind) && hugemap_evict_some(mount, kind);
	return some;
}

/* --- waiting for frames -------------------------------------------------------------- */

/*
 * Return true if waiting may help: I/O is in flight, a file has dirty units that can be written, or
 * the lower file system is frozen.
 */
static bool evict_may_retry(struct hugemap_mount *mount)
{
	const struct dentry *lower = mount->lower.dentry;
	struct hugemap_data *data;
	bool hope = false;
	int idx;

	if (hugemap_in_flight(mount) || (lower && lower->d_sb->s_writers.frozen != SB_UNFROZEN))
		return true;
	idx = srcu_read_lock(&hugemap_files_srcu);
	list_for_each_entry_srcu(data, &mount->files, files,
				 srcu_read_lock_held(&hugemap_files_srcu)) {
		if (hm_file_dirty_pages(data->hi->hfile) && !READ_ONCE(data->failures)) {
			hope = true;
			break;
		}
	}
	srcu_read_unlock(&hugemap_files_srcu, idx);
	return hope;
}

int hugemap_wait_frame(struct hugemap_mount *mount, enum hm_kind kind, unsigned long *began)
{
	int freed = atomic_read(&mount->freed);
	unsigned long last;
	bool stays = false;
	long left;

	if (!*began)
		*began = jiffies;
	if (evict_some(mount, kind, &stays))
		return 0;
	atomic_inc(&mount->pressed);
	hugemap_wake_writer(mount);
	/*
	 * Limit the wait: the next free frame may be of the other kind. The end of a pin wakes no
	 * task, and most pins last for less than a tick.
	 */
	left = stays ? PINNED_TICKS : HZ / 10;
	left = wait_event_killable_timeout(mount->frames_wait, atomic_read(&mount->freed) != freed,
					   left);
	atomic_dec(&mount->pressed);
	if (left < 0)
		return -EINTR;
	if (left)
		return 0;
	if (evict_may_retry(mount)) {
		/*
		 * Restart the timeout: a slow disk may have filled units that can be evicted only
		 * from now on.
		 */
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
 * Take a claimed unit out of the cache even if its folio is pinned by a device, a pipe or a read. A
 * pinned folio becomes an orphan, and the frame has no memory until its next fill. After that the
 * folio must not be touched: its references belong to others. @tries: the ticks spent so far on
 * pinned folios, for all units of the file together.
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
		if (hugemap_folio_remove(hi, folio, false)) {
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

/*
 * Drop a claimed clean unit, unless it is locked, mapped or pinned. The caller is in a section of
 * hugemap_files_srcu: a sync that waits for its end must not wait for the holder of a folio, too.
 */
static void evict_drop(struct hugemap_inode *hi, const struct hm_unit *unit)
{
	struct folio *folio = hugemap_frame_folio(hugemap_of(hi), unit->frame);
	u32 freed = 0;

	if (!folio_trylock(folio)) {
		evict_report(hi, unit, HM_EVICT_BUSY);
		return;
	}
	/* A mapped unit stays, as on Linux: its mappings have references. */
	evict_leave(hi, folio, unit, HM_EVICT_BUSY, &freed);
	if (!freed)
		return;
	hugemap_keep_index(hi, unit->pgoff);
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
		u64 stop = end;
		int idx;
		u32 n;

		/* A sync waits for claims of units: see hugemap_wait_claims(). */
		idx = srcu_read_lock(&hugemap_files_srcu);
		for (n = 0; n < DROP_BATCH; n++) {
			if (!all)
				stop = hugemap_skip_demand(hi, &pos, end);
			found = hm_invalidate(hi->hfile, &pos, stop, all, &unit);
			if (found != HM_INV_UNIT || all)
				break;
			evict_drop(hi, &unit);
		}
		srcu_read_unlock(&hugemap_files_srcu, idx);
		switch (found) {
		case HM_INV_DONE:
			if (stop == end)
				return;
			break;
		case HM_INV_UNIT:
			hugemap_race_point("invalidate: claimed, not locked");
			if (all) {
				evict_discard(hi, &unit, &tries);
				hugemap_evict_report(hi, &unit, HM_EVICT_DISCARD);
			}
			break;
		case HM_INV_BUSY:
			hugemap_keep_index(hi, pos);
			/* A fill, a write-back or an eviction is under way, and will end. */
			if (!all) {
				/* Clean units are dropped without a wait for I/O of other tasks. */
				hm_peek(hi->hfile, pos, &unit);
				pos = unit.pgoff + unit.npages;
				break;
			}
			wait_event(*hugemap_wait_of(mount, hi->hfile, pos),
				   hugemap_unit_idle(hi, pos));
			break;
		case HM_INV_AGAIN:
			break;
		}
		cond_resched();
	}
}

bool hugemap_claims_pending(struct hugemap_mount *mount)
{
	/* Pairs with the release below: this sync sees what the sync that waited has seen. */
	return smp_load_acquire(&mount->awaited) != atomic_read(&mount->dirtied_claimed);
}

void hugemap_wait_claims(struct hugemap_mount *mount)
{
	int dirtied = atomic_read(&mount->dirtied_claimed), again;

	if (!hugemap_claims_pending(mount))
		return;
	/*
	 * A claim ends before its section does, with the final state of the unit. Units that are
	 * claimed again need another round: see hugemap_report_dirtied(). Another round is rare,
	 * because the second claim has to come within a few instructions.
	 */
	do {
		again = atomic_read(&mount->claimed_again);
		synchronize_srcu_expedited(&hugemap_files_srcu);
	} while (atomic_read(&mount->claimed_again) != again);
	smp_store_release(&mount->awaited, dirtied);
}

/* A unit that the range covers only in part stays, as on Linux. */
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
