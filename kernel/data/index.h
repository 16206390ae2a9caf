/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* index.c: the memory that the cache core needs for a file: struct hm_file and index nodes. */
#ifndef HUGEMAP_DATA_INDEX_H
#define HUGEMAP_DATA_INDEX_H

#include "data.h"

/* The struct hm_file of the core, and the way back to its inode. */
struct hugemap_file_mem {
	struct hugemap_inode *hi;
	u8 core[] __aligned(64);
};

/*
 * The inode of a file that the core has returned. A claimed unit or a section of hugemap_files_srcu
 * keeps it in memory. The inode may be freeing.
 */
static inline struct hugemap_inode *hugemap_inode_of_file(const struct hm_file *hfile)
{
	return container_of((const u8 *)hfile, struct hugemap_file_mem, core[0])->hi;
}

/*
 * Create hi->hfile, unless it exists. The caller has opened the file. -ENOMEM, -EFBIG, or -EINTR
 * after a fatal signal. hugemap_drop_file() takes it out of the lists during the eviction of the
 * inode, when no unit is cached.
 */
int hugemap_need_file(struct hugemap_inode *hi);
void hugemap_drop_file(struct hugemap_inode *hi);

/*
 * Add an index node that the core lacks (HM_NO_NODE). 0: repeat the fault, the node may still be
 * missing; -ENOMEM; or -EINTR after a fatal signal.
 */
int hugemap_add_node(struct hugemap_inode *hi, u64 pgoff, enum hm_node_kind kind);

/*
 * Free the index nodes above a page that have no cached unit, after a grace period of RCU. The
 * caller keeps the file alive. Return true if there were any.
 */
bool hugemap_trim_index(struct hm_file *hfile, u64 pgoff);

/*
 * A unit has left the cache: keep the index nodes above it for its next use, unless the index is
 * too large. The caller keeps the inode. Does nothing if the inode is being evicted.
 */
void hugemap_keep_index(struct hugemap_inode *hi, u64 pgoff);

/* Free all nodes that hugemap_keep_index() has kept, and that still have no unit. */
void hugemap_trim_empty(struct hugemap_mount *mount);

/* hm_file_set_zero_fill() for any range: it sleeps in between. */
void hugemap_note_zero_fill(struct hugemap_inode *hi, u64 pgoff, u64 npages, bool zero_fill);

/* When the module is loaded and unloaded. */
int hugemap_index_setup(void);
void hugemap_index_teardown(void);

#endif /* HUGEMAP_DATA_INDEX_H */
