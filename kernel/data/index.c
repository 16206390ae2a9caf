// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The struct hm_file of cached files, and their index nodes, in which the core stores the states of
 * units. A new node has to record which units hold no data in the lower file, because a fill zeros
 * these without a read, and which units have holes, because a store to these needs blocks first.
 */
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/rcupdate.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "index.h"
#include "wait.h"

/* One for all mounts: no reader waits for I/O. */
DEFINE_SRCU(hugemap_files_srcu);

static struct kmem_cache *node_cache[HM_NODE_REST + 1];
static struct kmem_cache *file_cache; /* struct hugemap_file_mem */

int hugemap_index_setup(void)
{
	static const char *const name[] = { "hugemap_root", "hugemap_dir",  "hugemap_leaf",
					    "hugemap_head", "hugemap_base", "hugemap_first",
					    "hugemap_rest" };
	u32 i;

	file_cache = kmem_cache_create("hugemap_file",
				       sizeof(struct hugemap_file_mem) + hm_file_bytes(), 64,
				       SLAB_ACCOUNT, NULL);
	if (!file_cache)
		return -ENOMEM;
	/*
	 * No SLAB_RECLAIM_ACCOUNT, which would make the nodes count as available memory: they stay
	 * as long as units below them are cached.
	 */
	for (i = 0; i < ARRAY_SIZE(node_cache); i++) {
		node_cache[i] =
			kmem_cache_create(name[i], hm_node_bytes(i), 64, SLAB_ACCOUNT, NULL);
		if (!node_cache[i]) {
			hugemap_index_teardown();
			return -ENOMEM;
		}
	}
	return 0;
}

void hugemap_index_teardown(void)
{
	u32 i;

	/* Nodes may wait for their end. */
	rcu_barrier();
	for (i = 0; i < ARRAY_SIZE(node_cache); i++) {
		kmem_cache_destroy(node_cache[i]);
		node_cache[i] = NULL;
	}
	kmem_cache_destroy(file_cache);
	file_cache = NULL;
}

int hugemap_need_file(struct hugemap_inode *hi)
{
	struct address_space *mapping = hi->vfs_inode.i_mapping;
	struct hugemap_mount *mount = hugemap_of(hi);
	struct hugemap_file_mem *mem;
	struct hm_file *hfile;
	int err = 0;

	if (likely(smp_load_acquire(&hi->hfile)))
		return 0;
	mem = kmem_cache_zalloc(file_cache, GFP_KERNEL);
	if (!mem)
		return -ENOMEM;
	mem->hi = hi;
	/*
	 * A task may truncate the file at the same time. Under the invalidate_lock, either that
	 * task sees hi->hfile, or this one sees the new size.
	 */
	if (down_read_killable(&mapping->invalidate_lock)) {
		kfree(mem);
		return -EINTR;
	}
	spin_lock(&mount->files_lock);
	if (!hi->hfile) {
		hfile = hm_file_init(mount->cache, mem->core, i_size_read(&hi->vfs_inode));
		if (hfile) {
			hi->data->file_mem = mem;
			mem = NULL;
			smp_store_release(&hi->hfile, hfile);
			hi->data->nr = mount->next_nr++;
			list_add_tail_rcu(&hi->data->files, &mount->files);
		} else {
			err = -EFBIG;
		}
	}
	spin_unlock(&mount->files_lock);
	filemap_invalidate_unlock_shared(mapping);
	kfree(mem);
	return err;
}

void hugemap_drop_file(struct hugemap_inode *hi)
{
	struct hugemap_mount *mount = hugemap_of(hi);

	spin_lock(&mount->files_lock);
	list_del_rcu(&hi->data->files);
	spin_unlock(&mount->files_lock);
	hm_file_destroy(hi->hfile);
}

void hugemap_data_free(struct hugemap_inode *hi)
{
	void *node;

	if (!hi->hfile)
		return;
	/* kfree() finds the slab cache of an object. */
	while ((node = hm_file_take_node(hi->hfile))) {
		kfree(node);
		cond_resched();
	}
	kfree(hi->data->file_mem);
}

static void index_free_node(struct rcu_head *rcu)
{
	/* kfree() finds the slab cache of an object. */
	kfree(rcu);
}

/* The rcu_head lies at the start of the node. */
static void index_free_nodes(void **nodes, u32 n)
{
	while (n-- > 0)
		call_rcu((struct rcu_head *)nodes[n], index_free_node);
}

bool hugemap_trim_index(struct hm_file *hfile, u64 pgoff)
{
	void *nodes[HM_EMPTY_NODES];
	u32 n = hm_file_take_empty(hfile, pgoff, nodes);

	index_free_nodes(nodes, n);
	return n;
}

void hugemap_keep_index(struct hugemap_inode *hi, u64 pgoff)
{
	struct hugemap_mount *mount = hugemap_of(hi);

	if (hi->data->evicting)
		return;
	if (!hm_cache_index_excess(mount->cache) && hm_file_keep_empty(hi->hfile, pgoff))
		return;
	if (hugemap_trim_index(hi->hfile, pgoff))
		hugemap_wake_reclaimer(mount);
}

