// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Functions that a worker runs for a task that waits killably: the task may not run them itself
 * because of locks that it may hold, or because of its limits.
 */
#include <linux/completion.h>
#include <linux/cred.h>
#include <linux/fs.h>
#include <linux/refcount.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#include "worker.h"

/* The worker and the task each have a reference, because the task may be killed. */
struct task_work {
	struct work_struct work;
	struct completion done;
	refcount_t refs;
	struct hugemap_inode *hi;
	const struct cred *cred; /* the task's, for quotas */
	hugemap_work_fn fn;
	u64 pgoff, npages;
	struct hm_access access;
	int err;
};

static void worker_put_work(struct task_work *w)
{
	if (!refcount_dec_and_test(&w->refs))
		return;
	put_cred(w->cred);
	kfree(w);
}

static void worker_run_work(struct work_struct *work)
{
	struct task_work *w = container_of(work, struct task_work, work);
	const struct cred *old = override_creds(w->cred);

	w->err = w->fn(w->hi, w->pgoff, w->npages, w->access);
	revert_creds(old);
	complete(&w->done);
	iput(&w->hi->vfs_inode);
	worker_put_work(w);
}

int hugemap_by_worker(struct hugemap_inode *hi, hugemap_work_fn fn, u64 pgoff, u64 npages,
		      struct hm_access access)
{
	struct task_work *w = kmalloc(sizeof(*w), GFP_KERNEL);
	int err;

	if (!w)
		return -ENOMEM;
	INIT_WORK(&w->work, worker_run_work);
	init_completion(&w->done);
	refcount_set(&w->refs, 2);
	w->hi = hi;
	w->cred = get_current_cred();
	w->fn = fn;
	w->pgoff = pgoff;
	w->npages = npages;
	w->access = access;
	ihold(&hi->vfs_inode);
	queue_work(hugemap_of(hi)->lower_wq, &w->work);
	err = wait_for_completion_killable(&w->done) ? -EINTR : w->err;
	worker_put_work(w);
	return err;
}
