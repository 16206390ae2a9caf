// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The data half of a mount: it starts the pool, the core and the threads in this order, and stops
 * them in the reverse one.
 */
#include <linux/fs.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/percpu.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "evict.h"
#include "index.h"
#include "io.h"
#include "orphan.h"
#include "pool.h"
#include "promote.h"
#include "reclaimer.h"
#include "shrink.h"
#include "wait.h"
#include "writer.h"

int hugemap_data_setup(void)
{
	int err;

	err = hugemap_io_setup();
	if (err)
		return err;
	err = hugemap_evict_setup();
	if (err)
		goto out_io;
	err = hugemap_index_setup();
	if (err)
		goto out_evict;
	hugemap_poison_setup();
	hugemap_mm_set_maps_one(hugemap_mm_test_store());
	return 0;

out_evict:
	hugemap_evict_teardown();
out_io:
	hugemap_io_teardown();
	return err;
}

void hugemap_data_teardown(void)
{
	hugemap_poison_teardown();
	hugemap_index_teardown();
	hugemap_evict_teardown();
	hugemap_io_teardown();
}

static void mount_core_options(const struct hugemap_options *from, struct hm_options *to)
{
	hm_options_init(to);
	to->pool_frames = from->pool >> HM_BLOCK_SHIFT;
	/* Possible CPUs that are offline would own frames that no CPU takes first. */
	to->cpus = num_online_cpus();
	to->dirty_ratio = from->dirty_ratio;
	to->evict_batch = from->evict_batch;
	to->readahead_kb = from->readahead_kb;
	to->promote_util = from->util_threshold;
	to->promote_interval_ms = from->promote_interval;
	if (to->readahead_base_kb > from->readahead_kb)
		to->readahead_base_kb = from->readahead_kb;
}

/* The tables of a pool of 80 GB and more exceed INT_MAX bytes, the limit of kvmalloc(). */
static void *mount_new_table(size_t bytes)
{
	gfp_t gfp = GFP_KERNEL | __GFP_ZERO | __GFP_NOWARN | __GFP_RETRY_MAYFAIL;

	return bytes > INT_MAX ? __vmalloc(bytes, gfp) : kvmalloc(bytes, gfp);
}

static int mount_start_core(struct hugemap_mount *mount, struct fs_context *fc)
{
	struct hm_options opts;
	const char *wrong;
	size_t bytes;

	mount_core_options(&mount->opts, &opts);
	wrong = hm_options_check(&opts);
	if (wrong) {
		hugemap_errorfc(fc, "%s", wrong);
		return -EINVAL;
	}
	/* A remount may let the pool grow to twice its size, if the core allows so many frames. */
	opts.pool_frames *= 2;
	if (hm_options_check(&opts))
		opts.pool_frames /= 2;
	mount->nslots = opts.pool_frames;
	bytes = hm_cache_bytes(&opts);
	mount->cache_mem = mount_new_table(bytes);
	if (!mount->cache_mem) {
		hugemap_errorfc(
			fc, "no memory for the tables of the pool, %zu MB: ask for less (pool=)",
			bytes >> 20);
		return -ENOMEM;
	}
	mount->cache = hm_cache_init(mount->cache_mem, &opts);
	return 0;
}

static struct task_struct *mount_new_thread(struct hugemap_mount *mount, int (*work)(void *arg),
					    const char *what)
{
	return kthread_run(work, mount, "hugemap_%s/%u:%u", what, MAJOR(mount->sb->s_dev),
			   MINOR(mount->sb->s_dev));
}