void hugemap_trim_empty(struct hugemap_mount *mount)
{
	int idx = srcu_read_lock(&hugemap_files_srcu);
	void *nodes[HM_EMPTY_NODES];
	u32 n, limit = HM_EMPTY_MAX;

	while (limit-- && hm_cache_take_empty(mount->cache, nodes, &n))
		index_free_nodes(nodes, n);
	srcu_read_unlock(&hugemap_files_srcu, idx);
}

/* A range of a file, in parts of equal size with one bit for each. */
struct parts {
	loff_t start;
	u32 n, shift;
};

static u32 index_part_of(const struct parts *parts, loff_t pos)
{
	return (pos - parts->start) >> parts->shift;
}

/*
 * Find the parts that hold no data, and the parts that have a hole: set their bits. If the lower
 * file system cannot report this, all parts hold data. A part beyond the end of the file holds no
 * data; it becomes a hole when the file grows, and the core learns of the growth first. The number
 * of seeks is proportional to the number of parts, even if each second block of the lower file is a
 * hole. Return 0, or -EINTR after a fatal signal.
 */
static int index_find_holes(struct hugemap_inode *hi, const struct parts *parts,
			    unsigned long *zero_fill, unsigned long *holes)
{
	loff_t end = parts->start + ((loff_t)parts->n << parts->shift), at = parts->start;
	loff_t size = hm_file_size(hi->hfile);

	if (!hi->lower)
		return 0;
	bitmap_fill(zero_fill, parts->n);
	while (at < end) {
		loff_t data = at < size ? vfs_llseek(hi->data->reader, at, SEEK_DATA) : -ENXIO;
		loff_t hole;

		if (fatal_signal_pending(current))
			return -EINTR;
		cond_resched();
		if (data < 0)
			data = data == -ENXIO ? end : at;
		data = min(data, end);
		if (min(data, size) > at)
			bitmap_set(holes, index_part_of(parts, at),
				   index_part_of(parts, min(data, size) - 1) -
					   index_part_of(parts, at) + 1);
		if (data == end)
			break;
		hole = vfs_llseek(hi->data->reader, data, SEEK_HOLE);
		at = min(hole > data ? hole : max(size, data + 1), end);
		bitmap_clear(zero_fill, index_part_of(parts, data),
			     index_part_of(parts, at - 1) - index_part_of(parts, data) + 1);
		/*
		 * This part holds data and has a hole, so both of its bits are known. Continue with
		 * the next part.
		 */
		if (at < min(end, size) && at & ((1ll << parts->shift) - 1)) {
			bitmap_set(holes, index_part_of(parts, at), 1);
			at = round_up(at, 1ll << parts->shift);
		}
	}
	return 0;
}

int hugemap_add_node(struct hugemap_inode *hi, u64 pgoff, enum hm_node_kind kind)
{
	struct parts parts = { .start = (loff_t)hm_node_start(pgoff, kind) << HM_PAGE_SHIFT,
			       .n = kind == HM_NODE_HEAD ? HM_HEAD_BLOCKS : HM_NODE_SLOTS,
			       .shift = HM_BLOCK_SHIFT };
	DECLARE_BITMAP(zero_fill, HM_NODE_SLOTS) = {};
	DECLARE_BITMAP(holes, HM_NODE_SLOTS) = {};
	/*
	 * Read the size before the holes: a writer that extends the file later sets the new part
	 * itself.
	 */
	u64 size = hm_file_size(hi->hfile);
	void *node;
	int err = 0;

	BUILD_BUG_ON(HM_NODE_SLOTS < HM_BLOCK_PAGES);

	node = kmem_cache_zalloc(node_cache[kind], GFP_KERNEL);
	if (!node)
		return -ENOMEM;
	hm_file_prepare_node(hi->hfile, pgoff, node);
	if (kind == HM_NODE_BASE || kind == HM_NODE_FIRST) {
		parts.n = HM_BLOCK_PAGES;
		parts.shift = HM_PAGE_SHIFT;
		if (hm_needs_alloc(hi->hfile, pgoff))
			err = index_find_holes(hi, &parts, zero_fill, holes);
	} else if (kind == HM_NODE_LEAF || kind == HM_NODE_HEAD) {
		err = index_find_holes(hi, &parts, zero_fill, holes);
	}
	hugemap_race_point("index: holes known, node not there");
	if (err || !hm_file_add_node(hi->hfile, pgoff, kind, node, size, zero_fill, holes))
		kfree(node);
	else if (hm_cache_index_excess(hugemap_of(hi)->cache))
		hugemap_wake_reclaimer(hugemap_of(hi));
	return err;
}

void hugemap_note_zero_fill(struct hugemap_inode *hi, u64 pgoff, u64 npages, bool zero_fill)
{
	u64 end = pgoff + npages, next;

	for (; pgoff < end; pgoff = next) {
		next = min(end,
			   hm_node_start(pgoff, HM_NODE_LEAF) + HM_NODE_SLOTS * HM_BLOCK_PAGES);
		hm_file_set_zero_fill(hi->hfile, pgoff, next - pgoff, zero_fill);
		/* A range of terabytes in base pages takes seconds. */
		cond_resched();
	}
}
