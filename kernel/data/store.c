// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * A regular file as a store of the core: its life, the index
 * nodes it needs, and room for it below.
 */
#include <linux/cred.h>
#include <linux/falloc.h>
#include <linux/fiemap.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/refcount.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/statfs.h>
#include <linux/workqueue.h>

#include "data.h"

/* Blocks that stay free below for its own needs. */
#define MIN_SPARE_BLOCKS 64u
#define PAGES_PER_SPARE_BLOCK 128u
/* Files that are looked at when stores are short. */
#define TRIM_STORES 64u

static struct kmem_cache *node_cache[HM_NODE_BASE + 1];

void hugemap_data_init(struct hugemap_inode *hi)
{
	unsigned int i;

	hi->hfile = NULL;
	hi->file_mem = NULL;
	hi->reader = NULL;
	hi->writer = NULL;
	hi->priority = 0;
	hi->failures = 0;
	for (i = 0; i < HUGEMAP_MAPPING_STORES; i++)
		atomic_set(&hi->mapping_stores[i], 0);
	hi->opens = 0;
	mutex_init(&hi->hfile_lock);
	mutex_init(&hi->grow_lock);
	hi->growth_failed_at = LLONG_MAX;
	INIT_LIST_HEAD(&hi->files);
	INIT_LIST_HEAD(&hi->idle);
	INIT_WORK(&hi->chunk, hugemap_chunk_work);
	hi->vfs_inode.i_mapping->a_ops = &hugemap_aops;
	mapping_set_large_folios(hi->vfs_inode.i_mapping);
}

bool hugemap_is_writing(struct hugemap_inode *hi, u64 pgoff)
{
	struct hm_unit unit;

	return hm_peek(hi->hfile, pgoff, &unit) == HM_WRITING;
}

int hugemap_wait_stable(struct hugemap_inode *hi, u64 pgoff)
{
	return wait_event_killable(*hugemap_wait_of(hugemap_of(hi), hi->hfile, pgoff),
				   !hugemap_stable_write_pending(hi, pgoff));
}

/* --- the index's nodes --------------------------------------------------------------- */

int hugemap_file_setup(void)
{
	static const char *const name[] = { "hugemap_dir", "hugemap_leaf", "hugemap_base" };
	u32 i;

	/* Not to be counted on by who asks what is available: they stay as long as the file. */
	for (i = 0; i < ARRAY_SIZE(node_cache); i++) {
		node_cache[i] =
			kmem_cache_create(name[i], hm_node_bytes(i), 64, SLAB_ACCOUNT, NULL);
		if (!node_cache[i]) {
			hugemap_file_teardown();
			return -ENOMEM;
		}
	}
	return 0;
}

void hugemap_file_teardown(void)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(node_cache); i++) {
		kmem_cache_destroy(node_cache[i]);
		node_cache[i] = NULL;
	}
}

/* The parts of a file's range that a bit each stands for. */
struct parts {
	loff_t start;
	u32 n, shift;
};

static u32 store_part_of(const struct parts *parts, loff_t pos)
{
	return (pos - parts->start) >> parts->shift;
}

/*
 * Which parts hold no data, and which have a hole: a bit each. Where the file
 * system cannot say, all of the file is data. What lies beyond its end holds
 * none; when the file grows, it becomes a hole. The core knows of growth first.
 */
static void store_find_holes(struct hugemap_inode *hi, const struct parts *parts,
			     unsigned long *zero_fill, unsigned long *holes)
{
	loff_t end = parts->start + ((loff_t)parts->n << parts->shift), at = parts->start;
	loff_t size = hm_file_size(hi->hfile);

	bitmap_zero(zero_fill, parts->n);
	bitmap_zero(holes, parts->n);
	if (!hi->lower)
		return;
	bitmap_fill(zero_fill, parts->n);
	while (at < end) {
		loff_t data = at < size ? vfs_llseek(hi->reader, at, SEEK_DATA) : -ENXIO;
		loff_t hole;

		if (data < 0)
			data = data == -ENXIO ? end : at;
		data = min(data, end);
		if (min(data, size) > at)
			bitmap_set(holes, store_part_of(parts, at),
				   store_part_of(parts, min(data, size) - 1) -
					   store_part_of(parts, at) + 1);
		if (data == end)
			return;
		hole = vfs_llseek(hi->reader, data, SEEK_HOLE);
		at = min(hole > data ? hole : max(size, data + 1), end);
		bitmap_clear(zero_fill, store_part_of(parts, data),
			     store_part_of(parts, at - 1) - store_part_of(parts, data) + 1);
	}
}