static int mount_start_threads(struct hugemap_mount *mount)
{
	struct task_struct *task;

	mount->done_wq =
		alloc_workqueue("hugemap_done", HUGEMAP_WQ_PERCPU | WQ_HIGHPRI | WQ_MEM_RECLAIM, 0);
	mount->ahead_wq = alloc_workqueue("hugemap_ahead", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	/* Works of these queues may wait for each other, and for a program (a FUSE server). */
	mount->lower_wq =
		alloc_workqueue("hugemap_lower", WQ_UNBOUND | WQ_MEM_RECLAIM, WQ_MAX_ACTIVE);
	mount->write_wq =
		alloc_workqueue("hugemap_sync", WQ_UNBOUND | WQ_MEM_RECLAIM, WQ_MAX_ACTIVE);
	mount->chunk_wq =
		alloc_workqueue("hugemap_write", WQ_UNBOUND | WQ_MEM_RECLAIM, WQ_MAX_ACTIVE);
	/*
	 * Only this queue frees the memory of evicted files. Its works wait for no program, so a
	 * FUSE server that needs this memory gets it.
	 */
	mount->free_wq = alloc_workqueue("hugemap_free", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	if (!mount->done_wq || !mount->ahead_wq || !mount->lower_wq || !mount->write_wq ||
	    !mount->chunk_wq || !mount->free_wq)
		return -ENOMEM;
	task = mount_new_thread(mount, hugemap_writer, "write");
	if (IS_ERR(task))
		return PTR_ERR(task);
	mount->writer = task;
	task = mount_new_thread(mount, hugemap_reclaimer, "evict");
	if (IS_ERR(task))
		return PTR_ERR(task);
	mount->reclaimer = task;
	if (mount->opts.page != HUGEMAP_PAGE_AUTO)
		return 0;
	mount->promotion = kzalloc(hugemap_promotion_bytes(), GFP_KERNEL);
	if (!mount->promotion)
		return -ENOMEM;
	task = mount_new_thread(mount, hugemap_promoter, "promote");
	if (IS_ERR(task))
		return PTR_ERR(task);
	mount->promoter = task;
	return 0;
}

static int mount_start_counts(struct hugemap_mount *mount)
{
	int i;

	mount->counts = alloc_percpu(struct hugemap_counts);
	if (!mount->counts)
		return -ENOMEM;
	for (i = 0; i < HUGEMAP_HISTOGRAMS; i++) {
		mount->hist[i] = alloc_percpu(struct hm_hist);
		if (!mount->hist[i])
			return -ENOMEM;
	}
	return 0;
}

int hugemap_data_start(struct hugemap_mount *mount, struct fs_context *fc)
{
	int err, i;

	mount->demand_until = jiffies;
	spin_lock_init(&mount->fault_error_lock);
	mutex_init(&mount->pool_lock);
	mutex_init(&mount->split_lock);
	spin_lock_init(&mount->orphan_lock);
	INIT_LIST_HEAD(&mount->orphans);
	spin_lock_init(&mount->idle_lock);
	INIT_LIST_HEAD(&mount->idle);
	spin_lock_init(&mount->files_lock);
	INIT_LIST_HEAD(&mount->files);
	for (i = 0; i < HUGEMAP_WAITS; i++)
		init_waitqueue_head(&mount->waits[i]);
	init_waitqueue_head(&mount->frames_wait);
	init_waitqueue_head(&mount->writer_wait);
	init_waitqueue_head(&mount->reclaim_wait);
	init_waitqueue_head(&mount->promote_wait);
	mount->progress = jiffies;

	err = mount_start_counts(mount);
	if (!err)
		err = mount_start_core(mount, fc);
	if (!err)
		err = hugemap_pool_take(mount, fc);
	if (!err)
		err = mount_start_threads(mount);
	if (!err)
		err = hugemap_shrink_start(mount);
	return err;
}

static void mount_stop_threads(struct hugemap_mount *mount)
{
	if (mount->writer)
		kthread_stop(mount->writer);
	if (mount->reclaimer)
		kthread_stop(mount->reclaimer);
	if (mount->promoter)
		kthread_stop(mount->promoter);
	kfree(mount->promotion);
	mount->writer = NULL;
	mount->reclaimer = NULL;
	mount->promoter = NULL;
	mount->promotion = NULL;
}

void hugemap_data_quiesce(struct hugemap_mount *mount)
{
	hugemap_shrink_stop(mount);
	/*
	 * Works and I/Os hold references to inodes, and end by themselves. First flush the works of
	 * tasks that may have been killed, then the read-ahead that these have queued, then wait
	 * for the reads, then flush the works that the reads have queued at their end.
	 */
	if (mount->lower_wq)
		flush_workqueue(mount->lower_wq);
	if (mount->ahead_wq)
		flush_workqueue(mount->ahead_wq);
	while (hugemap_in_flight(mount))
		schedule_timeout_uninterruptible(1);
	if (mount->done_wq)
		flush_workqueue(mount->done_wq);
	mount_stop_threads(mount);
	if (mount->chunk_wq)
		flush_workqueue(mount->chunk_wq);
	hugemap_put_idle(mount);
}

void hugemap_data_stop(struct hugemap_mount *mount)
{
	int i;

	hugemap_shrink_stop(mount);
	mount_stop_threads(mount);
	if (mount->ahead_wq)
		destroy_workqueue(mount->ahead_wq);
	if (mount->lower_wq)
		destroy_workqueue(mount->lower_wq);
	if (mount->done_wq)
		destroy_workqueue(mount->done_wq);
	if (mount->write_wq)
		destroy_workqueue(mount->write_wq);
	if (mount->chunk_wq)
		destroy_workqueue(mount->chunk_wq);
	/* After a grace period, hugemap_destroy_inode() queues works that free files. */
	srcu_barrier(&hugemap_files_srcu);
	if (mount->free_wq)
		destroy_workqueue(mount->free_wq);
	if (mount->slots)
		hugemap_orphan_end(mount);
	hugemap_pool_give(mount);
	kvfree(mount->cache_mem);
	free_percpu(mount->counts);
	for (i = 0; i < HUGEMAP_HISTOGRAMS; i++)
		free_percpu(mount->hist[i]);
}

int hugemap_data_reconfigure(struct hugemap_mount *mount, const struct hugemap_options *opts,
			     struct fs_context *fc)
{
	struct hm_options core;
	const char *wrong;
	int err;

	if (opts->page != mount->opts.page) {
		hugemap_errorfc(fc, "the page size cannot change while it is mounted");
		return -EINVAL;
	}
	mount_core_options(opts, &core);
	wrong = hm_options_check(&core);
	if (wrong) {
		hugemap_errorfc(fc, "%s", wrong);
		return -EINVAL;
	}
	err = hugemap_pool_resize(mount, opts->pool, fc);
	if (err)
		return err;
	/* The shrinker reads the options under pool_lock. */
	mutex_lock(&mount->pool_lock);
	mount->opts = *opts;
	mutex_unlock(&mount->pool_lock);
	hm_cache_set_options(mount->cache, &core);
	hugemap_wake_writer(mount);
	hugemap_wake_promoter(mount);
	return 0;
}
