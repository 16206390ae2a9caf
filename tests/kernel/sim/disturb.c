// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The disturber truncates files, calls fallocate(2), takes memory, kills programs, fills the disk
 * as other users would, and evicts inodes. This file also has the clock.
 */
#include "world.h"

struct size_change {
	struct sim_file *file;
	loff_t size;
};

static ssize_t resize_lower(void *arg)
{
	struct size_change *change = arg;

	if (sim_chance(w.s.write_error_percent)) {
		/*
		 * A failed truncation may be half done: the file is shorter, but its blocks are
		 * still allocated.
		 */
		if (change->size <
			    i_size_read(file_inode(hugemap_lower_file(change->file->fd[0]))) &&
		    sim_chance(50))
			hugemap_resize_lower(hugemap_lower_file(change->file->fd[0]), change->size);
		return -EIO;
	}
	return hugemap_resize_lower(hugemap_lower_file(change->file->fd[0]), change->size);
}

static void resize(struct sim_file *file)
{
	struct inode *inode = &file->hi->vfs_inode;
	struct size_change change = { .file = file };

	change.size = sim_lower(w.s.npages * WORDS) * sizeof(u64);
	if (sim_chance(30))
		change.size = change.size / PAGE_SIZE * PAGE_SIZE;
	inode_lock(inode);
	model_resizes(file, change.size);
	hugemap_change_lower(inode, min(i_size_read(inode), change.size), LLONG_MAX,
			     change.size > i_size_read(inode) ? HUGEMAP_GROW : HUGEMAP_DISCARD,
			     resize_lower, &change);
	inode_unlock(inode);
	w.counts[C_RESIZES]++;
}

/* Allocate, zero or punch a range by fallocate(2). */
static void call_fallocate(struct sim_file *file)
{
	static const int modes[] = {
		0,
		FALLOC_FL_KEEP_SIZE,
		FALLOC_FL_UNSHARE_RANGE,
		FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
		FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
		FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
		FALLOC_FL_ZERO_RANGE,
		FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE,
		FALLOC_FL_COLLAPSE_RANGE,
	};
	int mode = modes[sim_lower(ARRAY_SIZE(modes))];
	loff_t offset = (loff_t)(sim_lower(w.s.npages * WORDS) * sizeof(u64)), length;
	long err;

	length = (loff_t)((1 + sim_lower(MAX_TRANSFER)) * sizeof(u64));
	if (sim_chance(60)) {
		offset = offset / PAGE_SIZE * PAGE_SIZE;
		length = round_up(length, PAGE_SIZE);
	}
	/* Most offsets lie within the file. */
	if (offset >= file->min && sim_chance(70))
		offset = offset % (file->min + 1) / PAGE_SIZE * PAGE_SIZE;
	aim(file, &offset, false);
	length = min(length, (loff_t)(MAX_FILE_PAGES * PAGE_SIZE) - offset);
	lower_watch_room();
	err = file->fd[0]->f_op->fallocate(file->fd[0], mode, offset, length);
	sim_check(!err || excused((int)err) ||
			  (err == -ENOSPC && lower_min_room() < MAX_TRANSFER) ||
			  (err == -EOPNOTSUPP && mode == FALLOC_FL_COLLAPSE_RANGE) ||
			  (err == -EIO && w.s.write_error_percent),
		  "fallocate() failed with %ld", err);
	w.counts[C_RESIZES]++;
}

static void resize_pool(void)
{
	struct hugemap_options opts = w.mount->opts;

	opts.pool = (4 + sim_lower(w.s.pool_frames)) * PMD_SIZE;
	hugemap_data_reconfigure(w.mount, &opts, NULL);
	world_hurries();
}

/*
 * Close a file for the last time and open it again. The inode and its cached pages may stay in
 * memory. Or the inode is evicted, after write-back or because the file was deleted. In that case
 * the lower file may change, or be replaced, before the file is opened again.
 */