int hugemap_add_node(struct hugemap_inode *hi, u64 pgoff, enum hm_node_kind kind)
{
	struct parts parts = { .start = (loff_t)hm_leaf_start(pgoff) << HM_PAGE_SHIFT,
			       .n = HM_NODE_SLOTS,
			       .shift = HM_BLOCK_SHIFT };
	DECLARE_BITMAP(zero_fill, HM_NODE_SLOTS);
	DECLARE_BITMAP(holes, HM_NODE_SLOTS);
	/* Before anything is asked: who writes behind the end makes it larger meanwhile. */
	u64 size = hm_file_size(hi->hfile);
	void *node;

	BUILD_BUG_ON(HM_NODE_SLOTS < HM_BLOCK_PAGES);

	node = kmem_cache_zalloc(node_cache[kind], GFP_KERNEL);
	if (!node)
		return -ENOMEM;
	if (kind == HM_NODE_BASE) {
		parts = (struct parts){ .start = (loff_t)(pgoff & ~HUGEMAP_BLOCK_MASK)
						 << HM_PAGE_SHIFT,
					.n = HM_BLOCK_PAGES,
					.shift = HM_PAGE_SHIFT };
		if (hm_needs_alloc(hi->hfile, pgoff))
			store_find_holes(hi, &parts, zero_fill, holes);
		else
			bitmap_zero(holes, HM_BLOCK_PAGES);
	} else if (kind == HM_NODE_LEAF) {
		store_find_holes(hi, &parts, zero_fill, holes);
	}
	hugemap_race_point("index: holes known, node not there");
	if (!hm_file_add_node(hi->hfile, pgoff, kind, node, size, zero_fill, holes))
		kfree(node);
	return 0;
}

void hugemap_note_zero_fill(struct hugemap_inode *hi, u64 pgoff, u64 npages, bool zero_fill)
{
	u64 end = pgoff + npages, next;

	for (; pgoff < end; pgoff = next) {
		next = min(end, hm_leaf_start(pgoff) + HM_NODE_SLOTS * HM_BLOCK_PAGES);
		hm_file_set_zero_fill(hi->hfile, pgoff, next - pgoff, zero_fill);
		/* Terabytes of base pages take seconds. */
		cond_resched();
	}
}

/* --- life ------------------------------------------------------------------------------ */

/* A file of its own onto the lower file, with the rights of who mounted. */
static struct file *store_open_lower(struct hugemap_inode *hi, const struct file *upper, int flags)
{
	struct hugemap_mount *mount = hugemap_of(hi);

	if (mount->device)
		return get_file(mount->device);
	return hugemap_open_quietly(mount, &hugemap_lower_file(upper)->f_path, flags | O_NOATIME);
}

/*
 * Nobody uses it, and nothing of it is dirty: the store goes. @evicted: the inode, too.
 * Else it is the caller's alone, or this is false: a sync may have got it from the list.
 */
static bool store_end_file(struct hugemap_inode *hi, bool evicted)
{
	struct hugemap_mount *mount = hugemap_of(hi);
	struct hm_file *hfile = hi->hfile;
	void *node;

	/* Whoever holds a unit of it, or writes it, holds files_lock or a reference. */
	down_write(&mount->files_lock);
	if (!evicted && atomic_read(&hi->vfs_inode.i_count) != 1) {
		up_write(&mount->files_lock);
		return false;
	}
	list_del_init(&hi->files);
	WRITE_ONCE(hi->hfile, NULL);
	/* hm_writeback_pick() looks at all stores of the cache. */
	hm_file_destroy(hfile);
	up_write(&mount->files_lock);
	/* kfree() knows which cache an object is from. */
	while ((node = hm_file_take_node(hfile)))
		kfree(node);
	kvfree(hi->file_mem);
	hi->file_mem = NULL;
	return true;
}

