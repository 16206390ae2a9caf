// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Blocks that a task needs, and has lost before it could use them.
 *
 * A page can leave the cache between its fill and its use:
 *
 *   CPU 0: fills the page, and is about to map it, or to copy data into it
 *   CPU 1: FADV_DONTNEED drops the page, because it is clean and neither mapped nor referenced
 *   CPU 0: does not find the page, and fills it again
 *
 * If CPU 1 repeats its call, CPU 0 may never end. A reference to the page would keep it, but CPU 0
 * may have to fault its source in meanwhile, and the pool may have no other frame for the source.
 * So CPU 0 notes the block after its first failure. FADV_DONTNEED is advice, and passes over a noted
 * block.
 *
 * A note expires, so it needs no release. Two blocks may share a slot. Then one of their notes is
 * lost, and its task notes the block again after its next failure. The fields of a slot may belong
 * to two notes, because there is no lock: the block is then passed over for too long or too short.
 */
#include <linux/hash.h>
#include <linux/jiffies.h>

#include "demand.h"

/* The next access to the page comes sooner. A note is made before a fill and after it. */
#define DEMAND_TICKS HZ

static u64 demand_key(const struct hugemap_inode *hi, u64 pgoff)
{
	u64 block = pgoff >> HM_BLOCK_ORDER;

	return ((u64)(uintptr_t)hi ^ block * 0x9e3779b97f4a7c15ull) | 1;
}

static struct hugemap_demand_note *demand_slot(struct hugemap_mount *mount, u64 key)
{
	BUILD_BUG_ON(ARRAY_SIZE(mount->demand) != 1 << 6);
	return &mount->demand[hash_64(key, 6)];
}

void hugemap_demand(struct hugemap_inode *hi, u64 pgoff)
{
	struct hugemap_mount *mount = hugemap_of(hi);
	u64 key = demand_key(hi, pgoff);
	struct hugemap_demand_note *note = demand_slot(mount, key);

	WRITE_ONCE(note->until, jiffies + DEMAND_TICKS);
	WRITE_ONCE(note->key, key);
	WRITE_ONCE(mount->demand_until, jiffies + DEMAND_TICKS);
}

static bool demand_is_noted(struct hugemap_inode *hi, u64 pgoff)
{
	u64 key = demand_key(hi, pgoff);
	const struct hugemap_demand_note *note = demand_slot(hugemap_of(hi), key);

	return READ_ONCE(note->key) == key && time_before(jiffies, READ_ONCE(note->until));
}

u64 hugemap_skip_demand(struct hugemap_inode *hi, u64 *pgoff, u64 end)
{
	/* Most of the time no block is noted, and the range may have a million blocks. */
	if (likely(!time_before(jiffies, READ_ONCE(hugemap_of(hi)->demand_until))))
		return end;
	while (*pgoff < end && demand_is_noted(hi, *pgoff))
		*pgoff = min(end, (*pgoff | HUGEMAP_BLOCK_MASK) + 1);
	return min(end, (*pgoff | HUGEMAP_BLOCK_MASK) + 1);
}
