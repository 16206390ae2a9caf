// SPDX-License-Identifier: GPL-2.0-only OR MIT
/* The writer thread of a mount: it chooses the file to write and how much of it. */
#include <linux/freezer.h>
#include <linux/fs.h>
#include <linux/kthread.h>

#include "index.h"
#include "writeback.h"
#include "writer.h"

/* Time for a chunk of a file that makes slow progress, before other files get their turn. */
#define WRITER_TIMEOUT (5 * HZ)

/*
 * Return true if the file must be skipped: a worker is still writing it, or its last write-back has
 * failed and the time for a retry has not come.
 */
static bool writer_backs_off(struct hm_file *hfile)
{
	const struct hugemap_data *data = hugemap_inode_of_file(hfile)->data;

	return READ_ONCE(data->in_chunk) ||
	       (READ_ONCE(data->failures) && time_before(jiffies, READ_ONCE(data->retry_at)));
}

/* Return the file to write now, with a reference, and the number of pages to write; or NULL. */
static struct hugemap_inode *writer_writeback_pick(struct hugemap_mount *mount, u64 *npages)
{
	bool pressed = atomic_read(&mount->pressed) > 0, expired = false;
	struct hugemap_inode *best = NULL;
	struct hugemap_data *data;
	struct hm_file *hfile;
	u64 most = 0;
	int idx;

	*npages = HUGEMAP_CHUNK_PAGES;
	/*
	 * Advance the clock for each file: while one file is written to without end, others become
	 * old.
	 */
	hm_cache_tick(mount->cache, ktime_to_ms(ktime_get()));
	idx = srcu_read_lock(&hugemap_files_srcu);
	hfile = hm_writeback_pick(mount->cache, writer_backs_off, &expired);
	if (hfile)
		best = hugemap_inode_of_file(hfile);
	/* An old file is written as a whole, because its age starts again at zero. */
	if (expired)
		*npages = hm_file_dirty_pages(hfile);
	if (!best && pressed) {
		/* Take the file with the most dirty pages instead. */
		list_for_each_entry_srcu(data, &mount->files, files,
					 srcu_read_lock_held(&hugemap_files_srcu)) {
			struct hugemap_inode *hi = data->hi;

			if (hm_file_dirty_pages(hi->hfile) > most && !writer_backs_off(hi->hfile)) {
				most = hm_file_dirty_pages(hi->hfile);
				best = hi;
			}
		}
	}
	if (best && !igrab(&best->vfs_inode))
		best = NULL;
	srcu_read_unlock(&hugemap_files_srcu, idx);
	return best;
}

/*
 * Write a chunk of a file. Return false if that changed nothing: no unit was dirty, or other tasks
 * write the dirty ones.
 */
static bool writer_write_chunk(struct hugemap_inode *hi)
{
	u64 pos = hi->data->write_at, dirty = hm_file_dirty_pages(hi->hfile);

	hugemap_write_some(hi, &pos, U64_MAX, HUGEMAP_CHUNK_PAGES, false);
	/*
	 * At the end, continue at the start. Pages before the position that become dirty again are
	 * written in the next pass.
	 */
	hi->data->write_at = pos == U64_MAX ? 0 : pos;
	return hm_file_dirty_pages(hi->hfile) != dirty || hi->data->write_at;
}

void hugemap_chunk_work(struct work_struct *work)
{
	struct hugemap_inode *hi = container_of(work, struct hugemap_data, chunk)->hi;
	struct hugemap_mount *mount = hugemap_of(hi);

	hi->data->wrote = writer_write_chunk(hi);
	smp_store_release(&hi->data->in_chunk, false);
	wake_up(&mount->writer_wait);
	iput(&hi->vfs_inode);
}

/*
 * Write a chunk in a worker. The lower file system may wait for a program (a FUSE server), which
 * can delay it for ever. The thread waits only while there is progress, so that other files are
 * written.
 */
static bool writer_write_by_worker(struct hugemap_mount *mount, struct hugemap_inode *hi)
{
	unsigned long deadline = jiffies + WRITER_TIMEOUT;
	u32 runs;

	ihold(&hi->vfs_inode);
	WRITE_ONCE(hi->data->in_chunk, true);
	queue_work(mount->chunk_wq, &hi->data->chunk);
	do {
		runs = READ_ONCE(hi->data->runs);
		wait_event_timeout(mount->writer_wait, !READ_ONCE(hi->data->in_chunk), HZ);
		hm_cache_tick(mount->cache, ktime_to_ms(ktime_get()));
	} while (READ_ONCE(hi->data->in_chunk) && READ_ONCE(hi->data->runs) != runs &&
		 time_before(jiffies, deadline));
	/* True: the writer continues, because other files may have more to write. */
	return smp_load_acquire(&hi->data->in_chunk) || hi->data->wrote;
}

int hugemap_writer(void *arg)
{
	struct hugemap_mount *mount = arg;

	set_freezable();
	while (!kthread_should_stop()) {
		struct hugemap_inode *hi;
		u64 npages;

		wait_event_freezable_timeout(mount->writer_wait,
					     READ_ONCE(mount->write) || kthread_should_stop(), HZ);
		WRITE_ONCE(mount->write, false);
		while (!kthread_should_stop() && (hi = writer_writeback_pick(mount, &npages))) {
			bool wrote = writer_write_by_worker(mount, hi);

			for (; wrote && npages > HUGEMAP_CHUNK_PAGES &&
			       !writer_backs_off(hi->hfile) && !kthread_should_stop();
			     npages -= HUGEMAP_CHUNK_PAGES) {
				try_to_freeze();
				cond_resched();
				wrote = writer_write_by_worker(mount, hi);
			}
			iput(&hi->vfs_inode);
			if (!wrote)
				break;
			cond_resched();
		}
	}
	return 0;
}