static void store_close_files(struct hugemap_inode *hi)
{
	if (hi->writer)
		fput(hi->writer);
	if (hi->reader)
		fput(hi->reader);
	hi->writer = NULL;
	hi->reader = NULL;
}

/* End the store of a file that nobody has open. False: somebody came. */
static bool store_trim_file(struct hugemap_inode *hi)
{
	struct inode *inode = &hi->vfs_inode;
	bool unused = false;

	/* Names that are only remembered hold the inode, too. */
	d_prune_aliases(inode);
	hugemap_start_write_lower(hi);
	mutex_lock(&hi->hfile_lock);
	filemap_invalidate_lock(inode->i_mapping);
	if (hi->hfile && !hi->opens && !hugemap_write_range(hi, 0, U64_MAX)) {
		hugemap_invalidate(hi, 0, U64_MAX, false);
		/* One reference is ours: nobody works on it in the background. */
		unused = mapping_empty(inode->i_mapping) && store_end_file(hi, false);
		if (unused)
			store_close_files(hi);
	}
	filemap_invalidate_unlock(inode->i_mapping);
	mutex_unlock(&hi->hfile_lock);
	hugemap_end_write_lower(hi);
	return unused;
}

/* All stores that the core can have are there: end some of files not in use. */
static u32 store_trim_files(struct hugemap_mount *mount)
{
	struct hugemap_inode *hi, *found;
	u32 ended = 0, looked;

	for (looked = 0; looked < TRIM_STORES; looked++) {
		found = NULL;
		down_write(&mount->files_lock);
		list_for_each_entry(hi, &mount->files, files) {
			if (READ_ONCE(hi->opens) || !igrab(&hi->vfs_inode))
				continue;
			found = hi;
			list_move_tail(&hi->files, &mount->files);
			mount->files_moved++;
			break;
		}
		up_write(&mount->files_lock);
		if (!found)
			break;
		ended += store_trim_file(found);
		iput(&found->vfs_inode);
	}
	return ended;
}

static int store_make_file(struct hugemap_inode *hi)
{
	struct hugemap_mount *mount = hugemap_of(hi);
	struct hugemap_file_mem *mem;
	struct hm_file *hfile;

	mem = kvzalloc(sizeof(*mem) + hm_file_bytes(), GFP_KERNEL_ACCOUNT);
	if (!mem)
		return -ENOMEM;
	mem->hi = hi;
	/* A path's truncation beside it sees the store, or is seen. */
	filemap_invalidate_lock_shared(hi->vfs_inode.i_mapping);
	hfile = hm_file_init(mount->cache, mem->core, i_size_read(&hi->vfs_inode));
	if (!hfile) {
		filemap_invalidate_unlock_shared(hi->vfs_inode.i_mapping);
		kvfree(mem);
		return i_size_read(&hi->vfs_inode) >> HM_BLOCK_SHIFT > HM_FILE_BLOCKS_MAX ? -EFBIG :
											    -ENFILE;
	}
	hi->file_mem = mem;
	hi->write_at = 0;
	smp_store_release(&hi->hfile, hfile);
	filemap_invalidate_unlock_shared(hi->vfs_inode.i_mapping);
	down_write(&mount->files_lock);
	list_add_tail(&hi->files, &mount->files);
	up_write(&mount->files_lock);
	return 0;
}

static int store_open_files(struct hugemap_inode *hi, const struct file *file)
{
	struct file *lower;

	if (!hi->reader) {
		lower = store_open_lower(hi, file, O_RDONLY);
		if (IS_ERR(lower))
			return PTR_ERR(lower);
		hi->reader = lower;
	}
	if (!hi->writer && (file->f_mode & FMODE_WRITE)) {
		lower = store_open_lower(hi, file, O_RDWR);
		if (IS_ERR(lower))
			return PTR_ERR(lower);
		hi->stable = hugemap_wants_stable(lower);
		/* The times are those of stores and writes, not of write-back. */
		lower->f_mode |= FMODE_NOCMTIME;
		/* Pairs with the acquire in whoever writes back. */
		smp_store_release(&hi->writer, lower);
	}
	return 0;
}