static void reopen(struct sim_file *file)
{
	bool discard = sim_chance(20), evict = discard || sim_chance(60);
	struct inode *inode = &file->hi->vfs_inode;
	u32 pause;

	w.parking = true;
	while (w.acting && !w.stopping)
		sim_yield();
	if (w.acting)
		goto out;
	mm_unmap_file(inode->i_mapping);
	world_close(file);
	iput(inode);
	for (pause = sim_lower(300); pause; pause--)
		sim_yield();
	/* Wait until the background threads have dropped their references. */
	while (evict && inode->i_count.value)
		sim_yield();
	if (!evict) {
		world_open(file, true);
		goto out;
	}
	if (discard)
		inode->i_nlink = file->disk->inode.i_nlink = 0;
	inode_evict(inode);
	file->disk->inode.i_nlink = 1;
	if (!discard && !w.failures)
		model_unmounted(file);
	if (discard || sim_chance(50))
		lower_change(file->disk, discard);
	model_restart(file);
	world_open(file, false);
	w.counts[C_INODES]++;
out:
	w.parking = false;
}

/* sync(2): the mount first, then the lower file system */
void sync_all(void)
{
	u32 i;
	int err;

	for (i = 0; i < w.s.nfiles; i++)
		model_sync_begins(&w.file[i], 0, MAX_FILE_WORDS);
	err = hugemap_data_sync(w.mount);
	sim_check(!err || (err != -ENOSPC && excused(err)) || model_may_be_told(err),
		  "a sync of the mount failed with %d without a cause", err);
	for (i = 0; i < w.s.nfiles; i++) {
		lower_flush(w.file[i].disk);
		if (!err)
			model_synced(&w.file[i], 0, MAX_FILE_WORDS);
	}
	w.counts[C_SYNCS]++;
}

static void disturb(void)
{
	const struct scenario *s = &w.s;
	u32 all = s->resizes + s->punches + s->pools + s->kills + s->fills + s->reopens +
		  s->foreigners + s->signals + 2;
	u32 dice = sim_lower(all);

	/* Reclaim as kswapd does. */
	if (sim_chance(s->pressure))
		shrink(GFP_KERNEL);

	if (dice < s->resizes) {
		resize(any_file());
		return;
	}
	dice -= s->resizes;
	if (dice < s->punches) {
		call_fallocate(any_file());
		return;
	}
	dice -= s->punches;
	if (dice < s->pools) {
		resize_pool();
		return;
	}
	dice -= s->pools;
	if (dice < s->kills) {
		task_kill(any_program());
		return;
	}
	dice -= s->kills;
	if (dice < s->fills) {
		/* Other users of the disk allocate or free space. */
		lower_set_room(sim_lower(sim_chance(50) ? 12 : 160));
		return;
	}
	dice -= s->fills;
	if (dice < s->foreigners) {
		foreign_folio(&any_file()->hi->vfs_inode, sim_lower(s->npages));
		return;
	}
	dice -= s->foreigners;
	if (dice < s->signals) {
		any_program()->signalled = true;
		return;
	}
	dice -= s->signals;
	if (dice < s->reopens)
		reopen(any_file());
	else
		sync_all();
}

void disturber_main(void *arg)
{
	(void)arg;
	while (!w.stopping) {
		u32 pause = sim_lower(400);

		while (pause--)
			sim_yield();
		disturb();
		sim_progress();
	}
	w.programs_left--;
}

/* After this many steps without progress, all tasks wait for time to pass. */
#define LONG_QUIET 100000u

void clock_main(void *arg)
{
	(void)arg;
	for (;;) {
		u32 pause = sim_lower(300);

		while (pause--) {
			rcu_tick();
			sim_yield();
		}
		time_passes(sched_quiet() < LONG_QUIET ? 1 + sim_lower(w.s.tick) : HZ / 10);
	}
}
