/* SPDX-License-Identifier: GPL-2.0-only OR MIT */
/* What the engine and `hugemap run` tell each other, and nobody else. */
#ifndef HM_FOR_RUN_H
#define HM_FOR_RUN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <linux/magic.h>

#ifndef XFS_SUPER_MAGIC
#define XFS_SUPER_MAGIC 0x58465342
#endif

/* The file systems that this machine alone changes, through one inode a file. */
static inline bool fs_is_local(unsigned long type)
{
	return type == EXT4_SUPER_MAGIC || type == XFS_SUPER_MAGIC || type == BTRFS_SUPER_MAGIC ||
	       type == F2FS_SUPER_MAGIC;
}

/* stray.c: the mapping at an address is better off with the kernel. It must not wait. */
typedef void stray_fn(void *addr);
extern stray_fn *_Atomic hugemap_stray_tell; /* NULL: nobody wants to know */

/*
 * park.c: while a file is mapped, no other process has it open for writing, and this
 * one stores to it through the engine alone.
 */
extern atomic_bool hugemap_files_are_guarded;

#endif /* HM_FOR_RUN_H */