int hugemap_data_open(struct inode *inode, struct file *file)
{
	struct hugemap_inode *hi = hugemap_inode(inode);
	int err;

	do {
		mutex_lock(&hi->hfile_lock);
		err = store_open_files(hi, file);
		if (!err && !hi->hfile)
			err = store_make_file(hi);
		if (!err)
			hi->opens++;
		mutex_unlock(&hi->hfile_lock);
	} while (err == -ENFILE && store_trim_files(hugemap_of(hi)));
	return err;
}

void hugemap_data_release(struct inode *inode)
{
	struct hugemap_inode *hi = hugemap_inode(inode);

	mutex_lock(&hi->hfile_lock);
	WARN_ON_ONCE(!hi->opens);
	hi->opens--;
	mutex_unlock(&hi->hfile_lock);
}

void hugemap_data_evict(struct inode *inode, bool discard)
{
	struct hugemap_inode *hi = hugemap_inode(inode);
	int err;

	if (!hi->hfile)
		goto close;
	/* Reclaim comes here, too, which must not wait: with nothing to write. */
	if (!discard && hm_file_dirty_pages(hi->hfile)) {
		hugemap_start_write_lower(hi);
		err = hugemap_write_range(hi, 0, U64_MAX);
		hugemap_end_write_lower(hi);
		if (err)
			pr_err("hugemap: %s: inode %llu leaves with %llu bytes that could not be written: error %d\n",
			       inode->i_sb->s_id, (u64)inode->i_ino,
			       hm_file_dirty_pages(hi->hfile) << HM_PAGE_SHIFT, err);
	}
	hugemap_invalidate(hi, 0, U64_MAX, true);
	store_end_file(hi, true);
close:
	store_close_files(hi);
}

/* --- what a fault or a call asks for ------------------------------------------------------- */

struct hm_access hugemap_access(const struct file *file)
{
	static const enum hm_size size_of[] = {
		[HUGEMAP_PAGE_2M] = HM_SIZE_HUGE,
		[HUGEMAP_PAGE_4K] = HM_SIZE_BASE,
		[HUGEMAP_PAGE_AUTO] = HM_SIZE_AUTO,
	};
	const struct hugemap_inode *hi = hugemap_inode(file_inode(file));
	const struct hugemap_file *private = file->private_data;
	const struct hugemap_mount *mount = hugemap_mount(hi->vfs_inode.i_sb);
	int priority = READ_ONCE(hi->priority);
	struct hm_access access = HM_ACCESS(.size = size_of[mount->opts.page]);

	if (!priority)
		priority = mount->opts.priority;
	if (priority)
		access.priority = priority > 0 ? HM_PRIORITY_HIGH : HM_PRIORITY_LOW;
	if (file->f_mode & FMODE_RANDOM)
		access.order = HM_ORDER_RANDOM;
	else if (READ_ONCE(private->sequential))
		access.order = HM_ORDER_SEQUENTIAL;
	return access;
}

struct hm_access hugemap_access_in(const struct vm_area_struct *vma)
{
	struct hm_access access = hugemap_access(vma->vm_file);

	if (likely(!(vma->vm_flags & (VM_SEQ_READ | VM_RAND_READ | VM_HUGEPAGE | VM_NOHUGEPAGE))))
		return access;
	if (vma->vm_flags & (VM_SEQ_READ | VM_RAND_READ))
		access.order = vma->vm_flags & VM_SEQ_READ ? HM_ORDER_SEQUENTIAL : HM_ORDER_RANDOM;
	/* Where the mount has one size only, that it is. */
	if (access.size == HM_SIZE_AUTO) {
		if (vma->vm_flags & VM_NOHUGEPAGE)
			access.size = HM_SIZE_BASE;
		else if (vma->vm_flags & VM_HUGEPAGE)
			access.promote = true;
	}
	return access;
}

/*
 * The lower file system needs a few blocks more than the data when it is written:
 * extents that are split, at worst one for each dirty page. Without them, data
 * that has room could not be written.
 */
