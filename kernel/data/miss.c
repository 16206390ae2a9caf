// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * A fault that has to wait: for a fill, for blocks of the lower file, for a change of the lower
 * file, or for the end of a write-back. It waits without the fault lock, and mm repeats it.
 */
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/hash.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/sched/clock.h>
#include <linux/sched/signal.h>

#include "access.h"
#include "fill.h"
#include "miss.h"
#include "reserve.h"
#include "wait.h"
#include "worker.h"

/*
 * The lower file system has no blocks for all of a huge unit. If the unit is clean, replace it by
 * the page alone, and reserve the blocks of the page.
 */
static int miss_reserve_page(struct hugemap_inode *hi, u64 pgoff, const struct hm_unit *huge)
{
	u32 tries = 0;

	while (hugemap_drop_huge(hi, huge->pgoff, huge->pgoff + huge->npages, &tries)) {
		int err;

		hugemap_race_point("fault: huge unit dropped, page not cached");
		err = hugemap_fill_page(hi, pgoff, HM_ACCESS(.size = HM_SIZE_BASE));
		if (err)
			return err;
		/* Another task may have reserved the huge unit and stored to it. */
		if (!hm_needs_alloc(hi->hfile, pgoff))
			return 0;
		if (!hugemap_has_huge(hi, pgoff))
			return hugemap_reserve(hi, pgoff, 1);
	}
	return -ENOSPC;
}

static int miss_reserve(struct hugemap_inode *hi, u64 pgoff)
{
	bool may_split = hugemap_of(hi)->opts.page == HUGEMAP_PAGE_AUTO;
	struct hm_unit unit;
	int err;

	hm_peek(hi->hfile, pgoff, &unit);
	err = hugemap_reserve(hi, unit.pgoff, unit.npages);
	if (hugemap_has_no_room(err) && may_split && unit.npages > 1)
		err = miss_reserve_page(hi, pgoff, &unit);
	return err;
}

/*
 * Wait until the page is cached. For a store, also wait for the end of a write-back of stable
 * pages, for blocks of the lower file, and for the end of a change of the lower file.
 */
static int miss_provide(struct hugemap_inode *hi, u64 pgoff, u64 stores, struct hm_access access)
{
	int err = hugemap_fill_page(hi, pgoff, access);

	if (!err && stores)
		err = hugemap_wait_stable(hi, pgoff);
	hugemap_race_point("fault: brought in, no room below");
	if (err || !stores)
		return err;
	if (hm_needs_alloc(hi->hfile, pgoff))
		err = miss_reserve(hi, pgoff);
	return err ?: hugemap_wait_store(hi, access.again);
}

/*
 * A fault that has dropped the fault lock cannot report an error. It keeps the error for its task,
 * and the repeated fault reports it. An error of another task may replace it; then the repeated
 * fault tries once more.
 */
static void miss_keep_error(struct hugemap_mount *mount, u64 pgoff, int err)
{
	struct hugemap_fault_error *kept = &mount->fault_error[hash_ptr(current, 6)];

	BUILD_BUG_ON(ARRAY_SIZE(mount->fault_error) != 1 << 6);
	/* No other task stores this task's pointer. */
	if (!err && READ_ONCE(kept->task) != current)
		return;
	spin_lock(&mount->fault_error_lock);
	if (err || kept->task == current)
		*kept = (struct hugemap_fault_error){ err ? current : NULL, pgoff, err };
	spin_unlock(&mount->fault_error_lock);
}

static int miss_kept_error(struct hugemap_mount *mount, u64 pgoff)
{
	struct hugemap_fault_error *kept = &mount->fault_error[hash_ptr(current, 6)];
	int err = 0;

	spin_lock(&mount->fault_error_lock);
	if (kept->task == current && kept->pgoff == pgoff) {
		err = kept->err;
		kept->task = NULL;
	}
	spin_unlock(&mount->fault_error_lock);
	return err;
}

/*
 * A fault of the kernel itself, by GUP or in a copy, may hold locks of the lower file system, even
 * those of the same lower file. So a worker does the work, and this task takes no lock.
 */
static int miss_wait(const struct vm_fault *vmf, struct hugemap_inode *hi, u64 pgoff, bool store,
		     struct hm_access access)
{
	int err;

	if (vmf->flags & FAULT_FLAG_USER)
		err = miss_provide(hi, pgoff, store, access);
	else
		err = hugemap_by_worker(hi, miss_provide, pgoff, store, access);
	/* After a signal the program faults again. */
	return err == -EINTR || err == -ERESTARTSYS ? -EINTR : err;
}

vm_fault_t hugemap_miss(struct vm_fault *vmf, bool again, bool store, u64 started)
{
	struct hugemap_inode *hi = hugemap_inode(file_inode(vmf->vma->vm_file));
	struct hugemap_mount *mount = hugemap_of(hi);
	struct hm_access access = hugemap_access_in(vmf->vma);
	pgoff_t pgoff = vmf->pgoff;
	struct file *file;
	int err = 0;

	access.again = again;
	if (vmf->flags & FAULT_FLAG_ALLOW_RETRY) {
		if (vmf->flags & FAULT_FLAG_RETRY_NOWAIT)
			return VM_FAULT_RETRY;
		if (vmf->flags & FAULT_FLAG_TRIED)
			err = miss_kept_error(mount, pgoff);
		if (!err) {
			file = hugemap_mm_unlock_fault(vmf);
			err = miss_wait(vmf, hi, pgoff, store, access);
			miss_keep_error(mount, pgoff, err == -EINTR ? 0 : err);
			/*
			 * If the program has unmapped the file, this is the last reference to the
			 * mount: use @mount before fput().
			 */
			hugemap_record(mount, HUGEMAP_H_FAULT_NS, local_clock() - started);
			fput(file);
			return VM_FAULT_RETRY | VM_FAULT_MAJOR;
		}
	} else {
		err = miss_wait(vmf, hi, pgoff, store, access);
		/* A caller that ignores fatal signals would retry for ever, so it gets an error. */
		if (err == -EINTR && !fatal_signal_pending(current))
			return VM_FAULT_NOPAGE;
	}
	/*
	 * SIGBUS for all errors, as Linux does for ENOSPC. -ENOMEM means that no frame became free,
	 * or that there was no memory, for example for a frame, an index node or the worker.
	 * VM_FAULT_OOM would make Linux kill an unrelated program.
	 */
	return err ? VM_FAULT_SIGBUS : 0;
}