static bool store_room_is_short(struct hugemap_inode *hi, loff_t bytes)
{
	u64 spare = MIN_SPARE_BLOCKS + hm_file_dirty_pages(hi->hfile) / PAGES_PER_SPARE_BLOCK;
	struct kstatfs st;

	if (vfs_statfs(&hi->writer->f_path, &st) || !st.f_blocks || !st.f_bsize)
		return false; /* it cannot say, or has no limit */
	return st.f_bavail < spare + DIV_ROUND_UP_ULL(bytes, st.f_bsize);
}

/*
 * Has the lower file something of a range: data, or room that was preallocated? Who cannot
 * say (tmpfs) has no extents to split.
 */
static bool store_has_extents(struct hugemap_inode *hi, loff_t pos, loff_t len)
{
	struct fiemap_extent_info info = {};

	if (!hi->lower->i_op->fiemap)
		return true;
	return !hi->lower->i_op->fiemap(hi->lower, &info, pos, len) && info.fi_extents_mapped;
}

/*
 * What is preallocated is a hole here, as it holds no data, and takes no room: when room is
 * short, as databases provide for, the lower file system has the last word.
 */
static int store_allocate(struct hugemap_inode *hi, struct file *writer, loff_t pos, loff_t len)
{
	bool is_short = store_room_is_short(hi, len);
	int err = -EOPNOTSUPP;

	if (is_short && !store_has_extents(hi, pos, len))
		return -ENOSPC;
	if (writer->f_op->fallocate)
		err = writer->f_op->fallocate(writer, FALLOC_FL_KEEP_SIZE, pos, len);
	/* Whoever cannot reserve tells at write-back. */
	if (err == -EOPNOTSUPP)
		err = is_short && !hi->lower->i_op->fiemap ? -ENOSPC : 0;
	return err;
}

static int store_reserve_room(struct hugemap_inode *hi, u64 pgoff, u64 npages,
			      struct hm_access unused)
{
	struct address_space *mapping = hi->vfs_inode.i_mapping;
	struct file *writer = smp_load_acquire(&hi->writer);
	loff_t pos = (loff_t)pgoff << HM_PAGE_SHIFT, len;
	int err = 0;

	hugemap_start_write_lower(hi);
	/* Nobody makes a hole between the allocation and the note of it. */
	filemap_invalidate_lock_shared(mapping);
	/* To the end of the last page: it will not be reserved again if the file grows. */
	len = round_up((loff_t)hm_file_size(hi->hfile), HM_PAGE_SIZE) - pos;
	len = min_t(loff_t, npages << HM_PAGE_SHIFT, len);
	if (len > 0) {
		err = store_allocate(hi, writer, pos, len);
		hugemap_race_point("room: allocated, not noted");
		if (!err)
			/* Not behind the end: who writes there may have noted it as holes. */
			hm_file_set_allocated(hi->hfile, pgoff, hugemap_pages(len));
	}
	filemap_invalidate_unlock_shared(mapping);
	hugemap_end_write_lower(hi);
	return err;
}

int hugemap_reserve(struct hugemap_inode *hi, u64 pgoff, u64 npages)
{
	int err = -EINTR;

	if (!hi->lower || !smp_load_acquire(&hi->writer))
		return 0;
	/*
	 * Some file systems hold a limit of the caller's against room in a file that does not
	 * become longer. A store to a mapping has no limit, and behind the end of the file
	 * below there may be much that write(2) was allowed.
	 */
	if (current->flags & PF_KTHREAD || rlimit(RLIMIT_FSIZE) == RLIM_INFINITY)
		err = store_reserve_room(hi, pgoff, npages, HM_ACCESS_READ);
	/*
	 * tmpfs may give no room while any signal is pending, nor a FUSE server: who has no
	 * signals asks again. Nothing is stored, or taken from a write, without room.
	 */
	if (err == -EINTR && !(current->flags & PF_KTHREAD) && !fatal_signal_pending(current))
		err = hugemap_by_worker(hi, store_reserve_room, pgoff, npages, HM_ACCESS_READ);
	return err;
}
